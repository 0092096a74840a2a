"""Effects as they are declared: signatures, what may be injected where, and what is refused while the file is read."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, TypedDict

import pytest
from job_files import EmptySource
from pydantic import BaseModel

from onward.errors import DeclarationError
from onward.job.effects import Effect
from onward.job.job import Job
from onward.job.plan import EffectPlan, StepPlan
from onward.model import Retry
from onward.policy.effects import Traits
from onward.policy.identity import NoIdentity


@dataclass
class Params:
    day: str = "monday"


class Filing(BaseModel):
    entity: str
    filing_year: int
    fee: Decimal = Decimal(50)


class Receipt(BaseModel):
    number: int


class Body(BaseModel):
    fee: int


@pytest.fixture
def job() -> Job:
    job = Job("filings", EmptySource(), params=Params, record=Filing)

    @job.resource
    def registry() -> int:
        return 1

    @job.step
    def validate(filing: Filing) -> dict[str, Any]: ...

    return job


def bare() -> Job:
    return Job("filings", EmptySource())


def last(job: Job) -> StepPlan:
    return job.plan(Params() if job.params_type is not None else None).steps[-1]


def effect_of(job: Job) -> EffectPlan:
    effect = last(job).effect
    assert effect is not None
    return effect


def origins(call: Any) -> list[tuple[str, str]]:
    return [(argument.origin, argument.parameter) for argument in call.arguments]


# What it is.


def test_the_defaults_are_the_contracts() -> None:
    given = {
        name: parameter.default
        for name, parameter in inspect.signature(Job.effect).parameters.items()
        if name not in ("self", "name", "key")
    }
    retry, step = given.pop("retry"), inspect.signature(Job.step).parameters
    assert retry == Retry()
    assert {name: given.pop(name) for name in ("keyed", "probe_first", "deadline", "settle", "expires")} == {
        "keyed": False, "probe_first": True, "deadline": 60.0, "settle": 30.0, "expires": None,
    }  # fmt: skip
    assert {name: given.pop(name) for name in ("confirm_within", "on_unknown", "formerly")} == {
        "confirm_within": 86400.0, "on_unknown": "hold", "formerly": (),
    }  # fmt: skip
    assert given == {name: step[name].default for name in given}
    assert set(step) - {"self", "function", "retry"} - set(given) == {"process", "timeout", "calls_out"}
    assert inspect.signature(Job.effect).parameters["key"].default is inspect.Parameter.empty


def test_everything_reaches_the_plan(job: Job) -> None:
    @job.effect(
        "annual-report", key=("entity", "filing_year"), keyed=True, probe_first=False, deadline=9, settle=0,
        expires=86400, confirm_within=7200, on_unknown="resend", formerly="yearly-report", retry=Retry(attempts=7),
        concurrency=3, version="v2", max_output=99,
    )  # fmt: skip
    async def submit(filing: Filing, idempotency_key: str) -> Receipt: ...

    @submit.probe
    def asked(idempotency_key: str) -> Any: ...

    step = last(job)
    assert (step.retry, step.concurrency, step.version, step.max_output) == (Retry(attempts=7), 3, "v2", 99)
    assert (step.timeout, step.process, step.calls_out) == (9.0, False, True)
    effect = effect_of(job)
    assert (effect.name, effect.formerly) == ("annual-report", ("yearly-report",))
    assert effect.traits == Traits(
        keyed=True, has_probe=True, probe_first=False, deadline=9.0, settle=0.0, expires=86400.0, confirm_within=7200.0,
        on_unknown="resend",
    )  # fmt: skip
    assert (effect.payload, effect.confirm) == (None, None)


def test_steps_are_no_effects_and_effects_are_steps(job: Job) -> None:
    @job.effect("annual-report", key="entity")
    def submit(filing: Filing, validate: dict[str, Any]) -> Receipt: ...

    @job.step
    def reconcile(filing: Filing, submit: Receipt) -> str: ...

    assert isinstance(submit, Effect)
    validate, sent, after = job.plan(Params()).steps
    assert (validate.effect, after.effect) == (None, None)
    assert sent.effect is not None
    assert origins(after) == [("record", "filing"), ("step", "submit")]


def test_the_functions_stay_plain_functions() -> None:
    job = bare()

    @job.effect("e", key="id")
    def send(payload: Any) -> int:
        return 2 * int(payload)

    @send.payload
    def body(record: int) -> int:
        return record + 1

    @send.probe
    def ask(idempotency_key: str) -> str:
        return idempotency_key

    @send.confirm
    def confirmed(idempotency_key: str, send: int) -> bool:
        return send > 1

    assert (send(3), body(1), ask("k"), confirmed("k", 2)) == (6, 2, "k", True)
    assert (send.__name__, send.name) == ("send", "send")


# What may be injected.


def test_what_an_effect_and_its_parts_may_ask_for(job: Job) -> None:
    @job.effect("annual-report", key="entity")
    def submit(
        filing: Filing, validate: Any, registry: int, params: Params, context: Any, payload: Any, idempotency_key: str
    ) -> Receipt: ...

    @submit.payload
    def body(filing: Filing, validate: Any, registry: int, params: Params, context: Any) -> Body: ...

    @submit.probe
    def ask(
        filing: Filing, validate: Any, registry: int, params: Params, context: Any, payload: Any, idempotency_key: str
    ) -> Any: ...

    @submit.confirm
    def confirmed(
        filing: Filing, submit: Receipt, validate: Any, registry: int, params: Params, context: Any, payload: Any,
        idempotency_key: str,
    ) -> Any: ...  # fmt: skip

    common = [("step", "validate"), ("resource", "registry"), ("params", "params"), ("context", "context")]
    sent = [("payload", "payload"), ("idempotency_key", "idempotency_key")]
    effect = effect_of(job)
    assert origins(last(job)) == [("record", "filing"), *common, *sent]
    assert origins(effect.payload) == [("record", "filing"), *common]
    assert origins(effect.probe) == [("record", "filing"), *common, *sent]
    assert origins(effect.confirm) == [("record", "filing"), ("receipt", "submit"), *common, *sent]


@pytest.mark.parametrize("first", ["payload", "idempotency_key"])
def test_a_first_parameter_of_that_name_is_not_the_record(first: str) -> None:
    names: dict[str, Any] = {}
    exec(f"def submit({first}, context): ...\ndef ask({first}): ...\ndef confirmed({first}, submit): ...", names)
    job = bare()
    submit = job.effect("e", key="id")(names["submit"])
    submit.payload(lambda record: record)
    submit.probe(names["ask"])
    submit.confirm(names["confirmed"])
    effect = effect_of(job)
    assert origins(last(job)) == [(first, first), ("context", "context")]
    assert origins(effect.probe) == [(first, first)]
    assert origins(effect.confirm) == [(first, first), ("receipt", "submit")]


def test_any_other_first_parameter_is_the_record() -> None:
    job = bare()
    submit = job.effect("e", key="id")(lambda_named("submit", "body"))
    submit.confirm(lambda_named("confirmed", "receipt, submit"))
    assert origins(last(job)) == [("record", "body")]
    assert origins(effect_of(job).confirm) == [("record", "receipt"), ("receipt", "submit")]


def lambda_named(name: str, parameters: str) -> Any:
    names: dict[str, Any] = {}
    exec(f"def {name}({parameters}): ...", names)
    return names[name]


PARTS = ("payload", "probe", "confirm")


@pytest.mark.parametrize(
    ("part", "parameters", "words"),
    [
        ("payload", "payload", "first parameter receives the record's value, but 'payload' also names an effect's"),
        ("payload", "idempotency_key", "'idempotency_key' also names an effect's idempotency_key"),
        ("payload", "record, payload", "nothing declared before it is called 'payload'"),
        ("payload", "record, idempotency_key", "nothing declared before it is called 'idempotency_key'"),
        ("payload", "record, submit", "nothing declared before it is called 'submit'"),
        ("payload", "", "needs a first parameter"),
        ("probe", "record, submit", "nothing declared before it is called 'submit'"),
        ("probe", "record, paylod", "did you mean 'payload'.*payload.*idempotency_key"),
        ("probe", "", "needs a first parameter"),
        ("probe", "record, *rest", "name each argument"),
        ("confirm", "record, receipt", "nothing declared before it is called 'receipt'.*submit"),
        ("confirm", "record, later", "nothing declared before it is called 'later'"),
        ("confirm", "submit", "first parameter receives the record's value, but 'submit' also names"),
    ],
)
def test_what_a_part_cannot_ask_for(part: str, parameters: str, words: str) -> None:
    job = bare()
    submit = job.effect("e", key="id")(lambda_named("submit", "payload"))
    job.step(lambda_named("later", "record"))
    with pytest.raises(DeclarationError, match=words) as caught:
        getattr(submit, part)(lambda_named("own", parameters))
    assert f"submit.{part}" in str(caught.value)


def test_an_effect_cannot_receive_itself() -> None:
    with pytest.raises(DeclarationError, match="cannot receive itself"):
        bare().effect("e", key="id")(lambda_named("submit", "record, submit"))


@pytest.mark.parametrize("parameters", ["payload", "record, payload", "record, idempotency_key"])
def test_a_pure_step_knows_nothing_of_what_is_sent(parameters: str) -> None:
    with pytest.raises(DeclarationError, match=r"payload|idempotency_key"):
        bare().step(lambda_named("submit", parameters))


@pytest.mark.parametrize("name", ["payload", "idempotency_key", "context", "params"])
def test_names_that_mean_something_else_are_nobodys(name: str) -> None:
    for declare in (bare().effect("e", key="id"), bare().step, bare().resource):
        with pytest.raises(DeclarationError, match=f"cannot be called '{name}'"):
            declare(lambda_named(name, "record"))  # type: ignore[operator]


@pytest.mark.parametrize("part", PARTS)
def test_each_part_is_declared_once(part: str) -> None:
    submit = bare().effect("e", key="id")(lambda_named("submit", "payload"))
    getattr(submit, part)(lambda_named("one", "record"))
    with pytest.raises(DeclarationError, match=f"effect 'submit' has a {part} already"):
        getattr(submit, part)(lambda_named("other", "record"))


def test_values_are_decoded_by_who_takes_them_or_by_who_made_them(job: Job) -> None:
    @job.effect("annual-report", key="entity")
    def submit(payload: Any) -> Receipt: ...

    @submit.payload
    def body(filing: Filing) -> Body: ...

    @submit.confirm
    def confirmed(filing: Filing, submit, payload) -> Any: ...  # type: ignore[no-untyped-def]

    effect = effect_of(job)
    assert effect.payload is not None
    assert effect.payload.encode(Body(fee=5)) == '{"fee":5}'
    assert effect.confirm is not None
    decode = {one.parameter: one.decode for one in effect.confirm.arguments}
    assert decode["submit"] is not None
    assert decode["submit"]('{"number":7}') == Receipt(number=7)
    assert decode["payload"] is not None
    assert decode["payload"]('{"fee":5}') == Body(fee=5)


def test_a_payload_that_nothing_makes_is_refused(job: Job) -> None:
    def submit(payload: Any, idempotency_key: str, registry: Any) -> Receipt: ...

    effect = job.effect("annual-report", key="entity")(submit)
    place = re.escape(f"{__file__}:{submit.__code__.co_firstlineno}: effect 'submit' takes `payload` but nothing makes")
    with pytest.raises(DeclarationError, match=f"^{place} one: declare @submit.payload, or take the record"):
        job.plan(Params())
    effect.payload(lambda filing: {})
    assert effect_of(job).payload is not None


def test_a_payload_is_made_of_what_the_effect_takes(job: Job) -> None:
    @job.effect("annual-report", key="entity")
    def submit(filing: Filing, payload: Any) -> Receipt: ...

    @job.effect("late-fee", key="entity")
    def pay(payload: Any, validate: Any) -> Receipt: ...

    @job.effect("reminder", key="entity")
    def remind(idempotency_key: str) -> Receipt: ...

    plans = [step.effect for step in job.plan(Params()).steps if step.effect is not None]
    assert [[one.name for one in plan.inputs] for plan in plans] == [["filing"], ["validate"], []]


# Names and keys.


def test_two_effects_of_one_ledger_name_are_refused(job: Job) -> None:
    job.effect("annual-report", key="entity")(lambda_named("submit", "payload"))
    with pytest.raises(DeclarationError, match="effect 'submit' has the ledger name 'annual-report' already"):
        job.effect("annual-report", key="filing_year")(lambda_named("again", "payload"))
    job.effect("late-fee", key="entity")(lambda_named("pay", "payload"))
    assert [step.name for step in job.steps] == ["validate", "submit", "pay"]


def test_a_former_name_that_another_effect_has_now_is_refused(job: Job) -> None:
    job.effect("annual-report", key="entity")(lambda_named("submit", "payload"))
    with pytest.raises(DeclarationError, match="annual-report"):
        job.effect("late-fee", key="entity", formerly="annual-report")(lambda_named("pay", "payload"))


@pytest.mark.parametrize("name", ["", "  ", "a\nb", 7, None])
def test_names_that_are_no_names(name: Any) -> None:
    with pytest.raises(DeclarationError, match="name in the ledger is text"):
        bare().effect(name, key="id")(lambda_named("submit", "payload"))
    with pytest.raises(DeclarationError, match="name in the ledger is text"):
        bare().effect("e", key="id", formerly=[name])(lambda_named("submit", "payload"))


@pytest.mark.parametrize("key", ["", (), [], {}, None, 7, ("a", 7), ("a", ""), {"a": "int"}, {"a": float}, ("a", "a")])
def test_keys_that_cannot_be_meant(key: Any) -> None:
    with pytest.raises(DeclarationError, match="key"):
        bare().effect("e", key=key)(lambda_named("submit", "payload"))


def test_a_key_has_to_be_given() -> None:
    with pytest.raises(TypeError, match="key"):
        bare().effect("e")  # type: ignore[call-arg]


class Typed(TypedDict):
    entity: str


@dataclass
class Plain:
    entity: str


@pytest.mark.parametrize("record", [Filing, Plain, Typed])
def test_fields_that_the_records_type_lacks_are_named(record: Any) -> None:
    job = Job("filings", EmptySource(), record=record)
    with pytest.raises(
        DeclarationError, match="key= names year, revision, which the record type does not have"
    ) as caught:
        job.effect("e", key=("entity", "year", "revision"))(lambda_named("submit", "payload"))
    assert "fields: entity" in str(caught.value)
    job.effect("e", key="entity")(lambda_named("submit", "payload"))


class Weighed(BaseModel):
    id: str
    weight: float
    half: float | None = None


def test_a_field_that_the_records_type_makes_a_float_is_refused_at_once() -> None:
    job = Job("parcels", EmptySource(), record=Weighed)
    for field in ("weight", "half"):
        with pytest.raises(DeclarationError, match=f"'{field}' is a float"):
            job.effect("e", key=("id", field))(lambda_named("submit", "payload"))


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("deadline", 0, "deadline"),
        ("deadline", -1, "deadline"),
        ("deadline", "60", "deadline"),
        ("settle", -1, "settle"),
        ("settle", True, "settle"),
        ("settle", float("nan"), "settle must be a number of seconds, 0 or more"),
        ("deadline", float("inf"), "deadline"),
        ("confirm_within", float("nan"), "confirm_within"),
        ("expires", 86400, "with keyed=True"),
        ("expires", 0, "expires"),
        ("confirm_within", 0, "confirm_within"),
        ("on_unknown", "retry", "on_unknown must be 'hold' or 'resend'"),
        ("keyed", 1, "keyed"),
        ("probe_first", None, "probe_first"),
        ("formerly", "e", "which is the effect's name now"),
        ("retry", 3, "retry"),
        ("concurrency", 0, "concurrency"),
    ],
)
def test_values_that_cannot_be_meant(option: str, value: Any, words: str) -> None:
    with pytest.raises(DeclarationError, match=words) as caught:
        bare().effect("e", key="id", **{option: value})(lambda_named("submit", "payload"))
    assert "submit" in str(caught.value)


@pytest.mark.parametrize("expires", [1, 90, 90.0, float("inf"), float("nan"), -1])
def test_a_key_has_to_be_known_for_longer_than_a_send_may_take(expires: float) -> None:
    with pytest.raises(DeclarationError, match=r"expires") as caught:
        bare().effect("e", key="id", keyed=True, expires=expires)(lambda_named("submit", "payload"))
    assert "submit" in str(caught.value)
    bare().effect("e", key="id", keyed=True, expires=90.5)(lambda_named("submit", "payload"))
    bare().effect("e", key="id", keyed=True, expires=9, deadline=8, settle=0)(lambda_named("submit", "payload"))


@pytest.mark.parametrize("option", ["process", "timeout", "calls_out"])
def test_options_of_steps_that_effects_do_not_take(option: str) -> None:
    with pytest.raises(TypeError, match=option):
        bare().effect("e", key="id", **{option: 1})  # type: ignore[arg-type]


# The values of a key.


def fields(job: Job, text: str) -> dict[str, Any]:
    return dict(effect_of(job).identify(text))


def test_fields_take_their_type_from_the_record(job: Job) -> None:
    job.effect("e", key=("entity", "filing_year", "fee"))(lambda_named("submit", "record"))
    assert fields(job, '{"entity":"7","filing_year":"2024","fee":"50.00"}') == {
        "entity": "7", "filing_year": 2024, "fee": Decimal("50.00"),
    }  # fmt: skip


def test_or_from_the_key() -> None:
    job = bare()
    job.effect("e", key={"year": int, "due": date, "id": None})(lambda_named("submit", "record"))
    assert fields(job, '{"year":"2024","due":"2024-02-29","id":"x"}') == {
        "year": 2024, "due": date(2024, 2, 29), "id": "x",
    }  # fmt: skip


@pytest.mark.parametrize("text", ['{"id":1.5}', '{"id":[1]}', '{"no":1}', '"text"', "7", "null", "[1]"])
def test_records_without_an_identity_are_refused(text: str) -> None:
    from onward.policy.identity import idempotency_key

    job = bare()
    job.effect("e", key="id")(lambda_named("submit", "record"))
    with pytest.raises(NoIdentity, match=re.compile("'id'")):
        idempotency_key("e", fields(job, text))
