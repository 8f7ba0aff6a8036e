"""Which branches of a state fail or stall more than the state does: per case, with an interval, from a minimum on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sherpa.answers import BranchLift
from sherpa.branches import PastCase

MIN_CASES = 5
_Z = 1.959963984540054
_HALF = 0.5
_AFFECTED = {"failure": "failure", "stall": "unknown"}


class Lift(NamedTuple):
    """A ratio of two rates, one of which is part of the other, with its 95 % interval."""

    value: float
    low: float
    high: float


def lift(in_affected: int, in_all: int, affected: int, total: int) -> Lift:
    """(rate inside a branch) / (rate of the state), with an interval by the delta method on its logarithm.

    The four kinds of cases (inside or outside, affected or not) are multinomial. With a, b, c, d their numbers and
    n = a + b + c + d, log lift = log a − log(a + b) − log(a + c) + log n, whose variance is Σ x·g² − (Σ x·g)²/n with g
    the gradient (Agresti 2013, section 16.1). One half is added to each number, so that none is 0.
    """
    a, b = in_affected + _HALF, in_all - in_affected + _HALF
    c, d = affected - in_affected + _HALF, total - in_all - (affected - in_affected) + _HALF
    n = a + b + c + d
    gradient = (1 / a - 1 / (a + b) - 1 / (a + c) + 1 / n, 1 / n - 1 / (a + b), 1 / n - 1 / (a + c), 1 / n)
    numbers = (a, b, c, d)
    mean = math.fsum(x * g for x, g in zip(numbers, gradient, strict=True))
    variance = math.fsum(x * g * g for x, g in zip(numbers, gradient, strict=True)) - mean**2 / n
    centre = math.log(a / (a + b)) - math.log((a + c) / n)
    half = _Z * math.sqrt(max(variance, 0.0))
    return Lift(math.exp(centre), math.exp(centre - half), math.exp(centre + half))


def branch_lifts(
    cases: Iterable[PastCase], state: Sequence[str], *, without: str | None = None, min_cases: int = MIN_CASES
) -> list[BranchLift]:
    """Every branch of a state that enough cases took, for failure and for stall.

    A case that takes a branch several times counts once in it; a case that leaves the state by several branches counts
    in each. A branch is `raised` if its interval lies above 1.

    Parameters
    ----------
    state : sequence of str
        Types, oldest first.
    without : str, optional
        Case that is not counted: the one that is asked about.
    min_cases : int
        Cases that a branch needs.

    Returns
    -------
    list of BranchLift
        Raised ones first, then by the lower end of the interval.
    """
    size = len(state)
    wanted = tuple(state)
    taken: dict[str, list[str]] = {}
    outcomes: list[str] = []
    for case in cases:
        if case.case_id == without:
            continue
        types = case.types
        places = (at for at in range(len(types) - size) if types[at : at + size] == wanted)
        following = {types[at + size] for at in places}
        if not following:
            continue
        outcomes.append(case.outcome)
        for event in following:
            taken.setdefault(event, []).append(case.outcome)
    found = []
    for event, ends in taken.items():
        if len(ends) < min_cases:
            continue
        for kind, outcome in _AFFECTED.items():
            inside, affected = ends.count(outcome), outcomes.count(outcome)
            value = lift(inside, len(ends), affected, len(outcomes))
            found.append(
                BranchLift(
                    branch=event,
                    kind=kind,
                    cases=len(ends),
                    affected=inside,
                    rate=inside / len(ends),
                    baseline_rate=affected / len(outcomes),
                    lift=value.value,
                    low=value.low,
                    high=value.high,
                    raised=value.low > 1,
                )
            )
    return sorted(found, key=lambda b: (not b.raised, -b.low, b.branch, b.kind))
