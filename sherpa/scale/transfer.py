"""A whole ledger to Parquet files and back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from sherpa.errors import SourceError
from sherpa.event import Event
from sherpa.ledger import Ledger, LedgerReport
from sherpa.scale.parquet import read_events, write_events

if TYPE_CHECKING:
    from sherpa.memory import ProceduralMemory

_encoder = msgspec.json.Encoder()


def export_ledger(ledger: Ledger, folder: Path, report: LedgerReport) -> dict[str, Any]:
    """Write each segment as ``<folder>/<day>.parquet``, in the order of its lines.

    Parameters
    ----------
    ledger : Ledger
    folder : Path
        Is made; must hold no Parquet files.
    report : LedgerReport
        Is told how many events were read and which lines cannot be.

    Returns
    -------
    dict
        ``path``, ``files``, ``events`` and ``bytes``.

    Raises
    ------
    SourceError
        If the folder holds Parquet files, or cannot be written.
    """
    if folder.is_dir() and any(folder.glob("*.parquet")):
        raise SourceError("holds Parquet files already; name a new folder", file=folder)
    written = []
    for name, size in sorted(ledger.positions().items()):
        path = folder / f"{name.removesuffix('.jsonl')}.parquet"
        write_events(path, ledger.batches(report, {name: size}))
        written.append(path)
    return {
        "path": str(folder),
        "files": len(written),
        "events": report.events,
        "bytes": sum(path.stat().st_size for path in written),
    }


def import_ledger(memory: ProceduralMemory, path: Path) -> dict[str, Any]:
    """Take in the events of Parquet files; those of forgotten cases are left out.

    Into a memory without events they come back as they were, sequence numbers included: the segments are, byte for
    byte, those that were exported. Beside other events they are appended, and those whose id is there already are
    left out.

    Parameters
    ----------
    memory : ProceduralMemory
    path : Path
        A Parquet file, or a folder of them, which are read in the order of their names.

    Returns
    -------
    dict
        ``restored`` (whether they came back as they were), ``added``, ``skipped``, ``forgotten``.

    Raises
    ------
    SourceError
        If a file cannot be read or holds something that is no event; then no segment has been restored.
    """
    files = parquet_files(path)
    with memory.ledger.writing():
        if not memory.ledger.segments() and not memory.config.require_projection:
            done = _restore(memory, files)
            if done is not None:
                memory.rebuild()
                return done
        added = skipped = forgotten = 0
        for file in files:
            for events in read_events(file):
                result = memory.import_events(events)
                added += result["added"]
                skipped += result["skipped"]
                forgotten += result["forgotten"]
    return {"restored": False, "added": added, "skipped": skipped, "forgotten": forgotten}


def parquet_files(path: Path) -> list[Path]:
    """The Parquet files of a folder by name, or the one file.

    Raises
    ------
    SourceError
        If there is none.
    """
    if path.is_file():
        return [path]
    files = sorted(path.glob("*.parquet")) if path.is_dir() else []
    if not files:
        raise SourceError("holds no Parquet files" if path.is_dir() else "does not exist", file=path)
    return files


class _Drafts:
    """Segments beside their place, until all of them are whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._last: dict[str, int] = {}

    def path(self, day: str) -> Path:
        return self.folder / f".{day}.jsonl.{os.getpid()}.tmp"

    def add(self, events: Iterator[Event]) -> int:
        """Write events to the segments of their days; -1 if one does not come after the event before it."""
        lines: dict[str, list[bytes]] = {}
        size = 0
        for event in events:
            day, seq = event.ts[:10], event.seq
            if not isinstance(seq, int) or seq <= self._last.get(day, seq - 1):
                return -1
            self._last[day] = seq
            lines.setdefault(day, []).append(_encoder.encode(event) + b"\n")
            size += 1
        for day, parts in lines.items():
            with open(self.path(day), "ab") as file:
                file.write(b"".join(parts))
        return size

    def keep(self) -> None:
        """Put them in their place."""
        for day in sorted(self._last):
            with open(self.path(day), "rb+") as file:
                os.fsync(file.fileno())
        for day in sorted(self._last):
            os.replace(self.path(day), self.folder / f"{day}.jsonl")

    def drop(self) -> None:
        """Remove what is left of them."""
        for day in self._last:
            self.path(day).unlink(missing_ok=True)


def _restore(memory: ProceduralMemory, files: list[Path]) -> dict[str, Any] | None:
    """Write the segments anew; None where numbers are missing or do not rise, so that they must be given anew."""
    stones = memory.ledger.tombstones.all()
    gone: dict[str, bool] = {}
    drafts = _Drafts(memory.ledger.folder)
    added = forgotten = 0
    try:
        for file in files:
            for events in read_events(file):
                for case in {e.case_id for e in events} - gone.keys():
                    gone[case] = any(stone.holds(case) for stone in stones)
                kept = [e for e in events if not gone[e.case_id]]
                size = drafts.add(iter(kept))
                if size < 0:
                    return None
                added += size
                forgotten += len(events) - len(kept)
        drafts.keep()
    finally:
        drafts.drop()
    return {"restored": True, "added": added, "skipped": 0, "forgotten": forgotten}
