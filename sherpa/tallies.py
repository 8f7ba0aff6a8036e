"""How many rows the large tables hold, kept beside them: counting them takes longer the more there are."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

TABLES = ("events", "cases", "state_edges")
_KEYS = ("rowsOfEvents", "rowsOfCases", "rowsOfStateEdges", "latestInstant")
_SELECT = f"SELECT key, value FROM metadata WHERE key IN ({','.join('?' * len(_KEYS))})"


class Tallies(NamedTuple):
    """Rows of three tables, and the instant of the latest event; None in an empty store."""

    events: int
    cases: int
    state_edges: int
    latest: int | None

    def after(self, other: Tallies) -> Tallies:
        """With what was added."""
        known = [instant for instant in (self.latest, other.latest) if instant is not None]
        return Tallies(
            self.events + other.events,
            self.cases + other.cases,
            self.state_edges + other.state_edges,
            max(known, default=None),
        )


def counted(db: sqlite3.Connection) -> Tallies:
    """What there is, counted."""
    events, cases, edges = (int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]) for table in TABLES)
    return Tallies(events, cases, edges, db.execute("SELECT max(last_instant) FROM cases").fetchone()[0])


def kept(db: sqlite3.Connection) -> Tallies | None:
    """What was kept; None in a graph whose tallies nobody has kept yet."""
    found = dict(db.execute(_SELECT, _KEYS).fetchall())
    if len(found) < len(_KEYS):
        return None
    events, cases, edges, latest = (found[key] for key in _KEYS)
    return Tallies(int(events), int(cases), int(edges), int(latest) if latest else None)


def tallies(db: sqlite3.Connection) -> Tallies:
    """What there is."""
    return kept(db) or counted(db)


def keep(db: sqlite3.Connection, found: Tallies) -> None:
    """Write them down; inside the transaction that changed the tables."""
    rows = [(key, "" if value is None else str(value)) for key, value in zip(_KEYS, found, strict=True)]
    db.executemany("INSERT OR REPLACE INTO metadata VALUES (?, ?)", rows)
