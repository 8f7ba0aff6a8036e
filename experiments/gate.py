"""The research gate: every arm on the same folds, then decisions on H1 to H5."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from baselines.registry import PUBLISHED
from experiments import metrics
from experiments.arms import arm
from experiments.claims import PENDING, Claim, Contrasts, arm_sums, contrasts, h1, h2, h3, point_rule_h3, settle
from experiments.dataset import Dataset
from experiments.plan import SHERPA_ARMS, Plan
from experiments.protocol import Predictions, PredictionTable, Progress, predict
from experiments.splits import Split, k_fold, make_split
from experiments.transfer import h5


@dataclass(frozen=True)
class GateResult:
    """What a gate run on one dataset found."""

    dataset: Dataset
    split: Split
    table: PredictionTable
    contrasts: Contrasts | None
    claims: list[Claim]


Watch = Callable[[str, int], Progress]


def run_gate(
    dataset: Dataset, plan: Plan, h4: Claim, *, parity: bool = False, watch: Watch | None = None
) -> GateResult:
    """Run every arm, then decide H1 to H5 (`h4` comes from intervention runs, see `experiments.intervention`)."""
    log = dataset.log
    rng = np.random.default_rng(plan.seed)
    groups = [dataset.group(i) for i in range(len(log))]
    split = make_split(
        plan.split,
        log,
        folds=plan.folds,
        test_fraction=plan.test_fraction,
        groups=groups,
        rng=np.random.default_rng(plan.seed),
        file=dataset.path,
    )
    parts: dict[str, Predictions] = {}
    for name in plan.arms:
        progress = watch(f"{dataset.name}: {name}", sum(len(f.test) for f in split)) if watch else None
        online = plan.online or (parity and name in SHERPA_ARMS)
        parts[name] = predict(
            dataset, split, arm(name, plan, parity=parity), top=plan.top_k, online=online, progress=progress
        )
    table = PredictionTable(parts)
    c = contrasts(arm_sums(dataset, plan, table), plan, rng)
    if c is None:
        reason = split.detail.get("reason") or "fewer than two cases have a step to test"
        claims = [Claim(name, PENDING, None, None, None, reason, "", PENDING, []) for name in ("H1", "H2", "H3")]
    else:
        projects = bool((log.procedures >= 0).any() or (log.families >= 0).any())
        ranks = [table[name].columns["rank_of_target"] for name in (plan.h2.treatment, plan.h2.control)]
        differs = ranks[0] != ranks[1]
        claims = [h1(c), h2(c, projects=projects, differs=differs), h3(c, point_rule_h3(c, PUBLISHED))]
    claims += [replace(h4), h5(dataset, plan, rng, parity=parity)]
    return GateResult(dataset, split, table, c, settle(claims, c, plan))


def learning_curve(dataset: Dataset, plan: Plan, names: Sequence[str], *, sizes: int = 5) -> list[dict[str, Any]]:
    """Accuracy against the number of training cases: a fifth of the cases is tested, growing parts are learned."""
    log = dataset.log
    if len(set(log.case_ids)) < 10:
        return []
    fold = k_fold(log, 5, np.random.default_rng(plan.seed)).folds[0]
    rest = np.setdiff1d(np.arange(len(log)), fold.test)
    order = np.random.default_rng(plan.seed).permutation(rest)
    points = sorted({int(n) for n in np.geomspace(max(2, len(rest) / 2**sizes), len(rest), sizes)})
    rows = []
    for size in points:
        part = Split("holdout", [replace(fold, train=np.sort(order[:size]))])
        for name in names:
            found = predict(dataset, part, arm(name, plan), top=plan.top_k)
            ranks = found.array("rank_of_target").astype(np.int64)
            accuracy = metrics.top_k_accuracy(ranks, 1 if plan.metric == "top-1" else plan.top_k)
            rows.append({"predictor": name, "trainingCases": size, "accuracy": accuracy})
    return rows
