"""What surrounds the words of a user in a transcript, and the marks in texts that OpenClaw writes itself."""

from __future__ import annotations

import re
from typing import NamedTuple

_METADATA = re.compile(
    r"\A\s*(?:Sender|Conversation info|Thread info|Reply context) \(untrusted[^)]*\):\s*```.*?```\s*", re.S
)
_CHANNEL = re.compile(
    r"\A\s*\[(?!cron:|OpenClaw|Subagent|System|Inter-session|Internal|Queued)"
    r"[^\]\n]{3,160}\d{4}-\d{2}-\d{2}[^\]\n]{0,60}\]\s*"
)
_MESSAGE_ID = re.compile(r"\s*\[message_id: [^\]\n]*\]\s*\Z")
_QUEUED = re.compile(r"\A\s*\[Queued messages while agent was busy\]\s*(?:---\s*)?(?:Queued #\d+\s*)?")
_BACKGROUND = re.compile(r"Exec (completed|failed|finished) \(([^,)\s]+)(?:,\s*(?:exit )?code (-?\d+))?")
_LOOK = 65_536


def own_words(text: str) -> str:
    """A text without the envelopes that channels put around it."""
    head, tail = text[:_LOOK], text[_LOOK:]
    for _ in range(6):
        shorter = _QUEUED.sub("", _CHANNEL.sub("", _METADATA.sub("", head)))
        if shorter == head:
            break
        head = shorter
    return _MESSAGE_ID.sub("", head + tail).strip() if not tail else (head + tail).strip()


class EndedJob(NamedTuple):
    """The end of a background command, as OpenClaw announces it."""

    session: str
    failed: bool
    exit_code: int | None


def ended_job(text: str) -> EndedJob | None:
    """The background command whose end a text announces.

    >>> ended_job("System: [2026-06-01 10:00:00 UTC] Exec completed (nova-dune, code 1) :: done")
    EndedJob(session='nova-dune', failed=False, exit_code=1)
    """
    found = _BACKGROUND.search(text[:512])
    if found is None:
        return None
    word, job, code = found.groups()
    return EndedJob(job, word == "failed", None if code is None else int(code))
