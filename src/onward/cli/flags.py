"""The commands and their flags as a table: how they are read, shown in help, and which variable stands for each.

It is read twice: by `direct`, which is quick, and by `parser`, which explains. Both take it from here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")


def text(given: str) -> str:
    return given


def count(given: str) -> int:
    """A number from 1 on. Raises ValueError."""
    if not given.strip().isdecimal() or int(given) < 1:
        raise ValueError(f"{given!r} is not a number from 1 on")
    return int(given)


def calls(given: str) -> int:
    """A number from 1 to a million. Raises ValueError."""
    from onward.job.checks import MOST_CALLS

    if count(given) > MOST_CALLS:
        raise ValueError(f"{given!r} is more than the {MOST_CALLS:,} calls that may be in progress")
    return count(given)


def seconds(given: str) -> float:
    """`55m`, `60s`, `1h30m`, `1.5h`, or plain seconds. Raises ValueError."""
    plain = str(given).strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", plain):
        return float(plain)
    parts = _PART.findall(plain)
    if not parts or _PART.sub("", plain).strip():
        raise ValueError(f"{given!r} is not a duration; write 30d, 12h, 1h30m, 55m, 90s or plain seconds")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def age(given: str) -> float:
    """`30d`, `12h`: as `seconds`, but what is removed by a number is not left to a guess. Raises ValueError."""
    if re.fullmatch(r"\d+(\.\d+)?", given.strip()):
        raise ValueError(f"{given!r} has no unit; write 30d, 12h or 90m")
    return seconds(given)


def dollars(given: str) -> float:
    """`5`, `0.50` or `$5`. Raises ValueError."""
    plain = given.strip().removeprefix("$")
    if not re.fullmatch(r"\d+(\.\d+)?", plain):
        raise ValueError(f"{given!r} is no amount in US dollars, such as 5 or 0.50")
    return float(plain)


def number(given: str) -> float:
    """`0.7`, `0`. Raises ValueError."""
    if not re.fullmatch(r"\d+(\.\d+)?", given.strip()):
        raise ValueError(f"{given!r} is not a number from 0 on")
    return float(given)


def per_minute(given: str) -> float:
    """`3000`, `0.5`. Raises ValueError."""
    if number(given) == 0:
        raise ValueError("0 a minute would be none at all")
    return float(given)


def one_of(*choices: str) -> Callable[[str], str]:
    def read(given: str) -> str:
        if given not in choices:
            raise ValueError(f"{given!r} is none of {', '.join(choices)}")
        return given

    return read


class Flag(NamedTuple):
    """One flag. `into` is the parameter of the command's function; without `metavar` it is a switch."""

    name: str
    into: str
    help: str
    metavar: str = ""
    read: Callable[[str], Any] = text
    default: Any = None
    shown_default: str = ""
    short: str = ""
    many: bool = False
    required: bool = False

    @property
    def variable(self) -> str:
        return "ONWARD_" + self.name.strip("-").upper().replace("-", "_")

    @property
    def is_switch(self) -> bool:
        return not self.metavar


class RunFlags(TypedDict):
    """What `onward run` and `onward prompt` share."""

    concurrency: int | None
    limit: int | None
    max_failures: str | None
    max_time: float | None
    wait: float
    grace: float
    log_format: str
    as_json: bool
    estimate: bool
    source_changed: bool
    no_create: bool


class Command(NamedTuple):
    """`home` is `module:function`; `words` says what stands beside the flags: `JOB`, or `JOB [KEY]...`. Where that is
    one word, `single` is the parameter that it goes into."""

    name: str
    home: str
    help: str
    words: str
    flags: tuple[Flag, ...]

    @property
    def single(self) -> str | None:
        return self.words.lower() if self.words in ("JOB", "INPUT") else None


DEBUG = Flag("--debug", "debug", "Show tracebacks.")
_STORE = Flag("--store", "store", "Path, sqlite:///… or postgresql://…; else .onward/onward.db by the job.", "URL")
_JOB_NAME = Flag("--job", "job_name", "With --store, instead of JOB: the job's name.", "NAME")
_INSTANCE = Flag("--instance", "instance", "The instance's name.", "NAME")
_PARAM = Flag("--param", "params", "A param of the job; repeatable.", "NAME=VALUE", short="-p", many=True)
_JSON = Flag("--json", "as_json", "JSON for programs.")
_KIND = Flag("--kind", "kind", "Those whose failure was transient, rejected, invalid, bug, …", "KIND")

