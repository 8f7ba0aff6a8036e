"""metrics: a number in a file compares with another one."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from harness.saga.checks.base import CheckContext, Unreadable, Verdict, errored, failed, located, passed, read_text
from harness.saga.checks.records import format_of, records_of
from harness.saga.model import Criterion
from harness.saga.values import as_number

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}
_AGGREGATES: dict[str, Callable[[list[float]], float]] = {
    "last": lambda values: values[-1],
    "mean": lambda values: math.fsum(values) / len(values),
    "min": min,
    "max": max,
}


def check_metrics(criterion: Criterion, context: CheckContext) -> Verdict:
    """The comparison is true; a value that is missing, infinite or no number fails."""
    compare, wanted = _OPERATORS.get(str(criterion.get("op"))), as_number(criterion.get("value"))
    combine = _AGGREGATES.get(str(criterion.get("aggregate") or "last"))
    metric = criterion.get("metric")
    if compare is None or wanted is None or combine is None or not isinstance(metric, str):
        return errored(
            f"a metric needs metric, op ({' '.join(_OPERATORS)}), a finite value, and aggregate as one of "
            f"{', '.join(_AGGREGATES)}"
        )
    try:
        name = located(criterion.get("path"))
        rows = list(records_of(read_text(context, name), format_of(name, criterion.get("format"))))
    except Unreadable as error:
        return failed(str(error))
    values: list[float] = []
    for number, row, problem in rows:
        value = as_number(_at(row, metric)) if problem is None else None
        if value is None:
            return failed(
                f"{name}: {metric} is no finite number in record {number}; required {criterion['op']} {wanted}"
            )
        values.append(value)
    if not values:
        return failed(f"{name}: no records; required {metric} {criterion['op']} {wanted}")
    observed = combine(values)
    facts = f"{name}: {metric} is {observed}, required {criterion['op']} {wanted}"
    evidence = {"observed": observed, "required": wanted}
    return passed(facts, **evidence) if compare(observed, wanted) else failed(facts, **evidence)


def _at(row: Any, metric: str) -> Any:
    """A value by its whole name, or by a dotted way down."""
    if isinstance(row, dict) and metric in row:
        return row[metric]
    for part in metric.split("."):
        if isinstance(row, dict):
            row = row.get(part)
        elif isinstance(row, list) and part.isdigit() and int(part) < len(row):
            row = row[int(part)]
        else:
            return None
    return row
