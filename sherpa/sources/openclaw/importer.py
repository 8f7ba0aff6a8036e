"""Sessions into a memory: once, again without effect, or as they grow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sherpa.errors import SourceError
from sherpa.event import Event
from sherpa.memory import ProceduralMemory
from sherpa.sources.openclaw.events import Mapping, Router
from sherpa.sources.openclaw.files import find_files
from sherpa.sources.openclaw.lines import Losses
from sherpa.sources.openclaw.replay import Replay
from sherpa.sources.openclaw.sessions import Cursor, Installation, ReadOptions, Session
from sherpa.sources.openclaw.steps import Counts
from sherpa.sources.openclaw.taxonomy import Taxonomy

_BATCH = 20_000
_REST = 5
"""A look may take a sixth of the time at most."""
Watch = Callable[[int], None]


@dataclass
class Imported:
    """What an import did."""

    sessions: int = 0
    events: int = 0
    stored: int = 0
    present: int = 0
    interrupted: bool = False
    counts: Counts = field(default_factory=Counts)
    losses: Losses = field(default_factory=Losses)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """As the command prints it."""
        return {
            "interrupted": self.interrupted,
            "sessionsProcessed": self.sessions,
            "totalEvents": self.events,
            "stored": self.stored,
            "alreadyPresent": self.present,
            "counts": self.counts.to_json(),
            "losses": dict(sorted(self.losses.counts.items())),
            "skipped": [{"path": path, "reason": reason} for path, reason in self.skipped],
            "warnings": self.warnings,
        }


def import_sessions(
    memory: ProceduralMemory,
    path: Path | None,
    mapping: Mapping,
    options: ReadOptions,
    taxonomy: Taxonomy,
    watch: Callable[[int], Watch] | None = None,
) -> Imported:
    """Store the events of all sessions under a path; what is there already is left as it is.

    An interruption keeps what was stored; running it again goes on from there.

    Parameters
    ----------
    watch : callable, optional
        Takes the number of bytes in all, and gives what is called with the number read since the last call.
    """
    done = Imported()
    with Installation(path, options, taxonomy) as installation:
        done.skipped, done.warnings = installation.skipped, installation.warnings
        try:
            for batch in _batches(installation, mapping, done, watch(installation.size) if watch else None):
                appended = memory.ingest_batch(batch)
                done.stored += len(appended.events)
                done.present += appended.duplicates
        except KeyboardInterrupt:
            done.interrupted = True
    return done


def _batches(
    installation: Installation, mapping: Mapping, done: Imported, watch: Watch | None
) -> Iterator[list[Event | dict[str, Any]]]:
    """Events in batches. A batch may hold many short sessions; ends of sessions do not end it."""
    batch: list[Event | dict[str, Any]] = []
    for session in installation.sessions:
        for event in mapping.events(session, session.steps(watch)):
            batch.append(event.to_event(session.agent))
            done.events += 1
            if len(batch) >= _BATCH:
                yield batch
                batch = []
        done.sessions += 1
        done.counts.add(session.counts)
        done.losses.add(session.losses)
    if batch:
        yield batch


@dataclass
class _Followed:
    """A session that is being followed."""

    cursor: Cursor
    router: Router
    parts: list[str]


class Follower:
    """Stores what sessions gain while they run.

    Each look reads only what came after the last one: complete lines of a transcript beyond the bytes read before,
    rows of a store beyond the last number. A transcript that was rotated, rewritten or shrank is read again from its
    start; rows are known by their ids, so nothing is stored twice and nothing is taken away.

    Parameters
    ----------
    memory, path, mapping, options, taxonomy
        As for `import_sessions`.
    """

    def __init__(
        self, memory: ProceduralMemory, path: Path | None, mapping: Mapping, options: ReadOptions, taxonomy: Taxonomy
    ) -> None:
        self._memory, self._path, self._mapping = memory, path, mapping
        # Which rows a later rewind leaves behind cannot be known while they are written.
        self._options = replace(options, active_only=False, label_abandoned=False)
        self._taxonomy = taxonomy
        self._stamps: dict[str, tuple[int, int]] = {}
        self._sessions: dict[tuple[str, str, str], _Followed] = {}

    def look(self) -> Imported | None:
        """Store what is new; None if no file has changed since the last look."""
        try:
            stamps = {str(f.path): _stamp(f.path) for f in find_files(self._path).files}
        except SourceError:
            # Nothing is there yet, or not any more: it may come.
            return None
        if stamps == self._stamps:
            return None
        done = Imported()
        with Installation(self._path, self._options, self._taxonomy) as installation:
            done.skipped, done.warnings = installation.skipped, installation.warnings
            for session in installation.sessions:
                self._take(session, done)
        self._stamps = stamps
        return done

    def _take(self, session: Session, done: Imported) -> None:
        key = (session.host, session.agent, session.session)
        held = self._sessions.get(key)
        if held is not None and held.cursor.closed and held.parts == [p.shown for p in session.parts]:
            return
        if held is None or not session.continues(held.cursor, held.parts):
            held = _Followed(Cursor(Replay(self._taxonomy, self._options)), self._mapping.router(session), [])
            self._sessions[key] = held
        held.parts = [part.shown for part in session.parts]
        before = done.events
        batch: list[Event | dict[str, Any]] = []
        for step in session.steps(cursor=held.cursor):
            batch += [event.to_event(session.agent) for event in held.router.route(step)]
            if len(batch) >= _BATCH:
                self._store(batch, done)
                batch = []
        if held.cursor.closed:
            batch += [event.to_event(session.agent) for event in held.router.finish()]
        self._store(batch, done)
        done.sessions += done.events > before

    def _store(self, batch: list[Event | dict[str, Any]], done: Imported) -> None:
        if not batch:
            return
        appended = self._memory.ingest_batch(batch)
        done.events += len(batch)
        done.stored += len(appended.events)
        done.present += appended.duplicates


def follow(
    follower: Follower,
    *,
    interval: float = 2.0,
    rounds: int | None = None,
    sleep: Callable[[float], None] = time.sleep,
    timer: Callable[[], float] = time.monotonic,
) -> Iterator[Imported]:
    """Look again and again; gives what each look that found something did.

    Parameters
    ----------
    interval : float
        Seconds between looks; longer where a look itself takes long.
    rounds : int, optional
        How many looks; for ever by default.
    """
    while rounds is None or rounds > 0:
        begun = timer()
        found = follower.look()
        if found is not None:
            yield found
        if rounds is not None:
            rounds -= 1
            if rounds == 0:
                return
        sleep(max(interval, _REST * (timer() - begun)))


def _stamp(path: Path) -> tuple[int, int]:
    """Size and time of a file, with its write-ahead log."""
    size = time_ns = 0
    for part in (path, path.with_name(f"{path.name}-wal")):
        try:
            status = part.stat()
        except FileNotFoundError:
            continue
        size += status.st_size
        time_ns = max(time_ns, status.st_mtime_ns)
    return size, time_ns