_RUN = (
    Flag("--concurrency", "concurrency", "Most calls in progress.", "N", calls),
    Flag("--limit", "limit", "Start at most N unfinished records.", "N", count),
    Flag("--budget", "budget", "US dollars for the job's only model with a budget, instead of that.", "USD", dollars),
    Flag("--max-failures", "max_failures", "Stop when more records than that failed in this run.", "N|P%"),
    Flag("--max-time", "max_time", "Stop in good order after this time: 55m, 1h30m.", "TIME", seconds),
    Flag("--wait", "wait", "How long to stay for what is unconfirmed, closed or paused.", "TIME", seconds, 60.0, "60s"),
    Flag("--grace", "grace", "How long calls may go on once told to stop.", "TIME", seconds, 30.0, "30s"),
    Flag("--log-format", "log_format", "text, or json: one event a line on the error output.", "FORMAT",
         one_of("text", "json"), "text", "text"),
    Flag("--json", "as_json", "Last line of the output is the status object; all else is on the error output."),
    Flag("--estimate", "estimate", "Only tell how many records are to go, their cost and time; nothing is asked."),
    Flag("--source-changed", "source_changed", "The input lies elsewhere now; match it by key."),
    Flag("--no-create", "no_create", "A missing store is an error."),
    Flag("--on", "on", "Where several runs are to work: ray, ray://host:10001. Needs a store at postgresql://.",
         "CLUSTER"),
    Flag("--workers", "workers", "With --on: how many.", "N", count),
    _STORE, _INSTANCE, _PARAM, DEBUG,
)  # fmt: skip
_PROMPT = (
    Flag("--key", "key", "The column that identifies a row; repeatable, where it takes several.", "FIELD", many=True,
         required=True),
    Flag("--template", "template", "The prompt: Jinja2, a row's columns are its variables.", "FILE", required=True),
    Flag("--model", "model", "The provider's name of the model.", "NAME", required=True),
    Flag("--system", "system", "The system's text, Jinja2 too.", "FILE"),
    Flag("--schema", "schema", "A JSON schema that answers have to fit; they are then JSON values.", "FILE"),
    Flag("--out", "out", "Where the answers go when all is done: .jsonl, .csv, .parquet.", "FILE"),
    Flag("--name", "name", "The job's name; of tickets.csv it is prompt-tickets.", "NAME"),
    Flag("--base-url", "base_url", "Where the API is; else OPENAI_BASE_URL, else OpenAI.", "URL"),
    Flag("--api", "api", "responses, or chat for servers that have only that.", "API", one_of("responses", "chat"),
         "responses", "responses"),
    Flag("--temperature", "temperature", "Left to the provider unless it is given.", "N", number),
    Flag("--max-output-tokens", "max_output_tokens", "Where an answer is cut off, which sets its row aside.", "N",
         count),
    Flag("--requests-per-minute", "requests_per_minute", "At most so many requests a minute.", "N", per_minute),
    Flag("--tokens-per-minute", "tokens_per_minute", "At most so many tokens a minute.", "N", per_minute),
    Flag("--max-concurrency", "max_concurrency", "At most so many requests at once.", "N", count),
    Flag("--budget", "budget", "US dollars at most, over all runs; needs --max-output-tokens.", "USD", dollars),
    Flag("--price-in", "price_in", "US dollars for a million tokens of input.", "USD", dollars),
    Flag("--price-out", "price_out", "US dollars for a million tokens of output.", "USD", dollars),
    Flag("--price-cached", "price_cached", "US dollars for a million tokens of cached input.", "USD", dollars),
    Flag("--dedupe", "dedupe", "Equal requests are asked once and share the answer."),
    Flag("--sample", "sample", "After an edit: make N rows anew, and lay old and new side by side.", "N", count),
    Flag("--delimiter", "delimiter", "Between the cells of a CSV file.", "CHAR"),
    Flag("--encoding", "encoding", "Of a CSV file, where it is not UTF-8: cp1252.", "NAME"),
    *(flag for flag in _RUN if flag.name not in ("--budget", "--store", "--param", "--on", "--workers")),
    _STORE._replace(help="Path, sqlite:///… or postgresql://…; else .onward/onward.db by INPUT."),
    Flag("--param", "params", "A prompt's job takes none.", "NAME=VALUE", short="-p", many=True),
)  # fmt: skip
ABOUT = (_STORE, _JOB_NAME, _INSTANCE, _PARAM, DEBUG)


def _choosing(all_words: str, step_words: str) -> tuple[Flag, ...]:
    return (
        Flag("--from", "from_file", "A file of keys, one a line; - is standard input.", "FILE"),
        Flag("--all", "all", all_words),
        _KIND,
        Flag("--step", "step", step_words, "STEP"),
        Flag("--stale", "stale", "Those that today's steps would make anew."),
        Flag("--dry-run", "dry_run", "Only count them."),
        *ABOUT,
    )


