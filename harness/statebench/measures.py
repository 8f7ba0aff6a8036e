"""How good an answer of three cards is for a run that the cards have not seen: measures without any model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.statebench.retrieval import overlap
from harness.statebench.trajectories import Trajectory

AT = 3
TASK = ("taskHit3", "taskPrecision3", "taskMrr", "taskNdcg3")
NAMES = (*TASK, "writeHit3", "bestSequence3", "topicRecall3", "toolRecall3", "toolPrecision3")
"""Measures of one answer; those of `TASK` need labels."""


@dataclass(frozen=True)
class Answer:
    """What a method gave for one query.

    Attributes
    ----------
    ranking : tuple of (int or None)
        Places of runs, best first; None is a card that is no run. The first three are what the agent sees.
    topics : frozenset of str
        Policies that cards other than runs show.
    """

    ranking: tuple[int | None, ...]
    topics: frozenset[str] = frozenset()


def measure(
    answer: Answer, asked: Trajectory, runs: Sequence[Trajectory], types: Sequence[str] | None
) -> dict[str, float]:
    """Measures of an answer; a measure that is not defined for this query is left out.

    Parameters
    ----------
    answer : Answer
    asked : Trajectory
        The run that was held out; `asked.place` is its number.
    runs : sequence of Trajectory
        All runs of its domain, by place.
    types : sequence of str, optional
        Task type of each run.

    Notes
    -----
    A run with no other of its type, with no other of its writes, without policies or without tools has no value in the
    measures of these. nDCG has binary gains, and its ideal is as many as there are, at most three.
    """
    found: dict[str, float] = {}
    shown = [runs[at] for at in answer.ranking[:AT] if at is not None]
    others = [run for run in runs if run.place != asked.place]
    if types is not None:
        same = [at is not None and types[at] == types[asked.place] for at in answer.ranking]
        relevant = sum(types[run.place] == types[asked.place] for run in others)
        if relevant:
            found |= dict(zip(TASK, _ranked(same, relevant), strict=True))
    if any(run.written == asked.written for run in others):
        found["writeHit3"] = float(any(run.written == asked.written for run in shown))
    found["bestSequence3"] = max((overlap(run.sequence, asked.sequence) for run in shown), default=0.0)
    if asked.topics:
        covered = answer.topics.union(*(run.topics for run in shown))
        found["topicRecall3"] = len(covered & asked.topics) / len(asked.topics)
    tools = frozenset[str]().union(*(run.tools for run in shown))
    if asked.tools:
        found["toolRecall3"] = len(tools & asked.tools) / len(asked.tools)
    if tools and asked.tools:
        found["toolPrecision3"] = len(tools & asked.tools) / len(tools)
    return found


def _ranked(same: Sequence[bool], relevant: int) -> tuple[float, float, float, float]:
    """Hit@3, precision@3, reciprocal rank and nDCG@3 of a ranking."""
    first = next((at for at, hit in enumerate(same) if hit), None)
    gain = sum(1 / math.log2(at + 2) for at, hit in enumerate(same[:AT]) if hit)
    ideal = sum(1 / math.log2(at + 2) for at in range(min(AT, relevant)))
    return float(any(same[:AT])), sum(same[:AT]) / AT, 0.0 if first is None else 1 / (first + 1), gain / ideal
