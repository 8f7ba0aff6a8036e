"""Sets of next events that hold what comes with a stated probability, and a warning where that cannot be promised."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
_TIE = 1e-12
ALARM = 0.05


@dataclass(frozen=True)
class ConformalSets:
    """Split conformal prediction with the score 1 − p of what came (Sadinle, Lei & Wasserman 2019).

    If held-out and new predictions are exchangeable, a set holds what comes with a probability of at least `level`
    (Vovk et al. 2005): the threshold is the ⌈(n + 1)·level⌉-th smallest of n held-out scores. Where that rank exceeds
    n, only the set of everything keeps the promise.

    Attributes
    ----------
    level : float
    threshold : float
        Largest score that is let in.
    predictions : int
        Held-out scores.
    """

    level: float
    threshold: float
    predictions: int

    @classmethod
    def fit(cls, p_target: Float, level: float = 0.9) -> ConformalSets:
        """From the probabilities that held-out targets were given."""
        if not 0 < level < 1:
            raise ValueError(f"level is {level}; it must lie between 0 and 1")
        size = len(p_target)
        # Rounded first: 10 · 0.7 is 6.9999… in binary.
        rank = math.ceil(round((size + 1) * level, 9))
        threshold = math.inf if rank > size else float(np.sort(1 - np.asarray(p_target))[rank - 1])
        return cls(level, threshold, size)

    def sets(self, rows: Float) -> Bool:
        """Which classes are in the set of each distribution."""
        inside: Bool = 1 - rows <= self.threshold + _TIE
        return inside

    def covers(self, p_target: Float) -> Bool:
        """Whether the set of each prediction holds its target."""
        inside: Bool = 1 - p_target <= self.threshold + _TIE
        return inside


def drift(before: Float, after: Float) -> float | None:
    """Probability that two groups of cases differ as much by chance; None if either has fewer than two cases.

    Where cases are exchangeable, how well they were predicted does not depend on when they came. The test compares
    the mean probability that each case's events were given (Mann–Whitney, two-sided): one number per case, so that
    long cases do not count more than they should.

    Parameters
    ----------
    before, after : float arrays (cases,)
    """
    if len(before) < 2 or len(after) < 2:
        return None
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(before, after, alternative="two-sided").pvalue)


def per_case(values: Float, case: Int) -> Float:
    """Mean of a value over the steps of each case that has any."""
    _, index = np.unique(case, return_inverse=True)
    means: Float = np.bincount(index, weights=values) / np.bincount(index) if len(values) else np.zeros(0)
    return means