_AT_STEP = "Those that failed at this step."
_FAILURES = (
    _JSON, _KIND,
    Flag("--state", "state", "Only failed, quarantined or unconfirmed ones.", "STATE"),
    *ABOUT,
)  # fmt: skip
_PAUSING = (
    Flag("--group", "group", "Only this group, by its value: CA.", "VALUE"),
    Flag("--reason", "reason", "Why, for the history.", "TEXT"),
    *ABOUT,
)
_REASON = Flag("--reason", "reason", "Why, for the history.", "TEXT")
_DRAIN = (Flag("--run", "run", "Only this run, by its number.", "RUN"), _REASON, *ABOUT)
_VACUUM = (
    Flag("--older-than", "older_than", "What nobody has needed for so long: 30d, 12h.", "TIME", age, required=True),
    Flag("--dry-run", "dry_run", "Only tell what would be removed."),
    _JSON,
    *ABOUT,
)
_EXPORT = (
    Flag("--out", "out", "The file to write; - is standard output.", "FILE"),
    Flag("--to", "to", "Instead of a file: a database, postgresql://…, sqlite:///… or a path.", "URL"),
    Flag("--table", "table", "With --to: its table, or schema.table; rows are upserted by key.", "NAME"),
    Flag("--format", "form", "jsonl, csv or parquet; else by the suffix.", "FORMAT"),
    Flag("--state", "state", "Records in this state.", "STATE", default="succeeded", shown_default="succeeded"),
    Flag("--flat", "flat", "Record fields and outputs as columns."),
    Flag("--generation", "generation", "last, or all: older results, too.", "WHICH",
         one_of("last", "all"), "last", "last"),
    Flag("--step", "steps", "Only this step's output; repeatable.", "STEP", many=True),
    *ABOUT,
)  # fmt: skip

_COPY = (
    Flag("--from", "source", "The store that it leaves; else that of JOB.", "URL"),
    Flag("--to", "to", "The store that it goes to: postgresql://…, sqlite:///… or a path.", "URL", required=True),
    _JOB_NAME._replace(help="Instead of JOB: the job's name; else the store's only job."),
    _INSTANCE._replace(help="Only this instance; else all of the job."),
    _PARAM, DEBUG,
)  # fmt: skip

_LOG = (
    _JSON,
    Flag("--since", "since", "Only entries from then on: 2026-11-30T09:00Z, or a span: 2h.", "TIME"),
    Flag("--payloads", "payloads", "Intents with what they are to send."),
    Flag("--verify", "verify", "Recompute all chains: 0 if they fit, 1 with the first entry that does not."),
    Flag("--expect", "expect", "Verify, and that a chain has this head.", "HASH"),
    *ABOUT,
)

_RECONCILE = (
    Flag("--sent", "sent", "It was sent: its receipt, as text, or as JSON with --json.", "RECEIPT"),
    Flag("--not-sent", "not_sent", "It was not sent: the next run sends it."),
    Flag("--from", "from_file", "A file of decisions, JSON lines; - is standard input.", "FILE"),
    Flag("--all", "all", "With --not-sent: all unconfirmed records."),
    Flag("--dry-run", "dry_run", "Only say what would be decided."),
    Flag("--effect", "effect", "Only this effect, by its name in the ledger.", "NAME"),
    Flag("--reason", "reason", "Why; it is kept with your name and the time.", "TEXT"),
    Flag("--json", "as_json", "JSON for programs; with --sent the receipt, too, is JSON."),
    *ABOUT,
)
_REHEARSE = (
    Flag("--records", "records", "How many records.", "N", count, 3, "3"),
    Flag("--wait", "wait", "How long to stay for what is unconfirmed after a kill.", "TIME", seconds, 120.0, "2m"),
    Flag("--yes", "yes", "On a terminal: begin at once."),
    _JSON,
    Flag("--store", "store", "Not looked at: a rehearsal has stores of its own.", "URL"),
    *ABOUT[1:],
)

KEY_HELP = """The idempotency key of an obligation, from its effect's key fields; needs no store.

VALUEs stand in the order of the effect's key=, each read as the record's type or key= says. Behind -- they may begin
with a dash."""

RECONCILE_HELP = """Settle what effects left open: ask again, or say how it is.

Without KEY all open probes and confirmations are asked again, each once, and what is confirmed goes on. With KEY and
--sent or --not-sent a person decides about one record, with several KEYs or --all and --not-sent about many.

Lines of --from FILE: {"key": 7, "sent": RECEIPT} or {"key": 7, "not_sent": true}, and "reason" where there is one.
What cannot be decided is named, and the rest is done: exit code 2.
"""

COPY_HELP = """Move a job to another store, where it goes on: records, outputs, history, ledger.

No run may be alive in either store. The old one keeps its copy, which can be looked at, and says where the job has
gone. Interrupted at any moment, the same command finishes it."""

