"""A saga's history as a record: what ``sherpa saga watch`` and ``sherpa saga report`` draw."""

from __future__ import annotations

from typing import Any

from harness.saga.model import SagaState
from harness.saga.store import Loaded, RunStore
from sherpa.reports.pages import environment

Event = dict[str, Any]
_PASSING = ("pass", "deferred")


def history(store: RunStore, saga_id: str) -> dict[str, Any]:
    """Stages with their attempts, checks and verdicts, in the order in which things happened.

    Returns
    -------
    dict
        ``sagaId, profile, goal, summary, status, details, usage, stages[], timeline[], problems[]``. A stage holds
        ``id, title, goal, mark, attempts, checks[] (of the last run), evaluations[], artifacts[]``.
    """
    loaded, events = store.load(saga_id), store.events(saga_id)
    state = loaded.state
    end = state.termination
    return {
        "sagaId": state.saga_id,
        "profile": state.profile,
        "goal": state.goal,
        "summary": "" if state.plan is None else state.plan.summary,
        "status": "live" if end is None else end.reason,
        "details": _waiting(state) if end is None else end.details,
        "usage": {"tokens": state.usage.tokens, "wallMs": state.usage.wall_ms},
        "stages": _stages(state, events),
        "timeline": [
            {"seq": event["seq"], "ts": event["ts"], "type": event["type"], "stage": event.get("stageId"), "text": text}
            for event in events
            if (text := told(event)) is not None
        ],
        "problems": loaded.problems,
    }


def _waiting(state: SagaState) -> str:
    return "not begun" if state.transition is None else state.transition.kind.replace("_", " ")


def _stages(state: SagaState, events: list[Event]) -> list[dict[str, Any]]:
    found = []
    for at, stage in enumerate(state.stages):
        own = [event for event in events if event.get("stageId") == stage.id]
        checks = [event for event in own if event["type"] == "hard_checks_completed"]
        found.append(
            {
                "id": stage.id,
                "title": stage.title,
                "goal": stage.goal,
                "mark": "done" if at < state.cursor else "current" if at == state.cursor else "open",
                "attempts": sum(event["type"] == "worker_finished" for event in own),
                "checks": [
                    {**result, "passed": result["status"] in _PASSING}
                    for result in (checks[-1]["results"] if checks else [])
                ],
                "evaluations": [
                    {"passed": e["passed"], "score": e.get("score"), "issues": e.get("issues", [])}
                    for e in own
                    if e["type"] == "deep_eval_completed"
                ],
                "artifacts": [
                    {"path": path, "bytes": artifact.bytes, "sha256": artifact.sha256}
                    for path, artifact in sorted(state.artifacts_of(stage.id).items())
                ],
            }
        )
    return found


def told(event: Event) -> str | None:
    """What an event says to a reader; None for those that only keep the books."""
    kind = event["type"]
    match kind:
        case "saga_created":
            return f"created with the profile {event['profile']}"
        case "clarification_asked":
            return f"asked: {'; '.join(event['questions'])}"
        case "clarification_answered":
            return f"answered: {event['answer']}"
        case "plan_rejected":
            return f"plan lacks {', '.join(event['missingFields'])}"
        case "plan_produced":
            return f"plan of {event['stageCount']} stages"
        case "worker_mode_queued":
            return f"stage begun ({event.get('cause', 'queued')})"
        case "artifacts_submitted":
            return f"handed over: {', '.join(item['path'] for item in event['items'])}"
        case "hard_checks_completed":
            failed = [r for r in event["results"] if r["status"] not in _PASSING]
            return f"checks failed: {'; '.join(r['detail'] for r in failed)}" if failed else "checks passed"
        case "deep_eval_completed":
            word = "escalated" if event.get("escalate") else "passed" if event["passed"] else "did not pass"
            return f"evaluation {word}" + "".join(f"; {issue}" for issue in event.get("issues", []))
        case "recovery_attempt":
            return f"{event['method']} ({event.get('rootCause', 'unknown cause')}), attempt {event['attempt']}"
        case "artifacts_superseded":
            return f"put away: {', '.join(event['paths'])}"
        case "eval_completed":
            return "stage passed"
        case "human_escalated":
            return f"a person is asked: {event['reason']}"
        case "human_input_received":
            return f"the person says: {event['text']}"
        case "advisory_injected":
            return f"memory asked ({event['mode']}, {'told' if event['delivered'] else 'not told'})"
        case "saga_terminated":
            return f"ended: {event['reason']}: {event.get('details', '')}"
        case "saga_cancelled":
            return f"cancelled: {event['reason']}"
    return None


def to_html(record: dict[str, Any]) -> str:
    """A history as one page that loads nothing."""
    return environment("harness.saga").get_template("history.html.j2").render(saga=record)


def changed_since(store: RunStore, saga_id: str, seq: int) -> tuple[Loaded, list[Event]]:
    """The saga as it is, and its events after a sequence number."""
    loaded = store.load(saga_id)
    if loaded.state.last_seq == seq:
        return loaded, []
    return loaded, [event for event in store.events(saga_id) if event["seq"] > seq]
