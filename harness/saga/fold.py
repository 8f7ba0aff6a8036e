"""state == fold(events): what each event does to the state, and nothing else does.

Events are the decoded lines of the log. Logs of the original (no ``v``, no ``seq``) are folded too: a line counts as
its place in the file, and a stage is passed once, however many events say so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from harness.saga.errors import StateCorruptedError
from harness.saga.model import (
    Artifact,
    Exchange,
    Failures,
    Plan,
    ProfileId,
    SagaState,
    Stage,
    Termination,
    Transition,
    TransitionKind,
    Usage,
)

Event = dict[str, Any]
VERSION = 2
KEPT_REQUESTS = 20
V1_CLARIFICATION_ROUNDS = {"ops": 2, "research": 2, "curation": 1, "review": 1, "generic": 1}
"""What a profile allowed in logs that do not say it."""
_MARKER: dict[str, TransitionKind] = {
    "fix-attempt": "eval_needs_fix_attempt",
    "microcompact-retry": "microcompact_retry",
    "full-rework": "rework_full",
}


def fold(events: Iterable[Event], state: SagaState | None = None) -> SagaState | None:
    """The state after some events; None if there is no event at all.

    Raises
    ------
    StateCorruptedError
        If the log does not begin with a saga's creation, or an event lacks a field it needs.
    """
    for event in events:
        state = apply(state, event)
    return state


def apply(state: SagaState | None, event: Event) -> SagaState:
    """The state after one more event. A type that is not known changes nothing but the sequence number."""
    kind = event.get("type")
    seq = event.get("seq") or (0 if state is None else state.last_seq) + 1
    try:
        if kind == "state_imported":
            after = msgspec.convert(event["state"], SagaState)
        elif kind == "saga_created":
            after = _created(event)
        elif state is None:
            raise StateCorruptedError(f"the log begins with {kind!r}, not with saga_created")
        else:
            change = _CHANGES.get(str(kind))
            after = state if change is None else change(state, event)
    except (KeyError, TypeError, ValueError) as error:
        raise StateCorruptedError(f"event {seq} ({kind}) cannot be applied: {error}") from None
    if event.get("requestId") is not None:
        after = with_request(after, event["requestId"])
    return replace(after, last_seq=seq)


def with_request(state: SagaState, request: str) -> SagaState:
    """The state that remembers a request as answered."""
    return replace(state, requests=(*state.requests, request)[-KEPT_REQUESTS:])


def digest_of(artifacts: Mapping[str, Artifact]) -> str:
    """One hash for a set of artefacts; empty for no artefact."""
    if not artifacts:
        return ""
    lines = "\n".join(f"{path}\0{artifacts[path].sha256}" for path in sorted(artifacts))
    return hashlib.sha256(lines.encode()).hexdigest()


def _is_v1(event: Event) -> bool:
    return "v" not in event


def _created(event: Event) -> SagaState:
    limit = event.get("clarificationLimit")
    return SagaState(
        saga_id=event["sagaId"],
        profile=msgspec.convert(event["profile"], ProfileId),
        goal=event["goal"],
        clarification_limit=V1_CLARIFICATION_ROUNDS.get(event["profile"], 3) if limit is None else limit,
        session=event.get("session"),
    )


def _clarification_asked(state: SagaState, event: Event) -> SagaState:
    marker = Transition(kind="clarifying_requirements", questions=tuple(event["questions"]))
    return replace(state, transition=marker, clarification_round=event["round"])


def _clarification_answered(state: SagaState, event: Event) -> SagaState:
    exchange = Exchange(question=event["question"], answer=event["answer"])
    history = (*state.clarification_history, exchange)
    return replace(state, clarification_history=history, clarification_round=event["round"], transition=None)


def _clarification_skipped(state: SagaState, event: Event) -> SagaState:
    return replace(state, clarification_closed=True, transition=None)


def _plan_requested(state: SagaState, event: Event) -> SagaState:
    return replace(state, transition=Transition(kind="awaiting_plan_yaml"))


def _plan_rejected(state: SagaState, event: Event) -> SagaState:
    return replace(state, plan_attempts=event["attempt"])


def _plan_produced(state: SagaState, event: Event) -> SagaState:
    stages = msgspec.convert(event["stages"], tuple[Stage, ...])
    return replace(
        state,
        plan=Plan(summary=event.get("summary", ""), stages=stages),
        stages=stages,
        cursor=0,
        transition=None if _is_v1(event) else Transition(kind="plan_required"),
        plan_version=event.get("version", state.plan_version + 1),
        plan_attempts=0,
        # The original kept its counters, and opened a saga again that had ended.
        recovery_attempts=state.recovery_attempts if _is_v1(event) else {},
        transient_retries={},
        failures={},
        termination=None if _is_v1(event) else state.termination,
    )


def _worker_mode_queued(state: SagaState, event: Event) -> SagaState:
    marker = Transition(kind="worker_mode_injected", stage_id=event["stageId"])
    return replace(state, transition=marker, mode_revision=event["modeRevision"])


def _artifacts_submitted(state: SagaState, event: Event) -> SagaState:
    index = dict(state.artifact_index)
    for item in event["items"]:
        index[item["path"]] = Artifact(
            sha256=item["sha256"], bytes=item["bytes"], stage_id=event["stageId"], seq=event["seq"]
        )
    return replace(state, artifact_index=index)


def _artifacts_superseded(state: SagaState, event: Event) -> SagaState:
    gone = set(event["paths"])
    kept = {path: found for path, found in state.artifact_index.items() if path not in gone}
    return replace(state, artifact_index=kept)


def _eval_deep_required(state: SagaState, event: Event) -> SagaState:
    marker = Transition(kind="eval_deep_pending", stage_id=event["stageId"], digest=event.get("digest"))
    return replace(state, transition=marker)


def _deep_eval_completed(state: SagaState, event: Event) -> SagaState:
    verdict = "passed" if event["passed"] else "escalate" if event.get("escalate") else "rework"
    entry = {
        "stageId": event["stageId"],
        "verdict": verdict,
        "score": event.get("score"),
        "issues": list(event.get("issues", ())),
    }
    if event.get("warnings"):
        entry["warnings"] = list(event["warnings"])
    after = replace(state, eval_history=(*state.eval_history, entry))
    # In logs of the original either event may be the one that survived; the other one finds the stage passed.
    return _eval_completed(after, event) if _is_v1(event) else after


def _eval_completed(state: SagaState, event: Event) -> SagaState:
    current = state.current
    if not event["passed"] or current is None or current.id != event["stageId"]:
        return state
    return replace(state, cursor=state.cursor + 1, transition=Transition(kind="eval_passed", stage_id=current.id))


def _recovery_attempt(state: SagaState, event: Event) -> SagaState:
    stage, issues = event["stageId"], tuple(event.get("issues", ()))
    if event["method"] == "terminal":
        return state
    failures = dict(state.failures)
    if event.get("digest") is not None:
        failures[stage] = Failures(digest=event["digest"], count=event["repeats"])
    if event.get("transientRetry") is not None:
        retries = {**state.transient_retries, stage: event["transientRetry"]}
        marker = Transition(kind="eval_needs_fix_attempt", stage_id=stage, attempt=event["attempt"], issues=issues)
        return replace(state, transition=marker, transient_retries=retries, failures=failures)
    marker = Transition(kind=_MARKER[event["method"]], stage_id=stage, attempt=event["attempt"], issues=issues)
    compacted = state.compacted_eval_ids
    if event.get("evalId"):
        compacted = (*compacted, event["evalId"])
    return replace(
        state,
        transition=marker,
        recovery_attempts={**state.recovery_attempts, stage: event["attempt"]},
        compacted_eval_ids=compacted,
        failures=failures,
    )


def _human_escalated(state: SagaState, event: Event) -> SagaState:
    marker = Transition(kind="awaiting_human", stage_id=event.get("stageId"), reason=event["reason"])
    return replace(state, transition=marker)


def _human_input_received(state: SagaState, event: Event) -> SagaState:
    stages = state.stages
    if event.get("criteria") is not None:
        stages = tuple(
            replace(stage, done_criteria=tuple(event["criteria"]), evaluator_mode=event["evaluatorMode"])
            if stage.id == event["stageId"]
            else stage
            for stage in stages
        )
    return replace(
        state,
        human_notes=(*state.human_notes, event["text"]),
        stages=stages,
        plan=None if state.plan is None else replace(state.plan, stages=stages),
        transition=None,
    )


def _budget_checkpoint(state: SagaState, event: Event) -> SagaState:
    per_stage = dict(state.usage.per_stage_tokens)
    if event.get("stageId"):
        per_stage[event["stageId"]] = per_stage.get(event["stageId"], 0) + event["tokens"]
    usage = Usage(
        tokens=state.usage.tokens + event["tokens"],
        wall_ms=state.usage.wall_ms + event["wallMs"],
        per_stage_tokens=per_stage,
    )
    return replace(state, usage=usage)


def _terminated(state: SagaState, event: Event) -> SagaState:
    if state.termination is not None:
        return state
    reason = "aborted_by_user" if event["type"] == "saga_cancelled" else event["reason"]
    details = event.get("details") or event.get("reason") or ""
    return replace(
        state, termination=msgspec.convert({"reason": reason, "details": details, "ts": event["ts"]}, Termination)
    )


_CHANGES: dict[str, Callable[[SagaState, Event], SagaState]] = {
    "clarification_asked": _clarification_asked,
    "clarification_answered": _clarification_answered,
    "clarification_skipped": _clarification_skipped,
    "plan_requested": _plan_requested,
    "plan_rejected": _plan_rejected,
    "plan_produced": _plan_produced,
    "worker_mode_queued": _worker_mode_queued,
    "artifacts_submitted": _artifacts_submitted,
    "artifacts_superseded": _artifacts_superseded,
    "eval_deep_required": _eval_deep_required,
    "deep_eval_completed": _deep_eval_completed,
    "eval_completed": _eval_completed,
    "recovery_attempt": _recovery_attempt,
    "human_escalated": _human_escalated,
    "human_input_received": _human_input_received,
    "budget_checkpoint": _budget_checkpoint,
    "saga_terminated": _terminated,
    "saga_cancelled": _terminated,
}
