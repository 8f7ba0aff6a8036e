"""Which calls of a session are open: pairs begins with ends, drops what is told twice, keeps the order of the calls.

Calls of one turn run side by side, and hooks tell their ends as they come. The transcript writes results in the order
of the calls, and what is learned from either must be the same: an end waits for the calls that began before it in the
same turn.
"""

from __future__ import annotations

from typing import NamedTuple

from sherpa.capture.builder import ToolPhase
from sherpa.capture.records import Record, details_of, verdict
from sherpa.capture.state import OpenCall, SessionState
from sherpa.sources.openclaw.outcomes import Verdict, status_of
from sherpa.sources.openclaw.rows import text

_CLOSED, _OPEN, _JOBS = 256, 256, 64


class Told(NamedTuple):
    """One thing to tell of a call.

    Attributes
    ----------
    event : str or None
        Id of its event, made of that of a record; None if it is a further event of the record at hand.
    call : OpenCall
    phase : str
    labels : tuple of str
    duration_ms : float, optional
    has_result : bool, optional
    """

    event: str | None
    call: OpenCall
    phase: ToolPhase
    labels: tuple[str, ...] = ()
    duration_ms: float | None = None
    has_result: bool | None = None


def begin(state: SessionState, record: Record) -> list[Told]:
    """A call begins; nothing if it is open already: some hosts tell it more than once."""
    call_id = record.call_id
    if call_id is not None and any(c.call_id == call_id and not c.late and c.held is None for c in state.calls):
        return []
    told = settle(state) if state.answered else []
    call = _call(record)
    if call_id is not None:
        # Some providers count their ids anew in every turn.
        state.closed.pop(call_id, None)
    state.calls.append(call)
    del state.calls[:-_OPEN]
    return [*told, Told(record.id, call, "started")]


def end(state: SessionState, record: Record) -> list[Told]:
    """A call ends; nothing if it has ended already."""
    call = _waiting(state, record)
    if call is not None:
        call.held = record
        state.answered = True
        return _release(state)
    if _told_before(state, record):
        return []
    # The host rejected it before it began: its arguments were wrong, or there is no such tool.
    call = _call(record)
    call.held, call.unknown, call.begun_by_end = record, record.unknown, not record.unknown
    state.calls.append(call)
    told = [] if call.unknown else [Told(record.id, call, "started")]
    return told + _release(state)


def settle(state: SessionState) -> list[Told]:
    """The turn is over: ends that were held back are told, and calls without an end hold nothing back any more."""
    told: list[Told] = []
    for call in list(state.calls):
        if call.held is not None:
            told += _ended(state, call, call.held)
        call.late = True
    state.answered = False
    state.closed = {}
    return told


def unresolved(state: SessionState) -> list[Told]:
    """The agent began another run: calls without an end will hardly get one."""
    state.calls = [call for call in state.calls if not call.given_up]
    for call in state.calls:
        call.given_up = True
    return [Told(f"{call.opened}:1", call, "unresolved") for call in state.calls]


def take_job(
    state: SessionState, job: str, phase: ToolPhase, labels: tuple[str, ...], at: int, event: str | None = None
) -> list[Told]:
    """The end of a command that went to the background, if it is known; `at` in milliseconds."""
    call = state.jobs.pop(job, None)
    if call is None:
        return []
    return [Told(event, call, phase, ("background", *labels), float(max(0, at - call.at)))]


def _call(record: Record) -> OpenCall:
    return OpenCall(record.tool or "unnamed", record.call_id, record.names, record.job, at=record.at, opened=record.id)


def _waiting(state: SessionState, record: Record) -> OpenCall | None:
    """The call that an end belongs to: of the present turn the first, else the latest of those before."""
    fits = [
        call
        for call in state.calls
        if call.held is None
        and (call.call_id == record.call_id if record.call_id is not None else call.name == record.tool)
    ]
    return next((call for call in fits if not call.late), fits[-1] if fits else None)


def _told_before(state: SessionState, record: Record) -> bool:
    """Whether the end of a call that is not open is told again. An error of another kind is none: it is of a call that
    was rejected before it began, and got an id that was there before."""
    key = record.call_id
    marks = [_mark(call.held) for call in state.calls if call.held is not None and call.call_id == key]
    if key is None or (key not in state.closed and not marks):
        return False
    return not record.is_error or _mark(record) in (*marks, state.closed.get(key))


def _mark(record: Record) -> str:
    return "\t".join(("error" if record.is_error else "", record.tool or "", *record.names))


def _release(state: SessionState) -> list[Told]:
    told: list[Told] = []
    blocked = False
    for call in list(state.calls):
        if call.held is not None and (call.late or not blocked):
            told += _ended(state, call, call.held)
        elif call.held is None and not call.late:
            blocked = True
    return told


def _ended(state: SessionState, call: OpenCall, record: Record) -> list[Told]:
    state.calls.remove(call)
    call.held = None
    if call.call_id is not None:
        state.closed[call.call_id] = _mark(record)
        while len(state.closed) > _CLOSED:
            del state.closed[next(iter(state.closed))]
    found = verdict(record)
    number = 1 if call.begun_by_end else 0
    ended = Told(
        _numbered(record, number),
        call,
        _phase(found),
        (*(("orphan",) if call.unknown else ()), *_labels(found)),
        record.duration_ms,
        record.has_result,
    )
    return [ended, *_background(state, call, record, found, number + 1)]


def _background(state: SessionState, call: OpenCall, record: Record, found: Verdict, number: int) -> list[Told]:
    """Remember a command that went to the background, or tell the end of one that a later call reports."""
    details = details_of(record)
    if details is None or call.unknown:
        return []
    job = text(details.session_id)
    if call.name != "process":
        if found.phase == "running" and job is not None and status_of(details) == "running":
            state.jobs[job] = call
            while len(state.jobs) > _JOBS:
                del state.jobs[next(iter(state.jobs))]
        return []
    job = job or call.job
    if job is None or found.phase in ("running", "unknown") or details.status is None:
        return []
    return take_job(state, job, _phase(found), _labels(found), record.at, _numbered(record, number))


def _numbered(record: Record, number: int) -> str:
    return f"{record.id}:{number}" if number else record.id


def _phase(found: Verdict) -> ToolPhase:
    phases: dict[str, ToolPhase] = {"succeeded": "succeeded", "failed": "failed", "running": "running"}
    return phases.get(found.phase, "unknown")


def _labels(found: Verdict) -> tuple[str, ...]:
    """The labels that the reader gives such a result."""
    extra = [f"failure:{found.kind}"] if found.kind else []
    extra += [name for name, holds in (("exit:nonzero", found.nonzero), ("synthetic", found.synthetic)) if holds]
    return (*extra, "confidence:low") if found.doubtful else tuple(extra)
