"""global-majority: what happens most often, whatever the state."""

from __future__ import annotations

from baselines.counts import Tally, ranking
from baselines.predictor import Ranking
from sherpa.eventlog import Case, EventLog, each_case


class GlobalMajority:
    """Ranks events by how often they occur at any position but the first of a case."""

    name = "global-majority"
    description = "The most frequent next events, whatever the state."
    calibrated = False

    def __init__(self) -> None:
        self._tally = Tally()

    @property
    def states(self) -> int:
        return len(self._tally)

    def learn(self, cases: EventLog | Case) -> None:
        for case in each_case(cases):
            self._tally.add(case.types[1:])

    def forget(self, cases: EventLog | Case) -> None:
        for case in each_case(cases):
            self._tally.add(case.types[1:], -1)

    def rank(self, prefix: Case) -> Ranking:
        return ranking(self._tally.counts, matched_order=0, mode="fallback")
