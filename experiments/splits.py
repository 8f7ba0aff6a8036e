"""Splits: which cases a predictor may learn from, and which it is tested on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from sherpa.errors import SplitError
from sherpa.eventlog import EventLog
from sherpa.instants import NO_INSTANT, format_instant

Int64 = npt.NDArray[np.int64]
SplitKind = Literal["leave-one-case-out", "k-fold", "temporal", "holdout", "leave-one-group-out"]
SPLITS: tuple[SplitKind, ...] = get_args(SplitKind)


@dataclass(frozen=True, eq=False)
class Fold:
    """Cases to test, and cases to learn from; `train` None means all cases that are not tested."""

    name: str
    test: Int64
    train: Int64 | None = None


@dataclass(frozen=True, eq=False)
class Split:
    """A named list of folds.

    Attributes
    ----------
    dropped : int
        Cases that are in no fold, neither to learn from nor to test.
    detail : dict
        What a report says about how the split was made.
    """

    name: SplitKind
    folds: Sequence[Fold]
    dropped: int = 0
    detail: dict[str, Any] = field(default_factory=dict)

    def train_of(self, fold: Fold, cases: int) -> Int64:
        """Indices of the cases to learn from."""
        if fold.train is not None:
            return fold.train
        keep = np.ones(cases, dtype=bool)
        keep[fold.test] = False
        return np.flatnonzero(keep)

    def __iter__(self) -> Iterator[Fold]:
        return iter(self.folds)


def make_split(
    kind: str,
    log: EventLog,
    *,
    folds: int = 5,
    test_fraction: float = 0.3,
    groups: Sequence[str | None] | None = None,
    test: Sequence[int] | None = None,
    rng: np.random.Generator | None = None,
    file: str | None = None,
) -> Split:
    """A split by name.

    Parameters
    ----------
    kind : str
        One of `SPLITS`.
    folds, rng
        For ``k-fold``.
    test_fraction : float
        For ``temporal``: share of cases, the latest to start, that lie after the cut.
    groups : sequence of str or None
        For ``leave-one-group-out``: the group of each case.
    test : sequence of int
        For ``holdout``: the cases to test; the rest is learned from.

    Raises
    ------
    SplitError
    """
    if kind == "leave-one-case-out":
        return leave_one_case_out(log, file=file)
    if kind == "k-fold":
        return k_fold(log, folds, rng or np.random.default_rng(0), file=file)
    if kind == "temporal":
        return temporal(log, test_fraction, file=file)
    if kind == "holdout":
        return holdout(log, test or (), file=file)
    if kind == "leave-one-group-out":
        return leave_one_group_out(log, groups or [None] * len(log), file=file)
    raise SplitError(f"split {kind!r} is unknown; choose one of {', '.join(SPLITS)}", file=file, field="--split")


def leave_one_case_out(log: EventLog, *, file: str | None = None) -> Split:
    """One fold per case id; cases that share an id are held out together."""
    if len(set(log.case_ids)) < 2:
        raise SplitError("leave-one-case-out needs at least two cases", file=file, field="--split")
    members: dict[str, list[int]] = {}
    for index, case_id in enumerate(log.case_ids):
        members.setdefault(case_id, []).append(index)
    return Split("leave-one-case-out", [Fold(c, np.array(m, dtype=np.int64)) for c, m in members.items()])


def k_fold(log: EventLog, folds: int, rng: np.random.Generator, *, file: str | None = None) -> Split:
    """Cases (grouped by id) dealt into `folds` parts after a shuffle."""
    ids = list(dict.fromkeys(log.case_ids))
    if not 2 <= folds <= len(ids):
        raise SplitError(f"{folds} folds cannot be made from {len(ids)} cases", file=file, field="--folds")
    fold_of = dict(zip([ids[i] for i in rng.permutation(len(ids)).tolist()], _cycle(folds, len(ids)), strict=True))
    part = np.array([fold_of[c] for c in log.case_ids])
    return Split(
        "k-fold", [Fold(f"fold-{f + 1}", np.flatnonzero(part == f)) for f in range(folds)], detail={"folds": folds}
    )


def _cycle(folds: int, size: int) -> list[int]:
    return [i % folds for i in range(size)]


def temporal(log: EventLog, test_fraction: float, *, file: str | None = None) -> Split:
    """Learn from cases that ended before the cut, test cases that started at or after it.

    The cut is the start of the case at the quantile ``1 − test_fraction`` of starts, or the first later start before
    which some case has ended. Cases that are under way at the cut are in neither part, and counted. Where all cases
    overlap there is no cut without a look into the future: the split then has no fold, and says so.

    Raises
    ------
    SplitError
        If the fraction is out of range, or a time is missing.
    """
    if not 0 < test_fraction < 1:
        raise SplitError(f"is {test_fraction}; it must lie between 0 and 1", file=file, field="--test-fraction")
    filled = np.flatnonzero(np.diff(log.offsets) > 0)
    if len(filled) == 0:
        raise SplitError("a temporal split needs cases with events", file=file, field="--split")
    starts = log.offsets[:-1][filled]
    earliest = np.minimum.reduceat(log.instants, starts)
    latest = np.maximum.reduceat(log.instants, starts)
    if (earliest == NO_INSTANT).any():
        case = log.case_ids[int(filled[int(np.argmax(earliest == NO_INSTANT))])]
        raise SplitError("a temporal split needs the time of every event", file=file, case=case, field="timestamp")
    begins = np.sort(earliest)
    # Rounded first: 10 · (1 − 0.8) is 1.9999… in binary.
    place = min(len(filled) - 1, int(round(len(filled) * (1 - test_fraction), 9)))
    later = begins[place:][begins[place:] > latest.min()]
    if len(later) == 0:
        reason = "every case is still under way when the last one starts, so no cut separates past from future"
        return Split("temporal", [], len(filled), {"cut": None, "testFraction": test_fraction, "reason": reason})
    cut = int(later[0])
    train, test = filled[latest < cut], filled[earliest >= cut]
    detail = {"cut": format_instant(cut), "testFraction": test_fraction}
    return Split("temporal", [Fold("temporal", test, train)], len(filled) - len(train) - len(test), detail)


def holdout(log: EventLog, test: Sequence[int], *, file: str | None = None) -> Split:
    """Test the named cases, learn from all others."""
    chosen = np.array(sorted(set(test)), dtype=np.int64)
    if len(chosen) == 0 or len(chosen) == len(log):
        raise SplitError(
            "holdout needs cases to learn from and cases to test; name the file to learn from with --train",
            file=file,
            field="--split",
        )
    return Split("holdout", [Fold("holdout", chosen)])


def leave_one_group_out(log: EventLog, groups: Sequence[str | None], *, file: str | None = None) -> Split:
    """One fold per group; cases without a group are always learned from."""
    names = list(dict.fromkeys(g for g in groups if g is not None))
    if len(names) < 2:
        raise SplitError(
            f"leave-one-group-out needs at least two groups (workflow classes); there are {len(names)}",
            file=file,
            field="--split",
        )
    folds = [
        Fold(name, np.array([i for i, g in enumerate(groups) if g == name], dtype=np.int64)) for name in sorted(names)
    ]
    return Split("leave-one-group-out", folds, detail={"groups": len(names)})
