"""The sessions of an installation as one event log, with what tables need to know of each event and case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sherpa.eventlog import EventLog
from sherpa.logbuilder import LogBuilder
from sherpa.sources.openclaw.events import Mapping
from sherpa.sources.openclaw.lines import Losses
from sherpa.sources.openclaw.sessions import Installation, Session
from sherpa.sources.openclaw.steps import Counts
from sherpa.terminal import OUTCOME_CODE

Watch = Callable[[int], None]


@dataclass
class SessionLog:
    """Events of many sessions.

    Attributes
    ----------
    log : EventLog
        Cases by the first event of each, session after session.
    session_of : int array (cases,)
        Index into `sessions`.
    sessions : list of Session
    tools : tuple of str
    tool_of : int array (events,)
        Index into `tools`; -1 for an event without a tool.
    counts, losses
        Totals over the sessions.
    interrupted : bool
        Whether reading was stopped before the end.
    """

    log: EventLog
    session_of: npt.NDArray[np.int64]
    sessions: list[Session]
    tools: tuple[str, ...]
    tool_of: npt.NDArray[np.int32]
    counts: Counts = field(default_factory=Counts)
    losses: Losses = field(default_factory=Losses)
    interrupted: bool = False


def collect(
    installation: Installation, mapping: Mapping, sessions: list[Session] | None = None, watch: Watch | None = None
) -> SessionLog:
    """Read sessions into columns; an interruption keeps the sessions that were read whole.

    Parameters
    ----------
    sessions : list of Session, optional
        Those of the installation that are wanted; all by default.
    watch : callable, optional
        Called with the number of bytes read since the last call.
    """
    builder = LogBuilder()
    tools: dict[str, int] = {}
    tool_of: list[int] = []
    session_of: list[int] = []
    done: list[Session] = []
    counts, losses = Counts(), Losses()
    interrupted = False
    try:
        for session in installation.sessions if sessions is None else sessions:
            cases: dict[str, list[tuple[Any, ...]]] = {}
            for event in mapping.events(session, session.steps(watch)):
                tool = -1 if event.tool is None else tools.setdefault(event.tool, len(tools))
                cases.setdefault(event.case_id, []).append(
                    (event.type, event.instant, OUTCOME_CODE[event.outcome], event.actor, tool)
                )
            for case_id, events in cases.items():
                for event_type, instant, outcome, actor, tool in events:
                    builder.add(event_type, instant, outcome, actor)
                    tool_of.append(tool)
                builder.end_case(case_id)
                session_of.append(len(done))
            done.append(session)
            counts.add(session.counts)
            losses.add(session.losses)
    except KeyboardInterrupt:
        interrupted = True
    return SessionLog(
        builder.build(),
        np.array(session_of, dtype=np.int64),
        done,
        tuple(tools),
        np.array(tool_of, dtype=np.int32),
        counts,
        losses,
        interrupted,
    )
