"""Sagas on disk: an append-only log of events, and a snapshot that is derived from it.

A writer holds a lock between processes, appends its events in one write, flushes them to the disk, and only then
writes the snapshot. Readers need no lock: they take the snapshot and fold whatever the log holds beyond it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from filelock import FileLock, Timeout
from msgspec.structs import replace

from harness.saga.errors import ConflictError, SagaError, StateCorruptedError, UnknownSagaError
from harness.saga.fold import VERSION, Event, apply, fold, with_request
from harness.saga.model import SagaState, check_saga_id
from harness.saga.redact import redact
from sherpa.errors import SourceError
from sherpa.files import append_lines, write_whole
from sherpa.instants import format_instant

VERBATIM = frozenset(
    {"goal", "stages", "state", "summary", "sagaId", "criteria", "items", "paths", "requestId", "session"}
)
"""Fields of events that secrets are not looked for in: the user's own words, the plan, and names."""
_TORN = re.compile(r"events\.torn-(\d+)\.txt")
_encoder = msgspec.json.Encoder()
_state_decoder = msgspec.json.Decoder(SagaState)


@dataclass
class Loaded:
    """A saga as it was found.

    Attributes
    ----------
    state : SagaState
    problems : list of str
        What was damaged: a torn last line, a line that cannot be read, a snapshot that had to be made anew.
    folded : int
        How many events were folded to get there.
    anchored : bool
        Whether the log alone gives the same state.
    """

    state: SagaState
    problems: list[str] = field(default_factory=list)
    folded: int = 0
    anchored: bool = True


