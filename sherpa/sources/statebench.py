"""Trajectories of STATE-Bench: one JSON file per conversation, one folder per domain.

Only the order of requests, tool calls and their failures is read. Texts, arguments and identifiers stay where they are,
and so does whether the task was solved: the files do not say it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from sherpa.collation import collation_key
from sherpa.errors import SourceError


@dataclass(frozen=True)
class Trajectory:
    """One conversation as (type, actor, outcome) steps."""

    domain: str
    task: str
    steps: tuple[tuple[str, str, str], ...]


def read_trajectories(folder: Path) -> Iterator[Trajectory]:
    """Every trajectory under a folder, by domain and file name.

    A request of the user is ``task.requested`` the first time and ``message.user`` afterwards, a tool call is
    ``tool.NAME`` (a failure if its result holds an error), an answer of the agent is ``message.assistant``; the last
    event is ``task.ended``.

    Raises
    ------
    SourceError
        If a file is not a trajectory, or there is none.
    """
    files = sorted(folder.rglob("*.json"), key=lambda p: collation_key(p.relative_to(folder).as_posix()))
    if not files:
        raise SourceError("holds no trajectories (.json files)", file=folder)
    for path in files:
        steps = _steps(read_conversation(path), path)
        yield Trajectory(path.parent.name, path.stem, (*steps, ("task.ended", "system", "unknown")))


def read_conversation(path: Path, what: str = "a trajectory") -> Iterator[dict[str, Any]]:
    """The messages of a file, in order; nothing else in it is looked at.

    Raises
    ------
    SourceError
        If the file has no conversation, or a message is not an object.
    """
    try:
        document = msgspec.json.decode(path.read_bytes())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OSError) as error:
        raise SourceError(f"broken JSON: {error}", file=path) from None
    conversation = document.get("conversation") if isinstance(document, dict) else None
    if not isinstance(conversation, list):
        raise SourceError(f"is not {what}", file=path, field="conversation")
    for at, message in enumerate(conversation):
        if not isinstance(message, dict):
            raise SourceError("a message must be an object", file=path, field=f"conversation[{at}]")
        yield message


def tool_calls(message: dict[str, Any], path: Path, at: int) -> Iterator[dict[str, Any]]:
    """The tool calls of the message at a place of a conversation; each has a name.

    Raises
    ------
    SourceError
        If they are no list of calls.
    """
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise SourceError("must be a list", file=path, field=f"conversation[{at}].tool_calls")
    for call in calls:
        if not isinstance(call, dict) or not isinstance(call.get("name"), str) or not call["name"]:
            raise SourceError("a tool call needs a name", file=path, field=f"conversation[{at}].tool_calls")
        yield call


def _steps(conversation: Iterable[dict[str, Any]], path: Path) -> Iterator[tuple[str, str, str]]:
    asked = False
    for at, message in enumerate(conversation):
        role = message.get("role")
        if role == "user":
            yield ("message.user" if asked else "task.requested"), "user", "unknown"
            asked = True
        elif role == "assistant":
            for call in tool_calls(message, path, at):
                result = call.get("result")
                failed = isinstance(result, dict) and bool(result.get("error") or result.get("errors"))
                yield f"tool.{call['name']}", "agent", "failure" if failed else "success"
            if message.get("content"):
                yield "message.assistant", "agent", "unknown"
