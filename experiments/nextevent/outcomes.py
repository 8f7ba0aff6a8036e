"""How well the end of a case is foreseen from its prefixes."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments import metrics
from experiments.nextevent.tasks import Task
from sherpa.estimators.outcome import OutcomeModel
from sherpa.terminal import FAILURE, SUCCESS

QUARTERS = ("first", "second", "third", "last")


def outcome_report(task: Task) -> list[dict[str, Any]]:
    """Success foreseen after each event of the tested cases whose end is known; nothing where all ended alike.

    Returns
    -------
    list of dict
        One row, or none: area under the curve and Brier score over all prefixes, that of always saying the share of the
        learned cases, and both by quarter of the case.
    """
    test = task.test.subset(np.flatnonzero(np.isin(task.test.terminal, (SUCCESS, FAILURE))))
    if any(len(np.intersect1d(part.terminal, (SUCCESS, FAILURE))) < 2 for part in (task.train, test)):
        return []
    model = OutcomeModel().fit(task.train)
    p = model.predict(test)
    sizes = np.diff(test.offsets)
    good = (test.terminal == SUCCESS)[test.case_of]
    place = np.concatenate([np.arange(n) / n for n in sizes.tolist()])
    quarter = np.minimum((place * len(QUARTERS)).astype(int), len(QUARTERS) - 1)
    rows = []
    for at, name in enumerate(QUARTERS):
        mine = quarter == at
        rows.append(
            {
                "quarter": name,
                "prefixes": int(mine.sum()),
                "auc": metrics.area_under_curve(p[mine], good[mine]),
                "brier": metrics.mean((p[mine] - good[mine]) ** 2),
            }
        )
    return [
        {
            "log": task.log,
            "cases": len(test),
            "successShare": float((test.terminal == SUCCESS).mean()),
            "strength": model.strength,
            "auc": metrics.area_under_curve(p, good),
            "brier": metrics.mean((p - good) ** 2),
            "baseBrier": metrics.mean((model.base - good) ** 2),
            "byQuarter": rows,
        }
    ]
