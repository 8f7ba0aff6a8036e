"""What can be said about a plan from its shape alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from harness.runtime.errors import ExpressionError
from harness.runtime.expr import compile_expression, template_sources
from harness.runtime.ir import (
    Branch,
    Budgets,
    Decompose,
    InvokeCapability,
    InvokePlan,
    Node,
    Parallel,
    Plan,
    Return,
    While,
)

Place = tuple[str, Node]
ALWAYS_KNOWN = frozenset({"inputs", "parent"})
"""Names of every scope: the inputs of the plan, and what the plan above had when it called this one."""

UNFILLED = frozenset({"plan_library", "root_nodes"})
"""Hints that hold plans: the templates in them belong to those plans."""


@dataclass(frozen=True)
class Problem:
    """Something wrong with a plan; a warning does not keep it from running."""

    path: str
    code: str
    message: str
    warning: bool = False


def bodies(node: Node, path: str) -> list[tuple[str, Sequence[Node]]]:
    """The lists of nodes inside a node, each with its path."""
    match node:
        case Branch():
            return [(f"{path}.cases[{at}].body", case.body) for at, case in enumerate(node.cases)]
        case While():
            return [(f"{path}.body", node.body)]
        case Parallel():
            return [(f"{path}.branches[{at}]", body) for at, body in enumerate(node.branches)]
        case _:
            return []


def walk(nodes: Sequence[Node], path: str = "root") -> Iterator[Place]:
    """Every node of a tree with its path, parents first."""
    for at, node in enumerate(nodes):
        here = f"{path}[{at}]"
        yield here, node
        for inner, body in bodies(node, here):
            yield from walk(body, inner)


def estimate_depth(plan: Plan) -> int:
    """How deep control nodes nest: a leaf is 1, each branch, loop or fan-out adds 1."""
    return max(_depth(node) for node in plan.root)


def _depth(node: Node) -> int:
    inner = bodies(node, "")
    return 1 + max((_depth(child) for _, body in inner for child in body), default=0) if inner else 1


def leaves(plan: Plan) -> list[InvokeCapability]:
    """All calls of capabilities."""
    return [node for _, node in walk(plan.root) if isinstance(node, InvokeCapability)]


def validate_plan(plan: Plan, budgets: Budgets, capabilities: Collection[str] | None = None) -> list[Problem]:
    """All structural problems of a plan.

    Parameters
    ----------
    budgets : Budgets
        Limits of depth and fan-out.
    capabilities : collection of str, optional
        Registered names; without it, names are not checked.
    """
    found: list[Problem] = []
    seen: dict[str, str] = {}
    for path, node in walk(plan.root):
        if node.id in seen:
            found.append(Problem(path, "duplicate_id", f"{node.id} is also the id of {seen[node.id]}"))
        seen.setdefault(node.id, path)
    known = ALWAYS_KNOWN | seen.keys() | {f"{name}_{kind}" for name in seen for kind in ("msg", "msgs")}
    for path, node in walk(plan.root):
        found += _of_node(path, node, budgets, capabilities)
        found += _of_expressions(path, node, known)
    for path, body in [
        ("root", plan.root),
        *(inner for place, node in walk(plan.root) for inner in bodies(node, place)),
    ]:
        found += _dead(path, body)
    depth = estimate_depth(plan)
    if depth > budgets.max_depth:
        found.append(Problem("root", "depth_exceeded", f"nests {depth} deep, at most {budgets.max_depth} is allowed"))
    return found


def errors(problems: Sequence[Problem]) -> list[Problem]:
    """Those that keep a plan from running."""
    return [problem for problem in problems if not problem.warning]


def _of_node(path: str, node: Node, budgets: Budgets, capabilities: Collection[str] | None) -> Iterator[Problem]:
    cap = budgets.max_fanout
    match node:
        case Branch():
            for at, case in enumerate(node.cases[:-1]):
                if case.when is None:
                    yield Problem(f"{path}.cases[{at}]", "else_not_last", "a case without when must be the last one")
        case While():
            if not node.guard.strip():
                yield Problem(path, "missing_guard", "a loop needs a guard")
        case Parallel():
            if len(node.branches) > cap:
                yield Problem(path, "fanout_exceeded", f"{len(node.branches)} branches, at most {cap} are allowed")
            for at, body in enumerate(node.branches):
                if not body:
                    yield Problem(f"{path}.branches[{at}]", "empty_body", "a branch of a fan-out has no nodes")
        case Decompose():
            if node.fanout_cap is not None and node.fanout_cap > cap:
                yield Problem(path, "fanout_exceeded", f"fanout_cap {node.fanout_cap}, at most {cap} is allowed")
        case InvokeCapability():
            if capabilities is not None and node.capability not in capabilities:
                yield Problem(path, "unknown_capability", f"{node.capability} is not registered")
        case _:
            pass


def _of_expressions(path: str, node: Node, known: Collection[str]) -> Iterator[Problem]:
    sources: list[str] = []
    match node:
        case Branch():
            sources = [case.when for case in node.cases if case.when is not None]
        case While():
            sources = [node.guard] if node.guard.strip() else []
        case InvokeCapability():
            sources = list(template_sources(node.inputs))
        case InvokePlan():
            sources = list(node.input_map.values())
        case Decompose():
            sources = list(template_sources({k: v for k, v in node.hints.items() if k not in UNFILLED}))
        case Return():
            sources = list(template_sources(node.outputs))
        case _:
            pass
    for source in sources:
        try:
            unknown = compile_expression(source).names - set(known)
        except ExpressionError as error:
            yield Problem(path, "bad_expression", str(error))
            continue
        if unknown:
            yield Problem(path, "bad_expression", f"{source!r} names {', '.join(sorted(unknown))}, which nothing sets")


def _dead(path: str, body: Sequence[Node]) -> Iterator[Problem]:
    for at, node in enumerate(body[:-1]):
        if isinstance(node, Return):
            yield Problem(f"{path}[{at + 1}]", "dead_code", f"is never reached, {node.id} returns before", warning=True)
            return
