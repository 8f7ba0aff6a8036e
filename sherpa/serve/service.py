"""One memory behind its operations: parameters in, plain JSON values out, errors with a code."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from sherpa.answers import integral
from sherpa.configuration import Configuration, configure, engine_options
from sherpa.errors import EventError, OperationError, SherpaError
from sherpa.event import Event, read_event
from sherpa.serve.operations import OPERATIONS, Operation, find_operation
from sherpa.serve.parameters import PRINTABLE, Advise, Import, IncomingEvent, OfCase, SessionOf

if TYPE_CHECKING:
    from sherpa.capture.recorder import Recorder
    from sherpa.capture.scope import Session
    from sherpa.memory import ProceduralMemory

LARGEST_EVENT = 256 * 1024
"""Bytes of one event as JSON; more is refused at the door."""
IMPORTS = "import"
_CONTROL = "a control character"


@dataclass(frozen=True)
class Opening:
    """How a memory is opened: its folder, the whole configuration, and those options of the engine that were given.

    Attributes
    ----------
    root : Path
    configuration : Configuration
    overrides : mapping
        Options of the engine that replace those the graph was built with.
    clock, new_id : callable
    """

    root: Path
    configuration: Configuration = field(default_factory=Configuration)
    overrides: Mapping[str, Any] = field(default_factory=dict)
    clock: Callable[[], int] = time.time_ns
    new_id: Callable[[], str] = lambda: str(uuid.uuid4())

    @classmethod
    def of(cls, root: Path, *documents: Mapping[str, Any], **rest: Any) -> Opening:
        """Of configuration documents, the later ones stronger."""
        return cls(root, configure(*documents), engine_options(*documents), **rest)


class Service:
    """The operations of one memory. It belongs to the thread that made it.

    Raises
    ------
    SherpaError
        If the memory cannot be opened.
    """

    def __init__(self, opening: Opening) -> None:
        from sherpa.memory import ProceduralMemory

        self.opening = opening
        self.memory: ProceduralMemory = ProceduralMemory(
            opening.root, overrides=dict(opening.overrides), clock=opening.clock, new_id=opening.new_id
        )
        self._recorder: Recorder | None = None

    def close(self) -> None:
        """Release the database."""
        self.memory.close()

    def call(self, name: str, given: object) -> Any:
        """Do an operation.

        Parameters
        ----------
        name : str
            Name or alias of the operation.
        given : object
            Its parameters as decoded JSON.

        Returns
        -------
        object
            The answer as a JSON value; numbers without a fraction are integers.

        Raises
        ------
        OperationError
        """
        operation = operation_of(name)
        return run(self, operation, parameters_of(operation, given))

    # -- what operations need beside the memory ----------------------------------------------------------------

    @property
    def recorder(self) -> Recorder:
        """What turns captured records into events."""
        if self._recorder is None:
            from sherpa.capture.recorder import Recorder

            opening = self.opening
            self._recorder = Recorder(opening.root, opening.configuration, clock=opening.clock, new_id=opening.new_id)
        return self._recorder

    def case(self, parameters: OfCase) -> str:
        """The case that parameters name, by itself or as the current one of a session."""
        case_id, session = parameters.case_id, parameters.session
        if isinstance(case_id, str) and not isinstance(session, SessionOf):
            return case_id
        if isinstance(session, SessionOf) and not isinstance(case_id, str):
            self.drain()
            return self.recorder.case_of(_session(session))
        raise OperationError("invalid_parameters", "give either caseId or session")

    def ingest(self, event: IncomingEvent) -> Event:
        """Store one event; one that is there already comes back as it was stored."""
        return self.memory.ingest(self.checked(event))

    def checked(self, event: IncomingEvent, where: str = "event") -> Event:
        """An event as the ledger takes it, if it may come in."""
        try:
            size, given = len(msgspec.json.encode(event)), msgspec.to_builtins(event)
        except (RecursionError, ValueError, OverflowError, TypeError) as error:
            raise EventError(f"{where}: {unwritable(error)}") from None
        if size > LARGEST_EVENT:
            raise EventError(f"{where}: {size:,} bytes; at most {LARGEST_EVENT:,} are stored")
        return read_event(given, clock=self.opening.clock, new_id=self.opening.new_id, where=where)

    def all_checked(self, events: Sequence[IncomingEvent]) -> list[Event]:
        """Events of a batch; an error names the place of the first that may not come in."""
        return [self.checked(event, f"events[{at}]") for at, event in enumerate(events)]

    def ingest_batch(self, events: Sequence[IncomingEvent]) -> dict[str, Any]:
        """Store several events, all or none."""
        appended = self.memory.ingest_batch(self.all_checked(events))
        return {"events": appended.events, "duplicates": appended.duplicates}

    def status(self) -> dict[str, Any]:
        """Status of the memory."""
        return self.memory.status() | {"advisoryEnabled": self.opening.configuration.advisory.enabled}

    def rebuild(self) -> dict[str, Any]:
        """Derive the graph again; the status after it."""
        self.memory.rebuild()
        return self.status()

    def doctor(self) -> dict[str, Any]:
        """Every check of the memory. What another process is just writing may look like damage: that is checked
        again while nobody writes."""
        from sherpa.doctor import diagnose

        report = diagnose(self.opening.root, now=self.opening.clock())
        if report["errors"] or report["warnings"]:
            with self.memory.ledger.writing():
                report = diagnose(self.opening.root, now=self.opening.clock())
        return report

    def take_in(self, parameters: Import) -> dict[str, Any]:
        """Import a snapshot by the name of its file, or events."""
        name, events = parameters.name, parameters.events
        if isinstance(name, str) == isinstance(events, tuple):
            raise OperationError("invalid_parameters", "give either name or events")
        if isinstance(events, tuple):
            return self.memory.import_events(self.all_checked(events), parameters.exported_at)
        return self.memory.import_snapshot(self._snapshot(str(name)))

    def _snapshot(self, name: str) -> Path:
        from sherpa.memory import EXPORTS

        folders = [self.opening.root / folder for folder in (IMPORTS, EXPORTS)]
        for folder in folders:
            path = folder / name
            # The name holds no separator; a link could still lead outside.
            if path.is_file() and path.resolve().parent == folder.resolve():
                return path
        known = sorted({path.name for folder in folders for path in folder.glob("*.json")}, reverse=True)
        there = f"there are {', '.join(known[:5])}" if known else "there is none"
        raise OperationError(
            "not_found", f"no snapshot {name!r} in the folders {IMPORTS} and {EXPORTS} of the memory; {there}"
        )

    def advise(self, parameters: Advise) -> dict[str, Any]:
        """Advice on a case, or the gate that says no. What was captured is taken in first."""
        from sherpa.capture.scope import not_advised

        configuration = self.opening.configuration
        case_id = self.case(parameters)
        refused = None
        if isinstance(parameters.session, SessionOf):
            refused = not_advised(_session(parameters.session), configuration)
        advice = self.memory.advise(case_id, configuration.advisory, refused=refused, record=parameters.record)
        return advice.to_json()

    def forget(self, case_id: str) -> dict[str, Any]:
        """Remove a case. What waits in the spool of capture would bring it back, so that is taken in first."""
        self.drain()
        return self.memory.forget(case_id)

    def drain(self) -> int:
        """Bring what was captured into the ledger; returns how many events."""
        from sherpa.capture.spool import drain

        drain(self.opening.root, self.recorder)
        return self.recorder.queue.flush(self.memory.ingest_batch)


def run(service: Service | None, operation: Operation, parameters: Any) -> Any:
    """Do an operation whose parameters were checked; see `Service.call`. Only a guest's needs no service."""
    try:
        return plain(operation.run(service, parameters))
    except OperationError:
        raise
    except SherpaError as error:
        raise OperationError(error.code, str(error)) from error


