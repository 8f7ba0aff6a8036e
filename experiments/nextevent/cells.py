"""One model on one log: what it said about every step, and what that cost."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from experiments import metrics
from experiments.arm_report import bins_json
from experiments.nextevent.models import Model
from experiments.nextevent.tasks import Task
from sherpa.estimators.blended import after, classes_of
from sherpa.estimators.contexts import targets
from sherpa.files import write_whole

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]
_TIE = 1e-12


@dataclass(frozen=True, eq=False)
class Cell:
    """The predictions of one model on one log, step by step.

    Attributes
    ----------
    rank : int array (steps,)
        Place of what came, from 1; equal probabilities go to the class of the smaller number. 0 if it has none.
    p_target, p_top, p_squared : float arrays (steps,)
        Probability of what came, of the first rank, and Σ p².
    hit : bool array (steps,)
        Whether the first rank came.
    fit_seconds, predict_seconds : float
    about : dict
        What the model says about itself.
    """

    rank: Int
    p_target: Float
    p_top: Float
    p_squared: Float
    fit_seconds: float
    predict_seconds: float
    about: dict[str, Any]

    @property
    def hit(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.rank == 1)

    def to_json(self, top_k: int) -> dict[str, Any]:
        """Metrics over all steps (camelCase); what cannot be computed is None."""
        zero = int((self.p_target <= 0).sum())
        bins = metrics.calibration_bins(self.p_top, self.hit)
        return {
            "steps": len(self.rank),
            "top1": metrics.mean(self.hit),
            "topK": metrics.top_k_accuracy(self.rank, top_k),
            "bits": metrics.log_loss_bits(self.p_target) if not zero else None,
            "impossibleSteps": zero,
            "brier": metrics.brier_score(self.p_target, self.p_squared),
            "ece": metrics.expected_calibration_error(bins),
            "bins": bins_json(bins),
            "fitSeconds": self.fit_seconds,
            "predictMicros": 1e6 * self.predict_seconds / len(self.rank) if len(self.rank) else None,
            **self.about,
        }

    def save(self, path: Path, key: dict[str, Any]) -> None:
        """Write the cell whole, with what it was made from."""
        out = io.BytesIO()
        head = {
            "key": key,
            "fitSeconds": self.fit_seconds,
            "predictSeconds": self.predict_seconds,
            "about": self.about,
        }
        np.savez_compressed(
            out,
            head=np.frombuffer(json.dumps(head, sort_keys=True).encode(), dtype=np.uint8),
            rank=self.rank,
            p_target=self.p_target,
            p_top=self.p_top,
            p_squared=self.p_squared,
        )
        write_whole(path, out.getvalue())


def load_cell(path: Path, key: dict[str, Any]) -> Cell | None:
    """A cell that was finished before, if it was made from the same; None if it is absent, broken or out of date."""
    try:
        with open(path, "rb") as file, np.load(file) as held:
            head = json.loads(held["head"].tobytes())
            if head["key"] != key:
                return None
            return Cell(
                held["rank"],
                held["p_target"],
                held["p_top"],
                held["p_squared"],
                head["fitSeconds"],
                head["predictSeconds"],
                head["about"],
            )
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None


def run_model(make: Callable[[], Model], task: Task, *, timer: Callable[[], float] = time.perf_counter) -> Cell:
    """Fit a model and ask it about every step of the test."""
    begin = timer()
    model = make()
    model.fit(task.train)
    fitted = timer()
    rows = model.predict_proba(task.test)
    asked = timer()
    about: dict[str, Any] = {"states": getattr(model, "edges", None)}
    choice = getattr(model, "choice", None)
    if choice is not None:
        about["selection"] = choice.to_json()
    return cell_of(rows, model.vocabulary, task, fitted - begin, asked - fitted, about)


def cell_of(
    rows: Float, vocabulary: tuple[str, ...], task: Task, fit: float, predict: float, about: dict[str, Any]
) -> Cell:
    """What distributions say about the steps of a task.

    Parameters
    ----------
    rows : float array (steps, classes)
        Over the vocabulary, the end, a type never seen.
    """
    wanted = classes_of(after(targets(task.test, vocabulary), 1), vocabulary)
    if rows.shape != (len(wanted), len(vocabulary) + 2):
        raise ValueError(f"distributions of shape {rows.shape} for {len(wanted)} steps and {len(vocabulary)} types")
    own = rows[np.arange(len(wanted)), wanted]
    number = np.arange(rows.shape[1])
    # Differences in the last digits are no order.
    better = rows > own[:, None] + _TIE
    equal = (np.abs(rows - own[:, None]) <= _TIE) & (number[None, :] < wanted[:, None])
    rank = np.where(own > 0, 1 + (better | equal).sum(axis=1), 0)
    return Cell(rank.astype(np.int64), own, rows.max(axis=1, initial=0), (rows**2).sum(axis=1), fit, predict, about)
