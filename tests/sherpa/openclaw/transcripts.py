"""Rows and files of made-up sessions."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import zstandard

from sherpa.sources.openclaw import Installation, Mapping, ReadOptions, Session, load_taxonomy
from sherpa.sources.openclaw.index import UNKNOWN
from sherpa.sources.openclaw.replay import Replay, ReplayOptions
from sherpa.sources.openclaw.rows import ROWS
from sherpa.sources.openclaw.steps import Step

START = 1_772_323_200_000
"""2026-03-01T00:00:00Z in milliseconds."""


def stamp(second: float) -> str:
    """A time so many seconds after the start."""
    whole, milli = divmod(round(second * 1000), 1000)
    minutes, rest = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    day, hour = divmod(hours, 24)
    return f"2026-03-{1 + day:02d}T{hour:02d}:{minute:02d}:{rest:02d}.{milli:03d}Z"


class Script:
    """Writes the rows of a session one after another, each a second later and hanging on the one before."""

    def __init__(self, session: str = "s-1", *, second: int = 0, header: bool = True) -> None:
        self.session = session
        self.second = second
        self.rows: list[dict[str, Any]] = []
        self._last: str | None = None
        self._number = 0
        if header:
            self.rows.append({"type": "session", "version": 3, "id": session, "timestamp": stamp(second), "cwd": "/w"})

    def row(self, kind: str, /, **fields: Any) -> str:
        """Any row; returns its id."""
        self.second += 1
        self._number += 1
        name = fields.pop("id", f"{self.session}-{self.second:04d}-{self._number}")
        base = {"type": kind, "id": name, "parentId": self._last, "timestamp": stamp(self.second)}
        self.rows.append({**base, **fields})
        self._last = name
        return str(name)

    def message(self, role: str, content: Any, **more: Any) -> str:
        over = {k: more.pop(k) for k in ("id", "parentId", "timestamp", "appendMode") if k in more}
        body = {"role": role, "content": content, "timestamp": START + 1000 * (self.second + 1), **more}
        return self.row("message", message=body, **over)

    def user(self, text: str = "please go on", **more: Any) -> str:
        return self.message("user", [{"type": "text", "text": text}], **more)

    def calls(self, *calls: tuple[str, str] | tuple[str, str, dict[str, Any]], **more: Any) -> str:
        """A turn of the assistant with calls of (id, tool, arguments)."""
        content = [
            {"type": "toolCall", "id": c[0], "name": c[1], "arguments": c[2] if len(c) > 2 else {}} for c in calls
        ]
        return self.message("assistant", content, **{"stopReason": "toolUse", "provider": "p", **more})

    def result(
        self, call: str, tool: str, details: Any = None, *, error: bool = False, text: str = "done", **more: Any
    ) -> str:
        extra = {} if details is None else {"details": details}
        content = [{"type": "text", "text": text}]
        return self.message("toolResult", content, toolCallId=call, toolName=tool, isError=error, **extra, **more)

    def reply(self, text: str = "done", **more: Any) -> str:
        content = [{"type": "text", "text": text}]
        return self.message("assistant", content, **{"stopReason": "stop", "provider": "p", **more})

    def lines(self) -> list[str]:
        return [json.dumps(row) for row in self.rows]

    def text(self) -> str:
        return "".join(line + "\n" for line in self.lines())


def replayed(script: Script, **options: Any) -> tuple[list[Step], Replay]:
    """Steps of a script, and the replay that made them."""
    replay = Replay(load_taxonomy(), ReplayOptions(**options))
    steps: list[Step] = []
    for line in script.lines():
        steps += replay.feed(ROWS.decode(line), line.encode())
    return steps + replay.finish(), replay


def shown(step: Step) -> str:
    """A step in short."""
    return step.kind if step.tool is None else f"{step.tool.operation}.{step.phase}"


def tools(steps: Iterable[Step]) -> list[str]:
    """The steps of tools, in short."""
    return [shown(s) for s in steps if s.tool is not None]


def write(folder: Path, name: str, text: str | bytes) -> Path:
    """A file, with its folders."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def packed(text: str) -> bytes:
    return zstandard.ZstdCompressor().compress(text.encode())


def events_of(path: Path, mapping: Mapping | None = None, **options: Any) -> list[tuple[str, str, str, str]]:
    """(case, id, type, outcome) of every event under a path."""
    mapping = mapping or Mapping()
    with Installation(path, ReadOptions(**options)) as installation:
        return [
            (e.case_id, e.event_id, e.type, e.outcome)
            for session in installation.sessions
            for e in mapping.events(session, session.steps())
        ]


def session_of(part: Any, installation: Installation) -> Session:
    """One part as a session by itself."""
    return Session(part.host, part.agent, part.session, [part], UNKNOWN, installation.taxonomy, installation.options)


def make_store(
    path: Path,
    sessions: dict[str, Sequence[str]],
    *,
    version: int = 22,
    columns: str = "session_id TEXT, seq INTEGER, event_json TEXT, created_at INTEGER",
    pack: bool = False,
) -> Path:
    """A per-agent store of rows; with `pack` every second row is compressed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(path)
    if pack:
        columns += ", event_zstd BLOB, event_utf8_bytes INTEGER"
    db.execute(f"CREATE TABLE transcript_events ({columns}, PRIMARY KEY (session_id, seq))")
    db.execute(f"PRAGMA user_version = {version}")
    for session, lines in sessions.items():
        for seq, line in enumerate(lines):
            row: list[Any] = [session, seq, line, START + seq]
            if pack:
                row += [None, None]
                if seq % 2:
                    row[2], row[4], row[5] = None, packed(line), len(line.encode())
            db.execute(f"INSERT INTO transcript_events VALUES ({', '.join('?' * len(row))})", row)
    db.commit()
    db.close()
    return path
