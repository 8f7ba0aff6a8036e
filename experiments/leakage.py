"""Leakage audit: what of a test could be known without learning anything."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from baselines.started_finished import closes
from experiments.protocol import Predictions
from experiments.splits import Split
from sherpa.eventlog import EventLog

Int64 = npt.NDArray[np.int64]


def audit(log: EventLog, split: Split) -> dict[str, Any]:
    """How much of the test is a verbatim copy of what was learned.

    Returns
    -------
    dict
        ``identicalPrefixShare``: share of test steps whose whole prefix and target occur at the start of a training
        case; ``duplicateCaseShare``: share of test cases whose whole sequence is that of a training case;
        ``caseIdsInVocabulary``: case ids that are also event types (a predictor could read them);
        ``sharedCaseIds``: test cases whose id also names a training case. Shares are None where nothing was tested.
    """
    prefix = prefix_ids(log)
    sizes = np.diff(log.offsets)
    case_of = log.case_of
    depth = np.arange(log.events) - np.repeat(log.offsets[:-1], sizes)
    last = log.offsets[1:] - 1
    width = int(prefix.max()) + 1 if len(prefix) else 1
    whole = np.where(sizes > 0, prefix[np.maximum(last, 0)], -1) if len(prefix) else np.full(len(log), -1)
    all_prefixes = np.bincount(prefix, minlength=width)
    all_whole = np.bincount(whole[whole >= 0], minlength=width)

    all_ids = Counter(log.case_ids)
    steps = same = cases = copies = shared = 0
    for fold in split:
        if fold.train is None:
            rest, rest_whole = all_prefixes, all_whole
        else:
            learned = np.isin(case_of, fold.train)
            rest = np.bincount(prefix[learned], minlength=width)
            ends = whole[fold.train]
            rest_whole = np.bincount(ends[ends >= 0], minlength=width)
        tested_ids = Counter(log.case_ids[i] for i in fold.test.tolist())
        learned_ids = Counter(log.case_ids[i] for i in fold.train.tolist()) if fold.train is not None else None
        for case_id, times in tested_ids.items():
            elsewhere = all_ids[case_id] - times if learned_ids is None else learned_ids[case_id]
            shared += times if elsewhere > 0 else 0
        rows = _rows_of(log, fold.test)
        tested = rows[depth[rows] > 0]
        ends = whole[fold.test]
        ends = ends[ends >= 0]
        own = own_whole = np.zeros(0, np.int64)
        if fold.train is None:
            # The counts hold the tested cases themselves; take those out.
            own = _multiplicity(prefix[tested])
            own_whole = _multiplicity(ends)
            same += int((rest[prefix[tested]] > own).sum())
            copies += int((rest_whole[ends] > own_whole).sum())
        else:
            same += int((rest[prefix[tested]] > 0).sum())
            copies += int((rest_whole[ends] > 0).sum())
        steps += len(tested)
        cases += len(ends)
    return {
        "identicalPrefixShare": same / steps if steps else None,
        "duplicateCaseShare": copies / cases if cases else None,
        "sharedCaseIds": shared,
        "caseIdsInVocabulary": len(set(log.case_ids) & set(log.vocabulary)),
    }


def _rows_of(log: EventLog, cases: Int64) -> Int64:
    if len(cases) == 1:
        only = int(cases[0])
        return np.arange(log.offsets[only], log.offsets[only + 1])
    sizes = np.diff(log.offsets)[cases]
    base = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    return np.repeat(log.offsets[:-1][cases] - base, sizes) + np.arange(int(sizes.sum()))


def _multiplicity(values: Int64) -> Int64:
    if len(values) == 1:
        return np.ones(1, np.int64)
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return counts[inverse].astype(np.int64)


def prefix_ids(log: EventLog) -> Int64:
    """For each event a number that equals that of another event iff both close the same prefix of types."""
    ids = np.zeros(log.events, dtype=np.int64)
    sizes = np.diff(log.offsets)
    alive = np.flatnonzero(sizes > 0)
    parent = np.zeros(len(alive), dtype=np.int64)
    width = len(log.vocabulary) + 1
    offset, depth = 0, 0
    while len(alive):
        rows = log.offsets[:-1][alive] + depth
        _, local = np.unique(parent * width + log.codes[rows], return_inverse=True)
        ids[rows] = local + offset
        offset += int(local.max()) + 1
        depth += 1
        going = sizes[alive] > depth
        alive, parent = alive[going], local[going]
    return ids


def trivial_steps(table: Predictions) -> npt.NDArray[np.bool_]:
    """Steps that a rule without memory gets right: the last event again, or the end of what just started.

    The second is a target that shares everything but the last part of its name with the last event, which is
    ``….started`` or ``….requested``, while the target is ``….succeeded``, ``….failed``, ``….completed`` and so on.
    """
    return np.array(
        [is_trivial(a, b) for a, b in zip(table.columns["last"], table.columns["target"], strict=True)], dtype=bool
    )


def is_trivial(last: str, target: str) -> bool:
    """See `trivial_steps`."""
    return last == target or closes(last, target)
