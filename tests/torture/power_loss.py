"""Power cuts: from a recording of every write and flush of a real run, the disks that a cut may leave behind.

    python tests/torture/power_loss.py [--images 20000] [--seed 1] [--synchronous 1]

What was flushed is there. Of what was written since, any part may be: nothing, a first part, a random choice, writes
torn at sectors. Names (files made, removed, renamed) last once their folder was flushed. Every image is opened; every
checkpoint that had been acknowledged before the cut must be in it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path

import apsw

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from judge import steplog
from onward.store.sqlite import connection
from torture import forked, looking
from victims import recorded
from victims.campaign import Spec

CALLS = "pwrite64,fdatasync,fsync,ftruncate,unlink,rename,write,openat,mkdir"
SECTOR = 512
DEEP_EVERY, DEEP_AT_FIRST = 20, 4
"""Every so many images are looked at more closely: pages, counters, and whether onward opens them. More of them while
the store is being made."""


@dataclass(frozen=True)
class Call:
    """One recorded call. `what`: write, sync, truncate, unlink, rename, create, mkdir or ack."""

    what: str
    path: str
    offset: int = 0
    data: bytes = b""
    to: str = ""


@dataclass
class Findings:
    """`images`: how many were opened; `lost`: how many lacked something acknowledged; `found`: some, in words."""

    images: int = 0
    lost: int = 0
    deep: int = 0
    found: list[str] = field(default_factory=list)

    def add(self, other: Findings) -> None:
        self.images += other.images
        self.lost += other.lost
        self.deep += other.deep
        self.found += other.found


# The recording.


def make_spec(folder: Path, records: int = 36) -> Spec:
    spec = Spec(
        seed=11,
        records=records,
        source="jsonl",
        how=("async", "sync"),
        waits=(1.0, 1.0),
        concurrency=4,
        block=10,
        input=str(folder / "input.jsonl"),
        log=str(folder / "steps.log"),
    )
    rows = [json.dumps({"id": key, "text": f"record {key}"}) + "\n" for key in spec.all_keys()]
    Path(spec.input).write_text("".join(rows))
    (folder / "spec.json").write_text(json.dumps(asdict(spec)))
    return spec


def record(folder: Path, synchronous: str | None = None) -> list[Call]:
    """Record two runs of one job: the first is killed half way, the second finishes."""
    spec = make_spec(folder)
    calls: list[Call] = []
    for number, kill_after in enumerate((spec.records, None)):
        trace = folder / f"trace-{number}"
        code = _run_traced(folder, trace, Path(spec.log), kill_after, synchronous)
        if kill_after is None and code not in (0, 1):
            raise AssertionError(f"the recorded run ended with {code}")
        calls += parse(trace.read_text(), folder)
    return calls


def _run_traced(folder: Path, trace: Path, log: Path, kill_after: int | None, synchronous: str | None) -> int:
    command = ["strace", "-f", "-qq", "-y", "-xx", "-s", "100000", "-o", str(trace), "-e", f"trace={CALLS}"]
    python = os.path.realpath(sys.executable)  # strace must not lose a wrapper's child
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "VICTIM_SPEC": str(folder / "spec.json"),
        "VICTIM_SYNCHRONOUS": synchronous or "",
    }
    strace = subprocess.Popen([*command, python, str(forked.VICTIMS / "recorded.py"), str(folder)], env=environment)
    until = time.monotonic() + 120
    while strace.poll() is None and time.monotonic() < until:
        said = steplog.read(log)
        if kill_after is not None and len(said) >= kill_after:
            os.kill(said[0].pid, signal.SIGKILL)
            kill_after = None
        time.sleep(0.002)
    return strace.wait(10)


_LINE = re.compile(r"^(\d+) +(?:<\.\.\. )?(\w+)(?: resumed>)?(.*)$")
_RETURNS = re.compile(r"\) += (-?\d+)")
_FD = re.compile(r"^\(?(\d+)<((?:\\x[0-9a-f]{2})*)>(\(deleted\))?")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_OPENED = re.compile(r"= \d+<((?:\\x[0-9a-f]{2})*)>")


def parse(trace: str, folder: Path) -> list[Call]:
    """The calls that concern files in `folder`, in the order in which they took effect."""
    begun: dict[str, str] = {}
    calls = []
    for line in trace.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        thread, name, rest = match.groups()
        if rest.endswith("<unfinished ...>"):
            begun[thread] = rest.removesuffix("<unfinished ...>").rstrip()
            continue
        if "resumed>" in line:
            rest = begun.pop(thread, "") + rest
        result = _RETURNS.search(rest)
        if result is None or result[1].startswith("-"):
            continue
        call = _call(name, rest)
        if call is not None and call.path.startswith(str(folder)):
            calls.append(call)
    return calls


def _call(name: str, rest: str) -> Call | None:
    texts = [_unhex(text) for text in _TEXT.findall(rest)]
    if name in ("unlink", "mkdir"):
        return Call(name, os.fsdecode(texts[0]))
    if name == "rename":
        return Call(name, os.fsdecode(texts[0]), to=os.fsdecode(texts[1]))
    if name == "openat":
        opened = _OPENED.search(rest)
        return Call("create", os.fsdecode(_unhex(opened[1]))) if opened and "O_CREAT" in rest else None
    descriptor = _FD.match(rest)
    if descriptor is None or descriptor[3]:
        return None
    path = os.fsdecode(_unhex(descriptor[2]))
    if name in ("fdatasync", "fsync"):
        return Call("sync", path)
    if name == "ftruncate":
        return Call("truncate", path, int(rest.split(", ")[1].split(")")[0]))
    if name == "write":
        return Call("ack", path, data=texts[0]) if path.endswith("acks.log") else None
    return Call("write", path, int(rest.rsplit(", ", 1)[1].split(")")[0]), texts[0])


def _unhex(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


# The disk.


class Inode:
    """A file: what is on disk, and the changes since, each (offset, data) or (size, None)."""

    def __init__(self) -> None:
        self.durable = bytearray()
        self.pending: list[tuple[int, bytes | None]] = []

    def flush(self) -> None:
        for offset, data in self.pending:
            _change(self.durable, offset, data)
        self.pending.clear()


def _change(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        if len(content) > offset:
            del content[offset:]
        else:
            content.extend(bytes(offset - len(content)))
        return
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


class Disk:
    """Names and files as the running system sees them, and how much of it is on disk. Folders are None."""

    def __init__(self, root: str):
        self._root = root
        self.names: dict[str, Inode | None] = {root: None}
        self.durable_names: dict[str, Inode | None] = {root: None}
        self.pending_names: list[tuple[str, Inode | None, bool]] = []

    @property
    def pending(self) -> int:
        return sum(len(file.pending) for file in self.files()) + len(self.pending_names)

    def files(self) -> list[Inode]:
        known = [*self.names.values(), *self.durable_names.values()]
        return list({id(file): file for file in known if file is not None}.values())

    def apply(self, call: Call) -> None:
        file = self.names.get(call.path)
        if call.what in ("create", "mkdir"):
            if call.path not in self.names:
                self._link(call.path, Inode() if call.what == "create" else None)
        elif call.what == "write" and file is not None:
            file.pending.append((call.offset, call.data))
        elif call.what == "truncate" and file is not None:
            file.pending.append((call.offset, None))
        elif call.what == "unlink":
            self.names.pop(call.path, None)
            self.pending_names.append((call.path, None, False))
        elif call.what == "rename":
            moved = self.names.pop(call.path)
            self.pending_names.append((call.path, None, False))
            self._link(call.to, moved)
        elif call.what == "sync":
            self._sync(call.path)

    def _link(self, path: str, file: Inode | None) -> None:
        self.names[path] = file
        self.pending_names.append((path, file, True))

    def _sync(self, path: str) -> None:
        file = self.names.get(path)
        if file is not None:
            file.flush()
            return
        mine = [change for change in self.pending_names if _folder(change[0]) == path]
        self.pending_names = [change for change in self.pending_names if _folder(change[0]) != path]
        for name, inode, there in mine:
            _rename(self.durable_names, name, inode, there)

    def image(self, draw: random.Random, how: str) -> tuple[object, dict[str, bytes]]:
        """One disk that a cut now may leave: what tells it from others, and its files by path."""
        kept: list[object] = []
        names = dict(self.durable_names)
        for change in self.pending_names:
            if keep := (how == "all" or (how != "none" and draw.random() < 0.5)):
                _rename(names, *change)
            kept.append(keep)
        content = {}
        for path, file in names.items():
            if file is None or not self._reachable(path, names):
                continue
            choice = _choose(file.pending, draw, how)
            kept.append((path, tuple((offset, len(data) if data else 0) for offset, data in choice)))
            whole = bytearray(file.durable)
            for offset, data in choice:
                _change(whole, offset, data)
            content[path] = bytes(whole)
        return tuple(kept), content

    def _reachable(self, path: str, names: dict[str, Inode | None]) -> bool:
        folder = _folder(path)
        return folder == self._root or (folder in names and self._reachable(folder, names))


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _rename(names: dict[str, Inode | None], path: str, inode: Inode | None, there: bool) -> None:
    if there:
        names[path] = inode
    else:
        names.pop(path, None)


def _choose(pending: list[tuple[int, bytes | None]], draw: random.Random, how: str) -> list[tuple[int, bytes | None]]:
    """The part of the changes that reached the disk."""
    if how == "none" or not pending:
        return []
    if how == "all":
        return pending
    if how == "prefix":
        cut = draw.randrange(len(pending))
        return [*pending[:cut], *_torn(pending[cut], draw)]
    if how == "suffix":
        return pending[draw.randrange(len(pending)) :]
    share = draw.choice((0.1, 0.5, 0.9))
    chosen = [change for change in pending if draw.random() < share]
    return chosen if how == "some" else [part for change in chosen for part in _torn(change, draw)]


def _torn(change: tuple[int, bytes | None], draw: random.Random) -> list[tuple[int, bytes | None]]:
    """Some of the sectors of one write."""
    offset, data = change
    if data is None:
        return [change]
    edges = [0, *range(SECTOR - offset % SECTOR, len(data), SECTOR), len(data)]
    parts = [(offset + start, data[start:end]) for start, end in pairwise(edges)]
    return [part for part in parts if part[1] and draw.random() < 0.6]


# The check.


def check(calls: list[Call], folder: str, images: int, seed: int, share: tuple[int, int] = (0, 1)) -> Findings:
    """Open images cut at every call; `share` (i, n) takes every n-th of the cuts."""
    weights = _weights(calls, folder)
    total = sum(weights) or 1
    disk, acknowledged, findings = Disk(folder), set[tuple[str, str]](), Findings()
    ground = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    place = Path(tempfile.mkdtemp(prefix="onward-power-", dir=ground))
    for number, call in enumerate(calls):
        if call.what == "ack":
            acknowledged |= _acknowledged(call)
        disk.apply(call)
        if number % share[1] != share[0]:
            continue
        for image in _images(disk, random.Random(f"{seed}/{number}"), max(2, -(-images * weights[number] // total))):
            findings.images += 1
            deep = findings.images % (DEEP_EVERY if acknowledged else DEEP_AT_FIRST) == 0
            _judge_image(image, folder, place, acknowledged, findings, f"cut after call {number}", deep)
    shutil.rmtree(place)
    return findings


def _weights(calls: list[Call], folder: str) -> list[int]:
    """More images where more is pending."""
    disk, weights = Disk(folder), []
    for call in calls:
        disk.apply(call)
        weights.append(disk.pending)
    return weights


def _images(disk: Disk, draw: random.Random, wanted: int) -> Iterator[dict[str, bytes]]:
    seen: set[object] = set()
    for attempt in range(wanted * 2):
        how = ("none", "all")[attempt] if attempt < 2 else draw.choice(("prefix", "suffix", "some", "torn"))
        mark, content = disk.image(draw, how)
        if mark not in seen:
            seen.add(mark)
            yield content
        if len(seen) >= wanted:
            return


def _acknowledged(call: Call) -> set[tuple[str, str]]:
    rows = [json.loads(line) for line in call.data.splitlines()]
    return {(json.dumps(key, ensure_ascii=False), step) for key, step, _ in rows}


def _judge_image(
    image: dict[str, bytes],
    folder: str,
    place: Path,
    acknowledged: set[tuple[str, str]],
    findings: Findings,
    what: str,
    deep: bool,
) -> None:
    _lay_out(image, folder, place)
    store = place / recorded.STORE
    try:
        lost = acknowledged - _checkpoints(store) if acknowledged else set()
        found = [f"lost {len(lost)} acknowledged checkpoints: {sorted(lost)[:3]}"] if lost else []
        if deep:
            findings.deep += 1
            found += _look_closely(store, bool(acknowledged))
    except (apsw.Error, connection.OnwardError) as error:
        lost, found = acknowledged, [f"cannot be opened: {type(error).__name__}: {error}"]
    findings.lost += bool(lost)
    findings.found += [f"{what}: {text}" for text in found][: max(0, 20 - len(findings.found))]


def _lay_out(image: dict[str, bytes], folder: str, place: Path) -> None:
    (place / recorded.STORE).parent.mkdir(exist_ok=True)
    for old in (place / recorded.STORE).parent.iterdir():
        old.unlink()
    for name, content in _store_files(image, folder).items():
        (place / name).write_bytes(content)


def _checkpoints(store: Path) -> set[tuple[str, str]]:
    if not store.exists():
        return set()
    reader = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        reader.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        return looking.acknowledgeable(reader)
    finally:
        reader.close()


def _look_closely(store: Path, complete: bool) -> list[str]:
    """onward opens it, and it makes sense."""
    writer, _ = connection.open_writer(store)
    try:
        return looking.contradictions(writer) if complete else []
    finally:
        writer.close()


def some_images(calls: list[Call], folder: str, count: int, seed: int) -> Iterator[tuple[str, dict[str, bytes]]]:
    """A few images, evenly over the recording, by their names within the folder."""
    disk, every = Disk(folder), max(1, len(calls) // count)
    for number, call in enumerate(calls):
        disk.apply(call)
        if number % every == every - 1:
            _, content = disk.image(random.Random(f"{seed}/{number}"), "torn")
            yield f"cut after call {number}", _store_files(content, folder)


def _store_files(image: dict[str, bytes], folder: str) -> dict[str, bytes]:
    names = {path.removeprefix(f"{folder}/"): content for path, content in image.items()}
    return {
        name: content
        for name, content in names.items()
        if name.startswith(recorded.STORE) and not name.endswith(("-shm", "-runs"))
    }


def check_all(calls: list[Call], folder: Path, images: int, seed: int, workers: int = 2) -> Findings:
    findings = Findings()
    with ProcessPoolExecutor(workers) as pool:
        shares = [pool.submit(check, calls, str(folder), images, seed, (i, workers)) for i in range(workers)]
        for share in shares:
            findings.add(share.result())
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--synchronous", help="plant a defect: 1 is NORMAL")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="onward-power-") as name:
        folder, began = Path(name), time.monotonic()
        calls = record(folder, options.synchronous)
        findings = check_all(calls, folder, options.images, options.seed)
    print(
        f"{len(calls)} calls, {findings.images} images, {findings.deep} looked at closely, {findings.lost} with losses"
    )
    print(f"{time.monotonic() - began:.0f} s", *findings.found, sep="\n")
    return 1 if findings.found else 0


if __name__ == "__main__":
    sys.exit(main())
