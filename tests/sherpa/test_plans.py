"""What SQLite does for a question or an event: it looks rows up, and never reads a table whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sherpa import ProceduralMemory
from sherpa.finding import WORTH

LARGE = ("events", "state_edges", "cases", "success_metrics", "risk_metrics")


@pytest.fixture
def memory(tmp_path: Path) -> Any:
    with ProceduralMemory(tmp_path) as opened:
        opened.ingest_batch(
            [
                {"caseId": f"c{n}", "source": "s", "type": f"t{(n * k) % 4}", "labels": ["workflow:w"]}
                for n in range(12)
                for k in range(6)
            ]
        )
        yield opened


def plans(memory: ProceduralMemory, action: Any) -> list[tuple[str, str]]:
    """(statement, what SQLite would do for it) of every statement that an action runs."""
    statements: list[str] = []
    db = memory.store._db
    db.set_trace_callback(statements.append)
    try:
        action()
    finally:
        db.set_trace_callback(None)
    found = []
    for statement in statements:
        if statement.lstrip().upper().startswith(("SELECT", "UPDATE", "DELETE", "INSERT")):
            found += [(statement, row[3]) for row in db.execute(f"EXPLAIN QUERY PLAN {statement}")]
    assert found, "nothing was traced"
    return found


ACTIONS = {
    "state": lambda m: m.workflow_state("c3"),
    "next": lambda m: m.workflow_next("c3"),
    "outcomes": lambda m: m.workflow_outcomes("c3"),
    "recall": lambda m: m.workflow_recall("c3"),
    "advise": lambda m: m.advise("c3", record=True),
    "event": lambda m: m.ingest({"caseId": "c3", "source": "s", "type": "t1"}),
    "new case": lambda m: m.ingest({"caseId": "fresh", "source": "s", "type": "t1"}),
    "known event": lambda m: m.store.event("nothing"),
}


@pytest.mark.parametrize("name", ACTIONS)
def test_no_large_table_is_read_whole(name: str, memory: ProceduralMemory) -> None:
    scanned = [
        (statement, plan)
        for statement, plan in plans(memory, lambda: ACTIONS[name](memory))
        if any(plan.startswith(f"SCAN {table}") for table in LARGE)
    ]
    # The number of the last row is read off the end of the table, the names of columns need no row.
    assert [s for s in scanned if "max(rowid)" not in s[0] and "LIMIT 0" not in s[0]] == []


@pytest.mark.parametrize("question", ["outcomes", "recall"])
def test_nor_is_one_to_bring_the_index_of_cases_up_to_date(question: str, memory: ProceduralMemory) -> None:
    events = [{"caseId": f"c{n % 50}", "source": "s", "type": f"t{n % 4}"} for n in range(WORTH)]
    memory.ingest_batch(events)
    ACTIONS[question](memory)
    memory.ingest({"caseId": "c3", "source": "s", "type": "t1"})
    found = plans(memory, lambda: ACTIONS[question](memory))
    assert any("rowid >" in statement for statement, _ in found), "the index was not used"
    assert [f for f in found if f[1].startswith("SCAN events") and "max(rowid)" not in f[0]] == []


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        ("SELECT type FROM events WHERE case_id = 'c' ORDER BY instant, seq", "COVERING INDEX events_by_case"),
        ("SELECT DISTINCT case_id FROM events WHERE type = 't'", "COVERING INDEX events_by_type"),
        ("SELECT seq FROM events WHERE event_id = 'e'", "INDEX events_by_id"),
        ("SELECT case_id FROM events WHERE rowid > 5", "INTEGER PRIMARY KEY"),
        ("SELECT case_id, type FROM events ORDER BY case_id, instant, seq", "COVERING INDEX events_by_case"),
    ],
)
def test_each_index_serves_what_it_is_for(statement: str, index: str, memory: ProceduralMemory) -> None:
    plan = " ".join(row[3] for row in memory.store._db.execute(f"EXPLAIN QUERY PLAN {statement}"))
    assert index in plan
    assert "TEMP B-TREE" not in plan