class RunStore:
    """The runs below one folder.

    Parameters
    ----------
    root : Path
        The state root; runs lie in ``runs/<sagaId>``.
    clock : callable
        Present time in nanoseconds since the epoch.
    lock_timeout : float
        Seconds to wait for another call on the same saga; 0 tells of it at once.
    """

    def __init__(self, root: Path, *, clock: Callable[[], int], lock_timeout: float = 0.0) -> None:
        self.root = root
        self._clock = clock
        self._lock_timeout = lock_timeout

    def folder(self, saga_id: str) -> Path:
        """Where a saga lies (or would); raises SagaError if the id is none."""
        return self.root / "runs" / check_saga_id(saga_id)

    def artifacts(self, saga_id: str) -> Path:
        """Where its artefacts lie."""
        return self.folder(saga_id) / "artifacts"

    def ids(self) -> list[str]:
        """Ids of all sagas, by name."""
        runs = self.root / "runs"
        if not runs.is_dir():
            return []
        return sorted(p.name for p in runs.iterdir() if (p / "events.jsonl").exists() or (p / "state.json").exists())

    def create(self, saga_id: str, payload: dict[str, Any]) -> Turn:
        """Make the folders of a new saga and the turn that creates it; nothing is stored before `Turn.commit`.

        Raises
        ------
        SagaError
            If it cannot be written, or is there already.
        """
        folder = self.folder(saga_id)
        try:
            (folder / "artifacts" / "stages").mkdir(parents=True)
            sync_folder(folder.parent)
        except FileExistsError:
            raise ConflictError(f"saga {saga_id} is there already") from None
        except OSError as error:
            raise SagaError(f"{folder}: cannot be written: {error.strerror or error}") from None
        turn = Turn(self, saga_id, None)
        turn.emit("saga_created", **payload)
        return turn

    @contextmanager
    def writing(self, saga_id: str) -> Iterator[None]:
        """Hold a saga's lock between processes and threads.

        Raises
        ------
        UnknownSagaError
            If there is no such saga.
        ConflictError
            If another call holds it.
        """
        folder = self._existing(saga_id)
        lock = FileLock(str(folder / ".lock"), is_singleton=False)
        try:
            lock.acquire(timeout=self._lock_timeout)
        except Timeout:
            raise ConflictError(
                f"another call works on saga {saga_id}; nothing of this one was done. Ask saga_status, then go on"
            ) from None
        except OSError as error:
            raise SagaError(f"{folder}: cannot be locked: {error.strerror or error}") from None
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def turn(self, saga_id: str) -> Iterator[tuple[Turn, Loaded]]:
        """The lock, the saga as it is, and what to collect events in."""
        with self.writing(saga_id):
            self._cut_torn_tail(saga_id)
            loaded = self.load(saga_id)
            turn = Turn(self, saga_id, loaded.state)
            if not loaded.anchored:
                turn.emit("state_imported", state=msgspec.to_builtins(loaded.state))
            yield turn, loaded

    # -- reading -----------------------------------------------------------------------------------------------

    def load(self, saga_id: str) -> Loaded:
        """A saga from its snapshot and the log beyond it, or from the log alone.

        Raises
        ------
        UnknownSagaError
            If there is no such saga.
        StateCorruptedError
            If neither can be read.
        """
        folder = self._existing(saga_id)
        problems: list[str] = []
        problems += [f"{path.name}: half a line that was cut off the log" for path in _torn_files(folder)]
        snapshot = self._snapshot(folder, problems)
        lines = _lines(folder / "events.jsonl", problems)
        if snapshot is not None:
            state, numbered = snapshot
            if not numbered:
                # Of the original: it wrote the snapshot before the event, so the log is never ahead of it.
                return Loaded(replace(state, last_seq=len(lines)), problems, anchored=False)
            beyond = _beyond(lines, state.last_seq, problems)
            if beyond is None:
                problems.append("the log ends before the snapshot does: it has lost events")
                return Loaded(state, problems, anchored=False)
            return Loaded(fold(beyond, state) or state, problems, len(beyond))
        events = _decoded(lines, problems)
        folded = fold(events)
        if folded is None:
            raise StateCorruptedError(f"saga {saga_id}: neither state.json nor events.jsonl can be read in {folder}")
        return Loaded(folded, problems, len(events))

    def events(self, saga_id: str) -> list[Event]:
        """All events that can be read, in order, each with its sequence number."""
        return _decoded(_lines(self._existing(saga_id) / "events.jsonl", []), [])

    def _existing(self, saga_id: str) -> Path:
        folder = self.folder(saga_id)
        if folder.is_symlink() or not folder.is_dir():
            raise UnknownSagaError(f"no saga {saga_id!r} is known below {self.root}")
        return folder

    def _snapshot(self, folder: Path, problems: list[str]) -> tuple[SagaState, bool] | None:
        """The snapshot, and whether it tells which event it includes last."""
        path = folder / "state.json"
        try:
            raw = msgspec.json.decode(path.read_bytes())
            state = msgspec.convert(raw, SagaState)
            if state.saga_id != folder.name:
                raise ValueError(f"it is of saga {state.saga_id!r}")
            return state, "lastSeq" in raw
        except FileNotFoundError:
            problems.append("state.json is not there; the state was made from the log")
        except (OSError, ValueError, TypeError) as error:
            problems.append(f"state.json cannot be read ({error}); the state was made from the log")
        return None

    # -- writing -----------------------------------------------------------------------------------------------

    def append(self, saga_id: str, events: Sequence[Event]) -> None:
        """Append events durably; raises SagaError if they cannot be written (then none is kept)."""
        log = self.folder(saga_id) / "events.jsonl"
        created = not log.exists()
        try:
            append_lines(log, b"".join(_encoder.encode(event) + b"\n" for event in events))
            if created:
                sync_folder(log.parent)
        except OSError as error:
            raise SagaError(f"{log}: cannot be written: {error.strerror or error}") from None

    def write_snapshot(self, state: SagaState) -> None:
        """Write the snapshot. One that cannot be written is no loss: the log has everything."""
        path = self.folder(state.saga_id) / "state.json"
        with suppress(OSError, SourceError):
            write_whole(path, msgspec.json.format(_encoder.encode(state), indent=2) + b"\n")
            sync_folder(path.parent)

    def stamp(self) -> str:
        """The present time as events carry it."""
        return format_instant(self._clock() // 1_000_000 * 1_000_000)

    def _cut_torn_tail(self, saga_id: str) -> None:
        """Put half a last line into a side file; it was never acknowledged."""
        folder = self.folder(saga_id)
        log = folder / "events.jsonl"
        if not log.exists():
            return
        data = log.read_bytes()
        whole, _, tail = data.rpartition(b"\n")
        if not tail or _is_event(tail):
            return
        side = folder / f"events.torn-{len(_torn_files(folder)) + 1}.txt"
        write_whole(side, tail)
        os.truncate(log, len(whole) + 1 if whole or data.startswith(b"\n") else 0)


class Turn:
    """The events of one call. Each is folded at once; `commit` makes them durable.

    Attributes
    ----------
    state : SagaState
        As it will be.
    """

    def __init__(self, store: RunStore, saga_id: str, state: SagaState | None) -> None:
        self.store = store
        self.saga_id = saga_id
        self._state = state
        self._pending: list[Event] = []

    @property
    def state(self) -> SagaState:
        """The state with all events of the turn."""
        assert self._state is not None, "a turn begins with a state or with saga_created"
        return self._state

    @property
    def pending(self) -> tuple[Event, ...]:
        """Events that are not on the disk yet."""
        return tuple(self._pending)

    def emit(self, kind: str, **payload: Any) -> Event:
        """One more event; returns it as it will be stored."""
        seq = 1 if self._state is None else self._state.last_seq + 1
        event: Event = {"v": VERSION, "seq": seq, "ts": self.store.stamp(), "sagaId": self.saga_id, "type": kind}
        event |= {name: value if name in VERBATIM else redact(value) for name, value in payload.items()}
        # What is folded is what a reader of the log will fold, down to the last type.
        event = msgspec.json.decode(_encoder.encode(event))
        self._state = apply(self._state, event)
        self._pending.append(event)
        return event

    def flush(self) -> None:
        """Make the events so far durable, before something is done that cannot be taken back."""
        if self._pending:
            self.store.append(self.saga_id, self._pending)
            self._pending = []

    def commit(self, request: str | None = None) -> None:
        """Make all events durable and write the snapshot.

        Parameters
        ----------
        request : str, optional
            Its id goes with the last event: only then has the request been answered as a whole.
        """
        if request is not None and self._pending:
            self._pending[-1]["requestId"] = request
            self._state = with_request(self.state, request)
        self.flush()
        self.store.write_snapshot(self.state)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _torn_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if _TORN.fullmatch(path.name))


