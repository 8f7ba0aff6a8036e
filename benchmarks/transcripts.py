"""A transcript of any size, made of turns like those of real sessions."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

_START = datetime(2026, 3, 1, tzinfo=UTC)
_SIZES = (50, 100, 200, 400, 800, 1500, 3000, 6000, 12_000)
_TOOLS = ("exec", "read", "write", "edit", "process", "web_fetch")


@dataclass
class Written:
    """What a transcript holds."""

    lines: int = 0
    bytes: int = 0
    calls: int = 0


def write_transcript(path: Path, size: int, *, seed: int = 1) -> Written:
    """Write a transcript of about `size` bytes; rows have 4 kB on average."""
    done = Written()
    with open(path, "wb") as file:
        for row in rows(seed):
            line = json.dumps(row, separators=(",", ":")).encode() + b"\n"
            file.write(line)
            done.lines += 1
            done.bytes += len(line)
            message = row.get("message", {})
            if message.get("role") == "assistant":
                done.calls += sum(block["type"] == "toolCall" for block in message["content"])
            if done.bytes >= size and message.get("stopReason") == "stop":
                return done
    raise AssertionError("a session never ends by itself")


def rows(seed: int) -> Iterator[dict]:
    """The rows of a session without an end."""
    rng = random.Random(seed)
    texts = [" ".join(f"w{rng.randrange(5000)}" for _ in range(n // 6)) for n in _SIZES for _ in range(20)]
    at, number, calls = _START, 0, 0

    def row(message: dict) -> dict:
        nonlocal at, number
        number += 1
        at += timedelta(milliseconds=rng.randrange(5, 4000))
        parent = f"{number - 1:08x}" if number > 1 else None
        stamp = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {"type": "message", "id": f"{number:08x}", "parentId": parent, "timestamp": stamp, "message": message}

    yield {"type": "session", "version": 3, "id": "large", "timestamp": "2026-03-01T00:00:00.000Z", "cwd": "/w"}
    while True:
        yield row({"role": "user", "content": [{"type": "text", "text": rng.choice(texts)}]})
        for _ in range(rng.randrange(1, 9)):
            turn = []
            for _ in range(rng.choice((1, 1, 1, 2, 3))):
                calls += 1
                tool = rng.choice(_TOOLS)
                given = {"command": "git status"} if tool == "exec" else {"path": "x", "content": rng.choice(texts)}
                turn.append({"type": "toolCall", "id": f"call_{calls}", "name": tool, "arguments": given})
            thought = {"type": "thinking", "thinking": rng.choice(texts)}
            yield row({"role": "assistant", "content": [thought, *turn], "provider": "p", "stopReason": "toolUse"})
            for call in turn:
                details = {
                    "status": "completed",
                    "exitCode": 0,
                    "durationMs": 5,
                    "aggregated": rng.choice(texts)[:2000],
                }
                yield row(
                    {
                        "role": "toolResult",
                        "toolCallId": call["id"],
                        "toolName": call["name"],
                        "content": [{"type": "text", "text": rng.choice(texts)}],
                        "isError": False,
                        "details": details,
                    }
                )
        text = {"type": "text", "text": rng.choice(texts)}
        yield row({"role": "assistant", "content": [text], "provider": "p", "stopReason": "stop"})
