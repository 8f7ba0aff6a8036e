"""From what a model says to how often it is right: isotonic and temperature calibration on held-out predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
FEWEST = 20
"""Held-out predictions that calibration needs."""
_COLDEST, _HOTTEST = 0.25, 4.0


@dataclass(frozen=True, eq=False)
class Isotonic:
    """A rising step function from the probability of the first rank to the share of such predictions that were right.

    Fitted by pool adjacent violators (Zadrozny & Elkan 2002); between the given points it is linear, beyond them flat.

    Attributes
    ----------
    said, right : float arrays (points,)
        Rising.
    predictions : int
        Held-out predictions it was fitted to.
    """

    said: Float
    right: Float
    predictions: int

    @classmethod
    def fit(cls, said: Float, hits: Bool) -> Isotonic:
        """Fit to held-out predictions; with fewer than 20 of them, say what the model says."""
        if len(said) < FEWEST:
            return cls(np.array([0.0, 1.0]), np.array([0.0, 1.0]), len(said))
        from sklearn.isotonic import IsotonicRegression

        model = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(said, hits.astype(float))
        return cls(np.asarray(model.X_thresholds_), np.asarray(model.y_thresholds_), len(said))

    def __call__(self, said: Float | float) -> Any:
        """Calibrated confidence: a number, or an array."""
        found = np.interp(said, self.said, self.right)
        return float(found) if np.ndim(said) == 0 else found


@dataclass(frozen=True)
class Temperature:
    """A power that flattens or sharpens whole distributions without changing their ranking (Guo et al. 2017).

    Attributes
    ----------
    value : float
        p' ∝ p^(1/value); above 1 the model was too sure of itself.
    """

    value: float = 1.0

    @classmethod
    def fit(cls, rows: Float, wanted: Int) -> Temperature:
        """The temperature with the least log loss on held-out distributions, between 1/4 and 4."""
        if len(rows) < FEWEST:
            return cls()
        from scipy.optimize import minimize_scalar

        logs = np.log(rows)
        own = logs[np.arange(len(rows)), wanted]

        def loss(log_temperature: float) -> float:
            scaled = logs / np.exp(log_temperature)
            top = scaled.max(axis=1)
            total = np.log(np.exp(scaled - top[:, None]).sum(axis=1)) + top
            return float((total - own / np.exp(log_temperature)).mean())

        found = minimize_scalar(loss, bounds=(np.log(_COLDEST), np.log(_HOTTEST)), method="bounded")
        return cls(float(np.exp(found.x)))

    def __call__(self, rows: Float) -> Float:
        """Distributions at this temperature."""
        powered = rows ** (1 / self.value)
        scaled: Float = powered / powered.sum(axis=1, keepdims=True)
        return scaled
