"""Metrics against figures worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.metrics import (
    CalibrationBin,
    RiskCounts,
    area_under_curve,
    brier_score,
    calibration_bins,
    distribution,
    expected_calibration_error,
    log_loss_bits,
    macro_accuracy,
    mean,
    reciprocal_rank,
    risk_counts,
    top_k_accuracy,
)

NONE = np.array([], dtype=np.int64)
NOTHING = np.array([], dtype=np.float64)
RANKS = np.array([1, 2, 0, 4, 1])
"""Five steps: first, second, not ranked, fourth, first."""


@pytest.mark.parametrize(("values", "expected"), [([1, 2, 6], 3.0), ([True, False], 0.5), ([0], 0.0), ([], None)])
def test_mean(values, expected):
    assert mean(values) == expected


@pytest.mark.parametrize(("k", "expected"), [(1, 2 / 5), (2, 3 / 5), (3, 3 / 5), (4, 4 / 5), (99, 4 / 5)])
def test_top_k_counts_ranks_up_to_k_and_never_the_unranked(k, expected):
    assert top_k_accuracy(RANKS, k) == pytest.approx(expected)


@pytest.mark.parametrize(("k", "expected"), [(1, (1 / 4 + 1) / 2), (2, (2 / 4 + 1) / 2), (4, (3 / 4 + 1) / 2)])
def test_macro_accuracy_weighs_cases_and_not_steps(k, expected):
    """Case 7 has the first four steps, case 3 the last one."""
    assert macro_accuracy(RANKS, np.array([7, 7, 7, 7, 3]), k) == pytest.approx(expected)


def test_reciprocal_rank_counts_the_unranked_as_zero():
    assert reciprocal_rank(RANKS) == pytest.approx((1 + 1 / 2 + 0 + 1 / 4 + 1) / 5)


@pytest.mark.parametrize(
    ("p", "expected"), [([1.0], 0.0), ([0.5, 0.25], (1 + 2) / 2), ([0.125], 3.0), ([0.5, 0.0], math.inf)]
)
def test_log_loss_is_in_bits(p, expected):
    assert log_loss_bits(np.array(p)) == expected


@pytest.mark.parametrize(
    ("p", "target", "expected"),
    [
        ([1.0], 0, 0.0),
        ([0.5, 0.3, 0.2], 1, 0.5**2 + 0.7**2 + 0.2**2),
        ([0.5, 0.5], None, 0.5**2 + 0.5**2 + 1.0),
        ([1.0], None, 2.0),
    ],
    ids=["certain and right", "spread", "target not ranked", "certain and wrong"],
)
def test_brier_sums_over_all_classes(p, target, expected):
    shares = np.array(p)
    p_target = 0.0 if target is None else shares[target]
    assert brier_score(np.array([p_target]), np.array([(shares**2).sum()])) == pytest.approx(expected)


@pytest.mark.parametrize(
    "undefined",
    [
        top_k_accuracy(NONE, 1),
        macro_accuracy(NONE, NONE, 1),
        reciprocal_rank(NONE),
        log_loss_bits(NOTHING),
        brier_score(NOTHING, NOTHING),
        expected_calibration_error([]),
        area_under_curve(NOTHING, NONE.astype(bool)),
        area_under_curve(np.array([0.1, 0.2]), np.array([True, True])),
        area_under_curve(np.array([0.1, 0.2]), np.array([False, False])),
    ],
)
def test_what_cannot_be_computed_is_none(undefined):
    assert undefined is None


# -- calibration -----------------------------------------------------------------------------------------------


def test_bins_hold_equally_many_predictions():
    p = np.array([0.9, 0.1, 0.8, 0.2, 0.3, 0.7])
    hits = np.array([True, False, False, True, False, True])
    assert calibration_bins(p, hits, bins=3) == [
        CalibrationBin(pytest.approx(0.15), 1 / 2, 2),
        CalibrationBin(pytest.approx(0.5), 1 / 2, 2),
        CalibrationBin(pytest.approx(0.85), 1 / 2, 2),
    ]


def test_equal_probabilities_stay_in_one_bin():
    """Two bins of five: the border at 2 falls among three times 0.2, so the first bin takes all of them."""
    bins = calibration_bins(np.array([0.2, 0.9, 0.2, 0.1, 0.2]), np.array([True, True, False, False, False]), bins=2)
    assert bins == [CalibrationBin(pytest.approx(0.7 / 4), 1 / 4, 4), CalibrationBin(0.9, 1.0, 1)]


@pytest.mark.parametrize(
    ("p", "counts"),
    [([0.5] * 20, [20]), ([0.1, 0.2], [1, 1]), ([0.3], [1]), ([], []), ([0.1] * 9 + [0.9], [9, 1])],
    ids=["all equal", "fewer than bins", "one", "none", "one apart"],
)
def test_there_are_never_more_bins_than_the_values_allow(p, counts):
    bins = calibration_bins(np.array(p), np.ones(len(p), dtype=bool))
    assert [b.count for b in bins] == counts


@given(st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.5, 0.9]), st.booleans()), min_size=1, max_size=60))
def test_bins_share_out_every_prediction_once_and_no_value_twice(rows):
    p, hits = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    bins = calibration_bins(p, hits, bins=4)
    assert sum(b.count for b in bins) == len(rows)
    assert sum(b.count * b.accuracy for b in bins) == pytest.approx(hits.sum())
    assert sum(b.count * b.confidence for b in bins) == pytest.approx(p.sum())
    assert len(bins) <= min(4, len(set(p.tolist())))
    assert [b.confidence for b in bins] == sorted({b.confidence for b in bins})


def test_calibration_error_weighs_the_gaps_by_mass():
    bins = [CalibrationBin(0.2, 0.5, 3), CalibrationBin(0.9, 0.8, 1)]
    assert expected_calibration_error(bins) == pytest.approx((3 * 0.3 + 1 * 0.1) / 4)


# -- area under the curve --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "positive", "expected"),
    [
        ([0.1, 0.9], [False, True], 1.0),
        ([0.1, 0.9], [True, False], 0.0),
        ([0.4, 0.4], [True, False], 0.5),
        ([0.1, 0.4, 0.4, 0.8], [False, True, False, True], (1 + 0.5 + 1 + 1) / 4),
    ],
    ids=["right", "wrong way round", "tie", "mixed"],
)
def test_area_under_curve_by_hand(scores, positive, expected):
    assert area_under_curve(np.array(scores), np.array(positive)) == pytest.approx(expected)


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=30))
def test_area_under_curve_is_the_share_of_pairs_in_order_with_ties_half(rows):
    good = [s for s, positive in rows if positive]
    bad = [s for s, positive in rows if not positive]
    pairs = [1.0 if g > b else 0.5 if g == b else 0.0 for g in good for b in bad]
    scores = np.array([s for s, _ in rows], dtype=float)
    found = area_under_curve(scores, np.array([p for _, p in rows], dtype=bool))
    assert found == (pytest.approx(sum(pairs) / len(pairs)) if pairs else None)


# -- risks -----------------------------------------------------------------------------------------------------


def counts(*rows: tuple[int, int, str], expected: dict[tuple[int, int], str]) -> RiskCounts:
    """Rows are (case, step, warnings as letters); expectations are letters too."""
    return risk_counts([tuple(w) for _, _, w in rows], [(c, s) for c, s, _ in rows], expected)


def test_risks_are_counted_per_item_over_annotated_steps_and_alarms_over_silent_ones():
    """Annotated: (0, 1) x y, (0, 3) z, (1, 1) nothing. Not annotated: (0, 2) with two warnings, one alarm; (1, 2)."""
    found = counts(
        (0, 1, "xab"),
        (0, 2, "cd"),
        (0, 3, ""),
        (1, 1, "d"),
        (1, 2, ""),
        expected={(0, 1): "xy", (0, 3): "z", (1, 1): ""},
    )
    assert (found.annotated_steps, found.expected, found.predicted, found.true_positive) == (3, 3, 4, 1)
    assert (found.precision, found.recall) == (1 / 4, 1 / 3)
    assert found.f1 == pytest.approx(2 * (1 / 4) * (1 / 3) / (1 / 4 + 1 / 3))
    assert (found.alarm_steps, found.silent_steps) == (2, 3)
    assert found.false_alarm_rate == 2 / 3
    assert found.lead_time == 0.0


def test_a_risk_named_twice_counts_once():
    found = counts((0, 1, "xx"), expected={(0, 1): "xx"})
    assert (found.expected, found.predicted, found.true_positive) == (1, 1, 1)


@pytest.mark.parametrize(
    ("rows", "expected", "lead"),
    [
        ([(0, 1, "x"), (0, 2, ""), (0, 4, "x")], {(0, 4): "x"}, 3.0),
        ([(0, 1, ""), (0, 2, "x")], {(0, 2): "x"}, 0.0),
        ([(0, 1, "x"), (0, 3, "xy"), (0, 5, "")], {(0, 3): "x", (0, 5): "xy"}, ((3 - 1) + (5 - 3)) / 2),
        ([(0, 1, "x"), (1, 3, "")], {(1, 3): "x"}, None),
        ([(0, 2, ""), (0, 3, "x")], {(0, 2): "x"}, None),
        ([(0, 1, "x")], {}, None),
        ([(0, 2, ""), (0, 4, "x"), (0, 5, "")], {(0, 2): "x", (0, 5): "x"}, None),
    ],
    ids=[
        "early",
        "at once",
        "two risks",
        "in another case",
        "too late",
        "nothing annotated",
        "too late for the first, early for the second",
    ],
)
def test_lead_time_runs_from_the_first_warning_to_the_first_annotation(rows, expected, lead):
    assert counts(*rows, expected=expected).lead_time == lead


@pytest.mark.parametrize(
    ("rows", "expected", "precision", "recall", "f1", "rate"),
    [
        ([], {}, None, None, None, None),
        ([(0, 1, "")], {(0, 1): "x"}, None, 0.0, None, None),
        ([(0, 1, "y")], {(0, 1): ""}, 0.0, None, None, 1.0),
        ([(0, 1, "y")], {(0, 1): "x"}, 0.0, 0.0, 0.0, None),
        ([(0, 1, "x")], {(0, 1): "x"}, 1.0, 1.0, 1.0, None),
        ([(0, 1, "")], {}, None, None, None, 0.0),
    ],
    ids=["no steps", "no warning", "nothing expected", "all wrong", "all right", "silent and not annotated"],
)
def test_a_rate_without_a_denominator_is_none(rows, expected, precision, recall, f1, rate):
    found = counts(*rows, expected=expected)
    assert (found.precision, found.recall, found.f1, found.false_alarm_rate) == (precision, recall, f1, rate)


def test_distribution_is_in_order_of_the_values():
    assert list(distribution([10, 2, 2, 0]).items()) == [("0", 1), ("2", 2), ("10", 1)]
    assert distribution([]) == {}
