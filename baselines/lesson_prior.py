"""textual-lesson-prior: what a written lesson per class of work would say."""

from __future__ import annotations

from itertools import pairwise

from baselines.counts import Tally, ranking
from baselines.predictor import Ranking
from sherpa.eventlog import Case, EventLog, each_case

_UNKNOWN = "unknown"


class LessonPrior:
    """Ranks by what followed the last event among cases of the class, else by the class, else overall.

    Parameters
    ----------
    see_class : bool
        Whether the class of a case may be seen; without it all cases are of one class.
    fallback : bool
        Go on to the class and to all cases where the last event was not seen.
    """

    name = "textual-lesson-prior"
    description = "What followed the last event among cases of the same annotated class."
    calibrated = False

    def __init__(self, *, fallback: bool = True, see_class: bool = False) -> None:
        self._see_class, self._fallback = see_class, fallback
        self._pairs: dict[tuple[str, str], Tally] = {}
        self._classes: dict[str, Tally] = {}
        self._total = Tally()

    @property
    def states(self) -> int:
        return sum(len(tally) for tally in self._pairs.values())

    def learn(self, cases: EventLog | Case) -> None:
        self._change(cases, 1)

    def forget(self, cases: EventLog | Case) -> None:
        self._change(cases, -1)

    def _class_of(self, case: Case) -> str:
        return (case.info.workflow_class if self._see_class else None) or _UNKNOWN

    def _change(self, cases: EventLog | Case, sign: int) -> None:
        for case in each_case(cases):
            name, types = self._class_of(case), case.types
            pairs: dict[tuple[str, str], list[str]] = {}
            for last, event in pairwise(types):
                pairs.setdefault((name, last), []).append(event)
            for key, events in pairs.items():
                # Look before anything is changed: a case is forgotten whole or not at all.
                self._pairs.setdefault(key, Tally()).check(events, sign)
            self._classes.setdefault(name, Tally()).add(types[1:], sign)
            self._total.add(types[1:], sign)
            for key, events in pairs.items():
                self._pairs[key].add(events, sign)

    def rank(self, prefix: Case) -> Ranking:
        name = self._class_of(prefix)
        last = prefix.last_type
        pair = None if last is None else self._pairs.get((name, last))
        if pair:
            return ranking(pair.counts, matched_order=1, mode="raw")
        if not self._fallback:
            return Ranking(backoff_depth=1)
        of_class = self._classes.get(name)
        counts = of_class.counts if of_class else self._total.counts
        return ranking(counts, matched_order=0, mode="fallback", backoff_depth=1)
