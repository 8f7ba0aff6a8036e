"""The records of a saga. They are frozen; what changes them is an event (`harness.saga.fold`)."""

from __future__ import annotations

import re
from typing import Any, Literal, get_args

import msgspec

from harness.saga.errors import SagaError

ProfileId = Literal["ops", "research", "curation", "review", "generic"]
EvaluatorMode = Literal["auto", "deep"]
NextAction = Literal[
    "worker_mode_queued",
    "continue_worker_now",
    "revision_queued",
    "eval_deep_required",
    "clarification_needed",
    "await_human",
    "terminated",
]
TerminationReason = Literal[
    "completed",
    "aborted_by_user",
    "plan_rejected",
    "worker_unrecoverable",
    "source_unavailable",
    "model_capability_exceeded",
    "budget_exceeded",
    "external_check_failed",
    "human_input_required",
    "internal_error",
]
TransitionKind = Literal[
    "awaiting_plan_yaml",
    "plan_required",
    "clarifying_requirements",
    "worker_mode_injected",
    "eval_deep_pending",
    "eval_passed",
    "eval_needs_fix_attempt",
    "microcompact_retry",
    "rework_full",
    "awaiting_human",
]
RecoveryMethod = Literal["fix-attempt", "microcompact-retry", "full-rework", "escalate-human", "terminal"]
RootCauseKind = Literal[
    "network_transient",
    "information_unavailable",
    "source_unavailable",
    "model_capability_exceeded",
    "quality_insufficient",
]
PROFILE_IDS: tuple[ProfileId, ...] = get_args(ProfileId)
KINDS = (
    "command",
    "file-exists",
    "file-schema",
    "file-size-gt",
    "progress-items",
    "browser",
    "log-scan",
    "metrics",
    "free-form",
)
"""Kinds of hard checks. ``free-form`` is the one that is left to the evaluator."""
REWORKING: tuple[TransitionKind, ...] = ("eval_needs_fix_attempt", "microcompact_retry", "rework_full")
SCHEMA_VERSION = 2
Criterion = dict[str, Any]
_SAGA_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)


class Stage(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One stage of a plan. `done_criteria` is never empty after planning."""

    id: str
    title: str
    goal: str = ""
    done_criteria: tuple[Criterion, ...] = ()
    evaluator_mode: EvaluatorMode = "auto"


class Plan(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What the planner gave."""

    summary: str = ""
    stages: tuple[Stage, ...] = ()


class Transition(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """Where the saga goes on: the marker that continue-sites look at. `digest` is that of the artefacts."""

    kind: TransitionKind
    stage_id: str | None = None
    attempt: int | None = None
    issues: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    reason: str | None = None
    digest: str | None = None


class Termination(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Why a saga is over."""

    reason: TerminationReason
    details: str
    ts: str


class Exchange(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One round of clarification."""

    question: str
    answer: str


class Artifact(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What was submitted under a path last."""

    sha256: str
    bytes: int
    stage_id: str
    seq: int


class Failures(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """How often a stage failed in a row with the same artefacts."""

    digest: str
    count: int


class Usage(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What the host reported."""

    tokens: int = 0
    wall_ms: int = 0
    per_stage_tokens: dict[str, int] = {}


class SagaState(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """All that is known of a saga: the fold of its events."""

    saga_id: str
    profile: ProfileId
    goal: str
    plan: Plan | None = None
    stages: tuple[Stage, ...] = ()
    cursor: int = 0
    mode_revision: int = 0
    transition: Transition | None = None
    recovery_attempts: dict[str, int] = {}
    compacted_eval_ids: tuple[str, ...] = ()
    clarification_round: int = 0
    clarification_history: tuple[Exchange, ...] = ()
    clarification_limit: int = 3
    termination: Termination | None = None
    schema_version: int = SCHEMA_VERSION
    last_seq: int = 0
    usage: Usage = Usage()
    human_notes: tuple[str, ...] = ()
    eval_history: tuple[dict[str, Any], ...] = ()
    artifact_index: dict[str, Artifact] = {}
    session: str | None = None
    plan_version: int = 0
    plan_attempts: int = 0
    clarification_closed: bool = False
    transient_retries: dict[str, int] = {}
    failures: dict[str, Failures] = {}
    requests: tuple[str, ...] = ()

    @property
    def current(self) -> Stage | None:
        """The stage that is worked on; None before the plan and after the last stage."""
        return self.stages[self.cursor] if 0 <= self.cursor < len(self.stages) else None

    @property
    def kind(self) -> TransitionKind | None:
        """Kind of the transition."""
        return None if self.transition is None else self.transition.kind

    def artifacts_of(self, stage_id: str) -> dict[str, Artifact]:
        """What a stage submitted."""
        return {path: found for path, found in self.artifact_index.items() if found.stage_id == stage_id}


def check_saga_id(saga_id: object) -> str:
    """The id itself, if it is one.

    Raises
    ------
    SagaError
        If it could lead anywhere but to a folder of its name.
    """
    if not isinstance(saga_id, str) or not _SAGA_ID.fullmatch(saga_id):
        shown = repr(saga_id)[:80]
        raise SagaError(f"sagaId {shown} is none: letters, digits, '.', '_' and '-', at most 128, the first no mark")
    return saga_id


def progress_of(state: SagaState, locale: str = "en") -> dict[str, Any]:
    """How far a saga is, as a record and as lines to show.

    Parameters
    ----------
    locale : str
        ``en`` or ``zh``.
    """
    total, done = len(state.stages), min(state.cursor, len(state.stages))
    headline = f"进度 {done}/{total}" if locale == "zh" else f"{done}/{total} stages done"
    lines = [headline]
    for at, stage in enumerate(state.stages):
        mark = "✅" if at < state.cursor else "🔄" if at == state.cursor else "⬜"
        lines.append(f"{mark} {stage.title}")
    current = state.current
    return {
        "totalStages": total,
        "completedStages": done,
        "currentStage": None if current is None else {"id": current.id, "title": current.title},
        "remainingStages": [{"id": s.id, "title": s.title} for s in state.stages[state.cursor + 1 :]],
        "display": "\n".join(lines),
    }
