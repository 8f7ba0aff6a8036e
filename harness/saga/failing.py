"""What a failure of a stage leads to: the network gets time, people are asked, the rest goes down the cascade."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.saga.checks.base import CheckResult
from harness.saga.compaction import microcompact, shortened
from harness.saga.model import Stage
from harness.saga.recovery import TRANSIENT_RETRIES, Decision, decide
from harness.saga.rootcause import RootCause, root_cause
from harness.saga.store import Turn

if TYPE_CHECKING:
    from harness.saga.dispatch import Answer, Dispatcher


def escalate(turn: Turn, stage: Stage | None, reason: str, source: str) -> None:
    """Log that a person must decide."""
    turn.emit("human_escalated", stageId=None if stage is None else stage.id, reason=reason, source=source)


@dataclass
class Failing:
    """A stage that did not pass.

    Parameters
    ----------
    diagnostics : dict, optional
        What the worker says.
    """

    dispatcher: Dispatcher
    stage: Stage
    diagnostics: dict[str, Any] | None = None

    def blocked(self, why: str) -> Answer:
        """The worker says that the stage is impossible: that is for a person."""
        reason = f"stage {self.stage.id} is said to be impossible: {why}"
        return self.dispatcher.ask_human(self.stage, reason, "information_unavailable")

    def failed(
        self,
        issues: Sequence[str],
        results: Sequence[CheckResult] = (),
        *,
        evaluation: dict[str, Any] | None = None,
    ) -> Answer:
        """Find the cause and do what it asks for.

        Parameters
        ----------
        evaluation : dict, optional
            The whole verdict, if it was the evaluator who said no.
        """
        cause = root_cause(results, issues, self.diagnostics)
        if cause.strategy == "terminal" and cause.reason is not None:
            self._log_terminal(issues, cause)
            return self.dispatcher.terminate(cause.reason, cause.message)
        if cause.strategy == "awaiting_human":
            return self.dispatcher.ask_human(self.stage, cause.message, cause.kind)
        state, stage = self.dispatcher.state, self.stage
        used = state.transient_retries.get(stage.id, 0)
        if cause.kind == "network_transient" and used < TRANSIENT_RETRIES:
            return self._again(issues, cause, used + 1)
        digest = self.dispatcher.needs.artifacts.digest(state, stage)
        held = state.failures.get(stage.id)
        repeats = held.count + 1 if held is not None and digest and held.digest == digest else 1
        recovery = self.dispatcher.needs.profile.recovery
        stuck = repeats >= recovery.stuck_detection.no_progress_rework_limit
        decision = decide(state, stage.id, issues, stuck=stuck, cap=recovery.max_rework_per_stage)
        return self._recover(issues, cause, decision, digest, 0 if decision.stuck else repeats, evaluation)

    def _log_terminal(self, issues: Sequence[str], cause: RootCause) -> None:
        self.dispatcher.turn.emit(
            "recovery_attempt",
            stageId=self.stage.id,
            attempt=self.dispatcher.state.recovery_attempts.get(self.stage.id, 0),
            method="terminal",
            layer=None,
            rootCause=cause.kind,
            issues=list(issues),
        )

    def _again(self, issues: Sequence[str], cause: RootCause, number: int) -> Answer:
        """The network's fault: the same once more, and no attempt is used up."""
        attempt = self.dispatcher.state.recovery_attempts.get(self.stage.id, 0)
        self.dispatcher.turn.emit(
            "recovery_attempt",
            stageId=self.stage.id,
            attempt=attempt,
            method="fix-attempt",
            layer=0,
            rootCause=cause.kind,
            issues=[cause.message, *issues],
            transientRetry=number,
        )
        return self._revision(cause, f"{cause.message}; try again (no attempt was used up)", [cause.message, *issues])

    def _recover(
        self,
        issues: Sequence[str],
        cause: RootCause,
        decision: Decision,
        digest: str,
        repeats: int,
        evaluation: dict[str, Any] | None,
    ) -> Answer:
        if decision.method == "terminal":
            self._log_terminal(issues, cause)
            return self.dispatcher.terminate("worker_unrecoverable", decision.diagnostic)
        shown, extra = list(issues), {}  # type: list[str], dict[str, Any]
        if decision.method == "microcompact-retry":
            shown, extra = self._compacted(issues, evaluation, decision.attempt)
        elif decision.method == "full-rework":
            shown = [shortened("; ".join(issues))]
        turn = self.dispatcher.turn
        turn.emit(
            "recovery_attempt",
            stageId=self.stage.id,
            attempt=decision.attempt,
            method=decision.method,
            layer=decision.layer,
            rootCause=cause.kind,
            issues=shown,
            digest=digest,
            repeats=repeats,
            stuck=decision.stuck,
            **extra,
        )
        if decision.method == "full-rework":
            # That the artefacts go is on the disk before they do: a crash in between is carried on from there.
            turn.flush()
            self.dispatcher.needs.artifacts.supersede(turn, self.stage.id)
            begun = self.dispatcher.begin("rework")
            return {**begun, "reason": decision.diagnostic, "rootCause": cause.kind, "issues": shown}
        if decision.method == "microcompact-retry":
            reason = f"{decision.method} for stage {self.stage.id}: {shown[0]}"
            return {**self._revision(cause, reason, shown), "fresh": True}
        return self._revision(cause, decision.diagnostic, shown)

    def _compacted(
        self, issues: Sequence[str], evaluation: dict[str, Any] | None, attempt: int
    ) -> tuple[list[str], dict[str, Any]]:
        """The whole evaluation goes to a file, its short form into the context."""
        whole = evaluation or {"passed": False, "score": None, "issues": list(issues)}
        eval_id = f"{self.stage.id}-{attempt}"
        name = f"evals/{eval_id}.json"
        compact = microcompact(whole, self.stage.id, name)
        self.dispatcher.needs.artifacts.record(name, {**whole, "compact": compact})
        return [compact["summary"]], {"evalId": eval_id, "compact": compact}

    def _revision(self, cause: RootCause, reason: str, issues: list[str]) -> Answer:
        return {
            "nextAction": "revision_queued",
            "stageId": self.stage.id,
            "reason": reason,
            "issues": issues,
            "rootCause": cause.kind,
        }
