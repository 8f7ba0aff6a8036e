"""The event log of a workspace, and the tables that follow it.

Each event is appended, projected and committed in one transaction. While a worker holds the lease of a run, its
connection refuses to append to that run once another worker has taken the lease over (fencing).
"""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from harness.runtime.blobs import BlobStore
from harness.runtime.errors import RunStoreError, UnknownRunError
from harness.runtime.events import KINDS, NODE_STATES, USAGE_FIELDS, RunEvent
from harness.runtime.ir import canonical
from harness.runtime.leases import Leases
from harness.runtime.projection import project, replay, tables_of
from harness.runtime.redaction import redact

_PAGE = 2000
_decode = msgspec.json.Decoder(dict[str, Any]).decode
Listener = Callable[[RunEvent], None]


class Message(NamedTuple):
    """A message as a node finds it."""

    id: int
    sender: str
    payload: Any


class RunStore:
    """Events, projections, leases and messages of one workspace.

    Parameters
    ----------
    path : Path
        The database.
    blobs : BlobStore
        Holds what events only name by hash.
    clock : callable
        Seconds since the epoch.
    kill_after : int, optional
        Fault injection: this process kills itself as soon as the log has so many events.

    Raises
    ------
    RunStoreError
        If the database cannot be opened.
    """

    def __init__(
        self, path: Path, blobs: BlobStore, *, clock: Callable[[], float] = time.time, kill_after: int | None = None
    ) -> None:
        self.path, self.blobs, self.clock = path, blobs, clock
        self._kill_after = kill_after
        self.lock = threading.RLock()
        self._depth = 0
        self._fresh: list[RunEvent] = []
        self._listeners: dict[str, Listener] = {}
        self.leases = Leases(self)
        self._last: dict[str, int | None] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5)
            self.db.execute("PRAGMA busy_timeout = 5000")
            if self.db.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
                raise RunStoreError(f"{path}: this file system does not support a write-ahead log")
            self.db.execute("PRAGMA synchronous = NORMAL")
            self.db.execute("PRAGMA foreign_keys = ON")
            if self.db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'chunks_fts'").fetchone() == (0,):
                self.db.executescript(files("harness.runtime").joinpath("schema.sql").read_text(encoding="utf-8"))
        except (OSError, sqlite3.Error) as error:
            raise RunStoreError(f"{path}: cannot be opened: {error}") from None

    def close(self) -> None:
        """Close the database."""
        self.db.close()

    # -- transactions ------------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Everything inside is committed at once or not at all; nested ones join."""
        with self.lock:
            if self._depth == 0:
                self.db.execute("BEGIN IMMEDIATE")
            self._depth += 1
            try:
                yield self.db
            except BaseException:
                self._depth -= 1
                if self._depth == 0:
                    self._fresh.clear()
                    self._last.clear()
                    self.db.execute("ROLLBACK")
                raise
            self._depth -= 1
            if self._depth == 0:
                self.db.execute("COMMIT")
                fresh, self._fresh = self._fresh, []
                self._after(fresh)

    def _after(self, fresh: list[RunEvent]) -> None:
        if fresh and self._kill_after is not None and fresh[-1].seq >= self._kill_after:
            os.kill(os.getpid(), signal.SIGKILL)
        for event in fresh:
            listener = self._listeners.get(event.run_id)
            if listener is not None:
                listener(event)

    def listen(self, run_id: str, listener: Listener | None) -> None:
        """Tell a listener of every event of a run that this connection commits; None ends it."""
        with self.lock:
            if listener is None:
                self._listeners.pop(run_id, None)
            else:
                self._listeners[run_id] = listener

    # -- events ------------------------------------------------------------------------------------------------

    def append(
        self,
        run_id: str,
        kind: str,
        payload: dict[str, Any] | None = None,
        *,
        node_key: str | None = None,
        causal_seq: int | None = None,
    ) -> int:
        """Append one event and project it; returns its number.

        Parameters
        ----------
        causal_seq : int, optional
            The event it follows from; the last one of the run if it is not given.

        Raises
        ------
        RunStoreError
            If the kind is not in the vocabulary, or the payload is no JSON.
        LeaseLost
            If this connection worked under a lease of the run that another worker holds now.
        """
        if kind not in KINDS:
            raise RunStoreError(f"{kind!r} is no kind of event")
        try:
            text = canonical(payload or {}).decode()
        except (TypeError, UnicodeError, RecursionError) as error:
            raise RunStoreError(f"{kind}: the payload is no JSON: {error}") from None
        with self.transaction() as db:
            self.leases.check(run_id)
            if causal_seq is None:
                causal_seq = self._last_seq(run_id)
            ts = self.clock()
            seq = db.execute(
                "INSERT INTO events(ts, run_id, node_key, kind, payload, causal_seq) VALUES (?, ?, ?, ?, ?, ?)",
                (ts, run_id, node_key, kind, text, causal_seq),
            ).lastrowid
            assert seq is not None
            event = RunEvent(seq, ts, run_id, node_key, kind, payload or {}, causal_seq)
            project(db, event)
            self._fresh.append(event)
            self._last[run_id] = seq
        return seq

    def _last_seq(self, run_id: str) -> int | None:
        if run_id not in self._last:
            found = self.db.execute("SELECT max(seq) FROM events WHERE run_id = ?", (run_id,)).fetchone()
            if len(self._last) > 1024:
                self._last.clear()
            self._last[run_id] = found[0]
        return self._last[run_id]

    def events(
        self,
        run_id: str | None = None,
        *,
        kinds: Iterable[str] | None = None,
        since_seq: int = 0,
        limit: int | None = None,
    ) -> Iterator[RunEvent]:
        """Stream events in order, in pages, so that memory does not grow with the log."""
        wanted = None if kinds is None else sorted(set(kinds))
        clauses = "seq > ?" + ("" if run_id is None else " AND run_id = ?")
        if wanted is not None:
            clauses += f" AND kind IN ({', '.join('?' * len(wanted))})"
        left = -1 if limit is None else limit
        while left:
            size = _PAGE if left < 0 else min(_PAGE, left)
            values = [since_seq, *([] if run_id is None else [run_id]), *(wanted or []), size]
            with self.lock:
                rows = self.db.execute(
                    "SELECT seq, ts, run_id, node_key, kind, payload, causal_seq FROM events "
                    f"WHERE {clauses} ORDER BY seq LIMIT ?",
                    values,
                ).fetchall()
            for seq, ts, run, key, kind, payload, causal in rows:
                yield RunEvent(seq, ts, run, key, kind, _decode(payload), causal)
            if len(rows) < size:
                return
            since_seq = rows[-1][0]
            left = left if left < 0 else left - len(rows)

    def head(self) -> int:
        """Number of the last event."""
        with self.lock:
            return int(self.db.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()[0])

    # -- projections -------------------------------------------------------------------------------------------

    def projection(self, run_id: str) -> dict[str, Any]:
        """What the tables say about a run.

        Raises
        ------
        UnknownRunError
            If there is no such run.
        """
        with self.lock:
            found = tables_of(self.db, run_id)
        if found is None:
            raise UnknownRunError(f"no run {run_id!r} in {self.path}")
        return found

    def replay_projection(self, run_id: str) -> dict[str, Any]:
        """What the events alone say about a run; it is equal to `projection`."""
        return replay(self.events(run_id))

    def rebuild(self) -> None:
        """Throw the projected tables away and make them anew from the log."""
        with self.transaction() as db:
            for table in ("findings", "messages", "usage", "nodes", "runs"):
                db.execute(f"DELETE FROM {table}")
            for event in list(self.events()):
                project(db, event)

    def run_row(self, run_id: str) -> tuple[str, str | None, str | None]:
        """(status, error, requested control) of a run."""
        with self.lock:
            row = self.db.execute("SELECT status, error, control FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if row is None:
            raise UnknownRunError(f"no run {run_id!r} in {self.path}")
        return str(row[0]), row[1], row[2]

    def runs(self) -> list[str]:
        """All runs, oldest first."""
        with self.lock:
            return [run for (run,) in self.db.execute("SELECT run_id FROM runs ORDER BY created_ts, rowid")]

    def descendants(self, run_id: str) -> set[str]:
        """A run and all runs below it."""
        with self.lock:
            pairs = self.db.execute("SELECT run_id, parent_run_id FROM runs").fetchall()
        family = {run_id}
        while True:
            grown = family | {run for run, parent in pairs if parent in family}
            if grown == family:
                return family
            family = grown

    # -- nodes -------------------------------------------------------------------------------------------------

    def create_node(self, run_id: str, node_key: str, *, depth: int, parent_key: str | None) -> bool:
        """Make a pending node; False if it is there."""
        with self.transaction() as db:
            if db.execute("SELECT 1 FROM nodes WHERE run_id = ? AND node_key = ?", (run_id, node_key)).fetchone():
                return False
            payload = {"state": "pending", "depth": depth, "parent_key": parent_key}
            self.append(run_id, "node_created", payload, node_key=node_key)
            return True

    def node_state(self, run_id: str, node_key: str) -> str | None:
        """State of a node, or None."""
        with self.lock:
            row = self.db.execute(
                "SELECT state FROM nodes WHERE run_id = ? AND node_key = ?", (run_id, node_key)
            ).fetchone()
        return None if row is None else str(row[0])

    def cas_node_state(
        self,
        run_id: str,
        node_key: str,
        expected: str,
        new: str,
        *,
        owner: str | None = None,
        more: dict[str, Any] | None = None,
    ) -> bool:
        """Change the state of a node if it is the expected one; the only writer of states.

        Parameters
        ----------
        owner : str, optional
            The session that owns the node from now on; without it the stored one stays.
        more : dict, optional
            Further fields of the event.
        """
        if new not in NODE_STATES:
            raise RunStoreError(f"{new!r} is no state of a node")
        with self.transaction():
            if self.node_state(run_id, node_key) != expected:
                return False
            payload = {"expected": expected, "new": new, **(more or {})}
            if owner is not None:
                payload["owner_session"] = owner
            self.append(run_id, "node_state_changed", payload, node_key=node_key)
            return True

    def add_usage(self, run_id: str, node_key: str | None = None, **deltas: float) -> None:
        """Charge a run.

        Raises
        ------
        RunStoreError
            If a field is unknown.
        """
        unknown = set(deltas) - set(USAGE_FIELDS)
        if unknown:
            raise RunStoreError(f"usage has no field {', '.join(sorted(unknown))}; it has {', '.join(USAGE_FIELDS)}")
        self.append(run_id, "usage_checkpoint", dict(deltas), node_key=node_key)

    # -- messages ----------------------------------------------------------------------------------------------

    def enqueue(self, run_id: str, node_key: str, payload: Any, sender: str = "user") -> int:
        """Leave a message for a node; returns its id.

        The log holds it redacted and by hash; the whole of it is a blob.
        """
        sha = self.blobs.put_json(payload)
        with self.transaction() as db:
            self.run_row(run_id)
            number = int(db.execute("SELECT coalesce(max(id), 0) + 1 FROM messages").fetchone()[0])
            body = {"id": number, "sender": sender, "payload": redact(payload), "payload_sha": sha}
            self.append(run_id, "message_enqueued", body, node_key=node_key)
            return number

    def take_messages(self, run_id: str, node_key: str) -> list[Message]:
        """All messages for a node that were not delivered yet, in order; each is delivered exactly once."""
        query = (
            "SELECT id, sender, payload_sha FROM messages "
            "WHERE run_id = ? AND to_node_key = ? AND NOT delivered ORDER BY id"
        )
        with self.lock:
            if not self.db.execute(query, (run_id, node_key)).fetchone():
                return []
        with self.transaction() as db:
            rows = db.execute(query, (run_id, node_key)).fetchall()
            for number, sender, sha in rows:
                payload = self.blobs.get_json(sha)
                body = {"id": number, "sender": sender, "payload": redact(payload), "payload_sha": sha}
                self.append(run_id, "message_delivered", body, node_key=node_key)
            return [Message(number, sender, self.blobs.get_json(sha)) for number, sender, sha in rows]
