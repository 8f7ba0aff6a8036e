"""Plans: records, shape, depth. Acceptance checks 1 to 9."""

from __future__ import annotations

from typing import Any

import pytest

from harness.runtime.errors import PlanError
from harness.runtime.ir import Budgets, Plan, read_problem, read_record, root_plan
from harness.runtime.validation import errors, estimate_depth, validate_plan


def leaf(name: str = "step", **more: Any) -> dict[str, Any]:
    return {"kind": "invoke_capability", "id": name, "capability": "fs.read_file", **more}


def plan(*nodes: dict[str, Any], **more: Any) -> Plan:
    return read_record({"id": "p", "root": list(nodes), **more}, Plan)


def loop(name: str, *body: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "while", "id": name, "guard": "True", "max_iterations": 2, "body": list(body)}


def branch(name: str, *whens: str | None) -> dict[str, Any]:
    cases = [
        {"body": [leaf(f"{name}_{at}")]} | ({} if when is None else {"when": when}) for at, when in enumerate(whens)
    ]
    return {"kind": "branch", "id": name, "cases": cases}


def codes(made: Plan, budgets: Budgets | None = None, names: set[str] | None = None) -> list[str]:
    return [problem.code for problem in validate_plan(made, budgets or Budgets(), names)]


def test_001_a_minimal_plan_has_no_errors() -> None:
    assert codes(plan(leaf())) == []


def test_002_a_duplicate_id_inside_a_loop_is_found() -> None:
    made = plan(leaf("a"), loop("l", loop("m", leaf("a"))))
    assert [(p.code, p.path) for p in validate_plan(made, Budgets())] == [("duplicate_id", "root[1].body[0].body[0]")]


@pytest.mark.parametrize(
    ("whens", "expected"),
    [
        ([None, "1 == 1", None], ["else_not_last"]),
        ([None, "1 == 1"], ["else_not_last"]),
        (["1 == 1", "1 == 2"], []),
        (["1 == 1", None], []),
        ([None], []),
    ],
)
def test_003_only_the_last_case_may_be_the_else(whens: list[str | None], expected: list[str]) -> None:
    assert codes(plan(branch("b", *whens))) == expected


def test_004_too_many_branches() -> None:
    made = plan({"kind": "parallel", "id": "f", "branches": [[leaf(f"a{n}")] for n in range(4)]})
    assert codes(made, Budgets(max_fanout=3)) == ["fanout_exceeded"]
    assert codes(made, Budgets(max_fanout=4)) == []


def test_005_a_cap_above_the_budget() -> None:
    made = plan({"kind": "decompose", "id": "d", "subgoal": "x", "fanout_cap": 99})
    assert codes(made) == ["fanout_exceeded"]


def test_006_depth() -> None:
    nested = leaf("a")
    for n in range(6):
        nested = loop(f"l{n}", nested)
    assert codes(plan(nested), Budgets(max_depth=3)) == ["depth_exceeded"]
    assert codes(plan(nested), Budgets(max_depth=7)) == []
    assert estimate_depth(plan(nested)) == 7
    assert estimate_depth(plan(leaf("a"), leaf("b"))) == 1
    assert estimate_depth(plan(branch("b", None))) == 2


def test_007_unknown_capabilities_are_told_only_with_a_registry() -> None:
    assert codes(plan(leaf()), names={"other"}) == ["unknown_capability"]
    assert codes(plan(leaf()), names={"fs.read_file"}) == []
    assert codes(plan(leaf())) == []


@pytest.mark.parametrize(
    "node",
    [
        loop("l", leaf()) | {"max_iterations": 0},
        loop("l"),
        {"kind": "branch", "id": "b", "cases": [{"body": []}]},
        {"kind": "branch", "id": "b", "cases": []},
        {"kind": "parallel", "id": "f", "branches": []},
        leaf("Bad"),
        leaf() | {"unheard_of": 1},
        {"kind": "nothing", "id": "a"},
        {"kind": "decompose", "id": "d", "subgoal": "x", "budget_fraction": 0.0},
        {"kind": "decompose", "id": "d", "subgoal": "x", "budget_fraction": 1.5},
    ],
)
def test_008_the_schema_refuses(node: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        plan(node)


def test_008_an_empty_branch_of_a_fan_out() -> None:
    assert codes(plan({"kind": "parallel", "id": "f", "branches": [[leaf()], []]})) == ["empty_body"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_nodes": 0},
        {"max_nodes": -1},
        {"max_nodes": True},
        {"max_nodes": 1.5},
        {"max_attempts_per_node": 0},
        {"max_depth": 0},
        {"max_fanout": 0},
        {"max_tokens": -1},
        {"max_cost_usd": -0.1},
        {"max_cost_usd": float("nan")},
        {"max_wall_seconds": 0},
        {"max_wall_seconds": float("inf")},
    ],
)
def test_009_budgets_outside_their_domain(wrong: dict[str, Any]) -> None:
    with pytest.raises(PlanError, match=next(iter(wrong))):
        Budgets(**wrong)


def test_009_defaults() -> None:
    b = Budgets()
    assert (b.max_nodes, b.max_attempts_per_node, b.max_depth, b.max_fanout) == (200, 2, 6, 4)
    assert (b.max_tokens, b.max_cost_usd, b.max_wall_seconds) == (200_000, 0.0, 900.0)


@pytest.mark.parametrize(
    "node",
    [
        loop("l", leaf()) | {"guard": "f("},
        branch("b", "open('x')"),
        leaf(inputs={"a": [{"b": "{{ nobody.result }}"}]}),
        {"kind": "return", "id": "r", "outputs": {"x": "{{ 1 ** 2 }}"}},
    ],
)
def test_expressions_are_compiled_beforehand(node: dict[str, Any]) -> None:
    assert codes(plan(node)) == ["bad_expression"]


def test_what_follows_a_return_is_only_a_warning() -> None:
    made = plan({"kind": "return", "id": "r"}, leaf())
    assert codes(made) == ["dead_code"]
    assert errors(validate_plan(made, Budgets())) == []


def test_a_blank_guard() -> None:
    assert codes(plan(loop("l", leaf()) | {"guard": " "})) == ["missing_guard"]


def test_the_root_plan_is_literal_or_one_decomposition() -> None:
    made = root_plan(read_problem({"id": "x", "goal": "g", "metadata": {"root_nodes": [leaf()]}}))
    assert (made.id, [n.id for n in made.root]) == ("root_x", ["step"])
    made = root_plan(read_problem({"id": "x", "goal": "g", "metadata": {"k": 1}}))
    node = made.root[0]
    assert (node.id, node.subgoal, node.hints, node.budget_fraction) == ("solve", "g", {"k": 1}, 1.0)  # type: ignore[union-attr]


def test_a_problem_file_that_is_no_json_is_refused(tmp_path: Any) -> None:
    (tmp_path / "p.json").write_text("{")
    with pytest.raises(PlanError, match="cannot be read as a problem"):
        read_problem(tmp_path / "p.json")
    with pytest.raises(PlanError, match="may only hold"):
        read_problem({"id": "a/b", "goal": "g"})
