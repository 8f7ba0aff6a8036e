"""JSON schemas of the operations, for the OpenAPI document and for tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from sherpa import __version__
from sherpa.serve.operations import OPERATIONS, TOOLS, Lane, Operation
from sherpa.serve.parameters import Import, OfCase

_LIMITS_MS: dict[Lane, int] = {"read": 0, "report": 0, "write": 60_000, "maintain": 60_000, "guest": 600_000}
_REF = "#/components/schemas/{name}"
_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
        }
    },
}
_REFUSALS = {
    "400": "The parameters do not fit, or the event is invalid.",
    "401": "No token, or a wrong one.",
    "403": "Asked from a page or by a host name that is not allowed.",
    "404": "No such thing.",
    "405": "Another method is needed.",
    "409": "Somebody else was first, or it is not possible now.",
    "408": "The body did not come in time.",
    "413": "The body is too large.",
    "415": "The body is not said to be JSON.",
    "500": "The memory failed.",
    "503": "Too much waits; try again after the seconds of Retry-After.",
}


def tool_parameters(operation: Operation, *, case_needed: bool = True) -> dict[str, Any]:
    """Schema of a tool's arguments: an object at the top, without choices there, as models' interfaces want it.

    Parameters
    ----------
    case_needed : bool
        Whether the model must name the case; a host that knows the session can fill it in.
    """
    if operation.schema is not None:
        given: dict[str, Any] = _without_patterns(operation.schema)
        return given
    schema = _inlined(operation.parameters)
    properties = schema.get("properties", {})
    if issubclass(operation.parameters, OfCase):
        del properties["session"]
        schema["required"] = ["caseId"] if case_needed else []
    if operation.parameters is Import:
        schema["properties"] = {"name": properties["name"]}
        schema["required"] = ["name"]
    _prune(schema)
    plain: dict[str, Any] = _without_patterns(schema)
    return plain


def answer_schema(operation: Operation) -> dict[str, Any]:
    """Schema of an operation's answer, an object at the top."""
    return _inlined(operation.answer)


def tool_list(guests: Mapping[str, Operation] | None = None) -> list[dict[str, Any]]:
    """The tools as a host that knows sessions registers them; ``limitMs`` is how long a call may take at least."""
    return [
        {
            "name": name,
            "operation": operation.name,
            "description": operation.description,
            "parameters": tool_parameters(operation, case_needed=False),
            "limitMs": 0 if operation.read_only and operation.lane == "guest" else _LIMITS_MS[operation.lane],
        }
        for name, operation in (TOOLS | dict(guests or {})).items()
    ]


def openapi(guests: Iterable[Operation] = ()) -> dict[str, Any]:
    """The OpenAPI document of the daemon, with what it serves beside the memory."""
    types = [t for operation in OPERATIONS.values() for t in (operation.parameters, operation.answer)]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    for operation in OPERATIONS.values():
        _one_of(components, operation)
    components["Error"] = _ERROR
    paths: dict[str, Any] = {"/health": {"get": _health()}, "/openapi.json": {"get": _document()}}
    for at, operation in enumerate(OPERATIONS.values()):
        paths[f"/v1/{operation.name}"] = {"post": _path(operation, schemas[2 * at], schemas[2 * at + 1])}
    for operation in guests:
        paths[f"/v1/{operation.name}"] = {"post": _path(operation, operation.schema or {}, {"type": "object"})}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sherpa",
            "version": __version__,
            "description": "Procedural memory for agents, on this machine.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _path(operation: Operation, takes: dict[str, Any], answers: dict[str, Any]) -> dict[str, Any]:
    return {
        "operationId": operation.name,
        "summary": operation.title,
        "description": operation.description,
        "requestBody": {"required": True, "content": {"application/json": {"schema": takes}}},
        "responses": {
            "200": {"description": "Done.", "content": {"application/json": {"schema": answers}}},
            **_refusals(_REFUSALS),
        },
    }


def _health() -> dict[str, Any]:
    schema = {
        "type": "object",
        "required": ["status", "version"],
        "properties": {"status": {"const": "ok"}, "version": {"type": "string"}},
    }
    return {
        "operationId": "health",
        "summary": "Whether the daemon answers",
        "security": [],
        "responses": {
            "200": {"description": "It does.", "content": {"application/json": {"schema": schema}}},
            **_refusals({code: _REFUSALS[code] for code in ("403", "405")}),
        },
    }


def _document() -> dict[str, Any]:
    return {
        "operationId": "openapi",
        "summary": "This document",
        "security": [],
        "responses": {
            "200": {"description": "The document.", "content": {"application/json": {"schema": {"type": "object"}}}},
            **_refusals({code: _REFUSALS[code] for code in ("403", "405")}),
        },
    }


def _refusals(codes: dict[str, str]) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {code: {"description": text, "content": content} for code, text in codes.items()}


def _one_of(components: dict[str, Any], operation: Operation) -> None:
    """Say where exactly one of two properties is taken."""
    schema = components[operation.parameters.__name__]
    if issubclass(operation.parameters, OfCase):
        schema["oneOf"] = [{"required": ["caseId"]}, {"required": ["session"]}]
    if operation.parameters is Import:
        schema["oneOf"] = [{"required": ["name"]}, {"required": ["events"]}]


def _inlined(kind: Any) -> dict[str, Any]:
    """The schema of a type with its own definition at the top."""
    schema = msgspec.json.schema(kind)
    definitions = schema.pop("$defs", {})
    top = schema.pop("$ref", None)
    if top is not None:
        schema = definitions.pop(top.rsplit("/", 1)[1])
    schema.pop("title", None)
    schema.pop("description", None)
    return schema | ({"$defs": definitions} if definitions else {})


def _prune(schema: dict[str, Any]) -> None:
    """Drop definitions that nothing refers to any more."""
    definitions = schema.get("$defs", {})
    needed: set[str] = set()
    waiting = [{key: value for key, value in schema.items() if key != "$defs"}]
    while waiting:
        for name in _referred(waiting.pop()) - needed:
            needed.add(name)
            waiting.append(definitions[name])
    kept = {name: definitions[name] for name in definitions if name in needed}
    schema.pop("$defs", None)
    if kept:
        schema["$defs"] = kept


def _without_patterns(value: Any) -> Any:
    """Not every model's interface takes every regular expression; what comes in is checked all the same."""
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if not (k == "pattern" and isinstance(v, str))}
        return {key: _without_patterns(item) for key, item in kept.items()}
    if isinstance(value, list):
        return [_without_patterns(item) for item in value]
    return value


def _referred(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"].rsplit("/", 1)[1]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(_referred, value.values()))
    if isinstance(value, list):
        return set().union(*map(_referred, value))
    return set()
