"""Claims: H1 to H3 as contrasts of arms, each with an interval and a decision."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.dataset import Dataset
from experiments.intervals import Bootstrap, Interval, cluster_bootstrap, clusters_needed, holm
from experiments.plan import SHERPA_ARMS, Plan
from experiments.protocol import PredictionTable

Float = npt.NDArray[np.float64]

CLAIMS = {
    "H1": "Raw recurrence predicts the next event better than overall frequency does.",
    "H2": "Abstract states predict at least as well as raw ones.",
    "H3": "The workflow graph predicts better than every memory without a graph.",
    "H4": "Sparse advice from the graph makes agents succeed more often, without harm.",
    "H5": "What is learned from other kinds of work helps on a kind that was not seen.",
}
SUPPORTED, REJECTED, PENDING = "supported", "rejected", "pending"


@dataclass(frozen=True)
class Sums:
    """Hits and steps of each arm per cluster; every arm was tested on the same steps.

    `outer` is the group of each cluster where data of two levels are resampled on both: groups first, then the cases
    inside each. Groups are the independent units then.
    """

    clusters: tuple[str, ...]
    steps: Float
    hits: dict[str, dict[str, Float]]
    outer: npt.NDArray[np.int64] | None = None

    def of(self, name: str, metric: str) -> Float:
        return self.hits[name][metric]


@dataclass
class Claim:
    """One hypothesis on one dataset."""

    id: str
    decision: str
    estimate: float | None
    interval: Interval | None
    p: float | None
    evidence: str
    next_action: str
    point_rule: str
    contrasts: list[dict[str, Any]]
    improves: bool | None = None
    cases_needed: int | None = None
    p_holm: float | None = None
    power: list[tuple[int, float]] | None = None

    def to_json(self) -> dict[str, Any]:
        found = self.interval
        return {
            "id": self.id,
            "claim": CLAIMS[self.id],
            "decision": self.decision,
            "decisionPointRule": self.point_rule,
            "estimate": self.estimate,
            "ci": None if found is None else interval_json(found),
            "clusters": None if found is None else found.clusters,
            "p": self.p,
            "pHolm": self.p_holm,
            "evidence": self.evidence,
            "nextAction": self.next_action,
            "casesNeeded": self.cases_needed,
            "improves": self.improves,
            "contrasts": self.contrasts,
            "power": [{"clusters": n, "power": p} for n, p in self.power or ()],
        }


def interval_json(found: Interval) -> dict[str, Any]:
    """An interval as the record holds it."""
    return {"low": found.low, "high": found.high, "level": found.level, "method": found.method}


def arm_sums(dataset: Dataset, plan: Plan, table: PredictionTable) -> Sums:
    """Per-cluster sums of every arm."""
    first = table[table.predictors[0]]
    case = first.array("case").astype(np.int64)
    groups = cluster_labels(dataset, plan)
    labels = list(dataset.log.case_ids) if plan.two_level else groups
    names = list(dict.fromkeys(labels[i] for i in case.tolist()))
    place = {name: at for at, name in enumerate(names)}
    index = np.array([place[labels[i]] for i in case.tolist()], dtype=np.int64)
    hits: dict[str, dict[str, Float]] = {}
    for name in table.predictors:
        rank = table[name].array("rank_of_target").astype(np.int64)
        hits[name] = {
            "top-1": sum_by(index, rank == 1, len(names)),
            "top-k": sum_by(index, (rank > 0) & (rank <= plan.top_k), len(names)),
        }
    outer = None
    if plan.two_level:
        group_of = dict(zip(labels, groups, strict=True))
        outer = np.unique([group_of[name] for name in names], return_inverse=True)[1].astype(np.int64)
    return Sums(tuple(names), sum_by(index, np.ones(len(index)), len(names)), hits, outer)


def cluster_labels(dataset: Dataset, plan: Plan) -> list[str]:
    """The independent unit of each case: the case itself, its group, or what the plan's pattern finds in its id."""
    ids = dataset.log.case_ids
    if plan.cluster_pattern is not None:
        found = [re.search(plan.cluster_pattern, case_id) for case_id in ids]
        return [(match.group(1) if match else None) or case_id for match, case_id in zip(found, ids, strict=True)]
    if plan.cluster == "group":
        return [dataset.group(i) or case_id for i, case_id in enumerate(ids)]
    return list(ids)


