"""What was captured and is not in the ledger yet: durable when it is acknowledged, in order across processes.

Events wait in ``queue/waiting.jsonl``. A flush takes that file over under another name, stores its events and removes
it, so nobody who captures waits for the ledger. What a flush leaves behind, because it failed or died, is taken
first by the next one; events that were stored before are known by their ids.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from filelock import FileLock, Timeout

from sherpa.errors import LedgerError
from sherpa.files import append_lines

_encoder = msgspec.json.Encoder()
_WAITING = "waiting.jsonl"
Store = Callable[[list[dict[str, Any]]], object]


class CaptureQueue:
    """The queue of one memory.

    Parameters
    ----------
    folder : Path
        Made on first use.
    lock_timeout : float
        Seconds to wait for another process that writes to the queue; it does so for milliseconds.

    Attributes
    ----------
    routes : Path
        Folder for where each session stands, a file per session.
    """

    def __init__(self, folder: Path, *, lock_timeout: float = 30.0) -> None:
        self.folder = folder
        self.routes = folder / "routes"
        self._lock = FileLock(str(folder / ".lock"), is_singleton=False, timeout=lock_timeout)
        self._flushing = FileLock(str(folder / ".flush"), is_singleton=False, timeout=0)

    def put(self, events: Sequence[dict[str, Any]]) -> None:
        """Append events; when it returns they survive a crash.

        Raises
        ------
        LedgerError
            If they cannot be written; then none of them is kept.
        """
        if not events:
            return
        data = b"".join(_encoder.encode(event) + b"\n" for event in events)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._lock:
                append_lines(self.folder / _WAITING, data)
        except (OSError, Timeout) as error:
            reason = getattr(error, "strerror", None) or "another process holds it"
            raise LedgerError(f"{self.folder}: events cannot be queued: {reason}") from None

    def flush(self, store: Store) -> int:
        """Give everything that waits to `store`, in order; returns how many events it took.

        What `store` does not take because it raises stays in the queue. If another process is flushing, nothing is
        done.
        """
        if not self.folder.is_dir():
            return 0
        try:
            self._flushing.acquire()
        except Timeout:
            return 0
        try:
            self._take_over()
            stored = 0
            for path in self._taken():
                events = _events(path)
                if events:
                    store(events)
                    stored += len(events)
                path.unlink()
            return stored
        finally:
            self._flushing.release()

    def __len__(self) -> int:
        """Events that wait."""
        paths = [*self._taken(), self.folder / _WAITING]
        return sum(len(_events(path)) for path in paths if path.exists())

    def _take_over(self) -> None:
        with self._lock:
            waiting = self.folder / _WAITING
            if not waiting.exists():
                return
            number = 1 + max((int(path.stem.split("-")[1]) for path in self._taken()), default=0)
            os.replace(waiting, self.folder / f"flushing-{number:06d}.jsonl")

    def _taken(self) -> list[Path]:
        return sorted(self.folder.glob("flushing-*.jsonl"))


def _events(path: Path) -> list[dict[str, Any]]:
    """Whole lines; half a line was never acknowledged."""
    found = []
    for line in path.read_bytes().split(b"\n")[:-1]:
        try:
            found.append(msgspec.json.decode(line, type=dict[str, Any]))
        except msgspec.MsgspecError:
            continue
    return found
