"""Reports on a memory, against values worked out by hand; snapshots and cleaning."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sherpa import ProceduralMemory
from sherpa.cli.main import app
from sherpa.errors import SourceError
from sherpa.instants import parse_instant
from sherpa.reports.taxonomy import taxonomy_report
from tests.conftest import PROJECT

NOW = parse_instant("2026-03-31T00:00:00.000Z")


def event(case: str, name: str, day: int, second: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "eventId": f"{case}-{name}-{day}-{second}",
        "caseId": case,
        "source": "test",
        "type": name,
        "ts": f"2026-03-{day:02d}T00:00:{second:02d}.000Z",
        **more,
    }


@pytest.fixture
def memory(tmp_path: Path) -> Any:
    """Two cases before the last week, one in it."""
    with ProceduralMemory(tmp_path / "root", clock=lambda: NOW) as memory:
        memory.ingest_batch(
            [
                *(event("a", name, 1, at) for at, name in enumerate(("start", "work", "task.completed"))),
                *(event("b", name, 2, 10 * at) for at, name in enumerate(("start", "work", "task.failed"))),
                *(event("c", name, 30, at) for at, name in enumerate(("start", "deploy"))),
            ]
        )
        yield memory


def test_drift_by_hand(memory: ProceduralMemory) -> None:
    report = memory.taxonomy_report(recent_days=7, rare_support=1)
    assert (report["totalEvents"], report["distinctTypes"]) == (8, 5)
    assert [(row["event"], row["count"], row["share"]) for row in report["topTypes"][:2]] == [
        ("start", 3, 0.375),
        ("work", 2, 0.25),
    ]
    assert [row["event"] for row in report["rareTypes"]] == ["deploy", "task.completed", "task.failed"]
    assert [row["event"] for row in report["recentNewTypes"]] == ["deploy"]
    drift = report["drift"]
    # Before: start 2/6, work 2/6, completed 1/6, failed 1/6. Recent: start 1/2, deploy 1/2.
    # Half of |.5-.333| + .333 + .167 + .167 + .5.
    assert drift["score"] == 0.667
    assert (drift["newTypeShare"], drift["rareEventShare"]) == (0.5, 0.375)
    assert (drift["baselineEventCount"], drift["recentEventCount"]) == (6, 2)


def test_drift_is_tested_by_moving_whole_cases(memory: ProceduralMemory) -> None:
    # Three cases, one of them recent. The windows are apart by 2/3 with c in the window (start and deploy alone), by
    # 2/5 with a and 2/5 with b: one of three arrangements is as far apart. So p tends to 1/3.
    p = taxonomy_report(memory.store, as_of=NOW, recent_days=7, permutations=2000)["drift"]["pValue"]
    assert p == pytest.approx(1 / 3, abs=0.05)


def test_an_empty_window_is_not_tested(memory: ProceduralMemory) -> None:
    drift = taxonomy_report(memory.store, as_of=NOW, recent_days=60)["drift"]
    assert drift["pValue"] is None
    assert drift["baselineEventCount"] == 0


def test_analytics_by_hand(memory: ProceduralMemory) -> None:
    report = memory.analytics_report(limit=3)
    assert report["cases"] == {
        "total": 3,
        "success": 1,
        "failure": 1,
        "unknown": 1,
        "successRate": 0.333,
        "failureRate": 0.333,
    }
    first = report["hotTransitions"][0]
    assert (first["state"], first["nextEvent"], first["support"]) == (["start"], "work", 2)
    assert (first["successRate"], first["failureRate"], first["stallRate"]) == (0.5, 0.5, 0)
    assert first["meanTimeToNextMs"] == 5500
    failing = report["failureBranches"]
    assert [(row["order"], row["nextEvent"], row["failureRate"]) for row in failing] == [
        (2, "task.failed", 1),
        (1, "task.failed", 1),
        (1, "work", 0.5),
    ]
    assert [(row["nextEvent"], row["stallRate"]) for row in report["stallBranches"]] == [("deploy", 1)]


def test_use_by_hand(memory: ProceduralMemory) -> None:
    assert memory.metrics() == {
        "totalEvents": 8,
        "totalCases": 3,
        "activeCasesLast7d": 1,
        "advisoryInjections": 0,
        "meanCaseDurationMs": 11_000,  # 2 s and 20 s; the third case has no known outcome
        "rebuildCount": 1,
        "lastRebuildAt": "2026-03-31T00:00:00.000Z",
        "ledgerCorruptionCount": 0,
    }


def test_a_snapshot_comes_back(memory: ProceduralMemory, tmp_path: Path) -> None:
    found = memory.export()
    path = Path(found["exportPath"])
    assert path.name == "2026-03-31T00-00-00.000Z.json"
    document = json.loads(path.read_bytes())
    assert set(document) == {"exportedAt", "status", "events", "cases", "stateEdges"}
    assert (found["eventCount"], found["caseCount"], found["stateCount"]) == (8, 3, len(document["stateEdges"]))
    assert [case["caseId"] for case in document["cases"]] == ["c", "b", "a"]
    with ProceduralMemory(tmp_path / "other", clock=lambda: NOW) as other:
        taken = other.import_snapshot(path)
        assert (taken["added"], taken["skipped"], taken["fromExportedAt"]) == (8, 0, "2026-03-31T00:00:00.000Z")
        again = other.import_snapshot(path)
        assert (again["added"], again["skipped"], again["eventCount"]) == (0, 8, 8)
        for table in ("cases", "state_edges", "success_metrics"):
            assert other.store.rows(table) == memory.store.rows(table)


def test_a_snapshot_of_the_original(tmp_path: Path) -> None:
    # Its events have no sequence number, may repeat, and stand beside members that mean nothing here.
    snapshot = {
        "exportedAt": "2026-05-21T00:00:00.000Z",
        "status": {"backend": "sherpa"},
        "events": [event("a", "start", 1) | {"schemaVersion": 1}, event("a", "start", 1), event("a", "work", 1, 1)],
        "cases": [{"case_id": "a"}],
        "stateEdges": [],
    }
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(snapshot))
    with ProceduralMemory(tmp_path / "root") as memory:
        found = memory.import_snapshot(path)
        assert (found["added"], found["skipped"]) == (2, 1)
        assert memory.store.case_types("a") == ("start", "work")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is no snapshot"),
        ("[]", "is no snapshot"),
        ('{"events": [{"caseId": "a"}]}', r"events\[0\]"),
        (json.dumps({"events": [event("a", "start", 1), {**event("a", "x", 1), "ts": None}]}), r"events\[1\]"),
    ],
)
def test_a_broken_snapshot_changes_nothing(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "snapshot.json"
    path.write_text(content)
    with ProceduralMemory(tmp_path / "root") as memory:
        with pytest.raises(SourceError, match=message):
            memory.import_snapshot(path)
        assert memory.status()["events"] == 0


def test_cleaning_keeps_the_latest_exports(memory: ProceduralMemory) -> None:
    folder = memory.root / "export"
    folder.mkdir()
    for number in range(12):
        (folder / f"2026-01-{number + 1:02d}T00-00-00.000Z.json").write_text("{}")
    (memory.root / "tmp" / "deep").mkdir(parents=True)
    (memory.root / "tmp" / "deep" / "draft").write_text("x")
    assert memory.gc() == {"vacuumed": True, "removedTmpFiles": 1, "removedExportFiles": 2}
    assert min(path.name for path in memory.exports()) == "2026-01-03T00-00-00.000Z.json"
    assert list((memory.root / "tmp").iterdir()) == []


KILLED = """
import sys, time
from pathlib import Path
from sherpa import ProceduralMemory
import sherpa.snapshot as snapshot
whole = snapshot._parts
def slow(rows):
    for part in whole(rows):
        print("writing", flush=True)
        yield part
        time.sleep(60)
