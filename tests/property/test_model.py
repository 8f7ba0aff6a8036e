"""learn and forget are inverses; the store and the model answer alike; an increment equals a rebuild."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sherpa import EngineConfig, GraphStore, ProceduralMemory, VariableOrderMarkovModel
from sherpa.counting import count
from sherpa.eventlog import EventLog, concatenate
from sherpa.instants import format_instant
from sherpa.projection.states import split_state
from sherpa.queries import workflow_next, workflow_outcomes, workflow_state
from sherpa.store import TABLES
from tests.property.strategies import BASE, TYPES, logs, projections

STRATEGIES = ("raw", "procedure", "family-procedure")


def table_of(log: EventLog, strategy: str, max_order: int = 3):
    return count(log, max_order, strategy=strategy, include_root=True)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(kept=logs(), gone=logs(), bulk=st.booleans())
def test_forgetting_undoes_learning(strategy: str, kept: EventLog, gone: EventLog, bulk: bool) -> None:
    model = VariableOrderMarkovModel(3, strategy).learn(kept)
    if bulk:
        model._set_base(model.table())
    before = model.table()
    assert before.equals(table_of(kept, strategy))
    model.learn(gone)
    assert model.table().equals(table_of(concatenate([kept, gone]), strategy))
    model.forget(gone)
    assert model.table().equals(before)
    assert model._overlay == VariableOrderMarkovModel(3, strategy).learn(kept)._overlay or bulk
    assert model.edges == int((before.order > 0).sum())


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(log=logs(min_cases=2), data=st.data())
def test_a_model_without_a_case_answers_as_if_it_had_never_seen_it(strategy: str, log: EventLog, data) -> None:
    out = data.draw(st.integers(0, len(log) - 1))
    model = VariableOrderMarkovModel(3, strategy).learn(log)
    model._set_base(model.table())
    model.forget(log[out])
    rest = VariableOrderMarkovModel(3, strategy).learn(log.subset([i for i in range(len(log)) if i != out]))
    for case in log:
        for order in range(min(3, len(case)) + 1):
            for name in ("raw", "procedure", "family-procedure"):
                view = log.view(name)
                tokens = tuple(view.tokens[c] for c in view.codes[case.stop - order : case.stop])
                assert model.branches(order, tokens) == rest.branches(order, tokens)
    assert model.edges == rest.edges


@given(logs(min_cases=1))
def test_a_case_that_was_not_learned_cannot_be_forgotten(log: EventLog) -> None:
    model = VariableOrderMarkovModel(3).learn(log)
    before = model.table()
    stranger = EventLog.from_codes([0, 1], [0, 2], ["never", "seen"])
    with pytest.raises(ValueError, match="was not learned"):
        model.forget(stranger[0])
    assert model.table().equals(before)


def test_learning_many_cases_one_by_one_folds_the_overlay() -> None:
    log = EventLog.from_codes(
        [i % 97 for i in range(12_000)], range(0, 12_001, 3), [f"t{i}" for i in range(97)], instants=[BASE] * 12_000
    )
    model = VariableOrderMarkovModel(3)
    for case in log:
        model.learn(case)
    assert model.table().equals(table_of(log, "raw"))


# -- store -----------------------------------------------------------------------------------------------------


@st.composite
def arrivals(draw: st.DrawFn, max_size: int = 25) -> list[dict]:
    """Events of a few cases in the order of arrival; times may be late, equal, or repeat an id."""
    events = []
    for number in range(draw(st.integers(1, max_size))):
        repeat = draw(st.integers(0, 9)) == 0 and number > 0
        projection = draw(projections())
        event = {
            "eventId": f"e{draw(st.integers(0, number - 1)) if repeat else number}",
            "caseId": f"case-{draw(st.integers(0, 3))}",
            "ts": format_instant(BASE + draw(st.integers(0, 20)) * 500_000_000),
            "source": "test",
            "type": draw(st.sampled_from((*TYPES, "session.started", "session.ended"))),
            "actor": draw(st.sampled_from(("agent", "user"))),
            "outcome": draw(st.sampled_from(("success", "failure", "unknown"))),
            "labels": draw(st.lists(st.sampled_from(("workflow:a", "workflow:b", "other")), max_size=2)),
        }
        if projection is not None:
            event["projection"] = {
                "version": "draft-v1",
                "source": "manual",
                "taskClass": projection.task_class,
                "operation": projection.operation,
            }
        events.append(event)
    return events


def tables(store: GraphStore) -> dict[str, list]:
    """Every row, but for when and how often it was rebuilt and read."""
    volatile = ("lastRebuildAt", "rebuildCount", "ledgerDuplicateCount")
    found = {name: store.rows(name) for name in TABLES}
    found["metadata"] = [row for row in found["metadata"] if row[0] not in volatile]
    found["config_versions"] = [row[:2] for row in found["config_versions"]]
    return found


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=40, deadline=None)
@given(events=arrivals(), sizes=st.lists(st.integers(1, 6), min_size=1, max_size=30))
def test_an_increment_equals_a_rebuild(strategy: str, events: list[dict], sizes: list[int]) -> None:
    config = EngineConfig(state_strategy=strategy, default_order=2, max_order=3)
    with tempfile.TemporaryDirectory() as root, ProceduralMemory(root, config) as memory:
        batches = itertools.cycle(sizes)
        at = 0
        while at < len(events):
            size = next(batches)
            memory.ingest_batch(events[at : at + size])
            at += size
        grown = tables(memory.store)
        memory.rebuild()
        assert tables(memory.store) == grown
        memory.rebuild()
        assert tables(memory.store) == grown


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=40, deadline=None)
@given(events=arrivals(max_size=40))
def test_the_store_and_the_model_answer_alike(strategy: str, events: list[dict]) -> None:
    config = EngineConfig(state_strategy=strategy, min_support=1)
    with tempfile.TemporaryDirectory() as root, ProceduralMemory(root, config) as memory:
        memory.ingest_batch(events)
        log = EventLog.from_ledger(memory.ledger.read())
        model = VariableOrderMarkovModel(config.max_order, strategy).learn(log)
        for row in memory.store.rows("state_edges"):
            state = split_state(str(row[1]))
            assert memory.store.branches(len(state), state) == model.branches(len(state), state)
        for case in log:
            recent = case.recent(config.default_order)
            for ask in (workflow_next, workflow_outcomes, workflow_state):
                assert ask(memory.store, case.case_id, recent, config) == ask(model, case.case_id, recent, config)
            assert memory.workflow_next(case.case_id) == workflow_next(model, case.case_id, recent, config)


@settings(max_examples=15, deadline=None)
@given(events=arrivals())
def test_opening_the_memory_again_changes_nothing(events: list[dict]) -> None:
    with tempfile.TemporaryDirectory() as root:
        with ProceduralMemory(root) as memory:
            memory.ingest_batch(events)
            before = {name: memory.store.rows(name) for name in TABLES}
        with ProceduralMemory(root) as memory:
            assert {name: memory.store.rows(name) for name in TABLES} == before
        assert sorted(p.name for p in Path(root).iterdir()) == ["events", "graph.db"]
