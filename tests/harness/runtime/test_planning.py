"""Admission and planners. Acceptance checks 49 to 54."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.runtime.channel import RecordedChannel
from harness.runtime.errors import NoPlanTemplate, PlanAuthoringError
from harness.runtime.ir import Authority, Budgets, Plan
from harness.runtime.planner import AdvisedPlanner, LLMPlanner, StubPlanner, signature
from harness.runtime.run import Policies
from tests.harness.runtime.made import append, call, end, engine, granted, plan, problem


def checks(
    workspace: Path, step: dict[str, Any], policies: Policies | None = None, **more: Any
) -> list[dict[str, Any]]:
    with engine(workspace, policies=policies) as made:
        made.run(problem(step, end(), **more), "r")
        found = [e.payload for e in made.store.events("r", kinds=["admission_checked"])]
        for payload in found:
            if payload["evidence_sha"]:
                assert made.store.blobs.get(payload["evidence_sha"])
        return found


def test_049_a_valid_step_is_admitted_once_with_evidence(tmp_path: Path) -> None:
    found = checks(tmp_path, call("w", "fs.write_file", path="x", content="x") | {"atomic_claim": False})
    assert len(found) == 1
    assert (found[0]["decision"], found[0]["atomic_claimed"], found[0]["probe_ok"]) == ("admitted", False, True)
    assert len(found[0]["evidence_sha"]) == 64


def test_050_what_cannot_be_done_escalates_with_reasons(tmp_path: Path) -> None:
    found = checks(tmp_path / "a", call("x", "test.unheard_of"))
    assert (found[0]["decision"], "not registered" in found[0]["reasons"][0]) == ("escalate", True)
    found = checks(tmp_path / "b", call("w", "fs.write_file", path=1))
    assert found[0]["decision"] == "escalate"
    assert found[0]["io_compatible"] is False
    assert {"inputs.content is missing", "inputs.path must be of type string, not int"} <= set(found[0]["reasons"])
    found = checks(tmp_path / "c", call("w", "fs.write_file", path="x", content="x"), authority={})
    assert (found[0]["decision"], found[0]["reasons"][0]) == ("escalate", "fs_write is not granted")
    found = checks(tmp_path / "d", call("w", "fs.write_file", path="/etc/x", content="x"))
    assert (found[0]["decision"], "/etc/x" in found[0]["reasons"][0]) == ("escalate", True)
    found = checks(tmp_path / "e", call("w", "fs.write_file", path=1), authority={})
    assert {"inputs.content is missing", "fs_write is not granted"} <= set(found[0]["reasons"])
    assert not (tmp_path / "d" / "x").exists()


def test_051_a_probe_that_raises(tmp_path: Path) -> None:
    step = call("s", "test.no_probe")
    found = checks(tmp_path / "a", step)
    assert (found[0]["decision"], "nothing there" in found[0]["reasons"][0]) == ("reclassify_decompose", True)
    found = checks(tmp_path / "b", step, Policies(reclassify=False))
    assert found[0]["decision"] == "escalate"


def test_052_a_signature_is_sensitive_to_each_part() -> None:
    base: tuple[Any, ...] = ("goal", {"a": 1}, Authority(), Budgets())
    others: list[tuple[Any, ...]] = [
        ("other", *base[1:]),
        (base[0], {"a": 2}, *base[2:]),
        (*base[:2], granted(fs_read=["x"]), base[3]),
        (*base[:3], Budgets(max_nodes=1)),
    ]
    made = [signature(*parts) for parts in [base, *others]]
    assert len(set(made)) == 5
    assert made[0] == signature("goal", {"a": 1}, Authority(), Budgets())
    assert all(text.startswith("sig_") and len(text) == 28 for text in made)


def authored(planner: Any, hints: dict[str, Any], goal: str = "do it", tape: list[str] | None = None) -> Plan:
    channel = RecordedChannel({"planner": tape or []})
    made = planner.author_plan(
        goal, hints, granted(fs_write=["out/**"]), Budgets(), session="planner", ask=channel.complete
    )
    assert isinstance(made, Plan)
    return made


def test_053_a_library() -> None:
    library = [
        {"match": {"capability": "x.y"}, "plan": plan("by_name", append("a"))},
        {"match": {"pattern_contains": "do"}, "plan": plan("by_goal", append("a"))},
        {"match": {"pattern_contains": "do it"}, "plan": plan("later", append("a"))},
        {"match": {"pattern_contains": "bad"}, "plan": {"id": "bad"}},
    ]
    hints = {"plan_library": library}
    assert authored(StubPlanner(), {**hints, "requested_capability": "x.y"}).id == "by_name"
    made = authored(StubPlanner(), hints)
    assert (made.id, made.notes) == ("by_goal", {"authored_by": "stub", "goal": "do it"})
    with pytest.raises(NoPlanTemplate):
        authored(StubPlanner(), hints, "something else")
    with pytest.raises(PlanAuthoringError, match="malformed"):
        authored(StubPlanner(), hints, "bad")
    with pytest.raises(NoPlanTemplate):
        authored(StubPlanner(), {})


GOOD = json.dumps(plan("made", append("a")))
WIDE = json.dumps(plan("made", append("a"), authority={"fs_write": ["/**"]}))


def test_054_a_model_that_plans() -> None:
    planner = LLMPlanner()
    assert authored(planner, {}, tape=[f"Here it is:\n```json\n{GOOD}\n```\nGood luck."]).id == "made"
    assert planner.calls == 1
    for first in ("no json at all", "{broken", '{"id": "x"}', json.dumps(plan("p", append("a"), append("a")))):
        planner = LLMPlanner()
        assert authored(planner, {}, tape=[first, GOOD]).id == "made"
        assert planner.calls == 2
    for answers in (["nothing", "nothing"], [WIDE, WIDE]):
        planner = LLMPlanner()
        with pytest.raises(PlanAuthoringError):
            authored(planner, {}, tape=answers)
        assert planner.calls == 2


def test_054_the_error_is_told_to_the_model() -> None:
    asked: list[Any] = []

    class Listening(RecordedChannel):
        def complete(self, messages: Any, **more: Any) -> Any:
            asked.append((list(messages), more))
            return super().complete(messages, **more)

    channel = Listening({"planner": [WIDE, GOOD]})
    LLMPlanner().author_plan("g", {}, Authority(), Budgets(), session="planner", ask=channel.complete)
    assert asked[0][1] == {"temperature": 0.0, "max_tokens": 2048, "session": "planner"}
    assert "fs_write:/**" in asked[1][0][-1]["content"]


def test_054_a_plan_by_the_model_is_charged(tmp_path: Path) -> None:
    spec = problem({"kind": "decompose", "id": "d", "subgoal": "s"}, end())
    with engine(tmp_path, planner=LLMPlanner(), recordings={"planner::r": [GOOD]}) as made:
        result = made.run(spec, "r")
        assert result.status == "completed"
        assert result.metrics["usage"]["tokens"] > 100
        assert [e.node_key for e in made.store.events("r", kinds=["channel_called"])] == ["root_p@1.d"]


def test_advice_reaches_the_planner() -> None:
    class Looking(StubPlanner):
        seen: Any = None

        def author_plan(self, goal: str, hints: Any, *rest: Any, **more: Any) -> Plan:
            Looking.seen = hints.get("advisory")
            return super().author_plan(goal, hints, *rest, **more)

    hints = {"plan_library": [{"match": {"pattern_contains": "do"}, "plan": plan("p", append("a"))}]}
    planner = AdvisedPlanner(Looking(), lambda goal, _: {"next": goal})
    authored(planner, hints)
    assert (Looking.seen, planner.name) == ({"next": "do it"}, "advised-stub")
    authored(AdvisedPlanner(Looking(), lambda goal, _: None), hints)
    assert Looking.seen is None
