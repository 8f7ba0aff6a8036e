"""Event: the one record that everything else is derived from."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sherpa.errors import EventError
from sherpa.instants import format_instant, parse_instant

NonEmpty = Annotated[str, Meta(min_length=1)]
Outcome = Literal["success", "failure", "unknown"]
UNKNOWN, SUCCESS, FAILURE = 0, 1, 2
OUTCOMES: tuple[Outcome, ...] = ("unknown", "success", "failure")
"""Outcomes by their code in a column."""
ProjectionSource = Literal["llm", "manual", "imported"]


class Projection(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What an event means, beside what it is called (fields of the ontology ``draft-v1``)."""

    version: NonEmpty
    source: ProjectionSource
    confidence: Annotated[float, Meta(ge=0, le=1)] | None = None
    provider: str | None = None
    model: str | None = None
    prompt_version: str | None = None
    task_class: str | None = None
    intent: str | None = None
    operation: str | None = None
    artifact_class: str | None = None
    blocker_type: str | None = None
    entity_roles: tuple[str, ...] = ()


class EventContext(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Short text around an event; over-long text is an error, never cut."""

    text: Annotated[str, Meta(max_length=500)] | None = None
    preceding: Annotated[str, Meta(max_length=200)] | None = None
    tool_args: Annotated[str, Meta(max_length=300)] | None = None


class Event(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One thing that happened in one case. Made by `read_event`, which validates and fills the defaults.

    `ts` is normalised to UTC with 3, 6 or 9 fractional digits. `seq` is the place in the ledger's order of arrival;
    it is stamped at append and decides between events with equal times.
    """

    event_id: NonEmpty
    schema_version: Literal[1] = 1
    agent_id: NonEmpty = "main"
    case_id: NonEmpty
    ts: NonEmpty
    source: NonEmpty
    type: NonEmpty
    actor: NonEmpty = "agent"
    outcome: Outcome = "unknown"
    labels: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    projection: Projection | UnsetType = UNSET
    metrics: dict[str, float] = {}
    meta: dict[str, Any] = {}
    context: EventContext | UnsetType = UNSET
    seq: int | UnsetType = UNSET

    @property
    def instant(self) -> int:
        """Nanoseconds since the epoch."""
        return parse_instant(self.ts)


class _Incoming(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """An event as it arrives: ids and times may be missing, unknown keys are dropped."""

    case_id: NonEmpty
    source: NonEmpty
    type: NonEmpty
    event_id: NonEmpty | UnsetType = UNSET
    schema_version: Literal[1] = 1
    agent_id: NonEmpty = "main"
    ts: NonEmpty | UnsetType = UNSET
    actor: NonEmpty = "agent"
    outcome: Outcome = "unknown"
    labels: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    projection: Projection | UnsetType | None = UNSET
    metrics: dict[str, float] = {}
    meta: dict[str, Any] = {}
    context: EventContext | UnsetType | None = UNSET


_encoder = msgspec.json.Encoder()


def _not_finite(value: object, place: str) -> str | None:
    """Where an infinite or undefined number hides in a JSON value, or None."""
    if isinstance(value, float):
        return None if math.isfinite(value) else place
    if isinstance(value, dict):
        members = [(f"{place}.{key}", item) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        members = [(f"{place}[{at}]", item) for at, item in enumerate(value)]
    else:
        return None
    return next((found for name, item in members if (found := _not_finite(item, name)) is not None), None)


def read_event(raw: object, *, clock: Callable[[], int], new_id: Callable[[], str], where: str = "event") -> Event:
    """Validate an incoming event and fill its defaults.

    Parameters
    ----------
    raw : object
        An `Event` (its `seq` is dropped), or the decoded JSON object.
    clock : callable
        Gives the present time in nanoseconds since the epoch; used when `ts` is missing.
    new_id : callable
        Gives a fresh event id; used when `eventId` is missing.
    where : str
        What to call the event in an error message.

    Raises
    ------
    EventError
        Names the field that is wrong.
    """
    if isinstance(raw, Event):
        raw = msgspec.to_builtins(raw)
    try:
        incoming = msgspec.convert(raw, _Incoming, strict=True)
    except msgspec.ValidationError as error:
        raise EventError(f"{where}: {error}") from None
    if incoming.ts is UNSET:
        instant = clock() // 1_000_000 * 1_000_000
    else:
        try:
            instant = parse_instant(incoming.ts)
        except ValueError as error:
            raise EventError(f"{where}: ts {error}") from None
    confidence = incoming.projection.confidence if isinstance(incoming.projection, Projection) else None
    numbers = {"metrics": incoming.metrics, "meta": incoming.meta, "projection.confidence": confidence}
    try:
        place = _not_finite(numbers, "")
    except RecursionError:
        raise EventError(f"{where}: meta is nested too deeply") from None
    if place is not None:
        raise EventError(f"{where}: {place.lstrip('.')} is not a finite number, and JSON holds no other")
    event = Event(
        event_id=new_id() if incoming.event_id is UNSET else incoming.event_id,
        agent_id=incoming.agent_id,
        case_id=incoming.case_id,
        ts=format_instant(instant),
        source=incoming.source,
        type=incoming.type,
        actor=incoming.actor,
        outcome=incoming.outcome,
        labels=incoming.labels,
        entities=incoming.entities,
        projection=UNSET if incoming.projection is None else incoming.projection,
        metrics=incoming.metrics,
        meta=incoming.meta,
        context=UNSET if incoming.context is None else incoming.context,
    )
    try:
        _encoder.encode(event).decode("utf-8")
    except (TypeError, ValueError, UnicodeError, RecursionError) as error:
        raise EventError(f"{where}: cannot be written as JSON: {error}") from None
    return event


def no_clock() -> int:
    """A clock for stored events: a time that is missing is an error there."""
    raise EventError("ts is missing")


def no_id() -> str:
    """Ids for stored events: one that is missing is an error there."""
    raise EventError("eventId is missing")
