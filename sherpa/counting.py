"""The kernel: n-gram counts of an event log, in columns.

An edge is (context, next): the last k events of a case, and the type that followed. A `CountTable` holds every edge
of orders 1 to K with its provenance. Tables form a commutative monoid under `merge`; `subtract` takes cases out.
There is no loop over events: one sort at the top order, then segment reductions, and the lower orders are folded out
of the higher ones, because a shorter context is a prefix of a longer one when the most recent event comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from sherpa.config import Strategy
from sherpa.eventlog import EventLog, TokenView, concatenate, milliseconds
from sherpa.instants import NO_INSTANT
from sherpa.terminal import FAILURE, SUCCESS, UNKNOWN

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]

SUMS = (
    "support",
    "success",
    "failure",
    "terminal_success",
    "terminal_failure",
    "terminal_unknown",
    "timed",
    "total_ms",
)
"""Columns that add up; `timed` counts the observations whose duration is known."""

NO_MIN = 2**63 - 1
NO_MAX = -1
_WORD_BITS = 63


@dataclass(frozen=True, eq=False)
class CountTable:
    """Edges in canonical order: by order, then context (most recent event first), then next, by vocabulary index.

    Attributes
    ----------
    max_order : int
    vocabulary : tuple of str
        Tokens in use, in code-point order.
    order : int8 array (edges,)
    context : int32 array (edges, max_order)
        Vocabulary indices, most recent first, -1 beyond the order.
    next : int32 array (edges,)
    sums : int64 array (edges, 8)
        The columns of `SUMS`; each is also an attribute, for instance ``table.support``.
    min_ms, max_ms : int64 array (edges,)
        Shortest and longest duration; `NO_MIN` and `NO_MAX` if none is known.
    last_seen : int64 array (edges,)
        Instant of the latest next event, `NO_INSTANT` if none is known.
    extremes_known : bool array (edges,)
        False after a subtraction that took away an extreme which the tables alone cannot replace.
    response_edge, response_key, response_count : int64 arrays
        How often a user event of a kind came first after the edge, by edge row; sorted by edge, then key.
    response_vocabulary : tuple of str
    """

    max_order: int
    vocabulary: tuple[str, ...]
    order: npt.NDArray[np.int8]
    context: Int32
    next: Int32
    sums: Int64
    min_ms: Int64
    max_ms: Int64
    last_seen: Int64
    extremes_known: Bool
    response_edge: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    response_key: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    response_count: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    response_vocabulary: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Number of edges."""
        return len(self.next)

    @property
    def support(self) -> Int64:
        """Observations of each edge, int64 array (edges,)."""
        return self.sums[:, 0]

    def column(self, name: str) -> Int64:
        """A column of `SUMS` by name."""
        return self.sums[:, SUMS.index(name)]

    def equals(self, other: CountTable) -> bool:
        """True if both tables hold the same edges with the same values in every column."""
        return (
            self.max_order == other.max_order
            and self.vocabulary == other.vocabulary
            and self.response_vocabulary == other.response_vocabulary
            and all(
                np.array_equal(getattr(self, name), getattr(other, name))
                for name in self.__dataclass_fields__
                if isinstance(getattr(self, name), np.ndarray)
            )
        )


def empty_table(max_order: int) -> CountTable:
    """The neutral element of `merge`."""
    none = np.empty(0, np.int64)
    return CountTable(
        max_order,
        (),
        none.astype(np.int8),
        np.empty((0, max_order), np.int32),
        none.astype(np.int32),
        np.empty((0, len(SUMS)), np.int64),
        none,
        none,
        none,
        none.astype(bool),
    )


# -- counting --------------------------------------------------------------------------------------------------


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
    return _combine(tables, max_order)


def _count_view(log: EventLog, view: TokenView, max_order: int, least_rank: int, root: bool) -> CountTable:
    here = _transitions(log)
    if len(here) == 0:
        return empty_table(max_order)
    case_of = np.repeat(np.arange(len(log), dtype=np.int64), np.diff(log.offsets))[here]
    depth = here - log.offsets[:-1][case_of]
    # Tokens of the view and types of the next event share one vocabulary, view first.
    types = {t: i for i, t in enumerate(view.tokens)}
    next_ids = np.array([types.setdefault(t, len(types)) for t in log.vocabulary], dtype=np.int64)
    following = next_ids[log.codes[here + 1]]
    columns = [following + 1]
    for back in range(max_order):
        inside = depth >= back
        columns.append(np.where(inside, view.codes[here - np.where(inside, back, 0)].astype(np.int64) + 1, 0))
    rows, starts = _sorted_groups(columns, len(types) + 1)

    table = _reduce_rows(log, here, case_of, rows, starts)
    keys = np.stack([c[rows[starts]] for c in columns], axis=1)
    gap = _first_difference(keys)
    responses = _responses(log, here, rows, starts)
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
    return _canonical([replace(p, vocabulary=tokens, response_vocabulary=log.response_vocabulary) for p in parts])


