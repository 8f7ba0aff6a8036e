"""How a memory is used: `sherpa metrics`."""

from __future__ import annotations

from typing import Any

from sherpa.instants import NANOS_PER_MS
from sherpa.rounding import as_json_number, round_half_up
from sherpa.store import GraphStore

_WEEK = 7 * 86_400_000 * NANOS_PER_MS


def usage_metrics(store: GraphStore, *, as_of: int) -> dict[str, Any]:
    """Adoption, quality, efficiency and reliability.

    Parameters
    ----------
    as_of : int
        Present time in nanoseconds since the epoch.

    Returns
    -------
    dict
        `meanCaseDurationMs` is over cases of at least two events with a known outcome; None if there are none.
    """
    with store.snapshot():
        metadata = store.metadata()
        events, cases, _, _ = store.tallies()
        active = store.cases_seen_since(as_of - _WEEK)
        mean = store.mean_case_duration_ms()
    return {
        "totalEvents": events,
        "totalCases": cases,
        "activeCasesLast7d": active,
        "advisoryInjections": int(metadata.get("advisoryInjections", 0)),
        "meanCaseDurationMs": None if mean is None else as_json_number(round_half_up(mean, 0)),
        "rebuildCount": int(metadata.get("rebuildCount", 0)),
        "lastRebuildAt": metadata.get("lastRebuildAt"),
        "ledgerCorruptionCount": int(metadata.get("ledgerCorruptionCount", 0)),
    }