def operation_of(name: str) -> Operation:
    """The operation of a name.

    Raises
    ------
    OperationError
    """
    operation = find_operation(name)
    if operation is None:
        raise OperationError("unknown_operation", f"no operation {name[:80]!r}; there are {', '.join(OPERATIONS)}")
    return operation


def parameters_of(operation: Operation, given: object) -> Any:
    """Parameters of an operation, checked.

    Raises
    ------
    OperationError
        ``invalid_event`` for an event, else ``invalid_parameters``; the message names the place.
    """
    try:
        return msgspec.convert(given, operation.parameters)
    except (msgspec.ValidationError, RecursionError) as error:
        return _with_whole_numbers(operation, given, error)


def decoded_parameters(operation: Operation, data: bytes | msgspec.Raw) -> Any:
    """The same of JSON text.

    Raises
    ------
    OperationError
    """
    try:
        return msgspec.json.decode(data, type=operation.parameters)
    except msgspec.ValidationError as error:
        try:
            given = msgspec.json.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise refusal(operation, error) from None
        return _with_whole_numbers(operation, given, error)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise refusal(operation, error) from None


def _with_whole_numbers(operation: Operation, given: object, error: Exception) -> Any:
    """Try again with 3.0 as 3, which is the same number in JSON; else the first error holds."""
    try:
        return msgspec.convert(integral(given), operation.parameters)
    except (msgspec.ValidationError, RecursionError, ValueError, OverflowError):
        raise refusal(operation, error) from None


def refusal(operation: Operation, error: Exception) -> OperationError:
    """What is answered to parameters that do not fit."""
    code = _code(operation)
    if isinstance(error, RecursionError):
        return OperationError(code, f"{operation.name}: nested too deeply")
    text = str(error).replace(f"Expected `str` matching regex {PRINTABLE!r}", f"Holds {_CONTROL}")
    return OperationError(code, f"{operation.name}: {text}")


def encoded_parameters(operation: Operation, given: Any) -> bytes:
    """The other way: parameters as JSON text.

    Raises
    ------
    OperationError
    """
    try:
        text = msgspec.json.encode(given)
        if b"null" in text:
            # What is no number is written as null: that would be another value, and nobody told.
            with suppress(TypeError):
                json.dumps(given, allow_nan=False)
        return text
    except (RecursionError, ValueError, OverflowError, TypeError) as error:
        raise OperationError(_code(operation), f"{operation.name}: {unwritable(error)}") from None


def _code(operation: Operation) -> str:
    return "invalid_event" if operation.parameters is IncomingEvent else "invalid_parameters"


def unwritable(error: Exception) -> str:
    """Why a value cannot be written as JSON."""
    return "nested too deeply" if isinstance(error, RecursionError) else f"cannot be written as JSON: {error}"


def plain(value: Any) -> Any:
    """A JSON value of an answer."""
    return integral(msgspec.to_builtins(value))


def _session(given: SessionOf) -> Session:
    from sherpa.capture.scope import Session

    return Session(given.key, given.agent_id, given.channel, given.is_group)
