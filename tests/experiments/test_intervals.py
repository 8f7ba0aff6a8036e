"""Intervals against scipy, against hand calculations, and (in the full tests) against simulated truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from experiments.intervals import cluster_bootstrap, clusters_needed, holm, pool, standard_error


def data(clusters: int = 30, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    steps = rng.integers(1, 12, clusters).astype(float)
    return rng.binomial(steps.astype(int), 0.6).astype(float), steps


def ratio(n: np.ndarray, d: np.ndarray, axis: int = -1) -> np.ndarray:
    return n.sum(axis=axis) / d.sum(axis=axis)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_bca_equals_scipy_on_the_same_draws(seed: int, level: float) -> None:
    hits, steps = data(seed=seed)
    ours = cluster_bootstrap(hits, steps, rng=np.random.default_rng(7), resamples=5000).interval(0, level=level)
    theirs = stats.bootstrap(
        (hits, steps),
        ratio,
        paired=True,
        vectorized=True,
        n_resamples=5000,
        confidence_level=level,
        method="BCa",
        rng=np.random.default_rng(7),
    ).confidence_interval
    assert ours.method == "bca"
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-3)
    assert ours.estimate == pytest.approx(hits.sum() / steps.sum())


def test_a_paired_difference_equals_scipy() -> None:
    a, steps = data(seed=1)
    b, _ = data(seed=2)
    b = np.minimum(b, steps)
    ours = cluster_bootstrap(a - b, steps, rng=np.random.default_rng(3), resamples=4000).interval(0)
    theirs = stats.bootstrap(
        (a, b, steps),
        lambda x, y, d, axis=-1: (x.sum(axis=axis) - y.sum(axis=axis)) / d.sum(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=4000,
        rng=np.random.default_rng(3),
    ).confidence_interval
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-3)


def test_blocks_do_not_change_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    hits, steps = data(clusters=40)
    once = cluster_bootstrap(hits, steps, rng=np.random.default_rng(1), resamples=1000)
    monkeypatch.setattr("experiments.intervals._BLOCK_BYTES", 8 * 40 * 100)
    blocked = cluster_bootstrap(hits, steps, rng=np.random.default_rng(1), resamples=1000)
    assert np.array_equal(once.draws, blocked.draws)


def test_all_statistics_share_the_resamples() -> None:
    a, steps = data(seed=1)
    b, _ = data(seed=2)
    boot = cluster_bootstrap(np.stack([a, b, a - b], axis=1), steps, rng=np.random.default_rng(1), resamples=500)
    assert boot.draws[:, 0] - boot.draws[:, 1] == pytest.approx(boot.draws[:, 2])


def test_a_constant_has_a_percentile_interval_of_no_width() -> None:
    found = cluster_bootstrap(np.ones(5), np.ones(5), rng=np.random.default_rng(0), resamples=100).interval(0)
    assert (found.low, found.high, found.method) == (1.0, 1.0, "percentile")
    assert found.few


@pytest.mark.parametrize(("n", "d"), [([1.0], [1.0]), ([0.0, 0.0], [0.0, 0.0])])
def test_what_cannot_be_resampled_is_refused(n: list[float], d: list[float]) -> None:
    with pytest.raises(ValueError, match=r"bootstrap needs|no denominator"):
        cluster_bootstrap(n, d, rng=np.random.default_rng(0))


def test_p_values_agree_with_the_interval() -> None:
    hits, steps = data()
    boot = cluster_bootstrap(hits, steps, rng=np.random.default_rng(5), resamples=20_000)
    found = boot.interval(0)
    # At the lower end of a 95 % interval the one-sided p-value is 2.5 %.
    assert boot.interval(0, null=found.low).p_greater == pytest.approx(0.025, abs=0.003)
    assert boot.interval(0, null=found.high).p_less == pytest.approx(0.025, abs=0.003)
    assert boot.interval(0, null=0.0).p_greater < 0.001


def test_two_levels_are_wider_where_groups_differ() -> None:
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(25), 8)
    mean = rng.normal(0, 1, 25)[group]
    values = mean + rng.normal(0, 0.1, 200)
    flat = cluster_bootstrap(values, np.ones(200), rng=np.random.default_rng(1), resamples=2000).interval(0)
    nested = cluster_bootstrap(values, np.ones(200), rng=np.random.default_rng(1), resamples=2000, outer=group)
    both = nested.interval(0)
    assert both.clusters == 25
    # The means of 25 groups of standard deviation 1 vary by 1/5; 200 independent values would vary by 1/14.
    assert both.high - both.low > 2 * (flat.high - flat.low)
    assert nested.draws[:, 0].std() == pytest.approx(mean.std() / 5, rel=0.2)


def test_the_standard_error_by_hand() -> None:
    # θ = 3/4; residuals 1 − 0.75·1, 2 − 0.75·3 = ±0.25; √(2/1 · 0.125) / 4 = 0.125.
    assert standard_error(np.array([1.0, 2.0]), np.array([1.0, 3.0])) == pytest.approx(0.125)


@pytest.mark.parametrize(
    ("given", "adjusted"),
    [([], []), ([0.2], [0.2]), ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]), ([0.5, 0.6], [1.0, 1.0])],
)
def test_holm(given: list[float], adjusted: list[float]) -> None:
    assert holm(given) == pytest.approx(adjusted)


def test_pooling_by_hand() -> None:
    # Errors 1: w = 1, mean 2, Q = 2, df = 1, tau² = (2 − 1)/(2 − 1) = 1, I² = 1/2.
    found = pool([1.0, 3.0], [1.0, 1.0])
    assert found is not None
    assert (found.estimate, found.tau2, found.i2, found.datasets) == pytest.approx((2.0, 1.0, 0.5, 2))
    # v = 1/2 each; Σv(y − 2)²/df = 1; half width t(0.975, 1) · √(1/1) = 12.706.
    assert found.high - found.estimate == pytest.approx(12.706, abs=1e-3)
    assert pool([1.0], [1.0]) is None
    assert pool([1.0, 2.0], [1.0, 0.0]) is None


def test_more_clusters_are_asked_for_where_the_effect_is_small() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 1, 50)
    noise -= noise.mean()
    needed, curve = clusters_needed(noise + 0.4, np.ones(50), null=0.0, rng=np.random.default_rng(1))
    # A mean of 0.4 standard deviations needs about (2.8 / 0.4)² = 49 clusters for a power of 80 %.
    assert needed is not None
    assert 25 <= needed <= 100
    assert [size for size, _ in curve] == sorted(size for size, _ in curve)
    assert clusters_needed(noise, np.ones(50), null=0.0, rng=np.random.default_rng(1), largest=1)[0] is None


def test_many_resamples_of_many_clusters_fit_into_memory() -> None:
    import tracemalloc

    rng = np.random.default_rng(0)
    hits = rng.random((5000, 8))
    tracemalloc.start()
    boot = cluster_bootstrap(hits, np.ones(5000), rng=rng, resamples=2000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert boot.draws.shape == (2000, 8)
    assert peak < 500 * 2**20
