"""`onward prompt`: a prompt over every row of a file, without any Python."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from typing import Any, Unpack

from onward.cli import streams
from onward.cli.flags import COMMANDS, RunFlags
from onward.cli.run import Runnable, begin
from onward.cli.target import Target, store_words
from onward.errors import UsageError

_FLAT = (".csv", ".csv.gz", ".parquet")
_MODEL = ("base_url", "api", "temperature", "max_output_tokens", "requests_per_minute", "tokens_per_minute")
_MODEL_TOO = ("max_concurrency", "budget", "dedupe")
_OF_A_RUN = frozenset(RunFlags.__annotations__)


class PromptFlags(RunFlags):
    """All flags of `onward prompt`."""

    key: list[str]
    template: str
    model: str
    system: str | None
    schema: str | None
    out: str | None
    name: str | None
    base_url: str | None
    api: str
    temperature: float | None
    max_output_tokens: int | None
    requests_per_minute: float | None
    tokens_per_minute: float | None
    max_concurrency: int | None
    budget: float | None
    price_in: float | None
    price_out: float | None
    price_cached: float | None
    dedupe: bool
    sample: int | None
    delimiter: str | None
    encoding: str | None
    store: str | None
    instance: str | None
    params: list[str] | None


def prompt(input: str | None, **flags: Unpack[PromptFlags]) -> int:
    number = flags["sample"]
    if number is None:
        return begin(lambda: _runnable(input, flags), flags)
    from onward.cli.sample import sample

    return sample(_runnable(input, flags).target, number, None, False, flags["as_json"])


def _runnable(input: str | None, flags: PromptFlags) -> Runnable:
    """The job that is meant, checked. Raises UsageError, SourceError."""
    from onward import prompting, runner

    if input is None:
        raise UsageError("which rows? Give INPUT, a .csv, .jsonl or .parquet file")
    if flags["params"]:
        raise UsageError("onward prompt takes no params (-p): columns of the input are its variables")
    recipe = prompting.read_recipe(
        input,
        flags["key"],
        flags["template"],
        _model(flags),
        system=flags["system"],
        schema=flags["schema"],
        name=flags["name"],
        csv={name: given for name in ("delimiter", "encoding") if (given := _text(flags, name)) is not None},
    )
    store = flags["store"] if flags["store"] is not None else prompting.store_beside(input)
    job = prompting.make(recipe)
    prompting.check(recipe)
    out = flags["out"]
    results = _results(out or "results.jsonl")
    instance = ["--instance", flags["instance"]] if flags["instance"] else []
    typed = (*store_words(store), "--job", recipe.name, *instance)
    target = Target(job, typed, store, flags["instance"], None, tuple(_again(input, flags)), results)
    if out is None:
        return Runnable(target)
    own = [name for name in (input, flags["template"], flags["system"], flags["schema"]) if name is not None]
    _check_out(out, own, store)
    strange = runner.unknown_suffix(out)
    if strange:
        streams.err(f"onward: {strange} is no format (jsonl, csv, parquet): {out} gets JSON Lines")
    return Runnable(target, take=lambda: _export(target, out))


def _model(flags: PromptFlags) -> dict[str, Any]:
    """The arguments of Model. Raises UsageError in the words of the command line."""
    given: dict[str, Any] = {"name": flags["model"]}
    given |= {name: flags[name] for name in (*_MODEL, *_MODEL_TOO)}  # type: ignore[literal-required]
    if not flags["model"].strip():
        raise UsageError("--model is empty; give the provider's name of the model")
    if flags["budget"] is not None and flags["max_output_tokens"] is None:
        raise UsageError("--budget needs --max-output-tokens: without it an answer may cost any amount")
    prices = {"input": flags["price_in"], "output": flags["price_out"], "cached_input": flags["price_cached"]}
    if any(price is not None for price in prices.values()):
        if prices["input"] is None or prices["output"] is None:
            raise UsageError("a price is that of input and of output: give both --price-in and --price-out")
        given["prices"] = {name: price for name, price in prices.items() if price is not None}
    return given


def _text(flags: PromptFlags, name: str) -> str | None:
    given: str | None = flags[name]  # type: ignore[literal-required]
    return "\t" if name == "delimiter" and given == "\\t" else given


def _results(out: str) -> tuple[str, ...]:
    """The words behind `onward export`: tables are flat."""
    return ("--out", out, "--flat") if out.lower().endswith(_FLAT) else ("--out", out)


def _check_out(out: str, own: list[str], store: str) -> None:
    """Before anything is asked: an export at the end that cannot be would come too late. Raises UsageError."""
    from pathlib import Path

    from onward import runner

    if out == "-":
        raise UsageError("--out is a file here; onward export --out - writes to standard output")
    runner.open_sink(out, None, False)
    place = Path(out)
    if place.is_dir() or not place.absolute().parent.is_dir():
        raise UsageError(f"--out {out}: " + ("that is a folder" if place.is_dir() else "there is no such folder"))
    if runner.is_in_memory(store):
        raise UsageError("--out needs a store that outlives its run, not one in memory")
    if runner.is_of_store(place, store):
        raise UsageError(f"--out {out} belongs to the job's store; give another name")
    for name in own:
        if place.exists() and os.path.exists(name) and place.samefile(name):  # noqa: PTH110
            raise UsageError(f"--out {out} is what the prompt is made of; give another name")


def _export(target: Target, out: str) -> str:
    from onward import api

    rows = api.export(target.job, out, store=target.store, instance=target.instance, flat="--flat" in target.results)
    return f"{rows:,} {'row' if rows == 1 else 'rows'} written to {shlex.quote(out)}."


def _again(input: str, flags: PromptFlags) -> Iterator[str]:
    """The same command, without the bounds of one run."""
    yield from ("onward", "prompt", input)
    for flag in COMMANDS["prompt"].flags:
        given: Any = flags.get(flag.into)
        if flag.into in _OF_A_RUN or flag.into == "sample" or given is None or given is False or given == flag.default:
            continue
        if flag.into == "store" and not store_words(given):
            continue
        for value in given if flag.many else [given]:
            yield flag.name
            if not flag.is_switch:
                yield _number(value) if isinstance(value, float) else str(value)


def _number(value: float) -> str:
    """As it may be typed: without an exponent."""
    from decimal import Decimal

    return format(Decimal(repr(value)), "f").removesuffix(".0")
