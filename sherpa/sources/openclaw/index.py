"""What is known of sessions beside their transcripts: the index of the JSONL era, the windows of a store."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from sherpa.sources.openclaw.database import Window

_ENDED = {"done": "success", "failed": "failure", "killed": "failure", "timeout": "failure"}
_KINDS = (
    "heartbeat",
    "subagent",
    "cron",
    "hook",
    "dashboard",
    "explicit",
    "tui",
    "group",
    "channel",
    "room",
    "direct",
    "dm",
    "slash",
    "main",
)


@dataclass(frozen=True)
class About:
    """What is known of a session.

    Attributes
    ----------
    key : str or None
        Session key, for instance ``agent:main:cron:…``.
    parent_key : str or None
        Key of the session that spawned this one.
    outcome : str or None
        ``success`` or ``failure`` if the installation says how it ended.
    status : str or None
        The same in its own word.
    """

    key: str | None = None
    parent_key: str | None = None
    outcome: str | None = None
    status: str | None = None

    @property
    def kind(self) -> str | None:
        """What started the session, read off its key: ``cron``, ``subagent``, ``direct`` …"""
        if self.key is None:
            return None
        parts = self.key.lower().split(":")
        return next((k for k in _KINDS if any(p == k or p.startswith(f"{k}-") for p in parts[1:] or parts)), "other")


UNKNOWN = About()


def from_window(window: Window) -> About:
    """What a store says."""
    return About(window.key, window.parent_key, _ENDED.get(window.status or ""), window.status)


def read_index(path: Path) -> tuple[dict[str, About], str | None]:
    """(what ``sessions.json`` says by session id, what is wrong with it). Its paths are never followed."""
    try:
        entries = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        return {}, f"cannot be read: {error.strerror or error}"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return {}, f"broken JSON: {error}"
    if not isinstance(entries, dict):
        return {}, "is not an object"
    found: dict[str, About] = {}
    for key, entry in entries.items():
        if isinstance(entry, dict) and isinstance(entry.get("sessionId"), str):
            status = _string(entry.get("status"))
            about = About(
                key,
                _string(entry.get("spawnedBy")) or _string(entry.get("parentSessionKey")),
                _ENDED.get(status or ""),
                status,
            )
            found.setdefault(entry["sessionId"], about)
    return found, None


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
