"""What steps name besides code: the models that they ask, and whatever else is part of their version."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal

from onward.errors import UsageError
from onward.ports.batches import Provider

PICO = 10**12
_BY_NAME = ("budget", "requests_per_minute", "tokens_per_minute", "max_concurrency")


class Described:
    """A value that is part of the version of every step that names it."""

    def described(self) -> str:
        """Text that changes exactly when results may."""
        raise NotImplementedError


def described_in(value: object) -> list[Described]:
    """The value itself, or those that a plain collection holds."""
    if isinstance(value, Described):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [one for part in value for one in described_in(part)]
    return []


@dataclass(frozen=True, slots=True)
class Cap:
    """The most that may be spent on a model, for one instance. None: as much as it takes."""

    picodollars: int | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ModelTraits:
    """What a run knows of a model that a step names. Rates count by the minute; `title` is for people.

    `priced`: what it costs is known. Those with the same object share its ceilings. `place`: its address as declared,
    `path` that of its API there; `batching`: makes what talks to the provider, where the model is asked in batches.
    """

    name: str
    title: str
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    max_concurrency: int | None = None
    budget: Cap | None = None
    priced: bool = False
    place: str = ""
    path: str = ""
    batching: Callable[[], Provider] | None = None


class AskedModel(Described):
    """The base of what steps ask. `traits` are what admission, budgets and people see of it."""

    traits: ModelTraits


def models_among(described: Iterable[Described]) -> tuple[ModelTraits, ...]:
    """The models, each once, in the order in which they are named."""
    return tuple({id(one): one.traits for one in described if isinstance(one, AskedModel)}.values())


def refuse_both_modes(steps: Iterable[tuple[str, tuple[ModelTraits, ...]]]) -> None:
    """Raise UsageError for a step (by its name) that asks models online and in batches: called again for the sake of
    its batch, it would ask and pay the one online again."""
    for step, models in steps:
        online = [model.name for model in models if model.batching is None]
        in_batches = [model.name for model in models if model.batching is not None]
        if online and in_batches:
            raise UsageError(
                f"step {step} asks model {online[0]} with mode='online' and model {in_batches[0]} with mode='batch', "
                "for whose answer it is called again: give each a step of its own"
            )


def refuse_namesakes(models: Iterable[ModelTraits]) -> None:
    """Raise UsageError for models of one name with different budgets or limits: what is spent is counted by name."""
    known: dict[str, ModelTraits] = {}
    for model in models:
        other = known.setdefault(model.name, model)
        for what in _BY_NAME:
            if getattr(model, what) != getattr(other, what):
                raise UsageError(
                    f"two models are named {model.name} and differ in {what}: what is spent and asked is counted by "
                    "the name; give both the same, or let the steps ask the same Model object"
                )


def caps_of(models: Iterable[ModelTraits], usd: float | None = None) -> dict[str, Cap]:
    """The budgets of a run's models by name; `usd` stands instead of that of the only model with one.

    Raises UsageError where that is not clear, or where a budget in dollars meets a model whose price is not known.
    """
    caps = {model.name: model.budget for model in models if model.budget is not None}
    priced = {model.name: model.priced for model in models}
    if usd is not None:
        if len(caps) != 1:
            names = ", ".join(caps) or "none of its models has one"
            raise UsageError(f"--budget stands instead of the budget of the job's only budgeted model, not of: {names}")
        name, declared = next(iter(caps.items()))
        caps[name] = Cap(in_picodollars(usd), declared.tokens)
    for name, cap in caps.items():
        if cap.picodollars is not None and not priced[name]:
            raise UsageError(
                f"model {name} has a budget in dollars, and its price is not known: give Model({name!r}, "
                'prices={"input": …, "output": …}), in USD for a million tokens, or a Budget(tokens=…)'
            )
    return caps


def in_picodollars(usd: float | Decimal) -> int:
    return int(Decimal(str(usd)) * PICO)
