"""Runs as events of the memory: what was called and what came of it, as far as anyone could see it.

A call that a tool refused, a search that found nothing and a user who objects are types of their own, so that the
graph can say what follows them. No run ends in success or failure: the files do not say how it ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from harness.statebench.trajectories import SOFT_FAILURES, Call, Trajectory
from sherpa.event import Event, read_event
from sherpa.eventlog import EventLog
from sherpa.instants import NANOS_PER_MS, format_milliseconds, parse_instant

_START = parse_instant("2026-01-01T00:00:00.000Z")
"""The files have no times. These keep the order of a run; they measure nothing."""
_RUN, _STEP = 3_600_000 * NANOS_PER_MS, 1_000 * NANOS_PER_MS
_PUSHBACK = re.compile(
    r"\b(?:(?:that|this|it)(?:'s| is| was) (?:not (?:right|correct|what)|wrong|incorrect)"
    r"|not what i (?:asked|wanted|said)"
    r"|i (?:already|just) (?:said|told|asked|confirmed|gave)|you (?:already )?said|you told me"
    r"|didn't ask|did not ask|as i said)\b",
    re.IGNORECASE,
)


def event_type(call: Call) -> str:
    """``tool.NAME``, ``.preview`` or ``.confirm`` if asked for, then ``.refused``, ``.empty`` or ``.negative``."""
    return f"tool.{call.token}{_suffix(call)}"


def _suffix(call: Call) -> str:
    if call.kind in SOFT_FAILURES:
        return ".refused"
    return f".{call.kind}" if call.kind in ("empty", "negative") else ""


def objects(said: str) -> bool:
    """Whether a user says that something is not as it was asked for."""
    return bool(_PUSHBACK.search(said.replace("\u2019", "'")))


def run_events(run: Trajectory) -> Iterator[dict[str, Any]]:
    """Events of a run as the ledger takes them. Ids and case are numbers of the run, never its name."""
    case = f"{run.domain}/{run.place:03d}"
    start = _START + run.place * _RUN

    def event(at: int, name: str, actor: str, outcome: str, labels: tuple[str, ...] = ()) -> dict[str, Any]:
        return {
            "eventId": f"{case}#{at}",
            "caseId": case,
            "ts": format_milliseconds(start + at * _STEP),
            "source": "state-bench",
            "type": name,
            "actor": actor,
            "outcome": outcome,
            "labels": ["state-bench", f"domain:{run.domain}", *labels],
        }

    at = 0
    turns = max(len(run.user), len(run.answers))
    for turn in range(turns):
        if turn < len(run.user):
            said = run.user[turn]
            if turn == 0:
                yield event(at, "task.requested", "user", "unknown")
            elif objects(said):
                yield event(at, "user.objected", "user", "failure")
            else:
                yield event(at, "user.replied", "user", "unknown")
            at += 1
        for call in (call for call in run.calls if call.turn == turn):
            labels = ("repeated",) if call.repeated else ()
            yield event(at, event_type(call), "agent", "failure" if _suffix(call) else "success", labels)
            at += 1
    yield event(at, "task.ended", "system", "unknown")


def event_log(runs: Iterable[Trajectory]) -> EventLog:
    """The runs as one event log, a case per run."""

    def cases() -> Iterator[tuple[str, list[Event]]]:
        for run in runs:
            events = [read_event(raw, clock=lambda: 0, new_id=lambda: "") for raw in run_events(run)]
            yield events[0].case_id, events

    return EventLog.from_events(cases())
