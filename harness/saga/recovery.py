"""What happens after a failure: two attempts to fix, a start with short notes, the stage from scratch, the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.saga.model import NextAction, RecoveryMethod, SagaState

MAX_ATTEMPTS = 4
TRANSIENT_RETRIES = 2
"""Failures of the network that cost no attempt."""
_LAYERS: tuple[tuple[RecoveryMethod, NextAction], ...] = (
    ("fix-attempt", "revision_queued"),
    ("fix-attempt", "revision_queued"),
    ("microcompact-retry", "revision_queued"),
    ("full-rework", "worker_mode_queued"),
)
_NEXT_LAYER = {0: 2, 1: 2, 2: 3, 3: 3}
"""Where a stage that is stuck goes on: past what is the same as before, never past the rework."""
_REWORK = 3


@dataclass(frozen=True)
class Decision:
    """One step of the cascade.

    Attributes
    ----------
    layer : int or None
        Of the cascade, 0 to 3; None for its end.
    attempt : int
        The counter after the decision.
    stuck : bool
        Whether a layer was passed over, as nothing had changed.
    """

    method: RecoveryMethod
    next_action: NextAction
    layer: int | None
    attempt: int
    diagnostic: str
    stuck: bool = False


def decide(
    state: SagaState, stage_id: str, issues: Sequence[str], *, stuck: bool = False, cap: int = MAX_ATTEMPTS
) -> Decision:
    """What to do about a failure of a stage.

    Parameters
    ----------
    stuck : bool
        Whether the artefacts were the same in as many failures as the profile bears.
    cap : int
        Attempts to fix and to retry that the profile bears before the rework.
    """
    before = state.recovery_attempts.get(stage_id, 0)
    listed = "; ".join(issues[:3]) or "no reason was given"
    if before >= MAX_ATTEMPTS:
        text = f"stage {stage_id} failed {before + 1} times: {listed}"
        return Decision("terminal", "terminated", None, before, text)
    layer = _NEXT_LAYER[before] if stuck else before
    if cap <= layer < _REWORK:
        layer = _REWORK
    method, action = _LAYERS[layer]
    return Decision(method, action, layer, layer + 1, f"{method} for stage {stage_id}: {listed}", layer != before)
