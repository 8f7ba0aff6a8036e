"""What the four questions answer, as it goes over the wire."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from sherpa.rounding import as_json_number


class Wire(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Base of all answers: camelCase on the wire, integral numbers without a decimal point."""

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries and lists, as the command line prints them."""
        plain: dict[str, Any] = integral(msgspec.to_builtins(self))
        return plain


def json_document(value: Any) -> bytes:
    """A JSON document: two spaces, integral numbers without a decimal point, a newline at the end."""
    return msgspec.json.format(msgspec.json.encode(integral(msgspec.to_builtins(value))), indent=2) + b"\n"


def integral(value: Any) -> Any:
    """The same JSON value with 1.0 as 1 everywhere."""
    if isinstance(value, float):
        return as_json_number(value)
    if isinstance(value, dict):
        return {key: integral(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [integral(item) for item in value]
    return value


class MatchEvidence(Wire, frozen=True, kw_only=True):
    """Which state was matched, and how."""

    mode: str
    description: str
    matched_order: int
    facet_fields: tuple[str, ...]
    state: tuple[str, ...]
    state_key: str


class WorkflowState(Wire, frozen=True, kw_only=True):
    """Answer of `workflow_state`."""

    case_id: str
    state: tuple[str, ...]
    matched_workflow: str | None
    matched_order: int
    confidence: float
    support: int
    matched_by: MatchEvidence | None
    recent_events: tuple[Any, ...]


class Candidate(Wire, frozen=True, kw_only=True):
    """One possible next event."""

    event: str
    probability: float
    support: int
    success_rate: float | None
    failure_rate: float | None
    mean_time_to_next_ms: float | None
    user_response_dist: dict[str, int]
    matched_order: int
    score: float
    reason: str


class WorkflowNext(Wire, frozen=True, kw_only=True):
    """Answer of `workflow_next`.

    With a blended estimator the probabilities of the candidates are its own, `end_probability` is that of the case
    ending here, `calibrated_confidence` how often a first candidate of this probability came true, and
    `prediction_set` what comes next in nine cases of ten; the last two are None without enough past predictions.
    """

    case_id: str
    state: tuple[str, ...]
    match: MatchEvidence | None
    candidates: tuple[Candidate, ...]
    estimator: str | UnsetType = UNSET
    end_probability: float | UnsetType = UNSET
    unseen_probability: float | UnsetType = UNSET
    calibrated_confidence: float | UnsetType | None = UNSET
    prediction_set: tuple[str, ...] | UnsetType | None = UNSET


class OutcomeNote(Wire, frozen=True, kw_only=True):
    """One branch that fails or stalls more often than its state does."""

    branch: str
    kind: str
    probability: float
    relative_risk: float
    support: int
    matched_order: int
    confidence: float
    score: float
    suggested_intervention: str


class BranchLift(Wire, frozen=True, kw_only=True):
    """How the cases that took one branch ended, against all cases that passed its state. Every case counts once."""

    branch: str
    kind: str
    cases: int
    affected: int
    rate: float
    baseline_rate: float
    lift: float
    low: float
    high: float
    raised: bool


class WorkflowOutcomes(Wire, frozen=True, kw_only=True):
    """Answer of `workflow_outcomes`: the published notes, and beside them what holds with an interval."""

    case_id: str
    state: tuple[str, ...]
    outcomes: tuple[OutcomeNote, ...]
    lifts: tuple[BranchLift, ...] | UnsetType = UNSET


class RecalledPath(Wire, frozen=True, kw_only=True):
    """How one past case went on from a similar state."""

    case_id: str
    distance: float
    outcome: str
    matched_order: int
    confidence: float
    score: float
    continuation: tuple[str, ...]


class WorkflowRecall(Wire, frozen=True, kw_only=True):
    """Answer of `workflow_recall`."""

    case_id: str
    state: tuple[str, ...]
    mode: str
    paths: tuple[RecalledPath, ...]