REHEARSE_HELP = """Crash-test a job: its first records, killed at every commit and around every call of an effect.

Each time it is resumed, on a store that is thrown away. Effects are really
called: point the job at a test endpoint. It says first which, and under which
keys; on a terminal five seconds are then left for Ctrl-C.

\b
Exit codes:
0    clean
1    faults were found, or no record came to a good end undisturbed
2    wrong usage, bad job, bad input, or no records to rehearse
70   a fault of onward itself
"""

EXIT_CODES = """\b
Exit codes:
0    every record of the instance succeeded (with --limit: every one tried)
1    finished, but some are failed, unconfirmed or quarantined
2    wrong usage, bad job, bad input: nothing was started
3    stopped early, start it again (a signal, --max-time, a long outage, a closed group)
4    stopped early, a person must act first (fatal, budget, --max-failures, …)
70   a fault of onward itself
130  a second Ctrl-C; 143: a second SIGTERM
"""

RUN_HELP = f"""Run a job, or resume it: what is done stays done.

{EXIT_CODES}"""

PROMPT_HELP = f"""Ask a model about every row of a file: CSV, JSON Lines or Parquet.

Every answer is kept at once, in .onward/ beside INPUT: after Ctrl-C, a
kill, an outage or a spent budget the same command goes on where it was.
The template is Jinja2, a row's columns are its variables: {{{{ body }}}}, and
{{{{ row["Order No."] }}}} where the name is no word. The key of the API is
OPENAI_API_KEY of the environment.

\b
Examples:
onward prompt tickets.csv --key id --template summary.txt \\
    --model gpt-5-mini --out summaries.csv
onward prompt tickets.csv --key id --template triage.txt \\
    --schema ticket.json --model gpt-5-mini --max-output-tokens 500 \\
    --budget 20 --out triage.jsonl
onward prompt calls.parquet --key call --template notes.txt \\
    --model llama --base-url http://localhost:8000/v1 --api chat

{EXIT_CODES}"""

COMMANDS = {
    command.name: command
    for command in (
        Command("run", "run:run", RUN_HELP, "JOB", _RUN),
        Command("prompt", "prompt:prompt", PROMPT_HELP, "INPUT", _PROMPT),
        Command("status", "questions:status", "Counts by state and step, runs, what is waiting and why.", "JOB",
                (_JSON, *ABOUT)),
        Command("instances", "questions:instances", "The job's instances, oldest first.", "JOB", (_JSON, *ABOUT)),
        Command("failures", "questions:failures",
                "Failed, quarantined and unconfirmed records, those alike counted together first.", "JOB", _FAILURES),
        Command("show", "questions:show", "One record's whole history and the reasons.", "JOB KEY",
                (_JSON, Flag("--payloads", "payloads", "With what its effects send."), *ABOUT)),
        Command("log", "log:log", "Every decision and its reason, oldest first; --verify checks that none was changed.",
                "JOB", _LOG),
        Command("retry", "acts:retry", "Mark failed records to be tried again by the next run.", "JOB [KEY]...",
                _choosing("All failed records.", _AT_STEP)),
        Command("release", "acts:release", "Let quarantined records go on; --from FILE may bring corrected ones.",
                "JOB [KEY]...", _choosing("All quarantined records.", _AT_STEP)),
        Command("rerun", "acts:rerun", "Mark finished records for a new generation; the old ones stay.",
                "JOB [KEY]...",
                (Flag("--sample", "sample", "Make N anew at once, and lay old and new side by side.", "N",
                      count),
                 _JSON,
                 *_choosing("All finished records.", "From this step on; alone: all records that have it."))),
        Command("key", "keys:key", KEY_HELP, "JOB VALUE...",
                (Flag("--effect", "effect", "The effect's name in the ledger; needed where a job has several.", "NAME"),
                 _JSON, *ABOUT)),
        Command("reconcile", "reconcile:reconcile", RECONCILE_HELP, "JOB [KEY]...", _RECONCILE),
        Command("rehearse", "rehearse:rehearse", REHEARSE_HELP, "JOB", _REHEARSE),
        Command("copy", "copying:copy", COPY_HELP, "JOB", _COPY),
        Command("pause", "acts:pause", "Let no call begin any more, in a group or in all of the job.", "JOB",
                _PAUSING),
        Command("resume", "acts:resume", "Let a paused job or group go on.", "JOB", _PAUSING),
        Command("drain", "acts:drain", "Have runs at work finish their calls, begin no others, and end.", "JOB",
                _DRAIN),
        Command("concurrency", "acts:concurrency",
                "How many calls each run may have in progress, those at work too; default: as the job declares.",
                "JOB [N|default]", (_REASON, *ABOUT)),
        Command("vacuum", "acts:vacuum", "Remove what newer results have replaced, and give disk space back.", "JOB",
                _VACUUM),
        Command("export", "export:export", "Write results to a file, or into a table: of one moment, whole or absent.",
                "JOB", _EXPORT),
    )
}  # fmt: skip