snapshot._parts = slow
with ProceduralMemory(Path(sys.argv[1])) as memory:
    memory.export()
"""


def test_an_export_that_is_killed_leaves_no_half(memory: ProceduralMemory) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(memory.root)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"writing\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert memory.exports() == []
    assert memory.export()["eventCount"] == 8


@pytest.mark.parametrize(
    ("flag", "limit", "code"),
    [
        ("--max-types", "4", 1),
        ("--max-types", "5", 0),
        ("--max-drift-score", "0.1", 1),
        ("--max-drift-score", "1", 0),
        ("--max-new-type-share", "0", 0),
        ("--max-rare-event-share", "0.5", 1),
    ],
)
def test_limits_decide_the_exit_code(memory: ProceduralMemory, flag: str, limit: str, code: int) -> None:
    # Seen from today everything is long ago: nothing is new, and all eight events are rare with the default of 3.
    result = CliRunner().invoke(app, ["--root", str(memory.root), "taxonomy-report", flag, limit, "--json"])
    assert result.exit_code == code, result.output
    assert json.loads(result.stdout)["distinctTypes"] == 5


@pytest.mark.parametrize("command", ["taxonomy-report", "analytics-report", "metrics", "export", "gc"])
def test_commands_print_a_table_or_one_document(memory: ProceduralMemory, command: str) -> None:
    run: Callable[..., Any] = CliRunner().invoke
    assert run(app, ["--root", str(memory.root), command]).exit_code == 0
    result = run(app, ["--root", str(memory.root), "--json", command])
    assert result.exit_code == 0
    assert isinstance(json.loads(result.stdout), dict)
