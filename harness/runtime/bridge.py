"""From a run's log to events of procedural memory, and from memory's advice to a message at a checkpoint.

The mapping is fixed and the ids are derived, so importing twice imports once. Bookkeeping (leases, artifacts, usage,
states of nodes) is left out: it would fill every suffix. How a run ended is told by its last event only, never on the
events before it.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable
from typing import Any, NamedTuple

from harness.runtime.errors import RunStoreError
from harness.runtime.events import RunEvent
from harness.runtime.ir import digest
from harness.runtime.store import RunStore
from sherpa.event import Event, Outcome
from sherpa.instants import format_instant

NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "sherpa:runtime-events")
_ENDS: dict[str, Outcome] = {"completed": "success", "failed": "failure", "budget_exhausted": "failure"}
_ADMISSION: dict[str, tuple[str, Outcome]] = {
    "admitted": ("admission.admitted", "success"),
    "reclassify_decompose": ("admission.reclassified", "unknown"),
    "escalate": ("admission.escalated", "failure"),
}


class _Mapped(NamedTuple):
    type: str
    source: str
    outcome: Outcome = "unknown"
    labels: tuple[str, ...] = ()
    metrics: dict[str, float] | None = None


def memory_events(events: Iterable[RunEvent], *, workflow: str, agent: str = "worker") -> list[Event]:
    """Events for memory, in order.

    Parameters
    ----------
    events : iterable of RunEvent
        Of one or more runs; each run is a case.
    workflow : str
        Family of the task; the label ``workflow:<family>`` of the first event.
    agent : str
        Role of the worker.
    """
    made = []
    began: dict[str, float] = {}
    depths: dict[tuple[str, str], int] = {}
    tokens: dict[str, float] = {}
    for event in events:
        began.setdefault(event.run_id, event.ts)
        key = (event.run_id, event.node_key or "")
        if event.kind == "node_created":
            depths[key] = event.payload.get("depth") or 0
        if event.kind == "usage_checkpoint" and "tokens" in event.payload:
            tokens[event.run_id] = tokens.get(event.run_id, 0) + event.payload["tokens"]
        mapped = _mapped(event, workflow)
        if mapped is None:
            continue
        metrics = dict(mapped.metrics or {})
        if event.kind == "run_terminal":
            metrics["wallMs"] = round(1000 * (event.ts - began[event.run_id]), 3)
            if event.run_id in tokens:
                metrics["tokens"] = tokens[event.run_id]
        meta: dict[str, Any] = {"seq": event.seq, "depth": depths.get(key, 0)}
        if event.node_key:
            # The plan by hash: its id may hold words of the task.
            meta["plan"] = digest(event.node_key.rpartition(".")[0])[:16]
        made.append(
            Event(
                event_id=str(uuid.uuid5(NAMESPACE, f"{event.run_id}:{event.seq}")),
                agent_id=agent,
                case_id=event.run_id,
                ts=format_instant(int(event.ts * 1000) * 1_000_000),
                source=f"runtime.{mapped.source}",
                type=mapped.type,
                outcome=mapped.outcome,
                labels=mapped.labels,
                metrics=metrics,
                meta=meta,
            )
        )
    return made


def _mapped(event: RunEvent, workflow: str) -> _Mapped | None:
    payload = event.payload
    match event.kind:
        case "run_started":
            return _Mapped("session.started", "kernel", labels=(f"workflow:{workflow}",))
        case "plan_recorded" if payload.get("child_plan") is not None:
            return _Mapped("plan.authored", "kernel", "success")
        case "admission_checked":
            kind, outcome = _ADMISSION[payload["decision"]]
            return _Mapped(kind, "admission", outcome, (f"tool:{payload['capability']}",))
        case "tool_call_finished":
            worked = bool(payload["ok"]) and payload.get("passed") is not False
            family = payload["capability"].partition(".")[0]
            kind = f"tool.{family}.{'succeeded' if worked else 'failed'}"
            took = {"durationMs": round(1000 * payload["duration_s"], 3)}
            labels = (f"tool:{payload['capability']}",)
            return _Mapped(kind, "tool", "success" if worked else "failure", labels, took)
        case "decompose_outcome" if "/" in (event.node_key or "") or payload["parent_state"] != "running":
            counts = {"declared": payload["children_declared"], "ambiguous": payload["children_ambiguous"]}
            return _Mapped("task.completed", "kernel", "success", metrics=counts)
        case "message_delivered":
            return _Mapped("message.received", "kernel")
        case "review_round" if payload.get("verdict") is not None:
            passed = payload["verdict"] == "pass_with_risk"
            return _Mapped(
                "review.passed" if passed else "review.blocked", "review", "success" if passed else "failure"
            )
        case "cache_hit":
            return _Mapped("memory.hit", "kernel")
        case "orphan_recovered" | "run_resumed":
            return _Mapped("session.resumed", "kernel")
        case "node_state_changed" if payload["new"] == "blocked":
            return _Mapped("approval.requested", "kernel")
        case "run_terminal":
            status = payload["status"]
            end = _ENDS.get(status, "unknown")
            told: tuple[str, ...] = () if end != "unknown" else (f"terminal:{status}",)
            return _Mapped("session.ended", "kernel", end, told)
        case _:
            return None


def expose_advice(
    store: RunStore,
    run_id: str,
    node_key: str,
    *,
    arm: str,
    text: str | None,
    advisory: dict[str, Any],
) -> bool:
    """Give a node advice as a message, exactly once, and log what was exposed; returns whether it was delivered.

    Parameters
    ----------
    arm : str
        Of the study; in ``shadow`` and ``none`` nothing is delivered, but the log says what would have been.
    text : str or None
        The advice; None to be silent.
    advisory : dict
        ``state, order, confidence, candidates``.

    Raises
    ------
    RunStoreError
        If `advisory` lacks one of these.
    """
    missing = {"state", "order", "confidence", "candidates"} - advisory.keys()
    if missing:
        raise RunStoreError(f"advice lacks {', '.join(sorted(missing))}")
    delivered = text is not None and arm not in ("none", "shadow")
    with store.transaction():
        told = store.events(run_id, kinds=["advisory_exposed"])
        if any(event.node_key == node_key for event in told):
            return False
        if delivered:
            store.enqueue(run_id, node_key, {"advice": text}, sender="memory")
        sha = None if text is None else hashlib.sha256(text.encode()).hexdigest()
        payload = {"arm": arm, "delivered": delivered, "text_sha": sha, **advisory}
        store.append(run_id, "advisory_exposed", payload, node_key=node_key)
    return delivered
