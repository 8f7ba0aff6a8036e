"""A process killed at a random moment loses nothing that it acknowledged; the next start repairs the rest."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sherpa import EngineConfig, GraphStore, ProceduralMemory
from sherpa.store import TABLES
from sherpa.tallies import counted, keep

INGEST = """
import sys
from sherpa import ProceduralMemory
with ProceduralMemory(sys.argv[1]) as memory:
    memory.ingest({"eventId": f"{sys.argv[2]}-first", "caseId": "first", "source": "test", "type": "warm.up"})
    print("ready", flush=True)
    for n in range(10**6):
        case = f"case-{n % 7}"
        events = [
            {"eventId": f"{sys.argv[2]}-{n}-{k}", "caseId": case, "source": "test", "type": f"type-{(n * k) % 5}",
             "ts": f"2026-01-{1 + (n + k) % 9:02d}T00:00:00Z", "meta": {"padding": "x" * 3000}}
            for k in range(3)
        ]
        memory.ingest_batch(events)
        print(*(e["eventId"] for e in events), flush=True)
"""

REBUILD = """
import sys
from sherpa import ProceduralMemory
with ProceduralMemory(sys.argv[1]) as memory:
    print("ready", flush=True)
    while True:
        memory.rebuild()
        print("rebuilt", flush=True)
"""

POINTS = 50


def run_and_kill(script: str, arguments: list[str], after: float) -> list[str]:
    """Start a script, kill it `after` seconds past its first line, and give what it had printed in whole lines."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    time.sleep(after)
    os.kill(process.pid, signal.SIGKILL)
    out, err = process.communicate()
    assert process.returncode == -signal.SIGKILL, err
    return [line for line in out.split("\n")[:-1] if line]


def seconds_to_first_acknowledgement(root: Path) -> float:
    """How long one batch takes here, so that kills fall into the writing on a slow machine too."""
    process = subprocess.Popen(
        [sys.executable, "-c", INGEST, str(root), "pace"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    begin = time.monotonic()
    assert process.stdout.readline()
    took = time.monotonic() - begin
    process.kill()
    process.communicate()
    return took


def derived(store: GraphStore) -> dict[str, list]:
    return {name: store.rows(name) for name in TABLES if name not in ("metadata", "config_versions")}


def assert_whole(root: Path) -> None:
    """The graph, as the next start finds and repairs it, is that of the ledger."""
    with ProceduralMemory(root) as memory:
        found = derived(memory.store)
        assert memory.status()["healthy"]
        memory.rebuild()
        assert derived(memory.store) == found
        assert memory.last_report.malformed == []


def test_killed_while_ingesting(tmp_path: Path) -> None:
    rng = random.Random(20260101)
    acknowledged: set[str] = set()
    window = max(0.05, 5 * seconds_to_first_acknowledgement(tmp_path))
    for point in range(POINTS):
        lines = run_and_kill(INGEST, [str(tmp_path), f"run{point}"], rng.uniform(0, window))
        acknowledged.update(name for line in lines for name in line.split())
        if point % 10 == 9:
            assert_whole(tmp_path)
        with ProceduralMemory(tmp_path) as memory:
            stored = {event.event_id for event in memory.ledger.read()}
            assert acknowledged <= stored
            assert stored == {str(row[0]) for row in memory.store.rows("events")}
    assert len(acknowledged) > POINTS


def test_killed_while_rebuilding(tmp_path: Path) -> None:
    with ProceduralMemory(tmp_path) as memory:
        memory.ingest_batch(
            [
                {"eventId": f"e{n}", "caseId": f"c{n % 200}", "source": "test", "type": f"t{n * n % 23}"}
                for n in range(4000)
            ]
        )
        before = derived(memory.store)
    rng = random.Random(7)
    for _ in range(POINTS):
        run_and_kill(REBUILD, [str(tmp_path)], rng.uniform(0, 0.35))
        # As a reader finds it, before anything could have repaired it.
        with GraphStore(tmp_path / "graph.db") as store:
            assert derived(store) == before
    assert_whole(tmp_path)


@pytest.mark.parametrize("torn", [1, 7, 40])
def test_a_torn_tail_is_cut_off_silently(tmp_path: Path, torn: int) -> None:
    event = {"caseId": "a", "source": "test", "type": "x", "ts": "2026-01-01T00:00:00Z"}
    with ProceduralMemory(tmp_path) as memory:
        memory.ingest_batch([{**event, "eventId": "one"}, {**event, "eventId": "two"}])
        segment = memory.ledger.segments()[0]
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-torn])
    with ProceduralMemory(tmp_path) as memory:
        kept = ["one"] if torn > 1 else ["one", "two"]
        memory.ingest({**event, "eventId": "three"})
        assert [e.event_id for e in memory.ledger.read()] == [*kept, "three"]
        assert [e.seq for e in memory.ledger.read()] == list(range(1, len(kept) + 2))
        assert memory.status()["healthy"]


def test_a_reader_sees_the_old_graph_while_another_process_rebuilds(tmp_path: Path) -> None:
    with ProceduralMemory(tmp_path, EngineConfig(min_support=1)) as memory:
        memory.ingest_batch([{"caseId": "a", "source": "s", "type": t} for t in ("x", "y")])
        memory.ingest({"caseId": "b", "source": "s", "type": "x"})
        expected = memory.workflow_next("b")
        writer = GraphStore(tmp_path / "graph.db")
        with writer.transaction() as db:
            for table in TABLES:
                db.execute(f"DELETE FROM {table}")
            assert memory.workflow_next("b") == expected
            assert memory.status()["events"] == 3
            db.executemany("INSERT INTO metadata VALUES (?, ?)", [(k, v) for k, v in memory.store.metadata().items()])
            keep(db, counted(db))
        assert memory.status()["events"] == 0
        writer.close()


def test_two_processes_ingest_at_once(tmp_path: Path) -> None:
    """Nothing is lost, nobody is told that the database is locked, and arrival numbers are unique."""
    script = """
import sys
from sherpa import ProceduralMemory
with ProceduralMemory(sys.argv[1]) as memory:
    for n in range(60):
        memory.ingest({"eventId": f"{sys.argv[2]}-{n}", "caseId": sys.argv[2], "source": "s", "type": f"t{n % 3}",
                       "ts": "2026-01-01T00:00:00Z"})
"""
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path), name], stderr=subprocess.PIPE, text=True)
        for name in ("left", "right")
    ]
    assert [(w.communicate()[1], w.returncode) for w in writers] == [("", 0), ("", 0)]
    with ProceduralMemory(tmp_path) as memory:
        events = list(memory.ledger.read())
        assert sorted(e.seq for e in events) == list(range(1, 121))
        for name in ("left", "right"):
            assert [e.event_id for e in memory.store.case_events(name)] == [f"{name}-{n}" for n in range(60)]
    assert_whole(tmp_path)


def test_what_is_printed_as_stored_is_stored(tmp_path: Path) -> None:
    """The command line acknowledges by printing."""
    event = {"caseId": "a", "source": "s", "type": "x", "eventId": "one"}
    done = subprocess.run(
        [sys.executable, "-m", "sherpa", "--root", str(tmp_path), "ingest", "--json"],
        input=json.dumps(event),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["eventId"] == "one"
    with ProceduralMemory(tmp_path) as memory:
        assert [e.event_id for e in memory.ledger.read()] == ["one"]