def sum_by(index: npt.NDArray[np.int64], values: npt.ArrayLike, size: int) -> Float:
    """Sum of the values of each index below `size`."""
    return np.bincount(index, weights=np.asarray(values, dtype=float), minlength=size).astype(np.float64)


@dataclass(frozen=True)
class Contrasts:
    """Paired differences between arms, all from the same resamples."""

    sums: Sums
    plan: Plan
    boot: Bootstrap
    column: Mapping[tuple[str, str, str], int]

    def interval(self, treatment: str, control: str, metric: str, null: float = 0.0) -> Interval:
        at = self.column[treatment, control, metric]
        return self.boot.interval(at, level=self.plan.level, null=null)

    def difference(self, treatment: str, control: str, metric: str) -> Float:
        return self.sums.of(treatment, metric) - self.sums.of(control, metric)


def contrast_pairs(plan: Plan) -> list[tuple[str, str]]:
    """(treatment, control) of every contrast of H1 to H3, each once."""
    pairs = [(plan.h1.treatment, plan.h1.control), (plan.h2.treatment, plan.h2.control)]
    pairs += [(plan.h3.treatment, control) for control in plan.h3.controls]
    return list(dict.fromkeys(pairs))


def contrasts(sums: Sums, plan: Plan, rng: np.random.Generator) -> Contrasts | None:
    """Bootstrap every contrast and every arm; None if there are fewer than two clusters."""
    units = len(sums.clusters) if sums.outer is None else len(np.unique(sums.outer))
    if units < 2 or sums.steps.sum() == 0:
        return None
    keys: list[tuple[str, str, str]] = []
    columns: list[Float] = []
    for metric in ("top-k", "top-1"):
        for treatment, control in contrast_pairs(plan):
            keys.append((treatment, control, metric))
            columns.append(sums.of(treatment, metric) - sums.of(control, metric))
        for name in sums.hits:
            keys.append((name, "", metric))
            columns.append(sums.of(name, metric))
    numerators = np.stack(columns, axis=1)
    boot = cluster_bootstrap(numerators, sums.steps, rng=rng, resamples=plan.resamples, outer=sums.outer)
    return Contrasts(sums, plan, boot, {key: at for at, key in enumerate(keys)})


# -- H1 to H3 --------------------------------------------------------------------------------------------------


def contrast_json(treatment: str, control: str, metric: str, found: Interval, p: float | None = None) -> dict[str, Any]:
    """A contrast as the record holds it."""
    return {
        "treatment": treatment,
        "control": control,
        "metric": metric,
        "estimate": found.estimate,
        "ci": interval_json(found),
        "clusters": found.clusters,
        "p": p,
    }


def _pair(
    c: Contrasts, treatment: str, control: str, null: float = 0.0
) -> tuple[Interval, float, list[dict[str, Any]]]:
    """Interval and two-sided p-value on the plan's metric, and both metrics for the record."""
    rows = []
    chosen: tuple[Interval, float] | None = None
    for metric in ("top-k", "top-1"):
        found = c.interval(treatment, control, metric, null)
        rows.append(contrast_json(treatment, control, metric, found, found.p_two_sided))
        if metric == c.plan.metric:
            chosen = (found, found.p_two_sided)
    if chosen is None:
        raise ValueError(c.plan.metric)
    return *chosen, rows


def points(value: float) -> str:
    return f"{100 * value:+.1f} points"


