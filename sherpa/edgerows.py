"""Many edges of the graph at once: one statement, whatever their number; each costs a wait where threads compete."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from sherpa.branches import Branch
from sherpa.fewcount import Edge, EdgeKey
from sherpa.store import EDGE_COUNTS, Row, responses_of

StateRow = tuple[Branch, str | None]
"""A branch, and when it was last seen."""
_COLUMNS = f"next_event, {EDGE_COUNTS}, response_dist, min_duration_ms, max_duration_ms, last_instant, last_seen_at"
_AT_ONCE = 128


def edges_at(db: sqlite3.Connection, keys: Sequence[EdgeKey]) -> dict[EdgeKey, Edge]:
    """Those of the edges that are there."""
    rows = _joined(db, keys, ("order_n", "state_key", "next_event"))
    return {row[:3]: Edge(list(row[3:11]), responses_of(row[11]), row[12], row[13], row[14]) for row in rows}


def edges_from(db: sqlite3.Connection, order: int, states: Sequence[str]) -> list[tuple[str, list[StateRow]]]:
    """All edges of each of the states."""
    found: dict[str, list[StateRow]] = {state: [] for state in states}
    for row in _joined(db, [(order, state) for state in states], ("order_n", "state_key")):
        found[row[1]].append((Branch.of(row[2], row[3:11], responses_of(row[11])), row[15]))
    return list(found.items())


def _joined(db: sqlite3.Connection, keys: Sequence[Row], columns: Sequence[str]) -> Iterator[Any]:
    """Rows of ``state_edges`` whose first columns are one of the keys."""
    names = [f"k{at}" for at in range(len(columns))]
    on = " AND ".join(f"{column} = {name}" for column, name in zip(columns, names, strict=True))
    for at in range(0, len(keys), _AT_ONCE):
        part = list(keys[at : at + _AT_ONCE])
        # Few different statements: those that were prepared are kept. Nothing is equal to NULL.
        part += [(None,) * len(columns)] * ((1 << (len(part) - 1).bit_length()) - len(part))
        wanted = ",".join([f"({','.join('?' * len(columns))})"] * len(part))
        yield from db.execute(
            f"WITH wanted ({', '.join(names)}) AS (VALUES {wanted}) SELECT order_n, state_key, {_COLUMNS} "
            f"FROM wanted CROSS JOIN state_edges ON {on}",
            [value for key in part for value in key],
        ).fetchall()
