"""`validate`: how well Sherpa predicts the next event of one dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from baselines.predictor import Predictor
from baselines.procedural_memory import ProceduralMemoryPredictor
from experiments import metrics
from experiments.dataset import Dataset
from experiments.leakage import audit, trivial_steps
from experiments.protocol import Predictions, Progress, predict
from experiments.splits import Split, make_split
from sherpa.collation import collation_key
from sherpa.config import EngineConfig
from sherpa.errors import DatasetError
from sherpa.rounding import round_half_up
from sherpa.terminal import FAILURE, SUCCESS


@dataclass(frozen=True)
class Protocol:
    """How a dataset is tested.

    Parameters
    ----------
    split : str
        See `experiments.splits.SPLITS`.
    online : bool
        Learn the earlier steps of the tested case.
    fallback : bool
        Predict by overall frequency where no state matches.
    parity : bool
        The original's protocol: online, no fallback, a single observation is enough.
    """

    split: str = "leave-one-case-out"
    folds: int = 5
    test_fraction: float = 0.3
    seed: int = 0
    online: bool = False
    fallback: bool = True
    parity: bool = False
    top_k: int = 3
    max_misses: int = 25


def parity_protocol(protocol: Protocol) -> Protocol:
    """The same protocol by the original's rules."""
    return replace(protocol, online=True, fallback=False, parity=True)


@dataclass(frozen=True)
class Thresholds:
    """What a dataset has to reach; None asks nothing."""

    min_top1: float | None = None
    min_topk: float | None = None
    max_misses: int | None = None

    def failures(self, report: Mapping[str, Any]) -> list[str]:
        """What a report misses, in words."""
        found = []
        for name, floor in (("nextTop1Accuracy", self.min_top1), ("nextTopKAccuracy", self.min_topk)):
            value = report[name]
            if floor is None:
                continue
            if value is None:
                found.append(f"{name} is not measured (no step was tested); at least {floor} is asked")
            elif value < floor:
                found.append(f"{name} {value:.4f} is below {floor}")
        if self.max_misses is not None and report["missCount"] > self.max_misses:
            found.append(f"missCount {report['missCount']} exceeds {self.max_misses}")
        return found

    @property
    def any(self) -> bool:
        return any(v is not None for v in (self.min_top1, self.min_topk, self.max_misses))


def split_for(dataset: Dataset, protocol: Protocol, test: list[int] | None = None) -> Split:
    """The split that a protocol asks for."""
    return make_split(
        protocol.split,
        dataset.log,
        folds=protocol.folds,
        test_fraction=protocol.test_fraction,
        groups=[dataset.group(i) for i in range(len(dataset.log))],
        test=test,
        rng=np.random.default_rng(protocol.seed),
        file=dataset.path,
    )


def predict_with_memory(
    dataset: Dataset,
    config: EngineConfig,
    protocol: Protocol,
    *,
    test: list[int] | None = None,
    progress: Progress | None = None,
) -> tuple[Split, Predictions]:
    """Run the protocol with Sherpa's strategy."""
    if protocol.top_k < 1:
        raise DatasetError(f"is {protocol.top_k}; it must be at least 1", file=dataset.path, field="--top-k")
    split = split_for(dataset, protocol, test)
    factory: Callable[[], Predictor] = lambda: ProceduralMemoryPredictor(config, fallback=protocol.fallback)  # noqa: E731
    return split, predict(dataset, split, factory, top=protocol.top_k, online=protocol.online, progress=progress)


def validate(
    dataset: Dataset,
    config: EngineConfig,
    protocol: Protocol,
    *,
    test: list[int] | None = None,
    progress: Progress | None = None,
) -> tuple[dict[str, Any], Predictions]:
    """Test one dataset; returns the report (camelCase, as ``sherpa validate --json``) and the prediction table."""
    split, table = predict_with_memory(dataset, config, protocol, test=test, progress=progress)
    return summarise(dataset, config, protocol, split, table), table


