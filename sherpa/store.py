"""GraphStore: the counts, materialised in SQLite.

Everything here is derived from the ledger. A rebuild replaces all of it in one transaction, so a reader sees the old
graph or the new one, whole; a process that dies leaves the old one. `sherpa.derive` says what the rows are.
"""

from __future__ import annotations

import dataclasses
import re
import sqlite3
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from importlib.resources import files
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec
from msgspec import UNSET

from sherpa.branches import NO_BRANCHES, Branch, Branches, PastCase
from sherpa.collation import collation_key
from sherpa.errors import StoreError
from sherpa.event import OUTCOMES, Event, EventContext, Outcome, Projection
from sherpa.instants import format_instant
from sherpa.projection.states import join_state
from sherpa.tallies import Tallies, tallies

if TYPE_CHECKING:
    from sherpa.eventlog import EventLog

REMOVALS = "removals"
"""Key of the table ``metadata``: how many cases were taken out since the graph was made."""
SCHEMA_VERSION = 2
TABLES = (
    "events",
    "cases",
    "state_edges",
    "metadata",
    "workflows",
    "risk_metrics",
    "success_metrics",
    "config_versions",
)
WIDTHS = dict(zip(TABLES, (17, 7, 16, 2, 13, 7, 7, 3), strict=True))
"""Columns of each table."""
Row = tuple[object, ...]

_EVENT_COLUMNS = (
    "event_id, schema_version, agent_id, case_id, ts, source, type, actor, outcome, labels_json, entities_json, "
    "projection_json, metrics_json, meta_json, context, seq, instant"
)
EDGE_COUNTS = (
    "support, success_count, failure_count, terminal_success_count, terminal_failure_count, terminal_unknown_count, "
    "timed_count, total_duration_ms"
)
_VARIABLES = 500
_PAUSE = 0.01
_CREATE = re.compile(r"^(CREATE (?:TABLE|UNIQUE INDEX|INDEX)) ", re.MULTILINE)
_FROM_1 = """
ALTER TABLE events RENAME TO events_1;
DROP INDEX events_by_case;
DROP INDEX events_by_type;
CREATE TABLE events (
    event_id TEXT NOT NULL, schema_version INTEGER NOT NULL, agent_id TEXT NOT NULL, case_id TEXT NOT NULL,
    ts TEXT NOT NULL, source TEXT NOT NULL, type TEXT NOT NULL, actor TEXT NOT NULL, outcome TEXT NOT NULL,
    labels_json TEXT NOT NULL, entities_json TEXT NOT NULL, projection_json TEXT NOT NULL DEFAULT 'null',
    metrics_json TEXT NOT NULL, meta_json TEXT NOT NULL, context TEXT, seq INTEGER NOT NULL, instant INTEGER NOT NULL
);
INSERT INTO events SELECT * FROM events_1;
DROP TABLE events_1;
CREATE UNIQUE INDEX events_by_id ON events (event_id);
CREATE INDEX events_by_case ON events (case_id, instant, seq, type);
CREATE INDEX events_by_type ON events (type, case_id);
"""
"""From schema 1, whose events had their id as primary key."""


class Transitions(Enum):
    """What transitions are listed by, as the part of a query."""

    HOT = "ORDER BY support DESC, order_n DESC"
    FAILING = (
        "WHERE terminal_failure_count > 0 ORDER BY round(1000.0 * terminal_failure_count / "
        "(terminal_success_count + terminal_failure_count)) DESC, support DESC"
    )
    STALLING = (
        "WHERE terminal_unknown_count > 0 ORDER BY round(1000.0 * terminal_unknown_count / support) DESC, support DESC"
    )


class TransitionRow(NamedTuple):
    """One edge, as reports list it."""

    order: int
    state: str
    next_event: str
    support: int
    terminal_success: int
    terminal_failure: int
    terminal_unknown: int
    timed: int
    total_ms: int
    last_seen_at: str | None


class OutlineRow(NamedTuple):
    """An event of a case, as far as it matters to those that come after it."""

    type: str
    outcome: str
    instant: int
    in_workflow: int


