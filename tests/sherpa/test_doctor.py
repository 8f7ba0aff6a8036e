"""Doctor names each kind of damage, and makes none worse."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sherpa import ProceduralMemory
from sherpa.cli.main import app
from sherpa.doctor import diagnose
from tests.sherpa.test_reports import event

NOW = time.time_ns()


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def no_table(root: Path) -> None:
    with closing(sqlite3.connect(root / "graph.db")) as db, db:
        db.execute("DROP TABLE state_edges")


def truncated(root: Path) -> None:
    path = root / "graph.db"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])


def bad_line(root: Path) -> None:
    path = root / "events" / "2026-03-01.jsonl"
    first, *rest = lines(path)
    path.write_bytes(first + b'{"eventId": broken\n' + b"".join(rest))


def future(root: Path) -> None:
    with closing(sqlite3.connect(root / "graph.db")) as db, db:
        db.execute("PRAGMA user_version = 99")


def foreign(root: Path) -> None:
    (root / "graph.db").unlink()
    with closing(sqlite3.connect(root / "graph.db")) as db, db:
        db.execute("CREATE TABLE songs (name TEXT)")


def not_a_database(root: Path) -> None:
    (root / "graph.db").write_bytes(b"PNG" * 5000)


def closed(root: Path) -> None:
    (root / "events" / "2026-03-02.jsonl").chmod(0o000)


def backwards(root: Path) -> None:
    with ProceduralMemory(root) as memory:
        memory.ingest(event("a", "late", 1, 30))
        memory.ingest(event("a", "earlier", 1, 20))


def copied(root: Path) -> None:
    (root / "events" / "2026-03-01 copy.jsonl").write_bytes((root / "events" / "2026-03-01.jsonl").read_bytes())


def control(root: Path) -> None:
    with ProceduralMemory(root) as memory:
        memory.ingest(event("x\u0007y", "start", 1))


def other_counts(root: Path) -> None:
    with closing(sqlite3.connect(root / "graph.db")) as db, db:
        db.execute("UPDATE state_edges SET support = support + 1")


def stray(root: Path) -> None:
    (root / "events" / "notes.txt").write_text("x")


def gone(root: Path) -> None:
    (root / "graph.db").unlink()


DAMAGE: list[tuple[Callable[[Path], None], str, str, str]] = [
    (no_table, "graph tables", "error", "state_edges missing"),
    (truncated, "graph", "error", "is damaged"),
    (bad_line, "ledger lines", "error", "2026-03-01.jsonl"),
    (future, "graph schema", "error", "version 99"),
    (foreign, "graph", "error", "something else"),
    (not_a_database, "graph", "error", "is damaged"),
    (closed, "permissions", "error", "2026-03-02.jsonl"),
    (backwards, "clock", "warning", "1 times"),
    (copied, "duplicate events", "error", "3 event ids"),
    (control, "case ids", "warning", r"\x07"),
    (other_counts, "graph", "error", "state_edges"),
    (stray, "foreign files", "warning", "notes.txt"),
    (gone, "graph", "error", "there is none"),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    with ProceduralMemory(root) as memory:
        memory.ingest_batch([event("a", name, 1, at) for at, name in enumerate(("start", "work", "task.completed"))])
        memory.ingest_batch([event("b", name, 2, at) for at, name in enumerate(("start", "work"))])
        memory.gc()
    return root


def state(root: Path) -> dict[str, str]:
    files = (p for p in sorted(root.rglob("*")) if p.is_file() and not p.name.endswith(("-shm", "-wal")))
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def checks(report: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [check for check in report["checks"] if check["check"] == name]


def test_a_healthy_memory(root: Path) -> None:
    report = diagnose(root, now=NOW)
    assert report["healthy"]
    assert report["warnings"] == 0
    assert checks(report, "graph")[0]["found"] == "is what the ledger gives"


@pytest.mark.parametrize(("damage", "name", "level", "found"), DAMAGE, ids=[d[0].__name__ for d in DAMAGE])
def test_each_damage_has_a_name_and_is_not_made_worse(
    root: Path, damage: Callable[[Path], None], name: str, level: str, found: str
) -> None:
    damage(root)
    before = state(root)
    report = diagnose(root, now=NOW)
    (named,) = [check for check in checks(report, name) if check["level"] != "ok"][:1]
    assert named["level"] == level
    assert found in named["found"]
    assert named["advice"]
    assert report["healthy"] is (level == "warning")
    assert state(root) == before
    result = CliRunner().invoke(app, ["--root", str(root), "doctor", "--json"])
    assert result.exit_code == (0 if level == "warning" else 1)
    assert json.loads(result.stdout)["healthy"] is (level == "warning")
    assert state(root) == before


def test_a_full_disk(root: Path) -> None:
    report = diagnose(root, now=NOW, free=lambda _path: 1000)
    assert checks(report, "disk")[0]["level"] == "error"


def test_events_that_are_yet_to_come(root: Path) -> None:
    with ProceduralMemory(root) as memory:
        memory.ingest(event("a", "later", 1) | {"ts": "2199-01-01T00:00:00.000Z"})
    assert "2199-01-01" in checks(diagnose(root, now=NOW), "clock")[0]["found"]


def test_half_a_line_at_the_end(root: Path) -> None:
    path = root / "events" / "2026-03-02.jsonl"
    path.write_bytes(path.read_bytes() + b'{"eventId":"half')
    report = diagnose(root, now=NOW)
    assert checks(report, "torn tails")[0]["level"] == "warning"
    assert path.read_bytes().endswith(b"half")


def test_no_memory(tmp_path: Path) -> None:
    assert not diagnose(tmp_path / "none", now=NOW)["healthy"]
    assert CliRunner().invoke(app, ["--root", str(tmp_path / "none"), "doctor"]).exit_code == 1


@pytest.mark.parametrize("damage", [no_table, truncated, future, foreign, not_a_database, other_counts, gone])
def test_a_damaged_graph_is_put_aside_and_made_again(root: Path, damage: Callable[[Path], None]) -> None:
    with ProceduralMemory(root) as memory:
        expected = memory.store.rows("state_edges")
        memory.gc()
    damage(root)
    ledger = state(root / "events")
    result = CliRunner().invoke(app, ["--root", str(root), "doctor", "--fix", "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["healthy"]
    assert all(Path(path).exists() for path in report["putAside"])
    assert state(root / "events") == ledger
    with ProceduralMemory(root) as memory:
        assert memory.store.rows("state_edges") == expected
