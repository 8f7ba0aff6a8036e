"""Intervals that respect cases: the bootstrap resamples clusters and keeps their steps together.

Every statistic here is a ratio of sums over clusters, θ = Σ n_c / Σ d_c: an accuracy (hits / steps), a paired
difference of accuracies ((hits of a − hits of b) / steps), a mean per case (d_c = 1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]

RESAMPLES = 10_000
FEW_CLUSTERS = 20
_BLOCK_BYTES = 32 * 2**20


@dataclass(frozen=True)
class Interval:
    """A confidence interval of a ratio of sums.

    Attributes
    ----------
    estimate, low, high : float
    level : float
        Nominal coverage.
    method : str
        ``bca`` or, where that is undefined, ``percentile``.
    clusters : int
        Independent units that were resampled.
    p_greater, p_less : float
        One-sided p-values of θ ≤ null and θ ≥ null, by inverting the interval.
    """

    estimate: float
    low: float
    high: float
    level: float
    method: str
    clusters: int
    p_greater: float
    p_less: float

    def to_json(self) -> dict[str, Any]:
        """Bounds, level, method and number of clusters."""
        return {
            "low": self.low,
            "high": self.high,
            "level": self.level,
            "method": self.method,
            "clusters": self.clusters,
        }

    @property
    def p_two_sided(self) -> float:
        """Two-sided p-value of θ = null."""
        return min(1.0, 2 * min(self.p_greater, self.p_less))

    @property
    def few(self) -> bool:
        """True if there are too few clusters for the interval to decide anything by itself."""
        return self.clusters < FEW_CLUSTERS


@dataclass(frozen=True)
class Bootstrap:
    """The bootstrap distribution of several ratios over the same clusters.

    Attributes
    ----------
    estimates : float array (statistics,)
    draws : float array (resamples, statistics)
    jackknife : float array (clusters, statistics)
        Each ratio without one cluster.
    """

    estimates: Float
    draws: Float
    jackknife: Float
    clusters: int

    def interval(self, statistic: int, *, level: float = 0.95, null: float = 0.0) -> Interval:
        """BCa interval (Efron 1987), percentile where it is undefined."""
        theta, draws = float(self.estimates[statistic]), self.draws[:, statistic]
        z0, a = _bias(draws, theta), _acceleration(self.jackknife[:, statistic])
        tails = np.array([(1 - level) / 2, (1 + level) / 2])
        method = "bca"
        with np.errstate(all="ignore"):
            shifted = z0 + ndtri(tails)
            probabilities = ndtr(z0 + shifted / (1 - a * shifted))
        if not np.isfinite(probabilities).all() or not np.isfinite(z0) or not np.isfinite(a):
            method, probabilities, z0, a = "percentile", tails, 0.0, 0.0
        low, high = np.quantile(draws, probabilities).tolist()
        below = (np.count_nonzero(draws < null) + 0.5 * np.count_nonzero(draws == null) + 0.5) / (len(draws) + 1)
        p = _tail(below, z0, a)
        return Interval(theta, low, high, level, method, self.clusters, p, 1 - p)


def _bias(draws: Float, theta: float) -> float:
    """z0 = Φ⁻¹ of the share of draws below the estimate, ties half."""
    share = (np.count_nonzero(draws < theta) + np.count_nonzero(draws <= theta)) / (2 * len(draws))
    return float(ndtri(share))


def _acceleration(jackknife: Float) -> float:
    """a = Σ(θ̄ − θ_i)³ / (6·(Σ(θ̄ − θ_i)²)^1.5)."""
    away = jackknife.mean() - jackknife
    spread = float((away**2).sum())
    return float((away**3).sum() / (6 * spread**1.5)) if spread > 0 else float("nan")


def _tail(below: float, z0: float, a: float) -> float:
    """One-sided p-value: the α at which the lower end of the interval meets the null.

    The interval's end at α is the quantile Φ(z0 + w/(1 − a·w)) with w = z0 + Φ⁻¹(α); this solves it for α.
    """
    u = float(ndtri(below)) - z0
    if 1 + a * u <= 0:
        return 0.0 if u < 0 else 1.0
    return float(ndtr(u / (1 + a * u) - z0))


def cluster_bootstrap(
    numerators: npt.ArrayLike,
    denominators: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    outer: npt.ArrayLike | None = None,
) -> Bootstrap:
    """Resample clusters and recompute the ratios.

    Parameters
    ----------
    numerators : float array (clusters, statistics) or (clusters,)
    denominators : float array (clusters, statistics) or (clusters,)
        At least 0; one column serves all statistics.
    rng : numpy Generator
        The same generator state gives the same draws. All statistics share the resamples, so differences are paired.
    resamples : int
    outer : int array (clusters,), optional
        Group of each cluster, for data of two levels: groups are resampled first, then the clusters inside each
        drawn group. The independent unit is then the group, and `clusters` counts groups.

    Notes
    -----
    Weights are drawn in blocks of bounded memory; a resample in which a denominator vanishes is drawn anew from the
    others of its block (it can only happen where most clusters are empty).

    Raises
    ------
    ValueError
        If there are fewer than two clusters, or a ratio has no denominator.
    """
    n = np.asarray(numerators, dtype=np.float64)
    n = n[:, None] if n.ndim == 1 else n
    d = np.asarray(denominators, dtype=np.float64)
    d = np.broadcast_to(d[:, None] if d.ndim == 1 else d, n.shape)
    if len(n) < 2:
        raise ValueError(f"a bootstrap needs at least two clusters, not {len(n)}")
    total_n, total_d = n.sum(axis=0), d.sum(axis=0)
    if (total_d <= 0).any():
        raise ValueError("a ratio has no denominator: nothing was observed")
    stacked = np.concatenate([n, d], axis=1)
    k = n.shape[1]
    draws = np.empty((resamples, k))
    at = 0
    groups = None if outer is None else _Groups(np.asarray(outer))
    for weights in _weights(len(n), resamples, rng, groups):
        sums = weights @ stacked
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = sums[:, :k] / sums[:, k:]
        empty = ~np.isfinite(ratio).all(axis=1)
        if empty.any():
            ratio[empty] = ratio[~empty][np.arange(int(empty.sum())) % max(1, int((~empty).sum()))]
        draws[at : at + len(ratio)] = ratio
        at += len(ratio)
    if groups is not None:
        n, d = groups.sums(n), groups.sums(d)
    rest = total_d - d
    with np.errstate(invalid="ignore", divide="ignore"):
        jackknife = np.where(rest > 0, (total_n - n) / rest, np.nan)
    return Bootstrap(total_n / total_d, draws, jackknife, len(n))


class _Groups:
    """Clusters sorted by group."""

    def __init__(self, outer: npt.NDArray[np.int64]) -> None:
        _, self.index = np.unique(outer, return_inverse=True)
        self.order = np.argsort(self.index, kind="stable")
        self.sizes = np.bincount(self.index)
        self.starts = np.concatenate(([0], np.cumsum(self.sizes)[:-1]))

    def sums(self, values: Float) -> Float:
        """Column sums per group."""
        return np.add.reduceat(values[self.order], self.starts, axis=0)

    def weights(self, rows: int, rng: np.random.Generator) -> Float:
        """How often each cluster is drawn in each of `rows` resamples of two levels."""
        count = len(self.sizes)
        drawn = rng.integers(0, count, (rows, count))
        sizes = self.sizes[drawn]
        row = np.repeat(np.arange(rows), sizes.sum(axis=1))
        width = np.repeat(sizes.ravel(), sizes.ravel())
        start = np.repeat(self.starts[drawn.ravel()], sizes.ravel())
        inside = (rng.random(len(width)) * width).astype(np.int64)
        cluster = self.order[start + inside]
        size = len(self.order)
        return np.bincount(row * size + cluster, minlength=rows * size).reshape(rows, size).astype(np.float64)


def _weights(clusters: int, resamples: int, rng: np.random.Generator, groups: _Groups | None) -> Iterator[Float]:
    block = max(1, min(resamples, _BLOCK_BYTES // (8 * clusters)))
    done = 0
    while done < resamples:
        rows = min(block, resamples - done)
        done += rows
        if groups is not None:
            yield groups.weights(rows, rng)
            continue
        drawn = rng.integers(0, clusters, (rows, clusters))
        drawn += np.arange(rows)[:, None] * clusters
        yield np.bincount(drawn.ravel(), minlength=rows * clusters).reshape(rows, clusters).astype(np.float64)


def standard_error(numerators: Float, denominators: Float) -> float:
    """Linearised standard error of a ratio of sums over independent clusters: √(C/(C−1)·Σ(n_c − θ·d_c)²) / Σ d_c."""
    total = float(denominators.sum())
    residual = numerators - numerators.sum() / total * denominators
    clusters = len(numerators)
    return float(np.sqrt(clusters / (clusters - 1) * (residual**2).sum()) / total)


# -- several hypotheses, several datasets ----------------------------------------------------------------------


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values that hold the family-wise error (Holm 1979), in the given order.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for rank, i in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = running
    return adjusted


@dataclass(frozen=True)
class Pooled:
    """A random-effects estimate over datasets.

    Attributes
    ----------
    estimate, low, high : float
    tau2 : float
        Variance between datasets (DerSimonian & Laird 1986).
    i2 : float
        Share of the total variance that lies between datasets.
    datasets : int
    """

    estimate: float
    low: float
    high: float
    tau2: float
    i2: float
    datasets: int


def pool(estimates: Sequence[float], errors: Sequence[float], *, level: float = 0.95) -> Pooled | None:
    """Random-effects pooling with the interval of Hartung, Knapp, Sidik and Jonkman; None for fewer than two.

    Parameters
    ----------
    estimates, errors : sequences of float
        Estimate and standard error of each dataset; datasets without an error above 0 are left out.
    """
    from scipy.stats import t

    pairs = [(y, s) for y, s in zip(estimates, errors, strict=True) if s > 0]
    if len(pairs) < 2:
        return None
    y, s = (np.array(column) for column in zip(*pairs, strict=True))
    w = 1 / s**2
    fixed = (w * y).sum() / w.sum()
    q, df = float((w * (y - fixed) ** 2).sum()), len(y) - 1
    tau2 = max(0.0, (q - df) / (w.sum() - (w**2).sum() / w.sum()))
    v = 1 / (s**2 + tau2)
    estimate = float((v * y).sum() / v.sum())
    # The adjustment may not make the interval narrower than the classical one.
    scale = max(1.0, float((v * (y - estimate) ** 2).sum() / df))
    half = float(t.ppf((1 + level) / 2, df) * np.sqrt(scale / v.sum()))
    return Pooled(estimate, estimate - half, estimate + half, float(tau2), max(0.0, (q - df) / q) if q else 0.0, len(y))


def clusters_needed(
    numerators: Float,
    denominators: Float,
    *,
    null: float,
    rng: np.random.Generator,
    level: float = 0.95,
    power: float = 0.8,
    largest: int = 64,
    draws: int = 200,
) -> tuple[int | None, list[tuple[int, float]]]:
    """(clusters at which an interval would exclude the null in `power` of studies, the power curve).

    Studies of growing size are drawn from the observed clusters with replacement, up to `largest` times as many as
    there are; their intervals are normal with the linearised standard error. None if no such size does.
    """
    z = float(ndtri((1 + level) / 2))
    curve: list[tuple[int, float]] = []
    count = len(numerators)
    factor = 0.5
    while factor <= largest:
        size = max(2, round(count * factor))
        decided = 0
        for _ in range(draws):
            drawn = rng.integers(0, count, size)
            n, d = numerators[drawn], denominators[drawn]
            total = d.sum()
            if total <= 0:
                continue
            decided += bool(abs(n.sum() / total - null) > z * standard_error(n, d))
        curve.append((size, decided / draws))
        if decided / draws >= power:
            return size, curve
        factor *= 2
    return None, curve
