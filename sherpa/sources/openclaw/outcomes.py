"""How a tool call ended, by OpenClaw's own contract on the details of its result."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from sherpa.sources.openclaw.rows import Details, Message, blocks, plain_text

_FAILURES = {
    "error": "failed",
    "failed": "failed",
    "failure": "failed",
    "timeout": "timed_out",
    "timed_out": "timed_out",
    "blocked": "blocked",
    "denied": "blocked",
    "forbidden": "blocked",
    "disabled": "blocked",
    "approval-unavailable": "blocked",
    "unavailable": "blocked",
    "aborted": "cancelled",
    "cancelled": "cancelled",
    "canceled": "cancelled",
    "killed": "cancelled",
    "invalid": "failed",
}
_UNFINISHED = frozenset({"running", "accepted", "yielded", "pending"})
_DONE = frozenset({"accepted", "ok", "completed", "applied", "updated"})
_SYNTHETIC = b"missing tool result in session history"
_EXIT = re.compile(r"\(Command exited with code (-?\d+)\)\s*\Z")
_SHORT = 4096


class Verdict(NamedTuple):
    """How a result counts.

    Attributes
    ----------
    phase : str
        ``succeeded``, ``failed``, ``running`` (the work goes on elsewhere) or ``unknown``.
    kind : str
        Of a failure: ``failed``, ``timed_out``, ``blocked`` or ``cancelled``.
    nonzero : bool
        The command ended with another exit code than 0, and the contract still calls it completed.
    synthetic : bool
        OpenClaw wrote the result itself, because the real one was lost.
    doubtful : bool
        Flagged as an error, while the details say that it was done.
    """

    phase: str
    kind: str = ""
    nonzero: bool = False
    synthetic: bool = False
    doubtful: bool = False

    @property
    def outcome(self) -> str:
        """``success``, ``failure`` or ``unknown``."""
        return {"succeeded": "success", "failed": "failure"}.get(self.phase, "unknown")


def status_of(details: Details) -> str:
    """The status in words, empty if it is none (web requests put a number there)."""
    return details.status.strip().lower() if isinstance(details.status, str) else ""


def breaks_contract(details: Details) -> str:
    """The kind of failure that the details report, empty for none.

    In this order: ``ok`` or ``success`` is false; a status that names a failure, unless ``ok`` or ``success`` is
    true; ``timedOut`` or an ``error``; a status ``completed`` is a success whatever the exit code; a number other
    than 0 as exit code is a failure.
    """
    status = status_of(details)
    if details.ok is False or details.success is False:
        return _FAILURES.get(status, "failed")
    if status in _FAILURES and not (details.ok is True or details.success is True):
        return _FAILURES[status]
    if details.timed_out is True:
        return "timed_out"
    if details.error:
        return "failed"
    if status == "completed":
        return ""
    return "failed" if _nonzero(details.exit_code) else ""


def _nonzero(code: object) -> bool:
    return isinstance(code, int | float) and not isinstance(code, bool) and code != 0


def judge(message: Message) -> Verdict:
    """How a tool result counts; see `Verdict`."""
    content = bytes(message.content)
    if _SYNTHETIC in content:
        return Verdict("unknown", synthetic=True)
    details = message.details if isinstance(message.details, Details) else None
    flagged = message.is_error is True or message.is_error_snake is True
    if details is None:
        failed = flagged or _tells_error(content)
        return Verdict("failed", "failed") if failed else Verdict("succeeded")
    kind = breaks_contract(details)
    status = status_of(details)
    if kind or flagged:
        return Verdict("failed", kind or "failed", doubtful=not kind and status in _DONE)
    if status in _UNFINISHED:
        return Verdict("running")
    code = details.exit_code
    if details.persisted_details_truncated and not status and code is None:
        # Status and exit code were cut off together with the rest; a command repeats the code at the end of its text.
        found = _EXIT.search(plain_text(blocks(message.content))[-_SHORT:])
        if found is None:
            return Verdict("unknown")
        code = int(found[1])
    return Verdict("succeeded", nonzero=_nonzero(code))


class _Told(msgspec.Struct):
    status: object = None
    tool: object = None


def _tells_error(content: bytes) -> bool:
    """Before there were details, a thrown error was a text that is JSON with a status and a tool."""
    if len(content) > _SHORT or b"status" not in content:
        return False
    text = plain_text(blocks(msgspec.Raw(content)))
    try:
        told = msgspec.json.decode(text, type=_Told)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return False
    return told.status == "error" and told.tool is not None
