"""Learned rivals: classifiers over the recent events and over what the case holds so far."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sherpa.estimators.blended import Memory, after, classes_of
from sherpa.estimators.contexts import Targets, targets
from sherpa.eventlog import EventLog

Float = npt.NDArray[np.float64]
Kind = Literal["logistic-regression", "gradient-boosting"]
WINDOW = 5


class LearnedModel:
    """Predicts the next symbol from features of the prefix, with scikit-learn.

    Features are the last five symbols (the begin of the case counted), how often each type occurred in the case so
    far, and the length of the prefix. A class that was never seen, and the type never seen, share a mass of
    classes / (targets + classes) equally with the others, so that nothing has probability 0.

    Parameters
    ----------
    kind : str
        ``logistic-regression`` or ``gradient-boosting``.
    """

    memory: Memory = "all"

    def __init__(self, kind: Kind = "gradient-boosting") -> None:
        self.kind = kind
        self.vocabulary: tuple[str, ...] = ()
        self._model: Any = None
        self._only: int | None = None
        self._spare = 1.0
        self.edges = 0

    @property
    def classes(self) -> int:
        """Size of a distribution: the vocabulary, the end of the case, a type never seen."""
        return len(self.vocabulary) + 2

    def fit(self, log: EventLog) -> LearnedModel:
        """Learn a log; returns self."""
        self.vocabulary = log.occurring
        asked = targets(log, self.vocabulary)
        wanted = classes_of(asked, self.vocabulary)
        self._spare = self.classes / (len(wanted) + self.classes)
        self.edges = len(wanted)
        distinct = np.unique(wanted)
        self._only = int(distinct[0]) if len(distinct) == 1 else None
        self._model = None
        if len(distinct) > 1:
            self._model = self._new().fit(self.features(asked), wanted)
        return self

    def _new(self) -> Any:
        if self.kind == "gradient-boosting":
            from sklearn.ensemble import HistGradientBoostingClassifier

            # The window holds codes, not quantities.
            return HistGradientBoostingClassifier(
                categorical_features=list(range(WINDOW)),
                # Without this much of it, rare classes make the scores diverge.
                l2_regularization=5.0,
                learning_rate=0.05,
                max_iter=200,
                max_leaf_nodes=15,
                early_stopping=False,
                random_state=0,
            )
        from sklearn.compose import ColumnTransformer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder, StandardScaler

        columns = ColumnTransformer(
            [("window", OneHotEncoder(handle_unknown="ignore"), list(range(WINDOW)))],
            remainder=StandardScaler(),
        )
        return make_pipeline(columns, LogisticRegression(max_iter=500))

    def features(self, asked: Targets) -> Float:
        """A row per target: the window, the bag, the length."""
        stream, place, depth = asked.stream, asked.place, asked.depth
        rows = np.zeros((len(place), WINDOW + len(self.vocabulary) + 1))
        for back in range(1, WINDOW + 1):
            inside = depth >= back
            symbol = stream[np.maximum(place - back, 0)]
            # 0 before the case, 1 for a type never seen, then the vocabulary and the begin.
            rows[:, back - 1] = np.where(inside, symbol + 2, 0)
        rows[:, WINDOW:-1] = self._bag(asked)
        rows[:, -1] = depth - 1
        return rows

    def _bag(self, asked: Targets) -> Float:
        """How often each type occurred in the case before each target."""
        events = asked.stream
        seen = np.zeros((len(events) + 1, len(self.vocabulary)))
        known = np.flatnonzero((events >= 0) & (events < len(self.vocabulary)))
        seen[known + 1, events[known]] = 1
        total = seen.cumsum(axis=0)
        bag: Float = total[asked.place] - total[asked.place - asked.depth]
        return bag

    def ask(self, asked: Targets) -> Float:
        """Distributions before some targets, a row each."""
        rows = np.full((len(asked.place), self.classes), self._spare / self.classes)
        if self._model is not None and len(rows):
            found = self._model.predict_proba(self.features(asked))
            rows[:, self._model.classes_] += (1 - self._spare) * found
        elif self._only is not None:
            rows[:, self._only] += 1 - self._spare
        else:
            rows[:] = 1 / self.classes
        return rows

    def predict_proba(self, log: EventLog, *, first: int = 1) -> Float:
        """Distributions before every event and end; see `sherpa.estimators.blended.BlendedModel.predict_proba`."""
        return self.ask(after(targets(log, self.vocabulary), first))
