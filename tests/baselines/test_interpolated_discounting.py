"""The blended rival, by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given

from baselines.interpolated_discounting import BEGIN, END, InterpolatedDiscounting, framed
from sherpa.eventlog import EventLog
from sherpa.model import VariableOrderMarkovModel
from tests.property.strategies import logs


def log(*cases: str) -> EventLog:
    names = sorted(set("".join(cases)))
    codes = [names.index(c) for case in cases for c in case]
    offsets = [0]
    for case in cases:
        offsets.append(offsets[-1] + len(case))
    return EventLog.from_codes(codes, offsets, names)


def test_cases_are_framed() -> None:
    assert [case.types for case in framed(log("ab", "", "c"))] == [
        (BEGIN, "a", "b", END),
        (BEGIN, END),
        (BEGIN, "c", END),
    ]


def test_probabilities_by_hand() -> None:
    """One case "aa": transitions begin→a, a→a, a→end; each context of orders 1 and 2 was seen as often as it ends."""
    model = InterpolatedDiscounting(order=1)
    model.learn(log("aa"))
    prefix = log("aab")[0].prefix(1)
    found = model.rank(prefix)
    # Order 0: a twice, end once, so n1 = 1, n2 = 1 and D = 1/3; uniform share 1/3 over a, end, unseen.
    a0 = (2 - 1 / 3) / 3 + (1 / 3) * 2 / 3 * (1 / 3)
    unseen0 = (1 / 3) * 2 / 3 * (1 / 3)
    # Order 1: three edges seen once, none twice: D = 1, cut to 0.95. After a: a once, end once.
    a1 = (1 - 0.95) / 2 + 0.95 * 2 / 2 * a0
    assert found.events == ("a",)
    assert found.probabilities == pytest.approx((a1,))
    assert found.unseen == pytest.approx(0.95 * unseen0)
    assert (found.matched_order, found.support, found.supports) == (1, 2, (1,))


@given(logs(min_cases=1))
def test_what_is_ranked_the_end_and_the_unseen_sum_to_one(given_log: EventLog) -> None:
    model = InterpolatedDiscounting(order=3)
    model.learn(given_log)
    for case in given_log:
        for length in range(len(case) + 1):
            found = model.rank(case.prefix(length))
            if not found.events and found.unseen == 0:
                continue
            total = math.fsum(found.probabilities) + found.unseen
            # The rest is the probability of the end of the case.
            assert 0 < total < 1 + 1e-12


def test_the_begin_of_a_case_is_known() -> None:
    model = InterpolatedDiscounting(order=2)
    model.learn(log("ab", "ab", "ab", "cac", "cac", "cac"))
    # After "a" alone at the start b follows; after "c a" it is c.
    assert model.rank(log("ab")[0].prefix(1)).events[0] == "b"
    assert model.rank(log("ca")[0].prefix(2)).events[0] == "c"


@given(kept=logs(min_cases=1), gone=logs())
def test_counts_of_counts_are_exact_after_forgetting(kept: EventLog, gone: EventLog) -> None:
    model = VariableOrderMarkovModel(3).learn(kept).learn(gone).forget(gone)
    fresh = VariableOrderMarkovModel(3).learn(kept)
    fresh._set_base(fresh.table())
    assert [model.seen_once_and_twice(k) for k in range(4)] == [fresh.seen_once_and_twice(k) for k in range(4)]
    table = fresh.table()
    for order in range(4):
        support = table.support[table.order == order].tolist()
        assert fresh.seen_once_and_twice(order) == (support.count(1), support.count(2))
