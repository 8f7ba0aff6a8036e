"""The schema of an event: defaults, limits, and errors that name the field."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from sherpa.errors import EventError
from sherpa.event import Event, EventContext, Projection, read_event

Read = Callable[..., Event]
PROJECTION = {"version": "draft-v1", "source": "llm"}


@pytest.fixture
def read(clock: Callable[[], int], new_id: Callable[[], str]) -> Read:
    """Reads a valid event with some fields replaced or added."""

    def read(**fields: Any) -> Event:
        raw = {"caseId": "c", "source": "s", "type": "t", **fields}
        return read_event(raw, clock=clock, new_id=new_id)

    return read


def as_json(event: Event) -> Any:
    return msgspec.json.decode(msgspec.json.encode(event))


def test_missing_fields_get_the_published_defaults(read: Read) -> None:
    assert as_json(read()) == {
        "eventId": "e-1",
        "schemaVersion": 1,
        "agentId": "main",
        "caseId": "c",
        "ts": "2026-01-01T00:00:00.000Z",
        "source": "s",
        "type": "t",
        "actor": "agent",
        "outcome": "unknown",
        "labels": [],
        "entities": [],
        "metrics": {},
        "meta": {},
    }


def test_given_fields_are_kept(read: Read) -> None:
    given: dict[str, Any] = {
        "eventId": "mine",
        "schemaVersion": 1,
        "agentId": "scout",
        "caseId": "case",
        "ts": "2025-05-05T05:05:05.050Z",
        "source": "lab",
        "type": "tool.failed",
        "actor": "user",
        "outcome": "failure",
        "labels": ["workflow:x", ""],
        "entities": ["svc"],
        "metrics": {"latency": 1.5, "tries": 2},
        "meta": {"nested": [{"a": None}, True]},
        "context": {"text": "said", "preceding": "before", "toolArgs": "{}"},
        "projection": {**PROJECTION, "confidence": 0.5, "promptVersion": "p1", "entityRoles": ["owner"]},
    }
    assert as_json(read(**given)) == given


def test_the_present_is_stamped_to_the_millisecond(new_id: Callable[[], str]) -> None:
    raw = {"caseId": "c", "source": "s", "type": "t"}
    event = read_event(raw, clock=lambda: 1_767_225_600_123_987_654, new_id=new_id)
    assert event.ts == "2026-01-01T00:00:00.123Z"
    assert event.instant == 1_767_225_600_123_000_000


def test_unknown_keys_are_dropped_at_every_level(read: Read) -> None:
    event = read(colour="red", projection={**PROJECTION, "mood": "good"}, context={"text": "x", "audio": "y"})
    stored = as_json(event)
    assert "colour" not in stored
    assert "mood" not in stored["projection"]
    assert stored["context"] == {"text": "x"}


def test_projection_fields_are_read_by_their_published_names(read: Read) -> None:
    event = read(
        projection={
            **PROJECTION,
            "provider": "p",
            "model": "m",
            "promptVersion": "v",
            "taskClass": "code-fix",
            "intent": "update",
            "operation": "file-edit",
            "artifactClass": "codebase",
            "blockerType": "timeout",
        }
    )
    assert event.projection == Projection(
        version="draft-v1",
        source="llm",
        provider="p",
        model="m",
        prompt_version="v",
        task_class="code-fix",
        intent="update",
        operation="file-edit",
        artifact_class="codebase",
        blocker_type="timeout",
    )


@pytest.mark.parametrize("field", ["caseId", "source", "type"])
def test_a_required_field_that_is_missing_is_named(
    field: str, clock: Callable[[], int], new_id: Callable[[], str]
) -> None:
    raw = {"caseId": "c", "source": "s", "type": "t"}
    del raw[field]
    with pytest.raises(EventError, match=f"^line 7: .*`{field}`"):
        read_event(raw, clock=clock, new_id=new_id, where="line 7")


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("eventId", "", "eventId"),
        ("eventId", None, "eventId"),
        ("eventId", 5, "eventId"),
        ("schemaVersion", 2, "schemaVersion"),
        ("schemaVersion", "1", "schemaVersion"),
        ("agentId", "", "agentId"),
        ("caseId", "", "caseId"),
        ("caseId", 7, "caseId"),
        ("source", "", "source"),
        ("type", "", "type"),
        ("type", None, "type"),
        ("actor", "", "actor"),
        ("outcome", "won", "outcome"),
        ("outcome", "Success", "outcome"),
        ("labels", "one", "labels"),
        ("labels", ["one", 2], "labels"),
        ("entities", {"a": "b"}, "entities"),
        ("metrics", {"x": "1"}, "metrics"),
        ("metrics", {"x": True}, "metrics"),
        ("metrics", [1], "metrics"),
        ("meta", [], "meta"),
        ("ts", "", "ts"),
        ("ts", None, "ts"),
        ("ts", 1_767_225_600, "ts"),
        ("ts", "yesterday", "ts"),
        ("ts", "2026-01-01T00:00:00", "ts"),
        ("ts", "2026-02-30T00:00:00Z", "ts"),
        ("projection", "draft-v1", "projection"),
        ("projection", {"source": "llm"}, "version"),
        ("projection", {"version": "draft-v1"}, "source"),
        ("projection", {"version": "", "source": "llm"}, "projection.version"),
        ("projection", {"version": "draft-v1", "source": "guess"}, "projection.source"),
        ("projection", {**PROJECTION, "confidence": 1.01}, "projection.confidence"),
        ("projection", {**PROJECTION, "confidence": -0.01}, "projection.confidence"),
        ("projection", {**PROJECTION, "operation": 3}, "projection.operation"),
        ("projection", {**PROJECTION, "entityRoles": "owner"}, "projection.entityRoles"),
        ("context", "text", "context"),
        ("context", {"text": 1}, "context.text"),
    ],
)
def test_a_wrong_field_is_an_error_that_names_it(read: Read, field: str, value: object, named: str) -> None:
    with pytest.raises(EventError, match=rf"^event: .*\b{named}\b"):
        read(**{field: value})


@pytest.mark.parametrize("raw", [None, "event", 3, [], [("caseId", "c")]])
def test_only_an_object_is_an_event(raw: object, clock: Callable[[], int], new_id: Callable[[], str]) -> None:
    with pytest.raises(EventError, match=r"^event: "):
        read_event(raw, clock=clock, new_id=new_id)


@pytest.mark.parametrize(("field", "limit"), [("text", 500), ("preceding", 200), ("toolArgs", 300)])
def test_context_is_kept_up_to_its_limit_and_refused_beyond(read: Read, field: str, limit: int) -> None:
    kept = read(context={field: "x" * limit})
    assert as_json(kept)["context"] == {field: "x" * limit}
    with pytest.raises(EventError, match=rf"context\.{field}\b"):
        read(context={field: "x" * (limit + 1)})


@pytest.mark.parametrize(
    ("ts", "stored"),
    [
        ("2026-01-01T02:00:00+02:00", "2026-01-01T00:00:00.000Z"),
        ("2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00.500Z"),
        ("2026-01-01T00:00:00.1234Z", "2026-01-01T00:00:00.123400Z"),
        ("2026-01-01T00:00:00.123456789012Z", "2026-01-01T00:00:00.123456789Z"),
    ],
)
def test_times_are_stored_in_utc_with_3_6_or_9_digits(read: Read, ts: str, stored: str) -> None:
    assert read(ts=ts).ts == stored


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_metric_must_be_finite(read: Read, value: float) -> None:
    with pytest.raises(EventError, match=r"metrics\.latency"):
        read(metrics={"tries": 1, "latency": value})


@pytest.mark.parametrize(
    "fields",
    [
        {"meta": {"score": math.nan}},
        {"meta": {"scores": [1.0, math.inf]}},
        {"projection": {**PROJECTION, "confidence": math.nan}},
    ],
)
def test_no_number_is_stored_as_something_else(read: Read, fields: dict[str, Any]) -> None:
    with pytest.raises(EventError):
        read(**fields)


def test_an_integer_beyond_all_doubles_is_no_metric(read: Read) -> None:
    with pytest.raises(EventError):
        read(metrics={"x": 10**400})


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**30])
def test_an_integer_of_any_size_in_meta_is_kept_or_refused(read: Read, number: int) -> None:
    try:
        event = read(meta={"n": number})
    except EventError:
        return
    assert as_json(event)["meta"]["n"] == number


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "a\ud800"},
        {"caseId": "\udfff"},
        {"labels": ["ok", "\ud83d"]},
        {"meta": {"deep": [{"\udc00": 1}]}},
        {"metrics": {"\ud800": 1.0}},
        {"context": {"text": "\ud800"}},
    ],
)
def test_half_a_character_is_refused(read: Read, fields: dict[str, Any]) -> None:
    with pytest.raises(EventError, match="cannot be written as JSON"):
        read(**fields)


def test_characters_outside_the_basic_plane_are_kept(read: Read) -> None:
    assert as_json(read(type="\U0001f680.started"))["type"] == "\U0001f680.started"


def test_a_value_that_json_cannot_hold_is_refused(read: Read) -> None:
    with pytest.raises(EventError, match="cannot be written as JSON"):
        read(meta={"x": object()})


@pytest.mark.parametrize("field", ["projection", "context"])
def test_null_means_absent(read: Read, field: str) -> None:
    event = read(**{field: None})
    assert getattr(event, field) is UNSET
    assert field not in as_json(event)


def test_a_stored_event_reads_back_unchanged(read: Read) -> None:
    def never() -> Any:
        raise AssertionError("nothing is missing")

    event = read(projection={**PROJECTION, "taskClass": "research"}, context={"text": "x"}, metrics={"n": 3})
    assert event.context == EventContext(text="x")
    assert read_event(as_json(event), clock=never, new_id=never) == event


def test_the_place_in_the_ledger_does_not_travel_with_an_event(
    read: Read, clock: Callable[[], int], new_id: Callable[[], str]
) -> None:
    event = read()
    stamped = msgspec.structs.replace(event, seq=41)
    again = read_event(stamped, clock=clock, new_id=new_id)
    assert again.seq is UNSET
    assert again == event
