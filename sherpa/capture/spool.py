"""The spool: what a plugin wrote down while nobody listened, brought into the queue exactly once and in order.

Each process of the host appends to a file of its own below ``spool/``, named by its process id, the time at which the
file begins, and a random word. A drain reads whole lines from where the last one stopped. How far it came is written
down after the events are in the queue; what is read twice for a crash in between is known by its number and its ids.
"""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import msgspec
from filelock import FileLock, Timeout

from sherpa.capture.records import DECODER, HOOKS, Record
from sherpa.files import write_whole

if TYPE_CHECKING:
    from sherpa.capture.recorder import Recorder

FOLDER = "spool"
_STATE, _LOCK = ".drained.json", ".lock"
_NAME = re.compile(r"(\d{1,10})-(\d{1,16})-([A-Za-z0-9]{1,32})\.(jsonl|done)")
_LONGEST = 1 << 20
_BATCH, _FILES = 1_000, 64
_encoder = msgspec.json.Encoder()


class Drained(msgspec.Struct, rename="camel", omit_defaults=True):
    """How far drains have come.

    Attributes
    ----------
    offsets : dict
        Bytes taken, by file.
    garbage : int
        Lines that were no records; they are left out.
    dropped : int
        Records that plugins could not keep, because the spool was full or could not be written.
    """

    offsets: dict[str, int] = {}
    garbage: int = 0
    dropped: int = 0


@dataclass(frozen=True)
class Waiting:
    """What lies in the spool.

    Attributes
    ----------
    records : int
        Lines that no drain has taken yet.
    bytes : int
        Of all files.
    oldest_ms : int or None
        When the oldest of those records was written.
    garbage, dropped : int
        See `Drained`.
    """

    records: int
    bytes: int
    oldest_ms: int | None
    garbage: int
    dropped: int


class _File(NamedTuple):
    path: Path
    pid: int
    begun: int
    word: str

    @property
    def writer(self) -> str:
        return f"{self.pid}-{self.word}"

    @property
    def name(self) -> str:
        return self.path.name


class _Line(NamedTuple):
    """A record, and where its line ends."""

    at: int
    begun: int
    n: int
    file: _File
    record: Record
    stop: int


def drain(root: Path, recorder: Recorder) -> int:
    """Queue the events of all records that wait; returns how many events.

    While another process drains, nothing is done. What cannot be read as a record is counted and left out.

    Raises
    ------
    LedgerError, SourceError
        If events cannot be queued or the state cannot be written; nothing is lost, the next drain goes on from there.
    """
    folder = root / FOLDER
    if not folder.is_dir():
        return 0
    lock = FileLock(str(folder / _LOCK), timeout=0, is_singleton=False)
    try:
        lock.acquire()
    except (Timeout, OSError):
        return 0
    try:
        return _drain(folder, recorder)
    finally:
        lock.release()


def waiting(root: Path) -> Waiting:
    """What lies in the spool of a memory; changes nothing."""
    folder = root / FOLDER
    state = _read_state(folder)
    records = size = 0
    oldest: int | None = None
    for file in _files(folder):
        try:
            with open(file.path, "rb") as opened:
                size += os.fstat(opened.fileno()).st_size
                for line in _lines(opened, file, state.offsets.get(file.name, 0), Drained()):
                    records += 1
                    oldest = line.at if oldest is None else min(oldest, line.at)
        except OSError:
            continue
    return Waiting(records, size, oldest, state.garbage, state.dropped)


def _drain(folder: Path, recorder: Recorder) -> int:
    state = _read_state(folder)
    files = _files(folder)
    state.offsets = {f.name: state.offsets[f.name] for f in files if f.name in state.offsets}
    before = _encoder.encode(state)
    taken = 0
    for at in range(0, len(files), _FILES):
        taken += _take(folder, files[at : at + _FILES], state, recorder)
    for file in files:
        if _is_over(file, files):
            _remove(file, state)
    if _encoder.encode(state) != before:
        _keep(folder, state)
    return taken


def _take(folder: Path, files: list[_File], state: Drained, recorder: Recorder) -> int:
    opened = []
    taken = 0
    try:
        for file in files:
            try:
                opened.append((file, open(file.path, "rb")))  # noqa: SIM115 - closed below, all together
            except OSError:
                continue
        readers = [_lines(io, file, state.offsets.get(file.name, 0), state) for file, io in opened]
        merged = heapq.merge(*readers)
        while batch := list(islice(merged, _BATCH)):
            taken += recorder.take([(line.file.writer, line.record) for line in batch])
            for line in batch:
                state.offsets[line.file.name] = line.stop
                state.dropped += line.record.dropped
            _keep(folder, state)
        for file, io in opened:
            # Past lines that gave no record, too.
            state.offsets[file.name] = io.tell()
    finally:
        for _, io in opened:
            io.close()
    return taken


def _lines(opened: IO[bytes], file: _File, start: int, state: Drained) -> Iterator[_Line]:
    """The records from an offset on; afterwards the file stands where the next drain begins."""
    size = os.fstat(opened.fileno()).st_size
    # A file that is shorter than what was taken of it is another one of the same name.
    at = start if start <= size else 0
    opened.seek(at)
    latest = 0
    while True:
        line = opened.readline(_LONGEST)
        if not line.endswith(b"\n"):
            if len(line) < _LONGEST or not _skip(opened):
                # Half a line: it may still be finished.
                opened.seek(at)
                return
            line = b"?"
        at = opened.tell()
        if not line.strip():
            continue
        record = _record(line)
        if record is None:
            state.garbage += 1
            continue
        latest = max(latest, record.at)
        record.at = latest
        yield _Line(latest, file.begun, record.n, file, record, at)


def _record(line: bytes) -> Record | None:
    try:
        record = DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return record if record.usable and record.hook in HOOKS else None


def _skip(opened: IO[bytes]) -> bool:
    """Pass over the rest of a line; False if it has no end yet."""
    while rest := opened.readline(_LONGEST):
        if rest.endswith(b"\n"):
            return True
    return False


def _files(folder: Path) -> list[_File]:
    found = []
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    for name in names:
        parts = _NAME.fullmatch(name)
        if parts is not None:
            found.append(_File(folder / name, int(parts[1]), int(parts[2]), parts[3]))
    return sorted(found, key=lambda f: (f.begun, f.name))


def _is_over(file: _File, files: list[_File]) -> bool:
    """Whether nobody will append to a file any more."""
    if file.path.suffix == ".done":
        return True
    return any(o.writer == file.writer and o.begun > file.begun for o in files) or not _runs(file.pid)


def _runs(pid: int) -> bool:
    if os.name == "nt":  # Asking would end the process there.
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def _remove(file: _File, state: Drained) -> None:
    """Remove a file that was taken to its end. A process that is alive after all goes on under the old name."""
    done = file.path.with_suffix(".done")
    taken = state.offsets.get(file.name, 0)
    try:
        os.replace(file.path, done)
        with open(done, "rb") as opened:
            size = os.fstat(opened.fileno()).st_size
            opened.seek(taken)
            rest = opened.read(size - taken)
        state.offsets.pop(file.name, None)
        if b"\n" in rest:
            state.offsets[done.name] = taken
            return
        state.garbage += bool(rest)
        done.unlink()
        state.offsets.pop(done.name, None)
    except OSError:
        return


def _read_state(folder: Path) -> Drained:
    try:
        return msgspec.json.decode((folder / _STATE).read_bytes(), type=Drained)
    except (OSError, msgspec.MsgspecError):
        return Drained()


def _keep(folder: Path, state: Drained) -> None:
    write_whole(folder / _STATE, _encoder.encode(state))
