"""Procedures of a domain, read off the graph: what comes before and after a step, and after its refusal."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.statebench.events import event_log, run_events
from harness.statebench.trajectories import SOFT_FAILURES, Trajectory
from sherpa.branches import EdgeSource
from sherpa.model import VariableOrderMarkovModel

MIN_RUNS = 5
"""Runs that a step must occur in before it is worth a card."""


@dataclass(frozen=True)
class Followers:
    """What came after a step: (type, times), most frequent first, and how often anything did."""

    steps: tuple[tuple[str, int], ...]
    total: int


@dataclass(frozen=True)
class Procedure:
    """A step that changes something or is often refused.

    Attributes
    ----------
    step : str
        Token of the call.
    runs : tuple of int
        Places of the runs that have it.
    times, refused : int
    before, after : Followers
        Steps next to it, where it was not refused.
    after_refusal : Followers
    recovered : int
        Runs in which it was refused and later went through.
    refused_runs : int
    """

    step: str
    runs: tuple[int, ...]
    times: int
    refused: int
    before: Followers
    after: Followers
    after_refusal: Followers
    recovered: int
    refused_runs: int


def read_procedures(runs: Sequence[Trajectory], *, min_runs: int = MIN_RUNS) -> Iterator[Procedure]:
    """Procedures of the runs of one domain, the most frequent first.

    Only steps that change something or that were refused: how to look things up needs no card.
    """
    model = VariableOrderMarkovModel(max_order=1).learn(event_log(runs))
    before = _predecessors(runs)
    times: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    places: dict[str, dict[int, None]] = defaultdict(dict)
    changes: set[str] = set()
    refused_in: dict[str, set[int]] = defaultdict(set)
    recovered: dict[str, set[int]] = defaultdict(set)
    for run in runs:
        for call in run.calls:
            times[call.token] += 1
            places[call.token][run.place] = None
            if call.writes:
                changes.add(call.token)
            if call.kind in SOFT_FAILURES:
                refused[call.token] += 1
                refused_in[call.token].add(run.place)
            elif run.place in refused_in[call.token]:
                recovered[call.token].add(run.place)
    for step in sorted(times, key=lambda token: (-times[token], token)):
        if len(places[step]) >= min_runs and (step in changes or refused[step]):
            yield Procedure(
                step,
                tuple(places[step]),
                times[step],
                refused[step],
                before[f"tool.{step}"],
                _followers(model, f"tool.{step}"),
                _followers(model, f"tool.{step}.refused"),
                len(recovered[step]),
                len(refused_in[step]),
            )


def _followers(source: EdgeSource, state: str) -> Followers:
    branches = source.branches(1, (state,))
    return Followers(tuple((b.event, b.support) for b in branches), sum(b.support for b in branches))


def _predecessors(runs: Sequence[Trajectory]) -> dict[str, Followers]:
    """What came before each type: the edges of the graph, read backwards."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for run in runs:
        types = [event["type"] for event in run_events(run)]
        for before, step in pairwise(types):
            counts[step][before] += 1
    empty = Followers((), 0)
    found: dict[str, Followers] = defaultdict(lambda: empty)
    for step, seen in counts.items():
        found[step] = Followers(tuple(sorted(seen.items(), key=lambda item: (-item[1], item[0]))), seen.total())
    return found
