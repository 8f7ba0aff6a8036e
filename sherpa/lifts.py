"""Which branches of a state fail or stall more than the state does: per case, with an interval, from a minimum on."""

from __future__ import annotations

import math
from typing import NamedTuple

from sherpa.answers import BranchLift
from sherpa.branches import Tally
from sherpa.event import FAILURE, UNKNOWN

MIN_CASES = 5
_Z = 1.959963984540054
_HALF = 0.5
_AFFECTED = {"failure": FAILURE, "stall": UNKNOWN}


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


def branch_lifts(tally: Tally, *, min_cases: int = MIN_CASES) -> list[BranchLift]:
    """Every branch of a state that enough cases took, for failure and for stall.

    A case that takes a branch several times counts once in it; a case that leaves the state by several branches counts
    in each. A branch is `raised` if its interval lies above 1.

    Parameters
    ----------
    tally : Tally
        Of the state, without the case that is asked about.
    min_cases : int
        Cases that a branch needs.

    Returns
    -------
    list of BranchLift
        Raised ones first, then by the lower end of the interval.
    """
    total = sum(tally.outcomes)
    found = []
    for event, ends in tally.following.items():
        cases = sum(ends)
        if cases < min_cases:
            continue
        for kind, outcome in _AFFECTED.items():
            inside, affected = ends[outcome], tally.outcomes[outcome]
            value = lift(inside, cases, affected, total)
            found.append(
                BranchLift(
                    branch=event,
                    kind=kind,
                    cases=cases,
                    affected=inside,
                    rate=inside / cases,
                    baseline_rate=affected / total,
                    lift=value.value,
                    low=value.low,
                    high=value.high,
                    raised=value.low > 1,
                )
            )
    return sorted(found, key=lambda b: (not b.raised, -b.low, b.branch, b.kind))
