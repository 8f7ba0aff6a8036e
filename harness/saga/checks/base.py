"""What all checks share: what they may look at, and what they answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from harness.saga.confine import clean_path, read_artifact
from harness.saga.errors import PathError
from harness.saga.model import Criterion

Status = Literal["pass", "fail", "deferred", "unavailable", "error"]
MAX_READ = 64 << 20
"""Bytes of a file that a check reads; a larger one fails."""
MAX_PATTERN = 512


@dataclass(frozen=True)
class Verdict:
    """What a check says."""

    status: Status
    detail: str
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PageFacts:
    """What a page provider saw: status of the answer (None for files), visible text, the document."""

    status: int | None
    text: str
    html: str


PageProvider = Callable[[str, float], PageFacts]
"""Loads an URL within some seconds; raises OSError or ValueError if it cannot."""


@dataclass(frozen=True)
class CheckContext:
    """What checks may look at and do.

    Attributes
    ----------
    artifacts : Path
        Every path is relative to it, and stays inside.
    commands : bool
        Whether commands may run at all: the profile and the run's configuration both say so.
    programs : sequence of str
        Names of programs that a command may be.
    refusal : str
        Why no command may run.
    pages : callable or None
        The page provider; None if there is none.
    """

    artifacts: Path
    commands: bool = False
    programs: Sequence[str] = ()
    refusal: str = "commands are off; the profile must allow them and the configuration must turn them on"
    pages: PageProvider | None = None


class CheckResult(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One criterion and how it went."""

    criterion: Criterion
    passed: bool
    status: Status
    detail: str
    evidence: dict[str, Any] = {}
    duration_ms: int = 0


class Unreadable(Exception):
    """A file that a check needs is not there, or is none."""


def passed(detail: str, **evidence: Any) -> Verdict:
    """It holds."""
    return Verdict("pass", detail, evidence)


def failed(detail: str, **evidence: Any) -> Verdict:
    """It does not hold."""
    return Verdict("fail", detail, evidence)


def errored(detail: str, **evidence: Any) -> Verdict:
    """It could not be carried out, through a fault of the criterion; that is no pass."""
    return Verdict("error", detail, evidence)


def read_file(context: CheckContext, path: Any) -> bytes:
    """Content of an artefact.

    Raises
    ------
    Unreadable
        Saying why: not there, no plain file, a path that leads out, too large.
    """
    name = located(path)
    try:
        data = read_artifact(context.artifacts, name, most=MAX_READ + 1)
    except FileNotFoundError:
        raise Unreadable(f"file not found: {name}") from None
    except (PathError, OSError) as error:
        raise Unreadable(f"{name} cannot be read: {error}") from None
    if len(data) > MAX_READ:
        raise Unreadable(f"{name} is larger than {MAX_READ} bytes")
    return data


def read_text(context: CheckContext, path: Any) -> str:
    """The same as text; bytes that are no UTF-8 become replacement characters."""
    return read_file(context, path).decode("utf-8", "replace").removeprefix("\ufeff")


def located(path: Any) -> str:
    """A path in its plain form; raises Unreadable if it is none."""
    try:
        return clean_path(path)
    except PathError as error:
        raise Unreadable(str(error)) from None


def compiled(pattern: str) -> Any:
    """A pattern in linear time (RE2), so that no text makes it slow; raises Unreadable if it is none."""
    import re2

    if len(pattern) > MAX_PATTERN:
        raise Unreadable(f"the pattern is longer than {MAX_PATTERN} characters")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 8 << 20
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        said = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else str(error)
        raise Unreadable(f"pattern {pattern[:80]!r} cannot be used: {said}") from None
