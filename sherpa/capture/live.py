"""From the records of a spool to events, session by session; the same calls and outcomes as in the transcript."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sherpa.capture.builder import Builder, Found, ToolPhase, begin_turn, metrics_of, remember, said
from sherpa.capture.calls import Told, begin, end, settle, take_job, unresolved
from sherpa.capture.queue import CaptureQueue
from sherpa.capture.records import (
    DISPATCHED,
    FINISHED,
    PROMPT,
    RECEIVED,
    RUN_ENDED,
    SESSION_ENDED,
    SESSION_STARTED,
    STARTED,
    Record,
)
from sherpa.capture.routing import TaskRouter
from sherpa.capture.scope import Session
from sherpa.capture.state import SessionState, States
from sherpa.instants import NANOS_PER_MS
from sherpa.sources.openclaw.texts import ended_job, own_words

EVENT_ID = "oc-live:"
_OWN_FROM = 3
"""Further events of a tool's record are numbered from here; the numbers before belong to the call."""
_SAID = 16
_QUEUED_MS = 30 * 60_000
"""A message that was told before its run may wait so long for the agent."""
_OWN_TRIGGERS = frozenset({"user", "manual"})
_OWN_ORIGINS = frozenset({"user", "external_user"})


class Live:
    """Takes the records of a spool.

    Parameters
    ----------
    builder : Builder
    queue : CaptureQueue
    states : States
    """

    def __init__(self, builder: Builder, queue: CaptureQueue, states: States) -> None:
        self._builder = builder
        self._queue = queue
        self._states = states

    def take(self, records: Sequence[tuple[str, Record]]) -> int:
        """Queue the events of records, each with its writer, then keep where their sessions stand.

        In this order: if it dies between the two, the same records give events with the same ids again.
        """
        open_: dict[str, SessionState] = {}
        events: list[dict[str, Any]] = []
        for writer, record in records:
            session = record.where
            if not self._builder.allows(session):
                continue
            state = open_.get(session.key)
            if state is None:
                state = open_[session.key] = self._states.load(session.key, session.key)
            if state.passes(record, writer):
                turn = _Turn(self._builder, session, state, record)
                events += turn.events()
        self._queue.put(events)
        for key, state in open_.items():
            self._states.keep(key, state)
        return len(events)


