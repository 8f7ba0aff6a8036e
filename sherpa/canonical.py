"""Many times at once: texts as this package writes them, read without a loop over events."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sherpa.eventlog import Int64
from sherpa.instants import NANOS_PER_MS, day_number

_CANONICAL = len("2026-01-02T03:04:05.678Z")
_MARKS = np.array([4, 7, 10, 13, 16, 19, 23])
_MARK_CODES = np.frombuffer(b"--T::.Z", np.uint8)
_DIGITS = np.array([at for at in range(_CANONICAL) if at not in _MARKS])
_FIRST_DAY, _LAST_DAY = -106_750, 106_750
"""Days that lie wholly inside the years of an instant."""


def parse_canonical(texts: Sequence[str]) -> Int64 | None:
    """Instants of texts that are all as `format_instant` writes whole milliseconds; None if one is not.

    >>> parse_canonical(["1970-01-01T00:00:01.500Z"]).tolist()
    [1500000000]
    """
    joined = "".join(texts).encode("utf-8")
    if len(joined) != _CANONICAL * len(texts):
        return None
    digits = np.frombuffer(joined, np.uint8).reshape(-1, _CANONICAL)
    if not (digits[:, _MARKS] == _MARK_CODES).all():
        return None
    digits = digits[:, _DIGITS] - np.uint8(ord("0"))
    if (digits > 9).any():
        return None
    value = [digits[:, at].astype(np.int64) for at in range(len(_DIGITS))]

    def number(start: int, stop: int) -> Int64:
        total = value[start]
        for at in range(start + 1, stop):
            total = total * 10 + value[at]
        return total

    dates, of_date = np.unique(number(0, 8), return_inverse=True)
    hour, minute, second = number(8, 10), number(10, 12), number(12, 14)
    if (hour > 23).any() or (minute > 59).any() or (second > 59).any():
        return None
    try:
        days = [day_number(d // 10_000, d // 100 % 100, d % 100) for d in dates.tolist()]
    except ValueError:
        return None
    if any(not _FIRST_DAY <= day <= _LAST_DAY for day in days):
        return None
    seconds = np.array(days, np.int64)[of_date] * 86_400 + hour * 3_600 + minute * 60 + second
    return (seconds * 1_000 + number(14, 17)) * NANOS_PER_MS
