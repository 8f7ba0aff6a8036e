"""A saga's events as events of the procedural memory. No text leaves the saga: names, counts and hashes only."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sherpa.instants import NANOS_PER_MS, parse_instant

Event = Mapping[str, Any]
Grouping = Literal["saga", "stage"]
_SPACE = uuid.UUID("8f0c2f0e-6c55-5d63-9c8e-0a9b1f4d7a11")
_RECOVERY = {
    "fix-attempt": "recovery.fix",
    "microcompact-retry": "recovery.compact",
    "full-rework": "recovery.rework",
    "terminal": "recovery.terminal",
}
_UNDECIDED = ("aborted_by_user", "human_input_required")


@dataclass
class _Told:
    """What an event is called in the memory."""

    type: str
    actor: str
    outcome: str = "unknown"
    metrics: dict[str, float] = field(default_factory=dict)
    labels: list[str] = field(default_factory=list)


def saga_to_sherpa(events: Iterable[Event], *, case: Grouping = "saga", agent_id: str = "main") -> list[dict[str, Any]]:
    """Events for ``ProceduralMemory.ingest_batch``. Their ids follow from saga and sequence number, so that a second
    import adds nothing.

    Parameters
    ----------
    case : str
        ``saga``: a case per saga; ``stage``: one per stage, short and recurring.
    """
    told: list[dict[str, Any]] = []
    profile, order, stage = "generic", {}, None  # type: str, dict[str, int], str | None
    begun: int | None = None
    for at, event in enumerate(events, start=1):
        kind = event["type"]
        if kind == "saga_created":
            profile, begun = str(event.get("profile")), parse_instant(event["ts"])
        if kind == "plan_produced":
            order = {s["id"]: n for n, s in enumerate(event["stages"], start=1)}
        stage = event.get("stageId") or event.get("fromStageId") or stage
        found = _TYPES[kind](event) if kind in _TYPES else None
        if found is None:
            continue
        saga, seq = event["sagaId"], event.get("seq", at)
        if found.type == "session.ended" and begun is not None:
            found.metrics["wallMs"] = (parse_instant(event["ts"]) - begun) / NANOS_PER_MS
        labels = [f"workflow:{profile}", *([f"stage:{order[stage]}"] if stage in order else []), *found.labels]
        told.append(
            {
                "eventId": str(uuid.uuid5(_SPACE, f"{saga}:{seq}")),
                "agentId": agent_id,
                "caseId": f"{saga}/{stage}" if case == "stage" and stage is not None else saga,
                "ts": event["ts"],
                "source": f"saga.{found.type.split('.')[0]}",
                "type": found.type,
                "actor": found.actor,
                "outcome": found.outcome,
                "labels": labels,
                "metrics": found.metrics,
            }
        )
        if kind == "stage_advanced":
            stage = event.get("toStageId")
    return told


def _checked(event: Event) -> _Told:
    results = event.get("results", [])
    failed = [r for r in results if r["status"] not in ("pass", "deferred")]
    metrics = {"nPass": float(len(results) - len(failed)), "nFail": float(len(failed))}
    kinds = sorted({f"kind:{r['kind']}" for r in (failed or results)})
    if failed:
        return _Told("check.failed", "system", "failure", metrics, kinds)
    return _Told("check.passed", "system", "success", metrics, kinds)


def _evaluated(event: Event) -> _Told:
    score = event.get("score")
    metrics = {} if score is None else {"score": float(score)}
    if event.get("escalate"):
        return _Told("eval.escalated", "agent", "unknown", metrics)
    return _Told("eval.passed" if event["passed"] else "eval.rework", "agent", _outcome(event["passed"]), metrics)


def _outcome(passed: bool) -> str:
    return "success" if passed else "failure"


def _recovered(event: Event) -> _Told:
    layer = event.get("layer")
    labels = [f"layer:{layer}"] if layer is not None else []
    return _Told(_RECOVERY[event["method"]], "system", "failure", {"attempt": float(event["attempt"])}, labels)


def _submitted(event: Event) -> _Told:
    sizes = [item["bytes"] for item in event["items"]]
    return _Told("artifact.submitted", "agent", "unknown", {"files": float(len(sizes)), "bytes": float(sum(sizes))})


def _ended(event: Event) -> _Told:
    reason = "aborted_by_user" if event["type"] == "saga_cancelled" else event["reason"]
    outcome = "success" if reason == "completed" else "unknown" if reason in _UNDECIDED else "failure"
    return _Told("session.ended", "system", outcome, {}, [f"reason:{reason}"])


_TYPES: dict[str, Callable[[Event], _Told | None]] = {
    "saga_created": lambda e: _Told("session.started", "user"),
    "clarification_asked": lambda e: _Told("clarification.asked", "agent", metrics={"round": float(e["round"])}),
    "clarification_answered": lambda e: _Told("message.received", "user", metrics={"round": float(e["round"])}),
    "plan_produced": lambda e: _Told("plan.produced", "agent", "success", {"stageCount": float(e["stageCount"])}),
    "plan_rejected": lambda e: _Told("plan.rejected", "system", "failure", {"attempt": float(e["attempt"])}),
    "worker_mode_queued": lambda e: _Told(
        "stage.started", "system", metrics={"modeRevision": float(e["modeRevision"])}
    ),
    "artifacts_submitted": _submitted,
    "hard_checks_completed": _checked,
    "eval_deep_required": lambda e: _Told("eval.requested", "system"),
    "deep_eval_completed": _evaluated,
    "recovery_attempt": _recovered,
    "stage_advanced": lambda e: _Told("stage.completed", "system", "success"),
    "human_escalated": lambda e: _Told("human.requested", "system"),
    "human_input_received": lambda e: _Told("human.answered", "user"),
    "saga_terminated": _ended,
    "saga_cancelled": _ended,
}
