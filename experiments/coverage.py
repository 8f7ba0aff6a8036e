"""Do the intervals and the gate keep their promises? Simulated studies with known truth.

``python -m experiments.coverage`` writes docs/research/statistics.md; the full tests check the same figures.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from experiments.claims import PENDING, SUPPORTED, Claim, Sums, contrasts, h1, h2, h3, hold_family_wise, sum_by
from experiments.intervals import cluster_bootstrap, standard_error
from experiments.plan import Plan, load_plan
from sherpa.files import write_whole

Float = npt.NDArray[np.float64]
KINDS = ("mean", "paired difference", "ratio of sums")
STUDIES = 1000
CLUSTERS = 80
RESAMPLES = 2000


@dataclass(frozen=True)
class Coverage:
    """Share of studies whose 95 % interval holds the truth."""

    kind: str
    clusters: int
    studies: int
    covered: float
    below: float
    above: float


def draw(kind: str, clusters: int, rng: np.random.Generator) -> tuple[Float, Float, float]:
    """(numerators, denominators, true ratio) of one study.

    ``mean``: one skewed value per cluster. ``paired difference``: two arms on the same steps of cases of unequal
    length, whose hits depend on the case. ``ratio of sums``: hits in cases of unequal length, longer cases harder.
    """
    if kind == "mean":
        return rng.gamma(2.0, 0.5, clusters), np.ones(clusters), 1.0
    length = rng.geometric(0.15, clusters).astype(float) + 1
    if kind == "paired difference":
        ease = rng.beta(4, 2, clusters)
        a = rng.binomial(length.astype(int), ease)
        b = rng.binomial(length.astype(int), 0.9 * ease)
        # The length does not depend on the ease, so the ratio is 0.1 · E[ease] = 0.1 · 4/6.
        return (a - b).astype(float), length, 0.1 * 4 / 6
    hits = rng.binomial(length.astype(int), 1 / (1 + length / 10)).astype(float)
    return hits, length, _long_run_ratio()


def _long_run_ratio() -> float:
    """E[L · q(L)] / E[L] for L = 1 + Geometric(0.15) and q(L) = 1/(1 + L/10)."""
    k = np.arange(1, 2000)
    weight = 0.15 * 0.85 ** (k - 1)
    length = k + 1.0
    return float((weight * length / (1 + length / 10)).sum() / (weight * length).sum())


def coverage(kind: str, rng: np.random.Generator, *, studies: int = STUDIES, clusters: int = CLUSTERS) -> Coverage:
    """Coverage of the BCa interval."""
    inside = below = above = 0
    for _ in range(studies):
        n, d, truth = draw(kind, clusters, rng)
        found = cluster_bootstrap(n, d, rng=rng, resamples=RESAMPLES).interval(0)
        below += found.high < truth
        above += found.low > truth
        inside += found.low <= truth <= found.high
    return Coverage(kind, clusters, studies, inside / studies, below / studies, above / studies)


def simulated_sums(plan: Plan, rng: np.random.Generator, *, clusters: int, effect: float, preserved: float) -> Sums:
    """Hits of every arm: the treatment of H1 and H3 is better than every rival by `effect`, that of H2 by `preserved`.

    Arms share the difficulty of the case and a part of their luck, as predictors of the same steps do.
    """
    length = (rng.geometric(0.2, clusters) + 2).astype(int)
    case = np.repeat(np.arange(clusters), length)
    ease = np.clip(rng.normal(0.6, 0.12, clusters), 0.15, 0.85)[case]
    shared = rng.random(len(case))
    same_luck = rng.random(len(case)) < 0.6
    shift = {plan.h1.treatment: effect, plan.h2.treatment: effect + preserved}
    hits: dict[str, dict[str, Float]] = {}
    for name in plan.arms:
        luck = np.where(same_luck, shared, rng.random(len(case)))
        hit = luck < ease + shift.get(name, 0.0)
        sums = sum_by(case, hit, clusters)
        hits[name] = {"top-k": sums, "top-1": sums}
    return Sums(tuple(f"c{i}" for i in range(clusters)), length.astype(float), hits)


def decide(sums: Sums, plan: Plan, rng: np.random.Generator) -> list[Claim]:
    """H1 to H3 of a simulated study."""
    c = contrasts(sums, plan, rng)
    if c is None:
        return []
    claims = [h1(c), h2(c, projects=True, differs=True), h3(c, PENDING)]
    hold_family_wise(claims, plan)
    return claims


@dataclass(frozen=True)
class ErrorRates:
    """How often the gate supports something, over simulated studies."""

    studies: int
    any_supported: float
    supported: dict[str, float]


def error_rates(
    plan: Plan,
    rng: np.random.Generator,
    *,
    studies: int = STUDIES,
    clusters: int = CLUSTERS,
    effect: float = 0.0,
    preserved: float | None = None,
) -> ErrorRates:
    """Without an effect (H2 exactly at its margin) every support is false; with one it is power."""
    preserved = -plan.h2.margin if preserved is None else preserved
    counts = dict.fromkeys(("H1", "H2", "H3"), 0)
    any_supported = 0
    for _ in range(studies):
        sums = simulated_sums(plan, rng, clusters=clusters, effect=effect, preserved=preserved)
        won = [claim.id for claim in decide(sums, plan, rng) if claim.decision == SUPPORTED]
        any_supported += bool(won)
        for name in won:
            counts[name] += 1
    return ErrorRates(studies, any_supported / studies, {k: n / studies for k, n in counts.items()})


def predicted_power(plan: Plan, rng: np.random.Generator, *, clusters: int, effect: float, draws: int = 200) -> float:
    """Power of H1 alone at the unadjusted level by normal theory: Φ(effect/se − z), means over some studies."""
    errors, effects = [], []
    for _ in range(draws):
        sums = simulated_sums(plan, rng, clusters=clusters, effect=effect, preserved=0.0)
        difference = sums.of(plan.h1.treatment, "top-k") - sums.of(plan.h1.control, "top-k")
        errors.append(standard_error(difference, sums.steps))
        effects.append(float(difference.sum() / sums.steps.sum()))
    z = float(ndtri((1 + plan.level) / 2))
    return float(ndtr(np.mean(effects) / np.mean(errors) - z))


def simulation_plan() -> Plan:
    """The plan of the package with fewer resamples, so that a thousand studies take minutes."""
    plan, _ = load_plan(None)
    return msgspec.structs.replace(plan, resamples=1000)


def page(seed: int, studies: int) -> str:
    """The figures as Markdown."""
    plan = simulation_plan()
    lines = [
        "# Are the intervals and the gate right?",
        "",
        f"Simulated studies with known truth, {studies} each, seed {seed}; written by `python -m "
        "experiments.coverage`.",
        "",
        "## Coverage of the 95 % interval",
        "",
        "| statistic | clusters | covered | truth above the interval | truth below it |",
        "|---|---:|---:|---:|---:|",
    ]
    for at, kind in enumerate(KINDS):
        found = coverage(kind, np.random.default_rng([seed, at]), studies=studies)
        lines.append(
            f"| {kind} | {found.clusters} | {100 * found.covered:.1f} % | {100 * found.below:.1f} % | "
            f"{100 * found.above:.1f} % |"
        )
    null = error_rates(plan, np.random.default_rng([seed, 10]), studies=studies)
    effect = 0.06
    power = error_rates(plan, np.random.default_rng([seed, 11]), studies=studies, effect=effect, preserved=0.0)
    predicted = predicted_power(plan, np.random.default_rng([seed, 12]), clusters=CLUSTERS, effect=effect)
    lines += [
        "",
        "## Decisions of the gate",
        "",
        f"{CLUSTERS} cases; every arm equally good, abstraction exactly {100 * plan.h2.margin:.0f} points worse: every "
        "`supported` is false.",
        "",
        "| study | any | H1 | H2 | H3 |",
        "|---|---:|---:|---:|---:|",
        _rates("no effect", null),
        _rates(f"effect of {100 * effect:.0f} points", power),
        "",
        f"Predicted power of H1 alone, before Holm: {100 * predicted:.1f} %.",
    ]
    return "\n".join(lines) + "\n"


def _rates(name: str, found: ErrorRates) -> str:
    cells = [found.any_supported, *(found.supported[h] for h in ("H1", "H2", "H3"))]
    return f"| {name} | " + " | ".join(f"{100 * value:.1f} %" for value in cells) + " |"


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--studies", type=int, default=STUDIES)
    parser.add_argument("--output", type=Path, default=Path("docs/research/statistics.md"))
    given = parser.parse_args()
    write_whole(given.output, page(given.seed, given.studies).encode())


if __name__ == "__main__":
    main()
