"""Leases: who may work on a run or a node, until when, and since which takeover.

Taking a lease is one transaction, so of two that try at once exactly one gets it. Every change of hands raises the
fence; a worker that fell asleep and lost its lease finds another fence and cannot append any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.runtime.errors import LeaseLost
from harness.runtime.sessions import is_dead

if TYPE_CHECKING:
    from harness.runtime.store import RunStore

LEASE_TTL = 120.0
RUN_LEASE = ""
"""Node key of the lease on a whole run."""


class Leases:
    """The leases of a workspace.

    Parameters
    ----------
    store : RunStore
        Whose connection and log are used.
    """

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._guards: dict[str, tuple[str, int]] = {}

    def acquire(
        self, run_id: str, node_key: str, session: str, *, ttl: float = LEASE_TTL, now: float | None = None
    ) -> int | None:
        """Take or extend a lease, atomically; returns its fence, or None if another live session holds it.

        A lease falls to another session when it has expired, or when the process of its holder is certainly gone.
        """
        now = self._store.clock() if now is None else now
        with self._store.transaction() as db:
            held_by = self.holder(run_id, node_key, now=now)
            if held_by not in (None, session):
                self._store.append(
                    run_id, "lease_denied", {"session": session, "held_by": held_by}, node_key=node_key or None
                )
                return None
            db.execute(
                "INSERT INTO leases VALUES (?, ?, ?, ?, 1) ON CONFLICT DO UPDATE SET "
                "fence = fence + (session IS NOT excluded.session), session = excluded.session, "
                "expires_ts = excluded.expires_ts",
                (run_id, node_key, session, now + ttl),
            )
            fence = int(self._row(run_id, node_key)[2])
            payload = {"session": session, "ttl_s": ttl, "fence": fence}
            self._store.append(run_id, "lease_acquired", payload, node_key=node_key or None)
            return fence

    def holder(self, run_id: str, node_key: str, *, now: float | None = None) -> str | None:
        """The session that holds a lease and may go on doing so."""
        now = self._store.clock() if now is None else now
        with self._store.lock:
            session, expires, _ = self._row(run_id, node_key)
        return None if session is None or expires <= now or is_dead(session) else session

    def _row(self, run_id: str, node_key: str) -> tuple[str | None, float, int]:
        row = self._store.db.execute(
            "SELECT session, expires_ts, fence FROM leases WHERE run_id = ? AND node_key = ?", (run_id, node_key)
        ).fetchone()
        return (None, 0.0, 0) if row is None else row

    def renew(
        self, run_id: str, node_key: str, session: str, *, ttl: float = LEASE_TTL, now: float | None = None
    ) -> bool:
        """Extend a lease; only its owner can. Not logged: it changes nothing that anyone could ask about later."""
        now = self._store.clock() if now is None else now
        with self._store.transaction() as db:
            changed = db.execute(
                "UPDATE leases SET expires_ts = ? WHERE run_id = ? AND node_key = ? AND session = ?",
                (now + ttl, run_id, node_key, session),
            )
            return changed.rowcount == 1

    def release(self, run_id: str, node_key: str, session: str) -> bool:
        """Give a lease back; only its owner can."""
        with self._store.transaction() as db:
            changed = db.execute(
                "UPDATE leases SET session = NULL, expires_ts = 0 WHERE run_id = ? AND node_key = ? AND session = ?",
                (run_id, node_key, session),
            )
            if changed.rowcount != 1:
                return False
            self._store.append(run_id, "lease_released", {"session": session}, node_key=node_key or None)
            return True

    def expired(self, now: float | None = None) -> list[tuple[str, str, str]]:
        """(run, node, session) of leases that have run out."""
        now = self._store.clock() if now is None else now
        with self._store.lock:
            return self._store.db.execute(
                "SELECT run_id, node_key, session FROM leases WHERE session IS NOT NULL AND expires_ts <= ? "
                "ORDER BY run_id, node_key",
                (now,),
            ).fetchall()

    def guard(self, run_id: str, session: str, fence: int) -> None:
        """From now on append to a run only while this session holds its lease."""
        self._guards[run_id] = (session, fence)

    def unguard(self, run_id: str) -> None:
        """Append freely again."""
        self._guards.pop(run_id, None)

    def check(self, run_id: str) -> None:
        """Raises LeaseLost if this connection worked under a lease of the run that is not its own any more."""
        guard = self._guards.get(run_id)
        if guard is not None:
            session, _, fence = self._row(run_id, RUN_LEASE)
            if (session, fence) != guard:
                raise LeaseLost(f"run {run_id}: another worker has taken over; this one stops without writing more")
