"""The ledger: append-only JSONL, one segment per UTC day, the only truth.

An append happens under a lock between processes, is written in one call per segment and fsynced before it returns.
A crash can leave half a line at the end of a segment; that was never acknowledged, and the next writer cuts it off.
Readers never look past the last complete line, so they need no lock.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec
from filelock import FileLock, Timeout

from sherpa.errors import EventError, LedgerError
from sherpa.event import Event, no_clock, no_id, read_event
from sherpa.instants import format_instant, parse_instant
from sherpa.tombstones import Tombstone, Tombstones, digest_of

if TYPE_CHECKING:
    from sherpa.eventlog import Int64

UNSTAMPED = -(2**62)
"""Base of the sequence numbers of lines that carry none; the place in the file is added."""

_CHUNK = 1 << 20
_BLOCK = 1 << 22
_TAIL = 1 << 13


@dataclass(frozen=True)
class BadLine:
    """A line that cannot be read as an event."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


@dataclass
class LedgerReport:
    """What a read came across."""

    events: int = 0
    duplicates: int = 0
    malformed: list[BadLine] = field(default_factory=list)


@dataclass(frozen=True)
class Appended:
    """Result of an append: what was stored, and how many events were already there."""

    events: tuple[Event, ...]
    duplicates: int


class _Line(msgspec.Struct, rename="camel"):
    event_id: str
    seq: int = -1


class _OfCase(msgspec.Struct, rename="camel"):
    case_id: str


_Mark = tuple[int, int]
"""File and size of a segment: a segment that was written anew is another file."""
_CASE_ID = re.compile(rb'"caseId"\s*:\s*("(?:[^"\\]|\\.)*")')
_encoder = msgspec.json.Encoder()
_event_decoder = msgspec.json.Decoder(Event)
_case_decoder = msgspec.json.Decoder(_OfCase)
_line_decoder = msgspec.json.Decoder(_Line)


