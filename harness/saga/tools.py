"""The four tools of a saga for agents: names, schemas, and one function that calls them.

An MCP server or a host's plugin serves `TOOLS` and passes each call to `call_tool`, which never raises for what a
caller can get wrong: it answers ``{"error": …, "code": …}``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.saga.coordinator import Coordinator
from harness.saga.errors import SagaError
from harness.saga.model import PROFILE_IDS
from sherpa.errors import SherpaError

Schema = dict[str, Any]


@dataclass(frozen=True)
class Tool:
    """One tool.

    Attributes
    ----------
    description : str
        What it does and when to call it, for a model.
    parameters : dict
        JSON Schema of its arguments.
    run : callable
        Takes the coordinator and the arguments.
    read_only, destructive : bool
    """

    name: str
    description: str
    parameters: Schema
    run: Callable[[Coordinator, dict[str, Any]], dict[str, Any]]
    read_only: bool = False
    destructive: bool = False


def _object(properties: Schema, required: list[str]) -> Schema:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _text(description: str, longest: int | None = None, pattern: str | None = None) -> Schema:
    bounds = {} if longest is None else {"minLength": 1, "maxLength": longest}
    return {"type": "string", "description": description, **bounds, **({"pattern": pattern} if pattern else {})}


def _strings(description: str) -> Schema:
    return {"type": "array", "items": {"type": "string"}, "description": description}


_AMOUNT = {"type": "integer", "minimum": 0, "maximum": 2**53}
_ID = _text("The id that saga_start gave.", 128, "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")
_FLAG = {"type": "boolean"}
_CHECKLIST = {
    "type": "array",
    "description": "One entry per item of the prompt: hard items with status and evidence, soft ones with score.",
    "items": {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "status": {"type": "string", "enum": ["PASS", "FAIL-REWORK", "FAIL-ESCALATE"]},
            "score": {"type": "number", "minimum": 1, "maximum": 5},
            "evidence": _text("A quote from the artifacts, character by character."),
            "notes": {"type": "string"},
        },
        "required": ["id"],
    },
}
_EVAL_RESULT = {
    "type": "object",
    "description": "The verdict that evalPrompt asks for.",
    "properties": {
        "passed": _FLAG,
        "escalate": {**_FLAG, "description": "Only for what no effort could repair."},
        "score": {"type": ["number", "null"]},
        "issues": _strings("What to change."),
        "checklist": _CHECKLIST,
        "evaluatorSession": _text("Id of the session that judged."),
    },
    "required": ["passed"],
}
_DIAGNOSTICS = {
    "type": "object",
    "description": "What the network did to the worker.",
    "properties": {
        "searchedTerms": _strings("What was searched for."),
        "urlsAttempted": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"url": {"type": "string"}, "status": {"type": ["integer", "string"]}},
                "required": ["url", "status"],
            },
        },
        "errorsCaught": _strings("Errors as they were printed."),
        "notes": {"type": "string"},
    },
}
_ARTIFACTS = {
    "type": "array",
    "description": "Files to hand over; paths are relative to the artifacts folder.",
    "items": _object({"path": {"type": "string"}, "content": {"type": "string"}}, ["path", "content"]),
}
_ADVANCE = {
    "sagaId": _ID,
    "planYaml": _text("The plan, as planPrompt asks for it."),
    "replan": {**_FLAG, "description": "Begin with a new plan; artifacts stay."},
    "acceptIncomplete": {**_FLAG, "description": "Take the plan although something is missing."},
    "workerFinished": {**_FLAG, "description": "The current stage is done and is to be checked."},
    "artifacts": _ARTIFACTS,
    "evalResult": _EVAL_RESULT,
    "externalVerdict": {
        "type": "object",
        "description": "What a second reviewer says, with evalResult.",
        "properties": {"passed": _FLAG, "reviewer": {"type": "string"}, "issues": _strings("What speaks against it.")},
        "required": ["passed"],
    },
    "humanInput": _text("The user's own words, when a person was asked. Never answer for them."),
    "criteriaPatch": {
        "type": "array",
        "description": "With a humanInput that begins with 'relax': criteria to drop or alter, by their place from 1.",
        "items": {
            "type": "object",
            "properties": {
                "index": {"type": "integer", "minimum": 1},
                "action": {"type": "string", "enum": ["drop", "alter"]},
                "criterion": {"type": "object"},
            },
            "required": ["index", "action"],
        },
    },
    "workerDiagnostics": _DIAGNOSTICS,
    "usage": {
        "type": "object",
        "description": "What was used since the last report.",
        "properties": {"tokens": _AMOUNT, "wallMs": _AMOUNT},
    },
    "stageId": _text("The stage that the call is about; it is refused if the saga has moved on."),
    "ifSeq": {
        "type": "integer",
        "description": "The seq of the answer this call builds on; refused if there is a newer.",
    },
    "requestId": _text("A name of this request; sent again under it, it is not done twice.", 128),
}


def _advance(coordinator: Coordinator, arguments: dict[str, Any]) -> dict[str, Any]:
    if "sagaId" not in arguments:
        raise SagaError("saga_advance needs the sagaId that saga_start gave")
    return coordinator.advance(arguments.pop("sagaId"), arguments)


def _cancel(coordinator: Coordinator, arguments: dict[str, Any]) -> dict[str, Any]:
    reason = arguments.get("reason")
    if reason is not None and not isinstance(reason, str):
        raise SagaError("reason is a text")
    return coordinator.cancel(arguments.get("sagaId"), reason)


TOOLS = {
    tool.name: tool
    for tool in (
        Tool(
            "saga_start",
            "Begins a long task that needs several stages, checks and perhaps several sessions. Call it after the "
            "skill's two questions, with the user's goal word for word. Answers with planPrompt: what to write as "
            "the plan.",
            _object(
                {
                    "goal": {**_text("The user's goal, word for word."), "minLength": 1, "pattern": r"\S"},
                    "profile": {"type": "string", "enum": list(PROFILE_IDS), "description": "The kind of work."},
                    "session": {
                        **_text("Id of the host's session; it may have one live saga.", 256),
                        "type": ["string", "null"],
                    },
                },
                ["goal", "profile"],
            ),
            lambda coordinator, arguments: coordinator.start(arguments),
        ),
        Tool(
            "saga_advance",
            "Moves a saga by one decision: submits the plan, a finished stage, a verdict or the user's answer; "
            "without any of these it tells where to go on. Its nextAction says what to do next.",
            _object(_ADVANCE, ["sagaId"]),
            _advance,
        ),
        Tool(
            "saga_status",
            "Where a saga is: stage, what it waits for, attempts, how it ended. Changes nothing. Call it after an "
            "interruption, or when a call was refused because the saga had moved on.",
            _object({"sagaId": _ID}, ["sagaId"]),
            lambda coordinator, arguments: coordinator.status(arguments.get("sagaId")),
            read_only=True,
        ),
        Tool(
            "saga_cancel",
            "Ends a saga at the user's wish; what was handed over stays on disk. There is no way back.",
            _object({"sagaId": _ID, "reason": _text("Why, in the user's words.")}, ["sagaId"]),
            _cancel,
            destructive=True,
        ),
    )
}


def call_tool(coordinator: Coordinator, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Call a tool by its name; what a caller got wrong comes back as ``{"error": message, "code": code}``."""
    tool = TOOLS.get(name)
    if tool is None:
        return {"error": f"no tool {name[:80]!r}; there are {', '.join(TOOLS)}", "code": "unknown_operation"}
    try:
        return tool.run(coordinator, dict(arguments))
    except SherpaError as error:
        return {"error": str(error), "code": error.code}
    except OSError as error:
        return {"error": f"the disk refused: {error.strerror or error}; nothing was done", "code": "failed"}
