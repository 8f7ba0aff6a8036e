"""Solved and disproved plans by signature. Running out of budget proves nothing and is never kept as a failure."""

from __future__ import annotations

from typing import Any

import msgspec

from harness.runtime.errors import RunStoreError
from harness.runtime.ir import canonical
from harness.runtime.store import RunStore

NEGATIVE_TTL = 7 * 86_400.0
"""Seconds after which a disproved plan may be tried again."""


class SolutionCache:
    """Entries ``{status_class: solved|failed, inconclusive, plan_sha, evidence_sha, expires_ts}``."""

    def __init__(self, store: RunStore) -> None:
        self._store = store

    def get(self, signature: str) -> dict[str, Any] | None:
        """The entry of a signature, unless it has expired."""
        with self._store.lock:
            row = self._store.db.execute(
                "SELECT entry FROM solution_cache WHERE signature = ?", (signature,)
            ).fetchone()
        if row is None:
            return None
        entry: dict[str, Any] = msgspec.json.decode(row[0])
        expires = entry.get("expires_ts")
        return None if expires is not None and expires <= self._store.clock() else entry

    def put(self, signature: str, entry: dict[str, Any]) -> None:
        """Keep an entry.

        Raises
        ------
        RunStoreError
            If it calls something failed that was not conclusive.
        """
        if entry.get("status_class") == "failed" and entry.get("inconclusive"):
            raise RunStoreError("an inconclusive end is no evidence that a plan is wrong, and is not kept as one")
        with self._store.transaction() as db:
            db.execute("INSERT OR REPLACE INTO solution_cache VALUES (?, ?)", (signature, canonical(entry).decode()))

    def put_failed(self, signature: str, plan_sha: str, evidence_sha: str) -> None:
        """Keep that a plan was verified to be wrong, with the evidence, for a while."""
        expires = self._store.clock() + NEGATIVE_TTL
        entry = {"status_class": "failed", "inconclusive": False, "plan_sha": plan_sha}
        self.put(signature, entry | {"evidence_sha": evidence_sha, "expires_ts": expires})
