"""What can be found about plans and outputs without a model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from harness.runtime.acceptance import CheckResult
from harness.runtime.authority import missing_powers
from harness.runtime.ir import Authority, Budgets, Plan, ProblemSpec
from harness.runtime.review import BUDGET, SCHEMA, SKIPPED, Finding
from harness.runtime.schema import schema_errors
from harness.runtime.validation import errors, validate_plan

_LIMITS = {"tokens": "max_tokens", "cost_usd": "max_cost_usd", "nodes": "max_nodes", "wall_seconds": "max_wall_seconds"}


def _blocking(criterion: str, subject: str, evidence: str) -> Finding:
    return Finding(criterion=criterion, subject=subject, evidence_ref=evidence, blocking=True)


def plan_findings(
    plan: Plan,
    subject: str,
    held: Sequence[Authority],
    budgets: Budgets,
    capabilities: Collection[str] | None = None,
) -> list[Finding]:
    """Structure, authority and budgets of a plan against what it may have.

    Parameters
    ----------
    held : sequence of Authority
        All on the stack; explicit authority must lie within each.
    budgets : Budgets
        Of the plan above; explicit budgets must not exceed them.
    """
    found = [
        _blocking(f"plan_validity:{problem.code}", subject, f"{problem.path}: {problem.message}")
        for problem in errors(validate_plan(plan, budgets, capabilities))
    ]
    if plan.authority is not None:
        missing = sorted({power for authority in held for power in missing_powers(authority, plan.authority)})
        if missing:
            found.append(_blocking("authority_containment", subject, ", ".join(missing)))
    if plan.budgets is not None:
        over = [
            f"{name} {getattr(plan.budgets, name)} > {getattr(budgets, name)}"
            for name in Budgets.__struct_fields__
            if getattr(plan.budgets, name) > getattr(budgets, name)
        ]
        if over:
            found.append(_blocking("budget_containment", subject, ", ".join(over)))
    return found


def output_findings(
    problem: ProblemSpec, subject: str, outputs: Any, results: Sequence[CheckResult], usage: dict[str, float]
) -> list[Finding]:
    """Outputs against the contract: every check carried out and passed, the schema, the budgets."""
    found = []
    carried_out = {result.id: result for result in results if result.ok is not None}
    for check in problem.acceptance:
        result = carried_out.get(check.id)
        if result is None:
            failed = next((f": {other.detail}" for other in results if other.id == check.id), "")
            found.append(_blocking(SKIPPED, subject, f"{check.id} was not carried out{failed}"[:500]))
        elif not result.ok:
            found.append(_blocking(f"acceptance:{check.id}", subject, f"check:{check.id}: {result.detail}"[:500]))
    if not isinstance(outputs, dict):
        found.append(_blocking(SCHEMA, subject, f"the outputs are no object but {type(outputs).__name__}"))
    else:
        wrong = schema_errors(outputs, problem.output_schema, "outputs")
        if wrong:
            found.append(_blocking(SCHEMA, subject, "; ".join(wrong)[:500]))
    over = [
        f"{name} {usage[name]} > {getattr(problem.budgets, limit)}"
        for name, limit in _LIMITS.items()
        if usage.get(name, 0) > getattr(problem.budgets, limit)
    ]
    if over:
        found.append(_blocking(BUDGET, subject, ", ".join(over)))
    return found
