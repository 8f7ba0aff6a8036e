"""When to say nothing: expected utility of advice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Utility:
    """What advice is worth; silence is worth nothing.

    Attributes
    ----------
    right, wrong : float
        Gain of advice that came true; loss (positive) of advice that did not.
    """

    right: float = 1.0
    wrong: float = 1.0

    def __post_init__(self) -> None:
        if self.right <= 0 or self.wrong < 0:
            raise ValueError(
                "advice that is right must be worth something, and advice that is wrong cost no less than 0"
            )

    @property
    def threshold(self) -> float:
        """Confidence from which advice is worth more than silence: p·right ≥ (1 − p)·wrong."""
        return self.wrong / (self.right + self.wrong)

    def speaks(self, confidence: Float) -> Bool:
        """Where to speak."""
        chosen: Bool = confidence >= self.threshold
        return chosen

    def earned(self, confidence: Float, hits: Bool) -> float | None:
        """Mean utility per step of speaking where it is expected to pay; None of nothing."""
        if len(hits) == 0:
            return None
        gained = np.where(hits, self.right, -self.wrong)
        return float(np.where(self.speaks(confidence), gained, 0.0).mean())
