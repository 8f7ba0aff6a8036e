"""Transitions of a memory: the most frequent ones, and those that fail or stall most."""

from __future__ import annotations

from typing import Any

from sherpa.collation import collation_key
from sherpa.event import Event
from sherpa.instants import format_milliseconds
from sherpa.logbuilder import case_order
from sherpa.projection.states import join_state, split_state
from sherpa.rounding import as_json_number, round_half_up, rounded_share
from sherpa.store import GraphStore, TransitionRow, Transitions

Discovery = dict[tuple[int, str, str], int]
"""(order, state, next event) to the place of its first occurrence."""
OUTCOMES = ("success", "failure", "unknown")


def analytics_report(
    store: GraphStore, *, as_of: int, limit: int = 10, discovered: Discovery | None = None
) -> dict[str, Any]:
    """Cases by outcome, and transitions over all orders.

    Parameters
    ----------
    store : GraphStore
    as_of : int
        Present time in nanoseconds since the epoch.
    limit : int
        Rows of each list.
    discovered : dict, optional
        From `order_of_discovery`: the original lists transitions of equal rank in that order.

    Notes
    -----
    Rates of cases are shares of all cases. `successRate` and `failureRate` of a transition are shares of the
    observations whose case has a known outcome (None if there are none), `stallRate` is the share of those without.
    """
    with store.snapshot():
        outcomes = store.outcome_counts()
        hot, failing, stalling = (_listed(store, kind, limit, discovered) for kind in Transitions)
    total = sum(outcomes.values())
    cases: dict[str, Any] = {"total": total} | {name: outcomes.get(name, 0) for name in OUTCOMES}
    for name in ("success", "failure"):
        cases[f"{name}Rate"] = rounded_share(cases[name], total)
    return {
        "generatedAt": format_milliseconds(as_of),
        "cases": cases,
        "hotTransitions": [_transition(row) for row in hot],
        "failureBranches": [_transition(row) for row in failing],
        "stallBranches": [_transition(row) for row in stalling],
    }


def order_of_discovery(store: GraphStore, max_order: int) -> Discovery:
    """When the original's rebuild would have met each raw transition first. For parity: it reads every event."""
    # The ledger is read in the order of event ids there, so that is the order in which cases turn up.
    cases: dict[str, list[Event]] = {}
    for event in sorted(store.events_by_time(), key=lambda e: collation_key(e.event_id)):
        cases.setdefault(event.case_id, []).append(event)
    found: Discovery = {}
    for events in cases.values():
        types = [event.type for event in case_order(events, parity=True)]
        for at in range(1, len(types)):
            for order in range(1, min(max_order, at) + 1):
                found.setdefault((order, join_state(types[at - order : at]), types[at]), len(found))
    return found


def _listed(store: GraphStore, kind: Transitions, limit: int, discovered: Discovery | None) -> list[TransitionRow]:
    if discovered is None:
        return store.transitions(kind, limit)
    last = len(discovered)
    rows = store.transitions(kind, None)
    # Rows come ranked; only those of equal rank and equal next event change places.
    ranks: dict[tuple[Any, ...], int] = {}
    for row in rows:
        ranks.setdefault(_rank(kind, row), len(ranks))
    rows.sort(
        key=lambda row: (
            ranks[_rank(kind, row)],
            discovered.get((row.order, row.state, row.next_event), last),
        )
    )
    return rows[:limit]


def _rank(kind: Transitions, row: TransitionRow) -> tuple[Any, ...]:
    known = row.terminal_success + row.terminal_failure
    rate = {
        Transitions.HOT: row.order,
        Transitions.FAILING: rounded_share(row.terminal_failure, known),
        Transitions.STALLING: rounded_share(row.terminal_unknown, row.support),
    }
    return rate[kind], row.support, row.next_event


def _transition(row: TransitionRow) -> dict[str, Any]:
    known = row.terminal_success + row.terminal_failure
    return {
        "order": row.order,
        "state": list(split_state(row.state)),
        "nextEvent": row.next_event,
        "support": row.support,
        "successRate": rounded_share(row.terminal_success, known),
        "failureRate": rounded_share(row.terminal_failure, known),
        "stallRate": rounded_share(row.terminal_unknown, row.support),
        "meanTimeToNextMs": as_json_number(round_half_up(row.total_ms / row.timed, 0)) if row.timed else None,
        "lastSeenAt": row.last_seen_at,
    }
