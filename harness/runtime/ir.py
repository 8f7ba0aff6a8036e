"""The records of problems and plans. A plan is data: nine kinds of nodes, told apart by the field ``kind``."""

from __future__ import annotations

import hashlib
import math
import re
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct, field

from harness.runtime.errors import PlanError

NODE_ID = re.compile(r"[a-z][a-z0-9_]*")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_encoder = msgspec.json.Encoder(order="deterministic")

NodeId = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]*$")]
Positive = Annotated[int, Meta(ge=1)]
Fraction = Annotated[float, Meta(gt=0, le=1)]


class _Record(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the records: unknown fields are errors, so that a misspelt one is not lost."""


class Budgets(_Record, frozen=True, kw_only=True):
    """What a run or a part of it may use. Zero cost means no paid spending at all.

    Raises
    ------
    PlanError
        If a value is not in its domain.
    """

    max_nodes: int = 200
    max_attempts_per_node: int = 2
    max_depth: int = 6
    max_fanout: int = 4
    max_tokens: int = 200_000
    max_cost_usd: float = 0.0
    max_wall_seconds: float = 900.0

    def __post_init__(self) -> None:
        for name in ("max_nodes", "max_attempts_per_node", "max_depth", "max_fanout"):
            _check_number(name, getattr(self, name), least=1, whole=True)
        _check_number("max_tokens", self.max_tokens, least=0, whole=True)
        _check_number("max_cost_usd", self.max_cost_usd, least=0)
        _check_number("max_wall_seconds", self.max_wall_seconds, least=0)
        if self.max_wall_seconds == 0:
            raise PlanError("budgets: max_wall_seconds must be above 0")


def _check_number(name: str, value: object, *, least: int, whole: bool = False) -> None:
    kind = int if whole else int | float
    if isinstance(value, bool) or not isinstance(value, kind) or not math.isfinite(value) or value < least:
        raise PlanError(
            f"budgets: {name} must be a {'whole ' if whole else ''}number of at least {least}, not {value!r}"
        )


class Authority(_Record, frozen=True, kw_only=True):
    """Patterns of what may be touched; empty means nothing."""

    fs_read: tuple[str, ...] = ()
    fs_write: tuple[str, ...] = ()
    net_domains: tuple[str, ...] = ()
    subprocess_allow: tuple[str, ...] = ()


class AcceptanceCheck(_Record, frozen=True, kw_only=True):
    """How a result is judged: a test run, a predicate over ``outputs``, or a schema."""

    id: str
    kind: Literal["pytest", "jsonschema", "predicate"]
    spec: dict[str, Any] = {}


class ProblemSpec(_Record, frozen=True, kw_only=True):
    """A goal with everything that bounds it. It does not change once a run has begun."""

    id: str
    goal: str
    inputs: dict[str, Any] = {}
    output_schema: dict[str, Any] = field(default_factory=lambda: {"type": "object"})
    acceptance: tuple[AcceptanceCheck, ...] = ()
    budgets: Budgets = Budgets()
    authority: Authority = Authority()
    attended: bool = False
    metadata: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.id):
            raise PlanError(f"problem id {self.id!r} may only hold letters, digits, '_', '.' and '-'")
        ids = [check.id for check in self.acceptance]
        if len(set(ids)) != len(ids):
            raise PlanError(f"problem {self.id}: two acceptance checks have the same id")


class InvokeCapability(_Record, frozen=True, kw_only=True, tag_field="kind", tag="invoke_capability"):
    """A leaf: one capability is called."""

    id: NodeId
    capability: str
    inputs: dict[str, Any] = {}
    atomic_claim: bool = True
    label: str | None = None


class InvokePlan(_Record, frozen=True, kw_only=True, tag_field="kind", tag="invoke_plan"):
    """Runs a stored plan; ``input_map`` holds expressions for its inputs."""

    id: NodeId
    plan_id: str
    plan_version: Positive | None = None
    input_map: dict[str, str] = {}
    label: str | None = None


class Decompose(_Record, frozen=True, kw_only=True, tag_field="kind", tag="decompose"):
    """A planner writes a child plan for a subgoal."""

    id: NodeId
    subgoal: str
    hints: dict[str, Any] = {}
    budget_fraction: Fraction = 0.5
    fanout_cap: Positive | None = None
    label: str | None = None


class Case(_Record, frozen=True, kw_only=True):
    """One arm of a branch; without ``when`` it is the else."""

    body: Annotated[tuple[Node, ...], Meta(min_length=1)]
    when: str | None = None


class Branch(_Record, frozen=True, kw_only=True, tag_field="kind", tag="branch"):
    """The first case that holds is run; if none does, nothing is."""

    id: NodeId
    cases: Annotated[tuple[Case, ...], Meta(min_length=1)]
    label: str | None = None


class While(_Record, frozen=True, kw_only=True, tag_field="kind", tag="while"):
    """A bounded loop."""

    id: NodeId
    guard: str
    max_iterations: Positive
    body: Annotated[tuple[Node, ...], Meta(min_length=1)]
    label: str | None = None


class Parallel(_Record, frozen=True, kw_only=True, tag_field="kind", tag="parallel"):
    """Branches that run side by side; none cancels another."""

    id: NodeId
    branches: Annotated[tuple[tuple[Node, ...], ...], Meta(min_length=1)]
    label: str | None = None


class AskUser(_Record, frozen=True, kw_only=True, tag_field="kind", tag="ask_user"):
    """Waits for a person."""

    id: NodeId
    question: str
    options: tuple[str, ...] = ()
    label: str | None = None


class Return(_Record, frozen=True, kw_only=True, tag_field="kind", tag="return"):
    """Ends its plan with outputs."""

    id: NodeId
    outputs: dict[str, Any] = {}
    label: str | None = None


class Fail(_Record, frozen=True, kw_only=True, tag_field="kind", tag="fail"):
    """Ends the run as failed."""

    id: NodeId
    reason: str
    label: str | None = None


Node = InvokeCapability | InvokePlan | Decompose | Branch | While | Parallel | AskUser | Return | Fail


class Plan(_Record, frozen=True, kw_only=True):
    """An ordered list of nodes. Authority and budgets that are left out are inherited; given ones hold exactly."""

    id: str
    version: Positive = 1
    problem_id: str | None = None
    authority: Authority | None = None
    budgets: Budgets | None = None
    root: Annotated[tuple[Node, ...], Meta(min_length=1)]
    notes: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.id):
            raise PlanError(f"plan id {self.id!r} may only hold letters, digits, '_', '.' and '-'")

    @property
    def reference(self) -> str:
        """``id@version``."""
        return f"{self.id}@{self.version}"


Read = TypeVar("Read", bound=Struct)


def read_record(raw: object, kind: type[Read]) -> Read:
    """A record from decoded JSON (or the record itself).

    Raises
    ------
    PlanError
        Names the field that is wrong.
    """
    if isinstance(raw, kind):
        return raw
    try:
        return msgspec.convert(raw, kind, strict=True)
    except msgspec.ValidationError as error:
        raise PlanError(f"{kind.__name__}: {error}") from None


def read_problem(raw: object) -> ProblemSpec:
    """A problem from a record, decoded JSON, or the path of a JSON file.

    Raises
    ------
    PlanError
        If it cannot be read or does not fit.
    """
    if isinstance(raw, str | Path):
        try:
            raw = msgspec.json.decode(Path(raw).read_bytes())
        except (OSError, msgspec.DecodeError) as error:
            raise PlanError(f"{raw}: cannot be read as a problem: {error}") from None
    return read_record(raw, ProblemSpec)


def canonical(value: object) -> bytes:
    """JSON with sorted keys; the same value always gives the same bytes."""
    return _encoder.encode(value)


def digest(value: object) -> str:
    """SHA-256 of the canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical(value)).hexdigest()


def root_plan(problem: ProblemSpec) -> Plan:
    """The plan a run begins with: the literal nodes of ``metadata.root_nodes``, or one decomposition of the goal.

    Raises
    ------
    PlanError
        If the literal nodes do not fit the schema.
    """
    nodes = problem.metadata.get("root_nodes")
    if nodes is None:
        hints = dict(problem.metadata)
        nodes = [{"kind": "decompose", "id": "solve", "subgoal": problem.goal, "hints": hints, "budget_fraction": 1.0}]
    return read_record({"id": f"root_{problem.id}", "problem_id": problem.id, "root": nodes}, Plan)
