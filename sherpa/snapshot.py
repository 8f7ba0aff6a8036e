"""Snapshots: a memory as one JSON document, written and read in again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from sherpa.errors import EventError, SourceError
from sherpa.event import Event, no_clock, no_id, read_event
from sherpa.files import writing_whole
from sherpa.instants import format_milliseconds
from sherpa.store import GraphStore

if TYPE_CHECKING:
    from sherpa.memory import ProceduralMemory

_encoder = msgspec.json.Encoder()
_PER_WRITE = 1_000


def export_snapshot(memory: ProceduralMemory, folder: Path, now: int) -> dict[str, Any]:
    """Write everything that a memory holds to ``<folder>/<time>.json``, whole.

    Parameters
    ----------
    memory : ProceduralMemory
    folder : Path
    now : int
        Present time in nanoseconds since the epoch; it names the file.

    Raises
    ------
    SourceError
        If the file cannot be written.
    """
    exported_at = format_milliseconds(now)
    path = folder / f"{exported_at.replace(':', '-')}.json"
    status = memory.status()
    store = memory.store
    with store.snapshot(), writing_whole(path) as file:
        file.write(b'{"exportedAt":' + _encoder.encode(exported_at) + b',"status":' + _encoder.encode(status))
        counts = {}
        for name, rows in (("events", store.events_by_time()), ("cases", _cases(store)), ("stateEdges", _edges(store))):
            file.write(b',"' + name.encode() + b'":[')
            counts[name] = 0
            for part in _parts(rows):
                file.write((b"," if counts[name] else b"") + b",".join(map(_encoder.encode, part)))
                counts[name] += len(part)
            file.write(b"]")
        file.write(b"}\n")
    return {
        "exportPath": str(path),
        "exportedAt": exported_at,
        "eventCount": counts["events"],
        "caseCount": counts["cases"],
        "stateCount": counts["stateEdges"],
    }


def _parts(rows: Iterator[Any]) -> Iterator[list[Any]]:
    part: list[Any] = []
    for row in rows:
        part.append(row)
        if len(part) == _PER_WRITE:
            yield part
            part = []
    if part:
        yield part


def _cases(store: GraphStore) -> Iterator[dict[str, Any]]:
    for case_id, agent_id, count, first, last, outcome in store.case_rows():
        yield {
            "caseId": case_id,
            "agentId": agent_id,
            "eventCount": count,
            "firstSeenAt": first,
            "lastSeenAt": last,
            "terminalOutcome": outcome,
        }


def _edges(store: GraphStore) -> Iterator[dict[str, Any]]:
    for row in store.edge_rows():
        yield dict(zip(_EDGE, row, strict=True))


_EDGE = (
    "order",
    "stateKey",
    "nextEvent",
    "support",
    "successCount",
    "failureCount",
    "terminalSuccessCount",
    "terminalFailureCount",
    "terminalUnknownCount",
    "totalDurationMs",
    "minDurationMs",
    "maxDurationMs",
    "lastSeenAt",
)


class Snapshot(msgspec.Struct, rename="camel"):
    """What is read of a snapshot: the events. All else is derived from them."""

    events: list[dict[str, Any]]
    exported_at: str | None = None


def read_snapshot(path: Path) -> tuple[list[Event], str | None]:
    """Events of a snapshot, ours or the original's, in its order, and when it was written.

    Raises
    ------
    SourceError
        If the file is no snapshot; an event that is broken is named by its place.
    """
    try:
        snapshot = msgspec.json.decode(path.read_bytes(), type=Snapshot)
    except OSError as error:
        raise SourceError(f"cannot be read: {error.strerror or error}", file=path) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SourceError(f"is no snapshot: {error}", file=path) from None
    events = []
    for at, raw in enumerate(snapshot.events):
        try:
            events.append(read_event(raw, clock=no_clock, new_id=no_id))
        except EventError as error:
            raise SourceError(str(error), file=path, field=f"events[{at}]") from None
    return events, snapshot.exported_at
