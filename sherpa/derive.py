"""From events to the rows of the graph: all of them (rebuild) or those that new events change (increment)."""

from __future__ import annotations

import sqlite3
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sherpa.branches import Branch, Branches
from sherpa.bulk import WORKFLOW_LABEL, Batch, Loaded, load
from sherpa.config import EngineConfig
from sherpa.counting import NO_MAX, NO_MIN, SUMS, CountTable, count
from sherpa.edgerows import StateRow, edges_at, edges_from
from sherpa.event import Event
from sherpa.eventlog import EventLog, milliseconds
from sherpa.fewcount import MOST_EVENTS, Edge, EdgeKey, count_few
from sherpa.growth import Growth, growth_of, put
from sherpa.instants import NANOS_PER_MS, NO_INSTANT, format_instant
from sherpa.logbuilder import case_order, group_cases
from sherpa.projection.states import join_state
from sherpa.queries import branch_risks
from sherpa.rounding import round_half_up
from sherpa.store import GraphStore, Row, insert, row_of_event, without_indexes
from sherpa.tallies import Tallies, counted, keep, tallies
from sherpa.terminal import FAILURE, OUTCOMES, SUCCESS

DERIVED = ("events", "cases", "state_edges", "workflows", "risk_metrics", "success_metrics")

Cases = Sequence[tuple[str, list[Event]]]


class NeedsRebuild(Exception):
    """An increment cannot tell a value from the graph alone."""


def log_of(cases: Cases, config: EngineConfig) -> EventLog:
    return EventLog.from_events(cases, parity=config.parity)


def count_edges(log: EventLog, config: EngineConfig) -> dict[EdgeKey, Edge]:
    """Every edge of the log by its primary key."""
    if config.state_strategy == "raw" and log.events <= MOST_EVENTS:
        return count_few(log, config.max_order)
    table = count(log, config.max_order, strategy=config.state_strategy, allow_raw_fallback=config.allow_raw_fallback)
    responses: list[dict[str, int]] = [{} for _ in range(len(table))]
    for edge, key, times in zip(
        table.response_edge.tolist(), table.response_key.tolist(), table.response_count.tolist(), strict=True
    ):
        responses[edge][table.response_vocabulary[key]] = times
    keys = _keys(table)
    return {
        key: Edge(
            sums,
            answers,
            None if low == NO_MIN else low,
            None if high == NO_MAX else high,
            None if last == NO_INSTANT else last,
        )
        for key, sums, answers, low, high, last in zip(
            keys,
            table.sums.tolist(),
            responses,
            table.min_ms.tolist(),
            table.max_ms.tolist(),
            table.last_seen.tolist(),
            strict=True,
        )
    }


def _keys(table: CountTable) -> list[EdgeKey]:
    names = [join_state((t,)) for t in table.vocabulary]
    keys = []
    for order, context, following in zip(
        table.order.tolist(), table.context.tolist(), table.next.tolist(), strict=True
    ):
        state = " -> ".join([names[c] for c in context[order - 1 :: -1]])
        keys.append((order, state, table.vocabulary[following]))
    return keys


# -- rebuild ---------------------------------------------------------------------------------------------------


def rebuild(db: sqlite3.Connection, events: Iterable[Event], config: EngineConfig) -> None:
    """Replace every derived table; runs inside the caller's transaction."""
    cases = group_cases(events, parity=config.parity)
    for table in DERIVED:
        db.execute(f"DELETE FROM {table}")
    insert(db, "events", (row_of_event(e) for _, members in cases for e in members))
    log = log_of(cases, config)
    insert(db, "cases", case_rows(cases, log))
    _write_edges(db, log, config)
    write_workflows(db, workflow_sums(cases, log), {})


def rebuild_in_bulk(db: sqlite3.Connection, batches: Iterator[Batch], config: EngineConfig) -> None:
    """`rebuild` for raw states, streaming: the same rows from batches of the ledger, in the caller's transaction.

    Raises
    ------
    sqlite3.IntegrityError
        If an event id occurs twice; then nothing may be kept.
    """
    for table in DERIVED:
        db.execute(f"DELETE FROM {table}")
    with without_indexes(db, "events"):
        loaded = load(batches, lambda rows: insert(db, "events", rows))
    insert(db, "cases", loaded_case_rows(loaded))
    _write_edges(db, loaded.log, config)
    write_workflows(db, loaded_workflow_sums(loaded), {})


