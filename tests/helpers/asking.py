"""Questions to either API through the `openai` SDK, and where their answers stand."""

from __future__ import annotations

from typing import Any

import openai

APIS = ("responses", "chat")
TEXT = "The network in room 4 has been down since Monday, and nobody answers the telephone."


def ask(client: openai.OpenAI, api: str, question: str = TEXT, **more: Any) -> Any:
    if api == "responses":
        return client.responses.create(model="small", input=question, **more)
    return client.chat.completions.create(model="small", messages=[{"role": "user", "content": question}], **more)


def text_of(answer: Any) -> str:
    return answer.choices[0].message.content if hasattr(answer, "choices") else answer.output_text
