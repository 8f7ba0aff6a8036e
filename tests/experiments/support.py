"""A predictor that says the same at every step."""

from __future__ import annotations

from baselines.predictor import Ranking
from sherpa.eventlog import Case, EventLog


class Fixed:
    """Ranks given events with given probabilities."""

    name = "fixed"
    calibrated = False
    states = 0

    def __init__(self, events: tuple[str, ...], probabilities: tuple[float, ...]) -> None:
        self._ranking = Ranking(events=events, probabilities=probabilities, mode="raw", matched_order=1)

    def learn(self, cases: EventLog | Case) -> None:
        """Nothing to learn."""

    def forget(self, cases: EventLog | Case) -> None:
        """Nothing to forget."""

    def rank(self, prefix: Case) -> Ranking:
        return self._ranking