def _write_edges(db: sqlite3.Connection, log: EventLog, config: EngineConfig) -> None:
    edges = count_edges(log, config)
    insert(db, "state_edges", (edge.row(key) for key, edge in sorted(edges.items(), key=lambda item: item[0])))
    _write_metrics(db, sorted(_by_state(edges, config).items()))


def loaded_case_rows(loaded: Loaded) -> Iterator[Row]:
    """`case_rows` from columns."""
    log = loaded.log
    first, last = log.instants[log.offsets[:-1]].tolist(), log.instants[log.offsets[1:] - 1].tolist()
    return zip(
        log.case_ids,
        loaded.agents,
        np.diff(log.offsets).tolist(),
        map(format_instant, first),
        map(format_instant, last),
        map(OUTCOMES.__getitem__, log.terminal.tolist()),
        last,
        strict=True,
    )


def loaded_workflow_sums(loaded: Loaded) -> dict[str, WorkflowSums]:
    """`workflow_sums` from columns."""
    log, sums = loaded.log, {}
    for label, rows in loaded.workflows.items():
        cases = np.unique(np.searchsorted(log.offsets, rows, side="right") - 1)
        begin, end = log.instants[log.offsets[cases]], log.instants[log.offsets[cases + 1] - 1]
        ended, instants = log.terminal[cases], log.instants[rows]
        sums[label] = WorkflowSums(
            len(cases),
            len(rows),
            int((ended == SUCCESS).sum()),
            int((ended == FAILURE).sum()),
            int(np.maximum(0, milliseconds(end) - milliseconds(begin)).sum()),
            int(instants.min()),
            int(instants.max()),
        )
    return sums


def case_rows(cases: Cases, log: EventLog) -> list[Row]:
    """Rows of the table ``cases``."""
    return [
        (
            case_id,
            events[0].agent_id,
            len(events),
            events[0].ts,
            events[-1].ts,
            OUTCOMES[ended],
            events[-1].instant,
        )
        for (case_id, events), ended in zip(cases, log.terminal.tolist(), strict=True)
    ]


# -- workflows -------------------------------------------------------------------------------------------------


@dataclass
class WorkflowSums:
    """What cases contribute to one row of ``workflows``."""

    cases: int = 0
    events: int = 0
    success: int = 0
    failure: int = 0
    total_ms: int = 0
    first: int = 2**63 - 1
    last: int = NO_INSTANT


