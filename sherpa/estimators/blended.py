"""One smoothed model of all orders: fit a log, get distributions over what comes next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sherpa.estimators.contexts import NOT_KNOWN, Contexts, Targets, targets
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
    """

    smoothing: Smoothing = "kneser-ney"
    order: int = 5
    recency: Recency = EVERYTHING

    @property
    def name(self) -> str:
        """A short name."""
        fades = [f"{self.recency.cases:g} cases"] if self.recency.cases is not None else []
        fades += [f"{self.recency.days:g} days"] if self.recency.days is not None else []
        return f"{self.smoothing}({self.order})" + (f" half-life {' and '.join(fades)}" if fades else "")


class Query(NamedTuple):
    """What is asked: the distribution before each of some targets."""

    targets: Targets
    contexts: list[Int]


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
        self._contexts: Contexts | None = None
        self._shares: list[Share] = []

    def fit(self, log: EventLog) -> BlendedModel:
        """Learn a log, its cases in order of time; returns self."""
        contexts = Contexts(log, self.settings.order, self.settings.recency.weights(log))
        self.vocabulary = contexts.vocabulary
        self._contexts = contexts
        self._shares = shares(contexts, self.settings.smoothing)
        self._bounds = [np.searchsorted(level.context, np.arange(len(level) + 1)) for level in contexts.levels]
        self.edges = sum(len(level.symbol) for level in contexts.levels[1:])
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

    def query(self, asked: Targets) -> Query:
        """Find the contexts of some targets."""
        return Query(asked, self.contexts.contexts_of(asked))

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

    def ask(self, asked: Targets) -> Float:
        """Distributions before some targets, a row each."""
        return self.distributions(self.query(asked))

    def distributions(self, query: Query) -> Float:
        """Distributions of a query, a row per target."""
        size = len(query.targets.place)
        step = max(1, _BLOCK // self.classes)
        if size <= step:
            return self._block(query.contexts)
        return np.concatenate(
            [self._block([node[a : a + step] for node in query.contexts]) for a in range(0, size, step)]
        )

    def _block(self, contexts: list[Int]) -> Float:
        """Blend upwards, once for every distinct context that is asked for or leads to one."""
        deepest = sum(node != NOT_KNOWN for node in contexts) - 1
        needed: list[Int] = [np.empty(0, np.int64)] * len(contexts)
        above = np.empty(0, np.int64)
        for order in range(len(contexts) - 1, -1, -1):
            asked = contexts[order][deepest == order]
            needed[order] = np.unique(np.concatenate([asked, above]))
            above = self.contexts.levels[order].parent[needed[order]] if order else above
        lower = np.full((1, self.classes), 1 / self.classes)
        rows = np.empty((len(deepest), self.classes))
        below = np.zeros(1, np.int64)
        for order, nodes in enumerate(needed):
            if not len(nodes):
                break
            parent = (
                np.searchsorted(below, self.contexts.levels[order].parent[nodes]) if order else np.zeros(1, np.int64)
            )
            lower = self._blend(order, nodes, lower[parent])
            mine = deepest == order
            rows[mine] = lower[np.searchsorted(nodes, contexts[order][mine])]
            below = nodes
        return rows

    def _blend(self, order: int, nodes: Int, lower: Float) -> Float:
        """One order over the distributions of the order below."""
        level, share, bounds = self.contexts.levels[order], self._shares[order], self._bounds[order]
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

    def support(self, query: Query) -> tuple[Int, Int]:
        """(order of the longest known context, how often it was seen) of each target."""
        counts = self.supports(query)
        deepest = sum(node != NOT_KNOWN for node in query.contexts) - 1
        return np.asarray(deepest), counts.sum(axis=1)

    def supports(self, query: Query) -> Int:
        """How often each class followed the longest known context, a row per target."""
        deepest = sum(node != NOT_KNOWN for node in query.contexts) - 1
        seen = np.zeros((len(query.targets.place), self.classes), dtype=np.int64)
        for order, (node, level) in enumerate(zip(query.contexts, self.contexts.levels, strict=True)):
            mine = np.flatnonzero(deepest == order)
            bounds = self._bounds[order]
            for at in mine.tolist():
                low, high = bounds[node[at]], bounds[node[at] + 1]
                seen[at, level.symbol[low:high]] = level.count[low:high]
        return seen


def after(asked: Targets, first: int) -> Targets:
    """The targets that follow a prefix of at least `first` events."""
    kept = asked.depth > first
    return asked._replace(place=asked.place[kept], depth=asked.depth[kept], case=asked.case[kept])


def classes_of(asked: Targets, vocabulary: tuple[str, ...]) -> Int:
    """The class of each target: its code, the end of the case, or the type never seen."""
    symbol = asked.stream[asked.place]
    return np.where(symbol == NOT_KNOWN, len(vocabulary) + 1, symbol)