def summarise(
    dataset: Dataset, config: EngineConfig, protocol: Protocol, split: Split, table: Predictions
) -> dict[str, Any]:
    """The report of one run."""
    log, k = dataset.log, protocol.top_k
    ranks, cases = table.array("rank_of_target").astype(np.int64), table.array("case").astype(np.int64)
    hard = ~trivial_steps(table)
    tested = {int(i) for fold in split for i in fold.test.tolist()}
    return {
        "dataset": {
            "name": dataset.name,
            "description": dataset.description,
            "path": dataset.path,
            "format": dataset.format,
            "split": dataset.split,
            "sha256": dataset.sha256,
            "skipped": {name: n for name, n in dataset.skipped.items() if n},
        },
        "stateStrategy": config.state_strategy,
        "protocol": {
            "split": split.name,
            **split.detail,
            "testedCases": len(tested),
            "droppedCases": split.dropped,
            "online": protocol.online,
            "fallback": protocol.fallback,
            "parity": protocol.parity,
            "estimator": config.estimator,
            "minSupport": config.min_support,
            "refits": table.refitted,
        },
        "cases": len(log),
        "datasetEvents": log.events,
        "evaluatedSteps": len(table),
        "nextTop1Accuracy": metrics.top_k_accuracy(ranks, 1),
        "nextTopKAccuracy": metrics.top_k_accuracy(ranks, k),
        "topK": k,
        "missCount": int(((ranks == 0) | (ranks > k)).sum()),
        "macroTop1Accuracy": metrics.macro_accuracy(ranks, cases, 1),
        "macroTopKAccuracy": metrics.macro_accuracy(ranks, cases, k),
        "meanReciprocalRank": metrics.reciprocal_rank(ranks),
        "coverage": metrics.mean([bool(events) for events in table.columns["top_k"]]),
        "nonTrivial": {
            "steps": int(hard.sum()),
            "nextTop1Accuracy": metrics.top_k_accuracy(ranks[hard], 1),
            "nextTopKAccuracy": metrics.top_k_accuracy(ranks[hard], k),
        },
        "probability": _probability(table, ranks),
        "eventBreakdown": _breakdown(table, ranks, k),
        "misses": _misses(table, ranks, k, protocol.max_misses),
        "research": {
            "support": _support(table, k),
            "matchBreakdown": _matches(table),
            "backoffDepths": metrics.distribution(table.columns["backoff_depth"]),
            "risks": _risks(dataset, table),
            "outcome": _outcome(dataset, table),
        },
        "leakage": audit(log, split),
    }


def _probability(table: Predictions, ranks: Any) -> dict[str, Any]:
    """Log loss and Brier score of calibrated predictors; the reliability of the first rank of every one."""
    predicted = np.array([p is not None for p in table.columns["p_top1"]], dtype=bool)
    p_top1 = np.array([p or 0.0 for p in table.columns["p_top1"]], dtype=float)[predicted]
    bins = metrics.calibration_bins(p_top1, (ranks == 1)[predicted])
    p_target, squared = table.array("p_target").astype(float), table.array("p_squared").astype(float)
    return {
        "calibrated": table.calibrated,
        "logLossBits": metrics.log_loss_bits(p_target) if table.calibrated else None,
        "brier": metrics.brier_score(p_target, squared) if table.calibrated else None,
        "ece": metrics.expected_calibration_error(bins) if table.calibrated else None,
        "bins": [{"confidence": b.confidence, "accuracy": b.accuracy, "count": b.count} for b in bins]
        if table.calibrated
        else [],
    }


def _breakdown(table: Predictions, ranks: Any, k: int) -> list[dict[str, Any]]:
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


def _misses(table: Predictions, ranks: Any, k: int, limit: int) -> list[dict[str, Any]]:
    c = table.columns
    missed = np.flatnonzero((ranks == 0) | (ranks > k))[: max(0, limit)]
    return [
        {
            "caseId": table.log.case_ids[c["case"][i]],
            "step": c["step"][i],
            "expected": c["target"][i],
            "predicted": list(c["top_k"][i]),
        }
        for i in missed.tolist()
    ]


def _support(table: Predictions, k: int) -> dict[str, Any]:
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


def _matches(table: Predictions) -> list[dict[str, Any]]:
    counts: dict[tuple[str, int], int] = {}
    for mode, order in zip(table.columns["mode"], table.columns["matched_order"], strict=True):
        key = (mode, max(0, order))
        counts[key] = counts.get(key, 0) + 1
    rows = sorted(counts.items(), key=lambda item: (-item[1], -item[0][1], collation_key(item[0][0])))
    return [
        {"mode": mode, "matchedOrder": order, "occurrences": n, "share": round_half_up(n / len(table), 3)}
        for (mode, order), n in rows
    ]


def _risks(dataset: Dataset, table: Predictions) -> dict[str, Any] | None:
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


def _outcome(dataset: Dataset, table: Predictions) -> dict[str, Any]:
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
