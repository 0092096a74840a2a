"""python -m tests.llm_server --port 0 --log FILE [--set NAME=JSON …]"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from pathlib import Path
from typing import Any

import orjson

from .logged import Log
from .service import Service
from .switches import Switches
from .wire import Listener


def setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError("NAME=JSON is wanted")
    try:
        return name, orjson.loads(value)
    except ValueError:
        return name, value


async def serve(options: argparse.Namespace) -> None:
    service = Service(Switches().changed(dict(options.set)), Log(options.log))
    service.listener = Listener(service.handle, options.port)
    control = Listener(service.control, options.control_port)
    await service.listener.open()
    await control.open()
    print(f"http://127.0.0.1:{service.listener.port}/v1 http://127.0.0.1:{control.port}", flush=True)
    if options.until_eof:
        await asyncio.to_thread(sys.stdin.buffer.read)
    else:
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="A server that speaks the OpenAI API; see the package's docstring.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--control-port", type=int, default=0)
    parser.add_argument("--log", type=Path, required=True, help="the file of its log, which is appended to")
    parser.add_argument("--set", type=setting, action="append", default=[], metavar="NAME=JSON", help="a switch")
    parser.add_argument("--until-eof", action="store_true", help="end when standard input ends")
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(options))


if __name__ == "__main__":
    main()