class Ledger:
    """The events of one root folder.

    Parameters
    ----------
    folder : Path
        Holds the segments ``YYYY-MM-DD.jsonl``; made on first use.
    lock_timeout : float
        Seconds to wait for another writer.
    """

    def __init__(self, folder: Path, *, lock_timeout: float = 30.0) -> None:
        self.folder = folder
        self._lock_timeout = lock_timeout
        self._lock = FileLock(str(folder / ".lock"), is_singleton=False)
        self._known: set[str] = set()
        self._scanned: dict[str, int] = {}
        self.tombstones = Tombstones(folder / "forgotten.tombstones")
        # What the end of each segment was found to be: an unchanged segment is not opened again.
        self._whole: dict[str, _Mark] = {}
        self._seqs: dict[str, tuple[_Mark, int]] = {}

    # -- writing -----------------------------------------------------------------------------------------------

    @contextmanager
    def writing(self, *, wait: bool = True) -> Iterator[None]:
        """Hold the lock between processes; torn tails are cut off on entry. Re-entrant in one process.

        Raises
        ------
        LedgerError
            If another writer keeps the lock for too long (at once with ``wait=False``), or the folder cannot be
            written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=self._lock_timeout if wait else 0)
        except Timeout:
            raise LedgerError(f"{self.folder}: another process is writing to this ledger") from None
        except OSError as error:
            raise LedgerError(f"{self.folder}: cannot be written: {error.strerror or error}") from None
        try:
            for segment in self.segments():
                if self._complete_size(segment) != segment.stat().st_size:
                    _cut_torn_tail(segment)
            yield
        finally:
            self._lock.release()

    def append(self, events: Sequence[Event], *, known: Callable[[Sequence[str]], set[str]] | None = None) -> Appended:
        """Store events durably, in the given order, each with the next sequence number.

        An event whose id is already there (in the ledger or earlier in `events`) is ignored and counted.

        Parameters
        ----------
        known : callable, optional
            Tells which of some event ids are in the ledger already. Without it the ledger keeps a set of all ids,
            read once.
        """
        if not events:
            return Appended((), 0)
        with self.writing():
            present = known([e.event_id for e in events]) if known else self._ids() & {e.event_id for e in events}
            seq = self._last_seq()
            stored: list[Event] = []
            lines: dict[str, list[bytes]] = {}
            for event in events:
                if event.event_id in present:
                    continue
                present.add(event.event_id)
                seq += 1
                stamped = msgspec.structs.replace(event, seq=seq)
                stored.append(stamped)
                lines.setdefault(event.ts[:10], []).append(_encoder.encode(stamped) + b"\n")
            for day in sorted(lines):
                self._write(self.folder / f"{day}.jsonl", b"".join(lines[day]))
            return Appended(tuple(stored), len(events) - len(stored))

    def _write(self, segment: Path, data: bytes) -> None:
        created = not segment.exists()
        before = 0 if created else segment.stat().st_size
        try:
            with open(segment, "ab") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            # What is half written was not acknowledged: take it back, so that the disk holds whole lines only.
            if segment.exists():
                os.truncate(segment, before)
            raise LedgerError(f"{segment}: cannot be written: {error.strerror or error}") from None
        if created:
            _sync_folder(self.folder)

    def _last_seq(self) -> int:
        last = 0
        for segment in self.segments():
            mark = _mark(segment)
            held = self._seqs.get(segment.name)
            if held is None or held[0] != mark:
                held = self._seqs[segment.name] = (mark, self._seq_at_end(segment))
            last = max(last, held[1])
        return last

    def _seq_at_end(self, segment: Path) -> int:
        """Number of the last line; numbers rise within a segment."""
        line = _last_line(segment)
        if not line:
            return 0
        try:
            return max(0, _line_decoder.decode(line).seq)
        except msgspec.MsgspecError:
            return self._highest_seq(segment)

    def _highest_seq(self, segment: Path) -> int:
        """The highest number in a segment whose last line tells none."""
        highest = 0
        for _, _, raw in _lines(segment, 0):
            try:
                highest = max(highest, _line_decoder.decode(raw).seq)
            except msgspec.MsgspecError:
                continue
        return highest

    def _ids(self) -> set[str]:
        for segment in self.segments():
            at = self._scanned.get(segment.name, 0)
            for _, end, raw in _lines(segment, at):
                self._scanned[segment.name] = end
                try:
                    self._known.add(_line_decoder.decode(raw).event_id)
                except msgspec.MsgspecError:
                    continue
        return self._known

    # -- forgetting --------------------------------------------------------------------------------------------

    def forget(self, case_id: str, *, at: str, salt: str) -> int:
        """Remove every line of a case and leave a tombstone; returns the number of lines.

        Parameters
        ----------
        at : str
            The present time.
        salt : str
            Anything random; it keeps the tombstone from telling the id.
        """
        with self.writing():
            stone = Tombstone(digest_of(case_id, salt), salt, at)
            self.tombstones.add(stone)
            return self._remove(stone)

    def finish_forgetting(self) -> int:
        """Remove what an interrupted `forget` has left; returns the number of lines."""
        with self.writing():
            return sum(self._remove(stone) for stone in self.tombstones.pending())

    def _remove(self, stone: Tombstone) -> int:
        removed = 0
        for segment in self.segments():
            kept = segment.with_name(f".{segment.name}.{os.getpid()}.tmp")
            here = 0
            with open(kept, "wb") as file:
                for _, _, raw in _lines(segment, 0):
                    if _belongs(raw, stone):
                        here += 1
                    else:
                        file.write(raw if raw.endswith(b"\n") else raw + b"\n")
                empty = file.tell() == 0
                file.flush()
                os.fsync(file.fileno())
            if here and not empty:
                os.replace(kept, segment)
            else:
                kept.unlink()
            if here and empty:
                segment.unlink()
            removed += here
        # Ids are remembered by process; those of the case must be free again.
        self._known.clear()
        self._scanned.clear()
        _sync_folder(self.folder)
        self.tombstones.add(msgspec.structs.replace(stone, done=True))
        return removed

    # -- reading -----------------------------------------------------------------------------------------------

    def segments(self) -> list[Path]:
        """All segments in the order of their days."""
        return sorted(p for p in self.folder.glob("*.jsonl") if p.is_file())

    def positions(self) -> dict[str, int]:
        """Size in bytes of each segment, up to its last complete line."""
        return {segment.name: self._complete_size(segment) for segment in self.segments()}

    def _complete_size(self, segment: Path) -> int:
        mark = _mark(segment)
        if self._whole.get(segment.name) == mark:
            return mark[1]
        complete = _complete_size(segment)
        # A torn tail may be replaced by a line of the same length, so only whole segments are remembered.
        if complete == mark[1]:
            self._whole[segment.name] = mark
        return complete

    def read(
        self,
        since: Mapping[str, int] | None = None,
        report: LedgerReport | None = None,
        upto: Mapping[str, int] | None = None,
    ) -> Iterator[Event]:
        """Stream events, segment by segment.

        Malformed lines are skipped and listed in `report`, duplicate ids are ignored and counted there.

        Parameters
        ----------
        since : mapping, optional
            Bytes of each segment to skip (from `positions`); duplicates are then only seen among what is read.
        upto : mapping, optional
            Bytes of each segment to read to; segments that are not named are not read.
        """
        report = LedgerReport() if report is None else report
        seen: set[str] = set()
        for segment in self.segments():
            if upto is not None and segment.name not in upto:
                continue
            skip = (since or {}).get(segment.name, 0)
            stop = None if upto is None else upto[segment.name]
            for event in _events(segment, _lines(segment, skip, stop), report):
                if event.event_id in seen:
                    report.duplicates += 1
                    continue
                seen.add(event.event_id)
                report.events += 1
                yield event

    def batches(self, report: LedgerReport, upto: Mapping[str, int]) -> Iterator[tuple[list[Event], Int64]]:
        """The same in batches, with the instants of the events, several times faster; duplicate ids are **not** told.

        Parameters
        ----------
        report : LedgerReport
        upto : mapping
            Bytes of each segment to read to, from `positions`.
        """
        import numpy as np

        for segment in self.segments():
            if segment.name not in upto:
                continue
            for start, data in _blocks(segment, upto[segment.name]):
                batch = _whole_batch(data)
                if batch is None:
                    # Something in it is not as this program writes it: line by line, each for itself.
                    events = list(_events(segment, _lines(segment, start, start + len(data)), report))
                    batch = events, np.array([e.instant for e in events], np.int64)
                report.events += len(batch[0])
                yield batch


def _events(segment: Path, lines: Iterator[tuple[int, int, bytes]], report: LedgerReport) -> Iterator[Event]:
    """Events of lines; malformed ones are listed in the report."""
    for start, _, raw in lines:
        if not raw.strip():
            continue
        try:
            event = _stored_event(raw, start)
        except (msgspec.MsgspecError, EventError, ValueError) as error:
            number = _line_number(segment, start) + 1
            report.malformed.append(BadLine(str(segment), number, _reason(error)))
            continue
        yield event


def _blocks(segment: Path, stop: int) -> Iterator[tuple[int, bytes]]:
    """(first byte, whole lines) of a segment, some megabytes at a time."""
    at, rest = 0, b""
    with open(segment, "rb") as file:
        while at + len(rest) < stop:
            read = file.read(min(_BLOCK, stop - at - len(rest)))
            if not read:
                return
            data = rest + read
            end = data.rfind(b"\n") + 1
            rest = data[end:]
            if end:
                yield at, data[:end]
                at += end


def _whole_batch(data: bytes) -> tuple[list[Event], Int64] | None:
    """Events of lines that are all as this program writes them, else None."""
    from sherpa.canonical import parse_canonical

    try:
        events = _event_decoder.decode_lines(data)
    except msgspec.MsgspecError:
        return None
    if any(type(event.seq) is not int for event in events):
        return None
    instants = parse_canonical([event.ts for event in events])
    return None if instants is None else (events, instants)


def _belongs(raw: bytes, stone: Tombstone) -> bool:
    """Whether a line is of a case, also one that is broken but can still be told."""
    try:
        return stone.holds(_case_decoder.decode(raw).case_id)
    except msgspec.MsgspecError:
        return any(stone.holds(_text(name)) for name in _CASE_ID.findall(raw))


def _text(quoted: bytes) -> str:
    try:
        return msgspec.json.decode(quoted, type=str)
    except msgspec.MsgspecError:
        return quoted.strip(b'"').decode("utf-8", "replace")


def _mark(segment: Path) -> _Mark:
    status = segment.stat()
    return status.st_ino, status.st_size


def _stored_event(raw: bytes, start: int) -> Event:
    """Decode a line. Lines written by others may hold other time formats, null members and no sequence number."""
    try:
        event = _event_decoder.decode(raw)
    except msgspec.ValidationError:
        loose = msgspec.json.decode(raw)
        if not isinstance(loose, dict) or not isinstance(loose.get("eventId"), str):
            raise
        if not isinstance(loose.get("ts"), str):
            raise EventError("ts is missing") from None
        seq = loose.get("seq")
        event = read_event(loose, clock=no_clock, new_id=no_id)
        event = msgspec.structs.replace(event, seq=seq if isinstance(seq, int) else msgspec.UNSET)
    ts = format_instant(parse_instant(event.ts))
    if ts != event.ts or not isinstance(event.seq, int):
        seq = event.seq if isinstance(event.seq, int) else UNSTAMPED + start
        event = msgspec.structs.replace(event, ts=ts, seq=seq)
    return event


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0]


def _lines(segment: Path, start: int, stop: int | None = None) -> Iterator[tuple[int, int, bytes]]:
    """(first byte, byte after the newline, line) of every complete line from `start` on."""
    at = start
    with open(segment, "rb") as file:
        file.seek(start)
        for raw in file:
            end = at + len(raw)
            if not raw.endswith(b"\n") or (stop is not None and end > stop):
                return
            yield at, end, raw
            at = end


def _line_number(segment: Path, position: int) -> int:
    """Number of lines before a byte position."""
    if position == 0:
        return 0
    count = 0
    with open(segment, "rb") as file:
        while position > 0 and (chunk := file.read(min(_CHUNK, position))):
            count += chunk.count(b"\n")
            position -= len(chunk)
    return count


def _complete_size(segment: Path) -> int:
    size = segment.stat().st_size
    if size == 0:
        return 0
    with open(segment, "rb") as file:
        return _end_of_last_line(file, size)


def _end_of_last_line(file: IO[bytes], size: int) -> int:
    """Byte after the last newline before `size`, 0 if there is none."""
    end = size
    while end > 0:
        start = max(0, end - _TAIL if end < size else end - 1)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _last_line(segment: Path) -> bytes:
    size = segment.stat().st_size
    with open(segment, "rb") as file:
        end = _end_of_last_line(file, size)
        if end == 0:
            return b""
        start = _end_of_last_line(file, end - 1)
        file.seek(start)
        return file.read(end - start)


def _cut_torn_tail(segment: Path) -> None:
    """Remove half a line at the end; a whole event that only lacks its newline gets it."""
    size = segment.stat().st_size
    end = _complete_size(segment)
    if end == size:
        return
    with open(segment, "r+b") as file:
        file.seek(end)
        tail = file.read()
        try:
            _stored_event(tail, end)
        except (msgspec.MsgspecError, EventError, ValueError):
            file.truncate(end)
        else:
            file.write(b"\n")
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make a new file name durable."""
    if os.name == "nt":  # Windows has no folder handles to sync
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
