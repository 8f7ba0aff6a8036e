"""Labelled datasets: cases, what people said about them, and where they come from."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast, get_args

import msgspec
from msgspec import Meta

from sherpa.errors import DatasetError
from sherpa.event import Outcome, Projection
from sherpa.eventlog import CaseInfo, EventLog
from sherpa.instants import NO_INSTANT, parse_instant
from sherpa.logbuilder import LogBuilder
from sherpa.sources.compressed import bare_stem, bare_suffix, open_bytes
from sherpa.sources.csv import read_csv
from sherpa.sources.fields import FieldNames
from sherpa.sources.frame import sort_by_time
from sherpa.sources.statebench import read_trajectories
from sherpa.sources.xes import read_xes
from sherpa.terminal import OUTCOME_CODE

Format = Literal["json", "jsonl", "csv", "xes", "statebench"]
SplitName = Literal["train", "dev", "test"]
FORMATS: tuple[Format, ...] = get_args(Format)
_SUFFIX: dict[str, Format] = {".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".xes": "xes"}

_MISSING_FIELD = re.compile(r"missing required field `(\w+)`")
_DAY = 86_400 * 10**9
_MINUTE = 60 * 10**9
_PARITY_EPOCH = parse_instant("2026-01-01T00:00:00Z")

Step = Annotated[int, Meta(ge=1)]
NonEmpty = Annotated[str, Meta(min_length=1)]
T = TypeVar("T")


class TaskBoundary(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Steps that belong to one task."""

    start_step: Step
    end_step: Step | None = None
    title: str | None = None
    reason: str | None = None


