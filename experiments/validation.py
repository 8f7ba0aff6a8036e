"""`validate`: how well Sherpa predicts the next event of one dataset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from baselines.blended import Blended
from baselines.predictor import Predictor
from baselines.procedural_memory import ProceduralMemoryPredictor
from experiments.arm_report import arm_report
from experiments.dataset import Dataset
from experiments.leakage import audit
from experiments.processes import predict_in_processes
from experiments.protocol import Predictions, Progress
from experiments.splits import Split, make_split
from sherpa.config import EngineConfig
from sherpa.errors import DatasetError


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
    processes : int
        That folds are spread over; the figures do not depend on it.
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
    processes: int = 1


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

    def factory() -> Predictor:
        if config.estimator != "longest-suffix":
            return Blended(config.estimator, config.max_order)
        return ProceduralMemoryPredictor(config, fallback=protocol.fallback)

    options: dict[str, Any] = {"top": protocol.top_k, "online": protocol.online, "progress": progress}
    return split, predict_in_processes(dataset, split, factory, protocol.processes, **options)


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
    tested = {int(i) for fold in split for i in fold.test.tolist()}
    return {
        "dataset": dataset_json(dataset),
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
        **arm_report(dataset, table, protocol.top_k, protocol.max_misses),
        "leakage": audit(dataset.log, split),
    }


def dataset_json(dataset: Dataset) -> dict[str, Any]:
    """What a report says about where its data come from."""
    return {
        "name": dataset.name,
        "description": dataset.description,
        "path": dataset.path,
        "format": dataset.format,
        "split": dataset.split,
        "sha256": dataset.sha256,
        "skipped": {name: n for name, n in dataset.skipped.items() if n},
    }
