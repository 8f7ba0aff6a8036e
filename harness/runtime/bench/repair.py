"""Demonstration B: a planner that repairs defects, and the runs that show whether it does.

The planner reads what the run has read: the module and its tests. It tries candidates on the syntax tree, class by
class, against the examples of the tests, in a confined subprocess; the first class that explains all examples wins.
"""

from __future__ import annotations

import ast
import copy
import difflib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.runtime.bench.defects import Seeded
from harness.runtime.bench.scenarios import AUTHORITY, leaf
from harness.runtime.capabilities import Asker
from harness.runtime.errors import NoPlanTemplate
from harness.runtime.ir import Authority, Budgets, Plan, read_record
from harness.runtime.planner import Hints
from harness.runtime.sandbox import run_confined

CONSTANTS = range(-64, 65)
_SWAPPED = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
_LOOSER = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
# Each example has a moment; what a candidate prints is nobody's business.
_JUDGE = """
import json, signal, sys
def out_of_time(*_):
    raise TimeoutError
signal.signal(signal.SIGALRM, out_of_time)
task = json.load(open(sys.argv[1]))
verdicts = []
for source in task["sources"]:
    results = []
    for name, argument, expected in task["examples"]:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            space = {}
            exec(source, space)
            results.append("right" if space[name](eval(argument)) == eval(expected) else "wrong")
        except BaseException as error:
            results.append("raised")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    verdicts.append(results)
print(json.dumps(verdicts))
"""
Example = tuple[str, str, str]
"""Function, argument and expected value, as literals."""


def examples_of(tests: str) -> list[Example]:
    """The examples in a test module: ``assert mod.f(LITERAL) == LITERAL``."""
    found = []
    for node in ast.walk(ast.parse(tests)):
        match node:
            case ast.Assert(
                test=ast.Compare(
                    left=ast.Call(func=ast.Attribute(attr=name), args=[argument]),
                    ops=[ast.Eq()],
                    comparators=[expected],
                )
            ):
                found.append((name, ast.unparse(argument), ast.unparse(expected)))
            case _:
                pass
    return found


def judge(sources: list[str], examples: list[Example]) -> list[list[str]]:
    """``right``, ``wrong`` or ``raised`` for each source and example, found out in a confined subprocess."""
    with tempfile.TemporaryDirectory(prefix="repair-") as folder:
        task = Path(folder) / "task.json"
        task.write_text(json.dumps({"sources": sources, "examples": examples}))
        argv = [sys.executable, "-I", "-c", _JUDGE, str(task)]
        done = run_confined(argv, cwd=Path(folder), timeout=60)
    if done.returncode != 0:
        return [["raised"] * len(examples) for _ in sources]
    try:
        verdicts: list[list[str]] = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        # A candidate has ended the judge.
        return [["raised"] * len(examples) for _ in sources]
    return verdicts


def candidates(function: ast.FunctionDef, raising: list[Example]) -> Iterator[tuple[str, list[ast.FunctionDef]]]:
    """Changed functions, class by class."""
    yield "off_by_one", list(_off_by_one(function))
    yield "inverted_comparison", list(_comparisons(function, _SWAPPED))
    yield "wrong_constant", list(_constants(function))
    yield "missing_guard", list(_guards(function, raising))


def _variants(function: ast.FunctionDef, kind: type[ast.AST]) -> Iterator[tuple[ast.FunctionDef, Any]]:
    """A copy for each node of a kind, with that node of the copy."""
    count = sum(isinstance(node, kind) for node in ast.walk(function))
    for at in range(count):
        made = copy.deepcopy(function)
        yield made, [node for node in ast.walk(made) if isinstance(node, kind)][at]


