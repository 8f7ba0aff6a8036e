"""The report of one arm: what ``validate``, ``validate-baselines`` and the gate say about a predictor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments import metrics
from experiments.annotated import annotated_report
from experiments.dataset import Dataset
from experiments.leakage import trivial_steps
from experiments.protocol import Predictions
from sherpa.collation import collation_key
from sherpa.rounding import round_half_up
from sherpa.terminal import FAILURE, SUCCESS


def arm_report(dataset: Dataset, part: Predictions, top_k: int, max_misses: int) -> dict[str, Any]:
    """Accuracies, misses, risks and support of one arm (camelCase, as in the record)."""
    ranks = part.array("rank_of_target").astype(np.int64)
    cases = part.array("case").astype(np.int64)
    hard = ~trivial_steps(part)
    bins = reliability(part, ranks)
    return {
        "cases": len(dataset.log),
        "datasetEvents": dataset.log.events,
        "evaluatedSteps": len(part),
        "nextTop1Accuracy": metrics.top_k_accuracy(ranks, 1),
        "nextTopKAccuracy": metrics.top_k_accuracy(ranks, top_k),
        "topK": top_k,
        "missCount": int(((ranks == 0) | (ranks > top_k)).sum()),
        "macroTop1Accuracy": metrics.macro_accuracy(ranks, cases, 1),
        "macroTopKAccuracy": metrics.macro_accuracy(ranks, cases, top_k),
        "meanReciprocalRank": metrics.reciprocal_rank(ranks),
        "coverage": metrics.mean([bool(events) for events in part.columns["top_k"]]),
        "nonTrivial": {
            "steps": int(hard.sum()),
            "nextTop1Accuracy": metrics.top_k_accuracy(ranks[hard], 1),
            "nextTopKAccuracy": metrics.top_k_accuracy(ranks[hard], top_k),
        },
        "probability": probability(part, bins),
        "reliability": bins_json(bins),
        "riskCoverage": risk_coverage(part, ranks),
        "eventBreakdown": breakdown(part, ranks, top_k),
        "misses": misses(part, ranks, top_k, max_misses),
        "missEvidence": miss_evidence(part, ranks, top_k, max_misses),
        "research": {
            "support": support(part, top_k),
            "matchBreakdown": matches(part),
            "backoffDepths": metrics.distribution(part.columns["backoff_depth"]),
            "matchedOrders": metrics.distribution([max(0, k) for k in part.columns["matched_order"]]),
            "risks": risks(dataset, part),
            "outcome": outcome(dataset, part),
            "annotations": annotated_report(dataset, part, top_k),
        },
    }


def reliability(part: Predictions, ranks: Any) -> list[metrics.CalibrationBin]:
    """How often the first-ranked event came, by its probability, in bins of equal mass.

    For a predictor that is not calibrated the probability is its share of the support, and the bins describe it.
    """
    given = np.array([p is not None for p in part.columns["p_top1"]], dtype=bool)
    p = np.array([x or 0.0 for x in part.columns["p_top1"]], dtype=float)[given]
    return metrics.calibration_bins(p, (ranks == 1)[given])


def bins_json(bins: Sequence[metrics.CalibrationBin]) -> list[dict[str, Any]]:
    """Bins as the record holds them."""
    return [{"confidence": b.confidence, "accuracy": b.accuracy, "count": b.count} for b in bins]


def risk_coverage(part: Predictions, ranks: Any, points: int = 20) -> dict[str, Any]:
    """Error among the most confident share of steps, and its mean over shares (the area under the curve).

    Steps are ordered by the probability of the first rank; a step without a prediction comes last, as an error.
    Equal probabilities are resolved together, by their mean error.
    """
    if len(part) == 0:
        return {"area": None, "points": []}
    p = np.array([-1.0 if x is None else x for x in part.columns["p_top1"]], dtype=float)
    wrong = (ranks != 1).astype(float)
    # Probabilities that differ in the last digits only are one level, whatever the order of summation was.
    _, level = np.unique(-p.round(12), return_inverse=True)
    mean_wrong = np.bincount(level, weights=wrong) / np.bincount(level)
    order = np.argsort(level, kind="stable")
    error = np.cumsum(mean_wrong[level[order]]) / np.arange(1, len(p) + 1)
    at = np.unique(np.ceil(np.linspace(1 / points, 1, points) * len(p)).astype(int) - 1)
    rows = [{"coverage": float((i + 1) / len(p)), "error": float(error[i])} for i in at.tolist()]
    return {"area": float(error.mean()), "points": rows}


def probability(table: Predictions, bins: Sequence[metrics.CalibrationBin]) -> dict[str, Any]:
    """Log loss, Brier score and calibration error of a calibrated predictor; nothing for any other."""
    p_target, squared = table.array("p_target").astype(float), table.array("p_squared").astype(float)
    return {
        "calibrated": table.calibrated,
        "logLossBits": metrics.log_loss_bits(p_target) if table.calibrated else None,
        "brier": metrics.brier_score(p_target, squared) if table.calibrated else None,
        "ece": metrics.expected_calibration_error(bins) if table.calibrated else None,
        "bins": bins_json(bins) if table.calibrated else [],
    }


def breakdown(table: Predictions, ranks: Any, k: int) -> list[dict[str, Any]]:
    rows: dict[str, list[int]] = {}
    for target, rank in zip(table.columns["target"], ranks.tolist(), strict=True):
        row = rows.setdefault(target, [0, 0, 0])
        row[0] += 1
        row[1] += rank == 1
        row[2] += 0 < rank <= k
    order = sorted(rows.items(), key=lambda item: (-item[1][0], item[1][2] / item[1][0], collation_key(item[0])))
    return [
        {
            "event": event,
            "occurrences": n,
            "top1Hits": first,
            "topKHits": top,
            "top1Accuracy": first / n,
            "topKAccuracy": top / n,
        }
        for event, (n, first, top) in order
    ]


def _missed(ranks: Any, k: int, limit: int) -> list[int]:
    found: list[int] = np.flatnonzero((ranks == 0) | (ranks > k))[: max(0, limit)].tolist()
    return found


def misses(table: Predictions, ranks: Any, k: int, limit: int) -> list[dict[str, Any]]:
    """The first steps at which the target was not among the first k."""
    c = table.columns
    return [
        {
            "caseId": table.log.case_ids[c["case"][i]],
            "step": c["step"][i],
            "expected": c["target"][i],
            "predicted": list(c["top_k"][i]),
        }
        for i in _missed(ranks, k, limit)
    ]


def miss_evidence(table: Predictions, ranks: Any, k: int, limit: int) -> list[dict[str, Any]]:
    """What each of `misses` rested on, in the same order."""
    c = table.columns
    return [
        {
            "mode": c["mode"][i],
            "matchedOrder": max(0, c["matched_order"][i]),
            "support": c["support"][i],
            "rankOfTarget": c["rank_of_target"][i] or None,
        }
        for i in _missed(ranks, k, limit)
    ]


def support(table: Predictions, k: int) -> dict[str, Any]:
    """Support density. Totals are over the candidates that were returned; orders over matched steps."""
    c = table.columns
    matched = table.array("matched_order").astype(np.int64) > 0

    def average(values: Any) -> float | None:
        value = metrics.mean(values)
        return None if value is None else round_half_up(value, 3)

    supports = c["supports"]
    states = c["states"]
    # A prediction by overall frequency is not a match: it counts neither as candidates nor as support.
    rows = [s[:k] if m else () for s, m in zip(supports, matched.tolist(), strict=True)]
    return {
        "matchedSteps": int(matched.sum()),
        "unmatchedSteps": int((~matched).sum()),
        "averageCandidateCount": average([len(s) for s in rows]),
        "averageTotalSupport": average([sum(s) for s in rows]),
        "averageTopCandidateSupport": average([s[0] if s else 0 for s in rows]),
        "averageMatchedOrder": average(table.array("matched_order")[matched]),
        "averageGraphStates": average(states),
        "minGraphStates": min(states, default=None),
        "maxGraphStates": max(states, default=None),
    }


def matches(table: Predictions) -> list[dict[str, Any]]:
    counts: dict[tuple[str, int], int] = {}
    for mode, order in zip(table.columns["mode"], table.columns["matched_order"], strict=True):
        key = (mode, max(0, order))
        counts[key] = counts.get(key, 0) + 1
    rows = sorted(counts.items(), key=lambda item: (-item[1], -item[0][1], collation_key(item[0][0])))
    return [
        {"mode": mode, "matchedOrder": order, "occurrences": n, "share": round_half_up(n / len(table), 3)}
        for (mode, order), n in rows
    ]


def risks(dataset: Dataset, table: Predictions) -> dict[str, Any] | None:
    """Warnings against annotated risks; None if the dataset annotates none."""
    expected = {
        (index, e.step): e.expected_risks
        for index in range(len(dataset.cases))
        for e in dataset.annotations(index).expectations.next_by_step
        if e.expected_risks is not None
    }
    if not expected:
        return None
    c = table.columns
    counts = metrics.risk_counts(c["risks"], list(zip(c["case"], c["step"], strict=True)), expected)
    return {
        "evaluatedSteps": counts.annotated_steps,
        "expectedRiskCount": counts.expected,
        "predictedRiskCount": counts.predicted,
        "truePositiveCount": counts.true_positive,
        "precision": counts.precision,
        "recall": counts.recall,
        "f1": counts.f1,
        "falseAlarmRate": counts.false_alarm_rate,
        "leadTimeSteps": counts.lead_time,
    }


def outcome(dataset: Dataset, table: Predictions) -> dict[str, Any]:
    """How well the share of successful cases behind a state tells how the case will end."""
    terminal = dataset.log.terminal[table.array("case").astype(np.int64)] if len(table) else np.empty(0, np.int8)
    known = np.array([s is not None for s in table.columns["success"]], dtype=bool)
    known &= (terminal == SUCCESS) | (terminal == FAILURE)
    scores = np.array([s or 0.0 for s in table.columns["success"]], dtype=float)[known]
    good = (terminal == SUCCESS)[known]
    return {
        "steps": int(known.sum()),
        "auc": metrics.area_under_curve(scores, good),
        "brier": metrics.mean((scores - good) ** 2),
    }


def best_by_accuracy(reports: Sequence[dict[str, Any]], key: str) -> dict[str, Any] | None:
    """The arm with the highest top-1, then top-K accuracy, then fewest misses; None if nothing was tested."""
    tested = [r for r in reports if r["nextTop1Accuracy"] is not None]
    if not tested:
        return None
    best = min(tested, key=lambda r: (-r["nextTop1Accuracy"], -r["nextTopKAccuracy"], r["missCount"]))
    return {name: best[name] for name in (key, "nextTop1Accuracy", "nextTopKAccuracy", "missCount")}


def best_by_risk_recall(reports: Sequence[dict[str, Any]], key: str) -> dict[str, Any] | None:
    """The arm with the highest recall, then precision of annotated risks, then fewest missed next events."""
    scored = [r for r in reports if (r["research"]["risks"] or {}).get("expectedRiskCount")]
    if not scored:
        return None

    def quality(report: dict[str, Any]) -> tuple[float, float, int]:
        found = report["research"]["risks"]
        # A precision that is not measured ranks below one of 0: nothing was warned of at all.
        recall, precision = (-1.0 if found[name] is None else found[name] for name in ("recall", "precision"))
        return -recall, -precision, report["missCount"]

    best = min(scored, key=quality)
    found = best["research"]["risks"]
    return {
        key: best[key],
        **{n: found[n] for n in ("precision", "recall", "expectedRiskCount", "predictedRiskCount")},
    }
