"""What is remembered of a session between two events of it: its task, its open calls, what was seen already."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from sherpa.capture.records import Record
from sherpa.files import write_whole

_WRITERS = 8
_encoder = msgspec.json.Encoder()


class OpenCall(msgspec.Struct, rename="camel", omit_defaults=True):
    """A tool call that was not told to its end.

    Attributes
    ----------
    call_id : str, optional
    name : str
        As the host calls the tool.
    names : tuple of str
        Names of its arguments.
    job : str, optional
        The command in the background that it is about.
    at : int
        When it began, in milliseconds.
    opened : str
        Id of the record that told it.
    held : Record, optional
        How it ended, kept back until every call that began before it in the same turn has ended.
    begun_by_end : bool
        Nothing told that it began, so its end did: the first event of that record is its start.
    unknown : bool
        The host has no such tool; nothing began.
    late : bool
        The agent has gone on without it; it holds nothing back any more.
    given_up : bool
        It was told as unresolved.
    """

    name: str
    call_id: str | None = None
    names: tuple[str, ...] = ()
    job: str | None = None
    at: int = 0
    opened: str = ""
    held: Record | None = None
    begun_by_end: bool = False
    unknown: bool = False
    late: bool = False
    given_up: bool = False


class SessionState(msgspec.Struct, rename="camel", omit_defaults=True):
    """All of it. A file of it names the current case, so that forgetting the case finds it.

    Attributes
    ----------
    session : str
        Session key.
    case : str
        The case of the latest event.
    task, last, number
        State of the `TaskRouter`.
    session_id : str, optional
        Latest id of the session; a key lives through several.
    seen : dict
        Number of the latest record by writer: a record that is read again is passed over.
    calls : list of OpenCall
        In the order in which they began.
    answered : bool
        A call of the present turn has ended, so the next one begins another turn.
    closed : dict
        Calls of the present turn that have ended: by id, what their end was.
    jobs : dict
        Calls whose command went to the background, by the id of the command.
    run, run_ended : str, optional
        The latest run that began, and that ended.
    said : list of str
        Digests of the latest messages.
    prompted : int, optional
        When a message was told before its run began, in milliseconds.
    turn : str
        Name of the present turn of the user, where each is a case.
    turned : bool
        The message of the coming run began it already.
    """

    session: str
    case: str = ""
    task: dict[str, Any] | None = None
    last: int | None = None
    number: int = 0
    session_id: str | None = None
    seen: dict[str, int] = {}
    calls: list[OpenCall] = []
    answered: bool = False
    closed: dict[str, str] = {}
    jobs: dict[str, OpenCall] = {}
    run: str | None = None
    run_ended: str | None = None
    said: list[str] = []
    prompted: int | None = None
    turn: str = ""
    turned: bool = False

    def passes(self, record: Record, writer: str) -> bool:
        """Whether a record was not taken before; if so, it is now."""
        if record.n <= self.seen.get(writer, -1):
            return False
        self.seen.pop(writer, None)
        self.seen[writer] = record.n
        while len(self.seen) > _WRITERS:
            del self.seen[next(iter(self.seen))]
        return True


class States:
    """The states of all sessions, a file each.

    Parameters
    ----------
    folder : Path
        Made on first use.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self, key: str, name: str) -> SessionState:
        """The state of a session key as it was kept last; a fresh one, called `name`, if it never was."""
        try:
            return msgspec.json.decode(self._path(key).read_bytes(), type=SessionState)
        except (OSError, msgspec.MsgspecError):
            return SessionState(name)

    def keep(self, key: str, state: SessionState) -> None:
        """Keep a state durably.

        Raises
        ------
        SourceError
            If it cannot be written.
        """
        write_whole(self._path(key), _encoder.encode(state))

    def _path(self, key: str) -> Path:
        return self.folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
