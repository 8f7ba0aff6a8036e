"""One smoothed model of all orders: fit a log, get distributions over what comes next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from sherpa.estimators.contexts import NOT_KNOWN, Contexts, Level, Targets, targets
from sherpa.estimators.smoothing import Share, Smoothing, shares
from sherpa.eventlog import EventLog
from sherpa.instants import NO_INSTANT

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]
DAY = 86_400 * 10**9
_BLOCK = 4_000_000


class Recency(NamedTuple):
    """How fast the past fades.

    Attributes
    ----------
    cases : float or None
        Half-life in cases: so many cases later a case counts half.
    days : float or None
        Half-life in days between the ends of cases; cases without times count in full.
    """

    cases: float | None = None
    days: float | None = None

    def weights(self, log: EventLog) -> Float | None:
        """Weight of each case of a log, the last one 1; None if nothing fades."""
        weights = np.ones(len(log))
        if self.cases is not None:
            weights *= np.exp2(-np.arange(len(log) - 1, -1, -1) / self.cases)
        if self.days is not None and len(log):
            ends = np.full(len(log), NO_INSTANT)
            filled = np.diff(log.offsets) > 0
            ends[filled] = log.instants[log.offsets[1:][filled] - 1]
            known = ends != NO_INSTANT
            if known.any():
                age = np.where(known, (ends[known].max() - ends) / DAY, 0.0)
                weights *= np.exp2(-age / self.days)
        return None if self == EVERYTHING else weights


EVERYTHING = Recency()
"""Nothing fades."""


@dataclass(frozen=True)
class Settings:
    """What a blended model is made of.

    Attributes
    ----------
    smoothing : str
        ``kneser-ney``, ``witten-bell`` or ``ppm-c``.
    order : int
        Longest context in events, the begin of the case counted.
    recency : Recency
    by_set : bool
        Tell contexts of that order apart by the set of types that the case has held so far: what has been done
        already often matters more than in which order it was done.
    merged : bool
        Let types that cannot be told apart by what follows them count as one in contexts (`learn_merge`).
    """

    smoothing: Smoothing = "kneser-ney"
    order: int = 5
    recency: Recency = EVERYTHING
    by_set: bool = False
    merged: bool = False

    @property
    def name(self) -> str:
        """A short name."""
        fades = [f"{self.recency.cases:g} cases"] if self.recency.cases is not None else []
        fades += [f"{self.recency.days:g} days"] if self.recency.days is not None else []
        seen = ("+set" if self.by_set else "") + (" merged" if self.merged else "")
        return f"{self.smoothing}({self.order}{seen})" + (f" half-life {' and '.join(fades)}" if fades else "")


EdgeFinder = Callable[[Level, Int, Int], Int]
Memory = Literal["suffix", "set", "all"]


class BlendedModel:
    """A distribution over the next symbol, blended over all orders.

    The outcome of a prediction is a vector over the vocabulary of the log that was learned, the end of the case, and
    one type that was never seen: `classes`. Below order 0 every class has the same share, so nothing has probability
    0. A context that was never seen passes on the shorter one.

    Parameters
    ----------
    settings : Settings
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.vocabulary: tuple[str, ...] = ()
        self.edges = 0
        self.merge: dict[str, str] = {}
        self._contexts: Contexts | None = None
        self._shares: list[Share] = []
        self._chain: list[Level] = []

    def fit(self, log: EventLog, contexts: Contexts | None = None) -> BlendedModel:
        """Learn a log, its cases in order of time; returns self.

        Parameters
        ----------
        contexts : Contexts, optional
            Those of the log, up to this model's order or beyond, if they were found before (with merged types, if
            types are to be merged).
        """
        settings = self.settings
        if contexts is None:
            if settings.merged:
                from sherpa.estimators.merging import learn_merge

                self.merge = learn_merge(log)
            contexts = Contexts(log, settings.order, self.merge)
        self._contexts = contexts
        self.vocabulary = self._contexts.vocabulary
        self._chain = self._contexts.chain(settings.order, settings.by_set)
        self._shares = shares(
            self._contexts,
            settings.smoothing,
            settings.order,
            by_set=settings.by_set,
            fading=settings.recency,
            weights=settings.recency.weights(log),
        )
        self.edges = sum(len(level.edges) for level in self._chain[1:])
        return self

    @property
    def classes(self) -> int:
        """Size of a distribution: the vocabulary, the end of the case, a type never seen (in this order)."""
        return len(self.vocabulary) + 2

    @property
    def contexts(self) -> Contexts:
        """What was counted."""
        if self._contexts is None:
            raise ValueError("the model has not been fitted")
        return self._contexts

    def predict_proba(self, log: EventLog, *, first: int = 1) -> Float:
        """Distributions before every event, and the end, of every case.

        Parameters
        ----------
        first : int
            Length of the shortest prefix; 1 leaves out the first event of each case, 0 asks for it too.

        Returns
        -------
        float array (targets, classes)
            Case after case; for a case of n events its prefixes of `first` to n events. Rows sum to 1.
        """
        return self.ask(after(targets(log, self.vocabulary), first))

    @property
    def memory(self) -> Memory:
        """What of a prefix matters: its end, also the set of its types, or all of it."""
        return "set" if self.settings.by_set else "suffix"

    def find(self, asked: Targets) -> list[Int]:
        """The contexts of some targets in each level of the chain."""
        return self.contexts.find(asked, self.settings.order, self.settings.by_set)

    def ask(self, asked: Targets) -> Float:
        """Distributions before some targets, a row each."""
        contexts = self.find(asked)
        size = len(asked.place)
        step = max(1, _BLOCK // self.classes)
        if size <= step:
            return self._block(contexts)
        return np.concatenate([self._block([node[a : a + step] for node in contexts]) for a in range(0, size, step)])

    def probability_of(self, asked: Targets, wanted: Int, edges: EdgeFinder) -> Float:
        """Probability of some targets alone.

        Parameters
        ----------
        wanted : int array
            Their classes (`classes_of`).
        edges : callable
            Gives the edges of a level (`EdgeFinder`), so that several models look them up once.

        Raises
        ------
        ValueError
            If the smoothing excludes: then a probability depends on the whole distribution.
        """
        p = np.full(len(wanted), 1 / self.classes)
        for level, share, node in zip(self._chain, self._shares, self.find(asked), strict=True):
            if share.excludes:
                raise ValueError("a model that excludes has no probability of a target alone")
            edge = edges(level, node, wanted)
            own = np.where(edge != NOT_KNOWN, np.append(share.probability, 0.0)[edge], 0.0)
            p = np.where(node != NOT_KNOWN, own + np.append(share.left, 1.0)[node] * p, p)
        return p

    def _block(self, contexts: list[Int]) -> Float:
        """Blend upwards, once for every distinct context that is asked for or leads to one."""
        deepest = sum(node != NOT_KNOWN for node in contexts) - 1
        needed: list[Int] = [np.empty(0, np.int64)] * len(contexts)
        above = np.empty(0, np.int64)
        for order in range(len(contexts) - 1, -1, -1):
            asked = contexts[order][deepest == order]
            needed[order] = np.unique(np.concatenate([asked, above]))
            above = self._chain[order].parent[needed[order]] if order else above
        lower = np.full((1, self.classes), 1 / self.classes)
        rows = np.empty((len(deepest), self.classes))
        below = np.zeros(1, np.int64)
        for order, nodes in enumerate(needed):
            if not len(nodes):
                break
            parent = np.searchsorted(below, self._chain[order].parent[nodes]) if order else np.zeros(1, np.int64)
            lower = self._blend(order, nodes, lower[parent])
            mine = deepest == order
            rows[mine] = lower[np.searchsorted(nodes, contexts[order][mine])]
            below = nodes
        return rows

    def _blend(self, order: int, nodes: Int, lower: Float) -> Float:
        """One order over the distributions of the order below."""
        level, share = self._chain[order], self._shares[order]
        bounds = level.bounds
        starts, sizes = bounds[nodes], bounds[nodes + 1] - bounds[nodes]
        row = np.repeat(np.arange(len(nodes)), sizes)
        edge = np.repeat(starts - np.concatenate(([0], np.cumsum(sizes)[:-1])), sizes) + np.arange(int(sizes.sum()))
        symbol = level.symbol[edge]
        left = share.left[nodes]
        if share.excludes:
            lower = lower.copy()
            lower[row, symbol] = 0.0
            # The type never seen follows no context, so there is always somebody to leave the rest to.
            lower /= lower.sum(axis=1)[:, None]
        blended: Float = left[:, None] * lower
        blended[row, symbol] += share.probability[edge]
        return blended

    def support(self, asked: Targets) -> tuple[Int, Int]:
        """(order of the longest known context, how often each class followed it) of each target."""
        nodes = self.find(asked)
        deepest = np.asarray(sum(node != NOT_KNOWN for node in nodes) - 1)
        seen = np.zeros((len(asked.place), self.classes), dtype=np.int64)
        for order, (node, level) in enumerate(zip(nodes, self._chain, strict=True)):
            for at in np.flatnonzero(deepest == order).tolist():
                low, high = level.bounds[node[at]], level.bounds[node[at] + 1]
                seen[at, level.symbol[low:high]] = level.count[low:high]
        return np.minimum(deepest, self.settings.order), seen


def after(asked: Targets, first: int) -> Targets:
    """The targets that follow a prefix of at least `first` events."""
    kept = asked.depth > first
    return Targets(asked.stream, asked.place[kept], asked.depth[kept], asked.case[kept], asked.seen[kept])


def classes_of(asked: Targets, vocabulary: tuple[str, ...]) -> Int:
    """The class of each target: its code, the end of the case, or the type never seen."""
    symbol = asked.stream[asked.place]
    return np.where(symbol == NOT_KNOWN, len(vocabulary) + 1, symbol)