def workflow_sums(cases: Cases, log: EventLog) -> dict[str, WorkflowSums]:
    """Contribution of the cases to each label ``workflow:…`` on their events."""
    sums: dict[str, WorkflowSums] = {}
    for (_, events), ended in zip(cases, log.terminal.tolist(), strict=True):
        labels = set()
        for event in events:
            for label in {x for x in event.labels if x.startswith(WORKFLOW_LABEL)}:
                labels.add(label)
                entry = sums.setdefault(label, WorkflowSums())
                entry.events += 1
                entry.first = min(entry.first, event.instant)
                entry.last = max(entry.last, event.instant)
        for label in labels:
            entry = sums[label]
            entry.cases += 1
            entry.success += OUTCOMES[ended] == "success"
            entry.failure += OUTCOMES[ended] == "failure"
            entry.total_ms += max(0, events[-1].instant // NANOS_PER_MS - events[0].instant // NANOS_PER_MS)
    return sums


def write_workflows(
    db: sqlite3.Connection, added: Mapping[str, WorkflowSums], removed: Mapping[str, WorkflowSums]
) -> None:
    """Add and take away contributions."""
    for label in sorted(added.keys() | removed.keys()):
        plus, minus = added.get(label, WorkflowSums()), removed.get(label, WorkflowSums())
        row = db.execute(
            "SELECT case_count, event_count, success_count, failure_count, total_duration_ms, first_instant, "
            "last_instant FROM workflows WHERE workflow_label = ?",
            (label,),
        ).fetchone()
        held = WorkflowSums(*row) if row else WorkflowSums()
        if minus.events and ((minus.first <= held.first < plus.first) or (minus.last >= held.last > plus.last)):
            raise NeedsRebuild(label)
        total = WorkflowSums(
            held.cases + plus.cases - minus.cases,
            held.events + plus.events - minus.events,
            held.success + plus.success - minus.success,
            held.failure + plus.failure - minus.failure,
            held.total_ms + plus.total_ms - minus.total_ms,
            min(held.first, plus.first),
            max(held.last, plus.last),
        )
        db.execute("DELETE FROM workflows WHERE workflow_label = ?", (label,))
        if total.cases:
            insert(db, "workflows", [_workflow_row(label, total)])


def _workflow_row(label: str, total: WorkflowSums) -> Row:
    return (
        label,
        total.cases,
        total.events,
        round_half_up(total.success / total.cases, 3),
        round_half_up(total.failure / total.cases, 3),
        round_half_up(total.total_ms / total.cases, 0),
        format_instant(total.first),
        format_instant(total.last),
        total.success,
        total.failure,
        total.total_ms,
        total.first,
        total.last,
    )


# -- metrics tables --------------------------------------------------------------------------------------------


def _by_state(edges: Mapping[EdgeKey, Edge], config: EngineConfig) -> dict[str, list[StateRow]]:
    states: dict[str, list[StateRow]] = {}
    for (order, state, event), edge in edges.items():
        if order == config.default_order:
            last = None if edge.last is None else format_instant(edge.last)
            states.setdefault(state, []).append((Branch.of(event, edge.sums, edge.responses), last))
    return states


def _write_metrics(
    db: sqlite3.Connection,
    states: Iterable[tuple[str, Sequence[StateRow]]],
    changed: Container[tuple[str, str]] | None = None,
) -> None:
    """Fill ``success_metrics`` and ``risk_metrics`` of the given states (all edges of order ``default_order``).

    With `changed`, the former get the rows of these edges alone: what a row says there is of its own edge.
    """
    success: list[Row] = []
    risk: list[Row] = []
    for state, rows in states:
        last_seen = {branch.event: last for branch, last in rows}
        branches = Branches.ordered(branch for branch, _ in rows)
        for branch in branches:
            if changed is not None and (state, branch.event) not in changed:
                continue
            s, f = branch.success_ratio, branch.failure_ratio
            success.append(
                (
                    state,
                    branch.event,
                    None if s is None else round_half_up(s, 3),
                    None if f is None else round_half_up(f, 3),
                    branch.support,
                    round_half_up(branch.total_ms / branch.timed, 0) if branch.timed else None,
                    last_seen[branch.event],
                )
            )
        for branch, kind, relative in branch_risks(branches):
            risk.append(
                (
                    state,
                    branch.event,
                    kind,
                    round_half_up(branch.support / branches.total, 3),
                    relative,
                    branch.support,
                    last_seen[branch.event],
                )
            )
    insert(db, "success_metrics", success)
    insert(db, "risk_metrics", risk)


# -- increment -------------------------------------------------------------------------------------------------


def increment(store: GraphStore, db: sqlite3.Connection, events: Sequence[Event], config: EngineConfig) -> None:
    """Bring the graph up to date with new events; runs inside the caller's transaction.

    Events that only go on with their case add their own edges (`sherpa.growth`). Any other case that grows is taken
    out as it was and put in as it is, so late events, changed terminal outcomes and responses need no rules of their
    own. The cost is that of the cases touched, not of the store.

    Raises
    ------
    NeedsRebuild
        If a late event took away the shortest, longest or latest observation of an edge: the graph does not hold
        the second shortest.
    """
    known = store.known_ids([e.event_id for e in events])
    fresh: dict[str, Event] = {}
    for event in events:
        if event.event_id not in known:
            fresh.setdefault(event.event_id, event)
    if not fresh:
        return
    arrivals: dict[str, list[Event]] = {}
    for event in fresh.values():
        arrivals.setdefault(event.case_id, []).append(event)
    before: list[tuple[str, list[Event]]] = []
    after: list[tuple[str, list[Event]]] = []
    grown: list[Growth] = []
    simple = config.state_strategy == "raw" and not config.parity
    for case_id in sorted(arrivals):
        growth = growth_of(store, case_id, case_order(arrivals[case_id]), config.max_order) if simple else None
        if growth is not None:
            grown.append(growth)
            continue
        old = store.case_events(case_id)
        if old:
            before.append((case_id, case_order(old, parity=config.parity)))
        after.append((case_id, case_order([*old, *arrivals[case_id]], parity=config.parity)))
    old_log, new_log = log_of(before, config), log_of(after, config)
    held = tallies(db)
    insert(db, "events", (row_of_event(e) for e in fresh.values()))
    insert(db, "cases", [*case_rows(after, new_log), *(growth.row for growth in grown)], replace=True)
    added = count_edges(new_log, config)
    for growth in grown:
        put(added, growth.edges)
    changed, edges = _apply_edges(db, added, count_edges(old_log, config))
    latest = max(event.instant for event in fresh.values())
    keep(db, held.after(Tallies(len(fresh), len(after) - len(before), edges, latest)))
    write_workflows(db, workflow_sums(after, new_log), workflow_sums(before, old_log))
    _renew_metrics(db, changed, config)


def remove_case(store: GraphStore, db: sqlite3.Connection, case_id: str, config: EngineConfig) -> None:
    """Take a case out of every table; runs inside the caller's transaction.

    Raises
    ------
    NeedsRebuild
        As `increment`.
    """
    cases = [(case_id, case_order(store.case_events(case_id), parity=config.parity))]
    log = log_of(cases, config)
    for table in ("events", "cases"):
        db.execute(f"DELETE FROM {table} WHERE case_id = ?", (case_id,))
    changed, _ = _apply_edges(db, {}, count_edges(log, config))
    keep(db, counted(db))
    write_workflows(db, {}, workflow_sums(cases, log))
    _renew_metrics(db, changed, config)


def _renew_metrics(db: sqlite3.Connection, changed: Iterable[EdgeKey], config: EngineConfig) -> None:
    edges = {(state, event) for order, state, event in changed if order == config.default_order}
    states = sorted({state for state, _ in edges})
    db.executemany("DELETE FROM success_metrics WHERE state_key = ? AND branch = ?", sorted(edges))
    db.executemany("DELETE FROM risk_metrics WHERE state_key = ?", [(state,) for state in states])
    _write_metrics(db, edges_from(db, config.default_order, states), edges)


def _apply_edges(
    db: sqlite3.Connection, added: Mapping[EdgeKey, Edge], removed: Mapping[EdgeKey, Edge]
) -> tuple[list[EdgeKey], int]:
    """Change the edges that differ; gives their keys, and how many more edges there are now."""
    changed = [key for key in sorted(added.keys() | removed.keys()) if added.get(key) != removed.get(key)]
    stored = edges_at(db, changed)
    rows: list[Row] = []
    emptied: list[EdgeKey] = []
    for key in changed:
        plus, minus, held = added.get(key), removed.get(key), stored.get(key)
        if minus is not None and held is not None and _loses_extreme(held, plus, minus):
            raise NeedsRebuild(str(key))
        edge = _changed(held, plus, minus)
        if edge.sums[0] == 0:
            emptied.append(key)
        else:
            rows.append(edge.row(key))
    db.executemany("DELETE FROM state_edges WHERE order_n = ? AND state_key = ? AND next_event = ?", emptied)
    insert(db, "state_edges", rows, replace=True)
    return changed, len(rows) - len(stored)


def _loses_extreme(held: Edge, plus: Edge | None, minus: Edge) -> bool:
    """True if what is taken away may be the extreme of the edge and what is put in does not replace it."""
    if plus is None and minus.sums[0] == held.sums[0]:
        return False
    shortest = minus.min_ms is not None and minus.min_ms == held.min_ms
    longest = minus.max_ms is not None and minus.max_ms == held.max_ms
    latest = minus.last is not None and minus.last == held.last
    return (
        (shortest and (plus is None or plus.min_ms is None or plus.min_ms > (minus.min_ms or 0)))
        or (longest and (plus is None or plus.max_ms is None or plus.max_ms < (minus.max_ms or 0)))
        or (latest and (plus is None or plus.last is None or plus.last < (minus.last or 0)))
    )


def _changed(held: Edge | None, plus: Edge | None, minus: Edge | None) -> Edge:
    parts = [e for e in (held, plus) if e is not None]
    responses: dict[str, int] = {}
    for edge, sign in ((held, 1), (plus, 1), (minus, -1)):
        for key, value in (edge.responses if edge else {}).items():
            responses[key] = responses.get(key, 0) + sign * value
    nothing = [0] * len(SUMS)
    columns = zip(*(e.sums if e else nothing for e in (held, plus, minus)), strict=True)
    return Edge(
        [a + b - c for a, b, c in columns],
        {k: v for k, v in responses.items() if v},
        min((e.min_ms for e in parts if e.min_ms is not None), default=None),
        max((e.max_ms for e in parts if e.max_ms is not None), default=None),
        max((e.last for e in parts if e.last is not None), default=None),
    )
