"""The dispatcher: ordered sites, each of which looks at the transition and either answers or leaves it to the next.

A site changes the saga through events only. What it needs of the world (checks, files, a planner, a clarifier, the
clock's limits) comes in as `Dependencies`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.saga.artifacts import Artifacts
from harness.saga.checks.base import CheckResult
from harness.saga.criteria import needs_evaluator, normalise
from harness.saga.errors import RefusedError
from harness.saga.failing import Failing, escalate
from harness.saga.model import Exchange, SagaState, Stage, TerminationReason
from harness.saga.parse import ParsedPlan
from harness.saga.profiles import Profile
from harness.saga.prompts import enriched_goal
from harness.saga.rootcause import is_plan_rejection
from harness.saga.store import Turn
from harness.saga.verdicts import Verdicts
from sherpa.errors import SherpaError

Answer = dict[str, Any]
_STOP = re.compile(
    r"\s*(?:够了|不用问了|skip(?: it| this| that)?|enough|no more(?: questions)?)(?: please)?"
    r"\s*(?:$|[,.;:!，。；：！\n])",
    re.IGNORECASE,
)
_RELAX = re.compile(r"\s*(?:relax|loosen|放宽)\b", re.IGNORECASE)
_READY = (None, "plan_required", "eval_passed")
"""Transitions from which the current stage is simply begun: what a crash between two events leaves behind, too."""


def no_planner(goal: str) -> ParsedPlan:
    """The default planner: the host agent has to plan."""
    return ParsedPlan()


def no_questions(goal: str, history: Sequence[Exchange], number: int) -> list[str]:
    """The default clarifier: the skill has asked before the start."""
    return []


@dataclass(frozen=True)
class Signals:
    """What came with a call."""

    worker_finished: bool = False
    human_input: str | None = None
    criteria_patch: Sequence[Any] | None = None
    verdict: Any = None
    external: Any = None
    diagnostics: dict[str, Any] | None = None


@dataclass
class Dependencies:
    """What a dispatcher needs of the world.

    Attributes
    ----------
    checks : callable
        Runs the criteria of a stage.
    advise : callable
        What the memory says at a point (``plan``, ``worker``, ``evaluation``), logged; None for nothing to be heard.
    inject : callable
        Told of each stage that is begun, for hosts that put it before the agent.
    completed : callable
        Told before a saga is stamped as completed; may give a warning for the caller.
    unattended : bool
        Nobody is there to ask.
    """

    profile: Profile
    artifacts: Artifacts
    checks: Callable[[Stage], list[CheckResult]]
    nonce: Callable[[], str]
    planner: Callable[[str], ParsedPlan] = no_planner
    clarifier: Callable[[str, Sequence[Exchange], int], list[str]] = no_questions
    advise: Callable[[Turn, str], str | None] = lambda turn, point: None
    inject: Callable[[SagaState, Stage], None] = lambda state, stage: None
    completed: Callable[[SagaState], str | None] = lambda state: None
    unattended: bool = False


@dataclass
class Dispatcher:
    """One call of one saga.

    Attributes
    ----------
    turn : Turn
    needs : Dependencies
    warnings : list of str
        What the caller should know although the call went on.
    """

    turn: Turn
    needs: Dependencies
    warnings: list[str] = field(default_factory=list)

    @property
    def state(self) -> SagaState:
        return self.turn.state

    def advance(self, signals: Signals) -> Answer:
        """One decision. An error that nobody foresaw ends the saga, with its state kept.

        Raises
        ------
        SherpaError, OSError
            If the call is refused, or the disk is; no event of it is to be stored then.
        """
        try:
            for site in (
                self._over,
                self._budget,
                self._clarify,
                self._plan,
                self._begin,
                self._refuse_out_of_turn,
                self._finished,
                self._judged,
                self._revise,
                self._await_human,
                self._go_on,
            ):
                answer = site(signals)
                if answer is not None:
                    return answer
            return self.terminate("internal_error", f"no site knows the state {self.state.kind!r}")
        except (SherpaError, OSError):
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            return self.terminate("plan_rejected" if is_plan_rejection(text) else "internal_error", text)

    # -- what sites share --------------------------------------------------------------------------------------

    def terminate(self, reason: TerminationReason, details: str) -> Answer:
        """Stamp the saga."""
        if reason == "completed" and (warning := self.needs.completed(self.state)) is not None:
            self.warnings.append(warning)
        self.turn.emit("saga_terminated", reason=reason, details=details)
        return self._over(Signals()) or {}

    def begin(self, cause: str) -> Answer:
        """Begin the current stage, or end if there is none."""
        stage = self.state.current
        if stage is None:
            return self.terminate("completed", f"All {len(self.state.stages)} stages passed")
        self.needs.inject(self.state, stage)
        revision = self.state.mode_revision + 1
        self.turn.emit("worker_mode_queued", stageId=stage.id, modeRevision=revision, cause=cause)
        return {"nextAction": "worker_mode_queued", "stageId": stage.id, "cause": cause}

    def passed(self, stage: Stage, score: float | None) -> Answer:
        """Advance after a pass: the one place where the cursor moves."""
        self.turn.emit("eval_completed", stageId=stage.id, passed=True, score=score)
        following = self.state.current
        if following is None:
            return self.begin("end")
        self.turn.emit("stage_advanced", fromStageId=stage.id, toStageId=following.id)
        return self.begin("advance")

    def ask_human(self, stage: Stage | None, reason: str, source: str) -> Answer:
        """Wait for a person, unless nobody is there."""
        escalate(self.turn, stage, reason, source)
        if self.needs.unattended:
            return self.terminate("human_input_required", f"a person must decide, and nobody is there: {reason}")
        return self._await_human(Signals()) or {}

    # -- the sites ---------------------------------------------------------------------------------------------

    def _over(self, signals: Signals) -> Answer | None:
        found = self.state.termination
        if found is None:
            return None
        return {"nextAction": "terminated", "reason": found.reason, "details": found.details}

    def _budget(self, signals: Signals) -> Answer | None:
        usage, budget, stage = self.state.usage, self.needs.profile.budget, self.state.current
        spent = usage.per_stage_tokens.get(stage.id, 0) if stage is not None else 0
        for used, most, unit in (
            (usage.tokens, budget.max_tokens, "tokens"),
            (usage.wall_ms, budget.max_wall_clock_minutes * 60_000, "milliseconds"),
            (spent, budget.per_stage_token_cap, "tokens in this stage"),
        ):
            if used > most:
                return self.terminate("budget_exceeded", f"{used} {unit} were used; the profile allows {most}")
        return None

    def _clarify(self, signals: Signals) -> Answer | None:
        state = self.state
        asked = state.kind == "clarifying_requirements"
        if state.plan is not None or state.clarification_closed or state.kind == "awaiting_plan_yaml":
            return None
        if not asked and state.clarification_round >= state.clarification_limit:
            return None
        if self.needs.unattended:
            self.turn.emit("clarification_skipped", reason="nobody is there to ask")
            return None
        if asked and signals.human_input is None:
            return self._questions()
        if signals.human_input is not None and asked:
            pending = state.transition.questions if state.transition is not None else ()
            number = state.clarification_round + 1
            self.turn.emit(
                "clarification_answered", round=number, question="\n".join(pending), answer=signals.human_input
            )
            if _STOP.match(signals.human_input) or number >= state.clarification_limit:
                why = (
                    "the user wants no more questions" if number < state.clarification_limit else "all rounds are used"
                )
                self.turn.emit("clarification_skipped", reason=why)
                return None
        state = self.state
        questions = self.needs.clarifier(state.goal, state.clarification_history, state.clarification_round)
        if not questions:
            self.turn.emit("clarification_skipped", reason="there is nothing to ask")
            return None
        self.turn.emit("clarification_asked", round=state.clarification_round, questions=list(questions))
        return self._questions()

    def _questions(self) -> Answer:
        state = self.state
        return {
            "nextAction": "clarification_needed",
            "questions": list(state.transition.questions if state.transition is not None else ()),
            "round": state.clarification_round,
            "limit": state.clarification_limit,
        }

    def _plan(self, signals: Signals) -> Answer | None:
        if self.state.plan is not None:
            return None
        found = self.needs.planner(enriched_goal(self.state.goal, self.state.clarification_history))
        if found.stages:
            self.adopt(found)
            return self.begin("plan")
        if self.state.kind != "awaiting_plan_yaml":
            self.turn.emit("plan_requested")
        advice = self.needs.advise(self.turn, "plan")
        return {
            **({"advice": advice} if advice else {}),
            "nextAction": "await_human",
            "reason": "plan_required",
            "diagnostic": "there is no plan yet; write one as planPrompt says and submit it as planYaml",
        }

    def adopt(self, plan: ParsedPlan) -> None:
        """Make a plan the saga's plan."""
        self.turn.emit(
            "plan_produced",
            stageCount=len(plan.stages),
            stages=list(plan.stages),
            summary=plan.summary,
            version=self.state.plan_version + 1,
            notices=plan.notices,
        )

    def _begin(self, signals: Signals) -> Answer | None:
        return self.begin("resume" if self.state.mode_revision else "plan") if self.state.kind in _READY else None

    def _refuse_out_of_turn(self, signals: Signals) -> Answer | None:
        if signals.verdict is not None and self.state.kind != "eval_deep_pending":
            raise RefusedError(f"no evaluation is pending (the saga is at {self.state.kind}); evalResult was not taken")
        if signals.human_input is not None and self.state.kind != "awaiting_human":
            self.warnings.append("humanInput was not asked for and was not stored")
        return None

    def _finished(self, signals: Signals) -> Answer | None:
        if not signals.worker_finished or self.state.kind == "awaiting_human":
            return None
        stage = self.state.current
        if stage is None:
            return self.begin("end")
        digest = self.needs.artifacts.digest(self.state, stage)
        transition = self.state.transition
        if transition is not None and transition.kind == "eval_deep_pending" and transition.digest == digest:
            return Verdicts(self).prompt(stage)
        attempt = self.state.recovery_attempts.get(stage.id, 0) + 1
        self.turn.emit("worker_finished", stageId=stage.id, attempt=attempt)
        results = self.needs.checks(stage)
        self.turn.emit(
            "hard_checks_completed",
            stageId=stage.id,
            results=[{"kind": r.criterion["kind"], "status": r.status, "detail": r.detail} for r in results],
        )
        failing = Failing(self, stage, signals.diagnostics)
        why = self.needs.artifacts.blocked(self.state, stage)
        if why is not None:
            return failing.blocked(why)
        broken = [r for r in results if not r.passed]
        if broken:
            return failing.failed([f"{r.criterion['kind']}: {r.detail}" for r in broken], results)
        if stage.evaluator_mode == "deep" or needs_evaluator(stage.done_criteria):
            self.turn.emit("eval_deep_required", stageId=stage.id, digest=digest)
            return Verdicts(self).prompt(stage)
        return self.passed(stage, None)

    def _judged(self, signals: Signals) -> Answer | None:
        stage = self.state.current
        if self.state.kind != "eval_deep_pending" or stage is None:
            return None
        if signals.verdict is None:
            return Verdicts(self).prompt(stage)
        return Verdicts(self).judged(stage, signals.verdict, signals.external, signals.diagnostics)

    def _revise(self, signals: Signals) -> Answer | None:
        state, stage = self.state, self.state.current
        if stage is None or state.transition is None:
            return None
        issues = list(state.transition.issues)
        if state.kind == "eval_needs_fix_attempt":
            reason = f"stage {stage.id} needs a fix: {'; '.join(issues)}"
            return {"nextAction": "revision_queued", "stageId": stage.id, "reason": reason, "issues": issues}
        if state.kind == "microcompact_retry":
            return {**self.begin("microcompact"), "issues": issues, "fresh": True}
        if state.kind == "rework_full":
            self.needs.artifacts.supersede(self.turn, stage.id)
            return {**self.begin("rework"), "issues": issues}
        return None

    def _await_human(self, signals: Signals) -> Answer | None:
        state, stage = self.state, self.state.current
        if state.kind != "awaiting_human":
            return None
        if signals.human_input is None:
            if signals.worker_finished:
                self.warnings.append("workerFinished was not taken: a person must decide first")
            return {
                "nextAction": "await_human",
                "stageId": None if stage is None else stage.id,
                "reason": "" if state.transition is None else state.transition.reason or "",
                "options": [
                    "cancel the saga (saga_cancel)",
                    "answer through humanInput; begin it with 'relax' and add criteriaPatch to drop or alter criteria",
                ],
            }
        payload: dict[str, Any] = {"stageId": None if stage is None else stage.id, "text": signals.human_input}
        if signals.criteria_patch is not None:
            if not _RELAX.match(signals.human_input):
                raise RefusedError("criteriaPatch needs a humanInput that begins with 'relax'")
            if stage is None:
                raise RefusedError("criteriaPatch needs a stage, and there is none")
            payload |= self._patched(stage, signals.criteria_patch)
        self.turn.emit("human_input_received", **payload)
        return self.begin("human")

    def _patched(self, stage: Stage, patch: Sequence[Any]) -> dict[str, Any]:
        """The criteria after dropping and altering some of them, by their place from 1."""
        criteria: list[Any] = list(stage.done_criteria)
        notices: list[str] = []
        for entry in patch:
            at = entry.get("index") if isinstance(entry, dict) else None
            if type(at) is not int or not 1 <= at <= len(criteria):
                raise RefusedError(f"criteriaPatch: {str(entry)[:80]} has no index from 1 to {len(criteria)}")
            if entry.get("action") == "drop":
                criteria[at - 1] = None
            elif entry.get("action") == "alter" and isinstance(entry.get("criterion"), dict):
                missing: list[str] = []
                criteria[at - 1] = normalise(entry["criterion"], stage.id, at, missing, notices)
                if missing:
                    raise RefusedError(f"criteriaPatch lacks {', '.join(missing)}")
            else:
                raise RefusedError("criteriaPatch: action is 'drop', or 'alter' with a criterion")
        kept = [criterion for criterion in criteria if criterion is not None]
        kept = kept or [{"kind": "free-form", "desc": f"The goal is met: {stage.goal or stage.title}"}]
        mode = "deep" if needs_evaluator(kept) else stage.evaluator_mode
        self.warnings += notices
        return {"criteria": kept, "evaluatorMode": mode, "patch": list(patch)}

    def _go_on(self, signals: Signals) -> Answer | None:
        stage = self.state.current
        if self.state.kind != "worker_mode_injected" or stage is None:
            return None
        return {"nextAction": "continue_worker_now", "stageId": stage.id}
