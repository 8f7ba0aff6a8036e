"""Calibration, sets, abstention and held-out predictions against calculations by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sherpa.estimators.abstention import Utility
from sherpa.estimators.calibration import Isotonic, Temperature
from sherpa.estimators.conformal import ConformalSets, drift, per_case
from sherpa.estimators.heldout import held_out, join, predictions
from sherpa.estimators.live import LiveEstimator
from sherpa.estimators.registry import ESTIMATORS
from sherpa.eventlog import EventLog
from sherpa.queries import END


def log_of(*cases: str, step: int = 0) -> EventLog:
    names = sorted(set("".join(cases)))
    sizes = [len(case) for case in cases]
    return EventLog.from_codes(
        [names.index(x) for case in cases for x in case],
        np.cumsum([0, *sizes]),
        names,
        instants=[1000 * at + place + step for at, size in enumerate(sizes) for place in range(size)],
    )


def test_isotonic_pools_what_falls() -> None:
    """At 0.2 three of ten were right, at 0.4 two of ten: pooled to 0.25. At 0.8 nine of ten."""
    said = np.repeat([0.2, 0.4, 0.8], 10)
    hits = np.array([1] * 3 + [0] * 7 + [1] * 2 + [0] * 8 + [1] * 9 + [0], dtype=bool)
    model = Isotonic.fit(said, hits)
    assert model.predictions == 30
    assert model(np.array([0.0, 0.2, 0.3, 0.4, 0.8, 1.0])) == pytest.approx([0.25, 0.25, 0.25, 0.25, 0.9, 0.9])
    # Half way between 0.4 and 0.8.
    assert model(0.6) == pytest.approx(0.575)


def test_few_predictions_calibrate_nothing() -> None:
    assert Isotonic.fit(np.array([0.9] * 5), np.zeros(5, bool))(0.9) == pytest.approx(0.9)
    assert Temperature.fit(np.full((5, 2), 0.5), np.zeros(5, np.int64)) == Temperature(1.0)


def test_temperature_finds_back_what_sharpened() -> None:
    """0.7 squared over 0.7² + 0.3² is 0.845: at temperature 2 it is 0.7 again, as often as it came true."""
    sharp = 0.49 / 0.58
    rows = np.tile([sharp, 1 - sharp], (1000, 1))
    wanted = np.array([0] * 700 + [1] * 300)
    model = Temperature.fit(rows, wanted)
    assert model.value == pytest.approx(2, abs=0.01)
    assert model(rows)[0] == pytest.approx([0.7, 0.3], abs=1e-3)


def test_the_threshold_of_sets() -> None:
    """Nine scores 0.1 … 0.9: the ⌈10·0.9⌉ = 9th smallest is 0.9; ⌈10·0.5⌉ = 5th is 0.5; eight are too few for 0.9."""
    scores = np.arange(1, 10) / 10
    assert ConformalSets.fit(1 - scores, 0.9).threshold == pytest.approx(0.9)
    assert ConformalSets.fit(1 - scores, 0.5).threshold == pytest.approx(0.5)
    assert ConformalSets.fit(1 - scores[:8], 0.9).threshold == math.inf
    sets = ConformalSets.fit(1 - scores, 0.5)
    assert sets.sets(np.array([[0.5, 0.4, 0.1], [0.2, 0.2, 0.6]])).tolist() == [
        [True, False, False],
        [False, False, True],
    ]
    assert sets.covers(np.array([0.5, 0.49])).tolist() == [True, False]
    with pytest.raises(ValueError, match="between 0 and 1"):
        ConformalSets.fit(scores, 1.0)


def test_sets_cover_what_they_promise_where_cases_are_exchangeable() -> None:
    rng = np.random.default_rng(4)
    covered = []
    for _ in range(300):
        p = rng.beta(2, 1, 140)
        covered.append(ConformalSets.fit(p[:40], 0.9).covers(p[40:]).mean())
    # At least 0.9 and at most 0.9 + 1/41 on average (Vovk et al. 2005).
    assert 0.9 - 0.01 < np.mean(covered) < 0.9 + 1 / 41 + 0.01


def test_drift_is_seen_and_its_absence_too() -> None:
    rng = np.random.default_rng(6)
    assert (drift(rng.random(200), rng.random(200)) or 0) > 0.05
    assert (drift(rng.random(200), rng.random(200) ** 2) or 1) < 0.001
    assert drift(np.array([0.5]), rng.random(9)) is None
    false_alarms = sum((drift(rng.random(30), rng.random(30)) or 1) < 0.05 for _ in range(400))
    assert false_alarms / 400 < 0.08


def test_one_number_per_case() -> None:
    assert per_case(np.array([0.2, 0.4, 0.9]), np.array([7, 7, 9])) == pytest.approx([0.3, 0.9])


def test_when_to_speak() -> None:
    """Wrong advice costs twice what right advice gains: speak from 2/3 on."""
    utility = Utility(right=1, wrong=2)
    assert utility.threshold == pytest.approx(2 / 3)
    confidence, hits = np.array([0.9, 0.7, 0.5]), np.array([True, False, True])
    assert utility.speaks(confidence).tolist() == [True, True, False]
    assert utility.earned(confidence, hits) == pytest.approx((1 - 2 + 0) / 3)
    assert utility.earned(np.empty(0), np.empty(0, bool)) is None
    with pytest.raises(ValueError, match="worth something"):
        Utility(right=0)


def test_held_out_predictions_are_of_cases_not_learned() -> None:
    """Work changes at every block, so a model that had seen its block would be right, and this one never is."""
    blocks = ["ab", "ac", "ad", "ae"]
    log = log_of(*[case for case in blocks for _ in range(5)])
    found = held_out(log, lambda: ESTIMATORS["kneser-ney"](2), blocks=3, begins=0.25)
    assert len(found.hit) == 15 * 2
    assert np.unique(found.case).tolist() == list(range(5, 20))
    # The first step of each case is wrong: its second event was never seen before its block.
    assert not found.hit[::2].any()


def test_a_step_turns_out_when_the_next_event_comes() -> None:
    log = log_of("abc", "ab")
    model = ESTIMATORS["kneser-ney"](2)
    model.fit(log)
    found = predictions(model, log, first_case=3)
    assert found.when.tolist() == [1, 2, 2, 1001, 1001]
    assert found.case.tolist() == [3, 3, 3, 4, 4]
    assert found.last(2).when.tolist() == [1001, 1001]
    assert len(join([]).hit) == 0


def test_an_estimator_beside_a_memory() -> None:
    log = log_of(*["abc", "abd"] * 40)
    outlook = LiveEstimator("mixture", log, 5).ask(("a", "b"))
    names = dict(outlook.events)
    assert set(names) == {"a", "b", "c", "d", END}
    assert sum(names.values()) + outlook.unseen == pytest.approx(1, abs=1e-12)
    assert [p for _, p in outlook.events] == sorted(names.values(), reverse=True)
    # c and d come equally often: half of the first ranks are right, and both are needed to be right nine times of ten.
    assert outlook.prediction_set is not None
    assert {"c", "d"} <= set(outlook.prediction_set)
    assert outlook.calibrated_confidence is not None
    assert outlook.calibrated_confidence == pytest.approx(0.5, abs=0.2)
    few = LiveEstimator("auto", log_of("ab", "ac"), 3).ask(("a",))
    assert (few.calibrated_confidence, few.prediction_set) == (None, None)
