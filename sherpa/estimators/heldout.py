"""Predictions about cases that a model had not learned yet: what calibration learns from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sherpa.estimators.blended import after, classes_of
from sherpa.estimators.contexts import targets
from sherpa.estimators.registry import Model
from sherpa.eventlog import EventLog

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
BLOCKS, BEGINS = 5, 0.5


class HeldOut(NamedTuple):
    """Steps of cases in order of time.

    Attributes
    ----------
    p_top, p_target : float arrays (steps,)
        Probability of the first rank, and of what came.
    hit : bool array (steps,)
    case : int array (steps,)
        Number of the case.
    when : int array (steps,)
        Instant at which it turned out what came: that of the event, for the end of a case that of its last event.
    """

    p_top: Float
    p_target: Float
    hit: Bool
    case: Int
    when: Int

    def take(self, chosen: Bool | slice | Int) -> HeldOut:
        """Some of the steps."""
        return HeldOut(
            self.p_top[chosen],
            self.p_target[chosen],
            self.hit[chosen],
            self.case[chosen],
            self.when[chosen],
        )

    def last(self, steps: int) -> HeldOut:
        """The steps that turned out last, equal times in order."""
        return self if len(self.when) <= steps else self.take(np.sort(np.argsort(self.when, kind="stable")[-steps:]))


def predictions(model: Model, log: EventLog, *, first_case: int = 0, rows: Float | None = None) -> HeldOut:
    """What a fitted model says about a log that it did not learn.

    Parameters
    ----------
    rows : float array, optional
        Its distributions (`predict_proba`), where they are known already.
    """
    asked = after(targets(log, model.vocabulary), 1)
    rows = model.ask(asked) if rows is None else rows
    wanted = classes_of(asked, model.vocabulary)
    own = rows[np.arange(len(wanted)), wanted]
    # A case of n events has n steps, of which the last two turn out with its last event.
    begins, ends = log.offsets[:-1], log.offsets[1:]
    following = np.arange(log.events) + 1
    following[ends[ends > begins] - 1] -= 1
    hit = np.asarray(rows.argmax(axis=1) == wanted)
    return HeldOut(rows.max(axis=1, initial=0), own, hit, asked.case + first_case, log.instants[following])


def join(parts: Sequence[HeldOut]) -> HeldOut:
    """Several blocks as one."""
    if not parts:
        nothing, whole = np.zeros(0), np.zeros(0, np.int64)
        return HeldOut(nothing, nothing, nothing.astype(bool), whole, whole)
    return HeldOut(
        np.concatenate([part.p_top for part in parts]),
        np.concatenate([part.p_target for part in parts]),
        np.concatenate([part.hit for part in parts]),
        np.concatenate([part.case for part in parts]),
        np.concatenate([part.when for part in parts]),
    )


def held_out(log: EventLog, make: Callable[[], Model], *, blocks: int = BLOCKS, begins: float = BEGINS) -> HeldOut:
    """Predict the later cases of a log block by block, each block by a model of everything before it.

    Parameters
    ----------
    log : EventLog
        Cases in order of time.
    make : callable
        A fresh model; it may choose its settings, it sees nothing of the block.
    blocks : int
    begins : float
        Share of the cases before the first block.
    """
    bounds = np.unique(np.linspace(begins, 1, blocks + 1) * len(log)).astype(int).tolist()
    parts = []
    for low, high in pairwise(bounds):
        if low == 0 or low == high:
            continue
        model = make()
        model.fit(log.subset(range(low)))
        parts.append(predictions(model, log.subset(range(low, high)), first_case=low))
    return join(parts)
