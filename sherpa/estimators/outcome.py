"""How a running case will end: the share of past cases that succeeded from where it is, backed off by order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sherpa.estimators.blended import after
from sherpa.estimators.contexts import NOT_KNOWN, Contexts, Targets, targets
from sherpa.eventlog import EventLog
from sherpa.terminal import FAILURE, SUCCESS

Float = npt.NDArray[np.float64]
STRENGTHS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
_SLICE = 0.2


class OutcomeModel:
    """Probability that a case succeeds, from each prefix of it.

    In every context (the last 0 to `order` events, and the last `order` of them with the set of types so far) count the
    past cases that passed it and ended well or badly, each once. With S of N successes in a context and p of the next
    shorter one,

        p(context) = (S + strength · p) / (N + strength),

    from the share of all cases upwards. The strength is chosen on the last fifth of the cases, by the Brier score.

    Parameters
    ----------
    order : int
    """

    def __init__(self, order: int = 3) -> None:
        self.order = order
        self.strength = STRENGTHS[2]
        self.base = 0.5
        self._contexts: Contexts | None = None
        self._counts: list[tuple[Float, Float]] = []

    def fit(self, log: EventLog) -> OutcomeModel:
        """Learn the cases whose end is known; returns self. Cases in order of time."""
        known = np.flatnonzero(np.isin(log.terminal, (SUCCESS, FAILURE)) & (np.diff(log.offsets) > 0))
        last = int(len(known) * _SLICE)
        if last:
            past, latest = log.subset(known[:-last]), log.subset(known[-last:])
            self._count(past)
            ends = (latest.terminal == SUCCESS)[latest.case_of]
            scores = {s: float(((self._predict(latest, s) - ends) ** 2).mean()) for s in STRENGTHS}
            self.strength = min(STRENGTHS, key=lambda s: scores[s])
        self._count(log.subset(known))
        return self

    def predict(self, log: EventLog) -> Float:
        """Probability of success after each event of each case: float array (events,)."""
        return self._predict(log, self.strength)

    def _count(self, log: EventLog) -> None:
        contexts = Contexts(log, self.order)
        self._contexts = contexts
        good = log.terminal == SUCCESS
        # One class each would say nothing; a case more of either kind keeps the base inside.
        self.base = (float(good.sum()) + 0.5) / (len(log) + 1)
        asked = _prefixes(log, contexts)
        self._counts = []
        for node, level in zip(contexts.find(asked, self.order, True), contexts.chain(self.order, True), strict=True):
            seen = node != NOT_KNOWN
            pairs = np.unique(node[seen] * len(log) + asked.case[seen]) if len(log) else np.zeros(0, np.int64)
            place, case = pairs // max(1, len(log)), pairs % max(1, len(log))
            self._counts.append(
                (
                    np.bincount(place, minlength=len(level)).astype(float),
                    np.bincount(place, weights=good[case], minlength=len(level)).astype(float),
                )
            )

    def _predict(self, log: EventLog, strength: float) -> Float:
        contexts = self._contexts
        if contexts is None:
            raise ValueError("the model has not been fitted")
        asked = _prefixes(log, contexts)
        p = np.full(len(asked.place), self.base)
        for node, (total, good) in zip(contexts.find(asked, self.order, True), self._counts, strict=True):
            known = node != NOT_KNOWN
            at = np.where(known, node, 0)
            if len(total):
                p = np.where(known, (good[at] + strength * p) / (total[at] + strength), p)
        return p


def _prefixes(log: EventLog, contexts: Contexts) -> Targets:
    """What follows each event: the state of the case after it."""
    return after(targets(log, contexts.vocabulary), 1)
