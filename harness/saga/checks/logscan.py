"""log-scan: how many lines of a file match a pattern."""

from __future__ import annotations

from typing import Any

from harness.saga.checks.base import CheckContext, Unreadable, Verdict, compiled, errored, failed, passed, read_text
from harness.saga.model import Criterion
from harness.saga.values import as_number

_SHOWN = 200


def check_log(criterion: Criterion, context: CheckContext) -> Verdict:
    """The number of matching lines is within the bounds; without a pattern the file must not be empty."""
    mode = criterion.get("mode") or "present"
    if mode not in ("present", "absent"):
        return errored(f"mode is 'present' or 'absent', not {mode!r}")
    pattern = criterion.get("pattern")
    low, high = _bounds(criterion, mode)
    if low is None or (high is not None and high < 0):
        return errored("minCount and maxCount must be numbers that are not negative")
    try:
        lines = read_text(context, criterion.get("path")).splitlines()
        found = compiled(str(pattern)) if pattern is not None else None
    except Unreadable as error:
        return failed(str(error))
    name = criterion.get("path")
    if found is None:
        return passed(f"{name} is not empty", lines=len(lines)) if any(lines) else failed(f"{name} is empty")
    matching = [at for at, line in enumerate(lines, start=1) if found.search(line)]
    bounds = f"at least {low}" if high is None else f"between {low} and {high}"
    facts = f"{name}: {len(matching)} lines match {pattern!r}, expected {bounds}"
    shown = [lines[at - 1][:_SHOWN] for at in matching[:5]]
    evidence = {"count": len(matching), "lines": matching[:5], "output": "\n".join(shown)}
    within = len(matching) >= low and (high is None or len(matching) <= high)
    return passed(facts, **evidence) if within else failed(facts, **evidence)


def _bounds(criterion: Criterion, mode: Any) -> tuple[float | None, float | None]:
    least, most = criterion.get("minCount"), criterion.get("maxCount")
    low = 0 if mode == "absent" else 1
    given_low = low if least is None or mode == "absent" else as_number(least)
    if given_low is not None and given_low < 0:
        given_low = None
    if mode == "absent":
        return given_low, 0 if most is None else as_number(most)
    if most is None:
        return given_low, None
    high = as_number(most)
    return given_low, -1 if high is None else high
