"""Submitted plans: when one is taken, what happens to one that lacks something, and when it is enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.saga.errors import PlanRefusedError, QuotaError, RefusedError
from harness.saga.parse import ParsedPlan, parse_plan
from harness.saga.profiles import Profile
from harness.saga.requests import MAX_CRITERIA, MAX_STAGES, Advance
from harness.saga.store import Turn

if TYPE_CHECKING:
    from harness.saga.dispatch import Answer

MAX_INCOMPLETE = 3
_SHORTEN = "Write a shorter plan: fewer stages, each with one or two criteria that are complete."


def submit_plan(turn: Turn, given: Advance, profile: Profile, *, strict: bool) -> Answer | None:
    """Take a plan, or say why not yet.

    Returns
    -------
    dict or None
        The answer if the plan lacks something; None if it is the saga's plan now.

    Raises
    ------
    RefusedError
        If there is a plan and no new one is asked for, or a person must decide first.
    PlanRefusedError
        If no stage can be read from it; nothing has changed then.
    """
    state = turn.state
    if state.plan is not None and not given.replan:
        raise RefusedError("there is a plan already; send replan=true to begin with a new one")
    if state.plan is not None and state.kind == "awaiting_human":
        raise RefusedError("a person must decide first; a new plan does not answer for them")
    plan = parse_plan(given.plan_yaml, profile.rules(strict=strict))
    if not plan.stages:
        raise PlanRefusedError(
            "no stage can be read from planYaml: it needs headings `## Stage 1: Title`, each with a fenced yaml block"
        )
    if len(plan.stages) > MAX_STAGES:
        raise QuotaError(f"the plan has {len(plan.stages)} stages; at most {MAX_STAGES} are taken")
    most = max(len(stage.done_criteria) for stage in plan.stages)
    if most > MAX_CRITERIA:
        raise QuotaError(f"a stage has {most} criteria; at most {MAX_CRITERIA} are taken")
    if plan.missing and not given.accept_incomplete:
        return _incomplete(turn, plan)
    least, recommended = profile.strategy.min_stages, profile.strategy.max_stages
    if not least <= len(plan.stages) <= recommended:
        plan.notices.append(
            f"the plan has {len(plan.stages)} stages; {least} to {recommended} are usual for {profile.id}"
        )
    if state.kind == "clarifying_requirements":
        turn.emit("clarification_skipped", reason="a plan was submitted")
    turn.emit(
        "plan_produced",
        stageCount=len(plan.stages),
        stages=list(plan.stages),
        summary=plan.summary,
        version=state.plan_version + 1,
        notices=plan.notices,
        missing=plan.missing,
    )
    return None


def _incomplete(turn: Turn, plan: ParsedPlan) -> Answer:
    attempt = turn.state.plan_attempts + 1
    turn.emit("plan_rejected", missingFields=plan.missing, attempt=attempt)
    if attempt >= MAX_INCOMPLETE:
        details = f"{attempt} plans lacked something, the last one {', '.join(plan.missing[:5])}"
        turn.emit("saga_terminated", reason="plan_rejected", details=details)
        return {"nextAction": "terminated", "reason": "plan_rejected", "details": details}
    answer: dict[str, Any] = {
        "status": "plan_incomplete",
        "missingFields": plan.missing,
        "feedback": plan.feedback if attempt == 1 else f"{plan.feedback}\n{_SHORTEN}",
        "attempt": attempt,
        "notices": plan.notices,
    }
    return answer
