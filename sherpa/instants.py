"""Points in time: text with any offset and any precision ↔ nanoseconds since 1970-01-01T00:00Z.

An instant is a signed 64-bit integer, so it covers the years 1678 to 2261. Digits finer than a nanosecond are cut.
"""

from __future__ import annotations

import re
from datetime import date, timedelta
from functools import lru_cache

NO_INSTANT = -(2**63)
"""The value of an unknown time in an integer column (the same bits as NumPy's NaT)."""

NANOS_PER_MS = 1_000_000
_NANOS_PER_SECOND = 1_000_000_000
_EPOCH = date(1970, 1, 1).toordinal()
_LIMIT = 2**63 - 1
_FORM = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})"
    r"(?:[Tt ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d+))?)?\s?([Zz]|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?)?)?",
    re.ASCII,
)


@lru_cache(maxsize=4096)
def day_number(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01; ValueError if there is no such day."""
    return date(year, month, day).toordinal() - _EPOCH


@lru_cache(maxsize=1 << 16)
def parse_instant(text: str, *, assume_utc: bool = False) -> int:
    """Nanoseconds since the epoch of an ISO 8601 date-time.

    Parameters
    ----------
    text : str
        For example ``2026-01-02T03:04:05.678+02:00``. ``24:00`` and leap seconds roll over to the next second.
    assume_utc : bool
        Take a time without an offset (and a bare date) as UTC; otherwise it is an error.

    Raises
    ------
    ValueError
        If the text is not a date-time, has no offset, or lies outside the years 1678 to 2261.
    """
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not an ISO 8601 date-time such as 2026-01-02T03:04:05Z")
    year, month, day, hour, minute, second, fraction, offset = found.groups()
    if offset is None and not assume_utc:
        raise ValueError(f"{text!r} has no offset; end it with Z or with an offset such as +02:00")
    try:
        days = day_number(int(year), int(month), int(day))
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None
    h, m, s = int(hour or 0), int(minute or 0), int(second or 0)
    if h > 24 or m > 59 or s > 60 or (h == 24 and (m or s or int(fraction or 0))):
        raise ValueError(f"{text!r} has a time of day that does not exist")
    seconds = days * 86_400 + h * 3_600 + m * 60 + s - _offset_seconds(offset)
    nanos = seconds * _NANOS_PER_SECOND + int((fraction or "0")[:9].ljust(9, "0"))
    if not -_LIMIT <= nanos <= _LIMIT:
        raise ValueError(f"{text!r} lies outside the years 1678 to 2261")
    return nanos


def _offset_seconds(offset: str | None) -> int:
    if offset is None or offset in "Zz":
        return 0
    minutes = int(offset[1:3]) * 60 + int(offset[3:].lstrip(":") or 0)
    return 60 * (minutes if offset[0] == "+" else -minutes)


def format_instant(nanos: int) -> str:
    """ISO 8601 text in UTC with 3, 6 or 9 fractional digits, whichever loses nothing.

    >>> format_instant(parse_instant("2026-01-02T03:04:05+02:00"))
    '2026-01-02T01:04:05.000Z'
    """
    seconds, rest = divmod(nanos, _NANOS_PER_SECOND)
    days, second = divmod(seconds, 86_400)
    day = date(1970, 1, 1) + timedelta(days=days)
    fraction = f"{rest:09d}"
    while len(fraction) > 3 and fraction.endswith("000"):
        fraction = fraction[:-3]
    clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    return f"{day.isoformat()}T{clock}.{fraction}Z"


def format_milliseconds(nanos: int) -> str:
    """`format_instant` of an instant cut to whole milliseconds, as clocks are written down."""
    return format_instant(nanos // NANOS_PER_MS * NANOS_PER_MS)


def day_of(nanos: int) -> str:
    """The UTC day ``YYYY-MM-DD`` of an instant."""
    return (date(1970, 1, 1) + timedelta(days=nanos // (86_400 * _NANOS_PER_SECOND))).isoformat()
