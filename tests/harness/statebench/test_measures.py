"""Measures of an answer, against values worked out by hand."""

from __future__ import annotations

import math

import pytest

from harness.statebench.measures import Answer, measure
from harness.statebench.retrieval import overlap
from tests.harness.statebench.made import call, runs

RUNS = runs(
    ("a", call("get"), call("process_return", reason="late")),
    ("b", call("get"), call("search"), call("process_return", reason="late")),
    ("c", call("search")),
    ("d", call("get_policies", topic="fees"), call("get_policies", topic="gifts")),
    ("e", call("get_policies", topic="fees"), call("process_return", reason="late")),
)
TYPES = ["return", "return", "browse", "ask", "return"]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("abc", "abc", 1.0),
        ("abc", "", 0.0),
        ("", "", 1.0),
        ("abcd", "acbd", 2 * 3 / 8),  # acd
        ("ab", "ba", 2 * 1 / 4),
        ("abcbdab", "bdcaba", 2 * 4 / 13),  # the textbook example: bcba
    ],
)
def test_overlap_is_dice_over_the_longest_common_subsequence(one: str, other: str, expected: float) -> None:
    assert overlap(tuple(one), tuple(other)) == pytest.approx(expected)
    assert overlap(tuple(other), tuple(one)) == pytest.approx(expected)


def test_every_measure_of_a_small_case() -> None:
    # Held out: the first run. Its type is that of 1 and 4, its writes too; shown are 2, 1, 3.
    found = measure(Answer((2, 1, 3, 4)), RUNS[0], RUNS, TYPES)
    ideal = 1 + 1 / math.log2(3)
    assert found == pytest.approx(
        {
            "taskHit3": 1.0,
            "taskPrecision3": 1 / 3,
            "taskMrr": 1 / 2,
            "taskNdcg3": (1 / math.log2(3)) / ideal,
            "writeHit3": 1.0,
            "bestSequence3": 2 * 2 / 5,  # get, process_return in get, search, process_return
            "toolRecall3": 1.0,
            "toolPrecision3": 2 / 4,  # get, process_return of get, search, process_return, get_policies
        }
    )


def test_a_run_with_no_other_of_its_kind_is_not_measured_by_kind() -> None:
    found = measure(Answer((0, 1, 2)), RUNS[3], RUNS, TYPES)
    assert "taskHit3" not in found
    assert "writeHit3" in found  # the third run changed nothing either
    assert found["topicRecall3"] == 0.0


def test_what_a_card_without_a_run_shows_counts_for_topics_alone() -> None:
    found = measure(Answer((None, 2, 4), frozenset({"gifts"})), RUNS[3], RUNS, TYPES)
    assert found["topicRecall3"] == 1.0  # gifts from the card, fees from run 4
    found = measure(Answer((None, 2, 1)), RUNS[0], RUNS, TYPES)
    assert found["taskPrecision3"] == pytest.approx(1 / 3)
    assert found["taskMrr"] == pytest.approx(1 / 3)


def test_nothing_shown_is_nothing_right() -> None:
    found = measure(Answer((None, None, None)), RUNS[0], RUNS, TYPES)
    assert found["taskHit3"] == found["writeHit3"] == found["bestSequence3"] == found["taskMrr"] == 0.0


def test_without_labels_their_measures_are_left_out() -> None:
    assert not {"taskHit3", "taskMrr"} & set(measure(Answer((1, 2, 3)), RUNS[0], RUNS, None))
