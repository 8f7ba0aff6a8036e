"""Splits, fold by fold."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.splits import SPLITS, Split, k_fold, leave_one_case_out, make_split, temporal
from sherpa.errors import SplitError
from sherpa.eventlog import EventLog
from sherpa.instants import NO_INSTANT, format_instant

HOUR = 3_600 * 10**9
BASE = 1_767_225_600 * 10**9  # 2026-01-01T00:00Z


def log_of(*ids: str) -> EventLog:
    """A log of cases with these ids and two events each."""
    return EventLog.from_codes([0, 1] * len(ids), 2 * np.arange(len(ids) + 1), ("a", "b"), case_ids=ids)


def timed(*spans: tuple[int, int]) -> EventLog:
    """A log of cases a → b that begin and end at these hours."""
    hours = np.array(spans, dtype=np.int64).ravel()
    ids = [f"c{i}" for i in range(len(spans))]
    offsets = 2 * np.arange(len(spans) + 1)
    return EventLog.from_codes([0, 1] * len(spans), offsets, ("a", "b"), case_ids=ids, instants=BASE + HOUR * hours)


def folds(split: Split, cases: int) -> list[tuple[str, list[int], list[int]]]:
    """(name, train, test) of each fold."""
    return [(f.name, split.train_of(f, cases).tolist(), f.test.tolist()) for f in split]


def refusal(kind: str, log: EventLog, **options) -> SplitError:
    with pytest.raises(SplitError) as caught:
        make_split(kind, log, file="data.json", **options)
    assert caught.value.file == "data.json"
    return caught.value


# -- leave-one-case-out ----------------------------------------------------------------------------------------


def test_leave_one_case_out_tests_each_case_once():
    split = make_split("leave-one-case-out", log_of("x", "y", "z"))
    assert folds(split, 3) == [("x", [1, 2], [0]), ("y", [0, 2], [1]), ("z", [0, 1], [2])]
    assert (split.name, split.dropped) == ("leave-one-case-out", 0)


def test_cases_that_share_an_id_are_held_out_together():
    split = leave_one_case_out(log_of("x", "y", "x"))
    assert folds(split, 3) == [("x", [1], [0, 2]), ("y", [0, 2], [1])]


@pytest.mark.parametrize("ids", [(), ("x",), ("x", "x")])
def test_leave_one_case_out_needs_two_cases(ids):
    assert "at least two cases" in refusal("leave-one-case-out", log_of(*ids)).problem


# -- k-fold ----------------------------------------------------------------------------------------------------


def test_k_fold_tests_every_case_once_in_parts_of_equal_size():
    split = make_split("k-fold", log_of(*"abcdefg"), folds=3, rng=np.random.default_rng(1))
    assert [f.name for f in split] == ["fold-1", "fold-2", "fold-3"]
    assert Counter(len(f.test) for f in split) == {3: 1, 2: 2}
    assert sorted(i for f in split for i in f.test.tolist()) == list(range(7))
    assert split.detail == {"folds": 3}
    for _, train, test in folds(split, 7):
        assert sorted(train + test) == list(range(7))


def test_k_fold_is_the_same_for_the_same_seed_only():
    log = log_of(*map(str, range(40)))

    def parts(seed: int) -> list[list[int]]:
        return [f.test.tolist() for f in k_fold(log, 4, np.random.default_rng(seed))]

    assert parts(5) == parts(5)
    assert parts(5) != parts(6)


def test_k_fold_keeps_cases_of_one_id_in_one_fold():
    ids = [f"id-{i % 6}" for i in range(30)]
    split = k_fold(log_of(*ids), 3, np.random.default_rng(2))
    homes = [{ids[i] for i in f.test.tolist()} for f in split]
    assert [len(home) for home in homes] == [2, 2, 2]
    assert sum(len(f.test) for f in split) == 30


@pytest.mark.parametrize("wanted", [0, 1, 4])
def test_k_fold_needs_at_least_two_folds_and_a_case_for_each(wanted):
    error = refusal("k-fold", log_of("x", "y", "z", "z"), folds=wanted)
    assert error.field == "--folds"


# -- temporal --------------------------------------------------------------------------------------------------


def test_temporal_learns_from_what_ended_before_the_cut_and_tests_what_starts_from_it_on():
    """Five cases start at 0, 1, 2, 6 and 8 h. With 0.4 the cut is the start of the fourth: floor(5 · 0.6) = 3, 6 h.

    Ended before 6 h: c0 (3 h) and c1 (5 h). c2 runs from 2 to 7 h, across the cut. c3 and c4 are tested.
    """
    split = make_split("temporal", timed((0, 3), (1, 5), (2, 7), (6, 9), (8, 9)), test_fraction=0.4)
    assert folds(split, 5) == [("temporal", [0, 1], [3, 4])]
    assert split.dropped == 1
    assert split.detail == {"cut": format_instant(BASE + 6 * HOUR), "testFraction": 0.4}


def test_temporal_goes_by_time_and_not_by_place():
    split = temporal(timed((8, 9), (0, 1), (4, 5), (2, 3)), 0.25)
    assert folds(split, 4) == [("temporal", [1, 2, 3], [0])]
    assert split.dropped == 0


def test_a_case_that_ends_at_the_cut_is_not_learned():
    """The cut is 4 h: c1 ends at that moment, so it is under way."""
    split = temporal(timed((0, 1), (2, 4), (4, 5)), 1 / 3)
    assert folds(split, 3) == [("temporal", [0], [2])]
    assert split.dropped == 1


def test_the_cut_moves_on_until_some_case_has_ended():
    """Half of four cases: the cut would be at 2 h, where none has ended; the next start after an end is 5 h."""
    split = temporal(timed((0, 4), (1, 9), (2, 9), (5, 6)), 0.5)
    assert folds(split, 4) == [("temporal", [0], [3])]
    assert split.dropped == 2


def test_where_all_cases_overlap_there_is_no_fold():
    split = temporal(timed((0, 9), (1, 8), (2, 7)), 0.3)
    assert (list(split), split.dropped) == ([], 3)
    assert split.detail["cut"] is None
    assert "under way" in split.detail["reason"]


@pytest.mark.parametrize(("fraction", "tested"), [(0.1, 1), (0.3, 3), (0.5, 5), (0.7, 7), (0.8, 8), (0.9, 9)])
def test_the_share_of_cases_after_the_cut_is_what_was_asked(fraction, tested):
    """Ten cases one after the other, so that nothing is dropped: 10 · fraction of them are tested."""
    split = temporal(timed(*((2 * i, 2 * i + 1) for i in range(10))), fraction)
    assert [len(f.test) for f in split] == [tested]
    assert split.dropped == 0


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.2, 1.5])
def test_temporal_needs_a_share_between_0_and_1(fraction):
    assert refusal("temporal", timed((0, 1), (2, 3)), test_fraction=fraction).field == "--test-fraction"


def test_temporal_needs_every_time():
    times = [BASE, BASE + HOUR, NO_INSTANT, BASE + 2 * HOUR]
    log = EventLog.from_codes([0, 0, 0, 0], [0, 2, 4], ("a",), case_ids=("x", "y"), instants=times)
    error = refusal("temporal", log)
    assert (error.case, error.field) == ("y", "timestamp")


def test_temporal_needs_events():
    assert "cases with events" in refusal("temporal", EventLog.from_codes([], [0], ())).problem


# -- holdout and groups ----------------------------------------------------------------------------------------


def test_holdout_tests_the_named_cases():
    split = make_split("holdout", log_of(*"wxyz"), test=[3, 1, 3])
    assert folds(split, 4) == [("holdout", [0, 2], [1, 3])]


@pytest.mark.parametrize("test", [None, [], [0, 1]])
def test_holdout_needs_cases_on_both_sides(test):
    assert "--train" in refusal("holdout", log_of("x", "y"), test=test).problem


def test_leave_one_group_out_tests_each_group_and_always_learns_from_the_rest():
    split = make_split("leave-one-group-out", log_of(*"vwxyz"), groups=["red", "blue", None, "red", "blue"])
    assert folds(split, 5) == [("blue", [0, 2, 3], [1, 4]), ("red", [1, 2, 4], [0, 3])]
    assert split.detail == {"groups": 2}


@pytest.mark.parametrize("groups", [None, ["red", None, "red"], [None, None, None]])
def test_leave_one_group_out_needs_two_groups(groups):
    assert "at least two groups" in refusal("leave-one-group-out", log_of("x", "y", "z"), groups=groups).problem


# -- all of them -----------------------------------------------------------------------------------------------


def test_an_unknown_split_is_refused_with_those_that_exist():
    error = refusal("bootstrap", log_of("x", "y"))
    assert error.field == "--split"
    assert all(name in error.problem for name in SPLITS)


@given(
    spans=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 6)), min_size=4, max_size=12),
    kind=st.sampled_from(SPLITS),
    seed=st.integers(0, 99),
)
def test_no_tested_case_is_learned_from(spans, kind, seed):
    log = timed(*((a, a + b) for a, b in spans))
    groups = [("red", "blue")[i % 2] for i in range(len(log))]
    options = {"folds": 3, "groups": groups, "test": [0, 2], "rng": np.random.default_rng(seed)}
    split = make_split(kind, log, **options)
    used: set[int] = set()
    for _, train, test in folds(split, len(log)):
        assert not set(train) & set(test)
        assert train
        assert test
        used |= {*train, *test}
    assert split.dropped == len(log) - len(used)


@given(
    spans=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8)), min_size=2, max_size=15),
    fraction=st.floats(0.05, 0.95),
)
def test_nothing_is_learned_that_ends_after_a_tested_case_starts(spans, fraction):
    log = timed(*((a, a + b) for a, b in spans))
    for _, train, test in folds(temporal(log, fraction), len(log)):
        assert max(sum(spans[i]) for i in train) < min(spans[i][0] for i in test)


@given(
    ids=st.lists(st.sampled_from("uvwxyz"), min_size=4, max_size=16).filter(lambda ids: len(set(ids)) >= 3),
    kind=st.sampled_from(["leave-one-case-out", "k-fold"]),
    seed=st.integers(0, 99),
)
def test_no_id_is_on_both_sides_and_every_case_is_tested_once(ids, kind, seed):
    split = make_split(kind, log_of(*ids), folds=3, rng=np.random.default_rng(seed))
    made = folds(split, len(ids))
    for _, train, test in made:
        assert not {ids[i] for i in train} & {ids[i] for i in test}
    assert sorted(i for _, _, test in made for i in test) == list(range(len(ids)))
