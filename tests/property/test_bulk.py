"""A rebuild from columns gives, row for row, what one from events gives."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sherpa import EngineConfig, GraphStore, ProceduralMemory
from sherpa.canonical import parse_canonical
from sherpa.derive import DERIVED, rebuild, rebuild_in_bulk
from sherpa.instants import format_instant, parse_instant
from sherpa.ledger import Ledger, LedgerReport

CONFIG = EngineConfig(default_order=2, max_order=4)
words = st.sampled_from(["a", "b.failed", "task.completed", "message.user.ask", "session.started", "ünï -> x"])
stamps = st.integers(0, 6).map(lambda at: f"2026-01-0{1 + at // 3}T00:00:0{at % 3}.{'5' if at % 2 else '000000001'}Z")
events = st.fixed_dictionaries(
    {"caseId": st.sampled_from(["x", "y", "é", "Z"]), "source": st.just("s"), "type": words, "ts": stamps},
    optional={
        "actor": st.sampled_from(["user", "agent"]),
        "agentId": st.sampled_from(["main", "other"]),
        "outcome": st.sampled_from(["success", "failure", "unknown"]),
        "labels": st.lists(st.sampled_from(["workflow:w", "workflow:v", "plain", 'with"quote']), max_size=3),
        "metrics": st.dictionaries(st.sampled_from(["n", "m"]), st.integers(0, 3), max_size=2),
        "meta": st.dictionaries(st.sampled_from(["z", "a"]), st.text(max_size=3), max_size=2),
        "context": st.fixed_dictionaries({}, optional={"text": st.text(max_size=5)}),
    },
)


def derived(db: sqlite3.Connection) -> dict[str, list[Any]]:
    return {table: sorted(db.execute(f"SELECT * FROM {table}").fetchall(), key=repr) for table in DERIVED}


def both(ledger: Ledger, folder: Path) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    found = []
    for name in ("plain", "bulk"):
        with GraphStore(folder / f"{name}.db") as store, store.transaction() as db:
            if name == "plain":
                rebuild(db, ledger.read(), CONFIG)
            else:
                rebuild_in_bulk(db, ledger.batches(LedgerReport(), ledger.positions()), CONFIG)
            found.append(derived(db))
    return found[0], found[1]


@settings(max_examples=60)
@given(given_events=st.lists(events, max_size=25))
def test_bulk_and_plain_rebuilds_agree(given_events: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with ProceduralMemory(folder, CONFIG) as memory:
            if given_events:
                memory.ingest_batch(given_events)
            ledger = memory.ledger
        one, other = both(ledger, Path(folder))
        assert one == other


def test_lines_of_others_and_broken_ones_are_read_alike(tmp_path: Path) -> None:
    """No number, another form of time, a broken line, a blank one, one that is no object, a torn tail."""
    folder = tmp_path / "events"
    folder.mkdir()
    plain = {"schemaVersion": 1, "agentId": "main", "source": "s", "actor": "agent", "outcome": "unknown"}
    lines = [
        json.dumps(plain | {"eventId": "1", "caseId": "c", "type": "a", "ts": "2026-01-01T00:00:00.000Z", "seq": 1}),
        json.dumps(plain | {"eventId": "2", "caseId": "c", "type": "b", "ts": "2026-01-01T02:00:00+02:00"}),
        "{broken",
        "",
        "[]",
        json.dumps(plain | {"eventId": "3", "caseId": "c", "type": "b", "ts": "2026-13-01T00:00:00.000Z", "seq": 4}),
        json.dumps(plain | {"eventId": "4", "caseId": "c", "type": "c", "ts": "2026-01-01T00:00:01.000Z", "seq": 5}),
        '{"eventId": "torn"',
    ]
    (folder / "2026-01-01.jsonl").write_text("\n".join(lines))
    ledger = Ledger(folder)
    one, other = both(ledger, tmp_path)
    assert one == other
    assert [row[0] for row in one["events"]] == ["1", "2", "4"]
    reports = LedgerReport(), LedgerReport()
    list(ledger.read(None, reports[0], ledger.positions()))
    list(ledger.batches(reports[1], ledger.positions()))
    assert reports[0].malformed == reports[1].malformed
    assert [line.line for line in reports[1].malformed] == [3, 5, 6]


def test_an_id_that_stands_twice_is_still_stored_once(tmp_path: Path) -> None:
    with ProceduralMemory(tmp_path) as memory:
        memory.ingest({"eventId": "1", "caseId": "c", "source": "s", "type": "a", "ts": "2026-01-01T00:00:00Z"})
    segment = tmp_path / "events" / "2026-01-01.jsonl"
    segment.write_bytes(segment.read_bytes() * 2)
    with ProceduralMemory(tmp_path) as memory:
        assert memory.rebuild()["events"] == 1
        assert memory.status()["ledgerDuplicateCount"] == 1
        names = {row[0] for row in memory.store._db.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}
        assert {"events_by_id", "events_by_case", "events_by_type"} <= names


def test_a_graph_of_schema_1_is_carried_over(tmp_path: Path) -> None:
    with ProceduralMemory(tmp_path) as memory:
        for at, kind in enumerate("abcab"):
            memory.ingest({"caseId": "c", "source": "s", "type": kind, "ts": f"2026-01-01T00:00:0{at}Z"})
        with memory.store.transaction() as db:
            db.execute("INSERT OR REPLACE INTO metadata VALUES ('advisoryInjections', '7')")
        before = {table: memory.store.rows(table) for table in (*DERIVED, "metadata")}
    with sqlite3.connect(tmp_path / "graph.db") as db:
        create = db.execute("SELECT sql FROM sqlite_master WHERE name = 'events'").fetchone()[0]
        old = create.replace("event_id TEXT NOT NULL", "event_id TEXT PRIMARY KEY").replace("events", "fresh", 1)
        db.executescript(
            f"{old} WITHOUT ROWID; INSERT INTO fresh SELECT * FROM events; DROP TABLE events;"
            "ALTER TABLE fresh RENAME TO events; CREATE INDEX events_by_case ON events (case_id, instant, seq, type);"
            "CREATE INDEX events_by_type ON events (type, case_id); PRAGMA user_version=1;"
        )
    db.close()
    with ProceduralMemory(tmp_path) as memory:
        assert {table: memory.store.rows(table) for table in (*DERIVED, "metadata")} == before
        assert memory.ingest({"caseId": "c", "source": "s", "type": "d"}).seq == 6


@given(st.integers(-(2**62), 2**62).map(lambda n: n // 10**6 * 10**6))
def test_canonical_times_are_read_as_one_by_one(instant: int) -> None:
    text = format_instant(instant)
    found = parse_canonical([text, "2000-02-29T23:59:59.999Z"])
    assert found is not None
    assert found.tolist() == [instant, parse_instant("2000-02-29T23:59:59.999Z")]


@pytest.mark.parametrize(
    "text",
    [
        "2026-02-29T00:00:00.000Z",
        "2026-01-01T24:00:00.000Z",
        "2026-01-01T00:60:00.000Z",
        "2026-01-01T00:00:60.000Z",
        "2026-01-01 00:00:00.000Z",
        "2026-01-01T00:00:00.00aZ",
        "2026-01-01T00:00:00.000z",
        "9999-01-01T00:00:00.000Z",
        "2026-01-01T00:00:00Z",
        "２026-01-01T00:00:00.0Z",
    ],
)
def test_what_is_not_canonical_is_left_to_the_slower_way(text: str) -> None:
    assert parse_canonical([text]) is None
