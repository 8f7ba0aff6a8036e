"""Sherpa against the best accuracy that any predictor can have on the bundled process."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from experiments.dataset import load_dataset
from experiments.synthetic import START, WORKFLOWS, generate, ideal_accuracy
from experiments.validation import Protocol, validate
from sherpa import EngineConfig


@pytest.mark.parametrize("k", [1, 3])
def test_sherpa_comes_close_to_the_ceiling_and_not_above(tmp_path: Path, k: int) -> None:
    path = tmp_path / "large.json"
    path.write_text(json.dumps(generate(WORKFLOWS, 3000, np.random.default_rng(11), START)))
    report, table = validate(load_dataset(path), EngineConfig(max_order=5), Protocol(split="k-fold", top_k=k))
    ideal = ideal_accuracy(WORKFLOWS, k).accuracy
    reached = report["nextTopKAccuracy"]
    hits = table.array("rank_of_target")
    case = table.array("case")
    # Standard error of a ratio of sums over cases.
    totals = np.bincount(case, weights=(hits > 0) & (hits <= k))
    sizes = np.bincount(case)
    error = np.sqrt(((totals - reached * sizes) ** 2).sum()) / sizes.sum()
    assert reached <= ideal + 3 * error
    # The published score trades likelihood for outcome, and three events of history do not hold all of the past.
    assert reached >= ideal - 0.05
