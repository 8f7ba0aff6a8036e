"""ProceduralMemory: what happens between ledger, graph and configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sherpa import EngineConfig, ProceduralMemory
from sherpa.errors import ConfigError, EventError
from sherpa.store import TABLES

Clock = Callable[[], int]
Ids = Callable[[], str]


def event(case: str, name: str, **more: Any) -> dict[str, Any]:
    return {"caseId": case, "source": "test", "type": name, **more}


def test_same_input_same_bytes(tmp_path: Path) -> None:
    stores = []
    for name in ("one", "two"):
        ticks, numbers = iter(range(10**18, 2 * 10**18, 10**9)), iter(range(10**6))
        with ProceduralMemory(tmp_path / name, clock=ticks.__next__, new_id=lambda n=numbers: f"e{next(n)}") as memory:
            memory.ingest_batch([event(f"c{i % 3}", f"t{i % 4}", labels=["workflow:w"]) for i in range(20)])
            memory.ingest(event("c0", "t9"))
            memory.rebuild()
            stores.append(
                (
                    {t: memory.store.rows(t) for t in TABLES},
                    [(p.name, p.read_bytes()) for p in memory.ledger.segments()],
                )
            )
    assert stores[0] == stores[1]


def test_missing_times_and_ids_come_from_the_arguments(tmp_path: Path, clock: Clock, new_id: Ids) -> None:
    with ProceduralMemory(tmp_path, clock=clock, new_id=new_id) as memory:
        stored = memory.ingest(event("a", "x"))
    assert (stored.event_id, stored.ts) == ("e-1", "2026-01-01T00:00:00.000Z")


def test_an_invalid_event_keeps_the_whole_batch_out(tmp_path: Path) -> None:
    with ProceduralMemory(tmp_path) as memory:
        with pytest.raises(EventError, match="event 2"):
            memory.ingest_batch([event("a", "x"), {"caseId": "a"}, event("a", "y")])
        assert memory.status()["events"] == 0
        assert memory.ingest_batch([]).events == ()
        assert memory.ledger.segments() == []


def test_the_graph_catches_up_with_a_ledger_that_grew_without_it(tmp_path: Path) -> None:
    with ProceduralMemory(tmp_path) as memory:
        memory.ingest_batch([event("a", "x"), event("a", "y")])
        kept = {t: memory.store.rows(t) for t in ("events", "state_edges")}
        memory.ingest_batch([event("b", "x"), event("b", "y")])
        full = {t: memory.store.rows(t) for t in ("events", "state_edges")}
        assert full != kept
    (tmp_path / "graph.db").unlink()
    for name in ("graph.db-wal", "graph.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    with ProceduralMemory(tmp_path) as memory:
        assert {t: memory.store.rows(t) for t in ("events", "state_edges")} == full


def test_a_segment_that_is_gone_is_gone_from_the_graph(tmp_path: Path) -> None:
    with ProceduralMemory(tmp_path) as memory:
        memory.ingest(event("a", "x", ts="2026-01-01T00:00:00Z"))
        memory.ingest(event("a", "y", ts="2026-01-02T00:00:00Z"))
    (tmp_path / "events" / "2026-01-01.jsonl").unlink()
    with ProceduralMemory(tmp_path) as memory:
        assert [e.type for e in memory.store.case_events("a")] == ["y"]


@pytest.mark.parametrize(
    ("change", "rebuilt"),
    [
        ({"max_order": 2, "default_order": 2}, True),
        ({"state_strategy": "procedure"}, True),
        ({"parity": True}, True),
        ({"default_order": 2}, True),
        ({"min_support": 1}, False),
        ({}, False),
    ],
)
def test_only_what_changes_the_counts_rebuilds(tmp_path: Path, change: dict[str, Any], rebuilt: bool) -> None:
    with ProceduralMemory(tmp_path) as memory:
        memory.ingest_batch([event("a", "x.started"), event("a", "y")])
        before = memory.store.metadata()["rebuildCount"]
    with ProceduralMemory(tmp_path, overrides=change) as memory:
        assert (memory.store.metadata()["rebuildCount"] != before) is rebuilt


def test_a_projection_can_be_required(tmp_path: Path) -> None:
    config = EngineConfig(require_projection=True, allowed_projection_sources=("manual",))
    projection = {"version": "draft-v1", "source": "manual"}
    with ProceduralMemory(tmp_path, config) as memory:
        memory.ingest(event("a", "x", projection=projection))
        for wrong in ({}, {"projection": {**projection, "source": "llm"}}):
            with pytest.raises(ConfigError, match="requireProjection"):
                memory.ingest(event("a", "y", **wrong))
        assert memory.status()["events"] == 1


def test_late_events_find_their_place(tmp_path: Path) -> None:
    with ProceduralMemory(tmp_path) as memory:
        memory.ingest(event("a", "first", ts="2026-01-01T00:00:00Z"))
        memory.ingest(event("a", "third", ts="2026-01-01T00:00:10Z"))
        assert [row[:4] for row in memory.store.rows("state_edges")] == [(1, "first", "third", 1)]
        memory.ingest(event("a", "second", ts="2026-01-01T00:00:04Z"))
        edges = {row[:3]: row[10:13] for row in memory.store.rows("state_edges")}
        assert edges == {
            (1, "first", "second"): (4000, 4000, 4000),
            (1, "second", "third"): (6000, 6000, 6000),
            (2, "first -> second", "third"): (6000, 6000, 6000),
        }


def test_workflow_rows_count_each_case_once(tmp_path: Path) -> None:
    label = {"labels": ["workflow:w", "other"]}
    with ProceduralMemory(tmp_path) as memory:
        memory.ingest_batch(
            [
                event("a", "x", ts="2026-01-01T00:00:00Z", **label),
                event("a", "y", ts="2026-01-01T00:00:03Z", **label),
                event("a", "task.completed", ts="2026-01-01T00:00:10Z"),
                event("b", "x", ts="2026-01-02T00:00:00Z", **label),
                event("b", "task.failed", ts="2026-01-02T00:00:05Z"),
                event("c", "x", ts="2026-01-03T00:00:00Z"),
            ]
        )
        (row,) = memory.store.rows("workflows")
    # Two cases, three events with the label; whole durations 10 s and 5 s; one success, one failure.
    assert row[:6] == ("workflow:w", 2, 3, 0.5, 0.5, 7500)
    assert row[6:8] == ("2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00.000Z")


def test_versions_of_the_configuration_are_recorded(tmp_path: Path) -> None:
    with ProceduralMemory(tmp_path, EngineConfig()) as memory:
        memory.ingest(event("a", "x"))
    with ProceduralMemory(tmp_path, overrides={"state_strategy": "procedure"}) as memory:
        assert [row[0] for row in memory.store.rows("config_versions")] == ["3-1-5-2-procedure", "3-1-5-2-raw"]


def test_a_shorter_state_can_be_asked_for(tmp_path: Path) -> None:
    with ProceduralMemory(tmp_path, EngineConfig(min_support=1)) as memory:
        memory.ingest_batch([event(case, name) for case in ("a", "b") for name in ("x", "y", "z", "w")])
        assert memory.workflow_state("a", 2).matched_order == 2
        assert len(memory.workflow_state("a", 2).recent_events) == 2


def test_families_depend_on_the_whole_case(tmp_path: Path) -> None:
    """The window of two events holds no task class, yet its family is that of the case so far."""
    projected = {"projection": {"version": "draft-v1", "source": "manual", "taskClass": "research"}}
    config = EngineConfig(state_strategy="family-procedure", default_order=1, min_support=1)
    with ProceduralMemory(tmp_path, config) as memory:
        for case in ("a", "b"):
            memory.ingest_batch([event(case, "x", **projected), event(case, "y"), event(case, "z")])
        memory.ingest_batch([event("c", "x", **projected), event("c", "y")])
        match = memory.workflow_next("c").match
    assert match is not None
    assert (match.state, match.facet_fields) == (("y [family=research]",), ("family",))


def test_status_is_unhealthy_while_the_graph_is_behind(tmp_path: Path) -> None:
    with ProceduralMemory(tmp_path) as memory:
        memory.ingest(event("a", "x"))
        assert memory.status()["healthy"] is True
        other = ProceduralMemory(tmp_path)
        other.ledger.append([memory_event(memory)])
        assert memory.status()["healthy"] is False
        memory.sync()
        assert memory.status()["healthy"] is True
        other.close()


def memory_event(memory: ProceduralMemory):
    from sherpa.event import read_event

    return read_event(event("a", "y"), clock=lambda: 10**18, new_id=lambda: "late")


@pytest.mark.parametrize("estimator", ["kneser-ney", "witten-bell", "ppm-c", "merged", "mixture", "auto"])
def test_a_blended_estimator_answers_what_comes_next(tmp_path: Path, estimator: str) -> None:
    events = [
        {"caseId": f"c{n}", "source": "t", "type": name, "ts": f"2026-01-{1 + n // 20:02d}T{n % 20:02d}:0{at}:00Z"}
        for n in range(60)
        for at, name in enumerate(("open", "work", "check" if n % 3 else "redo", "close"))
    ]
    now = [
        {"caseId": "now", "source": "t", "type": name, "ts": f"2026-02-01T00:0{at}:00Z"}
        for at, name in enumerate(("open", "work"))
    ]
    with ProceduralMemory(tmp_path / "m", EngineConfig(estimator=estimator)) as memory:
        memory.ingest_batch([*events, *now])
        answer = memory.workflow_next("now")
        assert answer.estimator == estimator
        assert [c.event for c in answer.candidates][:2] == ["check", "redo"]
        assert answer.candidates[0].probability == pytest.approx(2 / 3, abs=0.05)
        assert answer.candidates[0].support == 40
        assert answer.calibrated_confidence == pytest.approx(2 / 3, abs=0.15)
        # One step in twelve is a redo, so that sets may leave it out and still hold nine steps of ten.
        assert answer.prediction_set[0] == "check"
        assert answer.end_probability < 0.05
        plain = answer.to_json()
        assert plain["calibratedConfidence"] == answer.calibrated_confidence
    with ProceduralMemory(tmp_path / "m", overrides={"estimator": "longest-suffix"}) as memory:
        assert "calibratedConfidence" not in memory.workflow_next("now").to_json()


def test_outcomes_say_per_case_what_holds_with_an_interval(tmp_path: Path) -> None:
    events = [
        {"caseId": f"c{n}", "source": "t", "type": name, "ts": f"2026-01-01T{n // 60:02d}:{n % 60:02d}:0{at}Z"}
        for n in range(60)
        for at, name in enumerate(
            ("open", "risky", "task.failed") if n % 3 == 0 else ("open", "safe", "task.completed")
        )
    ]
    now = {"caseId": "now", "source": "t", "type": "open", "ts": "2026-02-01T00:00:00Z"}
    with ProceduralMemory(tmp_path / "m") as memory:
        memory.ingest_batch([*events, now])
        answer = memory.workflow_outcomes("now")
        first = answer.lifts[0]
        assert (first.branch, first.kind, first.cases, first.affected, first.raised) == (
            "risky",
            "failure",
            20,
            20,
            True,
        )
        assert first.baseline_rate == pytest.approx(1 / 3)
        assert first.low > 1
