"""The triage example without a model: its e-mails out of the package's file, and the stand-in through the SDK."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import openai
import pytest
from pydantic import BaseModel

EXAMPLE = Path(__file__).parents[2] / "examples" / "triage"


class Reading(BaseModel):
    kind: Literal["question", "problem", "announcement", "discussion", "advertisement", "fraud"]
    urgent: bool
    summary: str


def package(path: Path, **mails: str) -> Path:
    """A file such as npm pack makes, with one e-mail for each `group__number`."""
    with tarfile.open(path, "w:gz") as files:
        for name, text in mails.items():
            group, number = name.replace("_", "-").split("--")
            data = json.dumps({"id": number, "group": group, "text": text}).encode()
            member = tarfile.TarInfo(f"package/data/{group}/{number}.0123abcd.json")
            member.size = len(data)
            files.addfile(member, io.BytesIO(data))
        files.addfile(tarfile.TarInfo("package/data/file_list.json"), io.BytesIO())
    return path


@pytest.fixture
def corpus(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    import corpus

    return corpus


def test_tickets_are_what_a_person_would_read(tmp_path: Path, corpus: object) -> None:
    page = "<html><body><style>p {}</style><p>Buy &amp; save</p><!-- x --></body></html>"
    mails = package(
        tmp_path / "p.tgz",
        easy_ham_1__00001="From a\nSubject: =?utf-8?q?Caf=C3=A9?=\n\nHello,\n\n\n\nthere.\x07\n",
        spam_2__00002=f"Subject: Offer\nContent-Type: text/html\n\n{page}",
        spam_1__00003="Subject: nothing\n\n   \n",
        hard_ham_1__00004="Subject: long\n\n" + "word " * 1_000,
    )
    found = {ticket["id"]: ticket for ticket in corpus.tickets(mails)}  # type: ignore[attr-defined]
    assert found.keys() == {"easy-ham-1/00001", "spam-2/00002", "hard-ham-1/00004"}
    assert found["easy-ham-1/00001"] == {
        "id": "easy-ham-1/00001",
        "subject": "Café",
        "body": "Hello,\n\nthere.",
        "spam": False,
    }
    assert (found["spam-2/00002"]["body"], found["spam-2/00002"]["spam"]) == ("Buy & save", True)
    assert len(found["hard-ham-1/00004"]["body"]) == 2_000


def test_reading_the_archive_is_announced_before_it_begins(
    tmp_path: Path, corpus: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = package(tmp_path / "p.tgz", easy_ham_1__00001="Subject: x\n\nHello.\n")
    monkeypatch.setattr(corpus, "package_file", lambda: archive)
    told: list[str] = []
    tickets = corpus.tickets  # type: ignore[attr-defined]
    monkeypatch.setattr(corpus, "tickets", lambda file: told.append(capsys.readouterr().err) or tickets(file))
    for _ in range(2):
        corpus.prepared(tmp_path / "tickets.jsonl")  # type: ignore[attr-defined]
    assert told == ["p.tgz is read, once, for tickets.jsonl: that takes a minute.\n"]
    assert capsys.readouterr().err == ""


@pytest.fixture
def stand_in() -> Iterator[openai.OpenAI]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(EXAMPLE / "stand_in.py"), "--port", str(port), "--latency", "0", "--until-eof"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    try:
        sys.path.insert(0, str(EXAMPLE))
        from stand_in import wait_until_there

        wait_until_there(port)
        with openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="any", max_retries=0) as client:
            yield client
    finally:
        sys.path.remove(str(EXAMPLE))
        assert process.stdin is not None
        process.stdin.close()
        process.wait(timeout=20)  # it ends when its starter does


@pytest.mark.parametrize(
    ("text", "kind", "urgent"),
    [
        ("Subject: Re: x\n\nMy build stops with an error.", "problem", False),
        ("Subject: Dear friend\n\nUS$ 30 million wait for you. This is urgent.", "fraud", True),
        ("Subject: lunch\n\nWe went to the old place.", "discussion", False),
    ],
)
def test_the_stand_in_answers_as_the_api_does(stand_in: openai.OpenAI, text: str, kind: str, urgent: bool) -> None:
    asked = [{"role": "system", "content": "Sort the mail; mind fraud."}, {"role": "user", "content": text}]
    answer = stand_in.responses.parse(model="stand-in", input=asked, text_format=Reading)  # type: ignore[arg-type]
    assert answer.output_parsed is not None
    assert (answer.output_parsed.kind, answer.output_parsed.urgent) == (kind, urgent)
    assert answer.output_parsed.summary in text
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens > 10
