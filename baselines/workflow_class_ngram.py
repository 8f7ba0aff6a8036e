"""workflow-class-ngram: raw-ngram among cases of the same annotated class."""

from __future__ import annotations

from dataclasses import replace

from baselines.counts import Tally, ranked
from baselines.predictor import Ranking
from baselines.raw_ngram import RawNgram
from sherpa.eventlog import Case, EventLog, each_case


class WorkflowClassNgram:
    """`RawNgram` trained on the cases of the tested case's class; on all cases where that is not known.

    Its risks are the annotated risks of the same cases, most frequent first, whatever the step.

    Parameters
    ----------
    see_class : bool
        Whether the class of a case and the risks that people annotated may be seen. A live predictor sees neither;
        without them this is `RawNgram`.
    """

    name = "workflow-class-ngram"
    description = "Suffixes of event types among cases of the same annotated class."
    calibrated = False

    def __init__(self, order: int = 3, *, fallback: bool = True, see_class: bool = False) -> None:
        self._order, self._fallback, self._see_class = order, fallback, see_class
        self._all = RawNgram(order, fallback=fallback)
        self._by_class: dict[str, RawNgram] = {}
        self._cases: dict[str, int] = {}
        self._risks: dict[str | None, Tally] = {None: Tally()}

    @property
    def states(self) -> int:
        return self._all.states + sum(model.states for model in self._by_class.values())

    def learn(self, cases: EventLog | Case) -> None:
        self._all.learn(cases)
        self._change(cases, 1)

    def forget(self, cases: EventLog | Case) -> None:
        self._all.forget(cases)
        self._change(cases, -1)

    def _change(self, cases: EventLog | Case, sign: int) -> None:
        if not self._see_class:
            return
        for case in each_case(cases):
            name = case.info.workflow_class
            for key in {name, None}:
                self._risks.setdefault(key, Tally()).add(case.info.risks, sign)
            if name is None:
                continue
            self._cases[name] = self._cases.get(name, 0) + sign
            model = self._by_class.setdefault(name, RawNgram(self._order, fallback=self._fallback))
            (model.learn if sign > 0 else model.forget)(case)

    def rank(self, prefix: Case) -> Ranking:
        name = prefix.info.workflow_class if self._see_class else None
        known = name is not None and self._cases.get(name, 0) > 0
        model = self._by_class[name] if known and name is not None else self._all
        risks = tuple(ranked(self._risks[name if known else None].counts))
        return replace(model.rank(prefix), risks=risks)
