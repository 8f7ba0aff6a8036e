"""Every error that Sherpa raises on purpose.

    SherpaError
    ├── EventError      an event does not fit the schema
    ├── LedgerError     the ledger on disk cannot be used
    ├── StoreError      graph.db cannot be used
    │   └── UnknownCaseError    no such case
    ├── ConfigError     an option has a value it may not have
    ├── SourceError     a file of events (CSV, XES, JSONL …) cannot be read
    ├── DatasetError    a labelled dataset or suite is malformed
    ├── SplitError      a split cannot be made from this dataset
    └── OperationError  what a door of the memory answers instead of a result (`sherpa.serve`)

Every class has a `code`, which goes over the wire beside the message. A message says what is wrong, where (file, line,
case, field) and what to do. The command line prints it on one line and exits with code 2.
"""

from __future__ import annotations

from pathlib import Path


class SherpaError(Exception):
    """Base of all errors that a user can act on."""

    code = "failed"


class EventError(SherpaError):
    """An event does not fit the schema."""

    code = "invalid_event"


class LedgerError(SherpaError):
    """The ledger on disk cannot be used."""

    code = "ledger_unavailable"


class StoreError(SherpaError):
    """The graph database cannot be used."""

    code = "store_unavailable"


class UnknownCaseError(StoreError):
    """There is no such case."""

    code = "not_found"


class ConfigError(SherpaError):
    """An option has a value it may not have."""

    code = "invalid_configuration"


class LocatedError(SherpaError):
    """An error in an input file; the place is part of the message.

    Parameters
    ----------
    problem : str
        What is wrong and what to do about it.
    file, line, case, field
        Where it is; each may be unknown.
    """

    def __init__(
        self,
        problem: str,
        *,
        file: str | Path | None = None,
        line: int | None = None,
        case: str | None = None,
        field: str | None = None,
    ) -> None:
        self.problem = problem
        self.file = None if file is None else str(file)
        self.line = line
        self.case = case
        self.field = field
        super().__init__(self._message())

    def _message(self) -> str:
        place = []
        if self.file is not None:
            place.append(self.file if self.line is None else f"{self.file}:{self.line}")
        elif self.line is not None:
            place.append(f"line {self.line}")
        if self.case is not None:
            place.append(f"case {self.case!r}")
        if self.field is not None:
            place.append(f"field {self.field}")
        return ": ".join([", ".join(place), self.problem]) if place else self.problem


class SourceError(LocatedError):
    """A file of events cannot be read."""

    code = "invalid_source"


class DatasetError(LocatedError):
    """A labelled dataset or a suite is malformed."""


class SplitError(LocatedError):
    """A split cannot be made from this dataset."""


class OperationError(SherpaError):
    """An operation of the memory was refused or failed; the same class and code through every door.

    Parameters
    ----------
    code : str
        ``invalid_parameters``, ``invalid_event``, ``not_found``, ``overloaded``, ``backend_unavailable`` …
    message : str
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
