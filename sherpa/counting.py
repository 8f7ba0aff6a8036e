"""The kernel: n-gram counts of an event log, in columns.

There is no loop over events: one sort at the top order, then segment reductions, and the lower orders are folded out
of the higher ones, because a shorter context is a prefix of a longer one when the most recent event comes first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sherpa.config import Strategy
from sherpa.counttable import (
    NO_MAX,
    NO_MIN,
    SUMS,
    Bool,
    CountTable,
    Int64,
    Responses,
    SupportTable,
    canonical,
    combine,
    common_order,
    empty_table,
    merge,
    sorted_groups,
    stack_orders,
    tally,
)
from sherpa.eventlog import EventLog, TokenView, milliseconds
from sherpa.instants import NO_INSTANT
from sherpa.terminal import FAILURE, SUCCESS, UNKNOWN
from sherpa.windows import grouped_windows, window_support

__all__ = [
    "NO_MAX",
    "NO_MIN",
    "SUMS",
    "CountTable",
    "SupportTable",
    "count",
    "count_support",
    "empty_table",
    "merge",
    "subtract",
]


def count(
    log: EventLog,
    max_order: int,
    *,
    strategy: Strategy = "raw",
    allow_raw_fallback: bool = True,
    include_root: bool = False,
) -> CountTable:
    """Count every edge of orders 1 to `max_order`.

    Parameters
    ----------
    log : EventLog
    max_order : int
        Longest context in events, at least 1.
    strategy : str
        ``raw`` counts types. ``procedure`` and ``family-procedure`` also count each window as projected tokens; a
        window that looks the same at two levels is counted once.
    allow_raw_fallback : bool
        Whether projected strategies count raw windows beside projected ones.
    include_root : bool
        Also give the edges of order 0: how often each type follows any event.

    Returns
    -------
    CountTable
    """
    if max_order < 1:
        raise ValueError(f"max_order is {max_order}; it must be at least 1")
    chain = ["raw"]
    if strategy != "raw":
        chain = (["raw"] if allow_raw_fallback else []) + ["procedure"]
        if strategy == "family-procedure":
            chain.append("family-procedure")
    rank = {"raw": 0, "procedure": 1, "family-procedure": 2}
    tables = []
    for position, level in enumerate(chain):
        # Beyond the first level only windows that show something new are new states.
        least = 0 if position == 0 else rank[level]
        tables.append(_count_view(log, log.view(level), max_order, least, include_root and position == 0))
    return combine(tables, max_order)


def count_support(log: EventLog, max_order: int) -> SupportTable:
    """How often each edge of orders 1 to `max_order` was seen, and nothing else of it; faster than `count`.

    Row for row the edges of ``count(log, max_order)``.

    Raises
    ------
    ValueError
        If `max_order` is below 1.
    """
    if max_order < 1:
        raise ValueError(f"max_order is {max_order}; it must be at least 1")
    view = log.view("raw")
    names = sorted(view.tokens)
    rank = np.argsort(np.argsort(np.array(view.tokens, dtype=object)))
    place = dict(zip(view.tokens, rank.tolist(), strict=True))
    next_ids = np.array([place.get(t, 0) for t in log.vocabulary], dtype=np.int64)
    keys, support = window_support(log, rank.astype(np.int32)[view.codes], next_ids, max_order, len(names) + 1)
    gap = _first_difference(keys) if len(keys) else np.empty(0, np.int64)
    parts = []
    for order in range(max_order, 0, -1):
        if order < max_order and len(keys):
            heads = np.flatnonzero(gap <= order)
            support, keys, gap = np.add.reduceat(support, heads), keys[heads], gap[heads]
        edges = np.flatnonzero(keys[:, order] > 0)
        if len(edges):
            rows, _ = sorted_groups([*keys[edges, 1 : order + 1].T, keys[edges, 0]], len(names) + 1)
            edges = edges[rows]
        context = np.full((len(edges), max_order), -1, np.int32)
        context[:, :order] = keys[edges, 1 : order + 1] - 1
        parts.append(
            (np.full(len(edges), order, np.int8), context, (keys[edges, 0] - 1).astype(np.int32), support[edges])
        )
    parts.reverse()
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    orders, context, following, seen = columns
    used = np.zeros(len(names) + 1, bool)
    used[context] = used[following] = True
    renumber = np.append(np.cumsum(used[:-1]) - 1, -1).astype(np.int32)
    kept = tuple(name for name, occurs in zip(names, used.tolist(), strict=False) if occurs)
    return SupportTable(max_order, kept, orders, renumber[context], renumber[following], seen)


def _count_view(log: EventLog, view: TokenView, max_order: int, least_rank: int, root: bool) -> CountTable:
    # Tokens of the view and types of the next event share one vocabulary, view first.
    types = {t: i for i, t in enumerate(view.tokens)}
    next_ids = np.array([types.setdefault(t, len(types)) for t in log.vocabulary], dtype=np.int64)
    grouped = grouped_windows(log, view.codes, next_ids, max_order, len(types) + 1)
    if grouped is None:
        return empty_table(max_order)
    here, starts, keys = grouped
    table = _reduce_rows(log, here, starts)
    responses = _responses(log, here, starts)
    gap = _first_difference(keys)
    parts = []
    for order in range(max_order, -1 if root else 0, -1):
        if order < max_order:
            heads = np.flatnonzero(gap <= order)
            table = _fold(table, heads)
            responses = _fold_responses(responses, heads, len(gap))
            keys, gap = keys[heads], gap[heads]
        keep = keys[:, order] > 0
        if least_rank:
            shown = np.append(view.rank, np.zeros(len(types) - len(view.tokens), np.int8))
            padded = np.concatenate(([0], shown))
            keep &= (padded[keys[:, 1 : order + 1]] >= least_rank).any(axis=1)
        parts.append(_slice(table, responses, keys, order, max_order, keep))
    tokens = tuple(types)
    parts.reverse()
    return stack_orders([replace(p, vocabulary=tokens, response_vocabulary=log.response_vocabulary) for p in parts])


@dataclass(frozen=True, eq=False)
class _Values:
    sums: Int64
    min_ms: Int64
    max_ms: Int64
    last_seen: Int64
    known: Bool


def _reduce_rows(log: EventLog, here: Int64, starts: Int64) -> _Values:
    """What the transitions of each group add up to.

    Everything that is needed of a transition is laid side by side first, in the order of events, so that the sorted
    order is looked up as seldom as possible: looking up at random is what costs.
    """
    marks = np.zeros(log.events, np.uint8)
    marks[:-1] = log.outcomes[1:] + 1
    marks += (np.repeat(log.terminal, np.diff(log.offsets)).astype(np.uint8) + 1) << 2
    times = np.full((log.events, 2), NO_INSTANT, np.int64)
    first, second = log.instants[:-1], log.instants[1:]
    timed = (first != NO_INSTANT) & (second != NO_INSTANT)
    marks[:-1] += timed.astype(np.uint8) << 4
    np.subtract(milliseconds(second), milliseconds(first), out=times[:-1, 0])
    np.maximum(times[:-1, 0], 0, out=times[:-1, 0])
    times[:-1, 0][~timed] = 0
    times[:-1, 1] = second

    mark = np.take(marks, here, mode="clip")
    time = np.take(times, here, axis=0, mode="clip")
    duration = np.ascontiguousarray(time[:, 0])
    outcome, terminal, timed = mark & 3, (mark >> 2) & 3, mark >> 4 != 0
    flags = (
        outcome == SUCCESS + 1,
        outcome == FAILURE + 1,
        terminal == SUCCESS + 1,
        terminal == FAILURE + 1,
        terminal == UNKNOWN + 1,
        timed,
    )
    sums = np.empty((len(starts), len(SUMS)), np.int64)
    sums[:, 0] = np.diff(np.append(starts, len(here)))
    for column, flag in enumerate(flags, start=1):
        sums[:, column] = np.add.reduceat(flag, starts, dtype=np.int64)
    sums[:, 7] = np.add.reduceat(duration, starts)
    all_timed = bool(timed.all())
    return _Values(
        sums,
        np.minimum.reduceat(duration if all_timed else np.where(timed, duration, NO_MIN), starts),
        np.maximum.reduceat(duration if all_timed else np.where(timed, duration, NO_MAX), starts),
        np.maximum.reduceat(np.ascontiguousarray(time[:, 1]), starts),
        np.ones(len(starts), dtype=bool),
    )


def _fold(values: _Values, heads: Int64) -> _Values:
    return _Values(
        np.add.reduceat(values.sums, heads, axis=0),
        np.minimum.reduceat(values.min_ms, heads),
        np.maximum.reduceat(values.max_ms, heads),
        np.maximum.reduceat(values.last_seen, heads),
        np.logical_and.reduceat(values.known, heads),
    )


def _first_difference(keys: Int64) -> Int64:
    """For each row the first column in which it differs from the row before it (0 for the first row)."""
    differs = keys[1:] != keys[:-1]
    return np.concatenate(([0], np.argmax(differs, axis=1)))


def _responses(log: EventLog, here: Int64, starts: Int64) -> Responses:
    """(group, response key, count) of the first user event after each next event of a group."""
    none = np.empty(0, np.int64)
    if not (log.responses >= 0).any():
        return none, none, none
    size = log.events
    is_user = np.append(log.responses >= 0, True)
    at = np.where(is_user, np.arange(size + 1), size)
    upcoming = np.minimum.accumulate(at[::-1])[::-1]
    case_end = np.repeat(log.offsets[1:], np.diff(log.offsets))
    found = upcoming[np.minimum(here + 2, size)]
    inside = found < case_end[here]
    response = np.where(inside, log.responses[np.minimum(found, size - 1)], -1)
    group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(here))))
    has = response >= 0
    return tally(group[has], response[has].astype(np.int64), np.ones(int(has.sum()), np.int64))


def _fold_responses(responses: Responses, heads: Int64, rows: int) -> Responses:
    marks = np.zeros(rows, dtype=np.int64)
    marks[heads] = 1
    return tally((np.cumsum(marks) - 1)[responses[0]], responses[1], responses[2])


def _slice(values: _Values, responses: Responses, keys: Int64, order: int, max_order: int, keep: Bool) -> CountTable:
    size = int(keep.sum())
    context = np.full((size, max_order), -1, dtype=np.int32)
    context[:, :order] = keys[keep, 1 : order + 1] - 1
    renumber = np.cumsum(keep) - 1
    kept = keep[responses[0]]
    return CountTable(
        max_order,
        (),
        np.full(size, order, dtype=np.int8),
        context,
        (keys[keep, 0] - 1).astype(np.int32),
        values.sums[keep],
        values.min_ms[keep],
        values.max_ms[keep],
        values.last_seen[keep],
        values.known[keep],
        renumber[responses[0][kept]],
        responses[1][kept],
        responses[2][kept],
    )


def subtract(whole: CountTable, part: CountTable, *, remaining: EventLog | None = None) -> CountTable:
    """The table without the cases of `part`.

    Sums are exact. A shortest or longest duration, or a latest time, that `part` shares with `whole` cannot be
    replaced from two tables alone: pass the `remaining` cases (counted raw) to have it recomputed, else
    `extremes_known` is False for that edge.

    Raises
    ------
    ValueError
        If `part` holds something that `whole` does not.
    """
    max_order = common_order((whole, part))
    negative = replace(part, sums=-part.sums, response_count=-part.response_count)
    result = canonical([whole, negative], subtracting=True)
    if (result.sums < 0).any() or (len(result.response_count) and result.response_count.min() < 0):
        raise ValueError("the table to subtract counts observations that the whole does not hold")
    if remaining is None or result.extremes_known.all():
        return result
    recount = count(remaining, max_order, include_root=bool((result.order == 0).any()))
    if len(recount) != len(result) or not np.array_equal(recount.sums, result.sums):
        raise ValueError("the remaining cases are not those that the subtraction leaves")
    return recount
