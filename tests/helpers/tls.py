"""TLS in front of a PostgreSQL server, or of a proxy to one, which has none itself."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

ASKS_FOR_TLS = bytes.fromhex("0000000804d2162f")
CERTIFICATE = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout key.pem -out certificate.pem"


class NoTls(Exception):
    """There is nothing here that makes certificates."""


@contextlib.contextmanager
def front(port: int, folder: Path, rough: bool) -> Iterator[int]:
    """The port of what passes on to `port` what comes in over TLS. `rough`: where the far side ends a connection, ours
    ends without TLS's own farewell. Raises NoTls."""
    if shutil.which("openssl") is None:
        raise NoTls("no openssl")
    subprocess.run(["openssl", *CERTIFICATE.split()], cwd=folder, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(len(ASKS_FOR_TLS)) == ASKS_FOR_TLS
        writer.write(b"S")
        await writer.start_tls(context)
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        pumps = [asyncio.create_task(pump(reader, far_writer)), asyncio.create_task(pump(far_reader, writer))]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        far_writer.close()
        if rough:
            writer.transport.abort()
        else:
            writer.close()
        await asyncio.wait(pumps)

    loop = asyncio.new_event_loop()
    serving = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield serving.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        serving.close()
