"""What the tests of the fake server for models share: one process a file, switches as at the start for each test."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from helpers.llm import KEY, LlmServer, llm_server


@pytest.fixture(scope="module")
def running_llm_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlmServer]:
    """With the file's own SWITCHES, where it has some."""
    switches = {"latency": 0.0, **getattr(request.module, "SWITCHES", {})}
    with llm_server(tmp_path_factory.mktemp("server"), **switches) as running:
        yield running


@pytest.fixture
def server(running_llm_server: LlmServer) -> LlmServer:
    running_llm_server.reset()
    return running_llm_server


@pytest.fixture
def client(server: LlmServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server.url, api_key=KEY, max_retries=0, timeout=20) as one:
        yield one
