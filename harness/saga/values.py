"""What a model writes where a number, a text or a flag belongs."""

from __future__ import annotations

import math
import re
from typing import Any

_NUMBER = re.compile(r"([+-]?\d[\d_,]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*([A-Za-z%]*)")
_UNITS = {
    "": 1,
    "b": 1,
    "byte": 1,
    "bytes": 1,
    "k": 1000,
    "kb": 1000,
    "kib": 1024,
    "m": 10**6,
    "mb": 10**6,
    "mib": 2**20,
}
_FALSE = ("false", "no", "off", "0")
_LARGEST = 2**53


def as_text(value: Any) -> str | None:
    """A scalar as the text it was written as; None if there is none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, int | float):
        return str(value)
    return None


def as_number(value: Any) -> float | int | None:
    """A finite number; None if the value is none.

    >>> as_number("0.9"), as_number("2_000"), as_number("about 5")
    (0.9, 2000, None)
    """
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        found = _NUMBER.fullmatch(value.strip())
        if found is None or found.group(2):
            return None
        text = found.group(1).replace("_", "").replace(",", "")
        value = float(text) if re.search(r"[.eE]", text) else int(text[:400])
    if not isinstance(value, int | float) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if abs(value) > _LARGEST:
        return None
    return value


def as_bytes(value: Any) -> int | None:
    """A number of bytes, perhaps with a unit; None if the value is none.

    >>> [as_bytes(given) for given in (2000, "2_000", "2k", "2 KB", "2000 bytes", "lots", float("nan"))]
    [2000, 2000, 2000, 2000, 2000, None, None]
    """
    if isinstance(value, str):
        found = _NUMBER.fullmatch(value.strip())
        if found is None or found.group(2).lower() not in _UNITS:
            return None
        number = as_number(found.group(1))
        unit = _UNITS[found.group(2).lower()]
    else:
        number, unit = as_number(value), 1
    if number is None or number < 0 or number * unit > _LARGEST:
        return None
    return int(number * unit)


def as_flag(value: Any) -> bool | None:
    """True or false; None if the value is neither."""
    if isinstance(value, bool):
        return value
    text = as_text(value)
    if text is None:
        return None
    return True if text.lower() in ("true", "yes", "on", "1") else False if text.lower() in _FALSE else None
