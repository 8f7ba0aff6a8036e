"""Done-criteria in their plain form: synonyms of fields, numbers, paths; what is missing, and what was changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from harness.saga.confine import clean_path
from harness.saga.errors import PathError
from harness.saga.lenient import read_item
from harness.saga.model import KINDS, Criterion
from harness.saga.values import as_bytes, as_flag, as_number, as_text

NO_CHECK = "This stage has no machine-checkable criteria."
SYNONYMS = {
    "path": ("path", "filePath", "file", "location"),
    "minBytes": ("bytes", "minBytes", "minSize", "threshold", "sizeMin", "min-size"),
    "desc": ("desc", "description", "text", "prompt", "criteria"),
    "command": ("command", "cmd", "run", "shell"),
    "pattern": ("pattern", "regex", "match", "query"),
    "count": ("count", "minItems", "required"),
    "metric": ("metric", "key", "column"),
    "op": ("op", "operator"),
    "value": ("value", "target"),
}
"""Keys under which a field may stand, the first that is present wins; dashes, underscores and case do not matter."""
KNOWN_KEYS = frozenset({key.lower() for names in SYNONYMS.values() for key in names}) | {
    "kind",
    "type",
    "strict",
    "url",
    "schema",
    "schemapath",
    "format",
    "mode",
    "field",
    "aggregate",
    "selector",
    "argv",
    "cwd",
}
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
OPERATORS = (">=", ">", "<=", "<", "==", "!=")


_PAIRS = re.compile(r"\s*(?:kind|type)\s*:\s*\S", re.IGNORECASE)


def _as_path(value: Any) -> str | None:
    text = as_text(value)
    if text is None:
        return None
    try:
        return clean_path(text)
    except PathError:
        return text  # the check refuses it and says why


def _as_lines(value: Any) -> list[str] | None:
    if not isinstance(value, list) or not value:
        return None
    found = [as_text(item) for item in value]
    return None if None in found else [text for text in found if text is not None]


def _as_schema(value: Any) -> dict[str, Any] | None:
    return _with_bounds(value) if isinstance(value, dict) and value else None


def _with_bounds(schema: Any) -> Any:
    """A schema whose bounds are numbers again: YAML leaves what would not look the same, as ``0.90``, as text."""
    if isinstance(schema, list):
        return [_with_bounds(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    numbers = {key: as_number(value) for key, value in schema.items() if key in _BOUNDS and isinstance(value, str)}
    return {key: _with_bounds(value) if numbers.get(key) is None else numbers[key] for key, value in schema.items()}


def _as_operator(value: Any) -> str | None:
    text = as_text(value)
    text = {"=": "==", "≥": ">=", "≤": "<=", "≠": "!=", "gte": ">=", "lte": "<=", "gt": ">", "lt": "<"}.get(
        text or "", text
    )
    return text if text in OPERATORS else None


Reader = Callable[[Any], Any]
_READERS: dict[str, Reader] = {
    "path": _as_path,
    "schemaPath": _as_path,
    "minBytes": as_bytes,
    "desc": as_text,
    "command": as_text,
    "argv": _as_lines,
    "cwd": _as_path,
    "timeoutSec": as_number,
    "expectExit": as_number,
    "stdoutPattern": as_text,
    "pattern": as_text,
    "mode": as_text,
    "minCount": as_number,
    "maxCount": as_number,
    "strict": as_flag,
    "minBytesTolerance": as_number,
    "schema": _as_schema,
    "format": as_text,
    "count": as_number,
    "field": as_text,
    "doneValues": _as_lines,
    "url": as_text,
    "expectStatus": as_number,
    "expectText": as_text,
    "selector": as_text,
    "metric": as_text,
    "op": _as_operator,
    "value": as_number,
    "aggregate": as_text,
}


@dataclass(frozen=True)
class _Shape:
    """Fields of a kind. `required` holds alternatives: one of each group must be there."""

    required: tuple[tuple[str, ...], ...]
    optional: tuple[str, ...] = ()
    keeps: bool = False


_SHAPES = {
    "file-exists": _Shape((("path",),), ("minBytes", "strict", "minBytesTolerance")),
    "file-size-gt": _Shape((("path",), ("minBytes",)), ("strict", "minBytesTolerance")),
    "command": _Shape((("command", "argv"),), ("cwd", "timeoutSec", "expectExit", "stdoutPattern")),
    "log-scan": _Shape((("path",),), ("pattern", "mode", "minCount", "maxCount")),
    "free-form": _Shape((), ("desc",)),
    # The original left these as they were; they keep whatever else they hold.
    "file-schema": _Shape((("path",), ("schema", "schemaPath")), ("format",), keeps=True),
    "progress-items": _Shape((("count",),), ("path", "field", "doneValues"), keeps=True),
    "browser": _Shape((("url",),), ("expectStatus", "expectText", "selector", "timeoutSec"), keeps=True),
    "metrics": _Shape((("path",), ("metric",), ("op",), ("value",)), ("aggregate",), keeps=True),
}
_BY_FOLDED = {re.sub(r"[^a-z]", "", kind): kind for kind in KINDS}


def normalise(item: Any, stage_id: str, place: int, missing: list[str], notices: list[str]) -> Criterion:
    """One criterion in its plain form.

    Parameters
    ----------
    item
        Whatever stood in the list.
    place : int
        Its place in the list, from 1.
    missing, notices : list of str
        What it lacks, and how it was changed, are added here.
    """
    where = f"{stage_id}: criterion {place}"
    if isinstance(item, str) and _PAIRS.match(item):
        notices.append(f"{where}: {item[:60]!r} was taken as fields")
        item = read_item(item, KNOWN_KEYS, notices)
    if not isinstance(item, dict):
        text = as_text(item) or (str(item) if item not in (None, "", []) else "")
        notices.append(f"{where}: no object but {text[:60]!r}; it is left to the evaluator")
        return {"kind": "free-form", "desc": text} if text else {"kind": "free-form"}
    kind, fields = _kind_of(item, where, notices)
    shape = _SHAPES.get(kind)
    if shape is None:
        return {"kind": kind, **fields}
    return _shaped(kind, shape, fields, stage_id, where, missing, notices)


def _kind_of(item: dict[str, Any], where: str, notices: list[str]) -> tuple[str, dict[str, Any]]:
    fields = dict(item)
    given = as_text(fields.pop("kind", None))
    if given is None:
        named = as_text(fields.get("type"))
        if named is not None and _folded(named) in _BY_FOLDED:
            given = named
            del fields["type"]
            notices.append(f"{where}: `type` was taken as `kind`")
    if given is None and len(fields) >= 1:
        # "- file-exists: a.md" is how many write it.
        key = next(iter(fields))
        if _folded(key) in _BY_FOLDED and key.lower() not in KNOWN_KEYS | {"metrics"}:
            inner = fields.pop(key)
            kind = _BY_FOLDED[_folded(key)]
            notices.append(f"{where}: `{key}: …` was taken as kind {kind}")
            main = _SHAPES[kind].required[0][0] if _SHAPES[kind].required else "desc"
            return kind, {**(inner if isinstance(inner, dict) else {main: inner}), **fields}
        if key.lower() in {"command", "cmd"} and len(fields) <= 3:
            notices.append(f"{where}: a criterion with `{key}` and no kind was taken as kind command")
            return "command", fields
    if given is None:
        notices.append(f"{where}: it has no kind and is left to the evaluator")
        return "free-form", fields
    kind = _BY_FOLDED.get(_folded(given), given)
    if kind != given:
        notices.append(f"{where}: kind {given!r} was taken as {kind}")
    return kind, fields


def _folded(text: str) -> str:
    return re.sub(r"[^a-z]", "", text.lower())


def _plain(key: str) -> str:
    return re.sub(r"[-_]", "", key).lower()


def _shaped(
    kind: str,
    shape: _Shape,
    fields: dict[str, Any],
    stage_id: str,
    where: str,
    missing: list[str],
    notices: list[str],
) -> Criterion:
    result: Criterion = {"kind": kind}
    taken: set[str] = set()
    for name in [name for group in shape.required for name in group] + list(shape.optional):
        key = _find(fields, name)
        if key is None:
            continue
        taken.add(key)
        value = _READERS[name](fields[key])
        if value is None:
            if fields[key] not in (None, ""):
                notices.append(f"{where}: {name} cannot be {str(fields[key])[:60]!r}")
        else:
            result[name] = value
            if key != name:
                notices.append(f"{where}: `{key}` was taken as `{name}`")
            elif value != fields[key]:
                notices.append(f"{where}: {name} {str(fields[key])[:60]!r} was taken as {value!r}")
    missing += [f"{stage_id}: done.{group[0]}" for group in shape.required if not any(name in result for name in group)]
    rest = {key: value for key, value in fields.items() if key not in taken}
    if shape.keeps:
        return {**rest, **result}
    if kind == "free-form" and "desc" not in result and rest:
        # A criterion without a kind must not lose what it asked for.
        result["desc"] = "; ".join(f"{key}: {value}" for key, value in rest.items())[:500]
        notices.append(f"{where}: its fields became its description")
    elif rest:
        notices.append(f"{where}: not used: {', '.join(sorted(rest))}")
    return result


def _find(fields: dict[str, Any], name: str) -> str | None:
    """The key that a field stands under: the exact synonym first, then one that differs in dashes or case."""
    names = SYNONYMS.get(name, (name,))
    exact = next((key for key in names if fields.get(key) is not None), None)
    if exact is not None:
        return exact
    folded = [_plain(key) for key in names]
    return next((key for key in fields if fields[key] is not None and _plain(key) in folded), None)


def is_deferred(criterion: Criterion) -> bool:
    """Whether no machine checks it."""
    return criterion.get("kind") not in KINDS or criterion["kind"] == "free-form"


def needs_evaluator(criteria: Iterable[Criterion]) -> bool:
    """The verification floor: a stage with nothing checkable goes to the deep evaluator."""
    return all(is_deferred(criterion) for criterion in criteria)
