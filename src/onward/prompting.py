"""A prompt over every row of a file, as a job: what `onward prompt` runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from onward.codec import dumps, loads
from onward.errors import DeclarationError, Invalid, SourceError, UsageError
from onward.job.checks import job_name
from onward.job.job import Job
from onward.job.plan import JobReference
from onward.job.versions import fingerprint
from onward.llm.declaration import OFFICIAL
from onward.llm.form import SchemaForm
from onward.llm.model import Model
from onward.llm.prompt import Prompt, Text, read_texts
from onward.llm.schemas import Schema
from onward.model import Retry
from onward.sources.by_suffix import by_suffix, stem

STEP = "answer"
ROW = "row"
"""The variable that is the whole row, for columns whose names are no words: `{{ row["Order No."] }}`."""
CONCURRENCY = 256
RETRY = Retry(attempts=5)


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that such a job is made of, in plain JSON values, so that a child process makes the same.

    `model`: the arguments of Model. `schema`: what `schema_file` holds, None without one.
    """

    name: str
    input: str
    key: list[str]
    user: list[Any]
    system: list[Any] | None
    model: dict[str, Any]
    schema: Any = None
    schema_file: str = ""
    csv: dict[str, str] = field(default_factory=dict)


def read_recipe(
    input: str,
    key: Sequence[str],
    template: str,
    model: dict[str, Any],
    *,
    system: str | None = None,
    schema: str | None = None,
    name: str | None = None,
    csv: dict[str, str] | None = None,
) -> Recipe:
    """The recipe of what these files say. Raises UsageError."""
    user, of_system = read_texts(template, system)
    return Recipe(
        name=_name(name or f"prompt-{stem(input)}"),
        input=input,
        key=list(key),
        user=list(user),
        system=None if of_system is None else list(of_system),
        model=model,
        schema=None if schema is None else _read_json(schema),
        schema_file=schema or "",
        csv=csv or {},
    )


def make(recipe: Recipe) -> Job:
    """The job: one step, `answer`, whose output is the model's text, or the value that fits the schema.

    Its version covers the prompt's texts, the model, its parameters and the schema, and nothing else. Raises
    UsageError, DeclarationError.
    """
    prompt, model = prompt_of(recipe), Model(**recipe.model)
    form: Any = str if recipe.schema is None else SchemaForm(Schema(recipe.schema, recipe.schema_file))
    source = by_suffix(recipe.input, recipe.key, **recipe.csv)
    job = Job(recipe.name, source, concurrency=max(CONCURRENCY, model.traits.max_concurrency or 0))

    async def answer(row: Any) -> Any:
        from onward.llm.asking import ask

        try:
            return await ask(model, prompt, form, {ROW: row, **row})
        except UsageError as error:  # the template cannot be filled in with this row
            raise Invalid(str(error)) from None

    parts = [prompt.described(), model.described()]
    if recipe.schema is not None:
        parts.append(f"schema {dumps(recipe.schema)}")
    job.step(retry=RETRY, version=fingerprint(parts), uses=(prompt, model), calls_out=True)(answer)
    job.reference = JobReference(None, __name__, recipe.name, dumps(asdict(recipe)))
    return job


def job_of(text: str) -> Job:
    """The same job in another process; see JobReference."""
    return make(Recipe(**loads(text)))


def prompt_of(recipe: Recipe) -> Prompt:
    return Prompt.of_texts(Text(*recipe.user), None if recipe.system is None else Text(*recipe.system))


def check(recipe: Recipe) -> None:
    """Raises UsageError, SourceError for whatever would be wrong with every row, before one is asked about."""
    _check_model(Model(**recipe.model))
    columns = by_suffix(recipe.input, recipe.key, **recipe.csv).columns()
    if columns is None:  # it is empty or begins with a bad line, as the run will say
        return
    listed = ", ".join(columns)
    for key in recipe.key:
        if key not in columns:
            raise SourceError(f"the first record of {recipe.input} has no field {key!r} for --key (fields: {listed})")
    missing = prompt_of(recipe).missing([*columns, ROW])
    if missing:
        told = "; ".join(f"{place}: the template needs {name!r}" for name, place in missing)
        raise UsageError(f"{told}; {recipe.input} has no such column (columns: {listed})")


def store_beside(input: str) -> str:
    """Where the store is, unless the user says: in the input's folder."""
    return str(Path(input).parent / ".onward" / "onward.db")


def _check_model(model: Model) -> None:
    try:
        import onward.llm.asking  # noqa: F401 - it brings the package
    except ImportError as error:
        raise UsageError("asking a model needs openai; install it with: pip install 'onward[llm]'") from error
    if model.declared_url is None and OFFICIAL in model.base_url and not os.environ.get("OPENAI_API_KEY"):
        raise UsageError(
            "OPENAI_API_KEY is not set: the key is taken from the environment alone; for a server of your own give "
            "--base-url or set OPENAI_BASE_URL"
        )
    if model.traits.budget is not None and not model.traits.priced:
        raise UsageError(
            f"--budget: the price of model {model.name} is not known; give --price-in and --price-out, in US dollars "
            "for a million tokens"
        )


def _name(name: str) -> str:
    try:
        return job_name(name)
    except DeclarationError as error:
        raise UsageError(f"{error}; give another one with --name") from None


def _read_json(path: str) -> Any:
    try:
        return loads(Path(path).read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise UsageError(f"the schema {path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise UsageError(f"{path}: this is no JSON: {error}") from None
