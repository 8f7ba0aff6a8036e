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
        rows = (mine + more for mine, more in zip(self[:3], other[:3], strict=True))
        known = [instant for instant in (self.latest, other.latest) if instant is not None]
        return Tallies(*rows, max(known, default=None))


def counted(db: sqlite3.Connection) -> Tallies:
    """What there is, counted."""
    rows = (int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]) for table in TABLES)
    return Tallies(*rows, db.execute("SELECT max(last_instant) FROM cases").fetchone()[0])


def kept(db: sqlite3.Connection) -> Tallies | None:
    """What was kept; None in a graph whose tallies nobody has kept yet."""
    found = dict(db.execute(_SELECT, _KEYS).fetchall())
    if len(found) < len(_KEYS):
        return None
    latest = found[_KEYS[3]]
    return Tallies(*(int(found[key]) for key in _KEYS[:3]), int(latest) if latest else None)


def tallies(db: sqlite3.Connection) -> Tallies:
    """What there is."""
    return kept(db) or counted(db)


def keep(db: sqlite3.Connection, found: Tallies) -> None:
    """Write them down; inside the transaction that changed the tables."""
    rows = [(key, "" if value is None else str(value)) for key, value in zip(_KEYS, found, strict=True)]
    db.executemany("INSERT OR REPLACE INTO metadata VALUES (?, ?)", rows)
