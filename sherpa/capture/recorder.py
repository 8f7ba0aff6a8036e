"""From what a host tells to events in the queue: scope, case, names, redaction, time at the moment of capture."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sherpa.capture.builder import (
    SOURCE,
    Builder,
    Found,
    SessionPhase,
    ToolPhase,
    begin_turn,
    metrics_of,
    remember,
    said,
    within_budget,
)
from sherpa.capture.live import Live
from sherpa.capture.queue import CaptureQueue
from sherpa.capture.records import Record
from sherpa.capture.routing import TaskRouter
from sherpa.capture.scope import Session
from sherpa.capture.state import SessionState, States
from sherpa.configuration import Configuration

__all__ = ["SOURCE", "Recorder", "SessionPhase", "ToolPhase", "within_budget"]


class Recorder:
    """Captures the events of a host.

    Events are in the queue before it is kept where their session stands: a crash between the two repeats events that
    are known by their ids, and loses none.

    Parameters
    ----------
    root : Path
        Folder of the memory; the queue and the state of the sessions lie there.
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
        self.states = States(self.queue.routes)
        self._builder = Builder(self.configuration)
        self._clock = clock
        self._new_id = new_id

    def take(self, records: Sequence[tuple[str, Record]]) -> int:
        """Queue the events of records, each with the name of its writer; returns how many events.

        A record that was taken before gives nothing.

        Raises
        ------
        LedgerError, SourceError
            If they cannot be queued, or where their sessions stand cannot be kept; nothing is lost if all are taken
            again.
        """
        return Live(self._builder, self.queue, self.states).take(records)

    def case_of(self, session: Session) -> str:
        """The case that the next event of a session belongs to, unless that event begins another."""
        state = self._state(session)
        return self._builder.case(session, state, self._builder.router(session, state))

    def session(self, session: Session, phase: SessionPhase, **metrics: float) -> list[str]:
        """A session began, went on after a pause, or ended (`messageCount`, `durationMs`); returns ids of events."""
        if not self._builder.allows(session):
            return []
        now = self._clock()
        state, router = self._standing(session)
        event = self._builder.session_event(session, phase)
        found = [Found(event, self._builder.case_of_session(session, state, router), metrics)]
        if phase == "ended" and router is not None:
            found = [*self._builder.boundary_events(router.end("session-ended")), *found]
        return self._capture(session, state, router, found, now)

    def message(self, session: Session, text: str) -> list[str]:
        """The user said something; returns ids of events, those of a task that begins or ends with it included."""
        if not self.configuration.capture.messages or not self._builder.allows(session):
            return []
        now = self._clock()
        state, router = self._standing(session)
        begin_turn(state, now)
        found = said(self._builder, session, state, router, text, len(text), now)
        return self._capture(session, state, router, found, now)

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
        if not self._builder.wants_tool(name) or not self._builder.allows(session):
            return []
        now = self._clock()
        given = arguments or {}
        event = self._builder.tool_event(session, phase, name, given, meta={"toolCallId": call_id})
        metrics = metrics_of(tuple(given), duration_ms, has_result)
        state, router = self._standing(session)
        if router is not None:
            router.touch(now)
        found = [Found(event, self._builder.case(session, state, router), metrics)]
        return self._capture(session, state, router, found, now)

    def _state(self, session: Session) -> SessionState:
        return self.states.load(session.key, session.key)

    def _standing(self, session: Session) -> tuple[SessionState, TaskRouter | None]:
        state = self._state(session)
        return state, self._builder.router(session, state)

    def _capture(
        self, session: Session, state: SessionState, router: TaskRouter | None, found: list[Found], now: int
    ) -> list[str]:
        ids = [self._new_id() for _ in found]
        self.queue.put(
            [self._builder.document(session, f, event_id, now) for f, event_id in zip(found, ids, strict=True)]
        )
        if router is not None or self._builder.by_run:
            remember(state, router, self._builder.case(session, state, router))
            self.states.keep(session.key, state)
        return ids