def _transitions(log: EventLog) -> Int64:
    """Positions of all events that have a successor in their case."""
    last = np.zeros(log.events, dtype=bool)
    ends = log.offsets[1:][np.diff(log.offsets) > 0] - 1
    last[ends] = True
    return np.flatnonzero(~last)


def _sorted_groups(columns: list[Int64], width: int) -> tuple[Int64, Int64]:
    """Sort rows by the columns; give the row order and where each group of equal rows starts.

    All columns hold values below `width`. They are packed into one 64-bit word, with the row number in the low bits
    where it fits, because sorting words is several times faster than sorting indices by them. Where the alphabet is
    too wide, what has been packed so far is replaced by its rank and packing goes on.
    """
    rows = len(columns[0])
    bits = max(1, (width - 1).bit_length())
    row_bits = max(1, (rows - 1).bit_length())
    word, used = columns[0], bits
    for column in columns[1:]:
        if used + bits > _WORD_BITS:
            distinct, word = np.unique(word, return_inverse=True)
            used = max(1, (len(distinct) - 1).bit_length())
        word = (word << bits) | column
        used += bits
    if used + row_bits > _WORD_BITS:
        distinct, word = np.unique(word, return_inverse=True)
        used = max(1, (len(distinct) - 1).bit_length())
    packed = np.sort((word << row_bits) | np.arange(rows))
    order = packed & ((1 << row_bits) - 1)
    packed >>= row_bits
    starts = np.flatnonzero(np.concatenate(([True], packed[1:] != packed[:-1])))
    return order, starts


@dataclass(frozen=True, eq=False)
class _Values:
    sums: Int64
    min_ms: Int64
    max_ms: Int64
    last_seen: Int64
    known: Bool


def _reduce_rows(log: EventLog, here: Int64, case_of: Int64, rows: Int64, starts: Int64) -> _Values:
    sorted_here = here[rows]
    after = sorted_here + 1
    outcome = log.outcomes[after]
    terminal = log.terminal[case_of[rows]]
    first, second = log.instants[sorted_here], log.instants[after]
    timed = (first != NO_INSTANT) & (second != NO_INSTANT)
    duration = np.where(timed, np.maximum(0, milliseconds(second) - milliseconds(first)), 0)
    flags = (
        outcome == SUCCESS,
        outcome == FAILURE,
        terminal == SUCCESS,
        terminal == FAILURE,
        terminal == UNKNOWN,
        timed,
    )
    sums = np.empty((len(starts), len(SUMS)), np.int64)
    sums[:, 0] = np.diff(np.append(starts, len(rows)))
    for column, flag in enumerate(flags, start=1):
        sums[:, column] = np.add.reduceat(flag, starts, dtype=np.int64)
    sums[:, 7] = np.add.reduceat(duration, starts)
    return _Values(
        sums,
        np.minimum.reduceat(np.where(timed, duration, NO_MIN), starts),
        np.maximum.reduceat(np.where(timed, duration, NO_MAX), starts),
        np.maximum.reduceat(second, starts),
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


Responses = tuple[Int64, Int64, Int64]


def _responses(log: EventLog, here: Int64, rows: Int64, starts: Int64) -> Responses:
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
    response = np.where(inside, log.responses[np.minimum(found, size - 1)], -1)[rows]
    group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(rows))))
    has = response >= 0
    return _tally(group[has], response[has].astype(np.int64), np.ones(int(has.sum()), np.int64))


def _tally(group: Int64, key: Int64, weight: Int64) -> Responses:
    if len(group) == 0:
        return group, key, weight
    width = int(key.max()) + 1
    distinct, inverse = np.unique(group * width + key, return_inverse=True)
    totals = np.zeros(len(distinct), np.int64)
    np.add.at(totals, inverse, weight)
    return distinct // width, distinct % width, totals


def _fold_responses(responses: Responses, heads: Int64, rows: int) -> Responses:
    marks = np.zeros(rows, dtype=np.int64)
    marks[heads] = 1
    return _tally((np.cumsum(marks) - 1)[responses[0]], responses[1], responses[2])


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


# -- the monoid ------------------------------------------------------------------------------------------------


def merge(*tables: CountTable) -> CountTable:
    """The table of all cases that any of the tables counted. Commutative and associative, exactly.

    Raises
    ------
    ValueError
        If the tables count to different orders, or none is given.
    """
    return _combine(list(tables), _common_order(tables))


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
    max_order = _common_order((whole, part))
    negative = replace(part, sums=-part.sums, response_count=-part.response_count)
    result = _canonical([whole, negative], subtracting=True)
    if (result.sums < 0).any() or (len(result.response_count) and result.response_count.min() < 0):
        raise ValueError("the table to subtract counts observations that the whole does not hold")
    if remaining is None or result.extremes_known.all():
        return result
    recount = count(remaining, max_order, include_root=bool((result.order == 0).any()))
    if len(recount) != len(result) or not np.array_equal(recount.sums, result.sums):
        raise ValueError("the remaining cases are not those that the subtraction leaves")
    return recount


def count_many(logs: Sequence[EventLog], max_order: int, **options: object) -> CountTable:
    """`count` of the concatenation of several logs."""
    return count(concatenate(list(logs)), max_order, **options) if logs else empty_table(max_order)  # type: ignore[arg-type]


