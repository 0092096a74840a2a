"""The connection to a server: the `openai` package's, without its retries, one for each event loop and address."""

from __future__ import annotations

import asyncio
import os
from typing import Any
from weakref import WeakKeyDictionary

import httpx2
import openai

from onward.codec import loads
from onward.errors import BadResponse, Fatal
from onward.llm.declaration import OFFICIAL, Declared
from onward.llm.unreached import NO_KEY, what_is_wrong, without_connection, without_key
from onward.ports.models import CURRENT, close_at_end

CONNECT_SECONDS = 20.0
_Known = dict[tuple[str, str, bool], openai.AsyncOpenAI]
_CLIENTS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Known] = WeakKeyDictionary()


def client_of(model: Declared) -> openai.AsyncOpenAI:
    """Raises Fatal where there is no key, or a key or an address with which no request can be made."""
    url, key = model.base_url, os.environ.get("OPENAI_API_KEY", "")
    if not key:
        if OFFICIAL in url:
            raise Fatal("OPENAI_API_KEY is not set; the key is taken from the environment alone")
        key = NO_KEY  # a server of one's own may want none
    desk = CURRENT.get()
    in_run = desk is not None and desk.is_at_home()  # on a loop of the step's own nobody closes it
    known = _CLIENTS.setdefault(asyncio.get_running_loop(), {})
    if (url, key, in_run) not in known:
        if wrong := what_is_wrong(url, key):
            raise Fatal(wrong)
        client = known[url, key, in_run] = _new(url, key, in_run)
        if in_run:
            close_at_end(client.close)
    return known[url, key, in_run]


def _new(url: str, key: str, in_run: bool) -> openai.AsyncOpenAI:
    timeout = httpx2.Timeout(None, connect=CONNECT_SECONDS)  # the step has a timeout of its own
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    # Its pool costs the same however many connections are open; the default's looks at all of them for each request.
    # But it wants to be closed, which outside of a run nobody does.
    kind = openai.DefaultAioHttpClient if in_run else openai.DefaultAsyncHttpxClient
    inner = kind(limits=limits, timeout=timeout)
    return _Client(api_key=key, base_url=url, max_retries=0, timeout=timeout, http_client=inner)


class _Client(openai.AsyncOpenAI):
    """Says of a server that cannot be asked where it was looked for, and of a key that is missing that it is."""

    async def request(self, *given: Any, **named: Any) -> Any:
        try:
            return await super().request(*given, **named)
        except openai.APIConnectionError as error:
            if (told := without_connection(error, self.base_url)) is None:
                raise
            raise told from error.__cause__
        except openai.AuthenticationError as error:
            if (refused := without_key(error, self.api_key)) is None:
                raise
            raise refused from error


async def post(model: Declared, path: str, body: dict[str, Any]) -> tuple[dict[str, Any], httpx2.Headers]:
    """The server's answer and its headers. Raises BadResponse, and what the `openai` package raises."""
    response = await client_of(model).post(path, body=body, cast_to=httpx2.Response)
    try:
        said = loads(response.content)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        kind = response.headers.get("content-type", "without a type")
        raise BadResponse(
            f"{model.traits.title} answered with status {response.status_code} and what is no JSON object ({kind}, "
            f"{len(response.content):,} bytes)"
        )
    return said, response.headers
