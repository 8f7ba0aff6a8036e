"""Whatever a model sends to a tool is answered, and what it wrote to a saga can be folded again."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.saga.coordinator import Coordinator
from harness.saga.evaluate import judge
from harness.saga.profiles import profile_of
from harness.saga.tools import TOOLS, call_tool
from tests.harness.saga.scripted import TEXT, files, plan, verdict

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("\ud83d"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
NAMES = sorted(TOOLS["saga_advance"].parameters["properties"].keys() - {"sagaId"})
GOOD: dict[str, list[Any]] = {
    "planYaml": [plan(*files(2)), plan(*files(1), evaluator="deep")],
    "replan": [True],
    "workerFinished": [True],
    "artifacts": [[{"path": "a1.md", "content": TEXT}], [{"path": "a2.md", "content": "BLOCKED: x"}]],
    "evalResult": [verdict(), verdict(H1="FAIL-ESCALATE"), "no json"],
    "humanInput": ["relax", "skip", "go on"],
    "criteriaPatch": [[{"index": 1, "action": "drop"}]],
    "workerDiagnostics": [{"errorsCaught": ["timeout"]}, {"urlsAttempted": [{"url": "u", "status": 404}]}],
    "usage": [{"tokens": 5}],
}


def arguments() -> st.SearchStrategy[dict[str, Any]]:
    pairs = st.sampled_from(NAMES).flatmap(
        lambda name: st.tuples(st.just(name), st.sampled_from(GOOD[name]) if name in GOOD else JSON)
    )
    wild = st.tuples(st.sampled_from([*NAMES, "nonsense"]), JSON)
    return st.lists(pairs | pairs | pairs | wild, max_size=3).map(dict)


@settings(max_examples=60)
@given(st.lists(arguments(), min_size=1, max_size=12))
def test_any_calls(calls: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as root:
        coordinator = Coordinator(Path(root))
        saga_id = coordinator.start({"goal": "g", "profile": "generic"})["sagaId"]
        coordinator.advance(saga_id, {"planYaml": plan(*files(2), evaluator="deep")})
        for call in calls:
            before = coordinator.store.load(saga_id).state
            answer = call_tool(coordinator, "saga_advance", {"sagaId": saga_id, **call})
            after = coordinator.store.load(saga_id).state
            assert "error" in answer or "nextAction" in answer or answer["status"] == "plan_incomplete", answer
            if "error" in answer:
                assert after == before
            assert answer.get("reason") != "internal_error", answer
            assert after.cursor <= before.cursor + 1
            if before.kind == "awaiting_human" and before.termination is None and "humanInput" not in call:
                assert after.kind == "awaiting_human" or after.termination is not None
        assert coordinator.replay(saga_id)["identical"]


@settings(max_examples=100)
@given(
    st.sampled_from(list(TOOLS)), st.dictionaries(st.sampled_from(["sagaId", "goal", "profile", "reason", "x"]), JSON)
)
def test_any_arguments(name: str, given_: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as root:
        assert isinstance(call_tool(Coordinator(Path(root)), name, given_), dict)


@settings(max_examples=300)
@given(JSON | st.fixed_dictionaries({"passed": JSON, "checklist": JSON}) | st.text())
def test_any_verdict(raw: Any) -> None:
    found = judge(raw, profile_of("research").evaluator.checklist, required=True, texts=[TEXT])
    assert not found.passed
    assert found.issues
