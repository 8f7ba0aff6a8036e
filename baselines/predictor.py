"""The one contract between experiments and everything that predicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sherpa.eventlog import Case, EventLog


@dataclass(frozen=True, slots=True)
class Ranking:
    """What a predictor says about the next event after a prefix.

    Attributes
    ----------
    events : tuple of str
        Best first; empty means: no prediction.
    probabilities : tuple of float
        Of each event, in the same order. What they leave of 1 belongs to events that are not ranked and to the end
        of the case.
    matched_order : int or None
        Length of the context that was used; None if none was.
    backoff_depth : int
        How many longer contexts were tried in vain.
    support : int
        Observations behind the prediction.
    supports : tuple of int
        Observations of each event, in the same order.
    unseen : float
        Probability that the next event is of a type that was never learned.
    mode : str
        ``raw``, ``projected``, ``fallback`` or ``none``.
    success : float or None
        Estimated probability that the case succeeds.
    risks : tuple of str
        Next events that the predictor warns of, most pressing first.
    """

    events: tuple[str, ...] = ()
    probabilities: tuple[float, ...] = ()
    matched_order: int | None = None
    backoff_depth: int = 0
    support: int = 0
    supports: tuple[int, ...] = ()
    unseen: float = 0.0
    mode: str = "none"
    success: float | None = None
    risks: tuple[str, ...] = ()


@runtime_checkable
class Predictor(Protocol):
    """Learns from cases and ranks what comes next after a prefix.

    `forget` is the exact inverse of `learn`. A predictor sees nothing but the prefix: its case may not be looked up
    beyond the prefix's end. Ties are broken the same way each time.
    """

    @property
    def name(self) -> str: ...

    @property
    def calibrated(self) -> bool:
        """True if the probabilities are a distribution over all next events, seen or not.

        Log loss, Brier score and calibration error are reported for such predictors only.
        """
        ...

    @property
    def states(self) -> int:
        """How many edges (or other units of memory) are held."""
        ...

    def learn(self, cases: EventLog | Case) -> None: ...

    def forget(self, cases: EventLog | Case) -> None: ...

    def rank(self, prefix: Case) -> Ranking: ...