def _evidence(treatment: str, control: str, plan: Plan, found: Interval) -> str:
    name = "top-1" if plan.metric == "top-1" else f"top-{plan.top_k}"
    few = " (too few clusters to support anything)" if found.clusters < plan.min_clusters else ""
    return (
        f"{treatment} vs {control}: {points(found.estimate)} in {name} accuracy, {100 * found.level:.0f} % interval "
        f"{points(found.low)} to {points(found.high)}, {found.clusters} clusters{few}"
    )


def h1(c: Contrasts) -> Claim:
    """Supported above 0; rejected where even the upper end is below the smallest effect of interest."""
    plan = c.plan
    treatment, control = plan.h1.treatment, plan.h1.control
    found, p, rows = _pair(c, treatment, control)
    decision = PENDING
    if found.low > 0 and found.clusters >= plan.min_clusters:
        decision = SUPPORTED
    elif found.high < plan.h1.smallest_effect:
        decision = REJECTED
    point = _accuracy(c, treatment, "top-k") > _accuracy(c, control, "top-k") or _accuracy(
        c, treatment, "top-1"
    ) > _accuracy(c, control, "top-1")
    return Claim(
        "H1",
        decision,
        found.estimate,
        found,
        p,
        _evidence(treatment, control, plan, found),
        "",
        SUPPORTED if point else REJECTED,
        rows,
    )


def h2(c: Contrasts, *, projects: bool, differs: bool) -> Claim:
    """Supported where the lower end is above −margin; pending where there is nothing to project."""
    plan = c.plan
    treatment, control, margin = plan.h2.treatment, plan.h2.control, plan.h2.margin
    found, p, rows = _pair(c, treatment, control, null=-margin)
    decision, improves = PENDING, found.low > 0
    tested = projects and differs
    evidence = _evidence(treatment, control, plan, found)
    if not projects:
        evidence = "no event carries a facet, so abstract states are raw states; " + evidence
    elif not differs:
        evidence = "both strategies rank alike at every step, so nothing was tested; " + evidence
    elif found.low > -margin and found.clusters >= plan.min_clusters:
        decision = SUPPORTED
    elif found.high < -margin:
        decision = REJECTED
    point = _accuracy(c, treatment, "top-k") >= _accuracy(c, control, "top-k") and _accuracy(
        c, treatment, "top-1"
    ) >= _accuracy(c, control, "top-1")
    return Claim(
        "H2",
        decision,
        found.estimate,
        found,
        p if tested else None,
        evidence,
        "",
        SUPPORTED if point else REJECTED,
        rows,
        improves=bool(improves),
    )


def h3(c: Contrasts, point_rule: str) -> Claim:
    """Supported above 0 against every rival (intersection–union); rejected below 0 against some."""
    plan = c.plan
    treatment = plan.h3.treatment
    rows: list[dict[str, Any]] = []
    found: dict[str, tuple[Interval, float]] = {}
    for control in plan.h3.controls:
        interval, p, both = _pair(c, treatment, control)
        found[control] = (interval, p if interval.estimate > 0 else 1.0)
        rows += both
    worst = min(found, key=lambda control: found[control][0].low)
    interval = found[worst][0]
    beaten_by = [control for control, (other, _) in found.items() if other.high < 0]
    decision = PENDING
    if all(other.low > 0 for other, _ in found.values()) and interval.clusters >= plan.min_clusters:
        decision = SUPPORTED
    elif beaten_by:
        decision = REJECTED
    evidence = "closest rival: " + _evidence(treatment, worst, plan, interval)
    if beaten_by:
        evidence = f"beaten by {', '.join(beaten_by)}; " + evidence
    # The largest p-value of the parts is that of the whole (Berger 1982).
    p = max(p for _, p in found.values())
    return Claim("H3", decision, interval.estimate, interval, p, evidence, "", point_rule, rows)


def _accuracy(c: Contrasts, name: str, metric: str) -> float:
    return float(c.sums.of(name, metric).sum() / c.sums.steps.sum())