class Blocker(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Something that stopped the work at a step."""

    step: Step
    type: NonEmpty
    detail: str | None = None
    resolved: bool | None = None


class StepExpectation(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What should come after a step. None is "not said"; an empty list is "stay silent"."""

    step: Step
    expected_next: tuple[str, ...] | None = None
    expected_risks: tuple[str, ...] | None = None
    note: str | None = None


class Expectations(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Expectations about a case."""

    next_by_step: tuple[StepExpectation, ...] = ()
    terminal_outcome: Outcome | None = None


class CaseAnnotations(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What people said about a case; steps count from 1 after sorting by time."""

    workflow_class: str | None = None
    task_boundaries: tuple[TaskBoundary, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    expectations: Expectations = Expectations()
    notes: tuple[str, ...] = ()


class DatasetEvent(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """An event as a dataset holds it; what is not said stays None."""

    type: NonEmpty
    source: str | None = None
    event_id: str | None = None
    agent_id: str | None = None
    case_id: str | None = None
    ts: str | None = None
    actor: str | None = None
    outcome: Outcome | None = None
    labels: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    projection: Projection | None = None
    metrics: dict[str, float] = {}
    meta: dict[str, Any] = {}


class DatasetCase(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A case as a dataset holds it."""

    case_id: NonEmpty
    events: tuple[DatasetEvent, ...]
    labels: tuple[str, ...] = ()
    source_trace: str | None = None
    annotations: CaseAnnotations = CaseAnnotations()


@dataclass(frozen=True, eq=False)
class Dataset:
    """A dataset, ready for experiments.

    Attributes
    ----------
    log : EventLog
        The events in columns.
    cases : tuple of DatasetCase
        The cases with their annotations, aligned with the log, for JSON and JSONL; empty for CSV and XES.
    sha256 : str
        Hash of the bytes of the file.
    skipped : dict
        What the reader left out, by kind.
    """

    name: str
    path: str
    format: Format
    log: EventLog
    sha256: str
    description: str | None = None
    split: SplitName | None = None
    schema_version: int | None = None
    ontology_version: str | None = None
    notes: tuple[str, ...] = ()
    cases: tuple[DatasetCase, ...] = ()
    skipped: dict[str, int] = field(default_factory=dict)

    def annotations(self, index: int) -> CaseAnnotations:
        """Annotations of a case, empty if there are none."""
        return self.cases[index].annotations if self.cases else _NOTHING_SAID

    def group(self, index: int) -> str | None:
        """Workflow class of a case."""
        return self.annotations(index).workflow_class


_NOTHING_SAID = CaseAnnotations()


@dataclass(frozen=True)
class ImportOptions:
    """How to read a file; see ``sherpa validate --help``."""

    format: Format | Literal["auto"] = "auto"
    fields: FieldNames = field(default_factory=FieldNames)
    delimiter: str = ","


def load_dataset(
    path: str | Path, options: ImportOptions | None = None, *, name: str | None = None, parity: bool = False
) -> Dataset:
    """Read a dataset from JSON, JSONL, CSV or XES, plain or gzipped.

    Parameters
    ----------
    parity : bool
        Follow the original: terminal outcomes, and times that are missing are made up (one day per case, one minute
        per event), where otherwise they stay unknown.

    Raises
    ------
    DatasetError, SourceError
        Names the file, and the line, case and field where there is one.
    """
    path = Path(path)
    options = options or ImportOptions()
    kind = _format_of(path, options)
    if kind == "csv":
        log = read_csv(path, options.fields, delimiter=options.delimiter, parity=parity)
        dataset = Dataset(bare_stem(path), str(path), kind, log, _sha256(path))
    elif kind == "xes":
        log, report = read_xes(path, options.fields, parity=parity)
        skipped = {"unnamedEvents": report.unnamed_events, "emptyTraces": report.empty_traces}
        dataset = Dataset(bare_stem(path), str(path), kind, log, _sha256(path), skipped=skipped)
    elif kind == "statebench":
        dataset = _load_trajectories(path, parity)
    else:
        dataset = _load_json(path, kind, options.fields, parity)
    if parity:
        dataset = replace(dataset, log=_with_invented_times(dataset.log))
    return dataset if name is None else replace(dataset, name=name)


def _format_of(path: Path, options: ImportOptions) -> Format:
    if options.format == "statebench":
        if not path.is_dir():
            raise DatasetError("is a file; the format statebench takes the folder of trajectories", file=path)
        return options.format
    if path.is_dir():
        raise DatasetError("is a folder; a dataset is a file (validate-suite takes folders)", file=path)
    if options.format != "auto":
        if options.format not in FORMATS:
            raise DatasetError(f"--format {options.format!r} is unknown; choose one of {', '.join(FORMATS)}", file=path)
        return options.format
    kind = _SUFFIX.get(bare_suffix(path))
    if kind is None:
        raise DatasetError(f"the format of {path.name!r} is not known; give --format {'|'.join(FORMATS)}", file=path)
    return kind


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _load_trajectories(folder: Path, parity: bool) -> Dataset:
    """A dataset of STATE-Bench trajectories; the domain is the workflow class."""
    builder = LogBuilder(parity=parity)
    cases = []
    for found in read_trajectories(folder):
        case_id = f"state-bench:{found.domain}:{found.task}"
        for event_type, actor, outcome in found.steps:
            builder.add(event_type, NO_INSTANT, OUTCOME_CODE[outcome], actor)
        builder.end_case(case_id)
        events = tuple(
            DatasetEvent(type=event_type, actor=actor, outcome=cast("Outcome", outcome))
            for event_type, actor, outcome in found.steps
        )
        said = CaseAnnotations(workflow_class=found.domain)
        cases.append(DatasetCase(case_id=case_id, events=events, annotations=said))
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.json")):
        digest.update(f"{path.relative_to(folder).as_posix()} {_sha256(path)}\n".encode())
    log = replace(builder.build(), info=tuple(_info(case) for case in cases))
    return Dataset(folder.name, str(folder), "statebench", log, digest.hexdigest(), cases=tuple(cases))


# -- JSON ------------------------------------------------------------------------------------------------------


def _load_json(path: Path, kind: Format, fields: FieldNames, parity: bool) -> Dataset:
    head: dict[str, Any] = {}
    if kind == "jsonl":
        cases = _group_events(_json_lines(path), fields, path)
    else:
        with open_bytes(path) as file:
            data = file.read()
        document = _decode(data, path)
        if isinstance(document, list):
            cases = _group_events(((None, raw) for raw in document), fields, path)
        elif isinstance(document, dict):
            head = document
            cases = _read_cases(document, path)
        else:
            raise DatasetError("must be an object with cases, or an array of events", file=path)
    if not cases:
        raise DatasetError("holds no cases", file=path, field="cases")
    cases = [_checked(case, path) for case in cases]

    builder = LogBuilder(parity=parity)
    ordered = []
    for case in cases:
        instants = [_instant(event, case, at, path) for at, event in enumerate(case.events)]
        order = sort_by_time(instants)
        for at in order:
            event = case.events[at]
            outcome = OUTCOME_CODE[event.outcome or "unknown"]
            builder.add(event.type, instants[at], outcome, event.actor or "agent", event.projection)
        builder.end_case(case.case_id)
        ordered.append(msgspec.structs.replace(case, events=tuple(case.events[at] for at in order)))
    log = replace(builder.build(), info=tuple(_info(case) for case in ordered))
    return Dataset(
        name=_member(head, "name", str, path) or bare_stem(path),
        path=str(path),
        format=kind,
        log=log,
        sha256=_sha256(path),
        description=_member(head, "description", str, path),
        split=_member(head, "split", SplitName, path),
        schema_version=_member(head, "schemaVersion", int, path),
        ontology_version=_member(head, "ontologyVersion", str, path),
        notes=tuple(_member(head, "notes", list[str], path) or ()),
        cases=tuple(ordered),
    )


def _info(case: DatasetCase) -> CaseInfo:
    """What rivals may read of a case; the order of texts does not matter."""
    said = case.annotations
    blockers = [text for b in said.blockers for text in (b.type, b.detail or "")]
    steps = [e.expected_risks or () for e in said.expectations.next_by_step]
    texts = (case.case_id, case.source_trace or "", *case.labels, said.workflow_class or "", *said.notes, *blockers)
    return CaseInfo(
        workflow_class=said.workflow_class,
        texts=texts,
        event_texts=tuple(_event_texts(event) for event in case.events),
        risks=tuple(risk for risks in steps for risk in risks),
    )


def _event_texts(event: DatasetEvent) -> tuple[str, ...]:
    p = event.projection
    said = [event.source, event.type, event.actor, event.outcome, *event.labels, *event.entities]
    if p is not None:
        said += [p.task_class, p.intent, p.operation, p.artifact_class, p.blocker_type, *p.entity_roles]
    return tuple(text for text in said if text)


def _decode(data: bytes, path: Path, line: int | None = None) -> Any:
    try:
        return _trimmed(msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DatasetError(f"broken JSON: {error}", file=path, line=line or _line_of(error, data)) from None


def _line_of(error: Exception, data: bytes) -> int:
    """Line of the byte that a decoder complains about; the last line if the data just ends."""
    head, _, tail = str(error).rpartition("(byte ")
    at = int(tail.rstrip(")")) if head and tail.rstrip(")").isdigit() else len(data.rstrip())
    return data.count(b"\n", 0, at) + 1


def _trimmed(value: Any) -> Any:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list):
        return [_trimmed(item) for item in value if not _is_blank(item)]
    if isinstance(value, dict):
        return {key: _trimmed(item) for key, item in value.items() if not _is_blank(item)}
    return value


def _is_blank(value: Any) -> bool:
    """A text without content says nothing, as if it were not there."""
    return isinstance(value, str) and not value.strip()


def _member(head: dict[str, Any], key: str, kind: Callable[..., T] | Any, path: Path) -> Any:
    if head.get(key) is None:
        return None
    try:
        return msgspec.convert(head[key], kind)
    except msgspec.ValidationError as error:
        raise DatasetError(str(error), file=path, field=key) from None


def _read_cases(document: dict[str, Any], path: Path) -> list[DatasetCase]:
    raw_cases = document.get("cases")
    if not isinstance(raw_cases, list):
        raise DatasetError("must be a list of cases", file=path, field="cases")
    cases = []
    for at, raw in enumerate(raw_cases, start=1):
        case_id = raw.get("caseId") if isinstance(raw, dict) else None
        if isinstance(raw, dict) and raw.get("annotations") is None:
            raw = {key: value for key, value in raw.items() if key != "annotations"}
        cases.append(_convert(raw, DatasetCase, path, str(case_id or f"#{at}")))
    return cases


def _convert(raw: Any, kind: type[T], path: Path, case: str, line: int | None = None) -> T:
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at ")
        field_name = place.strip("`").removeprefix("$").removeprefix(".")
        missing = _MISSING_FIELD.search(problem)
        if missing:
            field_name = f"{field_name}.{missing.group(1)}".lstrip(".")
        raise DatasetError(problem, file=path, line=line, case=case, field=field_name or None) from None


def _json_lines(path: Path) -> Iterator[tuple[int | None, Any]]:
    with open_bytes(path) as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, _decode(line, path, number)


def _group_events(lines: Iterator[tuple[int | None, Any]], fields: FieldNames, path: Path) -> list[DatasetCase]:
    """Cases from single events, in the order of their first one."""
    names = {"caseId": "case", "type": "type", "ts": "timestamp", "outcome": "outcome", "actor": "actor"}
    names |= {"source": "source", "agentId": "agent"}
    events: dict[str, list[DatasetEvent]] = {}
    for number, raw in lines:
        if not isinstance(raw, dict):
            raise DatasetError("an event must be an object", file=path, line=number)
        event = {key: value for key, value in raw.items() if key not in names}
        for key, field_name in names.items():
            value = fields.member(field_name, raw)
            if value is not None:
                event[key] = value
        case = event.get("caseId")
        if not isinstance(case, str) or not case:
            raise DatasetError("an event needs a caseId", file=path, line=number, field="caseId")
        events.setdefault(case, []).append(_convert(event, DatasetEvent, path, case, number))
    return [DatasetCase(case_id=case, events=tuple(members)) for case, members in events.items()]


def _checked(case: DatasetCase, path: Path) -> DatasetCase:
    """Check what the types cannot say: a case has events, and annotated steps exist.

    The end of a task boundary may lie beyond the case: a trace can be shorter than the task it was cut from.
    """
    size = len(case.events)
    if size == 0:
        raise DatasetError("has no events", file=path, case=case.case_id, field="events")
    said = case.annotations
    steps = [("blockers", b.step) for b in said.blockers]
    steps += [("expectations.nextByStep", e.step) for e in said.expectations.next_by_step]
    for name, step in steps:
        if step > size:
            raise DatasetError(
                f"speaks about step {step}, but the case has {size} events",
                file=path,
                case=case.case_id,
                field=f"annotations.{name}",
            )
    return case


def _instant(event: DatasetEvent, case: DatasetCase, at: int, path: Path) -> int:
    if not event.ts:
        return NO_INSTANT
    try:
        return parse_instant(event.ts, assume_utc=True)
    except ValueError as error:
        raise DatasetError(str(error), file=path, case=case.case_id, field=f"events[{at}].ts") from None


def _with_invented_times(log: EventLog) -> EventLog:
    """Missing times as the original makes them up; only durations depend on them."""
    import numpy as np

    position = np.arange(log.events) - np.repeat(log.offsets[:-1], np.diff(log.offsets))
    case = log.case_of
    invented = _PARITY_EPOCH + case * _DAY + position * _MINUTE
    return replace(log, instants=np.where(log.instants == NO_INSTANT, invented, log.instants))


# -- collections -----------------------------------------------------------------------------------------------


def dataset_files(folder: Path) -> list[Path]:
    """Every dataset file under a folder, in collation order of the path."""
    from sherpa.collation import collation_key

    found = [p for p in folder.rglob("*") if p.is_file() and bare_suffix(p) in _SUFFIX]
    return sorted(found, key=lambda p: collation_key(p.relative_to(folder).as_posix()))
