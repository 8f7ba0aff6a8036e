"""Event logs from XES (IEEE 1849), plain or gzipped, streamed trace by trace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from sherpa.errors import SourceError
from sherpa.eventlog import EventLog
from sherpa.instants import NO_INSTANT, parse_instant
from sherpa.logbuilder import LogBuilder
from sherpa.sources.compressed import open_bytes
from sherpa.sources.fields import FieldNames, outcome_code
from sherpa.sources.frame import sort_by_time

_ATTRIBUTES = frozenset(("string", "date", "int", "float", "boolean", "id"))
_LIFECYCLE = "lifecycle:transition"


@dataclass(frozen=True)
class XesReport:
    """What a file held beside the log."""

    unnamed_events: int = 0
    empty_traces: int = 0


def read_xes(path: Path, fields: FieldNames | None = None, *, parity: bool = False) -> tuple[EventLog, XesReport]:
    """Read an event log.

    Only the attributes of the trace and of the event themselves count, not nested ones. An event without a name and
    a trace without events are skipped and counted. A trace without a name is called ``trace-N``.

    Raises
    ------
    SourceError
        Names the file, and the line, case and field where there is one.
    """
    names = fields or FieldNames()
    case_key, type_key = names.case or "concept:name", names.type or "concept:name"
    time_key, actor_key = names.timestamp or "time:timestamp", names.actor or "org:resource"
    builder = LogBuilder(parity=parity)
    unnamed = empty = traces = 0
    try:
        with open_bytes(path) as file:
            root = None
            for step, element in ElementTree.iterparse(file, events=("start", "end")):
                tag = _local(element.tag)
                if step == "start":
                    if root is None:
                        root = element
                        if tag != "log":
                            raise SourceError(f"the document is <{tag}>, not <log>", file=path)
                    continue
                if tag != "trace":
                    continue
                traces += 1
                case_id = _attributes(element).get(case_key) or f"trace-{traces}"
                events = []
                for child in element:
                    if _local(child.tag) != "event":
                        continue
                    attributes = _attributes(child)
                    name = (attributes.get(type_key) or "").strip()
                    if not name:
                        unnamed += 1
                        continue
                    events.append((name, _instant(attributes.get(time_key), path, case_id, time_key), attributes))
                if events:
                    for at in sort_by_time([instant for _, instant, _ in events]):
                        name, instant, attributes = events[at]
                        word = (
                            attributes.get(names.outcome)
                            if names.outcome
                            else attributes.get("outcome", attributes.get(_LIFECYCLE, name))
                        )
                        builder.add(name, instant, outcome_code(word), attributes.get(actor_key, "agent"))
                    builder.end_case(case_id)
                else:
                    empty += 1
                if root is not None:
                    root.clear()
    except ElementTree.ParseError as error:
        line, column = error.position
        raise SourceError(f"broken XML at column {column + 1} ({error.msg})", file=path, line=line) from None
    log = builder.build()
    if log.events == 0:
        raise SourceError("holds no events", file=path)
    return log, XesReport(unnamed, empty)


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def _attributes(element: ElementTree.Element) -> dict[str, str]:
    return {
        child.attrib["key"]: child.attrib["value"].strip()
        for child in element
        if _local(child.tag) in _ATTRIBUTES and "key" in child.attrib and "value" in child.attrib
    }


def _instant(text: str | None, path: Path, case_id: str, field: str) -> int:
    if not text:
        return NO_INSTANT
    try:
        return parse_instant(text, assume_utc=True)
    except ValueError as error:
        raise SourceError(str(error), file=path, case=case_id, field=field) from None
