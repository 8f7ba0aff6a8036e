"""Rows of a transcript as records; every field takes any JSON value, because every field has held strange ones."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType

from sherpa.instants import NANOS_PER_MS, NO_INSTANT, parse_instant

NOTHING = Raw(b"null")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LIMIT_MS = 2**63 // NANOS_PER_MS


class Details(msgspec.Struct, gc=False, rename="camel"):
    """What a tool says about its own result."""

    status: Any = None
    exit_code: Any = None
    ok: Any = None
    success: Any = None
    timed_out: Any = None
    error: Any = None
    session_id: Any = None
    duration_ms: Any = None
    child_session_key: Any = None
    persisted_details_truncated: Any = None


class Message(msgspec.Struct, rename="camel"):
    """The message of a row. `content` is decoded only where it is needed."""

    role: Any = None
    content: Raw = NOTHING
    timestamp: Any = None
    provider: Any = None
    model: Any = None
    api: Any = None
    stop_reason: Any = None
    error_message: Any = None
    tool_call_id: Any = None
    tool_name: Any = None
    is_error: Any = None
    is_error_snake: Any = msgspec.field(default=None, name="is_error")
    details: Details | list[Any] | str | int | float | bool | None = None
    idempotency_key: Any = None
    provenance: Any = None
    command: Any = None
    exit_code: Any = None
    cancelled: Any = None


class Outline(msgspec.Struct, gc=False, rename="camel"):
    """What a first pass needs of a row: who it is, where it hangs and when it was written."""

    type: Any = None
    id: Any = None
    parent_id: Any = UNSET
    timestamp: Any = None
    target_id: Any = None
    append_parent_id: Any = None
    append_mode: Any = None


class Row(Outline, gc=True, rename="camel"):
    """One row. Fields that nobody looks at are here too: only what is decoded is known to be UTF-8."""

    message: Message | list[Any] | str | int | float | bool | None = None
    custom_type: Any = None
    content: Raw = NOTHING
    version: Any = None
    cwd: Any = None
    parent_session: Any = None
    branched_from: Any = None
    reason: Any = None


class Block(msgspec.Struct, rename="camel"):
    """A block of the content of a message."""

    type: Any = None
    text: Any = None
    id: Any = None
    name: Any = None
    arguments: Any = None
    input: Any = None


ROWS = msgspec.json.Decoder(Row)
OUTLINES = msgspec.json.Decoder(Outline)
_Anything = list[Any] | str | int | float | bool | None
_CONTENT: msgspec.json.Decoder[Any] = msgspec.json.Decoder(
    cast("Any", list[Block | _Anything] | Block | str | int | float | bool | None)
)

CALLS = frozenset({"toolCall", "tool_use", "toolUse", "functionCall"})
RESULT_ROLES = frozenset({"toolResult", "tool"})


def text(value: Any) -> str | None:
    """A string that says something, else None."""
    return value if isinstance(value, str) and value else None


def blocks(content: Raw) -> list[Block]:
    """The blocks of a content; a plain string is one block of text."""
    try:
        decoded = _CONTENT.decode(content)
    except (msgspec.DecodeError, RecursionError):
        # The row was whole; only bytes inside its texts are not UTF-8, or it is nested beyond reason.
        try:
            decoded = _CONTENT.decode(bytes(content).decode("utf-8", "replace").encode())
        except (msgspec.DecodeError, RecursionError):
            return []
    if isinstance(decoded, Block):
        return [decoded]
    if isinstance(decoded, str):
        return [Block(type="text", text=decoded)]
    return [b for b in decoded if isinstance(b, Block)] if isinstance(decoded, list) else []


def plain_text(parts: list[Block]) -> str:
    """The texts of some blocks, one below the other."""
    return "\n".join(b.text for b in parts if b.type == "text" and isinstance(b.text, str))


def arguments(block: Block) -> dict[str, Any]:
    """Arguments of a call: an object, or an object written as a string."""
    given = block.arguments if block.arguments is not None else block.input
    if isinstance(given, str):
        try:
            given = msgspec.json.decode(given)
        except (msgspec.DecodeError, RecursionError):
            return {}
    return given if isinstance(given, dict) else {}


def instant_of(row: Outline) -> int:
    """When the row was written, in nanoseconds; `NO_INSTANT` if it does not say."""
    found = _instant(row.timestamp)
    if found == NO_INSTANT and isinstance(row, Row) and isinstance(row.message, Message):
        return _instant(row.message.timestamp)
    return found


def _instant(value: Any) -> int:
    if isinstance(value, str):
        if len(value) == 24 and value[-1] == "Z":
            # The form that OpenClaw writes; anything unusual in it is left to the general reader.
            try:
                return _millis(value) * NANOS_PER_MS
            except ValueError:
                pass
        try:
            return parse_instant(value, assume_utc=True)
        except ValueError:
            return NO_INSTANT
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _LIMIT_MS:
        return int(value) * NANOS_PER_MS
    return NO_INSTANT


def _millis(text: str) -> int:
    passed = datetime.fromisoformat(text) - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * 1000 + passed.microseconds // 1000


def has_parent_key(row: Outline) -> bool:
    """Whether the row says what it hangs on, be it null."""
    return not isinstance(row.parent_id, UnsetType)