def _common_order(tables: Sequence[CountTable]) -> int:
    orders = {t.max_order for t in tables}
    if len(orders) != 1:
        raise ValueError(f"tables of one maximum order are needed, not of {sorted(orders)}")
    return orders.pop()


def _combine(tables: list[CountTable], max_order: int) -> CountTable:
    filled = [t for t in tables if len(t)]
    if not filled:
        return empty_table(max_order)
    return filled[0] if len(filled) == 1 else _canonical(filled)


def _canonical(tables: list[CountTable], *, subtracting: bool = False) -> CountTable:
    """Put tables on one sorted vocabulary, add up equal edges, drop empty ones, sort."""
    max_order = tables[0].max_order
    names = sorted({t for table in tables for t in table.vocabulary})
    place = {t: i for i, t in enumerate(names)}
    keys = sorted({k for table in tables for k in table.response_vocabulary})
    key_place = {k: i for i, k in enumerate(keys)}

    context, following, response_key = [], [], []
    for table in tables:
        mapping = np.array([*(place[t] for t in table.vocabulary), -1], dtype=np.int64)
        context.append(mapping[table.context])
        following.append(mapping[table.next])
        key_map = np.array([*(key_place[k] for k in table.response_vocabulary), -1], dtype=np.int64)
        response_key.append(key_map[table.response_key])
    contexts = np.concatenate(context)
    columns = [np.concatenate([t.order for t in tables]).astype(np.int64)]
    columns += [contexts[:, k] + 1 for k in range(max_order)]
    columns.append(np.concatenate(following) + 1)
    total = len(columns[0])
    if total == 0:
        return empty_table(max_order)
    rows, starts = _sorted_groups(columns, max(len(names) + 1, max_order + 1))
    sums = np.add.reduceat(np.concatenate([t.sums for t in tables])[rows], starts, axis=0)
    values = _merge_extremes(tables, rows, starts, subtracting)

    group = np.empty(total, np.int64)
    group[rows] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, total)))
    bases = np.cumsum([0, *(len(t) for t in tables)]).tolist()
    edge = np.concatenate([t.response_edge + base for t, base in zip(tables, bases, strict=False)])
    responses = _tally(group[edge], np.concatenate(response_key), np.concatenate([t.response_count for t in tables]))

    keep = sums[:, 0] != 0
    used_responses = keep[responses[0]] & (responses[2] != 0)
    heads = rows[starts][keep]
    renumber = np.cumsum(keep) - 1
    table = CountTable(
        max_order,
        tuple(names),
        columns[0][heads].astype(np.int8),
        contexts[heads].astype(np.int32),
        (columns[-1][heads] - 1).astype(np.int32),
        sums[keep],
        values[0][keep],
        values[1][keep],
        values[2][keep],
        values[3][keep],
        renumber[responses[0][used_responses]],
        responses[1][used_responses],
        responses[2][used_responses],
        tuple(keys),
    )
    return _prune(table)


def _merge_extremes(
    tables: list[CountTable], rows: Int64, starts: Int64, subtracting: bool
) -> tuple[Int64, Int64, Int64, Bool]:
    low = np.concatenate([t.min_ms for t in tables])[rows]
    high = np.concatenate([t.max_ms for t in tables])[rows]
    seen = np.concatenate([t.last_seen for t in tables])[rows]
    known = np.concatenate([t.extremes_known for t in tables])[rows]
    if not subtracting:
        return (
            np.minimum.reduceat(low, starts),
            np.maximum.reduceat(high, starts),
            np.maximum.reduceat(seen, starts),
            np.logical_and.reduceat(known, starts),
        )
    # At most one row of each table per group; the whole comes first, the part second.
    sizes = np.diff(np.append(starts, len(rows)))
    paired = sizes == 2
    second = np.where(paired, starts + 1, starts)
    shares = paired & (
        ((low[second] <= low[starts]) & (low[starts] != NO_MIN))
        | ((high[second] >= high[starts]) & (high[starts] != NO_MAX))
        | ((seen[second] >= seen[starts]) & (seen[starts] != NO_INSTANT))
    )
    return low[starts], high[starts], seen[starts], known[starts] & ~shares


def _prune(table: CountTable) -> CountTable:
    """Drop names that no edge uses."""
    used = np.zeros(len(table.vocabulary) + 1, dtype=bool)
    used[table.next] = True
    used[table.context] = True
    used = used[:-1]
    answered = np.zeros(len(table.response_vocabulary), dtype=bool)
    answered[table.response_key] = True
    if used.all() and answered.all():
        return table
    mapping = np.append(np.cumsum(used) - 1, -1).astype(np.int32)
    return replace(
        table,
        vocabulary=tuple(t for t, keep in zip(table.vocabulary, used.tolist(), strict=True) if keep),
        context=mapping[table.context],
        next=mapping[table.next],
        response_key=(np.cumsum(answered) - 1)[table.response_key],
        response_vocabulary=tuple(
            k for k, keep in zip(table.response_vocabulary, answered.tolist(), strict=True) if keep
        ),
    )
