"""Files, and batches of requests that are answered in their own time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from .asked import CHAT, RESPONSES
from .bodies import Trouble, not_found
from .switches import Switches

FINISHED = ("completed", "failed", "expired", "cancelled")
MOST_LINES = 50_000
WINDOW = 24 * 3600
EXPIRED = {
    "code": "batch_expired",
    "message": "This request could not be executed before the completion window expired.",
}
Line = dict[str, Any]
Answering = Callable[[str, Any, str], tuple[int, dict[str, Any]]]
"""(endpoint, body, batch) → status and body."""


class Files:
    def __init__(self) -> None:
        self._files: dict[str, tuple[dict[str, Any], bytes]] = {}

    def add(self, content: bytes, name: str, purpose: str) -> dict[str, Any]:
        number = len(self._files) + 1
        described: dict[str, Any] = {
            "id": f"file-{number:06}",
            "object": "file",
            "bytes": len(content),
            "created_at": int(time.time()),
            "filename": name,
            "purpose": purpose,
            "status": "processed",
        }
        self._files[described["id"]] = described, content
        return described

    def _found(self, file: str) -> tuple[dict[str, Any], bytes]:
        if file not in self._files or not self._files[file][0]:
            raise not_found(f"File object: {file}")
        return self._files[file]

    def described(self, file: str) -> dict[str, Any]:
        return self._found(file)[0]

    def content(self, file: str) -> bytes:
        return self._found(file)[1]

    def delete(self, file: str) -> dict[str, Any]:
        self._found(file)
        self._files[file] = {}, b""
        return {"id": file, "object": "file", "deleted": True}

    def all(self) -> list[dict[str, Any]]:
        return [described for described, _ in reversed(self._files.values()) if described]


@dataclass
class Batch:
    """`times` holds when it came into each status, `missed` when it could have been listed first; the switches are
    those of its creation."""

    id: str
    endpoint: str
    input_file: str
    metadata: dict[str, str]
    made: float
    switches: Switches
    status: str = "validating"
    lines: list[Line] = field(default_factory=list)
    times: dict[str, float] = field(default_factory=dict)
    errors: list[dict[str, Any]] = field(default_factory=list)
    answered: int = 0
    failed: int = 0
    output: str | None = None
    error: str | None = None
    missed: float | None = None

    def is_listed(self, now: float) -> bool:
        """The lag begins when it is first not listed, however late that is."""
        if self.missed is None:
            self.missed = now
        return now >= self.missed + self.switches.batch_list_lag

    def body(self) -> dict[str, Any]:
        moments = ("in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled")
        return {
            "id": self.id,
            "object": "batch",
            "endpoint": self.endpoint,
            "errors": {"object": "list", "data": self.errors} if self.errors else None,
            "input_file_id": self.input_file,
            "completion_window": "24h",
            "status": self.status,
            "output_file_id": self.output,
            "error_file_id": self.error,
            "created_at": int(self.made),
            "expires_at": int(self.made) + WINDOW,
            **{f"{name}_at": int(self.times[name]) if name in self.times else None for name in moments},
            "request_counts": {"total": len(self.lines), "completed": self.answered, "failed": self.failed},
            "metadata": self.metadata or None,
        }


class Batches:
    """Time passes for a batch when it is looked at."""

    def __init__(self, files: Files, answering: Answering):
        self._files = files
        self._answering = answering
        self._batches: dict[str, Batch] = {}

    def create(self, body: Any, switches: Switches) -> dict[str, Any]:
        if body.get("endpoint") not in (RESPONSES, CHAT):
            raise Trouble(400, f"Invalid value: '{body.get('endpoint')}'.", param="endpoint")
        if body.get("completion_window") != "24h":
            raise Trouble(400, "completion_window must be '24h'.", param="completion_window")
        file = self._files.described(str(body.get("input_file_id")))
        if file["purpose"] != "batch":
            raise Trouble(400, "The purpose of the input file must be 'batch'.", param="input_file_id")
        name = f"batch_{len(self._batches) + 1:06}"
        batch = Batch(name, body["endpoint"], file["id"], body.get("metadata") or {}, time.time(), switches)
        self._batches[name] = batch
        return batch.body()

    def retrieve(self, name: str) -> dict[str, Any]:
        return self._looked_at(name).body()

    def listed(self, after: str | None, limit: int) -> dict[str, Any]:
        """Newest first."""
        now = time.time()
        names = [name for name, one in self._batches.items() if one.is_listed(now)][::-1]
        if after is not None:
            if after not in names:
                raise not_found(f"Batch object: {after}")
            names = names[names.index(after) + 1 :]
        page = [self._looked_at(name).body() for name in names[:limit]]
        return {
            "object": "list",
            "data": page,
            "first_id": page[0]["id"] if page else None,
            "last_id": page[-1]["id"] if page else None,
            "has_more": len(names) > limit,
        }

    def cancel(self, name: str) -> dict[str, Any]:
        batch = self._looked_at(name)
        if batch.status in FINISHED:
            raise Trouble(409, f"Cannot cancel a batch with status '{batch.status}'.")
        batch.status, batch.times["cancelling"] = "cancelling", time.time()
        return batch.body()

    def end_all(self, how: str) -> None:
        for name in self._batches:
            batch = self._looked_at(name)
            if batch.status not in FINISHED:
                self._read(batch)
                self._end(batch, how if not batch.errors else "failed", batch.switches.batch_done)

    def _looked_at(self, name: str) -> Batch:
        if name not in self._batches:
            raise not_found(f"Batch object: {name}")
        batch = self._batches[name]
        if batch.status not in FINISHED:
            self._pass_time(batch, time.time())
        return batch

    def _pass_time(self, batch: Batch, now: float) -> None:
        switches = batch.switches
        begun = batch.made + switches.batch_validating
        done = begun + switches.batch_running
        if batch.status == "cancelling":
            if now >= batch.times["cancelling"] + switches.batch_finalizing:
                self._read(batch)
                share = (batch.times["cancelling"] - begun) / max(switches.batch_running, 1e-9)
                self._end(batch, "cancelled", min(1.0, max(0.0, share)))
            return
        if now < begun:
            return
        if batch.status == "validating":
            self._read(batch)
            if batch.errors or switches.batch_end == "failed":
                self._end(batch, "failed", 0.0)
                return
            batch.status, batch.times["in_progress"] = "in_progress", begun
        if now < done:
            batch.answered = int(len(batch.lines) * (now - begun) / switches.batch_running)
        elif switches.batch_end == "expired":
            self._end(batch, "expired", switches.batch_done)
        elif now < done + switches.batch_finalizing:
            batch.status, batch.answered = "finalizing", len(batch.lines)
            batch.times.setdefault("finalizing", done)
        else:
            batch.times.setdefault("finalizing", done)
            self._end(batch, "completed", 1.0)

    def _read(self, batch: Batch) -> None:
        """Read and check the input, once."""
        if batch.lines or batch.errors:
            return
        seen: set[str] = set()
        for number, text in enumerate(self._files.content(batch.input_file).splitlines(), 1):
            try:
                line = orjson.loads(text)
                wrong = misfit(line, batch.endpoint, seen)
            except ValueError:
                line, wrong = {}, ("invalid_json_line", "This line is not parseable as valid JSON.")
            if wrong:
                batch.errors.append({"code": wrong[0], "message": wrong[1], "line": number, "param": None})
            else:
                batch.lines.append(line)
        if not 0 < len(batch.lines) <= MOST_LINES and not batch.errors:
            code = "too_many_requests" if batch.lines else "empty_file"
            batch.errors.append({"code": code, "message": "The batch has no or too many requests."})
        if batch.errors:
            batch.lines = []

    def _end(self, batch: Batch, how: str, share: float) -> None:
        batch.status, batch.times[how] = how, time.time()
        if how == "failed":
            batch.errors = batch.errors or [{"code": "internal_error", "message": "The batch failed.", "line": None}]
            batch.answered = 0
            return
        kept = batch.lines[: len(batch.lines) - batch.switches.batch_lost]
        reached = int(len(kept) * share)
        results = [self._answer(batch, line) for line in kept[:reached]]
        good = [one for one in results if one["response"]["status_code"] == 200]
        bad = [one for one in results if one["response"]["status_code"] != 200]
        batch.answered, batch.failed = len(good), len(bad)
        if how == "expired":
            bad += [result(line, None, EXPIRED) for line in kept[reached:]]
        random.Random(batch.id).shuffle(good)  # the order of the input is not promised
        batch.output = self._write(batch, good, "output")
        batch.error = self._write(batch, bad, "error")

    def _answer(self, batch: Batch, line: Line) -> Line:
        status, body = self._answering(batch.endpoint, line["body"], batch.id)
        response = {"status_code": status, "request_id": f"req_{line['custom_id']}", "body": body}
        return result(line, response, None)

    def _write(self, batch: Batch, lines: list[Line], what: str) -> str | None:
        if not lines:
            return None
        content = b"".join(orjson.dumps(line) + b"\n" for line in lines)
        return str(self._files.add(content, f"{batch.id}_{what}.jsonl", "batch_output")["id"])


def result(line: Line, response: dict[str, Any] | None, error: dict[str, Any] | None) -> Line:
    name = f"batch_req_{line['custom_id']}"
    return {"id": name, "custom_id": line["custom_id"], "response": response, "error": error}


def misfit(line: Any, endpoint: str, seen: set[str]) -> tuple[str, str] | None:
    """Why a line of the input is not accepted."""
    if not isinstance(line, dict) or not isinstance(line.get("body"), dict) or not line.get("custom_id"):
        return "missing_required_parameter", "Missing required parameter: custom_id, method, url or body."
    if line.get("url") != endpoint or line.get("method") != "POST":
        return "mismatched_url", f"The URL provided for this request does not match the batch endpoint {endpoint}."
    if line["custom_id"] in seen:
        return "duplicate_custom_id", f"The custom_id '{line['custom_id']}' is used more than once."
    seen.add(line["custom_id"])
    return None
