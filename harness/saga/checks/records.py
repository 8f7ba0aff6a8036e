"""file-schema: every record of a JSON, JSONL or CSV file fits a schema."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

from harness.saga.checks.base import CheckContext, Unreadable, Verdict, errored, failed, located, passed, read_text
from harness.saga.checks.schema import check_schema_itself, violations
from harness.saga.model import Criterion
from harness.saga.values import as_number

SHOWN = 5
_FORMATS = ("json", "jsonl", "csv")
Record = tuple[int, Any, str | None]
"""Number from 1, value, and what is wrong with it before any schema."""


def check_schema(criterion: Criterion, context: CheckContext) -> Verdict:
    """Every record fits; no record at all fails, too."""
    try:
        schema = schema_of(criterion, context)
        check_schema_itself(schema)
        name = located(criterion.get("path"))
        text = read_text(context, name)
        records = list(records_of(text, format_of(name, criterion.get("format")), schema))
    except Unreadable as error:
        return failed(str(error)) if "not found" in str(error) else errored(str(error))
    if not records:
        return failed(f"{name}: no records", records=0)
    broken, listed = 0, []
    for number, value, problem in records:
        found = [("", problem)] if problem is not None else list(violations(value, schema))
        broken += bool(found)
        listed += [f"record {number}: {pointer or '/'}: {says}" for pointer, says in found]
    if not listed:
        return passed(f"{name}: {len(records)} records fit the schema", records=len(records))
    shown = "; ".join(listed[:SHOWN])
    return failed(
        f"{name}: {broken} of {len(records)} records do not fit: {shown}", records=len(records), broken=broken
    )


def schema_of(criterion: Criterion, context: CheckContext) -> Any:
    """The schema that stands in the criterion, or in the file that it names."""
    schema = criterion.get("schema")
    if isinstance(schema, str):
        return _json(schema, "schema")
    if schema is not None:
        return schema
    if criterion.get("schemaPath") is None:
        raise Unreadable("the criterion has neither schema nor schemaPath")
    return _json(read_text(context, criterion["schemaPath"]), str(criterion["schemaPath"]))


def format_of(name: str, given: Any) -> str:
    """json, jsonl or csv, by what is said or by the suffix."""
    suffix = str(given).lower() if given else name.rsplit(".", 1)[-1].lower()
    suffix = {"ndjson": "jsonl", "tsv": "csv"}.get(suffix, suffix)
    if suffix not in _FORMATS:
        raise Unreadable(f"{name}: the format {suffix!r} is none of {', '.join(_FORMATS)}")
    return suffix


def records_of(text: str, kind: str, schema: Any = None) -> Iterator[Record]:
    """The records of a file. A JSON list holds records, unless the schema is that of a list."""
    if kind == "json":
        found = _json(text, "the file")
        whole = isinstance(schema, dict) and schema.get("type") == "array"
        for at, value in enumerate(found if isinstance(found, list) and not whole else [found], start=1):
            yield at, value, None
    elif kind == "jsonl":
        lines = [line for line in text.split("\n") if line.strip()]
        for at, line in enumerate(lines, start=1):
            try:
                yield at, _json(line, "it"), None
            except Unreadable as error:
                yield at, None, str(error)
    else:
        yield from _csv(text, schema)


def _csv(text: str, schema: Any) -> Iterator[Record]:
    """Rows as objects; a cell gets the type that the schema wants if it can be read as that, an empty one is absent."""
    first = text.split("\n", 1)[0]
    rows = csv.reader(io.StringIO(text), delimiter="\t" if "\t" in first and "," not in first else ",", strict=True)
    types = schema.get("properties", {}) if isinstance(schema, dict) else {}
    try:
        head = next(rows, [])
        if len(set(head)) != len(head):
            raise Unreadable("two columns have the same name")
        for at, row in enumerate((row for row in rows if row), start=1):
            if len(row) != len(head):
                yield at, None, f"it has {len(row)} cells, the head has {len(head)}"
                continue
            cells = zip(head, row, strict=True)
            yield at, {name: _typed(cell, types.get(name)) for name, cell in cells if cell != ""}, None
    except csv.Error as error:
        raise Unreadable(f"no CSV: {error}") from None


def _typed(cell: str, schema: Any) -> Any:
    wanted = schema.get("type") if isinstance(schema, dict) else None
    names = wanted if isinstance(wanted, list) else [wanted]
    text = cell.strip()
    if {"integer", "number"} & set(names) and (number := as_number(text)) is not None:
        return number
    if "boolean" in names and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if "null" in names and text.lower() == "null":
        return None
    return cell


def _json(text: str, what: str) -> Any:
    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is no JSON")

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{what} cannot be read as JSON: {error}"[:200]) from None
