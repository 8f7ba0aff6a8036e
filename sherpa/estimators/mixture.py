"""Several models side by side, weighted by how well they would have predicted the latest cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from sherpa.estimators.blended import BlendedModel, Memory, Recency, Settings, after, classes_of
from sherpa.estimators.contexts import Contexts, Level, Targets, targets
from sherpa.eventlog import EventLog

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]
Weighting = Literal["learned", "equal", "fixed-share"]
HALF_LIVES = (100.0, 500.0, 2000.0)
_SET_ORDERS = (1, 2, 3)
_SLICE, _ROUNDS, _TOLERANCE = 0.2, 500, 1e-5


def experts(order: int = 5, half_lives: Sequence[float] = HALF_LIVES) -> tuple[Settings, ...]:
    """Kneser–Ney over everything, over what fades with each half-life (in cases), and contexts told apart by sets.

    The members complement each other: the first is the sharpest where work does not change, the fading ones follow
    where it does, and the sets know what has been done already where steps come in any order.
    """
    faded = (Settings("kneser-ney", order, Recency(cases=h)) for h in half_lives)
    sets = (Settings("witten-bell", k, by_set=True) for k in _SET_ORDERS if k <= order)
    return (Settings("kneser-ney", order), *faded, *sets)


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
        self._learn(log)
        return self

    def _learn(self, log: EventLog) -> None:
        """Fit the members, which share the contexts of the log."""
        contexts = Contexts(log, max(s.order for s in self.settings))
        for model in self.models:
            model.fit(log, contexts)

    def _weigh(self, log: EventLog) -> Float:
        cut = len(log) - int(len(log) * self._held_out)
        if cut in (0, len(log)):
            return np.full(len(self.models), 1 / len(self.models))
        given = trial(log.subset(range(cut)), log.subset(range(cut, len(log))), self.settings)
        return best_weights(given) if self.weighting == "learned" else fixed_share(given, self._switching)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        return self.models[0].vocabulary

    @property
    def classes(self) -> int:
        """Size of a distribution, as for `BlendedModel`."""
        return self.models[0].classes

    @property
    def memory(self) -> Memory:
        """What of a prefix matters."""
        return "set" if any(model.memory == "set" for model in self.models) else "suffix"

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


def trial(past: EventLog, latest: EventLog, settings: Sequence[Settings], *, first: int = 1) -> Float:
    """What models of one log give to each event and end of another: float array (targets, models).

    The models share the contexts of the first log and the places of the second in them.
    """
    contexts = Contexts(past, max(s.order for s in settings))
    asked = after(targets(latest, contexts.vocabulary), first)
    wanted = classes_of(asked, contexts.vocabulary)
    found: dict[int, Int] = {}

    def edges(level: Level, node: Int, symbols: Int) -> Int:
        if id(level) not in found:
            found[id(level)] = contexts.find_edge(level, node, symbols)
        return found[id(level)]

    columns = []
    for each in settings:
        model = BlendedModel(each).fit(past, contexts)
        if each.smoothing == "ppm-c":
            columns.append(model.ask(asked)[np.arange(len(wanted)), wanted])
        else:
            columns.append(model.probability_of(asked, wanted, edges))
    return np.column_stack(columns)


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
    # The same context and target give the same row, so there are far fewer rows than events.
    packed = np.ascontiguousarray(given).view([("", float)] * given.shape[1]).ravel()
    _, first, times = np.unique(packed, return_index=True, return_counts=True)
    rows, share = given[first], times / len(given)
    for _ in range(_ROUNDS):
        updated = weights * ((share / (rows @ weights)) @ rows)
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
