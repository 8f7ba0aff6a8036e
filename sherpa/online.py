"""Counts that follow running cases event by event: what a memory knows at this very moment."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import lru_cache

from sherpa.branches import NO_BRANCHES, Branch, Branches
from sherpa.config import Strategy
from sherpa.instants import NANOS_PER_MS, NO_INSTANT
from sherpa.projection.states import Facets, levels, token_text
from sherpa.terminal import FAILURE, SUCCESS, RunningTerminal

State = tuple[str, ...]


@dataclass(slots=True, eq=False)
class _Edge:
    """Counts of one edge. What belongs to cases that still run is kept by case: their outcome may yet change."""

    support: int = 0
    success: int = 0
    failure: int = 0
    timed: int = 0
    total_ms: int = 0
    settled: list[int] = field(default_factory=lambda: [0, 0, 0])
    running: dict[Hashable, int] = field(default_factory=dict)
    responses: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Running:
    """A case that has not ended."""

    tokens: tuple[deque[str], ...]
    terminal: RunningTerminal
    instant: int = NO_INSTANT
    edges: set[_Edge] = field(default_factory=set)
    fresh: list[_Edge] = field(default_factory=list)
    unanswered: list[_Edge] = field(default_factory=list)


class OnlineCounts:
    """An `EdgeSource` that learns one event at a time.

    After any events it holds exactly what `VariableOrderMarkovModel` holds after learning the same prefixes; an event
    costs its own edges, whatever was learned before. A case that is over can be closed, which frees what is only
    needed to go on with it.

    Parameters
    ----------
    max_order, strategy, allow_raw_fallback
        As for `VariableOrderMarkovModel`.

    Examples
    --------
    >>> from sherpa.projection.states import Facets
    >>> counts = OnlineCounts(max_order=2)
    >>> for name in ("ask", "answer"):
    ...     counts.observe("case", Facets(name))
    >>> [(b.event, b.support) for b in counts.branches(1, ("ask",))]
    [('answer', 1)]
    """

    def __init__(self, max_order: int = 5, strategy: Strategy = "raw", *, allow_raw_fallback: bool = True) -> None:
        self.max_order = max_order
        self._levels = levels(strategy, allow_raw_fallback)
        self._states: dict[State, dict[str, _Edge]] = {}
        self._running: dict[Hashable, _Running] = {}
        self.events = 0
        self.edges = 0

    def observe(
        self,
        case: Hashable,
        event: Facets,
        *,
        outcome: int = 0,
        instant: int = NO_INSTANT,
        response: str | None = None,
    ) -> None:
        """The next event of a case.

        Parameters
        ----------
        outcome : int
            0 unknown, 1 success, 2 failure.
        instant : int
            Nanoseconds since the epoch.
        response : str, optional
            For an event of the user, its key among responses.
        """
        self.events += 1
        running = self._running.get(case)
        if running is None:
            running = self._running[case] = _Running(
                tuple(deque(maxlen=self.max_order) for _ in self._levels), RunningTerminal()
            )
        else:
            self._count(case, running, event.type, outcome, instant)
        if response is not None:
            # The step into this event is not answered by this event.
            for edge in running.unanswered:
                edge.responses[response] = edge.responses.get(response, 0) + 1
            running.unanswered = []
        running.unanswered += running.fresh
        running.fresh = []
        running.terminal.add(event.type, outcome)
        running.instant = instant
        for window, level in zip(running.tokens, self._levels, strict=True):
            window.append(_token(event, level))

    def _count(self, case: Hashable, running: _Running, event: str, outcome: int, instant: int) -> None:
        timed = instant != NO_INSTANT and running.instant != NO_INSTANT
        duration = max(0, instant // NANOS_PER_MS - running.instant // NANOS_PER_MS) if timed else 0
        windows = [tuple(window) for window in running.tokens]
        longest = len(windows[0])
        for order in range(longest + 1):
            states = {window[longest - order :] for window in windows}
            for state in states:
                following = self._states.get(state)
                if following is None:
                    following = self._states[state] = {}
                edge = following.get(event)
                if edge is None:
                    edge = following[event] = _Edge()
                    self.edges += order > 0
                edge.support += 1
                edge.success += outcome == SUCCESS
                edge.failure += outcome == FAILURE
                edge.timed += timed
                edge.total_ms += duration
                edge.running[case] = edge.running.get(case, 0) + 1
                running.edges.add(edge)
                running.fresh.append(edge)

    def close(self, case: Hashable) -> None:
        """The case is over: its outcome is settled. An event that still came would begin another case."""
        running = self._running.pop(case, None)
        if running is None:
            return
        terminal = running.terminal.outcome
        for edge in running.edges:
            edge.settled[terminal] += edge.running.pop(case)

    def branches(self, order: int, state: State) -> Branches:
        """The edges out of `state` (tokens, oldest first); order 0 asks how often each type follows any event."""
        following = self._states.get(state)
        if following is None or len(state) != order:
            return NO_BRANCHES
        return Branches.ordered(self._branch(event, edge) for event, edge in following.items())

    def _branch(self, event: str, edge: _Edge) -> Branch:
        unknown, success, failure = edge.settled
        for case, times in edge.running.items():
            terminal = self._running[case].terminal.outcome
            if terminal == SUCCESS:
                success += times
            elif terminal == FAILURE:
                failure += times
            else:
                unknown += times
        return Branch(
            event,
            edge.support,
            edge.success,
            edge.failure,
            success,
            failure,
            unknown,
            edge.timed,
            edge.total_ms,
            edge.responses,
        )

    def most_frequent(self, state: State) -> str | None:
        """The event that followed a state most often; equal counts go to the first in code-point order."""
        following = self._states.get(state)
        if not following:
            return None
        return min(following, key=lambda event: (-following[event].support, event))


@lru_cache(maxsize=1 << 16)
def _token(event: Facets, level: tuple[str, ...]) -> str:
    return token_text(
        event.type,
        event.family if "family" in level else None,
        event.procedure if "procedure" in level else None,
    )
