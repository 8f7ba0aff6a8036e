"""Choosing smoothing, order and half-lives on the last slice of what is learned, never on what is tested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sherpa.estimators.blended import BlendedModel, Settings
from sherpa.estimators.mixture import Mixture, best_weights, experts, trial
from sherpa.estimators.smoothing import Smoothing
from sherpa.eventlog import EventLog

_SLICE = 0.2
_FEWEST = 5
SMOOTHINGS: tuple[Smoothing, ...] = ("kneser-ney", "witten-bell")
"""Method C with exclusion is left out: it was never the best, and needs whole distributions to be tried."""


@dataclass(frozen=True)
class Trial:
    """One candidate, its log loss on the slice in bits per event, and the weights of its models."""

    name: str
    settings: tuple[Settings, ...]
    bits: float
    weights: tuple[float, ...] = (1.0,)


@dataclass(frozen=True)
class Choice:
    """What was chosen and from what.

    Attributes
    ----------
    chosen : Trial
    trials : tuple of Trial
        Every candidate, in the order in which they were tried.
    cases, held_out : int
        Cases that were learned from and tried on.
    """

    chosen: Trial
    trials: tuple[Trial, ...]
    cases: int
    held_out: int

    def to_json(self) -> dict[str, Any]:
        """For the record of a run."""
        return {
            "chosen": self.chosen.name,
            "learnedCases": self.cases,
            "triedOnCases": self.held_out,
            "trials": [{"name": t.name, "bits": None if np.isnan(t.bits) else t.bits} for t in self.trials],
        }


def choose(log: EventLog, *, orders: Sequence[int] = (2, 3, 4, 5), held_out: float = _SLICE) -> Choice:
    """The candidate with the lowest log loss on the last cases of a log, learned from those before them.

    Candidates are each smoothing at each order, and at each order the mixture of Kneser–Ney with what fades. The
    first of equals wins; with too few cases to try on, the mixture of the largest order.

    Parameters
    ----------
    log : EventLog
        Cases in order of time.
    """
    last = int(len(log) * held_out)
    mixtures = {order: experts(order) for order in orders}
    if last < _FEWEST or last == len(log):
        order = max(orders)
        only = Trial(
            f"mixture({order})", mixtures[order], float("nan"), (1 / len(mixtures[order]),) * len(mixtures[order])
        )
        return Choice(only, (only,), len(log), 0)
    past, latest = log.subset(range(len(log) - last)), log.subset(range(len(log) - last, len(log)))
    singles = {order: [Settings(smoothing, order) for smoothing in SMOOTHINGS] for order in orders}
    every = list(dict.fromkeys(s for order in orders for s in (*mixtures[order], *singles[order])))
    given = dict(zip(every, trial(past, latest, every).T, strict=True))
    trials = []
    for order in orders:
        columns = np.column_stack([given[s] for s in mixtures[order]])
        # The weights are fitted to the slice they are judged on; with seven weights and thousands of events that
        # flatters the mixture by next to nothing, and the best single model is among its members.
        weights = best_weights(columns)
        trials.append(Trial(f"mixture({order})", mixtures[order], _bits(columns @ weights), tuple(weights.tolist())))
        trials += [Trial(s.name, (s,), _bits(given[s])) for s in singles[order]]
    return Choice(min(trials, key=lambda t: t.bits), tuple(trials), len(past), last)


def _bits(probabilities: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    return float(-np.log2(probabilities).mean())


class AutoModel(Mixture):
    """The chosen model, fitted to everything.

    Attributes
    ----------
    choice : Choice or None
    """

    def __init__(self, *, orders: Sequence[int] = (2, 3, 4, 5)) -> None:
        super().__init__(experts(max(orders)))
        self._orders = tuple(orders)
        self.choice: Choice | None = None

    def fit(self, log: EventLog) -> AutoModel:
        """Choose on the last cases, then learn all of them; returns self."""
        self.choice = choose(log, orders=self._orders)
        chosen = self.choice.chosen
        self.settings = chosen.settings
        self.models = [BlendedModel(s) for s in chosen.settings]
        self.weights = np.array(chosen.weights)
        self._learn(log)
        return self