class GraphStore:
    """The database ``graph.db`` of one root folder; an `EdgeSource` and a `CaseSource`.

    Parameters
    ----------
    path : Path
    busy_timeout_ms : int
        How long to wait for another process's transaction.

    Raises
    ------
    StoreError
        If the file is not a database of this version.
    """

    def __init__(self, path: Path, *, busy_timeout_ms: int = 30_000) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, isolation_level=None, timeout=busy_timeout_ms / 1000)
            self._prepare(time.monotonic() + busy_timeout_ms / 1000)
        except (sqlite3.DatabaseError, OSError) as error:
            if hasattr(self, "_db"):
                self._db.close()
            raise StoreError(
                f"{path}: cannot be used as a graph ({error}); it is derived from the ledger: move it away and run "
                "`sherpa rebuild`"
            ) from None

    def _prepare(self, until: float) -> None:
        self._db.create_collation("root", _collate)
        # SQLite itself does not wait for another process that is just doing the same.
        while True:
            try:
                self._db.execute("PRAGMA journal_mode=WAL")
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                    raise
                time.sleep(_PAUSE)
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute("PRAGMA foreign_keys=ON")
        with self.snapshot():  # another process may be making it
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            empty = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if version == SCHEMA_VERSION:
            return
        if version == 0 and empty:
            script = files("sherpa").joinpath("schema.sql").read_text(encoding="utf-8")
            self._db.executescript(
                f"BEGIN IMMEDIATE;\n{_guarded(script)}PRAGMA user_version={SCHEMA_VERSION};\nCOMMIT;"
            )
            return
        if version == 1:
            self._db.executescript(f"BEGIN IMMEDIATE;\n{_FROM_1}PRAGMA user_version=2;\nCOMMIT;")
            return
        raise sqlite3.DatabaseError(f"schema version {version}, this package knows {SCHEMA_VERSION}")

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> GraphStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- transactions ------------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing; waits for other writers."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Everything read inside belongs to one state of the graph."""
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.execute("ROLLBACK")

    def vacuum(self) -> None:
        """Rewrite the database without what was deleted, the log beside it included."""
        self._db.execute("VACUUM")
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # -- counts ------------------------------------------------------------------------------------------------

    def branches(self, order: int, state: tuple[str, ...]) -> Branches:
        """The edges out of `state`; see `EdgeSource`."""
        rows = self._db.execute(
            f"SELECT next_event, response_dist, {EDGE_COUNTS} FROM state_edges "
            "WHERE order_n = ? AND state_key = ? ORDER BY support DESC, next_event",
            (order, join_state(state)),
        ).fetchall()
        if not rows:
            return NO_BRANCHES
        return Branches(tuple(Branch.of(r[0], r[2:], responses_of(r[1])) for r in rows))

    def cases_with(self, event_type: str) -> Iterator[PastCase]:
        """Cases that hold the type; see `CaseSource`."""
        rows = self._db.execute(
            "SELECT c.case_id, c.terminal_outcome, e.type FROM cases c JOIN events e ON e.case_id = c.case_id "
            "WHERE c.case_id IN (SELECT case_id FROM events WHERE type = ?) "
            "ORDER BY c.last_instant DESC, c.case_id, e.instant, e.seq",
            (event_type,),
        )
        current: tuple[str, str] | None = None
        types: list[str] = []
        for case_id, outcome, name in rows:
            if current is not None and current[0] != case_id:
                yield PastCase(*current, tuple(types))
                types = []
            current = (case_id, outcome)
            types.append(name)
        if current is not None:
            yield PastCase(*current, tuple(types))

    def last_row(self) -> int:
        """Number of the last row of the table ``events``; rows that come later have higher ones."""
        value = self._db.execute("SELECT max(rowid) FROM events").fetchone()[0]
        return 0 if value is None else int(value)

    def generation(self) -> tuple[str, str, str]:
        """Changes when rows may have gone or been replaced, and not when some are only added."""
        keys = ("rebuildCount", "lastRebuildAt", REMOVALS)
        held = dict(self._db.execute("SELECT key, value FROM metadata WHERE key IN (?, ?, ?)", keys).fetchall())
        return held.get(keys[0], ""), held.get(keys[1], ""), held.get(keys[2], "")

    def cases_since(self, row: int) -> list[str]:
        """Cases with events beyond a row."""
        # Not DISTINCT: SQLite would read an index of all events for it.
        rows = self._db.execute("SELECT case_id FROM events WHERE rowid > ?", (row,))
        return list(dict.fromkeys(r[0] for r in rows))

    def case_outcome(self, case_id: str) -> str:
        """Terminal outcome of a case."""
        row = self._db.execute("SELECT terminal_outcome FROM cases WHERE case_id = ?", (case_id,)).fetchone()
        return "unknown" if row is None else str(row[0])

    def case_log(self) -> EventLog:
        """Types and terminal outcomes of all cases, in code-point order of their ids; no times."""
        import numpy as np

        from sherpa.eventlog import EventLog

        outcomes = dict(self._db.execute("SELECT case_id, terminal_outcome FROM cases").fetchall())
        types: dict[str, int] = {}
        names: list[str] = []
        codes, lengths = array("i"), array("q")
        for case_id, name in self._db.execute("SELECT case_id, type FROM events ORDER BY case_id, instant, seq"):
            if not names or names[-1] != case_id:
                names.append(case_id)
                lengths.append(0)
            lengths[-1] += 1
            codes.append(types.setdefault(name, len(types)))
        offsets = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        log = EventLog.from_codes(np.array(codes, np.int32), offsets, tuple(types), case_ids=names)
        ends = [OUTCOMES.index(cast("Outcome", outcomes.get(name, "unknown"))) for name in names]
        return dataclasses.replace(log, terminal=np.array(ends, np.int8))

    def log_without(self, case_id: str) -> EventLog:
        """Types and times of all cases but one, cases in order of their first event, equal times by id."""
        from sherpa.eventlog import EventLog

        types: dict[str, int] = {}
        cases: dict[str, tuple[list[int], list[int]]] = {}
        for name, event_type, instant in self._db.execute(
            "SELECT case_id, type, instant FROM events WHERE case_id <> ? ORDER BY case_id, instant, seq", (case_id,)
        ):
            codes, instants = cases.setdefault(name, ([], []))
            codes.append(types.setdefault(event_type, len(types)))
            instants.append(instant)
        names = sorted(cases, key=lambda name: (cases[name][1][0], name))
        return EventLog.from_codes(
            [code for name in names for code in cases[name][0]],
            list(accumulate((len(cases[name][0]) for name in names), initial=0)),
            tuple(types),
            case_ids=names,
            instants=[instant for name in names for instant in cases[name][1]],
        )

    def case_types(self, case_id: str) -> tuple[str, ...]:
        """Types of the events of a case, oldest first."""
        rows = self._db.execute("SELECT type FROM events WHERE case_id = ? ORDER BY instant, seq", (case_id,))
        return tuple(row[0] for row in rows)

    def case_outline(self, case_id: str) -> list[OutlineRow]:
        """What tells how a case stands, oldest event first."""
        rows = self._db.execute(
            "SELECT type, outcome, instant, instr(labels_json, '\"workflow:') > 0 FROM events "
            "WHERE case_id = ? ORDER BY instant, seq",
            (case_id,),
        )
        return list(map(OutlineRow._make, rows))

    def case_beginning(self, case_id: str) -> tuple[str, str]:
        """Agent and time of the first event of a case that is known."""
        agent_id, first = self._db.execute(
            "SELECT agent_id, first_seen_at FROM cases WHERE case_id = ?", (case_id,)
        ).fetchone()
        return str(agent_id), str(first)

    def count_rows(self, table: str) -> int:
        """Number of rows of one of `TABLES`."""
        if table not in TABLES:
            raise ValueError(table)
        return int(self._db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    def rows(self, table: str) -> list[Row]:
        """All rows of one of `TABLES`, by primary key."""
        if table not in TABLES:
            raise ValueError(table)
        order = " ORDER BY event_id" if table == "events" else ""
        return self._db.execute(f"SELECT * FROM {table}{order}").fetchall()

    # -- events ------------------------------------------------------------------------------------------------

    def case_events(self, case_id: str, last: int | None = None) -> list[Event]:
        """The events of a case in order, or its `last` ones."""
        rows = self._db.execute(
            f"SELECT {_EVENT_COLUMNS} FROM events WHERE case_id = ? ORDER BY instant DESC, seq DESC LIMIT ?",
            (case_id, -1 if last is None else last),
        ).fetchall()
        return [event_of_row(row) for row in reversed(rows)]

    def event(self, event_id: str) -> Event | None:
        """One event, or None."""
        row = self._db.execute(f"SELECT {_EVENT_COLUMNS} FROM events WHERE event_id = ?", (event_id,)).fetchone()
        return None if row is None else event_of_row(row)

    def known_ids(self, ids: Sequence[str]) -> set[str]:
        """Those of the ids that are stored."""
        found: set[str] = set()
        for at in range(0, len(ids), _VARIABLES):
            part = ids[at : at + _VARIABLES]
            marks = ",".join("?" * len(part))
            found.update(
                r[0] for r in self._db.execute(f"SELECT event_id FROM events WHERE event_id IN ({marks})", part)
            )
        return found

    def tallies(self) -> Tallies:
        """Rows of the large tables, and the instant of the latest event, without counting them."""
        return tallies(self._db)

    # -- reports -----------------------------------------------------------------------------------------------

    def type_counts(self, start: int) -> list[tuple[str, int, int, str, str]]:
        """(type, events, events from an instant on, first seen, last seen) of every type."""
        rows = self._db.execute(
            "SELECT type, count(*), sum(instant >= ?), min(instant), max(instant) FROM events GROUP BY type", (start,)
        )
        return [(name, n, recent, format_instant(first), format_instant(last)) for name, n, recent, first, last in rows]

    def type_counts_by_case(self, start: int) -> list[tuple[str, int, str, int]]:
        """(case, whether from an instant on, type, events), each combination that occurs."""
        return self._db.execute(
            "SELECT case_id, instant >= ?1, type, count(*) FROM events GROUP BY 1, 2, 3 ORDER BY 1, 2, 3", (start,)
        ).fetchall()

    def outcome_counts(self) -> dict[str, int]:
        """Cases by terminal outcome."""
        return dict(self._db.execute("SELECT terminal_outcome, count(*) FROM cases GROUP BY 1").fetchall())

    def cases_seen_since(self, instant: int) -> int:
        """Cases whose last event is not before an instant."""
        return int(self._db.execute("SELECT count(*) FROM cases WHERE last_instant >= ?", (instant,)).fetchone()[0])

    def mean_case_duration_ms(self) -> float | None:
        """From the first to the last event, over cases of at least two events with a known outcome."""
        row = self._db.execute(
            "SELECT avg(ms) FROM (SELECT c.last_instant / 1000000 - min(e.instant) / 1000000 AS ms FROM cases c "
            "JOIN events e ON e.case_id = c.case_id WHERE c.event_count > 1 AND c.terminal_outcome <> 'unknown' "
            "GROUP BY c.case_id)"
        ).fetchone()
        return None if row[0] is None else float(row[0])

    def events_by_time(self) -> Iterator[Event]:
        """Every event, oldest first, equal times in order of arrival."""
        for row in self._db.execute(f"SELECT {_EVENT_COLUMNS} FROM events ORDER BY instant, seq"):
            yield event_of_row(row)

    def case_rows(self) -> Iterator[tuple[str, str, int, str, str, str]]:
        """(id, agent, events, first seen, last seen, outcome) of every case, the latest first."""
        yield from self._db.execute(
            "SELECT case_id, agent_id, event_count, first_seen_at, last_seen_at, terminal_outcome FROM cases "
            "ORDER BY last_instant DESC, case_id"
        )

    def edge_rows(self) -> Iterator[Row]:
        """Order, state, next event, support, outcomes, durations and last time of every edge, by support."""
        yield from self._db.execute(
            "SELECT order_n, state_key, next_event, support, success_count, failure_count, terminal_success_count, "
            "terminal_failure_count, terminal_unknown_count, total_duration_ms, min_duration_ms, max_duration_ms, "
            "last_seen_at FROM state_edges ORDER BY support DESC, order_n DESC, state_key, next_event"
        )

    def transitions(self, kind: Transitions, limit: int | None) -> list[TransitionRow]:
        """The first edges of all orders by support, or by rate of failure or stall where it is above 0.

        Equal ones by what comes next, then by what came before.
        """
        rows = self._db.execute(
            "SELECT order_n, state_key, next_event, support, terminal_success_count, terminal_failure_count, "
            f"terminal_unknown_count, timed_count, total_duration_ms, last_seen_at FROM state_edges {kind.value}, "
            "next_event COLLATE root, state_key COLLATE root LIMIT ?",
            (-1 if limit is None else limit,),
        )
        return [TransitionRow(*row) for row in rows]

    # -- metadata ----------------------------------------------------------------------------------------------

    def metadata(self) -> dict[str, str]:
        """The table ``metadata``."""
        return dict(self._db.execute("SELECT key, value FROM metadata").fetchall())


def _collate(one: str, other: str) -> int:
    a, b = collation_key(one), collation_key(other)
    return (a > b) - (a < b)


def _guarded(script: str) -> str:
    # Two processes may create the schema at the same time; the second finds it there.
    return _CREATE.sub(r"\1 IF NOT EXISTS ", script)


@contextmanager
def without_indexes(db: sqlite3.Connection, table: str) -> Iterator[None]:
    """Drop the indexes of a table and make them again when the block ends; inside a transaction.

    Raises
    ------
    sqlite3.IntegrityError
        If a unique one cannot be made again.
    """
    found = db.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL", (table,)
    ).fetchall()
    for name, _ in found:
        db.execute(f"DROP INDEX {name}")
    yield
    for _, statement in found:
        db.execute(statement)


