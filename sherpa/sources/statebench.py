"""Trajectories of STATE-Bench: one JSON file per conversation, one folder per domain.

Only the order of requests, tool calls and their failures is read. Texts, arguments and identifiers stay where they are,
and so does whether the task was solved: the files do not say it.
"""

from __future__ import annotations

from collections.abc import Iterator
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
        try:
            document = msgspec.json.decode(path.read_bytes())
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OSError) as error:
            raise SourceError(f"broken JSON: {error}", file=path) from None
        conversation = document.get("conversation") if isinstance(document, dict) else None
        if not isinstance(conversation, list):
            raise SourceError("is not a trajectory", file=path, field="conversation")
        yield Trajectory(
            path.parent.name, path.stem, (*_steps(conversation, path), ("task.ended", "system", "unknown"))
        )


def _steps(conversation: list[Any], path: Path) -> Iterator[tuple[str, str, str]]:
    asked = False
    for at, message in enumerate(conversation):
        if not isinstance(message, dict):
            raise SourceError("a message must be an object", file=path, field=f"conversation[{at}]")
        role = message.get("role")
        if role == "user":
            yield ("message.user" if asked else "task.requested"), "user", "unknown"
            asked = True
        elif role == "assistant":
            calls = message.get("tool_calls") or []
            if not isinstance(calls, list):
                raise SourceError("must be a list", file=path, field=f"conversation[{at}].tool_calls")
            for call in calls:
                name = call.get("name") if isinstance(call, dict) else None
                if not isinstance(name, str) or not name:
                    raise SourceError("a tool call needs a name", file=path, field=f"conversation[{at}].tool_calls")
                result = call.get("result")
                failed = isinstance(result, dict) and bool(result.get("error") or result.get("errors"))
                yield f"tool.{name}", "agent", "failure" if failed else "success"
            if message.get("content"):
                yield "message.assistant", "agent", "unknown"
