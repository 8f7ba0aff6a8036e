"""Profiles are data: a JSON file each, with examples for the evaluator, a hint for the worker, a plan, and a skill."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from harness.saga.errors import ProfileError
from harness.saga.model import KINDS, PROFILE_IDS, EvaluatorMode, ProfileId
from harness.saga.parse import Rules, parse_plan

FOLDER = Path(__file__).parent
SKILLS = FOLDER.parent / "skills"
WEIGHTS_WITHIN = 0.05
Text = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=1)]


class _Part(msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """Part of a profile's file; unknown keys are errors."""


class HardItem(_Part, frozen=True, kw_only=True):
    """What must hold, and what it means if it does not."""

    id: Annotated[str, Meta(pattern=r"^H\d+$")]
    title: Text
    pass_description: Text
    fail_rework_description: Text
    fail_escalate_description: Text


class SoftItem(_Part, frozen=True, kw_only=True):
    """What is scored from 1 to 5."""

    id: Annotated[str, Meta(pattern=r"^S\d+$")]
    title: Text
    weight: Annotated[float, Meta(ge=0, le=1)]
    scoring_guide: Text


class Checklist(_Part, frozen=True, kw_only=True):
    hard: Annotated[tuple[HardItem, ...], Meta(min_length=1)]
    soft: Annotated[tuple[SoftItem, ...], Meta(min_length=1)]


class RubricItem(_Part, frozen=True, kw_only=True):
    id: Text
    weight: Annotated[float, Meta(ge=0, le=1)]
    description: Text
    scoring_guide: Text


class Rubric(_Part, frozen=True, kw_only=True):
    criteria: tuple[RubricItem, ...]


class Threshold(_Part, frozen=True, kw_only=True):
    criterion_id: Text
    min: float


class Evaluator(_Part, frozen=True, kw_only=True):
    intensity: Literal["light", "standard", "deep"]
    require_external_check: bool
    require_checklist: bool
    few_shot_calibration_path: Text
    checklist: Checklist
    rubric: Rubric
    hard_thresholds: tuple[Threshold, ...] = ()


class AssumedModel(_Part, frozen=True, kw_only=True):
    min_tier: Literal["basic", "standard", "strong"]
    capabilities: tuple[str, ...] = ()


class Strategy(_Part, frozen=True, kw_only=True):
    kind: Text
    min_stages: Count
    max_stages: Count
    default_evaluator: EvaluatorMode
    clarification_rounds: Annotated[int, Meta(ge=0, le=10)]
    allowed_kinds: tuple[str, ...]


class Bootstrap(_Part, frozen=True, kw_only=True):
    id: Text
    description: Text
    kind: Text
    spec: dict[str, Any]
    failure_policy: Literal["warn", "ask", "stop"]


class ProgressSchema(_Part, frozen=True, kw_only=True):
    kind: Text
    item_fields: tuple[str, ...]
    append_only: bool


class ContractTemplate(_Part, frozen=True, kw_only=True):
    required_sections: tuple[str, ...]
    min_machine_checks: int
    max_negotiation_rounds: int


class StuckDetection(_Part, frozen=True, kw_only=True):
    no_progress_rework_limit: Annotated[int, Meta(ge=2)]


class Recovery(_Part, frozen=True, kw_only=True):
    resume_strategy: Literal["auto", "reset"]
    max_rework_per_stage: Count
    context_reset_threshold_ratio: Annotated[float, Meta(gt=0, le=1)]
    stuck_detection: StuckDetection


class Budget(_Part, frozen=True, kw_only=True):
    max_tokens: Count
    max_wall_clock_minutes: Count
    per_stage_token_cap: Count


class BenchGoal(_Part, frozen=True, kw_only=True):
    goal: Text
    expected_artifacts: tuple[str, ...]
    max_tokens: Count
    max_wall_clock_ms: Count


class Profile(_Part, frozen=True, kw_only=True):
    """A domain: how it plans, judges and recovers, and what it may use up."""

    id: ProfileId
    version: Text
    label: Text
    description: Text
    domain: ProfileId
    assumed_model: AssumedModel
    strategy: Strategy
    evaluator: Evaluator
    recovery: Recovery
    budget: Budget
    bench_goal: BenchGoal
    bootstrap: tuple[Bootstrap, ...] = ()
    progress_schema: ProgressSchema | None = None
    contract_template: ContractTemplate | None = None
    invariants: tuple[str, ...] = ()

    def rules(self, *, strict: bool = False) -> Rules:
        """What plans of this profile follow."""
        return Rules(self.strategy.default_evaluator, self.strategy.allowed_kinds, strict)

    @property
    def calibration(self) -> str:
        """Worked examples for the evaluator."""
        return _text(FOLDER / self.evaluator.few_shot_calibration_path)

    @property
    def worker_hint(self) -> str:
        """What the worker is told about tools."""
        return _text(FOLDER / "tools" / f"{self.id}.md")

    @property
    def example_plan(self) -> str:
        """A plan as the planner should write one."""
        return _text(FOLDER / "plans" / f"{self.id}.md")


