"""From the ledger to the columns of a log and the rows of the table ``events``, batch by batch.

What is kept of an event is some thirty bytes in columns; its row goes to the database at once. So the memory that a
rebuild needs is that of the columns and of the edges, not of the events.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import numpy as np

from sherpa.event import Event, EventContext, Projection
from sherpa.eventlog import USER_MESSAGE, EventLog, Int64
from sherpa.store import Row, to_json_text
from sherpa.terminal import OUTCOME_CODE

WORKFLOW_LABEL = "workflow:"
Batch = tuple[Sequence[Event], Int64]
"""Events, and their instants."""


class _Codes(dict[str, int]):
    """Numbers for names, in the order in which they come."""

    def __missing__(self, name: str) -> int:
        code = self[name] = len(self)
        return code


class _Texts(dict[tuple[str, ...], str]):
    """JSON of tuples of text; most events repeat what others had."""

    most = 50_000

    def __missing__(self, value: tuple[str, ...]) -> str:
        if len(self) >= self.most:
            self.clear()
        text = self[value] = to_json_text(value)
        return text


@dataclass(frozen=True)
class Loaded:
    """What was read: the log, and beside it what the table ``cases`` and workflows need.

    Attributes
    ----------
    log : EventLog
        Cases in code-point order of their ids.
    agents : list of str
        Agent of the first event of each case.
    workflows : dict
        For each label ``workflow:…`` the rows of the log that carry it, rising.
    """

    log: EventLog
    agents: list[str]
    workflows: dict[str, Int64]


@dataclass
class Columns:
    """Collects the columns of events in the order of the ledger."""

    cases: _Codes = field(default_factory=_Codes)
    types: _Codes = field(default_factory=_Codes)
    agents: _Codes = field(default_factory=_Codes)
    _texts: _Texts = field(default_factory=_Texts)
    _parts: list[tuple[np.ndarray[Any, Any], ...]] = field(default_factory=list)
    _labelled: dict[str, list[int]] = field(default_factory=dict)
    _read: int = 0

    def add(self, events: Sequence[Event], instants: Int64) -> Iterator[Row]:
        """Keep the columns of a batch; gives its rows of the table ``events``."""
        size = len(events)
        cases = [e.case_id for e in events]
        types = [e.type for e in events]
        agents = [e.agent_id for e in events]
        outcomes = [e.outcome for e in events]
        actors = [e.actor for e in events]
        seqs = [e.seq for e in events]
        self._parts.append(
            (
                np.fromiter(map(self.cases.__getitem__, cases), np.int32, size),
                np.fromiter(map(self.types.__getitem__, types), np.int32, size),
                np.fromiter(map(self.agents.__getitem__, agents), np.int32, size),
                np.fromiter(map(OUTCOME_CODE.__getitem__, outcomes), np.int8, size),
                np.fromiter([a == "user" for a in actors], bool, size),
                np.array(seqs, np.int64),
                instants,
            )
        )
        labels = [self._texts[e.labels] for e in events]
        for at, text in enumerate(labels):
            if WORKFLOW_LABEL in text:
                for label in {x for x in events[at].labels if x.startswith(WORKFLOW_LABEL)}:
                    self._labelled.setdefault(label, []).append(self._read + at)
        self._read += size
        return zip(
            [e.event_id for e in events],
            repeat(1),
            agents,
            cases,
            [e.ts for e in events],
            [e.source for e in events],
            types,
            actors,
            outcomes,
            labels,
            [self._texts[e.entities] for e in events],
            [to_json_text(e.projection) if isinstance(e.projection, Projection) else "null" for e in events],
            [to_json_text(e.metrics) if e.metrics else "{}" for e in events],
            [to_json_text(e.meta) if e.meta else "{}" for e in events],
            [to_json_text(e.context) if isinstance(e.context, EventContext) else None for e in events],
            seqs,
            instants.tolist(),
        )

    def loaded(self) -> Loaded:
        """The log of everything that was added: cases by id, events of a case by instant, then by number."""
        names = sorted(self.cases)
        rank = np.empty(len(names), np.int64)
        rank[[self.cases[name] for name in names]] = np.arange(len(names))
        if not self._parts:
            return Loaded(EventLog.from_codes([], [0], ()), [], {})
        case, code, agent, outcome, user, seq, instant = (
            np.concatenate(column) for column in zip(*self._parts, strict=True)
        )
        self._parts.clear()
        of_case = rank[case]
        order = np.lexsort((seq, instant, of_case))
        counts = np.bincount(of_case, minlength=len(names))
        offsets = np.concatenate(([0], np.cumsum(counts)))
        vocabulary = tuple(self.types)
        responses, response_names = _responses(vocabulary, code[order], user[order])
        log = EventLog.from_codes(
            code[order],
            offsets,
            vocabulary,
            case_ids=names,
            instants=instant[order],
            outcomes=outcome[order],
            responses=responses,
            response_vocabulary=response_names,
        )
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        agents = tuple(self.agents)
        first = agent[order][offsets[:-1]].tolist()
        return Loaded(
            log,
            [agents[a] for a in first],
            {label: np.sort(place[rows]) for label, rows in self._labelled.items()},
        )


def _responses(
    vocabulary: tuple[str, ...], codes: np.ndarray[Any, Any], user: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], tuple[str, ...]]:
    """What each event of the user is as a response, and the names of responses."""
    names = _Codes()
    of_type = np.array([names[t.removeprefix(USER_MESSAGE)] for t in vocabulary], np.int32)
    return np.where(user, of_type[codes], -1).astype(np.int32), tuple(names)


def load(batches: Iterator[Batch], write: Callable[[Iterator[Row]], None]) -> Loaded:
    """Read batches, write their rows, and give the log.

    Parameters
    ----------
    batches : iterator
        Events and instants, from `Ledger.batches`.
    write : callable
        Takes rows of the table ``events``.
    """
    columns = Columns()
    with _no_collection():
        for events, instants in batches:
            write(columns.add(events, instants))
    return columns.loaded()


@contextmanager
def _no_collection() -> Iterator[None]:
    """Millions of small objects and no cycle among them: the collector would look at them again and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
