"""Folds that are spread over processes give the table of one process."""

from __future__ import annotations

import numpy as np
import pytest

from baselines.procedural_memory import ProceduralMemoryPredictor
from experiments.dataset import Dataset
from experiments.processes import can_spread, predict_in_processes
from experiments.protocol import predict
from experiments.splits import k_fold, leave_one_case_out
from sherpa import EngineConfig, EventLog

pytestmark = pytest.mark.skipif(not can_spread(), reason="processes cannot be forked here")


@pytest.fixture
def dataset() -> Dataset:
    rng = np.random.default_rng(4)
    lengths = rng.integers(1, 9, 150)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    log = EventLog.from_codes(rng.integers(0, 5, offsets[-1]), offsets, list("abcde"))
    return Dataset("noise", "noise", "csv", log, "")


def factory() -> ProceduralMemoryPredictor:
    return ProceduralMemoryPredictor(EngineConfig())


@pytest.mark.parametrize("processes", [2, 3, 500])
@pytest.mark.parametrize("online", [False, True])
def test_the_table_does_not_depend_on_processes(dataset: Dataset, processes: int, online: bool) -> None:
    for split in (leave_one_case_out(dataset.log), k_fold(dataset.log, 4, np.random.default_rng(1))):
        one = predict(dataset, split, factory, online=online)
        told: list[int] = []
        several = predict_in_processes(dataset, split, factory, processes, online=online, progress=told.append)
        assert several.log is dataset.log
        assert several.refitted == one.refitted
        for name in one.columns:
            if name != "latency_us":
                assert several.columns[name] == one.columns[name], name
        assert sum(told) <= len(dataset.log)


def test_what_a_process_raises_is_raised(dataset: Dataset) -> None:
    def broken() -> ProceduralMemoryPredictor:
        raise ZeroDivisionError("in a child")

    with pytest.raises(ZeroDivisionError, match="in a child"):
        predict_in_processes(dataset, leave_one_case_out(dataset.log), broken, 2)
