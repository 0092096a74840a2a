"""One question to a model: rendered, asked, judged, repaired once where its answer does not fit."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import openai

from onward.codec import canonical_hash, dumps
from onward.errors import BadResponse, Fatal, Invalid, Rejected, Transient, UnusableAnswer, UsageError, mark_as_a_models
from onward.job.values import Misfit
from onward.llm import chat, responses
from onward.llm.answers import Answer, Misshapen, Request, Turn
from onward.llm.client import client_of, post
from onward.llm.declaration import Declared
from onward.llm.form import Form, form_of, what_is_wrong
from onward.llm.prices import charge, most
from onward.llm.prompt import Prompt
from onward.model import BatchRequest, Spent
from onward.policy.clients import Connection, connection
from onward.ports.models import CURRENT, ModelDesk, has_lost_its_desk

FOR_EACH_TURN = 64
"""Bytes: more than the words that a dialect puts around a turn come to, in tokens."""
RETRIED_CODES = frozenset({"server_error", "rate_limit_exceeded", "vector_store_timeout"})
_DIALECTS: Mapping[str, Any] = {"responses": responses, "chat": chat}


async def ask(model: Declared, prompt: Prompt, returns: Any, variables: Mapping[str, Any]) -> Any:
    """See Model.ask."""
    try:
        return await _asked(model, prompt, returns, variables)
    except Exception as error:
        mark_as_a_models(error)
        raise


async def _asked(model: Declared, prompt: Prompt, returns: Any, variables: Mapping[str, Any]) -> Any:
    if has_lost_its_desk(model.traits):
        raise UsageError(
            f"{model.traits.title} is asked in a thread that does not know of its step, whose limits and budget it is "
            "under: start it with asyncio.to_thread, or with contextvars.copy_context().run"
        )
    form = form_of(returns)
    system, user = prompt.render(**variables)
    if any(_unicode(text) != text for text in (system or "", user)):
        raise Invalid("the prompt has half of a surrogate pair in it, which no request can hold")
    request = Request(
        model.name, system, (Turn("user", user),), form.schema, model.max_output_tokens, model.temperature
    )
    asked = _Question(model, CURRENT.get(), form)
    if model.dedupe and asked.desk is not None:
        same = fingerprint(request, model.traits.place)
        text = await asked.desk.shared(same, lambda: asked.answered(request), asked.fits)
    else:
        text = await asked.answered(request)
    return form.read(text)


def _unicode(text: str) -> str:
    """The text with halves of surrogate pairs, which are no Unicode, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def fingerprint(request: Request, place: str = "") -> str:
    """The same for requests that ask the same, in the same place where several are told apart."""
    asked = responses.body(request)
    return canonical_hash(dumps([place, asked] if place else asked))


