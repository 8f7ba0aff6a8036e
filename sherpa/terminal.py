"""How a case ended, read off its last events."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sherpa.event import FAILURE, OUTCOMES, SUCCESS, UNKNOWN

__all__ = [
    "FAILURE",
    "OUTCOMES",
    "OUTCOME_CODE",
    "SUCCESS",
    "UNKNOWN",
    "RunningTerminal",
    "declared_outcome",
    "terminal_outcomes",
]

OUTCOME_CODE: dict[str, int] = {name: code for code, name in enumerate(OUTCOMES)}

_OPENING = (".started", ".requested", ".received", ".needed", ".granted", ".resumed")
_CHAT = ("session.", "message.")
_RUN = "run.ended"
"""An agent has answered; that is work only if it failed at it."""


def declared_outcome(event_type: str) -> int | None:
    """The outcome that a type declares for its whole case, or None."""
    if event_type.endswith(".completed"):
        return SUCCESS
    if event_type.endswith(".failed"):
        return FAILURE
    return UNKNOWN if event_type == "task.ended" else None


def terminal_outcomes(
    vocabulary: Sequence[str],
    codes: npt.NDArray[np.int32],
    offsets: npt.NDArray[np.int64],
    outcomes: npt.NDArray[np.int8],
    *,
    parity: bool = False,
) -> npt.NDArray[np.int8]:
    """Terminal outcome of each case.

    The last type that ends in ``.completed`` or ``.failed``, or is ``task.ended``, decides. Otherwise the last
    event with a known outcome that is neither ``session.ended`` nor an opening (``.started``, ``.requested`` …).
    Otherwise the outcome of the last event.

    A case with session events and nothing but session and message events, and ends of runs that did not fail, holds
    no work, so nothing can have succeeded: it is unknown. The original takes the outcome of ``session.ended`` there
    (`parity`).

    Parameters
    ----------
    vocabulary : sequence of str
    codes : int32 array (events,)
        Index into the vocabulary, case after case.
    offsets : int64 array (cases + 1,)
    outcomes : int8 array (events,)
        0 unknown, 1 success, 2 failure.

    Returns
    -------
    int8 array (cases,)
    """
    cases = len(offsets) - 1
    result = np.zeros(cases, dtype=np.int8)
    if cases == 0:
        return result
    declared = np.array([-1 if (d := declared_outcome(t)) is None else d for t in vocabulary], dtype=np.int8)
    passive = np.array([t == "session.ended" or t.endswith(_OPENING) for t in vocabulary], dtype=bool)
    lengths = np.diff(offsets)
    filled = lengths > 0
    if not filled.any():
        return result
    starts = offsets[:-1][filled]
    positions = np.arange(len(codes))
    by_type = np.maximum.reduceat(np.where(declared[codes] >= 0, positions, -1), starts)
    usable = (outcomes != UNKNOWN) & ~passive[codes]
    by_outcome = np.maximum.reduceat(np.where(usable, positions, -1), starts)
    last = offsets[1:][filled] - 1
    ended = np.where(
        by_type >= 0,
        declared[codes[by_type]],
        outcomes[np.where(by_outcome >= 0, by_outcome, last)],
    ).astype(np.int8)
    if not parity:
        session = np.array([t.startswith("session.") for t in vocabulary], dtype=bool)
        work = np.array([not t.startswith(_CHAT) and t != _RUN for t in vocabulary], dtype=bool)
        run = np.array([t == _RUN for t in vocabulary], dtype=bool)
        worked = work[codes] | (run[codes] & (outcomes == FAILURE))
        idle = np.logical_or.reduceat(session[codes], starts) & ~np.logical_or.reduceat(worked, starts)
        ended[idle] = UNKNOWN
    result[filled] = ended
    return result


class RunningTerminal:
    """The terminal outcome of a case so far, kept up event by event; the rules of `terminal_outcomes`."""

    __slots__ = ("_declared", "_last", "_session", "_usable", "_work")

    def __init__(self) -> None:
        self._declared: int | None = None
        self._usable: int | None = None
        self._last = UNKNOWN
        self._session = self._work = False

    def add(self, event_type: str, outcome: int) -> None:
        """The next event of the case; its outcome as a code."""
        declared = declared_outcome(event_type)
        if declared is not None:
            self._declared = declared
        passive = event_type == "session.ended" or event_type.endswith(_OPENING)
        if outcome != UNKNOWN and not passive:
            self._usable = outcome
        self._last = outcome
        self._session = self._session or event_type.startswith("session.")
        work = outcome == FAILURE if event_type == _RUN else not event_type.startswith(_CHAT)
        self._work = self._work or work

    @property
    def outcome(self) -> int:
        """Code of the outcome."""
        if self._session and not self._work:
            return UNKNOWN
        if self._declared is not None:
            return self._declared
        return self._last if self._usable is None else self._usable
