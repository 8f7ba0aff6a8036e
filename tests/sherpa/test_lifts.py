"""Lifts of branches per case, with their intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sherpa.branches import PastCase, scan_tally
from sherpa.lifts import branch_lifts, lift


def test_the_value_of_a_lift() -> None:
    """8 of 10 inside, 12 of 40 in all; with a half added to each of 8, 2, 4, 26: (8.5/11)/(13/42)."""
    found = lift(8, 10, 12, 40)
    assert found.value == pytest.approx((8.5 / 11) / (13 / 42))
    assert found.low < found.value < found.high
    # The interval is symmetric on the logarithm.
    assert math.log(found.value) - math.log(found.low) == pytest.approx(math.log(found.high) - math.log(found.value))


@pytest.mark.parametrize("numbers", [(30, 60, 80, 400), (8, 40, 60, 300), (20, 100, 150, 900)])
def test_the_interval_is_that_of_resampled_cases(numbers: tuple[int, int, int, int]) -> None:
    """Cases of four kinds drawn again with replacement: the delta method gives nearly the same spread."""
    inside, size, affected, total = numbers
    cells = np.array([inside, size - inside, affected - inside, total - size - affected + inside])
    drawn = np.random.default_rng(1).multinomial(total, cells / total, 20_000) + 0.5
    a, b, c, d = drawn.T
    logs = np.log(a / (a + b)) - np.log((a + c) / (a + b + c + d))
    found = lift(*numbers)
    assert math.log(found.high / found.low) / (2 * 1.96) == pytest.approx(logs.std(), rel=0.08)


def test_the_interval_covers() -> None:
    rng = np.random.default_rng(2)
    cells = np.array([0.1, 0.2, 0.15, 0.55])
    truth = (0.1 / 0.3) / 0.25
    hits = 0
    for _ in range(1000):
        a, b, c, _ = rng.multinomial(300, cells).tolist()
        found = lift(a, a + b, a + c, 300)
        hits += found.low <= truth <= found.high
    assert 0.93 < hits / 1000 < 0.97


def past(name: str, types: str, outcome: str) -> PastCase:
    return PastCase(name, outcome, tuple(types))


def test_cases_count_once() -> None:
    cases = [past(f"good-{n}", "abz", "success") for n in range(20)]
    cases += [past(f"bad-{n}", "acacac", "failure") for n in range(10)]
    cases += [past("elsewhere", "zz", "failure")]
    found = {(b.branch, b.kind): b for b in branch_lifts(scan_tally(cases, ("a",)))}
    assert found["c", "failure"].cases == found["c", "failure"].affected == 10
    assert found["b", "failure"].affected == 0
    assert found["c", "failure"].baseline_rate == pytest.approx(10 / 30)
    assert found["c", "failure"].raised
    assert not found["b", "failure"].raised
    assert not found["c", "stall"].raised
    assert next(iter(branch_lifts(scan_tally(cases, ("a",))))).branch == "c"


def test_a_branch_needs_enough_cases() -> None:
    cases = [past(f"g{n}", "ab", "success") for n in range(20)] + [past(f"f{n}", "ac", "failure") for n in range(4)]
    assert {b.branch for b in branch_lifts(scan_tally(cases, ("a",)))} == {"b"}
    assert {b.branch for b in branch_lifts(scan_tally(cases, ("a",)), min_cases=4)} == {"b", "c"}


def test_a_state_is_matched_whole() -> None:
    cases = [past(f"x{n}", "pab", "failure") for n in range(9)] + [past(f"y{n}", "qac", "success") for n in range(9)]
    assert {b.branch for b in branch_lifts(scan_tally(cases, ("p", "a")))} == {"b"}
    assert branch_lifts(scan_tally(cases, ("p", "q"))) == []
