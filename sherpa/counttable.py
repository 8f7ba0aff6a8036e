"""CountTable: edges in columns, and how tables add up.

An edge is (context, next): the last k events of a case, and the type that followed. Tables form a commutative monoid
under `merge`; the kernel that makes them is `sherpa.counting`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from sherpa.instants import NO_INSTANT

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]
Responses = tuple[Int64, Int64, Int64]

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
WORD_BITS = 63


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


@dataclass(frozen=True, eq=False)
class SupportTable:
    """How often each edge was seen; edges as in a `CountTable`, in the same order.

    Attributes
    ----------
    max_order : int
    vocabulary : tuple of str
    order : int8 array (edges,)
    context : int32 array (edges, max_order)
    next : int32 array (edges,)
    support : int64 array (edges,)
    """

    max_order: int
    vocabulary: tuple[str, ...]
    order: npt.NDArray[np.int8]
    context: Int32
    next: Int32
    support: Int64

    def __len__(self) -> int:
        """Number of edges."""
        return len(self.next)


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


def sorted_groups(columns: list[Int64], width: int) -> tuple[Int64, Int64]:
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
        if used + bits > WORD_BITS:
            distinct, word = np.unique(word, return_inverse=True)
            used = max(1, (len(distinct) - 1).bit_length())
        word = (word << bits) | column
        used += bits
    if used + row_bits > WORD_BITS:
        distinct, word = np.unique(word, return_inverse=True)
        used = max(1, (len(distinct) - 1).bit_length())
    packed = np.sort((word << row_bits) | np.arange(rows))
    order = packed & ((1 << row_bits) - 1)
    packed >>= row_bits
    starts = np.flatnonzero(np.concatenate(([True], packed[1:] != packed[:-1])))
    return order, starts


def tally(group: Int64, key: Int64, weight: Int64) -> Responses:
    if len(group) == 0:
        return group, key, weight
    width = int(key.max()) + 1
    distinct, inverse = np.unique(group * width + key, return_inverse=True)
    totals = np.zeros(len(distinct), np.int64)
    np.add.at(totals, inverse, weight)
    return distinct // width, distinct % width, totals


def merge(*tables: CountTable) -> CountTable:
    """The table of all cases that any of the tables counted. Commutative and associative, exactly.

    Raises
    ------
    ValueError
        If the tables count to different orders, or none is given.
    """
    return combine(list(tables), common_order(tables))


def common_order(tables: Sequence[CountTable]) -> int:
    orders = {t.max_order for t in tables}
    if len(orders) != 1:
        raise ValueError(f"tables of one maximum order are needed, not of {sorted(orders)}")
    return orders.pop()


def combine(tables: list[CountTable], max_order: int) -> CountTable:
    filled = [t for t in tables if len(t)]
    if not filled:
        return empty_table(max_order)
    return filled[0] if len(filled) == 1 else canonical(filled)


def canonical(tables: list[CountTable], *, subtracting: bool = False) -> CountTable:
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
    rows, starts = sorted_groups(columns, max(len(names) + 1, max_order + 1))
    sums = np.add.reduceat(np.concatenate([t.sums for t in tables])[rows], starts, axis=0)
    values = _merge_extremes(tables, rows, starts, subtracting)

    group = np.empty(total, np.int64)
    group[rows] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, total)))
    bases = np.cumsum([0, *(len(t) for t in tables)]).tolist()
    edge = np.concatenate([t.response_edge + base for t, base in zip(tables, bases, strict=False)])
    responses = tally(group[edge], np.concatenate(response_key), np.concatenate([t.response_count for t in tables]))

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


def stack_orders(parts: list[CountTable]) -> CountTable:
    """The canonical table of parts that hold one order each, in rising order, over one vocabulary, each edge once.

    The same as `canonical`, but nothing has to be added up, so each order is only sorted and put in its place.
    """
    vocabulary, response_names = parts[0].vocabulary, parts[0].response_vocabulary
    names, keys = sorted(vocabulary), sorted(response_names)
    place = {name: at for at, name in enumerate(names)}
    mapping = np.array([*(place[t] for t in vocabulary), -1], dtype=np.int32)
    key_map = np.array([keys.index(k) for k in response_names] or [-1], dtype=np.int64)
    sorted_parts = []
    base = 0
    responses: list[Responses] = []
    for part in parts:
        if len(part) == 0:
            continue
        order = int(part.order[0])
        context, following = mapping[part.context], mapping[part.next]
        columns = [context[:, k].astype(np.int64) for k in range(order)] + [following.astype(np.int64)]
        rows, _ = sorted_groups(columns, len(names))
        inverse = np.empty(len(rows), np.int64)
        inverse[rows] = np.arange(len(rows))
        edge, key = inverse[part.response_edge] + base, key_map[part.response_key]
        by_edge = np.lexsort((key, edge))
        responses.append((edge[by_edge], key[by_edge], part.response_count[by_edge]))
        base += len(part)
        sorted_parts.append((part, context[rows], following[rows], rows))
    if not sorted_parts:
        return empty_table(parts[0].max_order)
    table = CountTable(
        parts[0].max_order,
        tuple(names),
        np.concatenate([part.order for part, *_ in sorted_parts]),
        np.concatenate([context for _, context, _, _ in sorted_parts]),
        np.concatenate([following for _, _, following, _ in sorted_parts]),
        np.concatenate([part.sums[rows] for part, _, _, rows in sorted_parts]),
        np.concatenate([part.min_ms[rows] for part, _, _, rows in sorted_parts]),
        np.concatenate([part.max_ms[rows] for part, _, _, rows in sorted_parts]),
        np.concatenate([part.last_seen[rows] for part, _, _, rows in sorted_parts]),
        np.concatenate([part.extremes_known[rows] for part, _, _, rows in sorted_parts]),
        np.concatenate([edge for edge, _, _ in responses]),
        np.concatenate([key for _, key, _ in responses]),
        np.concatenate([count for _, _, count in responses]),
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
