"""H5: does what other kinds of work taught help on a kind that was not seen?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from experiments.arms import arm
from experiments.claims import PENDING, REJECTED, SUPPORTED, Claim, Float, contrast_json, points, sum_by
from experiments.dataset import Dataset
from experiments.intervals import cluster_bootstrap, pool, standard_error
from experiments.plan import Plan
from experiments.protocol import Predictions, predict
from experiments.splits import leave_one_case_out, leave_one_group_out
from sherpa.errors import SplitError


def h5(dataset: Dataset, plan: Plan, rng: np.random.Generator, *, parity: bool = False) -> Claim:
    """Leave one group out: learned elsewhere against a floor that knows the target group alone.

    The floor is fitted within the group, one case left out at a time; the ceiling is the treatment fitted the same
    way. Supported where the pooled contrast and at least `share_of_groups` of the groups lie above 0.
    """
    pending = Claim("H5", PENDING, None, None, None, "", "", PENDING, [])
    groups = [dataset.group(i) for i in range(len(dataset.log))]
    try:
        split = leave_one_group_out(dataset.log, groups)
    except SplitError as error:
        return replace(pending, evidence=error.problem)
    away = predict(dataset, split, arm(plan.h5.treatment, plan, parity=parity), top=plan.top_k)
    rows: list[dict[str, Any]] = []
    numerators: list[Float] = []
    denominators: list[Float] = []
    errors: list[float] = []
    for fold in split:
        if len(fold.test) < 2:
            continue
        inside = replace_log(dataset, fold.test.tolist())
        floor = predict(inside, leave_one_case_out(inside.log), arm(plan.h5.floor, plan, parity=parity), top=plan.top_k)
        ceiling = predict(
            inside, leave_one_case_out(inside.log), arm(plan.h5.treatment, plan, parity=parity), top=plan.top_k
        )
        moved = _case_sums(away, plan, fold.test.tolist())
        base, best = (_case_sums(part, plan, range(len(inside.log))) for part in (floor, ceiling))
        steps = moved[1]
        if (steps > 0).sum() < 2:
            continue
        difference = moved[0] - base[0]
        numerators.append(difference)
        denominators.append(steps)
        errors.append(standard_error(difference, steps))
        found = cluster_bootstrap(difference, steps, rng=rng, resamples=plan.resamples).interval(0, level=plan.level)
        rows.append(
            {
                "group": fold.name,
                **contrast_json(
                    plan.h5.treatment, f"{plan.h5.floor} in the group", plan.metric, found, found.p_two_sided
                ),
                "transfer": float(moved[0].sum() / steps.sum()),
                "floor": float(base[0].sum() / steps.sum()),
                "ceiling": float(best[0].sum() / steps.sum()),
                "ratioToCeiling": float(moved[0].sum() / best[0].sum()) if best[0].sum() else None,
            }
        )
    if len(rows) < 2:
        return replace(pending, evidence="fewer than two groups have two cases with steps to test")
    boot = cluster_bootstrap(
        np.concatenate(numerators), np.concatenate(denominators), rng=rng, resamples=plan.resamples
    )
    whole = boot.interval(0, level=plan.level)
    pooled = pool([r["estimate"] for r in rows], errors, level=plan.level)
    low, high = (pooled.low, pooled.high) if pooled else (whole.low, whole.high)
    won = sum(r["ci"]["low"] > 0 for r in rows)
    decision = PENDING
    if low > 0 and won >= plan.h5.share_of_groups * len(rows) and whole.clusters >= plan.min_clusters:
        decision = SUPPORTED
    elif high < 0:
        decision = REJECTED
    estimate = pooled.estimate if pooled else whole.estimate
    shown = replace(whole, estimate=estimate, low=low, high=high, method="random-effects" if pooled else whole.method)
    evidence = (
        f"learned elsewhere vs floor: {points(estimate)}, {100 * plan.level:.0f} % interval {points(low)} to "
        f"{points(high)} over {len(rows)} groups; above 0 in {won} of them"
    )
    return Claim("H5", decision, estimate, shown, None, evidence, "", PENDING, rows)


def replace_log(dataset: Dataset, cases: Sequence[int]) -> Dataset:
    """The dataset of some of its cases."""
    kept = tuple(dataset.cases[i] for i in cases) if dataset.cases else ()
    return replace(dataset, log=dataset.log.subset(cases), cases=kept)


def _case_sums(part: Predictions, plan: Plan, cases: Sequence[int]) -> tuple[Float, Float]:
    """(hits, steps) of each of the cases."""
    place = {case: at for at, case in enumerate(cases)}
    index = part.array("case").astype(np.int64)
    inside = np.isin(index, list(place))
    at = np.array([place[i] for i in index[inside].tolist()], dtype=np.int64)
    rank = part.array("rank_of_target").astype(np.int64)[inside]
    limit = 1 if plan.metric == "top-1" else plan.top_k
    return sum_by(at, (rank > 0) & (rank <= limit), len(place)), sum_by(at, np.ones(len(at)), len(place))
