"""From counts to probabilities of one order, and how much is left to the shorter contexts."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from sherpa.estimators.contexts import Contexts, Level, Weighted

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]
Smoothing = Literal["kneser-ney", "witten-bell", "ppm-c"]
T = TypeVar("T")
_LEAST, _MOST = 0.05, 0.95


@dataclass(frozen=True, eq=False)
class Share:
    """One order of a blend.

    Attributes
    ----------
    probability : float array (edges,)
        What the order itself gives to each of its edges.
    left : float array (contexts,)
        What it leaves to the order below; with the probabilities of a context this is 1.
    excludes : bool
        Whether what is left goes only to symbols that did not follow the context.
    """

    probability: Float
    left: Float
    excludes: bool = False


def shares(
    contexts: Contexts,
    smoothing: Smoothing,
    order: int,
    *,
    by_set: bool = False,
    fading: Hashable = None,
    weights: Float | None = None,
) -> list[Share]:
    """The blend of all levels of a chain, shortest context first.

    Parameters
    ----------
    by_set : bool
        Whether the last level tells contexts apart by the set of types so far; it is blended by Witten–Bell, because
        sets are no longer contexts of one another.
    fading : hashable
        What the weights are called: contexts that were weighted under this name are not weighted again.
    weights : float array (cases,), optional
        Weight of each case.
    """
    chain = contexts.chain(order, by_set)

    def once(name: Hashable, make: Callable[[], T]) -> T:
        key = (fading, name)
        if key not in contexts.derived:
            contexts.derived[key] = make()
        made: T = contexts.derived[key]
        return made

    def place(k: int) -> Hashable:
        return k if k <= order else ("set", order)

    def counts(k: int) -> Weighted:
        return once(("counts", place(k)), lambda: contexts.weighted(chain[k], weights))

    def share(k: int) -> Share:
        if smoothing == "kneser-ney" and k == order:
            return once((smoothing, k, "longest"), lambda: _discounted(chain[k], chain[k].count, counts(k).count))
        if smoothing == "kneser-ney" and k < order:
            return once((smoothing, k), lambda: _continued(contexts, counts(k), counts(k + 1), k))
        excludes = smoothing == "ppm-c"
        return once((excludes, place(k)), lambda: _witten_bell(chain[k], counts(k), excludes=excludes))

    return [share(k) for k in range(len(chain))]


def _continued(contexts: Contexts, counts: Weighted, above: Weighted, order: int) -> Share:
    level, longer = contexts.levels[order], contexts.levels[order + 1]
    at = np.searchsorted(level.edges, longer.parent[longer.context] * contexts.width + longer.symbol)
    size = len(level.edges)
    plain = level.whole + np.bincount(at, minlength=size)
    count = counts.whole + np.bincount(at, weights=above.heaviest, minlength=size)
    return _discounted(level, plain, count)


def _discounted(level: Level, plain: Int, count: Float) -> Share:
    """Interpolated Kneser–Ney with three discounts (Chen & Goodman 1999, section 3).

    The longest order uses counts. A shorter one counts in how many longer contexts a symbol followed,
    because it is only asked where the longer one knows too little; contexts that begin with the case have no longer
    one and keep their counts (`_continued`). With c such a count, D(c) its discount and N(s) the sum over the symbols
    of context s,

        p(w | s) = max(c(sw) − D(c), 0)/N(s) + Σ_v D(c(sv))/N(s) · p(w | shorter s).

    With weights of cases, a longer context counts as much as its heaviest case, and a discount is at most the count.
    """
    discount = np.minimum(count, discounts(plain)[np.minimum(plain, 3)])
    total = np.bincount(level.context, weights=count, minlength=len(level))
    gone = np.bincount(level.context, weights=discount, minlength=len(level))
    usable = total > 0
    safe = np.where(usable, total, 1.0)
    # Weights of very old cases vanish: such a context says nothing and leaves everything.
    kept = np.where(usable[level.context], (count - discount) / safe[level.context], 0.0)
    return Share(kept, np.where(usable, gone / safe, 1.0))


def discounts(counts: Int) -> Float:
    """Discounts of counts 0, 1, 2 and 3 or more, from the numbers of counts that are 1, 2, 3 and 4.

    With Y = n₁/(n₁ + 2·n₂): D₁ = 1 − 2Y·n₂/n₁, D₂ = 2 − 3Y·n₃/n₂, D₃ = 3 − 4Y·n₄/n₃ (Chen & Goodman 1999, eq. 26),
    each kept between 0.05 and 0.95 of its count. Without counts of 1 and 2, Y is one half.
    """
    n1, n2, n3, n4 = (int(np.count_nonzero(counts == k)) for k in (1, 2, 3, 4))
    y = n1 / (n1 + 2 * n2) if n1 and n2 else 0.5
    raw = (1 - 2 * y * n2 / max(n1, 1), 2 - 3 * y * n3 / max(n2, 1), 3 - 4 * y * n4 / max(n3, 1))
    return np.array([0.0, *(min(k * _MOST, max(_LEAST, d)) for k, d in enumerate(raw, start=1))])


def _witten_bell(level: Level, counts: Weighted, *, excludes: bool) -> Share:
    """With N the weight of a context and T its number of distinct symbols: p = c/(N + T), left = T/(N + T).

    Witten & Bell 1991; with exclusion, method C of prediction by partial matching (Moffat 1990): what is left goes to
    the symbols that did not follow, in the proportions of the order below.
    """
    distinct = np.bincount(level.context, minlength=len(level)).astype(float)
    total = np.bincount(level.context, weights=counts.count, minlength=len(level))
    whole = total + distinct
    # Nothing was learned at all: everything is left.
    left = np.divide(distinct, whole, out=np.ones(len(whole)), where=whole > 0)
    return Share(counts.count / whole[level.context], left, excludes)
