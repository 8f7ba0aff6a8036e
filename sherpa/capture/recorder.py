"""From what a host tells to events in the queue: scope, case, names, redaction, time at the moment of capture."""

from __future__ import annotations

import hashlib
import re
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from sherpa.capture.queue import CaptureQueue
from sherpa.capture.routing import Boundary, TaskRouter
from sherpa.capture.rules import Captured, apply_rules
from sherpa.capture.scope import Session, decide
from sherpa.configuration import Configuration, milliseconds
from sherpa.event import Outcome
from sherpa.files import write_whole
from sherpa.instants import NANOS_PER_MS, format_instant
from sherpa.sources.openclaw.taxonomy import Taxonomy, load_taxonomy

ToolPhase = Literal["started", "succeeded", "failed"]
SessionPhase = Literal["started", "resumed", "ended"]
SOURCE = "openclaw.capture"
_ID, _NAMES, _PREVIEW = 160, 16, 160
_OUTCOMES: dict[ToolPhase, Outcome] = {"started": "unknown", "succeeded": "success", "failed": "failure"}
_SPACE = re.compile(r"\s+")
_FAMILIES = frozenset({"browser", "web", "automation"})
"""Families of tools that are captured by an option of their own."""


class Recorder:
    """Captures the events of a host.

    Parameters
    ----------
    root : Path
        Folder of the memory; the queue and the state of the routing lie there.
    configuration : Configuration, optional
    clock : callable
        Present time in nanoseconds since the epoch.
    new_id : callable
        Fresh event ids.
    """

    def __init__(
        self,
        root: Path,
        configuration: Configuration | None = None,
        *,
        clock: Callable[[], int] = time.time_ns,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self.configuration = configuration or Configuration()
        self.queue = CaptureQueue(root / "queue")
        self._clock = clock
        self._new_id = new_id
        self._taxonomy: Taxonomy = load_taxonomy()

    def session(self, session: Session, phase: SessionPhase, **metrics: float) -> list[str]:
        """A session began, went on after a pause, or ended (`messageCount`, `durationMs`); returns ids of events."""
        if not self._in_scope(session):
            return []
        now = self._clock()
        outcome: Outcome = "success" if phase == "ended" else "unknown"
        event = Captured("session", f"session.{phase}", SOURCE, "system", outcome, phase=phase, channel=session.channel)
        router = self._router(session)
        found = [(event, router.case_id if router else self._case(session), metrics)]
        if phase == "ended" and router is not None:
            found = [*self._boundaries(router.end("session-ended")), *found]
            self._keep(session, router)
        return self._capture(session, found, now)

    def message(self, session: Session, text: str) -> list[str]:
        """The user said something; returns ids of events, those of a task that begins or ends with it included."""
        if not self.configuration.capture.messages or not self._in_scope(session):
            return []
        now = self._clock()
        labels = (f"channel:{session.channel}",) if session.channel else ()
        meta: dict[str, Any] = {}
        if not self.configuration.ledger.redact_raw_text:
            meta["preview"] = text[:_PREVIEW]
        event = Captured(
            "message",
            "message.received",
            SOURCE,
            "user",
            labels=labels,
            channel=session.channel,
            content=text,
            meta=meta,
        )
        metrics = {"contentChars": float(len(text))}
        router = self._router(session)
        if router is None:
            return self._capture(session, [(event, self._case(session), metrics)], now)
        boundaries = router.message(text, now)
        before = self._boundaries([b for b in boundaries if not b.after])
        after = self._boundaries([b for b in boundaries if b.after])
        case = after[0][1] if after else router.case_id
        self._keep(session, router)
        return self._capture(session, [*before, (event, case, metrics), *after], now)

    def tool(
        self,
        session: Session,
        phase: ToolPhase,
        name: str,
        *,
        call_id: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        duration_ms: float | None = None,
        has_result: bool | None = None,
    ) -> list[str]:
        """A tool was called or came back; returns ids of events."""
        capture = self.configuration.capture
        family = self._taxonomy.family(name)
        option = family if family in _FAMILIES else "tools"
        if not getattr(capture, option) or (name.startswith("memory_") and not capture.memory_writes):
            return []
        if not self._in_scope(session):
            return []
        now = self._clock()
        tool = self._taxonomy.tool(name, dict(arguments or {})).name
        meta: dict[str, Any] = {"paramNames": sorted(arguments or {})[:_NAMES]}
        if call_id is not None:
            meta["toolCallId"] = _clean(call_id)
        metrics = {"paramCount": float(len(arguments or {}))}
        if duration_ms is not None:
            metrics["durationMs"] = float(duration_ms)
        if has_result is not None:
            metrics["hasResult"] = float(has_result)
        event = Captured(
            "tool",
            f"{family}.{phase}",
            SOURCE,
            "agent",
            _OUTCOMES[phase],
            (f"tool:{tool}", f"tool-family:{family}"),
            tool_name=tool,
            tool_family=family,
            phase=phase,
            channel=session.channel,
            meta=meta,
        )
        router = self._router(session)
        if router is not None:
            router.touch(now)
            self._keep(session, router)
        return self._capture(session, [(event, router.case_id if router else self._case(session), metrics)], now)

    def _in_scope(self, session: Session) -> bool:
        return decide(session, self.configuration).allowed

    # -- cases -------------------------------------------------------------------------------------------------

    def _case(self, session: Session) -> str:
        return (
            f"session:{_clean(session.key)}" if session.key else f"agent:{session.agent_id or 'main'}:session:default"
        )

    def _router(self, session: Session) -> TaskRouter | None:
        """The router of a session as the last process left it; None if it is not split."""
        splitting = self.configuration.case_splitting
        if splitting.by == "session" or decide(session, self.configuration).stateless:
            return None
        path = self._route(session)
        keep_text = not self.configuration.ledger.redact_raw_text
        try:
            state = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        except (OSError, msgspec.MsgspecError):
            state = {"session": _clean(session.key), "task": None, "last": None, "number": 0}
        return TaskRouter.restored(
            state,
            keep_text=keep_text,
            idle_timeout=milliseconds(splitting.idle_timeout) * NANOS_PER_MS,
            stale_timeout=milliseconds(splitting.stale_timeout) * NANOS_PER_MS,
        )

    def _keep(self, session: Session, router: TaskRouter) -> None:
        write_whole(self._route(session), msgspec.json.encode(router.state()))

    def _route(self, session: Session) -> Path:
        return self.queue.routes / f"{hashlib.sha256(session.key.encode()).hexdigest()[:32]}.json"

    def _boundaries(self, boundaries: list[Boundary]) -> list[tuple[Captured, str, dict[str, float]]]:
        outcome: dict[str, Any] = {"task.completed": "success", "task.failed": "failure"}
        return [
            (
                Captured("task", b.type, SOURCE, "system", outcome.get(b.type, "unknown"), b.labels),
                b.case_id,
                {},
            )
            for b in boundaries
        ]

    # -- events ------------------------------------------------------------------------------------------------

    def _capture(self, session: Session, found: list[tuple[Captured, str, dict[str, float]]], now: int) -> list[str]:
        stateless = decide(session, self.configuration).stateless
        events = []
        for captured, case, metrics in found:
            event = apply_rules(captured, self.configuration.taxonomy.rules)
            event_id = self._new_id()
            events.append(
                {
                    "eventId": event_id,
                    "agentId": session.agent_id or "main",
                    # A session without state shares no case: each of its events stands alone.
                    "caseId": f"{self._case(session)}:stateless:{event_id}" if stateless else case,
                    "ts": format_instant(now),
                    "source": event.source,
                    "type": event.type,
                    "actor": event.actor,
                    "outcome": event.outcome,
                    "labels": list(event.labels),
                    "metrics": metrics,
                    "meta": within_budget(event.meta, self.configuration.ledger.max_meta_bytes),
                }
            )
        self.queue.put(events)
        return [str(event["eventId"]) for event in events]


def within_budget(meta: Mapping[str, Any], budget: int) -> dict[str, Any]:
    """The meta data, the largest values dropped until its JSON fits; then it says ``metaTruncated``."""
    kept = dict(meta)
    if len(msgspec.json.encode(kept)) <= budget:
        return kept
    sizes = sorted(kept, key=lambda name: (-len(msgspec.json.encode(kept[name])), name))
    for name in sizes:
        del kept[name]
        if len(msgspec.json.encode(kept | {"metaTruncated": True})) <= budget:
            return kept | {"metaTruncated": True}
    return {"metaTruncated": True}


def _clean(name: str) -> str:
    """An id without white space, at most 160 characters."""
    return _SPACE.sub("-", name.strip())[:_ID]
