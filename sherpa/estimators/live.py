"""An estimator beside a memory: fitted to its cases, calibrated on those it had not seen, asked about one prefix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sherpa.collation import collation_key
from sherpa.estimators.calibration import FEWEST, Isotonic
from sherpa.estimators.conformal import ConformalSets
from sherpa.estimators.contexts import next_target
from sherpa.estimators.heldout import held_out
from sherpa.estimators.registry import ESTIMATORS
from sherpa.eventlog import EventLog
from sherpa.queries import END

WINDOW = 2000
"""Latest held-out predictions that calibration is kept up with."""
LEVEL = 0.9


@dataclass(frozen=True)
class Outlook:
    """What may come next.

    Attributes
    ----------
    events : tuple of (str, float)
        Every known type and the end of the case, most probable first.
    unseen : float
        Probability of a type that was never learned.
    calibrated_confidence : float or None
        How often a first rank of this probability was right; None without enough held-out predictions.
    prediction_set : tuple of str or None
        What comes next is among these in nine cases of ten; None without enough held-out predictions.
    held_out : int
        Predictions that the last two are learned from.
    """

    events: tuple[tuple[str, float], ...]
    unseen: float
    calibrated_confidence: float | None
    prediction_set: tuple[str, ...] | None
    held_out: int


class LiveEstimator:
    """An estimator with its calibration.

    Parameters
    ----------
    name : str
        Of `ESTIMATORS`.
    log : EventLog
        Cases in order of time, without the one that is asked about: its last event is not its end.
    order : int
        Longest context in events.
    """

    def __init__(self, name: str, log: EventLog, order: int) -> None:
        make = ESTIMATORS[name]
        self.name = name
        self._model = make(order)
        self._model.fit(log)
        past = held_out(log, lambda: make(order)).last(WINDOW)
        self._enough = len(past.hit) >= FEWEST
        self._held_out = len(past.hit)
        self._isotonic = Isotonic.fit(past.p_top, past.hit)
        self._sets = ConformalSets.fit(past.p_target, LEVEL)

    def ask(self, types: Sequence[str]) -> Outlook:
        """What may come after a prefix (all its types, oldest first)."""
        row = self._model.ask(next_target(types, self._model.vocabulary))[0]
        names = (*self._model.vocabulary, END)
        order = sorted(range(len(names)), key=lambda c: (-row[c], collation_key(names[c])))
        inside = self._sets.sets(row[None, :])[0]
        return Outlook(
            tuple((names[c], float(row[c])) for c in order),
            float(row[-1]),
            self._isotonic(float(np.max(row))) if self._enough else None,
            tuple(names[c] for c in order if inside[c]) if self._enough else None,
            self._held_out,
        )
