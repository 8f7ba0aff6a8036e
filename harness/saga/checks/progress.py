"""progress-items: so many items of a list are done."""

from __future__ import annotations

from typing import Any

from harness.saga.checks.base import CheckContext, Unreadable, Verdict, errored, failed, passed, read_text
from harness.saga.checks.records import records_of
from harness.saga.model import Criterion
from harness.saga.values import as_number, as_text

DONE = ("done", "completed", "true", "passed")
_LISTS = ("items", "tasks", "progress", "records")


def check_progress(criterion: Criterion, context: CheckContext) -> Verdict:
    """At least `count` items have a status that means done."""
    required = as_number(criterion.get("count"))
    if required is None or required <= 0:
        return errored(f"count must be a positive number, not {criterion.get('count')!r}")
    try:
        items = _items(criterion, context)
    except Unreadable as error:
        return failed(str(error))
    field = as_text(criterion.get("field")) or "status"
    given = criterion.get("doneValues")
    done = {str(as_text(value)).lower() for value in given} if isinstance(given, list) and given else set(DONE)
    found = sum(isinstance(item, dict) and str(as_text(item.get(field))).lower() in done for item in items)
    facts = f"{found}/{required} items done, of {len(items)}"
    if found >= required:
        return passed(facts, found=found, required=required)
    return failed(facts, found=found, required=required)


def _items(criterion: Criterion, context: CheckContext) -> list[Any]:
    names = [criterion["path"]] if criterion.get("path") else ["progress.json", "progress.jsonl"]
    for at, name in enumerate(names, start=1):
        try:
            text = read_text(context, name)
        except Unreadable:
            if at < len(names):
                continue
            raise
        if str(name).endswith((".jsonl", ".ndjson")):
            return [value for _, value, problem in records_of(text, "jsonl") if problem is None]
        values = [value for _, value, _ in records_of(text, "json")]
        if len(values) == 1 and isinstance(values[0], dict):
            inner = next((values[0][key] for key in _LISTS if isinstance(values[0].get(key), list)), None)
            return values if inner is None else list(inner)
        return values
    raise Unreadable("file not found: progress.json")
