"""How what a host tells is called as an event: names, labels, case, redaction, time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from sherpa.capture.routing import Boundary, TaskRouter
from sherpa.capture.rules import Captured, apply_rules
from sherpa.capture.scope import Session, decide
from sherpa.capture.state import SessionState
from sherpa.configuration import Configuration, milliseconds
from sherpa.event import Outcome
from sherpa.instants import NANOS_PER_MS, format_instant, format_milliseconds
from sherpa.sources.openclaw.taxonomy import Taxonomy, load_taxonomy

ToolPhase = Literal["started", "succeeded", "failed", "running", "unknown", "unresolved"]
SessionPhase = Literal["started", "resumed", "ended"]
SOURCE = "openclaw.capture"
_ID, _NAMES, _PREVIEW = 160, 16, 160
_OUTCOMES: dict[str, Outcome] = {"succeeded": "success", "failed": "failure"}
_SPACE = re.compile(r"\s+")
_FAMILIES = frozenset({"browser", "web", "automation"})
"""Families of tools that are captured by an option of their own."""


class Found(NamedTuple):
    """An event and what the host measured of it."""

    event: Captured
    case_id: str
    metrics: dict[str, float]


class Builder:
    """Makes events of one memory's capture.

    Parameters
    ----------
    configuration : Configuration
    """

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.taxonomy: Taxonomy = load_taxonomy()

    def allows(self, session: Session) -> bool:
        """Whether the session is in scope."""
        return decide(session, self.configuration).allowed

    def wants_tool(self, name: str) -> bool:
        """Whether calls of a tool are captured."""
        return self.wants(self.taxonomy.family(name), name)

    def wants(self, family: str, name: str) -> bool:
        """The same, of a tool whose family is known."""
        capture = self.configuration.capture
        option = family if family in _FAMILIES else "tools"
        return bool(getattr(capture, option)) and (capture.memory_writes or not name.startswith("memory_"))

    # -- cases -------------------------------------------------------------------------------------------------

    def base_case(self, session: Session) -> str:
        """The case of a session that is not split."""
        return f"session:{clean(session.key)}" if session.key else f"agent:{session.agent_id or 'main'}:session:default"

    def router(self, session: Session, state: SessionState) -> TaskRouter | None:
        """The router of a session as the state has it; None if it is not split into tasks."""
        splitting = self.configuration.case_splitting
        if splitting.by != "task" or decide(session, self.configuration).stateless:
            return None
        return TaskRouter.restored(
            {"session": clean(session.key), "task": state.task, "last": state.last, "number": state.number},
            keep_text=not self.configuration.ledger.redact_raw_text,
            idle_timeout=milliseconds(splitting.idle_timeout) * NANOS_PER_MS,
            stale_timeout=milliseconds(splitting.stale_timeout) * NANOS_PER_MS,
        )

    @property
    def by_run(self) -> bool:
        """Whether each turn of the user is a case."""
        return self.configuration.case_splitting.by == "run"

    def case(self, session: Session, state: SessionState, router: TaskRouter | None) -> str:
        """The case that the next event of a session belongs to, unless it is of the session itself."""
        if self.by_run and state.turn and not decide(session, self.configuration).stateless:
            return f"{self.base_case(session)}:run:{state.turn}"
        return router.case_id if router is not None and router.task is not None else self.base_case(session)

    def case_of_session(self, session: Session, state: SessionState, router: TaskRouter | None) -> str:
        """The case that events of the session itself belong to: no turn holds its begin or its end."""
        return self.base_case(session) if self.by_run else self.case(session, state, router)

    # -- events ------------------------------------------------------------------------------------------------

    def session_event(self, session: Session, phase: SessionPhase) -> Captured:
        """A session began, went on after a pause, or ended."""
        outcome: Outcome = "success" if phase == "ended" else "unknown"
        return Captured("session", f"session.{phase}", SOURCE, "system", outcome, phase=phase, channel=session.channel)

    def message_event(self, session: Session, text: str) -> Captured:
        """The user said something."""
        return Captured(
            "message",
            "message.received",
            SOURCE,
            "user",
            labels=(f"channel:{session.channel}",) if session.channel else (),
            channel=session.channel,
            content=text,
            meta={} if self.configuration.ledger.redact_raw_text else {"preview": text[:_PREVIEW]},
        )

    def run_event(self, session: Session, *, failed: bool, meta: Mapping[str, Any]) -> Captured:
        """The agent has ended a run. That it ended without an error does not say that the work succeeded."""
        outcome: Outcome = "failure" if failed else "unknown"
        return Captured(
            "run", "run.ended", SOURCE, "system", outcome, phase="ended", channel=session.channel, meta=dict(meta)
        )

    def tool_event(
        self,
        session: Session,
        phase: ToolPhase,
        name: str,
        names: Iterable[str],
        *,
        labels: tuple[str, ...] = (),
        meta: Mapping[str, Any] | None = None,
    ) -> Captured:
        """A tool was called or came back.

        Parameters
        ----------
        names : iterable of str
            Names of its arguments; their values are not stored.
        labels : tuple of str
            Further ones, for instance how it failed.
        meta : mapping, optional
            Ids, for instance that of the call.
        """
        given = {"paramNames": sorted(names)[:_NAMES], **(meta or {})}
        return self.named_event(
            session, phase, self.taxonomy.tool(name, {}).name, self.taxonomy.family(name), labels=labels, meta=given
        )

    def named_event(
        self,
        session: Session,
        phase: ToolPhase,
        tool: str,
        family: str,
        *,
        labels: tuple[str, ...] = (),
        meta: Mapping[str, Any] | None = None,
    ) -> Captured:
        """The same, of a tool that goes by its common name already."""
        return Captured(
            "tool",
            f"{family}.{phase}",
            SOURCE,
            "agent",
            _OUTCOMES.get(phase, "unknown"),
            (f"tool:{tool}", f"tool-family:{family}", *labels),
            tool_name=tool,
            tool_family=family,
            phase=phase,
            channel=session.channel,
            meta={
                key: clean(value) if isinstance(value, str) else value
                for key, value in (meta or {}).items()
                if value is not None
            },
        )

    def boundary_events(self, boundaries: Iterable[Boundary]) -> list[Found]:
        """Tasks began or ended."""
        outcome: dict[str, Any] = {"task.completed": "success", "task.failed": "failure"}
        return [
            Found(Captured("task", b.type, SOURCE, "system", outcome.get(b.type, "unknown"), b.labels), b.case_id, {})
            for b in boundaries
        ]

    def document(self, session: Session, found: Found, event_id: str, instant: int) -> dict[str, Any]:
        """The event as the queue takes it, after the rules of the user."""
        event = apply_rules(found.event, self.configuration.taxonomy.rules)
        stateless = decide(session, self.configuration).stateless
        return {
            "eventId": event_id,
            "agentId": session.agent_id or "main",
            # A session without state shares no case: each of its events stands alone.
            "caseId": f"{self.base_case(session)}:stateless:{event_id}" if stateless else found.case_id,
            "ts": format_instant(instant),
            "source": event.source,
            "type": event.type,
            "actor": event.actor,
            "outcome": event.outcome,
            "labels": list(event.labels),
            "metrics": found.metrics,
            "meta": within_budget(event.meta, self.configuration.ledger.max_meta_bytes),
        }


def said(
    builder: Builder,
    session: Session,
    state: SessionState,
    router: TaskRouter | None,
    text: str,
    chars: int,
    instant: int,
) -> list[Found]:
    """The events of a message: those of tasks that begin or end with it are around it."""
    event = builder.message_event(session, text)
    metrics = {"contentChars": float(chars)}
    if router is None:
        return [Found(event, builder.case(session, state, router), metrics)]
    boundaries = router.message(text, instant)
    before = builder.boundary_events(b for b in boundaries if not b.after)
    after = builder.boundary_events(b for b in boundaries if b.after)
    return [*before, Found(event, after[0].case_id if after else builder.case(session, state, router), metrics), *after]


def begin_turn(state: SessionState, instant: int) -> None:
    """Another turn of the user begins."""
    state.turn = format_milliseconds(instant)


def remember(state: SessionState, router: TaskRouter | None, case_id: str) -> None:
    """Write what the router knows, and the present case, into the state of the session."""
    state.case = case_id
    if router is not None:
        kept = router.state()
        state.task, state.last, state.number = kept["task"], kept["last"], kept["number"]


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


def clean(name: str) -> str:
    """An id without white space, at most 160 characters."""
    return _SPACE.sub("-", name.strip())[:_ID]


def metrics_of(names: Sequence[str], duration_ms: float | None, has_result: bool | None) -> dict[str, float]:
    """What is measured of a tool call."""
    found = {"paramCount": float(len(names))}
    if duration_ms is not None:
        found["durationMs"] = float(duration_ms)
    if has_result is not None:
        found["hasResult"] = float(has_result)
    return found
