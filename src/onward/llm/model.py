"""Models: what a step asks."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from onward.llm.declaration import Declared
from onward.llm.prompt import Prompt
from onward.ports.batches import Provider

T = TypeVar("T")


class Model(Declared):
    """A language model behind an API like OpenAI's; the key is OPENAI_API_KEY of the environment, and nothing else.

    Parameters
    ----------
    name : the provider's name of the model.
    base_url : where the API is, else OPENAI_BASE_URL, else OpenAI.
    api : "responses" or "chat"; a server that has only the other one is found out.
    requests_per_minute, tokens_per_minute, max_concurrency : ceilings for all steps that ask this object. How many
        requests are in progress adapts below them: it grows while answers come quickly and halves when throttled.
    max_output_tokens : where an answer is cut off, which ends its record quarantined.
    temperature : left to the provider where it is None.
    budget : US dollars, or Budget(usd=…, tokens=…), for one instance of the job; it needs max_output_tokens.
    prices : `{"input": 4.0, "cached_input": 1.0, "output": 12.0}`, USD for a million tokens, instead of the known ones.
    mode : "batch" sends the requests of many records together, at half the price, with answers within a day. It needs a
        run; the step is called again when its answer is there.
    dedupe : equal requests of one instance are asked once.

    Raises DeclarationError.
    """

    def batches(self) -> Provider:
        from onward.llm.batching import Batches

        return Batches(self)

    @overload
    async def ask(self, prompt: Prompt, *, returns: type[T], **variables: Any) -> T: ...

    @overload
    async def ask(self, prompt: Prompt, **variables: Any) -> str: ...

    async def ask(self, prompt: Prompt, *, returns: Any = str, **variables: Any) -> Any:
        """The model's answer to the prompt with these variables, validated as `returns`: text, a pydantic model, a
        dataclass, or whatever else pydantic reads.

        An answer that does not fit is sent back once with what is wrong with it. In a step of a run it is under the
        run's limits and budget; elsewhere it is one request.

        Raises UnusableAnswer (an Invalid) for answers that are cut off, empty, refused or still no fit, Invalid for a
        prompt that is no Unicode text, UsageError for a variable that the template does not know or lacks, BadResponse,
        and what the `openai` package raises.
        """
        from onward.llm.asking import ask

        return await ask(self, prompt, returns, variables)
