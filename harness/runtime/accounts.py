"""Who may spend what: one account for the run, and one for each part of it that was given a share."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from harness.runtime.ir import Budgets

_LIMITS = {"tokens": "max_tokens", "cost_usd": "max_cost_usd", "nodes": "max_nodes", "wall_seconds": "max_wall_seconds"}


@dataclass(frozen=True)
class Account:
    """A budget, and the node below which everything is charged to it; the run's own has an empty key."""

    key: str
    budgets: Budgets


class Accounts:
    """What was used, below each node that has a child plan. A key ``a/b.c`` lies below ``a``."""

    def __init__(self) -> None:
        self._used: dict[str, dict[str, float]] = {}
        self._reserved: dict[str, int] = {}
        self._lock = threading.Lock()

    def charge(self, node_key: str, deltas: dict[str, Any]) -> None:
        """Add a checkpoint of usage to every account above a node."""
        for key in above(node_key):
            used = self._used.setdefault(key, dict.fromkeys(_LIMITS, 0))
            for name in _LIMITS:
                used[name] += deltas.get(name, 0)

    def used(self, key: str) -> dict[str, float]:
        """Usage of an account."""
        return self._used.get(key, dict.fromkeys(_LIMITS, 0))

    def exceeded(self, chain: Sequence[Account], wall_running: float) -> str | None:
        """Name of a limit that is exceeded, or None.

        Parameters
        ----------
        wall_running : float
            Active seconds that are not charged yet.
        """
        for account in chain:
            used = self.used(account.key)
            for name, limit in _LIMITS.items():
                spent = used[name] + (wall_running if name == "wall_seconds" else 0)
                if spent > getattr(account.budgets, limit):
                    return limit
        return None

    def reserve(self, chain: Sequence[Account]) -> bool:
        """Set a node aside before it runs; False if an account has none left."""
        with self._lock:
            for account in chain:
                taken = self.used(account.key)["nodes"] + self._reserved.get(account.key, 0)
                if taken + 1 > account.budgets.max_nodes:
                    return False
            for account in chain:
                self._reserved[account.key] = self._reserved.get(account.key, 0) + 1
            return True

    def release(self, chain: Sequence[Account]) -> None:
        """Give a reservation back; what was really used is charged by then."""
        with self._lock:
            for account in chain:
                self._reserved[account.key] -= 1

    def share(self, chain: Sequence[Account], fraction: float, explicit: Budgets | None) -> Budgets:
        """Budgets of a child plan: a fraction of what is left above it, and no more than it asks for itself."""
        parent = chain[-1].budgets
        used = self.used(chain[-1].key)
        left = {limit: max(0.0, getattr(parent, limit) - used[name]) * fraction for name, limit in _LIMITS.items()}
        # Floors, but whoever has something left can do at least one thing with it.
        nodes = max(1, int(left["max_nodes"]))
        share = msgspec.structs.replace(
            parent,
            max_nodes=nodes,
            max_tokens=int(left["max_tokens"]),
            max_cost_usd=left["max_cost_usd"],
            max_wall_seconds=max(left["max_wall_seconds"], 1e-3),
        )
        if explicit is None:
            return share
        names = Budgets.__struct_fields__
        return Budgets(**{name: min(getattr(share, name), getattr(explicit, name)) for name in names})


def above(node_key: str) -> list[str]:
    """Keys of the accounts that a node is charged to.

    >>> above("root@1.a/child@1.b/leaf@1.c")
    ['', 'root@1.a', 'root@1.a/child@1.b']
    """
    places = [at for at, char in enumerate(node_key) if char == "/"]
    return ["", *(node_key[:at] for at in places)]
