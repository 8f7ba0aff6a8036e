"""Records that a plugin leaves in the spool: one per call of a hook, with no more than naming and outcome need."""

from __future__ import annotations

from typing import Any

import msgspec

from sherpa.capture.scope import Session
from sherpa.sources.openclaw.outcomes import Verdict, judge
from sherpa.sources.openclaw.rows import NOTHING, Details, Message

STARTED, FINISHED = "before_tool_call", "after_tool_call"
DISPATCHED, RECEIVED, PROMPT = "before_dispatch", "message_received", "before_prompt_build"
RUN_ENDED, SESSION_STARTED, SESSION_ENDED = "agent_end", "session_start", "session_end"
HOOKS = frozenset({STARTED, FINISHED, DISPATCHED, RECEIVED, PROMPT, RUN_ENDED, SESSION_STARTED, SESSION_ENDED})
_LATEST_MS = 2**63 // 10**6
_encoder = msgspec.json.Encoder()


class Place(msgspec.Struct, rename="camel", omit_defaults=True):
    """The session that a record is about, as far as the hook knew it."""

    key: str = ""
    session_id: str | None = None
    agent_id: str | None = None
    channel: str | None = None
    is_group: bool | None = None


class Record(msgspec.Struct, rename="camel", omit_defaults=True):
    """One call of a hook.

    Attributes
    ----------
    id : str
        Ids of events are made of it.
    at : int
        Milliseconds since the epoch; never going back within a writer.
    n : int
        Place in the order of the writer.
    hook : str
    session : Place
    run_id : str, optional
    tool, call_id, names, job
        Of a tool call: its name and id, the names of its arguments, and the one value that is needed of them: which
        command in the background it is about.
    is_error, details, text, has_result, duration_ms
        Of its end; see `verdict`.
    unknown : bool
        The host has no such tool.
    text, chars, message_id, origin, trigger
        Of a message: the beginning of its text, its whole length if that is longer, where the host says it comes
        from, and what started the run.
    success : bool, optional
        Of the end of a run.
    resumed : bool
        Of the begin of a session.
    message_count : float, optional
        Of the end of a session.
    dropped : int
        Records that the writer could not keep before this one.
    """

    id: str
    at: int
    n: int
    hook: str
    session: Place = msgspec.field(default_factory=Place)
    run_id: str | None = None
    tool: str | None = None
    call_id: str | None = None
    names: tuple[str, ...] = ()
    job: str | None = None
    is_error: bool = False
    details: dict[str, Any] | None = None
    has_result: bool | None = None
    duration_ms: float | None = None
    unknown: bool = False
    text: str | None = None
    chars: int | None = None
    message_id: str | None = None
    origin: str | None = None
    trigger: str | None = None
    success: bool | None = None
    resumed: bool = False
    message_count: float | None = None
    dropped: int = 0

    @property
    def usable(self) -> bool:
        """Whether its values can be taken for what they say they are."""
        return bool(self.id) and 0 <= self.at < _LATEST_MS and self.n >= 0

    @property
    def where(self) -> Session:
        """The session, as scope and cases see it."""
        place = self.session
        return Session(place.key, place.agent_id, place.channel, place.is_group)


DECODER = msgspec.json.Decoder(Record)


def details_of(record: Record) -> Details | None:
    """What a tool says about its result, in the form of the transcript."""
    return None if record.details is None else msgspec.convert(record.details, Details)


def verdict(record: Record) -> Verdict:
    """How a call ended, by the same contract as in a transcript."""
    told = NOTHING if record.text is None else msgspec.Raw(_encoder.encode([{"type": "text", "text": record.text}]))
    return judge(Message(content=told, details=details_of(record), is_error=record.is_error))
