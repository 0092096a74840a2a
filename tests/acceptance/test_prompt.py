"""`onward prompt`: a prompt over every row of a file, against a server in a process of its own."""

from __future__ import annotations

import csv
import json
import shlex
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from acceptance.jobs import Place, plain, wait_until
from helpers.llm import LlmServer, llm_server

TEMPLATE = "Say in one sentence what [[key={{ id }}]] wants:\n\n{{ body }}\n"
TEAM = {"type": "object", "properties": {"team": {"enum": ["billing", "support"]}}, "required": ["team"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlmServer]:
    running = LlmServer(tmp_path_factory.mktemp("server") / "requests.jsonl", latency=0.01)
    yield running
    running.close()


class Prompts(Place):
    """A folder with `tickets.csv`, `summary.txt` and `onward prompt` on them; the server's log from now on."""

    def __init__(self, folder: Path, server: LlmServer, rows: int = 6, template: str = TEMPLATE):
        super().__init__(folder, "")
        server.reset()
        self.server = server
        self._before = len(server.log())
        self.words = ["prompt", "tickets.csv", "--key", "id", "--template", "summary.txt", "--model", "small"]
        self.tickets([[f"T-{row}", f"The invoice {row} is wrong."] for row in range(rows)])
        (folder / "summary.txt").write_text(template)

    def tickets(self, rows: Sequence[Sequence[Any]], header: Sequence[str] = ("id", "body")) -> None:
        with (self.folder / "tickets.csv").open("w", newline="") as file:
            csv.writer(file).writerows([header, *rows])

    def prompt(self, *more: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return self.onward(*self.words, *more, env=self.server.environment | options.get("env", {}))

    def refused(self, *more: str, **options: Any) -> str:
        """What is said of a prompt that never begins: nothing is asked, and no store is made."""
        ended = self.prompt(*more, **options)
        assert (ended.returncode, ended.stdout) == (2, ""), ended
        assert self.asked() == []
        assert not (self.folder / ".onward").exists()
        plain(ended.stderr)
        return ended.stderr.removeprefix("onward: ").rstrip("\n")

    def asked(self) -> list[dict[str, Any]]:
        return self.server.log()[self._before :]

    def rows(self, name: str) -> list[dict[str, str]]:
        with (self.folder / name).open(newline="") as file:
            return list(csv.DictReader(file))

    def lines(self, name: str) -> list[Any]:
        return [json.loads(line) for line in (self.folder / name).read_text("utf-8").splitlines()]

    def done(self, name: str = "done.jsonl") -> list[str]:
        """The keys of the rows that have a durable answer."""
        self.fine("export", "--store", ".onward/onward.db", "--job", "prompt-tickets", "--out", name)
        return [line["key"] for line in self.lines(name)]


@pytest.fixture
def place(tmp_path: Path, server: LlmServer) -> Prompts:
    return Prompts(tmp_path, server)


def last_command(told: str) -> list[str]:
    """The command that the last line advises, in words."""
    words = shlex.split(told.splitlines()[-1])
    return words[words.index("onward") + 1 :]


# -- what comes out ---------------------------------------------------------------------------------------------------


def test_a_csv_becomes_a_csv_with_a_column_of_answers(place: Prompts) -> None:
    ended = place.prompt("--out", "answers.csv")
    assert ended.returncode == 0, ended.stderr
    said = ended.stdout.splitlines()
    assert said[0] == f"store {place.folder / '.onward/onward.db'} (new store, empty ledger of effects)"
    assert said[1] == "job prompt-tickets, run 1"
    assert said[-1].startswith("6 succeeded of 6 in ")
    assert said[-1].endswith(" s. 6 rows written to answers.csv.")
    rows = place.rows("answers.csv")
    assert list(rows[0]) == ["key", "id", "body", "answer", "state", "generation"]
    assert [row["key"] for row in rows] == [f"T-{row}" for row in range(6)]
    assert all(row["answer"].startswith("Answered: Say in one") for row in rows)
    assert sorted(line["key"] for line in place.asked()) == [f"T-{row}" for row in range(6)]


def test_without_out_the_last_line_says_how_to_export(place: Prompts) -> None:
    told = place.prompt().stdout
    command = last_command(told)
    assert command == ["export", "--store", ".onward/onward.db", "--job", "prompt-tickets", "--out", "results.jsonl"]
    place.fine(*command)
    first = place.lines("results.jsonl")[0]
    assert (first["key"], first["input"]["body"]) == ("T-0", "The invoice 0 is wrong.")
    assert first["outputs"]["answer"].startswith("Answered: ")


def test_json_lines_in_and_parquet_out(place: Prompts) -> None:
    place.write("tickets.jsonl", [{"id": number, "body": f"No. {number}", "lines": [1, 2]} for number in range(3)])
    place.words[1] = "tickets.jsonl"
    (place.folder / "summary.txt").write_text("{{ body }} of {{ lines | length }} lines, all: {{ row | tojson }}")
    assert place.prompt("--out", "answers.parquet").returncode == 0
    table = pq.read_table(place.folder / "answers.parquet").to_pylist()
    assert [row["key"] for row in table] == [0, 1, 2]
    assert table[1]["answer"].startswith("Answered: No. 1 of 2 lines, all: ")


def test_parquet_in_and_json_lines_out(place: Prompts) -> None:
    pq.write_table(pa.table({"id": [7, 8], "body": ["a", "b"]}), place.folder / "tickets.parquet")
    place.words[1] = "tickets.parquet"
    assert place.prompt("--out", "answers.jsonl").returncode == 0
    assert [line["input"] for line in place.lines("answers.jsonl")] == [{"id": 7, "body": "a"}, {"id": 8, "body": "b"}]


def test_a_column_may_have_any_name(place: Prompts) -> None:
    header = ["id", "prompt", "returns", "self", "model", "Order No."]
    place.tickets([["a", "p", "r", "s", "m", "17"]], header)
    (place.folder / "summary.txt").write_text(
        "{{ prompt }}{{ returns }}{{ self_ | default('-') }}{{ model }} {{ row['Order No.'] }}"
    )
    assert place.prompt("--out", "answers.jsonl").returncode == 0
    assert place.lines("answers.jsonl")[0]["outputs"]["answer"].startswith("Answered: pr-m 17")


def test_answers_are_json_that_fits_the_schema(place: Prompts) -> None:
    (place.folder / "team.json").write_text(json.dumps(TEAM))
    place.tickets([["a", "good"], ["b", "once wrong [[fault=misfit*1]]"], ["c", "never right [[fault=misfit]]"]])
    ended = place.prompt("--schema", "team.json", "--out", "teams.csv")
    assert ended.returncode == 1
    assert [(row["key"], row["answer.team"] in ("billing", "support")) for row in place.rows("teams.csv")] == [
        ("a", True),
        ("b", True),
    ]
    assert "2 succeeded, 1 quarantined of 3 in " in ended.stdout
    assert " s. 2 rows written to teams.csv. Next: onward failures " in ended.stdout.splitlines()[-1]
    failures = json.loads(place.fine(*last_command(ended.stdout), "--json"))
    assert (failures["key"], failures["state"], failures["kind"], failures["step"]) == (
        *("c", "quarantined", "invalid", "answer"),
    )
    assert len(place.asked()) == 5  # each that did not fit was asked for once more


# -- going on ---------------------------------------------------------------------------------------------------------


def test_killed_twice_no_row_is_asked_again_after_its_checkpoint(tmp_path: Path, server: LlmServer) -> None:
    place = Prompts(tmp_path, server, rows=300)
    server.control(latency=0.1)
    done: list[tuple[float, list[str]]] = []
    for enough in (60, 160):
        process = place.start(*place.words, "--max-concurrency", "16", "--out", "out.csv", env=server.environment)
        wait_until(lambda enough=enough: len(place.asked()) >= enough)
        process.kill()
        process.wait()
        done.append((time.time(), place.done()))
    assert 0 < len(done[0][1]) < len(done[1][1]) < 300
    ended = place.prompt("--max-concurrency", "16", "--out", "out.csv")
    assert ended.returncode == 0, ended.stderr
    assert [row["key"] for row in place.rows("out.csv")] == [f"T-{row}" for row in range(300)]
    server.wait_until_open(0)
    asked = place.asked()
    for killed, keys in done:
        assert not {line["key"] for line in asked if line["at"] > killed} & set(keys)
    assert len(asked) - 300 <= 2 * 16


def test_rows_in_flight_at_two_deaths_are_asked_in_a_child(tmp_path: Path) -> None:
    with llm_server(tmp_path, latency=60) as server:
        place = Prompts(tmp_path, server, rows=3)
        server.control(latency=60)
        for open_requests in (3, 6):  # those of the dead are never answered
            process = place.start(*place.words, env=server.environment)
            server.wait_until_open(open_requests)
            process.kill()
            process.wait()
        server.control(latency=0.01)
        ended = place.prompt("--out", "out.jsonl")
    assert ended.returncode == 0, ended.stderr
    assert "3 records under suspicion of killing the process: tried in child processes" in ended.stdout
    assert [line["key"] for line in place.lines("out.jsonl")] == ["T-0", "T-1", "T-2"]


def test_a_spent_budget_parks_the_job_and_the_command_to_go_on_leaves_it_to_be_raised(place: Prompts) -> None:
    priced = ("--price-in", "1", "--price-out", "1", "--max-output-tokens", "100", "--budget", "0.00042")
    ended = place.prompt("--max-concurrency", "1", *priced, "--out", "my answers.jsonl")
    assert ended.returncode == 4
    told = ended.stdout.splitlines()
    assert "stopped: the budget of model small is used up: $0.00042 ($0.000" in ended.stdout
    assert told[-2].startswith(
        "what is done so far: onward export --store .onward/onward.db --job prompt-tickets --out 'my"
    )
    assert not (place.folder / "my answers.jsonl").exists()
    again = last_command(ended.stdout)
    assert again == [
        *place.words,
        "--out",
        "my answers.jsonl",
        *("--max-output-tokens", "100", "--max-concurrency", "1"),
        *("--price-in", "1", "--price-out", "1"),
    ]
    assert ". Go on with a higher --budget: onward prompt" in told[-1]
    assert place.onward(*again, "--budget", "1", env=place.server.environment).returncode == 0
    assert len(place.lines("my answers.jsonl")) == 6
    assert len(place.asked()) == 6


def test_an_edited_template_makes_answers_stale_and_limits_do_not(place: Prompts) -> None:
    assert place.prompt().returncode == 0
    assert "stale" not in place.prompt("--requests-per-minute", "600", "--tokens-per-minute", "90000").stdout
    place.folder.joinpath("tickets.csv").rename(place.folder / "moved.csv")
    place.words[1] = "moved.csv"
    assert "stale" not in place.prompt("--name", "prompt-tickets", "--source-changed").stdout
    (place.folder / "summary.txt").write_text(TEMPLATE.replace("one", "two"))
    told = place.prompt("--name", "prompt-tickets").stdout
    assert "6 kept from the older prompt" in told
    assert "--job prompt-tickets --stale" in told
    place.fine("rerun", "--store", ".onward/onward.db", "--job", "prompt-tickets", "--stale")
    assert place.prompt("--name", "prompt-tickets", "--out", "new.csv").returncode == 0
    assert all("Say in two" in row["answer"] for row in place.rows("new.csv"))


def test_json_for_programs_ends_with_the_status(place: Prompts) -> None:
    ended = place.prompt("--json", "--out", "answers.jsonl")
    status = json.loads(ended.stdout)
    assert (status["job"], status["counts"]["succeeded"]) == ("prompt-tickets", 6)
    assert "6 rows written to answers.jsonl." in ended.stderr


def test_with_a_limit_what_there_is_is_written_and_the_rest_is_next(place: Prompts) -> None:
    ended = place.prompt("--limit", "2", "--out", "answers.csv")
    assert ended.returncode == 0
    assert [row["key"] for row in place.rows("answers.csv")] == ["T-0", "T-1"]
    assert " s. 2 rows written to answers.csv. Next: onward prompt " in ended.stdout.splitlines()[-1]
    assert last_command(ended.stdout) == [*place.words, "--out", "answers.csv"]


def test_answers_that_cannot_be_written_are_kept(place: Prompts) -> None:
    (place.folder / "out").mkdir()
    place.server.control(latency=3)
    process = place.start(*place.words, "--out", "out/answers.csv", env=place.server.environment)
    place.server.wait_until_open(6)
    (place.folder / "out").rmdir()
    assert process.wait() == 3
    told = (place.folder / "said.txt").read_text()
    command = "onward export --store .onward/onward.db --job prompt-tickets --out out/answers.csv --flat"
    assert f"; what is done is kept, {command} writes it" in told
    (place.folder / "out").mkdir()
    place.fine(*command.split()[1:])
    assert len(place.rows("out/answers.csv")) == 6


def test_equal_requests_are_asked_once(place: Prompts) -> None:
    place.tickets([["a", "same"], ["b", "same"], ["c", "other"]])
    (place.folder / "summary.txt").write_text("{{ body }}")
    assert place.prompt("--dedupe", "--out", "answers.csv").returncode == 0
    assert len(place.asked()) == 2
    assert len(place.rows("answers.csv")) == 3


# -- what is wrong ----------------------------------------------------------------------------------------------------


def test_a_variable_without_a_column_is_an_error_before_anything_is_asked(place: Prompts) -> None:
    (place.folder / "summary.txt").write_text("Hello,\n{{ boddy }}\n{{ colour }}\n")
    told = "summary.txt, line 2: the template needs 'boddy'; summary.txt, line 3: the template needs 'colour'"
    assert place.refused() == f"{told}; tickets.csv has no such column (columns: id, body)"
    pq.write_table(pa.table({"id": [7], "text": ["a"]}), place.folder / "tickets.parquet")
    place.words[1] = "tickets.parquet"
    assert place.refused().endswith("tickets.parquet has no such column (columns: id, text)")
    place.write("tickets.jsonl", [{"id": 1, "words": "a"}])
    place.words[1] = "tickets.jsonl"
    assert place.refused().endswith("tickets.jsonl has no such column (columns: id, words)")


def test_a_record_that_lacks_a_field_is_set_aside_alone(place: Prompts) -> None:
    place.write("tickets.jsonl", [{"id": 1, "body": "a"}, {"id": 2}, {"id": 3, "body": "c"}])
    place.words[1] = "tickets.jsonl"
    ended = place.prompt("--out", "answers.jsonl")
    assert ended.returncode == 1
    assert [line["key"] for line in place.lines("answers.jsonl")] == [1, 3]
    failure = json.loads(place.fine(*last_command(ended.stdout), "--json"))
    assert (failure["key"], failure["state"], failure["kind"], failure["attempts"]) == (2, "quarantined", "invalid", 1)
    assert "summary.txt, line 3: the template needs the variable 'body'" in failure["error"]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--template", "none.txt"), "the prompt none.txt cannot be read: No such file or directory (none.txt)"),
        (("--key", "number"), 'tickets.csv has no column "number"; its columns are "id", "body"'),
        (("--schema", "none.json"), "the schema none.json cannot be read: No such file or directory"),
        (("--schema", "summary.txt"), "summary.txt: this is no JSON: "),
        (("--budget", "5"), "--budget needs --max-output-tokens: without it an answer may cost any amount"),
        (("--budget", "5", "--max-output-tokens", "9"), "--budget: the price of model small is not known; give"),
        (("--price-in", "5"), "a price is that of input and of output: give both --price-in and --price-out"),
        (("--name", "a/b"), "a job's name must not contain '/' or control characters: 'a/b'; give another"),
        (("--out", "tickets.csv"), "--out tickets.csv is what the prompt is made of; give another name"),
        (("--out", "none/answers.csv"), "--out none/answers.csv: there is no such folder"),
        (("--out", "-"), "--out is a file here; onward export --out - writes to standard output"),
        (("-p", "day=1"), "onward prompt takes no params (-p): columns of the input are its variables"),
        (("--temperature", "hot"), "Invalid value for '--temperature'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_before_the_start(place: Prompts, more: tuple[str, ...], told: str) -> None:
    assert place.refused(*more).startswith(told)


def test_wrong_files_are_named(place: Prompts) -> None:
    (place.folder / "summary.txt").write_text("Hello\n{% if body %}\n{{ body }")
    assert place.refused().startswith("summary.txt, line 3: this is no valid Jinja2: ")
    place.words[1] = "tickets.xlsx"
    (place.folder / "summary.txt").write_text(TEMPLATE)
    assert place.refused().startswith("what is in tickets.xlsx its name does not say; give it one of .csv, ")
    place.words[1] = "none.csv"
    assert place.refused() == f"there is no file none.csv (looked for {place.folder / 'none.csv'})"
    place.write("tickets.jsonl", [{"number": 1, "body": "a"}])
    place.words[1] = "tickets.jsonl"
    assert place.refused() == "the first record of tickets.jsonl has no field 'id' for --key (fields: number, body)"


def test_the_key_of_the_api_must_be_there_unless_the_server_is_ones_own(place: Prompts) -> None:
    told = place.refused(env={"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""})
    assert told.startswith("OPENAI_API_KEY is not set: the key is taken from the environment alone; ")
    assert place.prompt("--base-url", place.server.url, env={"OPENAI_BASE_URL": ""}).returncode == 0


def test_an_empty_input_is_said_to_be_one(place: Prompts) -> None:
    place.tickets([])
    ended = place.prompt()
    assert ended.returncode == 0
    assert "the input is empty: it has no records" in ended.stdout
    assert last_command(ended.stdout) == place.words
    (place.folder / "tickets.csv").write_text("")
    assert "tickets.csv is empty: a CSV file begins with a line that names its columns" in place.prompt().stderr
