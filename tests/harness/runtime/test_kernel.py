"""Runs: order, control, budgets, ends. Acceptance checks 29 to 31, 70 to 74, 77 to 85, 90 to 102."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.runtime.capabilities import Capability, CapabilitySpec, Context, Inputs
from harness.runtime.engine import KILL_VARIABLE, Engine, RunResult
from harness.runtime.errors import PlanError, RunStoreError, UnknownRunError
from harness.runtime.ir import Plan, read_record
from harness.runtime.run import Policies
from tests.harness.runtime.made import (
    FULL,
    InterruptOnce,
    append,
    call,
    decompose,
    end,
    engine,
    kinds,
    lines,
    loop,
    plan,
    problem,
    same,
)

LEAF = [
    "node_created", "lease_acquired", "node_state_changed", "attempt_started", "admission_checked", "tool_call_started",
    "artifact_written", "tool_call_finished", "attempt_finished", "usage_checkpoint", "node_state_changed",
    "lease_released",
]  # fmt: skip


def ran(workspace: Path, *nodes: dict[str, Any], **more: Any) -> RunResult:
    options = {name: more.pop(name) for name in ("policies", "plans", "planner", "recordings") if name in more}
    with engine(workspace, **options) as made:
        result = made.run(problem(*nodes, **more), "r")
        assert same(made, "r")
        assert made.verify("r") == []
        return result


# -- authority at work -----------------------------------------------------------------------------------------


def test_029_a_child_with_less_authority_is_held_to_it(tmp_path: Path) -> None:
    write = call("w", "fs.write_file", path="elsewhere/x", content="x")
    child = plan("child", write, authority={"fs_write": ["out/**"]})
    result = ran(tmp_path, decompose("d", child), end())
    assert result.status == "escalated"
    assert "elsewhere" in str(result.error)
    assert not (tmp_path / "elsewhere").exists()
    silent = plan("child", call("w", "fs.write_file", path="elsewhere/x", content="x"))
    assert ran(tmp_path / "other", decompose("d", silent), end()).status == "completed"


def test_029_a_child_that_declares_nothing_may_do_nothing(tmp_path: Path) -> None:
    child = plan("child", call("w", "fs.write_file", path="x", content="x"), authority={})
    assert ran(tmp_path, decompose("d", child), end()).status == "escalated"
    assert not (tmp_path / "x").exists()


def test_030_a_root_exchanged_while_the_run_goes_on(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()

    class Exchange(Capability):
        spec = CapabilitySpec(name="test.exchange")

        def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
            os.rename(context.workspace / "src", context.workspace / "was")
            (context.workspace / "src").symlink_to(outside)
            return {}

    home = tmp_path / "home"
    (home / "src").mkdir(parents=True)
    write = call("w", "fs.write_file", path="src/x", content="x")
    with engine(home, Exchange()) as made:
        grant = {"fs_write": ["src/**"]}
        result = made.run(problem(call("e", "test.exchange"), write, end(), authority=grant), "r")
    assert result.status == "escalated"
    assert list(outside.iterdir()) == []


def test_031_a_grant_below_the_root_is_enough(tmp_path: Path) -> None:
    write = call("w", "fs.write_file", path="out/deep/x.txt", content="x")
    result = ran(tmp_path, write, end(), authority={"fs_write": ["out/**"]})
    assert result.status == "completed"
    assert (tmp_path / "out" / "deep" / "x.txt").read_text() == "x"


# -- control ---------------------------------------------------------------------------------------------------


def test_070_a_linear_plan(tmp_path: Path) -> None:
    write = call("w", "fs.write_file", path="x.txt", content="hello")
    read = call("r", "fs.read_file", path="x.txt")
    with engine(tmp_path) as made:
        result = made.run(problem(write, read, end(text="{{ r.result.content }}")), "r")
        found = list(made.store.events("r"))
    assert (result.status, result.outputs) == ("completed", {"text": "hello"})
    assert [e.kind for e in found if e.node_key == "root_p@1.w"] == LEAF
    assert [e.kind for e in found][:2] == ["run_started", "plan_recorded"]
    assert [e.kind for e in found][-4:] == ["usage_checkpoint", "journal_appended", "run_terminal", "lease_released"]
    states = [e.payload["new"] for e in found if e.kind == "node_state_changed" and e.node_key == "root_p@1.w"]
    assert states == ["running", "completed"]
    assert all(e.causal_seq is not None and e.causal_seq < e.seq for e in found[1:])


def test_071_only_the_right_arm(tmp_path: Path) -> None:
    cases = [{"when": "inputs.n > 5", "body": [append("big")]}, {"body": [append("small")]}]
    node = {"kind": "branch", "id": "b", "cases": cases}
    assert ran(tmp_path, node, end(), inputs={"n": 7}).status == "completed"
    assert lines(tmp_path) == ["big"]
    assert ran(tmp_path / "two", node, end(), inputs={"n": 1}).status == "completed"
    assert lines(tmp_path / "two") == ["small"]
    ran(tmp_path / "three", {**node, "cases": cases[:1]}, end(), inputs={"n": 1})
    assert lines(tmp_path / "three") == []


@pytest.mark.parametrize(("guard", "reason", "count"), [("True", "limit", 3), ("False", "guard", 0)])
def test_072_a_bounded_loop(tmp_path: Path, guard: str, reason: str, count: int) -> None:
    with engine(tmp_path) as made:
        assert made.run(problem(loop("l", 3, append("tick"), guard=guard), end()), "r").status == "completed"
        progress = [e.payload for e in made.store.events("r", kinds=["node_progress"])]
    assert lines(tmp_path) == ["tick"] * count
    assert progress[-1] == {"iterations": count, "done": True, "reason": reason}


def test_072_a_guard_that_turns_false_exactly_at_the_limit(tmp_path: Path) -> None:
    with engine(tmp_path) as made:
        made.run(problem(loop("l", 2, append("tick"), guard="l.iterations < 2"), end(n="{{ l.iterations }}")), "r")
        told = [e.payload for e in made.store.events("r", kinds=["node_progress"])]
        assert made.result("r").outputs == {"n": 2}
    assert told[-1] == {"iterations": 2, "done": True, "reason": "guard"}


def test_073_nested_loops(tmp_path: Path) -> None:
    assert ran(tmp_path, loop("outer", 2, loop("inner", 3, append("tick"))), end()).status == "completed"
    assert lines(tmp_path) == ["tick"] * 6


def test_074_the_same_library_plan_twice_and_in_a_loop(tmp_path: Path) -> None:
    child = plan("child", append("effect"))
    twice = (decompose("one", child), decompose("two", child))
    assert ran(tmp_path, *twice, loop("l", 3, decompose("three", child)), end()).status == "completed"
    assert lines(tmp_path) == ["effect"] * 5


def test_077_a_completed_run_is_left_alone(tmp_path: Path) -> None:
    with engine(tmp_path) as made:
        first = made.run(problem(append("a"), end(x=1)), "r")
        head = made.store.head()
        assert made.resume("r") == first
        assert made.store.head() == head
        with pytest.raises(UnknownRunError):
            made.resume("nobody")
    assert lines(tmp_path) == ["a"]


# -- budgets ---------------------------------------------------------------------------------------------------


def test_078_a_node_is_set_aside_before_it_runs(tmp_path: Path) -> None:
    result = ran(tmp_path, append("a"), append("b"), end(), budgets={"max_nodes": 1})
    assert (result.status, lines(tmp_path)) == ("budget_exhausted", ["a"])
    assert "max_nodes" in str(result.error)


def summarize(name: str) -> dict[str, Any]:
    return call(name, "text.summarize", text="x" * 400)


class Costly(Capability):
    """Spends a little."""

    spec = CapabilitySpec(name="test.costly")

    def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
        context.store.add_usage(context.run_id, context.node_key, cost_usd=0.01)
        return {}


@pytest.mark.parametrize(
    ("limit", "value", "nodes"),
    [
        ("max_nodes", 1, [append("a"), append("b")]),
        ("max_tokens", 50, [summarize("a")]),
        ("max_cost_usd", 0.0, [call("a", "test.costly")]),
        ("max_wall_seconds", 0.05, [call("a", "test.slow"), append("b")]),
        ("max_depth", 1, [decompose("d", plan("c", decompose("e", plan("f", append("a")))))]),
        ("max_attempts_per_node", 1, []),
    ],
)
def test_079_each_limit_is_named(tmp_path: Path, limit: str, value: float, nodes: list[dict[str, Any]]) -> None:
    class Slow(Capability):
        spec = CapabilitySpec(name="test.slow")

        def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
            time.sleep(0.2)
            return {}

    class Interrupting(Capability):
        spec = CapabilitySpec(name="test.interrupt", idempotent=True)

        def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
            raise KeyboardInterrupt

    tapes = {"summarizer": ["short"]}
    with engine(tmp_path, Costly(), Slow(), Interrupting(), recordings=tapes) as made:
        spec = problem(*(nodes or [call("a", "test.interrupt")]), end(), budgets={limit: value})
        if nodes:
            result = made.run(spec, "r")
        else:
            with pytest.raises(KeyboardInterrupt):
                made.run(spec, "r")
            result = made.resume("r")
        assert same(made, "r")
    assert result.status == "budget_exhausted"
    assert limit in str(result.error)


def test_079_paid_spending_is_allowed_within_its_budget(tmp_path: Path) -> None:
    with engine(tmp_path, Costly()) as made:
        assert (
            made.run(problem(call("a", "test.costly"), end(), budgets={"max_cost_usd": 0.02}), "r").status
            == "completed"
        )


def test_a_child_gets_a_share_of_what_is_left(tmp_path: Path) -> None:
    child = plan("child", append("a"), append("b"), append("c"))
    result = ran(tmp_path, append("first"), decompose("d", child), end(), budgets={"max_nodes": 5})
    assert (result.status, lines(tmp_path)) == ("budget_exhausted", ["first", "a", "b"])
    tight = plan("child", append("a"), append("b"), budgets={"max_nodes": 1})
    result = ran(tmp_path / "tight", decompose("d", tight), end())
    assert (result.status, lines(tmp_path / "tight")) == ("budget_exhausted", ["a"])
    greedy = plan("child", append("a"), budgets={"max_nodes": 201})
    result = ran(tmp_path / "greedy", decompose("d", greedy), end())
    assert (result.status, lines(tmp_path / "greedy")) == ("escalated", [])
    assert "budget_containment" in str(result.error)
    silent = plan("child", append("a"))
    result = ran(tmp_path / "silent", decompose("d", silent), end(), budgets={"max_nodes": 2, "max_wall_seconds": 60})
    assert result.status == "completed"


# -- ends ------------------------------------------------------------------------------------------------------


def test_080_a_fail_node(tmp_path: Path) -> None:
    result = ran(tmp_path, {"kind": "fail", "id": "f", "reason": "because"}, end())
    assert (result.status, result.error) == ("failed", "because")


def test_080_a_capability_that_raises(tmp_path: Path) -> None:
    result = ran(tmp_path, call("b", "test.broken"), append("after"), end())
    assert (result.status, lines(tmp_path)) == ("failed", [])
    assert "it broke" in str(result.error)


def test_080_a_plan_without_a_return(tmp_path: Path) -> None:
    assert ran(tmp_path, append("a")).status == "failed"


ASK = {"kind": "ask_user", "id": "ask", "question": "which?"}


def test_081_nobody_is_there_to_ask(tmp_path: Path) -> None:
    result = ran(tmp_path, ASK, end())
    assert (result.status, str(result.error)[:34]) == ("escalated", "ask_user outside attended root: wh")
    result = ran(tmp_path / "below", decompose("d", plan("child", ASK)), end(), attended=True)
    assert result.status == "escalated"


def test_082_an_answer_unblocks(tmp_path: Path) -> None:
    with engine(tmp_path) as made:
        result = made.run(
            problem(append("a"), ASK, append("b", "{{ ask.answer }}"), end(x="{{ ask.answer }}"), attended=True), "r"
        )
        assert (result.status, "awaiting input at root_p@1.ask" in str(result.error)) == ("blocked", True)
        assert made.resume("r").status == "blocked"
        made.deliver_message("r", "root_p@1.ask", {"answer": "this"})
    with engine(tmp_path) as made:
        result = made.resume("r")
        assert (result.status, result.outputs) == ("completed", {"x": "this"})
        assert same(made, "r")
    assert lines(tmp_path) == ["a", "this"]


def test_082_an_answer_survives_a_second_crash(tmp_path: Path) -> None:
    with engine(tmp_path, InterruptOnce()) as made:
        ask = {**ASK, "options": ["yes", "no"]}
        made.run(problem(ask, call("i", "test.interrupt_once"), end(x="{{ ask.answer }}"), attended=True), "r")
        made.deliver_message("r", "root_p@1.ask", "perhaps")
        assert made.resume("r").status == "blocked"
        made.deliver_message("r", "root_p@1.ask", "yes")
        with pytest.raises(KeyboardInterrupt):
            made.resume("r")
        assert made.resume("r").outputs == {"x": "yes"}


def test_082_an_answer_given_in_advance(tmp_path: Path) -> None:
    class Tell(Capability):
        spec = CapabilitySpec(name="test.tell")

        def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
            context.store.enqueue(context.run_id, "root_p@1.ask", "early")
            return {}

    with engine(tmp_path, Tell()) as made:
        assert made.run(
            problem(call("t", "test.tell"), ASK, end(x="{{ ask.answer }}"), attended=True), "r"
        ).outputs == {"x": "early"}


def test_083_a_capability_that_is_not_registered(tmp_path: Path) -> None:
    result = ran(tmp_path, call("a", "test.unheard_of"), end())
    assert result.status == "escalated"
    assert "not registered" in str(result.error)


def predicate(expr: str) -> dict[str, Any]:
    return {"id": "check", "kind": "predicate", "spec": {"expr": expr}}


def test_084_the_final_review(tmp_path: Path) -> None:
    result = ran(tmp_path, end(n=3), acceptance=[predicate("outputs.n == 4")])
    assert result.status == "escalated"
    assert str(result.error).startswith("final review blocked")
    assert ran(tmp_path / "b", end(n=4), acceptance=[predicate("outputs.n == 4")]).status == "completed"
    assert json.loads((tmp_path / "sherpa_outputs.json").read_text()) == {"n": 3}
    result = ran(tmp_path / "c", end(n=4), acceptance=[predicate("outputs.missing == 4")])
    assert (result.status, "was not carried out" in str(result.error)) == ("escalated", True)
    schema = {"type": "object", "required": ["m"]}
    assert ran(tmp_path / "d", end(n=4), output_schema=schema).status == "escalated"


@pytest.mark.parametrize(("number", "status"), [(1, "completed"), (2, "escalated")])
def test_085_acceptance_by_tests(tmp_path: Path, number: int, status: str) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(f"def test_it():\n    assert {number} == 1\n")
    check = {"id": "suite", "kind": "pytest", "spec": {"cmd": ["pytest", "-q", "tests"], "cwd": "."}}
    assert ran(tmp_path, end(), acceptance=[check]).status == status


def test_085_acceptance_runs_nothing_but_tests(tmp_path: Path) -> None:
    for spec in ({"cmd": ["http.server"]}, {"cmd": ["pytest", "-p", "x"]}, {"cwd": "/"}):
        result = ran(tmp_path / str(hash(str(spec))), end(), acceptance=[{"id": "c", "kind": "pytest", "spec": spec}])
        assert result.status == "escalated"
    ungranted = ran(tmp_path, end(), acceptance=[{"id": "c", "kind": "pytest", "spec": {}}], authority={})
    assert ungranted.status == "escalated"


# -- plans below plans -----------------------------------------------------------------------------------------


def test_090_depth_and_parents_are_kept(tmp_path: Path) -> None:
    inner = plan("inner", append("deep"))
    middle = plan("middle", decompose("down", inner, "inner goal"))
    with engine(tmp_path) as made:
        assert made.run(problem(decompose("d", middle), end()), "r").status == "completed"
        nodes = made.status("r")["nodes"]
    found = [(key, node) for key, node in nodes.items() if node["depth"] == 2]
    assert [key for key, _ in found] == ["root_p@1.d/middle@1.down/inner@1.deep"]
    assert found[0][1]["parent_key"] == "root_p@1.d/middle@1.down"
    assert found[0][1]["parent_key"] in nodes
    assert str(found[0][1]["owner_session"]).startswith("r::")


def test_091_too_deep(tmp_path: Path) -> None:
    deeper = plan("a", decompose("x", plan("b", append("never"))))
    result = ran(tmp_path, decompose("d", deeper), end(), budgets={"max_depth": 1})
    assert (result.status, lines(tmp_path)) == ("budget_exhausted", [])


def test_092_a_planner_without_a_plan(tmp_path: Path) -> None:
    with engine(tmp_path) as made:
        result = made.run({"id": "p", "goal": "anything", "authority": FULL}, "r")
        assert result.status == "escalated"
        assert kinds(made, "r")[-2] == "run_terminal"


def test_093_a_step_that_is_none(tmp_path: Path) -> None:
    fallback = {"match": {"capability": "test.no_probe"}, "plan": plan("fallback", append("instead"), end(v=5))}
    with engine(tmp_path) as made:
        spec = problem(call("s", "test.no_probe"), end(v="{{ s.result.v }}"), metadata={"plan_library": [fallback]})
        result = made.run(spec, "r")
        assert (result.status, result.outputs, lines(tmp_path)) == ("completed", {"v": 5}, ["instead"])
        outcomes = {e.node_key: e.payload for e in made.store.events("r", kinds=["decompose_outcome"])}
        assert outcomes["root_p@1.s"]["reclassified"] is True
        assert outcomes["root_p@1.s"]["parent_state"] == "skipped"
        assert made.status("r")["nodes"]["root_p@1.s"]["state"] == "skipped"
        assert same(made, "r")


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ([loop("l", 2, append("a"), guard="nothing.here"), end()], "bad_expression"),
        ([loop("l", 2, append("a"), guard="f("), end()], "bad_expression"),
        ([loop("l", 2, append("a"), guard="inputs.missing"), end()], "missing"),
        ([append("a", "{{ inputs.missing }}"), end()], "missing"),
        ([append("a"), append("a"), end()], "duplicate_id"),
        ([{"kind": "unheard_of", "id": "x"}], "unheard_of"),
        ([{"kind": "invoke_plan", "id": "i", "plan_id": "nobody"}], "nobody"),
        ([], "root"),
    ],
)
def test_094_what_is_malformed_ends_the_run(tmp_path: Path, nodes: list[dict[str, Any]], told: str) -> None:
    result = ran(tmp_path, *nodes)
    assert result.status == "failed"
    assert told in str(result.error)


def test_094_stored_plans(tmp_path: Path) -> None:
    stored = read_record(plan("known", append("a", "{{ inputs.word }}"), end(w="{{ a.result.text }}"), version=2), Plan)
    older = read_record(plan("known", append("old")), Plan)
    node = {"kind": "invoke_plan", "id": "i", "plan_id": "known", "input_map": {"word": "inputs.words[1]"}}
    result = ran(tmp_path, node, end(x="{{ i.outputs.w }}"), inputs={"words": ["a", "b"]}, plans=[older, stored])
    assert (result.status, result.outputs) == ("completed", {"x": "b"})
    result = ran(tmp_path / "v", {**node, "plan_version": 1, "input_map": {}}, end(), plans=[older, stored])
    assert (result.status, lines(tmp_path / "v")) == ("completed", ["old"])
    wide = read_record(plan("known", append("a"), authority={"fs_write": ["/**"]}), Plan)
    result = ran(tmp_path / "w", {**node, "input_map": {}}, end(), plans=[wide])
    assert (result.status, lines(tmp_path / "w")) == ("escalated", [])


def test_096_siblings_finish_whatever_happens(tmp_path: Path) -> None:
    for workers in (1, 4):
        home = tmp_path / str(workers)
        branches = [[call("bad", "test.broken")], [append("b")], [call("esc", "test.unheard_of")], [append("d")]]
        fan = {"kind": "parallel", "id": "f", "branches": branches}
        result = ran(home, fan, append("after"), end(), policies=Policies(parallelism=workers))
        assert result.status == "failed"
        assert sorted(lines(home)) == ["b", "d"]
        fan = {"kind": "parallel", "id": "f", "branches": branches[1:]}
        result = ran(home / "e", fan, end(), policies=Policies(parallelism=workers))
        assert (result.status, sorted(lines(home / "e"))) == ("escalated", ["b", "d"])


def test_096_branches_run_at_the_same_time_and_their_results_are_merged(tmp_path: Path) -> None:
    barrier = threading.Barrier(3, timeout=10)

    class Meet(Capability):
        spec = CapabilitySpec(name="test.meet")

        def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
            barrier.wait()
            return {"n": inputs["n"]}

    fan = {"kind": "parallel", "id": "f", "branches": [[call(f"m{n}", "test.meet", n=n)] for n in range(3)]}
    with engine(tmp_path, Meet()) as made:
        result = made.run(problem(fan, end(n="{{ m0.result.n + m1.result.n + m2.result.n }}")), "r")
        assert (result.status, result.outputs) == ("completed", {"n": 3})
        assert same(made, "r")


def test_097_a_return_of_a_child_ends_only_the_child(tmp_path: Path) -> None:
    child = plan("child", append("in"), end(v=1), append("never"))
    result = ran(tmp_path, decompose("d", child), append("after", "after"), end(v="{{ d.outputs.v }}"))
    assert (result.status, result.outputs, lines(tmp_path)) == ("completed", {"v": 1}, ["in", "after"])


class Counting:
    """A planner that must not be asked twice."""

    name = "counting"

    def __init__(self, made: dict[str, Any]) -> None:
        self.made, self.calls = made, 0

    def author_plan(self, *_: Any, **__: Any) -> Plan:
        self.calls += 1
        return read_record(self.made, Plan)


def test_098_a_recorded_plan_is_not_asked_for_again(tmp_path: Path) -> None:
    first = Counting(plan("one", call("i", "test.interrupt_once"), append("one")))
    other = Counting(plan("two", append("two")))
    goal = {
        "id": "p",
        "goal": "g",
        "authority": FULL,
        "metadata": {"root_nodes": [{"kind": "decompose", "id": "d", "subgoal": "s"}, end()]},
    }
    with engine(tmp_path, InterruptOnce(), planner=first) as made, pytest.raises(KeyboardInterrupt):
        made.run(goal, "r")
    with engine(tmp_path, InterruptOnce(), planner=other) as made:
        assert made.resume("r", force=True).status == "completed"
        assert (first.calls, other.calls, lines(tmp_path)) == (1, 0, ["one"])


def test_098_another_set_of_capabilities_is_refused(tmp_path: Path) -> None:
    with engine(tmp_path) as made:
        assert made.run(problem(ASK, end(), attended=True), "r").status == "blocked"
        made.deliver_message("r", "root_p@1.ask", "x")
    with Engine(tmp_path) as other:
        with pytest.raises(RunStoreError, match="registry"):
            other.resume("r")
        assert other.resume("r", force=True).status == "completed"


def test_099_the_kill_switch_needs_consent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KILL_VARIABLE, "3")
    assert ran(tmp_path, append("a"), end()).status == "completed"


def test_100_a_trace_holds_everything(tmp_path: Path) -> None:
    with engine(tmp_path) as made:
        result = made.run(problem(append("a"), end()), "r")
        trace = made.export_trace("r", tmp_path / "out" / "trace.json")
        written = json.loads((tmp_path / "out" / "trace.json").read_text())
        assert written == json.loads(json.dumps(trace))
        assert written["projection"] == written["replay_projection"] == made.status("r")
        assert written["metrics"] == json.loads(json.dumps(result.metrics))
        assert len(written["events"]) == len(kinds(made, "r"))


def test_101_a_run_is_not_begun_twice(tmp_path: Path) -> None:
    with engine(tmp_path) as made:
        made.run(problem(append("a"), end()), "r")
        with pytest.raises(RunStoreError, match="already"):
            made.run(problem(append("a"), end()), "r")
        for name in ("a/b", "", " ", "a\n"):
            with pytest.raises(PlanError):
                made.run(problem(end()), name or " ")
    assert lines(tmp_path) == ["a"]


def stopping(action: Callable[[Engine, str], None]) -> type[Capability]:
    class Stop(Capability):
        spec = CapabilitySpec(name="test.stop")

        def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
            with Engine(context.workspace) as other:
                action(other, context.run_id)
            return {}

    return Stop


def test_102_cancelled_at_the_next_checkpoint(tmp_path: Path) -> None:
    with engine(tmp_path, stopping(Engine.cancel)()) as made:
        result = made.run(problem(append("a"), call("s", "test.stop"), append("b"), end()), "r")
        assert (result.status, lines(tmp_path)) == ("cancelled", ["a"])
        assert made.resume("r").status == "cancelled"
        assert "control_requested" in kinds(made, "r")
        with pytest.raises(RunStoreError, match="cancelled"):
            made.deliver_message("r", "x", "y")


def test_102_paused_and_resumed(tmp_path: Path) -> None:
    with engine(tmp_path, stopping(Engine.pause)()) as made:
        result = made.run(problem(append("a"), call("s", "test.stop"), append("b"), end()), "r")
        assert (result.status, lines(tmp_path)) == ("paused", ["a"])
        assert made.resume("r").status == "completed"
        assert lines(tmp_path) == ["a", "b"]
        assert {"run_paused", "run_resumed"} <= set(kinds(made, "r"))
        assert same(made, "r")


def test_102_cancelled_while_nobody_works(tmp_path: Path) -> None:
    with engine(tmp_path) as made:
        made.run(problem(ASK, end(), attended=True), "r")
        made.cancel("r")
        assert made.status("r")["status"] == "cancelled"
        with pytest.raises(RunStoreError):
            made.pause("r")


def test_a_negative_result_is_remembered(tmp_path: Path) -> None:
    child = plan("child", append("wrong"), end(n=1))
    spec = {
        "id": "p", "goal": "goal", "authority": FULL, "acceptance": [predicate("outputs.n == 2")],
        "metadata": {"root_nodes": [decompose("d", child), end(n="{{ d.outputs.n }}")]},
    }  # fmt: skip
    with engine(tmp_path) as made:
        assert str(made.run(spec, "one").error).startswith("final review blocked")
        assert "verified to be wrong" in str(made.run(spec, "two").error)
        assert lines(tmp_path) == ["wrong"]
        right = {**spec, "acceptance": [predicate("outputs.n == 1")]}
    with engine(tmp_path / "b") as made:
        assert [made.run(right, name).status for name in ("one", "two")] == ["completed", "completed"]
        assert kinds(made, "two").count("cache_hit") == 1
