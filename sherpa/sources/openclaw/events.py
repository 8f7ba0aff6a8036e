"""From steps to typed events: at which granularity, and in which case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from sherpa.capture.routing import Boundary, Routing, TaskRouter
from sherpa.event import Event, EventContext, Outcome
from sherpa.instants import format_instant
from sherpa.sources.openclaw.sessions import Session
from sherpa.sources.openclaw.steps import Step
from sherpa.sources.openclaw.taxonomy import Granularity

SOURCE = "openclaw"
_CONTEXT = 500
_OF_SESSION = frozenset({"session.started", "session.reset", "session.ended"})
_FINISHED = frozenset({"stop", "end_turn", "endTurn"})
_FAILED = frozenset({"error", "aborted"})


class Mapped(NamedTuple):
    """An event, before it is written down.

    `tool` is the common name of the tool, for tables.
    """

    event_id: str
    case_id: str
    type: str
    instant: int
    actor: str
    outcome: Outcome
    labels: tuple[str, ...]
    metrics: dict[str, float]
    meta: dict[str, Any]
    text: str
    tool: str | None

    def to_event(self, agent: str) -> Event:
        """The event as the ledger takes it."""
        context = EventContext(text=self.text[:_CONTEXT]) if self.text else msgspec.UNSET
        return Event(
            event_id=self.event_id,
            agent_id=agent,
            case_id=self.case_id,
            ts=format_instant(self.instant),
            source=SOURCE,
            type=self.type,
            actor=self.actor,
            outcome=self.outcome,
            labels=self.labels,
            metrics=self.metrics,
            meta=self.meta,
            context=context,
        )


@dataclass(frozen=True)
class Mapping:
    """How steps become events.

    Attributes
    ----------
    granularity : str
        ``family`` (``tool.failed``), ``tool`` (``tool.exec.failed``) or ``operation`` (``tool.exec:git.failed``).
    routing : str
        Case per ``session``, ``task`` or ``run`` (one turn of the user).
    keep_text : bool
        Whether texts, and slugs made of them, may leave the reader.
    """

    granularity: Granularity = "tool"
    routing: Routing = "session"
    keep_text: bool = False

    def type_of(self, step: Step) -> str:
        """The event type of a step."""
        return step.kind if step.tool is None else f"{step.tool.stem(self.granularity)}.{step.phase}"

    def events(self, session: Session, steps: Iterable[Step]) -> Iterator[Mapped]:
        """The events of a session, in order.

        An id is made of session, row and part, so that reading the same row again gives the same id.
        """
        router = self.router(session)
        for step in steps:
            yield from router.route(step)
        yield from router.finish()

    def router(self, session: Session) -> Router:
        """What puts the steps of a session into cases; it remembers where it is."""
        return _ROUTERS[self.routing](session, self)


@dataclass
class Router:
    """Puts every step into the case of its session."""

    session: Session
    mapping: Mapping

    def route(self, step: Step) -> Iterator[Mapped]:
        """The events of one step."""
        yield self.mapped(step, f"session:{self.session.name}")

    def finish(self) -> Iterator[Mapped]:
        """The events that the end of the session brings."""
        return iter(())

    def mapped(self, step: Step, case_id: str) -> Mapped:
        labels = step.labels
        if step.kind == "session.started":
            labels = (*labels, *self._about())
        return Mapped(
            self.id_of(step.row, step.part),
            case_id,
            self.mapping.type_of(step),
            step.instant,
            step.actor,
            _outcome(step.outcome),
            labels,
            step.metrics,
            step.meta,
            step.text if self.mapping.keep_text else "",
            step.tool.name if step.tool else None,
        )

    def marker(
        self, step: Step, part: str, case_id: str, kind: str, outcome: Outcome, labels: tuple[str, ...]
    ) -> Mapped:
        """An event that a step brings with it, but that is none of its own: a case begins or ends there."""
        row = self.id_of(step.row, part)
        return Mapped(row, case_id, kind, step.instant, "system", outcome, labels, {}, {}, "", None)

    def id_of(self, row: str, part: str) -> str:
        return f"oc:{self.session.name}:{row}:{part}" if part else f"oc:{self.session.name}:{row}"

    def _about(self) -> Iterator[str]:
        if self.session.about.kind is not None:
            yield f"session-kind:{self.session.about.kind}"
        if self.session.parent is not None:
            yield f"parent:session:{self.session.parent}"


@dataclass
class _ByTask(Router):
    """Cuts the session into tasks; a reset ends one."""

    tasks: TaskRouter = field(default_factory=lambda: TaskRouter(""))

    def __post_init__(self) -> None:
        self.tasks = TaskRouter(self.session.name, self.mapping.keep_text)

    def route(self, step: Step) -> Iterator[Mapped]:
        if step.kind == "message.user.inbound":
            boundaries = self.tasks.message(step.text, step.instant)
        elif step.kind in ("session.reset", "message.system.session-reset"):
            boundaries = self.tasks.end("session-reset")
        else:
            self.tasks.touch(step.instant)
            boundaries = self.tasks.end("session-end") if step.kind == "session.ended" else []
        yield from (self._boundary(b, step) for b in boundaries if not b.after)
        after = [b for b in boundaries if b.after]
        yield self.mapped(step, after[0].case_id if after else self.tasks.case_id)
        yield from (self._boundary(b, step) for b in after)

    def _boundary(self, boundary: Boundary, step: Step) -> Mapped:
        outcome = _outcome({"task.completed": "success", "task.failed": "failure"}.get(boundary.type, ""))
        part = f"{boundary.type}-{boundary.reason}"
        return self.marker(step, part, boundary.case_id, boundary.type, outcome, boundary.labels)


@dataclass
class _ByRun(Router):
    """One case per turn: from a message to the agent until the next one that follows work."""

    case_id: str = ""
    _worked: bool = False
    _stop: str = ""
    _last: Step | None = None

    def route(self, step: Step) -> Iterator[Mapped]:
        if step.kind in _OF_SESSION:
            if step.kind != "session.started":
                yield from self._close()
            return
        if step.kind.startswith("message.") and step.kind != "message.assistant.reply":
            if self._worked or not self.case_id:
                yield from self._close()
                self.case_id, self._worked = f"run:{self.session.name}:{step.row}", False
        else:
            self._worked = True
        if not self.case_id:
            self.case_id = f"run:{self.session.name}:{step.row}"
        if step.kind == "message.assistant.reply":
            self._stop = str(step.meta.get("stop", ""))
        elif step.tool is not None:
            self._stop = ""
        self._last = step
        yield self.mapped(step, self.case_id)

    def _close(self) -> Iterator[Mapped]:
        if self.case_id and self._last is not None:
            outcome: Outcome = "failure" if self._stop in _FAILED else "unknown"
            labels = (f"stop:{self._stop}",) if self._stop else ()
            yield self.marker(self._last, "run.ended", self.case_id, "run.ended", outcome, labels)
        self.case_id, self._worked, self._stop, self._last = "", False, "", None

    def finish(self) -> Iterator[Mapped]:
        """The last turn has ended only if the agent said so; otherwise it may still go on."""
        if self._stop in _FINISHED or self._stop in _FAILED:
            yield from self._close()


_ROUTERS: dict[Routing, type[Router]] = {"session": Router, "task": _ByTask, "run": _ByRun}


def _outcome(word: str) -> Outcome:
    return "success" if word == "success" else "failure" if word == "failure" else "unknown"