def _lines(log: Path, problems: list[str]) -> list[bytes]:
    try:
        data = log.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        problems.append(f"events.jsonl cannot be read: {error.strerror or error}")
        return []
    lines = data.split(b"\n")
    tail = lines.pop()
    if tail:
        if _is_event(tail):
            lines.append(tail)
        else:
            problems.append("events.jsonl ends with half a line; it was never acknowledged and is left out")
    return lines


def _is_event(line: bytes) -> bool:
    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return False
    return isinstance(found, dict) and isinstance(found.get("type"), str)


def _beyond(lines: list[bytes], last_seq: int, problems: list[str]) -> list[Event] | None:
    """Events after a sequence number, read from the end; None if the log does not reach it."""
    found: list[Event] = []
    for at in range(len(lines), 0, -1):
        event = _event(lines[at - 1], at, problems)
        if event is None:
            continue
        if event["seq"] <= last_seq:
            return found[::-1] if found or event["seq"] == last_seq else None
        found.append(event)
    return found[::-1] if found and found[-1]["seq"] == last_seq + 1 else None


def _decoded(lines: list[bytes], problems: list[str]) -> list[Event]:
    found = [_event(line, at, problems) for at, line in enumerate(lines, start=1)]
    return [event for event in found if event is not None]


def _event(line: bytes, at: int, problems: list[str]) -> Event | None:
    if not line.strip():
        return None
    try:
        event = msgspec.json.decode(line)
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            raise ValueError("it is no event")
        if type(event.setdefault("seq", at)) is not int:
            raise ValueError("its seq is no number")
    except (ValueError, RecursionError) as error:
        problems.append(f"events.jsonl:{at}: cannot be read ({error}); it is left out")
        return None
    return event