def point_rule_h3(c: Contrasts, published: Sequence[str]) -> str:
    """The original: best strategy against best rival, top-k or top-1."""

    def best(names: Sequence[str]) -> tuple[float, float]:
        return max((_accuracy(c, n, "top-1"), _accuracy(c, n, "top-k")) for n in names if n in c.sums.hits)

    ours, rival = best(SHERPA_ARMS), best(published)
    return SUPPORTED if ours[1] > rival[1] or ours[0] > rival[0] else REJECTED


NEXT_ACTION = {
    ("H1", SUPPORTED): "Go on to H2 and H3.",
    ("H1", REJECTED): "Look for recurrence first: cases may be too short or too diverse for sequences to matter.",
    ("H1", PENDING): "Collect more cases, or cases of more recurring work.",
    ("H2", SUPPORTED): "Use abstract states where support is thin.",
    ("H2", REJECTED): "Stay with raw states; revise the projection.",
    ("H2", PENDING): "Annotate projections, or collect more projected cases.",
    ("H3", SUPPORTED): "Test whether better prediction helps agents (H4).",
    ("H3", REJECTED): "Use the rival that won, or the blended estimator, before claiming a benefit of the graph.",
    ("H3", PENDING): "Collect more cases; the closest rival is not told apart from Sherpa yet.",
    ("H4", PENDING): "Run paired interventions with a live agent and pass them with --interventions.",
    ("H4", SUPPORTED): "Switch advice on by default, and keep measuring harm.",
    ("H4", REJECTED): "Keep advice off.",
    ("H5", SUPPORTED): "Share memory between kinds of work.",
    ("H5", REJECTED): "Keep one memory per kind of work.",
    ("H5", PENDING): "Annotate at least two workflow classes with enough cases each.",
}


def hold_family_wise(claims: Sequence[Claim], plan: Plan) -> None:
    """Adjust the p-values of H1 to H3 with Holm; a claim that does not survive is pending."""
    tested = [claim for claim in claims if claim.p is not None and claim.id in ("H1", "H2", "H3")]
    for claim, adjusted in zip(tested, holm([claim.p or 0.0 for claim in tested]), strict=True):
        claim.p_holm = adjusted
        if claim.decision == SUPPORTED and adjusted > plan.alpha:
            claim.decision = PENDING
            claim.evidence += f"; with all hypotheses counted p is {adjusted:.3f}, above {plan.alpha}"


def settle(claims: list[Claim], c: Contrasts | None, plan: Plan) -> list[Claim]:
    """Hold the family-wise error, ask how many cases would decide, and say what to do next."""
    hold_family_wise(claims, plan)
    for claim in claims:
        claim.next_action = NEXT_ACTION[claim.id, claim.decision]
        if c is None or claim.decision != PENDING or claim.p_holm is None:
            continue
        treatment, control = {
            "H1": (plan.h1.treatment, plan.h1.control),
            "H2": (plan.h2.treatment, plan.h2.control),
        }.get(claim.id) or (plan.h3.treatment, _worst_control(claim, plan))
        null = -plan.h2.margin if claim.id == "H2" else 0.0
        difference, steps = c.difference(treatment, control, plan.metric), c.sums.steps
        if c.sums.outer is not None:
            units = int(c.sums.outer.max()) + 1
            difference, steps = (sum_by(c.sums.outer, values, units) for values in (difference, steps))
        needed, curve = clusters_needed(
            difference,
            steps,
            null=null,
            rng=np.random.default_rng([plan.seed, int(claim.id[1])]),
            level=plan.level,
        )
        # However clear the effect, fewer than the plan's minimum never decide.
        claim.cases_needed = None if needed is None else max(needed, plan.min_clusters)
        claim.power = curve
    return claims


def _worst_control(claim: Claim, plan: Plan) -> str:
    rows = [r for r in claim.contrasts if r["metric"] == plan.metric]
    control: str = min(rows, key=lambda r: r["ci"]["low"])["control"]
    return control
