"""Holdout by file: learn from some datasets, test another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from experiments.dataset import Dataset, DatasetCase
from sherpa.eventlog import concatenate


def join(train: Sequence[Dataset], test: Dataset) -> tuple[Dataset, list[int]]:
    """One dataset of all cases, and which of them are to be tested (those of `test`, which come last)."""
    parts = [*train, test]
    log = concatenate([part.log for part in parts])
    cases: list[DatasetCase] = []
    if any(part.cases for part in parts):
        for part in parts:
            # Formats without annotations get empty ones, so that cases stay aligned with the log.
            cases += part.cases or [DatasetCase(case_id=case_id, events=()) for case_id in part.log.case_ids]
    first = len(log) - len(test.log)
    return replace(test, log=log, cases=tuple(cases)), list(range(first, len(log)))
