"""Rows are known without being counted, whatever was done; and many open a new graph at once."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

from sherpa import EngineConfig, GraphStore, ProceduralMemory
from sherpa.tallies import Tallies, counted, kept, tallies


def same(memory: ProceduralMemory) -> Tallies:
    """The tallies, after a look whether they are what is counted."""
    with memory.store.transaction() as db:
        assert kept(db) == counted(db)
    return memory.store.tallies()


def event(case: str, kind: str, second: int) -> dict[str, str]:
    return {"caseId": case, "source": "s", "type": kind, "ts": f"2026-01-01T00:00:{second:02}Z"}


def test_two_events_by_hand(tmp_path: Path) -> None:
    with ProceduralMemory(tmp_path) as memory:
        memory.ingest_batch([event("a", "x", 0), event("a", "y", 5)])
        # One edge, x -> y, of order 1; 2026-01-01T00:00:05Z is 1,767,225,605 seconds after the epoch.
        assert same(memory) == (2, 1, 1, 1_767_225_605 * 10**9)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("strategy", ["raw", "family-procedure"])
def test_they_are_what_is_counted(strategy: str, seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    with ProceduralMemory(tmp_path, EngineConfig(state_strategy=strategy)) as memory:
        for step in range(40):
            batch = [event(f"c{rng.randrange(6)}", f"t{rng.randrange(4)}", rng.randrange(60)) for _ in range(3)]
            memory.ingest_batch(batch)
            same(memory)
            if step % 10 == 9:
                memory.forget(batch[0]["caseId"])
                same(memory)
        before = same(memory)
        memory.rebuild()
        assert same(memory) == before


def test_a_graph_that_keeps_none_is_counted(tmp_path: Path) -> None:
    with ProceduralMemory(tmp_path) as memory:
        memory.ingest_batch([event("a", "x", 0), event("b", "y", 5)])
        with memory.store.transaction() as db:
            expected = tallies(db)
            db.execute("DELETE FROM metadata WHERE key = 'rowsOfCases'")
            assert kept(db) is None
        assert memory.store.tallies() == expected
        memory.ingest(event("a", "y", 7))
        assert same(memory)[:2] == (3, 2)


@pytest.mark.parametrize("at", range(10))
def test_many_open_a_new_graph_at_once(at: int, tmp_path: Path) -> None:
    problems: list[Exception] = []
    barrier = threading.Barrier(12)

    def open_it() -> None:
        barrier.wait()
        try:
            GraphStore(tmp_path / "graph.db").close()
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
