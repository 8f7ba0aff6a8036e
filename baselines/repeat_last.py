"""repeat-last: the same again. A floor that needs no memory."""

from __future__ import annotations

from baselines.predictor import Ranking
from sherpa.eventlog import Case, EventLog


class RepeatLast:
    """Predicts the last event."""

    name = "repeat-last"
    description = "The last event again."
    calibrated = False
    states = 0

    def learn(self, cases: EventLog | Case) -> None:
        """There is nothing to learn."""

    def forget(self, cases: EventLog | Case) -> None:
        """There is nothing to forget."""

    def rank(self, prefix: Case) -> Ranking:
        last = prefix.last_type
        if last is None:
            return Ranking()
        return Ranking(events=(last,), probabilities=(1.0,), matched_order=1, mode="raw")
