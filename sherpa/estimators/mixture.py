"""Several models side by side, weighted by how well they would have predicted the latest cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from sherpa.estimators.blended import BlendedModel, Recency, Settings, after, classes_of
from sherpa.estimators.contexts import Targets, targets
from sherpa.eventlog import EventLog

Float = npt.NDArray[np.float64]
Weighting = Literal["learned", "equal", "fixed-share"]
HALF_LIVES = (100.0, 500.0, 2000.0)
_SLICE, _ROUNDS, _TOLERANCE = 0.2, 500, 1e-10


def experts(order: int = 5, half_lives: Sequence[float] = HALF_LIVES) -> tuple[Settings, ...]:
    """Kneser–Ney over everything, and over what fades with each half-life (in cases)."""
    faded = (Settings("kneser-ney", order, Recency(cases=h)) for h in half_lives)
    return (Settings("kneser-ney", order), *faded)


class Mixture:
    """A weighted mean of the distributions of several models.

    Parameters
    ----------
    settings : sequence of Settings
    weighting : str
        ``learned``: the weights with the best log loss on the last slice of the cases, predicted by models that
        learned the cases before it; ``fixed-share``: those of the fixed-share forecaster at the end of that slice,
        which follows a change of the best model; ``equal``.
    held_out : float
        Share of the cases in the slice.
    switching : float
        Chance per event that the best model changes, for ``fixed-share``.

    Attributes
    ----------
    weights : float array (models,)
    """

    def __init__(
        self,
        settings: Sequence[Settings] = experts(),
        weighting: Weighting = "learned",
        *,
        held_out: float = _SLICE,
        switching: float = 0.001,
    ) -> None:
        self.settings = tuple(settings)
        self.weighting = weighting
        self.models = [BlendedModel(s) for s in self.settings]
        self.weights = np.full(len(self.models), 1 / len(self.models))
        self._held_out, self._switching = held_out, switching

    def fit(self, log: EventLog) -> Mixture:
        """Learn a log, its cases in order of time; returns self."""
        if self.weighting != "equal":
            self.weights = self._weigh(log)
        for model in self.models:
            model.fit(log)
        return self

    def _weigh(self, log: EventLog) -> Float:
        cut = len(log) - int(len(log) * self._held_out)
        equal = np.full(len(self.models), 1 / len(self.models))
        if cut in (0, len(log)):
            return equal
        past, latest = log.subset(range(cut)), log.subset(range(cut, len(log)))
        given = np.column_stack([probability_of_targets(BlendedModel(s).fit(past), latest) for s in self.settings])
        return best_weights(given) if self.weighting == "learned" else fixed_share(given, self._switching)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        return self.models[0].vocabulary

    @property
    def classes(self) -> int:
        """Size of a distribution, as for `BlendedModel`."""
        return self.models[0].classes

    @property
    def edges(self) -> int:
        """Edges of all models."""
        return sum(model.edges for model in self.models)

    def ask(self, asked: Targets) -> Float:
        """Distributions before some targets, a row each."""
        parts = (w * m.ask(asked) for w, m in zip(self.weights, self.models, strict=True) if w > 0)
        total: Float = np.add.reduce(list(parts))
        return total

    def predict_proba(self, log: EventLog, *, first: int = 1) -> Float:
        """Distributions before every event and end; see `BlendedModel.predict_proba`."""
        return self.ask(after(targets(log, self.vocabulary), first))


def probability_of_targets(model: BlendedModel, log: EventLog, *, first: int = 1) -> Float:
    """What a fitted model gives to each event and end of a log that it did not learn."""
    asked = after(targets(log, model.vocabulary), first)
    rows = model.ask(asked)
    found: Float = rows[np.arange(len(rows)), classes_of(asked, model.vocabulary)]
    return found


def best_weights(given: Float) -> Float:
    """Weights of a mixture that minimise the log loss, by expectation maximisation (Dempster, Laird & Rubin 1977).

    Parameters
    ----------
    given : float array (events, models)
        Probability that each model gave to what happened.
    """
    weights = np.full(given.shape[1], 1 / given.shape[1])
    if not len(given):
        return weights
    for _ in range(_ROUNDS):
        blamed = given * weights
        blamed /= blamed.sum(axis=1, keepdims=True)
        updated = blamed.mean(axis=0)
        if np.abs(updated - weights).max() < _TOLERANCE:
            break
        weights = updated
    normed: Float = weights / weights.sum()
    return normed


def fixed_share(given: Float, switching: float) -> Float:
    """Weights after a sequence of events, by the fixed-share forecaster (Herbster & Warmuth 1998), log loss.

    After each event a weight is multiplied by the probability that its model gave to it; then each model passes the
    share `switching` of its weight to the others in equal parts.
    """
    models = given.shape[1]
    weights = np.full(models, 1 / models)
    if models == 1:
        return weights
    for row in given:
        weights = weights * row
        weights /= weights.sum()
        weights = (1 - switching) * weights + switching * (1 - weights) / (models - 1)
    return weights
