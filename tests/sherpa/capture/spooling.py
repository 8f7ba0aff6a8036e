"""A writer of spool files, as the plugin is one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from sherpa.capture.queue import CaptureQueue
from sherpa.capture.recorder import Recorder
from sherpa.configuration import configure

KEY = "agent:main:telegram:direct:42"
START = 1_800_000_000_000


class Writer:
    """One process of a host: every call of a method is a call of a hook, a millisecond after the one before."""

    def __init__(self, root: Path, *, pid: int | None = None, word: str = "w", key: str = KEY, at: int = START) -> None:
        self.folder = root / "spool"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.pid = os.getpid() if pid is None else pid
        self.word, self.key, self.at, self.n = word, key, at, 0
        self.session_id: str | None = "s1"
        self.run = "r1"
        self.path = self._file(at)

    def _file(self, begun: int) -> Path:
        return self.folder / f"{self.pid}-{begun}-{self.word}.jsonl"

    def rotate(self) -> None:
        self.at += 1
        self.path = self._file(self.at)

    def raw(self, data: bytes) -> None:
        with open(self.path, "ab") as file:
            file.write(data)

    def record(self, hook: str, **facts: Any) -> dict[str, Any]:
        self.at += 1
        place = {"key": self.key, "agentId": "main", "channel": "telegram"}
        if self.session_id is not None:
            place["sessionId"] = self.session_id
        self.n += 1
        return {
            "id": f"{self.word}{self.n}",
            "at": self.at,
            "n": self.n,
            "hook": hook,
            "session": place,
            "runId": self.run,
            **facts,
        }

    def write(self, hook: str, **facts: Any) -> None:
        self.raw(json.dumps(self.record(hook, **facts)).encode() + b"\n")

    def start(self, tool: str, call: str | None = None, **facts: Any) -> None:
        self.write("before_tool_call", tool=tool, **({"callId": call} if call else {}), **facts)

    def end(self, tool: str, call: str | None = None, **facts: Any) -> None:
        self.write("after_tool_call", tool=tool, **({"callId": call} if call else {}), **facts)

    def prompt(self, text: str, run: str = "r1", **facts: Any) -> None:
        self.run = run
        self.write("before_prompt_build", text=text, **facts)


def recorder(root: Path, **options: Any) -> Recorder:
    return Recorder(root, configure(options))


def queued(root: Path) -> list[dict[str, Any]]:
    """Takes everything out of the queue."""
    found: list[dict[str, Any]] = []
    CaptureQueue(root / "queue").flush(found.extend)
    return found


def told(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """(id of the call, or the case's event; type) in order."""
    return [(e["meta"].get("toolCallId", "-"), e["type"]) for e in events]
