"""Intervals over the steps of a task: cases, or groups of cases, are what is resampled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from experiments.intervals import Bootstrap, cluster_bootstrap
from experiments.nextevent.tasks import Task

Float = npt.NDArray[np.float64]
_RESAMPLES = 2000


def bootstrap(task: Task, numerators: Float, denominators: Float | None = None, *, seed: int) -> Bootstrap | None:
    """Resample the clusters of a task, with the same draws for the same seed; None if nothing can be said.

    Parameters
    ----------
    numerators : float array (steps, statistics) or (steps,)
    denominators : float array (steps,), optional
        What the sums are divided by; the number of steps by default.
    """
    names, cluster = np.unique(task.cluster, return_inverse=True)
    of_step = np.repeat(cluster, np.diff(task.test.offsets))
    below = np.bincount(of_step, weights=denominators, minlength=len(names)).astype(float)
    if len(names) < 2 or below.sum() == 0:
        return None
    columns = numerators.reshape(len(numerators), -1).T
    above = np.column_stack([np.bincount(of_step, weights=column, minlength=len(names)) for column in columns])
    return cluster_bootstrap(above, below, rng=np.random.default_rng(seed), resamples=_RESAMPLES)
