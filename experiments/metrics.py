"""Metrics over a prediction table. Each is a plain function of arrays; what cannot be computed is None, never 0."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


def mean(values: npt.ArrayLike) -> float | None:
    """Arithmetic mean, None of nothing."""
    array = np.asarray(values, dtype=float)
    return float(array.mean()) if array.size else None


def top_k_accuracy(ranks: Int, k: int) -> float | None:
    """Share of steps whose target is among the first k; `ranks` counts from 1, 0 means not ranked."""
    return mean((ranks > 0) & (ranks <= k))


def macro_accuracy(ranks: Int, cases: Int, k: int) -> float | None:
    """Mean over cases of the top-k accuracy of each case."""
    if len(ranks) == 0:
        return None
    _, index = np.unique(cases, return_inverse=True)
    hits = np.bincount(index, weights=(ranks > 0) & (ranks <= k))
    return float((hits / np.bincount(index)).mean())


def reciprocal_rank(ranks: Int) -> float | None:
    """Mean reciprocal rank; a target that is not ranked counts 0 (Voorhees 1999)."""
    return mean(np.divide(1.0, ranks, out=np.zeros(len(ranks)), where=ranks > 0))


def log_loss_bits(p_target: Float) -> float | None:
    """Mean −log2 p of the target, in bits per event; infinite if a target had probability 0."""
    if len(p_target) == 0:
        return None
    with np.errstate(divide="ignore"):
        return float(-np.log2(p_target).mean())


def brier_score(p_target: Float, p_squared: Float) -> float | None:
    """Mean of Σ_j (p_j − y_j)² over classes j, which is Σ p² − 2·p_target + 1 (Brier 1950)."""
    return mean(p_squared - 2 * p_target + 1)


@dataclass(frozen=True)
class CalibrationBin:
    """Predictions of similar probability: their mean, how often they were right, how many."""

    confidence: float
    accuracy: float
    count: int


def calibration_bins(p_top1: Float, hits: Bool, bins: int = 10) -> list[CalibrationBin]:
    """Equal-mass bins of the probability of the first-ranked event; equal probabilities stay in one bin."""
    if len(p_top1) == 0:
        return []
    order = np.argsort(p_top1, kind="stable")
    p, hit = p_top1[order], hits[order]
    edges = [0]
    for b in range(1, bins):
        at = round(len(p) * b / bins)
        while at < len(p) and at > 0 and p[at] == p[at - 1]:
            at += 1
        if edges[-1] < at < len(p):
            edges.append(at)
    edges.append(len(p))
    return [CalibrationBin(float(p[a:b].mean()), float(hit[a:b].mean()), b - a) for a, b in pairwise(edges)]


def expected_calibration_error(bins: Sequence[CalibrationBin]) -> float | None:
    """Σ count/n · |accuracy − confidence| over the bins (Naeini et al. 2015)."""
    total = sum(b.count for b in bins)
    return math.fsum(b.count * abs(b.accuracy - b.confidence) for b in bins) / total if total else None


def area_under_curve(scores: Float, positive: Bool) -> float | None:
    """Probability that a random positive scores above a random negative, ties half (Mann–Whitney)."""
    from scipy.stats import rankdata

    n, m = int(positive.sum()), int((~positive).sum())
    if n == 0 or m == 0:
        return None
    ranks = rankdata(scores)
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * m))


@dataclass(frozen=True)
class RiskCounts:
    """Warnings against annotated risks: per item over annotated steps, false alarms over all steps."""

    annotated_steps: int
    expected: int
    predicted: int
    true_positive: int
    alarm_steps: int
    silent_steps: int
    lead_time: float | None

    @property
    def precision(self) -> float | None:
        return self.true_positive / self.predicted if self.predicted else None

    @property
    def recall(self) -> float | None:
        return self.true_positive / self.expected if self.expected else None

    @property
    def f1(self) -> float | None:
        p, r = self.precision, self.recall
        if p is None or r is None:
            return None
        return 2 * p * r / (p + r) if p + r else 0.0

    @property
    def false_alarm_rate(self) -> float | None:
        """Share of steps without an annotated risk at which the predictor warned all the same."""
        return self.alarm_steps / self.silent_steps if self.silent_steps else None


def risk_counts(
    predicted: Sequence[Sequence[str]],
    keys: Sequence[tuple[int, int]],
    expected: Mapping[tuple[int, int], Sequence[str]],
) -> RiskCounts:
    """Score warnings.

    Parameters
    ----------
    predicted : per step the events warned of
    keys : per step (case, step)
    expected : annotated risks by (case, step); an empty list says that nothing is at risk there

    Notes
    -----
    Lead time is, per case and risk, the number of steps between the first warning of it in that case and the first
    step at which it is annotated, over risks that were warned of by then.
    """
    true_positive = named = wanted = alarms = silent = annotated = 0
    first_warning: dict[tuple[int, str], int] = {}
    leads: list[int] = []
    settled: set[tuple[int, str]] = set()
    for events, (case, step) in zip(predicted, keys, strict=True):
        for event in events:
            first_warning.setdefault((case, event), step)
        risks = expected.get((case, step))
        if not risks:
            silent += 1
            alarms += bool(events)
            if risks is None:
                continue
        annotated += 1
        distinct = set(events)
        true_positive += len(distinct & set(risks or ()))
        named += len(distinct)
        wanted += len(set(risks or ()))
        for risk in risks or ():
            if (case, risk) in settled:
                continue
            settled.add((case, risk))
            warned = first_warning.get((case, risk))
            if warned is not None:
                leads.append(step - warned)
    return RiskCounts(annotated, wanted, named, true_positive, alarms, silent, mean(leads) if leads else None)


def distribution(values: Sequence[Any]) -> dict[str, int]:
    """How often each value occurs, by value."""
    counts: dict[Any, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return {str(key): counts[key] for key in sorted(counts)}