@dataclass
class _Turn:
    """One record on its way to events."""

    builder: Builder
    session: Session
    state: SessionState
    record: Record
    router: TaskRouter | None = None

    @property
    def instant(self) -> int:
        """Of the record, in nanoseconds."""
        return self.record.at * NANOS_PER_MS

    def events(self) -> Iterator[dict[str, Any]]:
        """The events of the record, in order."""
        self.router = self.builder.router(self.session, self.state)
        number = _OWN_FROM if self.record.hook in (STARTED, FINISHED) else 0
        for event, found in [*self._boundary(), *self._of_hook()]:
            if event is None:
                event = f"{self.record.id}:{number}" if number else self.record.id
                number += 1
            yield self.builder.document(self.session, found, f"{EVENT_ID}{event}", self.instant)
        remember(self.state, self.router, self._case())

    def _case(self) -> str:
        return self.builder.case(self.session, self.state, self.router)

    def _case_of_session(self) -> str:
        return self.builder.case_of_session(self.session, self.state, self.router)

    def _own(self, found: list[Found]) -> list[tuple[str | None, Found]]:
        return [(None, f) for f in found]

    # -- sessions ----------------------------------------------------------------------------------------------

    def _boundary(self) -> list[tuple[str | None, Found]]:
        """A session id that was not seen yet: not every host tells that a session begins."""
        session_id = self.record.session.session_id
        if session_id is None or session_id == self.state.session_id:
            return []
        known = self.state.session_id is not None
        found = self._tools(settle(self.state)) if known else []
        self.state.session_id = session_id
        resumed = known or self.record.resumed
        closing = self.router.end("session-reset") if self.router is not None and known else []
        begun = self.builder.session_event(self.session, "resumed" if resumed else "started")
        return found + self._own([*self.builder.boundary_events(closing), Found(begun, self._case_of_session(), {})])

    def _session_ended(self) -> list[tuple[str | None, Found]]:
        record = self.record
        found = self._tools(settle(self.state))
        case = self._case_of_session()
        closing = self.router.end("session-ended") if self.router is not None else []
        named = {"messageCount": record.message_count, "durationMs": record.duration_ms}
        metrics = {name: float(value) for name, value in named.items() if value is not None}
        ended = Found(self.builder.session_event(self.session, "ended"), case, metrics)
        return found + self._own([*self.builder.boundary_events(closing), ended])

    def _run_ended(self) -> list[tuple[str | None, Found]]:
        record, state = self.record, self.state
        if record.run_id is not None and record.run_id == state.run_ended:
            return []
        state.run_ended = record.run_id
        found = self._tools(settle(state))
        event = self.builder.run_event(self.session, failed=record.success is False, meta=self._ids())
        metrics = {} if record.duration_ms is None else {"durationMs": float(record.duration_ms)}
        return found + self._own([Found(event, self._case(), metrics)])

    # -- messages ----------------------------------------------------------------------------------------------

    def _of_hook(self) -> list[tuple[str | None, Found]]:
        hook = self.record.hook
        if hook in (STARTED, FINISHED):
            return self._tool(hook)
        if hook in (DISPATCHED, RECEIVED):
            return self._message(before_run=True)
        if hook == PROMPT:
            return self._prompt()
        if hook == RUN_ENDED:
            return self._run_ended()
        if hook == SESSION_ENDED:
            return self._session_ended()
        # The begin of a session was told by its id; one that came without an id is told here.
        unnamed = hook == SESSION_STARTED and self.record.session.session_id is None
        started = Found(self.builder.session_event(self.session, "started"), self._case_of_session(), {})
        return self._own([started] * unnamed)

    def _prompt(self) -> list[tuple[str | None, Found]]:
        """A run begins with its prompt; hosts build the prompt of one run several times."""
        record, state = self.record, self.state
        if record.run_id is not None and record.run_id == state.run:
            return []
        state.run = record.run_id
        found = self._tools([*settle(state), *unresolved(state)])
        if record.text is not None:
            found += self._announced(own_words(record.text))
        told = state.prompted is not None and record.at - state.prompted < _QUEUED_MS
        if not (told and state.turned):
            begin_turn(state, self.instant)
        if self._is_of_user():
            state.prompted, state.turned, state.said = None, False, []
        return found if told else found + self._message(before_run=False)

    def _is_of_user(self) -> bool:
        """Whether the host does not say that somebody else began this."""
        record = self.record
        foreign = record.origin is not None and record.origin not in _OWN_ORIGINS
        return not foreign and (record.trigger is None or record.trigger in _OWN_TRIGGERS)

    def _message(self, *, before_run: bool) -> list[tuple[str | None, Found]]:
        """What the user said, once, whichever hooks tell it."""
        record, state = self.record, self.state
        if record.text is None or not self.builder.configuration.capture.messages or not self._is_of_user():
            return []
        own = own_words(record.text)
        if not own or self.builder.taxonomy.synthetic(own) is not None:
            return []
        if before_run:
            keys = [_digest(f"text {own}"), *([_digest(f"id {record.message_id}")] if record.message_id else [])]
            repeated = state.prompted is not None and any(key in state.said for key in keys)
            state.said = [*state.said, *keys][-_SAID:]
            if repeated:
                return []
            state.prompted = record.at
            if state.run is None or state.run == state.run_ended:
                begin_turn(state, self.instant)
                state.turned = True
        cut = 0 if record.chars is None else max(0, record.chars - len(record.text))
        return self._own(said(self.builder, self.session, state, self.router, own, len(own) + cut, self.instant))

    def _announced(self, own: str) -> list[tuple[str | None, Found]]:
        """A command in the background has ended, as the host tells the model."""
        ended = ended_job(own)
        if ended is None:
            return []
        phase: ToolPhase = "failed" if ended.failed else "succeeded"
        labels = ("failure:failed",) if ended.failed else ("exit:nonzero",) if ended.exit_code else ()
        return self._tools(take_job(self.state, ended.session, phase, labels, self.record.at))

    # -- tools -------------------------------------------------------------------------------------------------

    def _tool(self, hook: str) -> list[tuple[str | None, Found]]:
        record = self.record
        if record.tool is None or not self.builder.wants_tool(record.tool):
            return []
        if self.router is not None:
            self.router.touch(self.instant)
        return self._tools(begin(self.state, record) if hook == STARTED else end(self.state, record))

    def _tools(self, told: list[Told]) -> list[tuple[str | None, Found]]:
        case = self._case()
        found = []
        for t in told:
            event = self.builder.tool_event(
                self.session,
                t.phase,
                t.call.name,
                t.call.names,
                labels=t.labels,
                meta={"toolCallId": t.call.call_id, **self._ids()},
            )
            metrics = metrics_of(t.call.names, t.duration_ms, t.has_result)
            found.append((t.event, Found(event, case, metrics)))
        return found

    def _ids(self) -> dict[str, Any]:
        return {"sessionId": self.record.session.session_id or self.state.session_id, "runId": self.record.run_id}


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
