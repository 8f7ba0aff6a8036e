"""The part of JSON Schema that contracts of capabilities and problems are written in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: dict[str, Callable[[object], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list | tuple),
    "object": lambda value: isinstance(value, dict),
}


def schema_errors(value: Any, schema: dict[str, Any] | None, path: str = "value") -> list[str]:
    """What does not fit, with places but without the values themselves; an unknown type fits nothing."""
    return [] if not schema else list(_errors(value, schema, path))


def _errors(value: Any, schema: dict[str, Any], path: str) -> Iterator[str]:
    wanted = schema.get("type")
    names = wanted if isinstance(wanted, list) else [] if wanted is None else [wanted]
    if names and not any(name in _TYPES and _TYPES[name](value) for name in names):
        yield f"{path} must be of type {' or '.join(map(str, names))}, not {type(value).__name__}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path} is none of the allowed values"
    if "const" in schema and value != schema["const"]:
        yield f"{path} is not the required value"
    if _is_number(value):
        if "minimum" in schema and value < schema["minimum"]:
            yield f"{path} must be at least {schema['minimum']}"
        if "maximum" in schema and value > schema["maximum"]:
            yield f"{path} must be at most {schema['maximum']}"
    if isinstance(value, dict):
        yield from _of_object(value, schema, path)
    if isinstance(value, list | tuple) and isinstance(schema.get("items"), dict):
        for at, item in enumerate(value):
            yield from _errors(item, schema["items"], f"{path}[{at}]")


def _of_object(value: dict[str, Any], schema: dict[str, Any], path: str) -> Iterator[str]:
    properties: dict[str, Any] = schema.get("properties", {})
    for name in schema.get("required", []):
        if name not in value:
            yield f"{path}.{name} is missing"
    for name, item in value.items():
        if name in properties:
            yield from _errors(item, properties[name], f"{path}.{name}")
        elif schema.get("additionalProperties") is False:
            yield f"{path} has a field that is not allowed: {name[:40]}"