def profile_of(profile_id: object) -> Profile:
    """A bundled profile.

    Raises
    ------
    ProfileError
        If there is none of this name.
    """
    if profile_id not in PROFILE_IDS:
        raise ProfileError(f"profile {str(profile_id)[:60]!r} is unknown; it is one of {', '.join(PROFILE_IDS)}")
    return _bundled(str(profile_id))


@lru_cache(maxsize=len(PROFILE_IDS))
def _bundled(profile_id: str) -> Profile:
    return read_profile(FOLDER / f"{profile_id}-default.json")


def read_profile(path: Path) -> Profile:
    """A profile from its file.

    Raises
    ------
    ProfileError
        Naming everything that is wrong with it.
    """
    try:
        profile = msgspec.json.decode(path.read_bytes(), type=Profile)
    except OSError as error:
        raise ProfileError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise ProfileError(f"{path}: {error}") from None
    problems = _problems(profile)
    if problems:
        raise ProfileError(f"{path}: {'; '.join(problems)}")
    return profile


def lint(path: Path) -> list[str]:
    """What is wrong with a profile's file and, if it is a bundled one, with the files beside it."""
    try:
        profile = read_profile(path)
    except ProfileError as error:
        return [str(error)]
    if path.resolve().parent != FOLDER.resolve():
        return []
    return _missing_files(profile)


def _problems(profile: Profile) -> list[str]:
    hard, soft = profile.evaluator.checklist.hard, profile.evaluator.checklist.soft
    problems = []
    for letter, ids in (("H", [item.id for item in hard]), ("S", [item.id for item in soft])):
        wanted = [f"{letter}{n}" for n in range(1, len(ids) + 1)]
        if ids != wanted:
            problems.append(f"checklist ids are {', '.join(ids)}, not {', '.join(wanted)}")
    total = math.fsum(item.weight for item in soft)
    if abs(total - 1) > WEIGHTS_WITHIN:
        problems.append(f"weights of the soft items sum to {total:g}, not to 1")
    unknown = sorted(set(profile.strategy.allowed_kinds) - set(KINDS))
    if unknown:
        problems.append(f"allowedKinds names unknown kinds: {', '.join(unknown)}")
    if profile.domain != profile.id:
        problems.append(f"domain is {profile.domain}, the id is {profile.id}")
    if profile.strategy.min_stages > profile.strategy.max_stages:
        problems.append("minStages is above maxStages")
    criteria = {item.id for item in profile.evaluator.rubric.criteria}
    problems += [
        f"hardThresholds names {threshold.criterion_id}, which the rubric does not have"
        for threshold in profile.evaluator.hard_thresholds
        if threshold.criterion_id not in criteria
    ]
    return problems


def _missing_files(profile: Profile) -> list[str]:
    skill = SKILLS / f"saga-{profile.id}" / "SKILL.md"
    problems = [
        f"{path} is missing or empty"
        for path in (
            FOLDER / profile.evaluator.few_shot_calibration_path,
            FOLDER / "tools" / f"{profile.id}.md",
            FOLDER / "plans" / f"{profile.id}.md",
            skill,
            SKILLS / "_shared" / "saga-workflow.md",
        )
        if not path.is_file() or not path.read_text(encoding="utf-8").strip()
    ]
    if problems:
        return problems
    examples = profile.calibration.lower()
    problems += [
        f"the worked examples have no part on {word!r}"
        for word in ("pass", "rework", "escalate", "boundary")
        if f": {word}" not in examples and f"## {word}" not in examples
    ]
    plan = parse_plan(profile.example_plan, profile.rules())
    if not plan.stages or plan.missing or plan.notices:
        problems.append(f"the example plan is not clean: {[*plan.missing, *plan.notices]}")
    head = _text(skill)
    if not head.startswith("---\n") or f"name: saga-{profile.id}" not in head or "description:" not in head:
        problems.append(f"{skill} has no name and description")
    return problems


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ProfileError(f"{path}: cannot be read: {error.strerror or error}") from None
