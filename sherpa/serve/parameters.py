"""What each operation takes. One definition gives the check at the door, the OpenAPI document and the MCP schemas."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sherpa.event import EventContext, Projection

LONGEST_NAME = 512
MOST_EVENTS = 10_000
PRINTABLE = r"^[^\x00-\x1f\x7f]*$(?!\n)"
"""No control characters. ``$`` alone would let a line break at the end pass."""
_DAY = (
    r"(?:(?:1[7-9]|2[01])\d\d-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)"
    r"|(?:0[13578]|1[02])-31)|(?:(?:1[7-9]|2[01])(?:0[48]|[2468][048]|[13579][26])|2000)-02-29)"
)
INSTANT = _DAY + r"T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
"""Every time that exists from 1700 to 2199; what is read is wider (`sherpa.instants`), so this only documents."""
FILE_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$(?!\n)"

_TIME = Meta(
    min_length=1,
    max_length=64,
    description="ISO 8601 with time zone; the present time by default.",
    extra_json_schema={"pattern": f"^{INSTANT}$(?!\\n)"},
)
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, pattern=PRINTABLE)]
CaseId = Annotated[Name, Meta(description="Case to ask about, for instance session:42.")]
Limit = Annotated[int, Meta(ge=1, le=1_000, description="How many rows at most.")]
Labels = Annotated[tuple[Annotated[str, Meta(max_length=LONGEST_NAME, pattern=PRINTABLE)], ...], Meta(max_length=256)]


class Parameters(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Base: camelCase on the wire, unknown keys are errors."""


class SessionOf(Parameters, frozen=True, kw_only=True):
    """A session of a host; it stands for the case that its next event belongs to."""

    key: Annotated[Name, Meta(description="Session key, for instance agent:main:telegram:direct:42.")]
    agent_id: Name | None = None
    channel: Name | None = None
    is_group: bool | None = None


class Nothing(Parameters, frozen=True, kw_only=True):
    """No parameters."""


class OfCase(Parameters, frozen=True, kw_only=True):
    """Names a case, by itself or by a session; exactly one of both."""

    case_id: CaseId | UnsetType = UNSET
    session: SessionOf | UnsetType = UNSET


class State(OfCase, frozen=True, kw_only=True):
    """Parameters of ``state``."""

    max_order: Annotated[int, Meta(ge=1, le=16, description="Longest suffix to try.")] | UnsetType = UNSET


class Next(OfCase, frozen=True, kw_only=True):
    """Parameters of ``next``."""

    limit: Limit = 5


class Outcomes(OfCase, frozen=True, kw_only=True):
    """Parameters of ``outcomes``."""

    limit: Limit = 3


class Recall(OfCase, frozen=True, kw_only=True):
    """Parameters of ``recall``."""

    mode: Annotated[Literal["successful", "failed", "any"], Meta(description="Which cases: by how they ended.")] = (
        "successful"
    )
    limit: Limit = 3


class Advise(OfCase, frozen=True, kw_only=True):
    """Parameters of ``advise``."""

    record: Annotated[bool, Meta(description="Count it as given, and begin the pause of this case.")] = False


class TaxonomyReport(Parameters, frozen=True, kw_only=True):
    """Parameters of ``taxonomy``."""

    recent_days: Annotated[int, Meta(ge=1, le=3_650, description="Length of the recent window.")] = 14
    rare_support: Annotated[int, Meta(ge=0, le=1_000_000, description="A type with so few events is rare.")] = 3
    limit: Limit = 10


class AnalyticsReport(Parameters, frozen=True, kw_only=True):
    """Parameters of ``analytics``."""

    limit: Limit = 10


class Forget(Parameters, frozen=True, kw_only=True):
    """Parameters of ``forget``."""

    case_id: CaseId


class IncomingEvent(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """An event as it comes through a door: like `sherpa.Event`, with bounds. Unknown keys are dropped."""

    case_id: Annotated[Name, Meta(description="What the event belongs to: a session, a task, a ticket.")]
    source: Annotated[Name, Meta(description="What tells it, for instance my-app.")]
    type: Annotated[Name, Meta(description="What happened, for instance tests.failed.")]
    event_id: Annotated[Name, Meta(description="Stored once, however often it is sent.")] | UnsetType = UNSET
    schema_version: Literal[1] = 1
    agent_id: Name = "main"
    ts: Annotated[str, _TIME] | UnsetType = UNSET
    actor: Name = "agent"
    outcome: Literal["success", "failure", "unknown"] = "unknown"
    labels: Labels = ()
    entities: Labels = ()
    projection: Projection | UnsetType | None = UNSET
    metrics: Annotated[dict[str, float], Meta(max_length=256)] = {}
    meta: Annotated[dict[str, Any], Meta(max_length=256)] = {}
    context: EventContext | UnsetType | None = UNSET


class IngestBatch(Parameters, frozen=True, kw_only=True):
    """Parameters of ``ingest_batch``."""

    events: Annotated[
        tuple[IncomingEvent, ...],
        Meta(max_length=MOST_EVENTS, description="All are stored, or (if one is invalid) none."),
    ]


class Import(Parameters, frozen=True, kw_only=True):
    """Parameters of ``import``: the name of a file, or the events themselves; exactly one of both."""

    name: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=200,
                pattern=FILE_NAME,
                description="File name of a snapshot in the memory's folder export or import.",
            ),
        ]
        | UnsetType
    ) = UNSET
    events: Annotated[tuple[IncomingEvent, ...], Meta(max_length=MOST_EVENTS)] | UnsetType = UNSET
    exported_at: Annotated[str, Meta(max_length=64)] | None = None
