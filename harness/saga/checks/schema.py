"""A subset of JSON Schema 2020-12. A keyword that is not understood is an error: ignoring it would let records pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from harness.saga.checks.base import Unreadable, compiled

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
    "integer": lambda v: (isinstance(v, int) and not isinstance(v, bool)) or (isinstance(v, float) and v.is_integer()),
}
_NOTES = frozenset({"$schema", "$id", "$comment", "title", "description", "default", "examples", "deprecated"})
Found = Iterator[tuple[str, str]]


def check_schema_itself(schema: Any, where: str = "schema") -> None:
    """Raises Unreadable if a schema is malformed or uses what is not understood here."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise Unreadable(f"{where} is no schema")
    for key, value in schema.items():
        if key in _NOTES:
            continue
        if key not in _KEYWORDS:
            raise Unreadable(
                f"{where}: the keyword {key!r} is not understood; known are {', '.join(sorted(_KEYWORDS))}"
            )
        _check_keyword(key, value, where)


def _check_keyword(key: str, value: Any, where: str) -> None:
    bad = Unreadable(f"{where}: {key} cannot be {str(value)[:60]!r}")
    match key:
        case "type":
            names = value if isinstance(value, list) else [value]
            if not names or not all(isinstance(name, str) and name in _TYPES for name in names):
                raise bad
        case "properties":
            if not isinstance(value, dict):
                raise bad
            for name, inner in value.items():
                check_schema_itself(inner, f"{where}/properties/{name}")
        case "items" | "additionalProperties":
            check_schema_itself(value, f"{where}/{key}")
        case "enum":
            if not isinstance(value, list):
                raise bad
        case "required":
            if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
                raise bad
        case "pattern":
            if not isinstance(value, str):
                raise bad
            compiled(value)
        case "const":
            return
        case _:
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise bad


def violations(value: Any, schema: Any, pointer: str = "") -> Found:
    """What a value breaks, each with the JSON pointer to it. The schema has been checked."""
    if schema is True:
        return
    if schema is False:
        yield pointer, "nothing is allowed here"
        return
    for key, wanted in schema.items():
        if key in _NOTES or key == "additionalProperties":
            continue
        yield from _KEYWORDS[key](value, wanted, pointer)
    if "additionalProperties" in schema and isinstance(value, dict):
        known = schema.get("properties", {})
        for name in value:
            if name not in known:
                if schema["additionalProperties"] is False:
                    yield f"{pointer}/{_escaped(name)}", "is not allowed"
                else:
                    yield from violations(value[name], schema["additionalProperties"], f"{pointer}/{_escaped(name)}")


def same(left: Any, right: Any) -> bool:
    """Equality of JSON values: 1 is 1.0, and true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return bool(left == right)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _type(value: Any, wanted: Any, pointer: str) -> Found:
    names = wanted if isinstance(wanted, list) else [wanted]
    if not any(_TYPES[name](value) for name in names):
        yield pointer, f"is {_name(value)}, not {' or '.join(names)}"


def _name(value: Any) -> str:
    order = ("null", "boolean", "integer", "number", "string", "array", "object")
    return next((name for name in order if _TYPES[name](value)), type(value).__name__)


def _enum(value: Any, wanted: Any, pointer: str) -> Found:
    if not any(same(value, one) for one in wanted):
        yield pointer, f"{str(value)[:40]!r} is none of {str(wanted)[:80]}"


def _const(value: Any, wanted: Any, pointer: str) -> Found:
    if not same(value, wanted):
        yield pointer, f"{str(value)[:40]!r} is not {str(wanted)[:40]!r}"


def _required(value: Any, wanted: Any, pointer: str) -> Found:
    if isinstance(value, dict):
        for name in wanted:
            if name not in value:
                yield f"{pointer}/{_escaped(name)}", "is missing"


def _properties(value: Any, wanted: Any, pointer: str) -> Found:
    if isinstance(value, dict):
        for name, inner in wanted.items():
            if name in value:
                yield from violations(value[name], inner, f"{pointer}/{_escaped(name)}")


def _items(value: Any, wanted: Any, pointer: str) -> Found:
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield from violations(item, wanted, f"{pointer}/{at}")


def _bound(says: str, holds: Callable[[Any, Any], bool], applies: str, measure: Callable[[Any], Any]) -> Any:
    def check(value: Any, wanted: Any, pointer: str) -> Found:
        if _TYPES[applies](value) and not holds(measure(value), wanted):
            yield pointer, f"{str(value)[:40]!r} {says} {wanted}"

    return check


def _pattern(value: Any, wanted: Any, pointer: str) -> Found:
    if isinstance(value, str) and not compiled(wanted).search(value):
        yield pointer, f"{value[:40]!r} does not match {wanted!r}"


_KEYWORDS: dict[str, Callable[[Any, Any, str], Found]] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "required": _required,
    "properties": _properties,
    "additionalProperties": lambda value, wanted, pointer: iter(()),
    "items": _items,
    "minimum": _bound("is below", lambda a, b: a >= b, "number", lambda v: v),
    "maximum": _bound("is above", lambda a, b: a <= b, "number", lambda v: v),
    "exclusiveMinimum": _bound("is not above", lambda a, b: a > b, "number", lambda v: v),
    "exclusiveMaximum": _bound("is not below", lambda a, b: a < b, "number", lambda v: v),
    "minLength": _bound("is shorter than", lambda a, b: a >= b, "string", len),
    "maxLength": _bound("is longer than", lambda a, b: a <= b, "string", len),
    "minItems": _bound("has fewer items than", lambda a, b: a >= b, "array", len),
    "maxItems": _bound("has more items than", lambda a, b: a <= b, "array", len),
    "pattern": _pattern,
}
