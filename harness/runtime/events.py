"""The closed vocabulary of the event log."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

KINDS = frozenset(
    [
        "run_started",
        "plan_recorded",
        "run_terminal",
        "run_paused",
        "run_resumed",
        "control_requested",
        "env_fingerprint",
        "node_created",
        "node_state_changed",
        "node_progress",
        "loop_iteration_done",
        "node_inputs_resolved",
        "decompose_outcome",
        "lease_acquired",
        "lease_released",
        "lease_denied",
        "attempt_started",
        "attempt_finished",
        "crash_detected",
        "orphan_recovered",
        "in_doubt_detected",
        "in_doubt_resolved",
        "admission_checked",
        "tool_call_started",
        "tool_call_finished",
        "artifact_written",
        "message_enqueued",
        "message_delivered",
        "journal_appended",
        "chunk_indexed",
        "summary_created",
        "finding_raised",
        "finding_disposition",
        "review_round",
        "usage_checkpoint",
        "channel_called",
        "cache_hit",
        "advisory_exposed",
    ]
)
"""28 published kinds, and those that the log needs so that nothing lives outside it."""

RUN_STATUSES = frozenset(
    ["running", "paused", "completed", "failed", "blocked", "escalated", "cancelled", "budget_exhausted"]
)
FINAL = frozenset(["completed", "failed", "escalated", "cancelled", "budget_exhausted"])
"""Statuses that a resume gives back unchanged; blocked is loud, but can be continued."""
NODE_STATES = frozenset(
    [
        "pending",
        "leased",
        "running",
        "completed",
        "failed",
        "blocked",
        "escalated",
        "cancelled",
        "skipped",
        "budget_exhausted",
    ]
)
USAGE_FIELDS = ("tokens", "cost_usd", "nodes", "attempts", "wall_seconds")
DISPOSITIONS = frozenset(["open", "fixed", "accepted_risk", "invalid", "deferred", "superseded"])
JOURNAL_KINDS = frozenset(["intent", "decision", "observation", "assumption", "blocker", "result"])


class RunEvent(Struct, frozen=True):
    """One line of the log.

    Attributes
    ----------
    seq : int
        Place in the log of the whole workspace.
    ts : float
        Seconds since the epoch.
    causal_seq : int or None
        The event this one follows from.
    """

    seq: int
    ts: float
    run_id: str
    node_key: str | None
    kind: str
    payload: dict[str, Any]
    causal_seq: int | None = None
