"""How far the reference can be believed: calibration, sets and gating, once and kept up while work goes on."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments import metrics
from experiments.arm_report import bins_json
from experiments.nextevent.resampling import bootstrap
from experiments.nextevent.tasks import Task
from sherpa.estimators.abstention import Utility
from sherpa.estimators.calibration import Isotonic
from sherpa.estimators.conformal import ALARM, ConformalSets, drift, per_case
from sherpa.estimators.heldout import HeldOut, held_out, join, predictions
from sherpa.estimators.live import LEVEL, WINDOW
from sherpa.estimators.registry import Model
from sherpa.eventlog import EventLog, concatenate
from sherpa.instants import NO_INSTANT

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]
LOOKS = 100
GATE = 0.75


def calibration_report(task: Task, make: Callable[[], Model], *, seed: int = 0) -> dict[str, Any]:
    """Two ways to use the same model.

    ``once``: fitted and calibrated on the training cases, then left alone. ``keptUp``: the tested steps come in order
    of time in 100 chunks; before each chunk the model learns the tested cases that have ended by then, and the
    calibration the predictions that have turned out by then, as a memory beside a running agent does.
    """
    past = held_out(task.train, make)
    once = _once(task, make, past)
    kept = _kept_up(task, make, past)
    return {
        "level": LEVEL,
        "gateThreshold": GATE,
        "window": WINDOW,
        "looks": LOOKS,
        "once": _describe(task, *once, past, seed),
        "keptUp": _describe(task, *kept, past, seed),
    }


Said = tuple[HeldOut, Float, npt.NDArray[np.bool_], Float]


def _once(task: Task, make: Callable[[], Model], past: HeldOut) -> Said:
    model = make()
    model.fit(task.train)
    rows = model.predict_proba(task.test)
    found = predictions(model, task.test, rows=rows)
    sets = ConformalSets.fit(past.p_target, LEVEL)
    return found, Isotonic.fit(past.p_top, past.hit)(found.p_top), sets.covers(found.p_target), _sizes(rows, sets)


def _kept_up(task: Task, make: Callable[[], Model], past: HeldOut) -> Said:
    """Walk through the tested steps in order of time; at each look the model and the calibration are brought up to
    date with what was known when the first of the next steps was asked."""
    test = task.test
    timed = not (test.instants == NO_INSTANT).any()
    ends = test.instants[test.offsets[1:] - 1]
    order = np.argsort(test.instants, kind="stable") if timed else np.arange(test.events)
    case_of = test.case_of
    parts: list[HeldOut] = []
    confidence, covered = np.zeros(test.events), np.zeros(test.events, dtype=bool)
    sizes = np.zeros(test.events)
    for chunk in np.array_split(order, min(LOOKS, test.events)):
        now = int(test.instants[chunk[0]])
        over = np.flatnonzero(ends < now) if timed else np.arange(case_of[chunk[0]])
        model = make()
        model.fit(concatenate([task.train, test.subset(over)]) if len(over) else task.train)
        history = join([past, *parts])
        if timed:
            history = history.take(history.when < now)
        history = history.last(WINDOW)
        sets = ConformalSets.fit(history.p_target, LEVEL)
        touched = np.unique(case_of[chunk])
        part = test.subset(touched)
        steps = np.flatnonzero(np.isin(_rows(test, touched), chunk))
        rows = model.predict_proba(part)
        found = predictions(model, part, rows=rows).take(steps)
        place = _rows(test, touched)[steps]
        parts.append(found)
        confidence[place] = Isotonic.fit(history.p_top, history.hit)(found.p_top)
        covered[place] = sets.covers(found.p_target)
        sizes[place] = _sizes(rows[steps], sets)
    return _in_order(parts, order), confidence, covered, sizes


def _rows(log: EventLog, cases: Int) -> Int:
    """Rows of the events of some cases, which are also the numbers of their steps."""
    return np.concatenate([np.arange(log.offsets[c], log.offsets[c + 1]) for c in cases.tolist()])


def _in_order(parts: list[HeldOut], order: Int) -> HeldOut:
    """The steps of all chunks, case after case."""
    bounds = np.cumsum([0, *(len(part.hit) for part in parts)])
    # Inside a chunk steps come by case; where each of them belongs is known from the chunk of the order.
    place = np.concatenate([np.sort(order[a:b]) for a, b in pairwise(bounds.tolist())])
    return join(parts).take(np.argsort(place))


def _sizes(rows: Float, sets: ConformalSets) -> Float:
    return np.asarray(sets.sets(rows).sum(axis=1), dtype=float)


def _describe(
    task: Task,
    found: HeldOut,
    confidence: Float,
    covered: npt.NDArray[np.bool_],
    sizes: Float,
    past: HeldOut,
    seed: int,
) -> dict[str, Any]:
    bins = metrics.calibration_bins(confidence, found.hit)
    gated = confidence >= GATE
    chance = drift(per_case(past.p_target, past.case), per_case(found.p_target, found.case))
    cover_ci = _interval(task, covered.astype(float), np.ones(len(covered)), seed)
    return {
        "top1": metrics.mean(found.hit),
        "bits": metrics.log_loss_bits(found.p_target),
        "rawEce": metrics.expected_calibration_error(metrics.calibration_bins(found.p_top, found.hit)),
        "ece": metrics.expected_calibration_error(bins),
        "reliability": bins_json(bins),
        "conformal": {
            "coverage": metrics.mean(covered),
            "ci": cover_ci,
            "meanSize": metrics.mean(sizes),
            "driftP": chance,
            "warning": None
            if chance is None or chance >= ALARM
            else "the tested cases are predicted differently from the held-out ones: coverage is not promised",
        },
        "gate": {
            "share": metrics.mean(gated),
            "promised": metrics.mean(confidence[gated]),
            "accuracy": metrics.mean(found.hit[gated]),
            "ci": _interval(task, (found.hit & gated).astype(float), gated.astype(float), seed),
        },
        "utility": [
            {
                "wrongCosts": cost,
                "threshold": Utility(wrong=cost).threshold,
                "share": metrics.mean(Utility(wrong=cost).speaks(confidence)),
                "earned": Utility(wrong=cost).earned(confidence, found.hit),
            }
            for cost in (0.5, 1.0, 2.0, 5.0)
        ],
    }


def _interval(task: Task, numerators: Float, denominators: Float, seed: int) -> dict[str, Any] | None:
    found = bootstrap(task, numerators, denominators, seed=seed)
    return None if found is None else found.interval(0).to_json()