def insert(db: sqlite3.Connection, table: str, rows: Iterable[Row], *, replace: bool = False) -> None:
    """Write whole rows, in the order of the table's columns."""
    width = WIDTHS[table]
    verb = "INSERT OR REPLACE" if replace else "INSERT"
    db.executemany(f"{verb} INTO {table} VALUES ({','.join('?' * width)})", rows)


def responses_of(text: str) -> dict[str, int]:
    """How often users answered how, from its column; most edges have no answer."""
    return {} if text == "{}" else _responses.decode(text)


_responses = msgspec.json.Decoder(dict[str, int])
_encoder = msgspec.json.Encoder(order="deterministic")


def to_json_text(value: object) -> str:
    """Compact JSON with sorted keys."""
    return _encoder.encode(value).decode()


def row_of_event(event: Event) -> Row:
    """The row of an event in the table ``events``."""
    return (
        event.event_id,
        event.schema_version,
        event.agent_id,
        event.case_id,
        event.ts,
        event.source,
        event.type,
        event.actor,
        event.outcome,
        to_json_text(event.labels),
        to_json_text(event.entities),
        to_json_text(event.projection) if isinstance(event.projection, Projection) else "null",
        to_json_text(event.metrics),
        to_json_text(event.meta),
        to_json_text(event.context) if isinstance(event.context, EventContext) else None,
        event.seq if isinstance(event.seq, int) else 0,
        event.instant,
    )


def event_of_row(row: Row) -> Event:
    """Inverse of `row_of_event`."""
    value = cast("tuple[str, ...]", row)
    decode = msgspec.json.decode
    return Event(
        event_id=value[0],
        agent_id=value[2],
        case_id=value[3],
        ts=value[4],
        source=value[5],
        type=value[6],
        actor=value[7],
        outcome=cast(Outcome, value[8]),
        labels=() if value[9] == "[]" else decode(value[9], type=tuple[str, ...]),
        entities=() if value[10] == "[]" else decode(value[10], type=tuple[str, ...]),
        projection=UNSET if value[11] == "null" else decode(value[11], type=Projection),
        metrics={} if value[12] == "{}" else decode(value[12], type=dict[str, float]),
        meta={} if value[13] == "{}" else decode(value[13], type=dict[str, object]),
        context=UNSET if row[14] is None else decode(value[14], type=EventContext),
        seq=row[15] if isinstance(row[15], int) else UNSET,
    )
