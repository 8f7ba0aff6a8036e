"""What is compared: every model learns a log and gives distributions over the next event, the end included."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from baselines.blended import make_model
from baselines.predictor import Predictor
from baselines.registry import NAMED
from sherpa.config import EngineConfig
from sherpa.eventlog import EventLog

Float = npt.NDArray[np.float64]
END = "\x03end"


class Model(Protocol):
    """Learns a log; gives for each prefix of one event or more a row over vocabulary, end and a type never seen."""

    vocabulary: tuple[str, ...]

    def fit(self, log: EventLog) -> Any: ...

    def predict_proba(self, log: EventLog) -> Float: ...


class Ranked:
    """A `Predictor` as a model: the end of a case is learned as one more event.

    What a ranking leaves of 1 is given to nobody, so that a target that is not ranked has probability 0.
    """

    def __init__(self, make: Callable[[], Predictor]) -> None:
        self._make = make
        self.vocabulary: tuple[str, ...] = ()
        self._predictor: Predictor | None = None

    def fit(self, log: EventLog) -> Ranked:
        self.vocabulary = log.occurring
        self._predictor = self._make()
        self._predictor.learn(ended(log))
        return self

    @property
    def edges(self) -> int:
        return 0 if self._predictor is None else self._predictor.states

    def predict_proba(self, log: EventLog) -> Float:
        assert self._predictor is not None
        place = {name: at for at, name in enumerate((*self.vocabulary, END))}
        rows = np.zeros((log.events, len(place) + 1))
        at = 0
        for case in ended(log):
            for length in range(1, len(case)):
                ranking = self._predictor.rank(case.prefix(length))
                for event, p in zip(ranking.events, ranking.probabilities, strict=True):
                    rows[at, place[event]] = p
                rows[at, -1] = ranking.unseen
                at += 1
        return rows


def ended(log: EventLog) -> EventLog:
    """The same cases with an event for their end; types only."""
    sizes = np.diff(log.offsets)
    offsets = np.concatenate(([0], np.cumsum(sizes + 1)))
    codes = np.full(int(offsets[-1]), len(log.vocabulary), dtype=np.int64)
    inside = np.ones(len(codes), dtype=bool)
    inside[offsets[1:] - 1] = False
    codes[inside] = log.codes
    return EventLog.from_codes(codes, offsets, (*log.vocabulary, END), case_ids=log.case_ids)


def _published(order: int) -> Model:
    from baselines.procedural_memory import ProceduralMemoryPredictor

    config = EngineConfig(default_order=min(3, order), min_support=2)
    return Ranked(lambda: ProceduralMemoryPredictor(config))


def _majority(_: int) -> Model:
    from baselines.global_majority import GlobalMajority

    return Ranked(GlobalMajority)


MODELS: dict[str, Callable[[int], Model]] = {
    "global-majority": _majority,
    "longest-suffix": _published,
    **{name: partial(make_model, name) for name in NAMED},
}
DEFAULT = "auto"
"""What the others are compared with."""
