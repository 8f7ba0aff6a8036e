"""raw-ngram: the longest suffix that was ever seen, by maximum likelihood."""

from __future__ import annotations

from baselines.counts import ranking
from baselines.predictor import Ranking
from sherpa.eventlog import Case, EventLog
from sherpa.model import VariableOrderMarkovModel


class RawNgram:
    """Ranks by what followed the longest seen suffix of the history, of at most `order` events.

    Parameters
    ----------
    order : int
    fallback : bool
        Rank by overall frequency where no suffix was seen.
    """

    name = "raw-ngram"
    description = "Exact suffixes of event types, the longest that was seen, with back-off to shorter ones."
    calibrated = False

    def __init__(self, order: int = 3, *, fallback: bool = True) -> None:
        self._order = order
        self._fallback = fallback
        self._model = VariableOrderMarkovModel(order)

    @property
    def states(self) -> int:
        return self._model.edges

    def learn(self, cases: EventLog | Case) -> None:
        self._model.learn(cases)

    def forget(self, cases: EventLog | Case) -> None:
        self._model.forget(cases)

    def rank(self, prefix: Case) -> Ranking:
        state = prefix.tokens("raw", self._order)
        for order in range(len(state), 0, -1):
            branches = self._model.branches(order, state[-order:])
            if branches.rows:
                counts = {b.event: b.support for b in branches}
                return ranking(counts, matched_order=order, mode="raw", backoff_depth=len(state) - order)
        if not self._fallback:
            return Ranking(backoff_depth=len(state))
        counts = {b.event: b.support for b in self._model.branches(0, ())}
        return ranking(counts, matched_order=0, mode="fallback", backoff_depth=len(state))
