"""Rounding of the exact binary value, ties away from zero."""

from __future__ import annotations

import json
import sys
from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sherpa.rounding import as_json_number, round_half_up


@pytest.mark.parametrize(
    ("x", "digits", "expected"),
    [
        (0.125, 2, 0.13),
        (2.5, 0, 3.0),
        (0.5, 0, 1.0),
        (1.5, 0, 2.0),
        (0.25, 1, 0.3),
        (0.375, 2, 0.38),
        (0.0625, 3, 0.063),
        (0.03125, 4, 0.0313),
        (2.0**51 + 0.5, 0, 2.0**51 + 1),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_exact_ties_go_away_from_zero(x: float, digits: int, expected: float, sign: int) -> None:
    assert round_half_up(sign * x, digits) == sign * expected


@pytest.mark.parametrize(
    ("x", "digits", "expected"),
    [
        (1.005, 2, 1.0),  # the double is 1.00499999999999989…
        (1.45, 1, 1.4),  # 1.4499999999999999…
        (0.35, 1, 0.3),  # 0.3499999999999999…
        (8.345, 2, 8.35),  # 8.3450000000000006…
        (0.12499999999999999, 2, 0.12),
        (0.12500000000000003, 2, 0.13),
        (7.0, 3, 7.0),
        (0.0004, 3, 0.0),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_what_only_looks_like_a_tie_goes_to_the_nearer_side(x: float, digits: int, expected: float, sign: int) -> None:
    assert round_half_up(sign * x, digits) == sign * expected


@pytest.mark.parametrize("digits", range(5))
@pytest.mark.parametrize("x", [2.0**53, 1e21, -1e300])
def test_a_value_too_large_for_decimals_stays_as_it_is(x: float, digits: int) -> None:
    assert round_half_up(x, digits) == x


def test_the_largest_double_stays_as_it_is() -> None:
    largest = sys.float_info.max
    assert [round_half_up(largest, digits) for digits in range(5)] == [largest] * 5
    assert round_half_up(-largest, 4) == -largest


@st.composite
def near_ties(draw: st.DrawFn) -> tuple[float, int]:
    """An exact tie at some number of digits, or a multiple of its unit that is none."""
    digits = draw(st.integers(0, 4))
    return draw(st.integers(-(2**45), 2**45)) / 2 ** (digits + 1), digits


@given(st.one_of(near_ties(), st.tuples(st.floats(-1e15, 1e15), st.integers(0, 4))))
def test_it_is_the_decimal_rounding_of_the_exact_double(case: tuple[float, int]) -> None:
    x, digits = case
    exact = Decimal(x).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP)
    assert round_half_up(x, digits) == float(exact)


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (1.0, "1"),
        (-3.0, "-3"),
        (0.0, "0"),
        (-0.0, "0"),
        (0.25, "0.25"),
        (7, "7"),
        (1e15, "1000000000000000"),
        (2.0**53, "9007199254740992"),
    ],
)
def test_an_integral_number_prints_without_a_decimal_point(x: float, text: str) -> None:
    assert json.dumps(as_json_number(x)) == text
