"""What a step gets and what its annotations say, on the level of a job."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

import pytest
from job_files import EmptySource
from pydantic import BaseModel

from onward.errors import DeclarationError, MisfitRecord, StaleCheckpoint
from onward.job.job import Job


@dataclasses.dataclass
class Part:
    size: int
    weight: float | None = None


def _job(record: Any = None) -> Job:
    return Job("values", EmptySource(), record=record)


class Ticket(BaseModel):
    id: str
    size: int


def test_a_record_is_decoded_by_the_consumer_then_by_the_jobs_record_then_plainly() -> None:
    def typed(ticket: Ticket) -> None: ...
    def plain(ticket: Any) -> None: ...
    def bare(ticket): ...  # type: ignore[no-untyped-def]

    text = '{"id":"a","size":"5"}'
    for record, expected in ((None, {"id": "a", "size": "5"}), (Ticket, Ticket(id="a", size=5))):
        job = _job(record)
        for function in (typed, plain, bare):
            job.step(function)
        decoded = [step.arguments[0].decode(text) for step in job.plan().steps if step.arguments[0].decode]
        assert decoded == [Ticket(id="a", size=5), {"id": "a", "size": "5"}, expected]


def test_an_output_is_decoded_by_the_consumer_then_by_the_producer_then_plainly() -> None:
    job = _job()

    @job.step
    def made(ticket: Any) -> Part: ...

    @job.step
    def untyped(ticket: Any): ...  # type: ignore[no-untyped-def]

    @job.step
    def uses(ticket: Any, made, untyped, context) -> None: ...  # type: ignore[no-untyped-def]

    @job.step
    def uses_typed(ticket: Any, made: dict[str, Any], untyped: Part) -> None: ...

    def decoded(step: int) -> list[Any]:
        arguments = job.plan().steps[step].arguments
        return [
            argument.decode('{"size":1}') for argument in arguments if argument.origin == "step" and argument.decode
        ]

    assert decoded(2) == [Part(1), {"size": 1}]
    assert decoded(3) == [{"size": 1}, Part(1)]


def test_misfits_name_what_to_look_at_and_not_the_value() -> None:
    job = _job(Ticket)

    @job.step
    def made(ticket: Ticket) -> Part: ...

    @job.step
    def uses(ticket: Ticket, made: Part) -> Part: ...

    plan = job.plan()
    record, output = (argument.decode for argument in plan.steps[1].arguments)
    assert record is not None
    assert output is not None
    assert plan.record_validate is not None
    with pytest.raises(MisfitRecord, match=r"^size: Input should be a valid integer") as misfit:
        record('{"id":"a","size":"secret"}')
    assert "secret" not in str(misfit.value)
    with pytest.raises(MisfitRecord, match=r"^id: Field required$"):
        plan.record_validate({"size": 1})
    with pytest.raises(StaleCheckpoint, match="the stored output of step 'made' no longer fits: size: ") as stale:
        output('{"weight":1}')
    assert stale.value.step == "made"


def test_a_record_with_a_lone_surrogate_is_read() -> None:
    job = _job(Ticket)
    job.step(_takes_ticket)
    decode = job.plan().steps[0].arguments[0].decode
    assert decode is not None
    assert decode(r'{"id":"\ud800","size":1}') == Ticket.model_construct(id="\ud800", size=1)


def _takes_ticket(ticket: Ticket) -> None: ...


def test_equal_arguments_share_their_decoder() -> None:
    job = _job(list[Ticket])

    @job.step
    def one(tickets: list[Ticket]) -> list[Part]: ...

    @job.step
    def two(tickets, one) -> None: ...  # type: ignore[no-untyped-def]

    @job.step
    def three(rows: list[Ticket], one: list[Part]) -> None: ...

    steps = job.plan().steps
    assert steps[0].arguments[0].decode is steps[1].arguments[0].decode is steps[2].arguments[0].decode
    assert steps[1].arguments[1].decode is steps[2].arguments[1].decode
    assert steps[1].arguments[0].decode is not steps[1].arguments[1].decode


class Plain:
    """pydantic knows nothing of it."""


def _returns_plain(value: Any) -> Plain: ...
def _returns_plains(value: Any) -> list[Plain]: ...
def _takes_plain(value: Plain) -> None: ...


@pytest.mark.parametrize("function", [_returns_plain, _returns_plains, _takes_plain])
def test_a_type_that_json_cannot_keep_is_refused_at_declaration(function: Any) -> None:
    with pytest.raises(DeclarationError, match=r"Plain.* cannot be kept as JSON; use plain values.*\.tolist\(\)") as it:
        _job().step(function)
    assert f"step '{function.__name__}': its " in str(it.value)


def _takes_misspelt(value: "Tickett") -> None: ...  # type: ignore[name-defined]  # noqa: F821, UP037


def test_an_annotation_that_never_gets_defined_is_an_error_of_the_plan() -> None:
    job = _job()
    job.step(_takes_misspelt)
    with pytest.raises(DeclarationError, match="its parameter 'value' uses a name that is not defined: Tickett"):
        job.plan()


def _takes_later(value: Later) -> Later: ...  # type: ignore[name-defined]  # noqa: F821


def test_classes_may_be_defined_after_the_steps_that_name_them() -> None:
    job = _job()
    job.step(_takes_later)
    globals()["Later"] = globals()["_Later"]
    step = job.plan().steps[0]
    assert step.arguments[0].decode is not None
    assert step.arguments[0].decode('{"size":1}') == _Later(1)


@dataclasses.dataclass
class _Later:
    size: int


def test_classes_inside_a_function_are_found() -> None:
    class Inner(BaseModel):
        size: int

    @dataclasses.dataclass
    class Outer:
        inner: Inner

    class Shaped(typing.TypedDict):
        inner: Inner
        outer: typing.NotRequired[Outer]

    job = _job(Shaped)

    @job.step(timeout=5)
    def one(value: Shaped) -> Outer: ...

    @job.step
    def two(value: list[Shaped] | Shaped, one: Outer) -> Inner: ...

    plan = job.plan()
    assert plan.record_validate is not None
    assert plan.record_validate({"inner": {"size": 1}}) == {"inner": Inner(size=1)}
    assert plan.steps[0].encode(Outer(Inner(size=2))) == '{"inner":{"size":2}}'
    decode = plan.steps[1].arguments[1].decode
    assert decode is not None
    assert decode('{"inner":{"size":2}}') == Outer(Inner(size=2))
