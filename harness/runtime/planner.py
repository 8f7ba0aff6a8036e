"""Who writes plans: a library, a model, or either with advice. A plan depends on the request and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from harness.runtime.authority import missing_powers
from harness.runtime.capabilities import Asker
from harness.runtime.errors import NoPlanTemplate, PlanAuthoringError, PlanError
from harness.runtime.ir import Authority, Budgets, Plan, canonical, digest, read_record
from harness.runtime.validation import errors, validate_plan

Hints = Mapping[str, Any]


class Planner(Protocol):
    """Writes a plan for a goal."""

    name: str

    def author_plan(
        self, goal: str, hints: Hints, granted: Authority, budgets: Budgets, *, session: str, ask: Asker
    ) -> Plan:
        """A plan within what is granted; raises PlanAuthoringError if there is none."""
        ...


def signature(goal: str, hints: Hints, authority: Authority, budgets: Budgets) -> str:
    """What makes two requests for a plan the same one."""
    return "sig_" + digest([goal, dict(hints), authority, budgets])[:24]


class StubPlanner:
    """Takes plans from the library in the hints: ``plan_library: [{match: {capability | pattern_contains}, plan}]``."""

    name = "stub"

    def author_plan(
        self, goal: str, hints: Hints, granted: Authority, budgets: Budgets, *, session: str, ask: Asker
    ) -> Plan:
        """The plan of the first entry that matches the requested capability or the goal.

        Raises
        ------
        NoPlanTemplate
            If none does.
        PlanAuthoringError
            If its plan is malformed.
        """
        for entry in hints.get("plan_library", []):
            match = entry.get("match", {})
            by_name = match.get("capability")
            by_goal = match.get("pattern_contains")
            if (by_name is not None and by_name == hints.get("requested_capability")) or (by_goal and by_goal in goal):
                return _noted(_authored(entry.get("plan")), authored_by=self.name, goal=goal)
        raise NoPlanTemplate(f"the library has no plan for {goal[:120]!r}")


def _authored(raw: object) -> Plan:
    try:
        return read_record(raw, Plan)
    except PlanError as error:
        raise PlanAuthoringError(f"the plan is malformed: {error}") from error


def _noted(plan: Plan, **notes: str) -> Plan:
    return msgspec.structs.replace(plan, notes={**plan.notes, **notes})


class LLMPlanner:
    """Asks the model for a plan as JSON, and once more with the error if the first one is unusable.

    Attributes
    ----------
    calls : int
        Requests that were made.
    """

    name = "llm"

    def __init__(self) -> None:
        self.calls = 0
        self._schema = canonical(msgspec.json.schema(Plan)).decode()

    def author_plan(
        self, goal: str, hints: Hints, granted: Authority, budgets: Budgets, *, session: str, ask: Asker
    ) -> Plan:
        """Raises PlanAuthoringError if neither answer is a usable plan."""
        system = f"Write a plan as one JSON object, nothing else. It must fit this schema: {self._schema}"
        request = canonical({"goal": goal, "hints": dict(hints), "authority": granted, "budgets": budgets}).decode()
        messages = [{"role": "system", "content": system}, {"role": "user", "content": request}]
        problem = ""
        for _ in range(2):
            self.calls += 1
            answer = ask(messages, temperature=0.0, max_tokens=2048, session=session).text
            try:
                return _noted(_usable(answer, granted, budgets), authored_by=self.name, goal=goal)
            except PlanError as error:
                problem = str(error)
            messages = [
                *messages,
                {"role": "assistant", "content": answer},
                {"role": "user", "content": f"This cannot be used: {problem}. Write the whole plan again."},
            ]
        raise PlanAuthoringError(f"the model gave no usable plan: {problem}")


def _usable(answer: str, granted: Authority, budgets: Budgets) -> Plan:
    begin, end = answer.find("{"), answer.rfind("}")
    try:
        raw = msgspec.json.decode(answer[begin : end + 1].encode())
    except (msgspec.DecodeError, UnicodeError) as error:
        raise PlanAuthoringError(f"no JSON object: {error}") from None
    plan = _authored(raw)
    missing = missing_powers(granted, plan.authority or Authority())
    if missing:
        raise PlanAuthoringError(f"it asks for what is not granted: {', '.join(missing)}")
    wrong = errors(validate_plan(plan, budgets))
    if wrong:
        raise PlanAuthoringError("; ".join(f"{problem.path}: {problem.message}" for problem in wrong))
    return plan


class AdvisedPlanner:
    """Another planner, told what a memory knows.

    Parameters
    ----------
    inner : Planner
    advise : callable
        (goal, hints) → advice as JSON, or None to say nothing.
    """

    def __init__(self, inner: Planner, advise: Callable[[str, Hints], dict[str, Any] | None]) -> None:
        self._inner, self._advise = inner, advise
        self.name = f"advised-{inner.name}"

    def author_plan(
        self, goal: str, hints: Hints, granted: Authority, budgets: Budgets, *, session: str, ask: Asker
    ) -> Plan:
        """The inner planner's plan, with ``hints.advisory`` if there is advice."""
        advice = self._advise(goal, hints)
        told = dict(hints) if advice is None else {**hints, "advisory": advice}
        return self._inner.author_plan(goal, told, granted, budgets, session=session, ask=ask)
