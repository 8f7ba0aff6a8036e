"""The counts of a few short cases, edge by edge: what the kernel gives, without its cost per call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sherpa.counting import SUMS
from sherpa.eventlog import EventLog
from sherpa.instants import NANOS_PER_MS, NO_INSTANT, format_instant
from sherpa.projection.states import STATE_SEPARATOR, join_state
from sherpa.store import Row, to_json_text
from sherpa.terminal import FAILURE, SUCCESS, UNKNOWN

MOST_EVENTS = 1_000
"""Up to so many events a loop is faster than columns."""
EdgeKey = tuple[int, str, str]
"""Order, state key and next event: the primary key of ``state_edges``."""


@dataclass(slots=True)
class Edge:
    """One row of ``state_edges`` that is being changed. The sums are those of `sherpa.counting.SUMS`."""

    sums: list[int]
    responses: dict[str, int]
    min_ms: int | None
    max_ms: int | None
    last: int | None

    def row(self, key: EdgeKey) -> Row:
        """As it is stored."""
        return (
            *key,
            *self.sums,
            self.min_ms,
            self.max_ms,
            None if self.last is None else format_instant(self.last),
            to_json_text(self.responses),
            self.last,
        )


def count_few(log: EventLog, max_order: int) -> dict[EdgeKey, Edge]:
    """Every edge of raw states by its primary key; `sherpa.derive.count_edges` gives the same.

    Parameters
    ----------
    log : EventLog
    max_order : int
        Longest context in events.
    """
    edges: dict[EdgeKey, Edge] = {}
    names = [join_state((name,)) for name in log.vocabulary]
    codes, offsets, terminal = log.codes.tolist(), log.offsets.tolist(), log.terminal.tolist()
    steps = list(_steps(log))
    for case, ended in enumerate(terminal):
        start, stop = offsets[case], offsets[case + 1]
        flags = [int(ended == SUCCESS), int(ended == FAILURE), int(ended == UNKNOWN)]
        for at in range(start, stop - 1):
            outcome, duration, instant, response = steps[at]
            known = duration is not None
            sums = [1, int(outcome == SUCCESS), int(outcome == FAILURE), *flags, int(known), duration or 0]
            following, state = log.vocabulary[codes[at + 1]], ""
            for order in range(1, min(max_order, at - start + 1) + 1):
                name = names[codes[at - order + 1]]
                state = f"{name}{STATE_SEPARATOR}{state}" if state else name
                key = (order, state, following)
                edge = edges.get(key)
                if edge is None:
                    answers = {} if response is None else {response: 1}
                    edges[key] = Edge(sums.copy(), answers, duration, duration, instant)
                else:
                    _add(edge, sums, duration, instant, response)
    return edges


def _add(edge: Edge, sums: list[int], duration: int | None, instant: int | None, response: str | None) -> None:
    for column in range(len(SUMS)):
        edge.sums[column] += sums[column]
    if duration is not None:
        edge.min_ms = duration if edge.min_ms is None else min(edge.min_ms, duration)
        edge.max_ms = duration if edge.max_ms is None else max(edge.max_ms, duration)
    if instant is not None:
        edge.last = instant if edge.last is None else max(edge.last, instant)
    if response is not None:
        edge.responses[response] = edge.responses.get(response, 0) + 1


def _steps(log: EventLog) -> Iterator[tuple[int, int | None, int | None, str | None]]:
    """From each event to the next: its outcome, milliseconds, its instant, and how the user answered after it.

    At the last event of a case there is no step; what stands there is not used.
    """
    outcomes, instants, responses = log.outcomes.tolist(), log.instants.tolist(), log.responses.tolist()
    offsets = log.offsets.tolist()
    for case in range(len(log)):
        start, stop = offsets[case], offsets[case + 1]
        answers: list[str | None] = [None] * (stop - start)
        answer: str | None = None
        for at in range(stop - 1, start + 1, -1):
            if responses[at] >= 0:
                answer = log.response_vocabulary[responses[at]]
            answers[at - start - 2] = answer
        for at in range(start, stop):
            after = min(at + 1, stop - 1)
            here, there = instants[at], instants[after]
            timed = here != NO_INSTANT and there != NO_INSTANT
            duration = max(0, there // NANOS_PER_MS - here // NANOS_PER_MS) if timed else None
            yield outcomes[after], duration, None if there == NO_INSTANT else there, answers[at - start]
