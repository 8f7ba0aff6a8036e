"""One log, cut into what is learned and what is tested."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from experiments.dataset import Dataset, ImportOptions, load_dataset
from experiments.splits import temporal
from sherpa.errors import SplitError
from sherpa.eventlog import EventLog
from sherpa.instants import NO_INSTANT

SplitName = Literal["by-start", "temporal", "unseen-group"]
Int = npt.NDArray[np.int64]
_NUMBER = re.compile(r"(\d+)")


@dataclass(frozen=True, eq=False)
class Task:
    """What a model learns, and what it is asked.

    Attributes
    ----------
    log : str
    split : str
        How it was cut.
    train, test : EventLog
        Cases in order of their first event, where times are known.
    cluster : int array (test cases,)
        Cases that stand or fall together, for intervals.
    sha256 : str
        Of the file.
    """

    log: str
    split: SplitName
    train: EventLog
    test: EventLog
    cluster: Int
    sha256: str

    @property
    def steps(self) -> int:
        """Predictions: for a case of n events its prefixes of 1 to n events."""
        return int(np.diff(self.test.offsets).sum())


def make_task(
    path: Path,
    split: SplitName = "by-start",
    *,
    test_fraction: float = 0.2,
    group_pattern: str | None = None,
    options: ImportOptions | None = None,
) -> Task:
    """Read a log and cut it.

    Parameters
    ----------
    split : str
        ``by-start``: the cases that started last are the test; ``temporal``: the same, without the cases that were
        under way at the cut; ``unseen-group``: whole groups are the test, the last ones in natural order of names.
    group_pattern : str, optional
        Regular expression; what its first group matches in a case id is the case's group. A log all of whose case ids
        match is cut by groups, and its intervals resample groups.

    Raises
    ------
    SplitError
        If a time is missing, a pattern is none, or there are too few groups.
    """
    if not 0 < test_fraction < 1:
        raise SplitError(f"is {test_fraction}; it must lie between 0 and 1", field="--test-fraction")
    dataset = load_dataset(path, options)
    log = _filled(dataset.log)
    groups = _groups(log, group_pattern, path)
    if groups is not None:
        return _by_group(dataset, log, groups, test_fraction)
    if split == "unseen-group":
        raise SplitError(
            "a split by groups needs a pattern that every case id matches", file=path, field="--group-pattern"
        )
    starts = log.instants[log.offsets[:-1]]
    if split == "temporal":
        cut = temporal(log, test_fraction, file=str(path))
        if not cut.folds:
            raise SplitError(cut.detail["reason"], file=path, field="--split")
        fold = next(iter(cut))
        train, test = cut.train_of(fold, len(log)), fold.test
        train, test = train[np.argsort(starts[train], kind="stable")], test[np.argsort(starts[test], kind="stable")]
    else:
        if (starts == NO_INSTANT).any():
            case = log.case_ids[int(np.argmax(starts == NO_INSTANT))]
            raise SplitError("a split by time needs the time of every case", file=path, case=case, field="timestamp")
        order = np.argsort(starts, kind="stable")
        at = int(round(len(order) * (1 - test_fraction), 9))
        train, test = order[:at], order[at:]
    if not len(train) or not len(test):
        raise SplitError(f"{len(log)} cases are too few to learn and to test", file=path, field="--test-fraction")
    return Task(dataset.name, split, log.subset(train), log.subset(test), np.arange(len(test)), dataset.sha256)


def _filled(log: EventLog) -> EventLog:
    filled = np.flatnonzero(np.diff(log.offsets) > 0)
    return log if len(filled) == len(log) else log.subset(filled)


def _groups(log: EventLog, pattern: str | None, path: Path) -> list[str] | None:
    if pattern is None:
        return None
    try:
        form = re.compile(pattern)
    except re.error as error:
        raise SplitError(f"{pattern!r} is not a regular expression: {error}", field="--group-pattern") from None
    if form.groups < 1:
        raise SplitError(f"{pattern!r} has no group in parentheses", field="--group-pattern")
    found = [form.search(case_id) for case_id in log.case_ids]
    return [match[1] for match in found if match] if all(found) and found else None


def _by_group(dataset: Dataset, log: EventLog, groups: list[str], test_fraction: float) -> Task:
    names = sorted(set(groups), key=_natural)
    last = max(1, int(round(len(names) * test_fraction, 9)))
    if last >= len(names):
        raise SplitError(f"{len(names)} groups are too few to learn and to test", file=dataset.path)
    held = {name: at for at, name in enumerate(names[-last:])}
    test = np.array([i for i, g in enumerate(groups) if g in held], dtype=np.int64)
    train = np.array([i for i, g in enumerate(groups) if g not in held], dtype=np.int64)
    cluster = np.array([held[groups[i]] for i in test.tolist()], dtype=np.int64)
    return Task(dataset.name, "unseen-group", log.subset(train), log.subset(test), cluster, dataset.sha256)


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Numbers in a name count as numbers."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in _NUMBER.split(name) if part]
