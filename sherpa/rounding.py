"""Decimal rounding as the published figures use it: exact binary value, ties away from zero."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal

_ALL_INTEGERS = 2.0**53  # from here on every double is integral
_HALVES = [2.0 ** (k + 1) for k in range(16)]
_QUANTUM = [Decimal(1).scaleb(-k) for k in range(16)]


def round_half_up(x: float, digits: int) -> float:
    """Round the exact double `x` to `digits` decimals, ties away from zero.

    Python's `round` treats exact ties to even (0.125 → 0.12); the published values come from a rule that takes them
    away from zero (0.13). Both look at the exact binary value, so they differ on exact ties only, and a double is
    an exact tie only if it is an odd multiple of 2**-(digits + 1).

    >>> round_half_up(0.125, 2), round_half_up(1.005, 2), round_half_up(2.5, 0), round_half_up(-0.5, 0)
    (0.13, 1.0, 3.0, -1.0)
    """
    scaled = x * _HALVES[digits]
    if scaled % 1.0 or scaled % 2.0 == 0.0:  # no multiple of the half, or an even one: no tie
        return x if abs(x) >= _ALL_INTEGERS else round(x, digits)
    if abs(x) >= _ALL_INTEGERS:
        return x
    return float(Decimal(x).quantize(_QUANTUM[digits], rounding=ROUND_HALF_UP))


def as_json_number(x: float) -> float | int:
    """An integral float as int, so that JSON prints 1 and not 1.0; below 1e21, where exponents begin."""
    return int(Decimal(repr(x))) if abs(x) < 1e21 and x == math.floor(x) else x


def rounded_share(part: int, whole: int, digits: int = 3) -> float | int | None:
    """`part` of `whole` as reports print it; None of nothing.

    >>> rounded_share(1, 3), rounded_share(2, 2), rounded_share(0, 0)
    (0.333, 1, None)
    """
    return as_json_number(round_half_up(part / whole, digits)) if whole else None
