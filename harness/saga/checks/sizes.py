"""file-exists and file-size-gt. Sizes are bytes; models write a little less than asked, so three quarters do."""

from __future__ import annotations

import math
from typing import Any

from harness.saga.checks.base import CheckContext, Unreadable, Verdict, errored, failed, located, passed
from harness.saga.confine import size_of
from harness.saga.errors import PathError
from harness.saga.model import Criterion
from harness.saga.values import as_flag, as_number

TOLERANCE = 0.75


def check_exists(criterion: Criterion, context: CheckContext) -> Verdict:
    """The file is there, is not empty, and has the size if one is named."""
    try:
        name, size = _sized(criterion, context)
    except Unreadable as error:
        return failed(str(error))
    if size == 0:
        return failed(f"{name} is empty", bytes=0)
    if criterion.get("minBytes") is None:
        return passed(f"{name} is there, {size} bytes", bytes=size)
    return _compared(name, size, criterion)


def check_size(criterion: Criterion, context: CheckContext) -> Verdict:
    """The file is there and has the size; without a positive size nothing passes."""
    try:
        name, size = _sized(criterion, context)
    except Unreadable as error:
        return failed(str(error))
    return _compared(name, size, criterion)


def _sized(criterion: Criterion, context: CheckContext) -> tuple[str, int]:
    name = located(criterion.get("path"))
    try:
        return name, size_of(context.artifacts, name)
    except FileNotFoundError:
        raise Unreadable(f"file not found: {name}") from None
    except (PathError, OSError) as error:
        raise Unreadable(f"{name} is no file: {error}") from None


def _compared(name: str, size: int, criterion: Criterion) -> Verdict:
    target = as_number(criterion.get("minBytes"))
    if target is None or target <= 0:
        return errored(f"{name}: minBytes must be a positive number, not {criterion.get('minBytes')!r}")
    share = 1.0 if as_flag(criterion.get("strict")) else _tolerance(criterion.get("minBytesTolerance"))
    threshold = max(1, math.floor(share * target))
    facts = f"{name}: {size} bytes; expected {target} bytes, threshold {threshold}"
    evidence = {"bytes": size, "target": target, "threshold": threshold}
    return passed(facts, **evidence) if size >= threshold else failed(f"{facts}: too short", **evidence)


def _tolerance(value: Any) -> float:
    number = as_number(value)
    return TOLERANCE if number is None or not 0 < number <= 1 else float(number)
