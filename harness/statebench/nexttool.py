"""The next tool of a run: the graph of its domain, blended with that of the runs whose requests are most alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.statebench.trajectories import Trajectory
from sherpa.estimators.blended import BlendedModel, Settings
from sherpa.eventlog import EventLog

Float = npt.NDArray[np.float64]
NEIGHBOURS = 10
OF_NEIGHBOURS = 0.4
"""Weight of the neighbours' graph."""
EXPERTS = (Settings("kneser-ney", 2), Settings("witten-bell", 1, by_set=True))


def tool_log(runs: Sequence[Trajectory]) -> EventLog:
    """Tokens of the calls, a case per run; refusals and turns are left out, as in the published figures."""
    vocabulary = sorted({call.token for run in runs for call in run.calls})
    code = {token: at for at, token in enumerate(vocabulary)}
    codes = [code[call.token] for run in runs for call in run.calls]
    return EventLog.from_codes(codes, np.cumsum([0, *(len(run.calls) for run in runs)]), vocabulary)


def next_tool_hits(
    runs: Sequence[Trajectory],
    neighbours: Callable[[Trajectory], Sequence[int]],
    *,
    of_neighbours: float = OF_NEIGHBOURS,
) -> list[list[tuple[bool, bool]]]:
    """(first is right, one of three is right) before every call and the end of every run, which is left out of all.

    Parameters
    ----------
    runs : sequence of Trajectory
        Of one domain, by place.
    neighbours : callable
        Places of the runs most like a run, best first.
    """
    log = tool_log(runs)
    end = len(log.vocabulary)
    found = []
    for run in runs:
        others = [at for at in range(len(runs)) if at != run.place]
        near = sorted(neighbours(run)[:NEIGHBOURS])
        asked = log.subset([run.place])
        blended = (1 - of_neighbours) * _distribution(log.subset(others), asked)
        if of_neighbours:
            blended += of_neighbours * _distribution(log.subset(near) if near else log.subset(others), asked)
        # Equal chances keep the order of the names.
        best = np.argsort(-blended, axis=1, kind="stable")[:, :3].tolist()
        wanted = [*asked.codes.tolist(), end]
        found.append([(top[0] == right, right in top) for top, right in zip(best, wanted, strict=True)])
    return found


def _distribution(past: EventLog, asked: EventLog) -> Float:
    """Mean of the experts: (targets, tools and the end)."""
    code = {token: at for at, token in enumerate(asked.vocabulary)}
    rows: Any = 0.0
    for settings in EXPERTS:
        model = BlendedModel(settings).fit(past)
        given = model.predict_proba(asked, first=0)
        known = len(model.vocabulary)
        full = np.zeros((len(given), len(code) + 1))
        full[:, [code[token] for token in model.vocabulary]] = given[:, :known]
        full[:, -1] = given[:, known]
        rows = rows + full / len(EXPERTS)
    return np.asarray(rows)
