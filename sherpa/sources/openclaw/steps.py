"""What happened in a session, row by row: the neutral form between transcripts and events."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from sherpa.sources.openclaw.taxonomy import Tool


@dataclass(slots=True, eq=False)
class Step:
    """One thing that happened.

    Attributes
    ----------
    kind : str
        ``session.started``, ``session.reset``, ``session.compacted``, ``session.ended``, ``message.user.inbound``,
        ``message.system.KIND``, ``message.assistant.reply``, ``command.KIND`` (typed by the user), or ``tool``.
    instant : int
        Nanoseconds since the epoch; never before the step before it.
    row : str
        Id of the row.
    part : str
        What of the row it is: rows with several calls make several steps.
    actor, outcome : str
    tool, phase : Tool, str
        Of a step of kind ``tool``: ``started``, ``succeeded``, ``failed``, ``running``, ``unknown``, ``unresolved``.
    call_id : str or None
        Of a step of kind ``tool``: the id of its call, as the provider gave it. Ids repeat in some sessions.
    labels, metrics, meta
        As in an event. No text of the session is among them.
    text : str
        Text of the row; only kept if asked for, and never looked at by the mapping to events.
    """

    kind: str
    instant: int
    row: str
    part: str = ""
    actor: str = "agent"
    outcome: str = "unknown"
    tool: Tool | None = None
    phase: str = ""
    call_id: str | None = None
    labels: tuple[str, ...] = ()
    metrics: dict[str, float] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)
    text: str = ""


@dataclass
class Counts:
    """What a transcript holds."""

    lines: int = 0
    entries: int = 0
    user: int = 0
    assistant: int = 0
    tool_calls: int = 0
    tool_results: int = 0
    failures: int = 0
    flagged_errors: int = 0
    running: int = 0
    nonzero_exit: int = 0
    synthetic_results: int = 0
    unresolved: int = 0
    orphan_results: int = 0
    superseded_calls: int = 0
    joined: int = 0
    injected: int = 0
    compactions: int = 0
    resets: int = 0
    abandoned: int = 0
    duplicates: int = 0
    untimed: int = 0
    back_in_time: int = 0
    tools: Counter[str] = field(default_factory=Counter)
    synthetic: Counter[str] = field(default_factory=Counter)
    unknown_types: Counter[str] = field(default_factory=Counter)

    def add(self, other: Counts) -> None:
        """Add the counts of another transcript."""
        for name, value in vars(other).items():
            if isinstance(value, Counter):
                getattr(self, name).update(value)
            else:
                setattr(self, name, getattr(self, name) + value)

    def to_json(self) -> dict[str, Any]:
        """Counts as reports show them (camelCase)."""
        shown: dict[str, Any] = {}
        for name, value in vars(self).items():
            head, *tail = name.split("_")
            key = head + "".join(part.capitalize() for part in tail)
            shown[key] = dict(sorted(value.items())) if isinstance(value, Counter) else value
        return shown
