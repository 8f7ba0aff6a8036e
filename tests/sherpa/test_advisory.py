"""Advice: its gates, its text, its pause; the same graph gives the same bytes."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from sherpa import EngineConfig, ProceduralMemory
from sherpa.advisory import Advice, _cut, advise
from sherpa.answers import OutcomeNote, WorkflowNext, WorkflowOutcomes, WorkflowState
from sherpa.cli.main import app
from sherpa.configuration import AdvisoryOptions

SEED = """Sherpa advisory
Current state: tool.started → tool.succeeded → task.completed
Confidence: 0.82
Likely next:
1. session.ended (67%)
2. tool.started (25%)
Outcome note:
- message.received branch has elevated stall rate
Suggested action:
- set a checkpoint and fallback path before entering message.received"""
STATE = ("tool.started", "tool.succeeded", "task.completed")
SECOND = 10**9


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1_800_000_000 * SECOND

    def __call__(self) -> int:
        return self.now


def event(case: str, at: int, name: str) -> dict[str, Any]:
    return {
        "eventId": f"{case}#{at}",
        "caseId": case,
        "source": "test",
        "type": name,
        "ts": f"2026-01-01T00:00:{at:02d}.000Z",
    }


def case(name: str, *types: str) -> list[dict[str, Any]]:
    return [event(name, at, kind) for at, kind in enumerate(types)]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def memory(tmp_path: Path, clock: Clock) -> Any:
    """Twelve cases: after the state 8 end, 3 start another tool, one gets a message and goes quiet."""
    ends = [("session.ended",)] * 8 + [("tool.started", "task.completed")] * 3 + [("message.received", "task.ended")]
    with ProceduralMemory(tmp_path / "root", EngineConfig(min_support=1), clock=clock) as memory:
        for number, rest in enumerate(ends):
            memory.ingest_batch(case(f"past-{number}", *STATE, *rest))
        memory.ingest_batch(case("now", *STATE))
        yield memory


def test_the_published_example_is_given_as_it_is_printed(memory: ProceduralMemory) -> None:
    assert memory.advise("now", AdvisoryOptions(max_candidates=2)).text == SEED


def test_the_same_graph_gives_the_same_bytes(memory: ProceduralMemory, tmp_path: Path) -> None:
    first = memory.advise("now").text
    memory.rebuild()
    assert memory.advise("now").text == first
    with ProceduralMemory(tmp_path / "other", EngineConfig(min_support=1)) as other:
        for row in reversed(list(memory.store.case_rows())):
            other.ingest_batch([msgspec.to_builtins(e) for e in memory.store.case_events(row[0])])
        assert other.advise("now").text == first


@pytest.mark.parametrize(
    ("options", "gate"),
    [
        ({"enabled": False}, "enabled"),
        ({"inject_threshold": 0.82}, "confidence"),  # above, not at
        ({"inject_threshold": 0.83}, "confidence"),
        ({"max_candidates": 0, "max_risks": 0}, "content"),
        ({"min_probability": 0.5}, "probability"),
        ({"utility_wrong": 1.0}, "utility"),
        ({"inject_threshold": 0.81}, None),
        ({"max_candidates": 0}, None),
        ({"max_risks": 0}, None),
    ],
)
def test_each_gate_says_no_by_name(memory: ProceduralMemory, options: dict[str, Any], gate: str | None) -> None:
    advice = memory.advise("now", AdvisoryOptions(**options))
    assert advice.gate == gate
    assert (advice.text is None) == (gate is not None) == bool(advice.reason)


def test_an_unknown_case_is_not_advised(memory: ProceduralMemory) -> None:
    assert memory.advise("nobody").gate == "confidence"


def test_out_of_scope(memory: ProceduralMemory) -> None:
    assert memory.advise("now", refused="no rule allows it") == Advice(None, "scope", "no rule allows it")


def test_limits_of_the_lists(memory: ProceduralMemory) -> None:
    text = memory.advise("now", AdvisoryOptions(max_candidates=1, max_risks=0)).text
    assert text is not None
    assert text.splitlines()[3:] == ["Likely next:", "1. session.ended (67%)"]


def test_the_pause_is_per_case_and_outlives_the_process(memory: ProceduralMemory, clock: Clock) -> None:
    root = memory.root
    memory.ingest_batch(case("too", *STATE))
    assert memory.advise("now").text
    assert memory.advise("now", record=True).text  # only what is recorded begins the pause
    clock.now += 119 * SECOND
    with ProceduralMemory(root, clock=clock) as again:
        assert again.advise("now", record=True).gate == "cooldown"
        assert again.advise("too", record=True).text
        again.rebuild()
        assert again.advise("now").gate == "cooldown"
        clock.now += SECOND
        assert again.advise("now", record=True).text
        assert again.metrics()["advisoryInjections"] == 3
        again.ingest_batch(case("more", "a"))
        assert again.metrics()["advisoryInjections"] == 3


def test_a_refusal_begins_no_pause(memory: ProceduralMemory) -> None:
    assert memory.advise("now", AdvisoryOptions(enabled=False), record=True).gate == "enabled"
    assert memory.advise("now").text
    assert memory.metrics()["advisoryInjections"] == 0


def test_pauses_that_are_over_take_no_room(memory: ProceduralMemory, clock: Clock) -> None:
    memory.advise("now", record=True)
    memory.ingest_batch(case("too", *STATE))
    clock.now += 300 * SECOND
    memory.advise("too", record=True)
    kept = [key for key in memory.store.metadata() if key.startswith("advisedAt:")]
    assert kept == ["advisedAt:too"]


def test_a_case_that_is_forgotten_leaves_no_pause(memory: ProceduralMemory) -> None:
    memory.advise("now", record=True)
    memory.forget("now")
    with sqlite3.connect(memory.store.path) as db:
        assert not db.execute("SELECT * FROM metadata WHERE key LIKE 'advisedAt:%'").fetchall()


def made(confidence: float, calibrated: Any, branch: str = "x") -> tuple[Any, ...]:
    note = OutcomeNote(
        branch=branch,
        kind="failure",
        probability=0.5,
        relative_risk=2.0,
        support=4,
        matched_order=1,
        confidence=0.5,
        score=0.5,
        suggested_intervention=f"validate the inputs before entering {branch}",
    )
    return (
        WorkflowState(
            case_id="c",
            state=("s",),
            matched_workflow=None,
            matched_order=1,
            confidence=confidence,
            support=9,
            matched_by=None,
            recent_events=(),
        ),
        WorkflowNext(case_id="c", state=("s",), match=None, candidates=(), calibrated_confidence=calibrated),
        WorkflowOutcomes(case_id="c", state=("s",), outcomes=(note,)),
    )


@pytest.mark.parametrize(
    ("calibrated", "options", "gate"),
    [
        (0.6, {"min_probability": 0.6}, None),
        (0.59, {"min_probability": 0.6}, "probability"),
        (None, {"min_probability": 0.6}, "probability"),
        (0.75, {"utility_wrong": 3.0}, None),  # 0.75 right, 0.25 times 3 wrong: worth nothing, but no loss
        (0.74, {"utility_wrong": 3.0}, "utility"),
        (None, {"utility_wrong": 0.0}, "utility"),
        (0.0, {"utility_wrong": 0.0}, None),
    ],
)
def test_gates_on_calibrated_probability(calibrated: Any, options: dict[str, Any], gate: str | None) -> None:
    assert advise(*made(0.9, calibrated), AdvisoryOptions(**options)).gate == gate


@given(st.text(max_size=60), st.integers(16, 60))
def test_no_text_is_longer_than_allowed(text: str, most: int) -> None:
    found = _cut(text, most)
    assert len(found) <= most
    assert found == text or found.endswith("...")
    assert found.encode("utf-8", "surrogatepass").decode("utf-8", "surrogatepass") == found


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("abcdefghijklmnop", 16, "abcdefghijklmnop"),
        ("abcdefghijklmnopq", 16, "abcdefghijklm..."),
        ("abcdefghijkle\u0301xyz!", 16, "abcdefghijkl..."),  # e and its accent stay together
        ("abcdefghijkl\U0001f1e9\U0001f1eaxyz", 16, "abcdefghijkl..."),  # so do the halves of a flag
        ("abcdefghijk\U0001f44d\U0001f3fdxyz!", 16, "abcdefghijk\U0001f44d\U0001f3fd..."),
        ("abcdefghijkl\U0001f44d\U0001f3fdxyz", 16, "abcdefghijkl..."),
    ],
)
def test_a_cut_falls_between_characters(text: str, most: int, expected: str) -> None:
    assert _cut(text, most) == expected


def test_the_command(memory: ProceduralMemory) -> None:
    root = memory.root
    (root / "config.json").write_text(
        '{"advisory": {"maxCandidates": 2, "cooldown": "1h"}, "engine": {"minSupport": 1}}'
    )

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["--root", str(root), "advise", "--case-id", "now", *arguments])

    assert run().stdout == SEED + "\n"
    allowed = json.loads(run("--session", "agent:main:telegram:direct:1", "--json").stdout)
    assert allowed == {"text": SEED, "gate": None, "reason": ""}
    refused = json.loads(run("--session", "agent:main:telegram:group:1", "--json").stdout)
    assert (refused["text"], refused["gate"], refused["reason"]) == (None, "scope", "scope.default is deny")
    assert run("--record").stdout == SEED + "\n"
    assert run().stdout.startswith("Nothing is said. cooldown: advised ")
