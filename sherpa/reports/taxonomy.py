"""Types of events and how they drift: what is frequent, rare or new, and how far the latest days are from before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sherpa.collation import collation_key
from sherpa.instants import NANOS_PER_MS, format_milliseconds
from sherpa.rounding import as_json_number, round_half_up, rounded_share
from sherpa.store import GraphStore

_DAY = 86_400_000 * NANOS_PER_MS
PERMUTATIONS = 999
_SEED = 20260521


@dataclass(frozen=True)
class TypeCount:
    """Events of one type: all of them, those in the recent window, and when the first and last happened."""

    name: str
    count: int
    recent: int
    first_seen_at: str
    last_seen_at: str

    @property
    def baseline(self) -> int:
        """Events before the recent window."""
        return self.count - self.recent


def taxonomy_report(
    store: GraphStore,
    *,
    as_of: int,
    recent_days: int = 14,
    rare_support: int = 3,
    limit: int = 10,
    permutations: int = PERMUTATIONS,
) -> dict[str, Any]:
    """Types of a memory, and the drift of the recent window against everything before.

    Parameters
    ----------
    store : GraphStore
    as_of : int
        Present time in nanoseconds since the epoch.
    recent_days : int
        Length of the recent window.
    rare_support : int
        A type with at most so many events is rare.
    limit : int
        Rows of each list.
    permutations : int
        Of the test; 0 leaves it out.

    Notes
    -----
    The published score is half the sum of absolute differences of rounded shares (total variation distance), which is
    0.5 when one of the windows is empty. It says nothing of chance: ten events of a busy week differ from a year as
    well. `pValue` is that of the unrounded distance when whole cases change places between the windows at random,
    because the events of a case are not independent; None if one window is empty.
    """
    start = as_of - recent_days * _DAY
    with store.snapshot():
        # In the order of the published sum of shares: floating point makes it matter to the last digit.
        counts = sorted((TypeCount(*row) for row in store.type_counts(start)), key=lambda c: (-c.count, c.name))
        units = store.type_counts_by_case(start) if permutations else []
    total = sum(c.count for c in counts)
    recent_total = sum(c.recent for c in counts)
    baseline_total = total - recent_total
    shares = {
        c.name: (
            rounded_share(c.baseline, baseline_total),
            rounded_share(c.recent, recent_total),
            rounded_share(c.count, total),
        )
        for c in counts
    }

    def row(c: TypeCount) -> dict[str, Any]:
        baseline, recent, share = shares[c.name]
        return {
            "event": c.name,
            "count": c.count,
            "share": share,
            "firstSeenAt": c.first_seen_at,
            "lastSeenAt": c.last_seen_at,
            "baselineCount": c.baseline,
            "baselineShare": baseline,
            "recentCount": c.recent,
            "recentShare": recent,
            "isNewInRecentWindow": _is_new(c),
            "isRare": c.count <= rare_support,
        }

    rare = [c for c in counts if c.count <= rare_support]
    new = [c for c in counts if _is_new(c)]
    apart = sum(abs((recent or 0) - (baseline or 0)) for baseline, recent, _ in shares.values())
    return {
        "generatedAt": format_milliseconds(as_of),
        "totalEvents": total,
        "distinctTypes": len(counts),
        "rareSupport": rare_support,
        "topTypes": [row(c) for c in counts[:limit]],
        "rareTypes": [row(c) for c in sorted(rare, key=lambda c: (c.count, -c.recent, collation_key(c.name)))[:limit]],
        "recentNewTypes": [row(c) for c in sorted(new, key=lambda c: (-c.recent, collation_key(c.name)))[:limit]],
        "drift": {
            "recentWindowDays": recent_days,
            "recentWindowStart": format_milliseconds(start),
            "baselineEventCount": baseline_total,
            "baselineDistinctTypes": sum(c.baseline > 0 for c in counts),
            "recentEventCount": recent_total,
            "recentDistinctTypes": sum(c.recent > 0 for c in counts),
            "newTypeCount": len(new),
            "newTypeShare": rounded_share(sum(c.recent for c in new), recent_total) or 0,
            "rareTypeCount": len(rare),
            "rareEventShare": rounded_share(sum(c.count for c in rare), total) or 0,
            "score": as_json_number(round_half_up(apart / 2, 3)),
            "pValue": _by_chance(units, permutations),
        },
    }


def _is_new(c: TypeCount) -> bool:
    return c.recent > 0 and c.baseline == 0


def _by_chance(units: list[tuple[str, int, str, int]], permutations: int) -> float | None:
    """Share of permutations, the observed one counted, in which the windows are at least as far apart."""
    cases: dict[tuple[str, int], int] = {}
    types: dict[str, int] = {}
    row = np.array([cases.setdefault((case, recent), len(cases)) for case, recent, _, _ in units], dtype=np.int64)
    column = np.array([types.setdefault(name, len(types)) for _, _, name, _ in units], dtype=np.int64)
    times = np.array([count for _, _, _, count in units], dtype=np.float64)
    recent = np.array([is_recent for _, is_recent in cases], dtype=bool)
    if not recent.any() or recent.all():
        return None
    totals = np.bincount(column, times, len(types))

    def distance(chosen: np.ndarray[Any, np.dtype[np.bool_]]) -> float:
        inside = np.bincount(column, times * chosen[row], len(types))
        outside = totals - inside
        return float(np.abs(inside / inside.sum() - outside / outside.sum()).sum() / 2)

    observed = distance(recent)
    rng = np.random.default_rng(_SEED)
    # A tie that rounds apart would make a difference of whole permutations.
    farther = sum(distance(rng.permutation(recent)) >= observed - 1e-12 for _ in range(permutations))
    return (1 + farther) / (1 + permutations)
