"""A stand-in for a model's API: it answers by a few words in the question, after a moment. It understands nothing.

python stand_in.py [--port 8720] [--latency 0.05]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KINDS = {
    "fraud": r"million|confidential|next of kin|bank account|password|beneficiary",
    "advertisement": r"click here|free|offer|unsubscribe|save|guarantee|rates|money",
    "announcement": r"released|announc|available|newsletter|summary|update",
    "problem": r"error|fail|bug|crash|broken|wrong",
    "question": r"\?|how do|does any|help|please",
}
URGENT = r"urgent|asap|today|immediately"
WORDS_OF_A_SUMMARY = 20
CHARACTERS_OF_A_TOKEN = 4
PATIENCE = 20.0


def reading(text: str) -> dict[str, Any]:
    """The answer to an e-mail: its kind, whether it is urgent, and its first words for a summary."""
    lower = text.lower()
    kind = next((kind for kind, words in KINDS.items() if re.search(words, lower)), "discussion")
    words = " ".join(line for line in text.splitlines() if not line.startswith((">", "Subject:"))).split()
    return {
        "kind": kind,
        "urgent": bool(re.search(URGENT, lower)),
        "summary": " ".join(words[:WORDS_OF_A_SUMMARY]) or "Nothing.",
    }


def text_of(asked: Any) -> str:
    """What the user says in a request's input."""
    if isinstance(asked, str):
        return asked
    contents = [item.get("content", "") for item in asked if item.get("role", "user") == "user"]
    return "\n".join(c if isinstance(c, str) else "\n".join(part.get("text", "") for part in c) for c in contents)


def response(request: dict[str, Any]) -> dict[str, Any]:
    """The body of an answer, as the Responses API has it."""
    asked = text_of(request["input"])
    said = json.dumps(reading(asked), ensure_ascii=False)
    tokens = [len(text) // CHARACTERS_OF_A_TOKEN + 1 for text in (asked + str(request.get("instructions") or ""), said)]
    part = {"type": "output_text", "text": said, "annotations": []}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    usage = {
        "input_tokens": tokens[0],
        "output_tokens": tokens[1],
        "total_tokens": sum(tokens),
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": request.get("model"),
        "output": [message],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage,
    }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    latency = 0.05

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        time.sleep(self.latency)
        if self.path == "/v1/responses":
            self.answer(200, response(request))
        else:
            self.answer(404, {"error": {"message": f"there is no {self.path}", "type": "invalid_request_error"}})

    def answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """It has nothing to say."""


class Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True


def wait_until_there(port: int) -> None:
    """Wait until something listens on the port. Raises TimeoutError after 20 seconds."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise TimeoutError(f"nothing listens on port {port}") from None
            time.sleep(0.02)


def leave_at_eof() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8720)
    parser.add_argument("--latency", type=float, default=0.05, help="seconds that an answer takes")
    parser.add_argument("--until-eof", action="store_true", help="end when standard input ends")
    options = parser.parse_args()
    Handler.latency = options.latency
    if options.until_eof:
        threading.Thread(target=leave_at_eof, daemon=True).start()
    Server(("127.0.0.1", options.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
