"""Deep evaluation inside the dispatcher: the prompt, and what a verdict leads to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from harness.saga.errors import RefusedError
from harness.saga.evaluate import EvalVerdict, judge
from harness.saga.failing import Failing
from harness.saga.model import Stage
from harness.saga.prompts import evaluation_prompt

if TYPE_CHECKING:
    from harness.saga.dispatch import Answer, Dispatcher


@dataclass
class Verdicts:
    """The evaluator's turn."""

    dispatcher: Dispatcher

    def prompt(self, stage: Stage) -> Answer:
        """Ask for a verdict, as often as it takes."""
        needs = self.dispatcher.needs
        advice = needs.advise(self.dispatcher.turn, "evaluation")
        shown = needs.artifacts.of_stage(self.dispatcher.state, stage)
        text = evaluation_prompt(stage, needs.profile, shown, needs.nonce(), advice=advice)
        return {"nextAction": "eval_deep_required", "stageId": stage.id, "evalPrompt": text}

    def judged(self, stage: Stage, raw: Any, external: Any, diagnostics: dict[str, Any] | None) -> Answer:
        """Take a verdict.

        Raises
        ------
        RefusedError
            If the artefacts are not those that the prompt showed.
        """
        dispatcher, needs = self.dispatcher, self.dispatcher.needs
        transition = dispatcher.state.transition
        digest = needs.artifacts.digest(dispatcher.state, stage)
        if transition is not None and transition.digest is not None and transition.digest != digest:
            raise RefusedError(
                "the artifacts have changed since the evaluation was asked for; send workerFinished again"
            )
        evaluator = needs.profile.evaluator
        texts = [
            data.decode("utf-8", "replace")
            for path in dispatcher.state.artifact_index
            if (data := needs.artifacts.read(path)) is not None
        ]
        verdict = judge(raw, evaluator.checklist, required=evaluator.require_checklist, texts=texts)
        warnings = [*verdict.warnings, *self._doubts(verdict, external)]
        dispatcher.warnings += warnings
        dispatcher.turn.emit(
            "deep_eval_completed",
            stageId=stage.id,
            passed=verdict.passed,
            score=verdict.score,
            claimedScore=verdict.claimed_score,
            escalate=verdict.escalate,
            issues=list(verdict.issues),
            checklist=list(verdict.checklist),
            evaluatorSession=verdict.evaluator_session,
            warnings=warnings,
        )
        if verdict.escalate:
            reason = f"criteria unachievable – {'; '.join(verdict.issues)}"
            return dispatcher.ask_human(stage, reason, "verdict")
        if not verdict.passed:
            whole = msgspec.to_builtins(verdict)
            return Failing(dispatcher, stage, diagnostics).failed(list(verdict.issues), evaluation=whole)
        if evaluator.require_external_check and _says_no(external):
            said = "; ".join(str(issue) for issue in external.get("issues") or ()) or "no reason was given"
            return dispatcher.terminate("external_check_failed", f"the external reviewer says no: {said}")
        return dispatcher.passed(stage, verdict.score)

    def _doubts(self, verdict: EvalVerdict, external: Any) -> list[str]:
        state, doubts = self.dispatcher.state, []
        if verdict.evaluator_session is not None and verdict.evaluator_session == state.session:
            doubts.append("the evaluator's session is the worker's own")
        required = self.dispatcher.needs.profile.evaluator.require_external_check
        if required and verdict.passed and not isinstance(external, dict):
            doubts.append("the profile wants an external check, and no externalVerdict was sent")
        return doubts


def _says_no(external: Any) -> bool:
    return isinstance(external, dict) and external.get("passed") is not True