@dataclass(slots=True)
class _Question:
    model: Declared
    desk: ModelDesk | None
    form: Form

    def fits(self, text: str) -> bool:
        """Whether an answer to an equal request will do here: what is made of it may have changed since."""
        try:
            self.form.read(text)
        except Misfit:
            return False
        return True

    async def answered(self, request: Request) -> str:
        """The text of an answer that fits."""
        answer = await self._usable(request)
        try:
            self.form.read(answer.text)
            return answer.text
        except Misfit as misfit:
            said, wrong = _unicode(answer.text), _unicode(what_is_wrong(misfit))
            turns = (*request.turns, Turn("assistant", said), Turn("user", wrong))
        again = await self._usable(replace(request, turns=turns), repairs=1)
        try:
            self.form.read(again.text)
            return again.text
        except Misfit as misfit:
            raise UnusableAnswer(f"the answer does not fit, also not when asked again: {misfit}", again.text) from None

    async def _usable(self, request: Request, repairs: int = 0) -> Answer:
        answer = await self._sent(request, repairs)
        if answer.finish == "done" and answer.text:
            return answer
        raise _why_not(answer, request)

    async def _sent(self, request: Request, repairs: int) -> Answer:
        if self.model.mode == "batch":
            return await self._batched(request, repairs)
        client_of(self.model)  # where nothing can be sent it says so now, before anything is counted
        most_of = self._most(request)
        if self.desk is not None and self.model.traits.budget is not None:
            await self.desk.reserve(self.model.name, most_of)
        spent, began = Spent(self.model.name, requests=1, repairs=repairs), time.monotonic()
        may_be_charged = True
        try:
            answer = await self._exchanged(request)
            may_be_charged = False
            charge(spent, self.model.price, answer.usage)
            return answer
        except (openai.APIStatusError, openai.APIConnectionError) as error:
            may_be_charged = _may_be_charged(error)
            raise
        finally:
            spent.seconds = time.monotonic() - began
            spent.lost = int(may_be_charged)
            if self.desk is not None:
                self.desk.settle(spent, most_of)

    async def _batched(self, request: Request, repairs: int) -> Answer:
        """Leaves the step with Deferred until the answer is there."""
        if self.desk is None:
            raise UsageError(
                f"model {self.model.name} has mode='batch', whose answers come later: it is asked in steps of a run; "
                "elsewhere, and in steps that are no coroutines, ask a model with mode='online'"
            )
        from onward.llm import batching

        dialect, place, most_of = _DIALECTS[self.model.api], self.model.traits.place, self._most(request)
        said = await self.desk.batched(
            BatchRequest(
                fingerprint(request, place),
                self.model.name,
                place,
                dialect.PATH,
                dumps(dialect.body(request)),
                (most_of.picodollars + 1) // 2,
                most_of.tokens_in + most_of.tokens_out,
                repairs,
            )
        )
        return batching.read(said)

    async def _exchanged(self, request: Request) -> Answer:
        api = self.model.api
        try:
            return await self._exchanged_in(api, request)
        except openai.NotFoundError as error:
            if api != "responses" or error.code == "model_not_found":
                raise
            unknown = error
        try:  # whether the server knows the older API
            answer = await self._exchanged_in("chat", request)
        except openai.NotFoundError as error:
            raise (error if error.code == "model_not_found" else unknown) from None
        self.model.api = "chat"
        return answer

    async def _exchanged_in(self, api: str, request: Request) -> Answer:
        dialect = _DIALECTS[api]
        try:
            said, headers = await post(self.model, dialect.PATH, dialect.body(request))
        except openai.BadRequestError as error:
            if error.code == "invalid_json_schema":
                raise Fatal(f"{self.model.traits.title} refuses the schema of the answer: {error.message}") from error
            raise
        if self.desk is not None:
            self.desk.heard(self.model.name, headers)
        try:
            answer: Answer = dialect.answer(said)
        except Misshapen as wrong:
            title = self.model.traits.title
            raise BadResponse(f"{title} answered with JSON that is no answer of its API: {wrong}") from None
        return answer

    def _most(self, request: Request) -> Spent:
        """The most that the request can cost: a token is at least one byte."""
        texts = [request.system or "", *(turn.text for turn in request.turns)]
        schema = dumps(request.schema[1]) if request.schema is not None else ""
        size = sum(len(text.encode("utf-8", "surrogatepass")) + FOR_EACH_TURN for text in (*texts, schema))
        out = request.max_output_tokens or 0
        price = self.model.price
        picodollars = 0 if price is None else most(price, size, out)
        return Spent(self.model.name, tokens_in=size, tokens_out=out, picodollars=picodollars)


def _may_be_charged(error: openai.APIError) -> bool:
    """Whether an answer may have been lost on the way: an error that a server tells costs nothing."""
    if isinstance(error, openai.APIStatusError):
        return False
    return connection(error) is Connection.UNKNOWN


def _why_not(answer: Answer, request: Request) -> Exception:
    """Each reason in words of its own. Asking the same again would end the same."""
    if answer.finish == "cut off":
        where = f"max_output_tokens={request.max_output_tokens}" if request.max_output_tokens else "the model's limit"
        more = "; max_output_tokens, or --max-output-tokens, gives it more room" if request.max_output_tokens else ""
        return UnusableAnswer(f"the answer was cut off at {where} ({answer.reason}){more}", answer.text)
    if answer.finish == "filtered":
        return UnusableAnswer("the provider's content filter cut the answer off", answer.text)
    if answer.finish == "refused":
        return UnusableAnswer("the model refused to answer", answer.text)
    if answer.finish == "called":
        return UnusableAnswer("the model called a tool in place of an answer", answer.text)
    if answer.finish == "unknown":
        return UnusableAnswer(f"the answer ended for a reason that is not known: {answer.reason!r}", answer.text)
    if answer.finish == "done":
        return UnusableAnswer("the answer is empty", answer.text)
    if answer.code in RETRIED_CODES:
        return Transient(f"the provider failed: {answer.code}: {answer.reason}")
    return Rejected(f"the provider failed: {answer.code}: {answer.reason}")
