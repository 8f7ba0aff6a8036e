"""What the next events of a case add to the graph, without counting the case again.

Most events are the last of their case and change nothing that was counted before: then their own edges are all there is
to add, however long the case has become. Where more changes, `sherpa.derive.increment` takes the case out as it was and
puts it in as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sherpa.bulk import WORKFLOW_LABEL
from sherpa.event import FAILURE, OUTCOMES, SUCCESS, UNKNOWN, Event
from sherpa.fewcount import Edge, EdgeKey
from sherpa.instants import NANOS_PER_MS
from sherpa.projection.states import STATE_SEPARATOR, join_state
from sherpa.store import GraphStore, Row
from sherpa.terminal import OUTCOME_CODE, RunningTerminal


@dataclass(frozen=True)
class Growth:
    """What a case adds.

    Attributes
    ----------
    edges : dict
        Of the new events.
    row : tuple
        The case's row of the table ``cases``.
    """

    edges: dict[EdgeKey, Edge]
    row: Row


def growth_of(store: GraphStore, case_id: str, new: Sequence[Event], max_order: int) -> Growth | None:
    """What new events add to a case, raw states; None where they change what was counted before.

    That is so if the case is new, if one of them is not the last, if one is of the user (it answers to what came
    before), if the case is part of a workflow, or if its terminal outcome becomes another.

    Parameters
    ----------
    new : sequence of Event
        In order.
    """
    outline = store.case_outline(case_id)
    if not outline or new[0].instant < outline[-1].instant or any(row.in_workflow for row in outline):
        return None
    if any(e.actor == "user" or any(x.startswith(WORKFLOW_LABEL) for x in e.labels) for e in new):
        return None
    terminal = RunningTerminal()
    for row in outline:
        terminal.add(row.type, OUTCOME_CODE[row.outcome])
    before = terminal.outcome
    for event in new:
        terminal.add(event.type, OUTCOME_CODE[event.outcome])
    if terminal.outcome != before:
        return None
    last = outline[-max_order:]
    names = [join_state((row.type,)) for row in last]
    edges: dict[EdgeKey, Edge] = {}
    instant = last[-1].instant
    flags = [int(before == code) for code in (SUCCESS, FAILURE, UNKNOWN)]
    for event in new:
        outcome, after = OUTCOME_CODE[event.outcome], event.instant
        duration = max(0, after // NANOS_PER_MS - instant // NANOS_PER_MS)
        sums = [1, int(outcome == SUCCESS), int(outcome == FAILURE), *flags, 1, duration]
        state = ""
        for order, name in enumerate(reversed(names[-max_order:]), start=1):
            state = f"{name}{STATE_SEPARATOR}{state}" if state else name
            put(edges, {(order, state, event.type): Edge(sums.copy(), {}, duration, duration, after)})
        names.append(join_state((event.type,)))
        instant = after
    agent_id, first_ts = store.case_beginning(case_id)
    size = len(outline) + len(new)
    return Growth(edges, (case_id, agent_id, size, first_ts, new[-1].ts, OUTCOMES[before], instant))


def put(edges: dict[EdgeKey, Edge], more: Mapping[EdgeKey, Edge]) -> None:
    """Add edges of further cases."""
    for key, edge in more.items():
        held = edges.get(key)
        if held is None:
            edges[key] = edge
            continue
        held.sums = [a + b for a, b in zip(held.sums, edge.sums, strict=True)]
        for answer, times in edge.responses.items():
            held.responses[answer] = held.responses.get(answer, 0) + times
        held.min_ms = _extreme(min, held.min_ms, edge.min_ms)
        held.max_ms = _extreme(max, held.max_ms, edge.max_ms)
        held.last = _extreme(max, held.last, edge.last)


def _extreme(choose: Callable[[int, int], int], one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else choose(one, other)
