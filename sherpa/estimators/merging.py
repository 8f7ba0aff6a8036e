"""Event types that mean the same for what comes next, learned from the log: a state that can generalise."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sherpa.estimators.blended import classes_of
from sherpa.estimators.contexts import targets
from sherpa.eventlog import EventLog
from sherpa.terminal import OUTCOMES

Float = npt.NDArray[np.float64]
LEVEL = 0.05
MIN_SUPPORT = 5


def learn_merge(log: EventLog, *, level: float = LEVEL, min_support: int = MIN_SUPPORT) -> dict[str, str]:
    """Classes of types whose successors and ends of cases cannot be told apart.

    For each type count what follows it (the end included) and, once per case, how the cases that hold it ended. Two
    classes may be merged if a G-test of homogeneity rejects neither of the two tables at `level`, divided by the number
    of pairs at the start (Bonferroni); among those the pair with the smallest statistic per degree of freedom is merged
    first, until no pair is left (agglomerative, as states are merged in ALERGIA, Carrasco & Oncina 1994). A type that
    was followed fewer than `min_support` times says too little to be told apart or to be trusted: it stays alone.

    Returns
    -------
    dict
        Type to name of its class, the first type of it in code-point order; types that stay alone are left out.
    """
    vocabulary = log.occurring
    if len(vocabulary) < 2:
        return {}
    follow, ended = _tables(log, vocabulary)
    groups = [[at] for at in range(len(vocabulary)) if follow[at].sum() >= min_support]
    if len(groups) < 2:
        return {}
    strict = level / (len(groups) * (len(groups) - 1) / 2)
    sums = {at: (follow[g[0]], ended[g[0]]) for at, g in enumerate(groups)}
    members = dict(enumerate(groups))
    scores = {
        (a, b): score
        for a in members
        for b in members
        if a < b and (score := _alike(sums[a], sums[b], strict)) is not None
    }
    while scores:
        a, b = min(scores, key=lambda pair: (scores[pair], pair))
        members[a] = members[a] + members.pop(b)
        sums[a] = (sums[a][0] + sums[b][0], sums[a][1] + sums[b][1])
        scores = {pair: s for pair, s in scores.items() if not {a, b} & set(pair)}
        for other in members:
            if other != a:
                pair = (min(a, other), max(a, other))
                score = _alike(sums[a], sums[other], strict)
                if score is not None:
                    scores[pair] = score
    merged: dict[str, str] = {}
    for group in members.values():
        if len(group) > 1:
            name = min(vocabulary[at] for at in group)
            merged.update({vocabulary[at]: name for at in group})
    return merged


def _tables(log: EventLog, vocabulary: tuple[str, ...]) -> tuple[Float, Float]:
    """(what follows each type, how the cases that hold it ended)."""
    found = targets(log, vocabulary)
    size = len(vocabulary)
    last = found.stream[found.place - 1]
    inside = last < size
    follow = np.zeros((size, size + 1))
    np.add.at(follow, (last[inside], np.minimum(classes_of(found, vocabulary), size)[inside]), 1)
    case = log.case_of
    code = found.stream[found.place[found.stream[found.place] != size]]
    held = np.unique(case * size + code)
    ended = np.zeros((size, len(OUTCOMES)))
    np.add.at(ended, (held % size, log.terminal[held // size]), 1)
    return follow, ended


def _alike(a: tuple[Float, Float], b: tuple[Float, Float], level: float) -> float | None:
    """How far two classes are apart, statistic per degree of freedom; None if a test tells them apart."""
    from scipy.stats import chi2

    statistic, freedom = 0.0, 0
    for x, y in zip(a, b, strict=True):
        g, df = _g_test(x, y)
        if df and chi2.sf(g, df) < level:
            return None
        statistic, freedom = statistic + g, freedom + df
    return statistic / freedom if freedom else 0.0


def _g_test(x: Float, y: Float) -> tuple[float, int]:
    """Statistic of the likelihood-ratio test that two rows of counts have one distribution, and its freedom."""
    table = np.vstack([x, y])
    table = table[:, table.sum(axis=0) > 0]
    if table.shape[1] < 2 or (table.sum(axis=1) == 0).any():
        return 0.0, 0
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(table > 0, table * np.log(table / expected), 0.0)
    return float(2 * terms.sum()), table.shape[1] - 1