def _off_by_one(function: ast.FunctionDef) -> Iterator[ast.FunctionDef]:
    for made, node in _variants(function, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id == "range":
            for op in (ast.Add(), ast.Sub()):
                changed = copy.deepcopy(made)
                call = next(n for n in ast.walk(changed) if ast.dump(n) == ast.dump(node))
                assert isinstance(call, ast.Call)
                call.args[-1] = ast.BinOp(call.args[-1], op, ast.Constant(1))
                yield changed
    yield from _comparisons(function, _LOOSER)


def _comparisons(function: ast.FunctionDef, table: dict[Any, Any]) -> Iterator[ast.FunctionDef]:
    for made, node in _variants(function, ast.Compare):
        if len(node.ops) == 1 and type(node.ops[0]) in table:
            node.ops = [table[type(node.ops[0])]()]
            yield made


def _constants(function: ast.FunctionDef) -> Iterator[ast.FunctionDef]:
    for made, node in _variants(function, ast.Constant):
        if isinstance(node.value, int) and not isinstance(node.value, bool):
            before = node.value
            for value in CONSTANTS:
                if value != before:
                    node.value = value
                    yield copy.deepcopy(made)


def _guards(function: ast.FunctionDef, raising: list[Example]) -> Iterator[ast.FunctionDef]:
    for _, argument, expected in raising:
        made = copy.deepcopy(function)
        name = function.args.args[0].arg
        test = f"{name} == {argument}"
        made.body.insert(0, ast.parse(f"if {test}:\n    return {expected}").body[0])
        yield made


def repair(module: str, tests: str) -> tuple[str, str] | None:
    """(class, repaired module); None if no class explains all examples."""
    examples = examples_of(tests)
    before = judge([module], examples)[0]
    broken = {name for (name, _, _), verdict in zip(examples, before, strict=True) if verdict != "right"}
    if len(broken) != 1:
        return None
    tree = ast.parse(module)
    function = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name in broken)
    raising = [e for e, verdict in zip(examples, before, strict=True) if verdict == "raised"]
    for kind, made in candidates(function, raising):
        sources = [_replaced(module, function, one) for one in made]
        verdicts = judge(sources, examples) if sources else []
        for source, verdict in zip(sources, verdicts, strict=True):
            if all(one == "right" for one in verdict):
                return kind, source
    return None


def _replaced(module: str, function: ast.FunctionDef, by: ast.FunctionDef) -> str:
    lines = module.splitlines(keepends=True)
    text = ast.unparse(ast.fix_missing_locations(by)) + "\n"
    return "".join(lines[: function.lineno - 1]) + text + "".join(lines[function.end_lineno :])


class RepairPlanner:
    """Plans a repair from what the run has read."""

    name = "repair"

    def author_plan(
        self, goal: str, hints: Hints, granted: Authority, budgets: Budgets, *, session: str, ask: Asker
    ) -> Plan:
        """A plan that applies one patch.

        Raises
        ------
        NoPlanTemplate
            If no class of defect explains the examples.
        """
        seen = hints["prior_results"]
        module, tests = (seen[name]["result"]["content"] for name in ("module", "tests"))
        found = repair(module, tests)
        if found is None:
            raise NoPlanTemplate("no known class of defect explains the examples of the tests")
        kind, repaired = found
        lines = difflib.unified_diff(
            module.splitlines(keepends=True), repaired.splitlines(keepends=True), "a/pkg/mod.py", "b/pkg/mod.py"
        )
        patch = leaf("patch", "repo.apply_patch", cwd="repo", diff="".join(lines))
        done = {"kind": "return", "id": "named", "outputs": {"defect_class": kind}}
        return read_record({"id": "repair", "root": [patch, done], "notes": {"authored_by": self.name}}, Plan)


def repair_problem(name: str) -> dict[str, Any]:
    """Run the tests, have the defect repaired, run the tests again; accepted if they pass."""
    tests: dict[str, Any] = {"cwd": "repo", "args": ["-q", "tests"]}
    cases = [
        {
            "when": "after.result.passed",
            "body": [{"kind": "return", "id": "fixed", "outputs": {"defect": "{{ fix.outputs.defect_class }}"}}],
        },
        {"body": [{"kind": "fail", "id": "not_fixed", "reason": "the tests still fail"}]},
    ]
    nodes = [
        leaf("before", "repo.run_tests", **tests),
        leaf("module", "fs.read_file", path="repo/pkg/mod.py"),
        leaf("tests", "fs.read_file", path="repo/tests/test_mod.py"),
        {"kind": "decompose", "id": "fix", "subgoal": "make the tests pass", "budget_fraction": 0.5},
        leaf("after", "repo.run_tests", **tests),
        {"kind": "branch", "id": "verdict", "cases": cases},
    ]
    check = {"id": "suite", "kind": "pytest", "spec": {"cmd": ["pytest", "-q", "tests"], "cwd": "repo"}}
    grants = {**AUTHORITY, "fs_write": ["repo/**"], "fs_read": ["repo/**"]}
    return {
        "id": name,
        "goal": "repair the repository",
        "authority": grants,
        "acceptance": [check],
        "metadata": {"root_nodes": nodes},
    }


def suite_passes(repo: Path) -> bool:
    """What pytest says outside of the runtime."""
    argv = [sys.executable, "-m", "pytest", "-q", "--rootdir=.", "-c", "/dev/null", "-p", "no:cacheprovider", "tests"]
    return run_confined(argv, cwd=repo, env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}).returncode == 0


def write_repository(workspace: Path, seeded: Seeded) -> Path:
    """The repository of a run; returns its folder."""
    seeded.write(workspace / "repo")
    return workspace / "repo"
