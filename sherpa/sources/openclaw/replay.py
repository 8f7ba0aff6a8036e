"""From the rows of one session to the steps that happened in it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from sherpa.instants import NANOS_PER_MS, NO_INSTANT
from sherpa.sources.openclaw.outcomes import Verdict, judge, status_of
from sherpa.sources.openclaw.rows import (
    CALLS,
    RESULT_ROLES,
    Block,
    Details,
    Message,
    Row,
    arguments,
    blocks,
    instant_of,
    plain_text,
    text,
)
from sherpa.sources.openclaw.steps import Counts, Step
from sherpa.sources.openclaw.taxonomy import Taxonomy, Tool
from sherpa.sources.openclaw.texts import ended_job, own_words

INJECTED = frozenset({"openclaw", "clawdbot"})
_BROKEN_STOPS = frozenset({"error", "aborted", "length"})
_SILENT = frozenset(
    {"model_change", "thinking_level_change", "custom", "custom_message", "branch_summary", "label", "session_info"}
)
_OTHER_ROLES = frozenset({"custom", "hookMessage", "branchSummary", "compactionSummary"})
_WORD = re.compile(r"[A-Za-z_-]{1,32}")
_ID = re.compile(r"[A-Za-z0-9._:-]{1,80}")
_OPEN_TURNS = 1024
"""Turns with calls that still wait for a result; older ones are given up."""


@dataclass(slots=True, eq=False)
class _Call:
    """A tool call that waits for its result."""

    id: str | None
    name: str
    tool: Tool
    instant: int
    row: str
    at: int
    doubtful: bool
    labels: tuple[str, ...]
    job: str | None = None
    told: bool = False
    given_up: bool = False


@dataclass
class ReplayOptions:
    """How rows are read.

    Attributes
    ----------
    nonzero_exit_fails : bool
        Count a completed command with another exit code than 0 as a failure.
    active_only : bool
        Leave out what lies off the active path of the tree.
    keep_text : bool
        Keep texts in the steps.
    """

    nonzero_exit_fails: bool = False
    active_only: bool = False
    keep_text: bool = False


class Replay:
    """Reads the rows of one session in order and says what happened.

    Calls and results are paired by id inside the turn of the assistant, first come first served; ids repeat between
    turns. Rows that OpenClaw injects (copies of delivered texts) are no steps. A call whose result never comes is told
    as unresolved when the user goes on.

    Parameters
    ----------
    taxonomy : Taxonomy
    options : ReplayOptions
    """

    def __init__(self, taxonomy: Taxonomy, options: ReplayOptions | None = None) -> None:
        self.taxonomy = taxonomy
        self.options = options or ReplayOptions()
        self.counts = Counts()
        self.children: list[str] = []
        self.version: Any = None
        self.tool_evidence = False
        self._frames: list[list[_Call]] = []
        self._waiting = 0
        self._held: list[_Call] = []
        self._jobs: dict[str, _Call] = {}
        self._now = NO_INSTANT
        self._seen: set[str | int] = set()
        self._started = self._window = False

    @property
    def started(self) -> bool:
        """Whether any row was read."""
        return self._started

    # -- rows --------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """A new window of the session begins. Its first row resets the session, unless it was read before."""
        self._window = self._started

    def feed(self, row: Row, line: bytes, *, abandoned: bool = False, fallback: int = NO_INSTANT) -> list[Step]:
        """The steps of one row; none for a row that was read before.

        Parameters
        ----------
        row : Row
        line : bytes
            The row as text; identifies a row without an id.
        abandoned : bool
            Whether the row lies off the active path.
        fallback : int
            Instant of a row that does not say when it was written.
        """
        if row.type == "session":
            return self._header(row, fallback)
        self.counts.entries += 1
        name = row.id if isinstance(row.id, str) and row.id else None
        key: str | int = name or _digest(line.strip())
        if key in self._seen:
            self.counts.duplicates += 1
            self._window = False
            return []
        self._seen.add(key)
        if abandoned and self.options.active_only:
            return []
        self._tick(instant_of(row), fallback)
        usable = isinstance(key, str) and _ID.fullmatch(key) is not None
        label = str(key) if usable else f"x{_digest(key) if isinstance(key, str) else key:016x}"
        steps = self._start() if not self._started else []
        if self._window:
            self._window = False
            self.counts.resets += 1
            steps.append(self._reset(label, "archived", "window"))
        steps += self._row(row, label)
        if abandoned:
            for step in steps:
                step.labels = (*step.labels, "branch:abandoned")
        return steps

    def _header(self, row: Row, fallback: int) -> list[Step]:
        self.version = row.version
        self._tick(instant_of(row), fallback)
        return self._start() if not self._started else []

    def _start(self) -> list[Step]:
        self._started = True
        return [Step("session.started", self._now, "session", actor="system")]

    def _tick(self, instant: int, fallback: int) -> None:
        """Rows are in order whatever their clocks say: time never goes back."""
        if instant == NO_INSTANT:
            self.counts.untimed += 1
            instant = fallback
        if instant == NO_INSTANT:
            instant = self._now if self._now != NO_INSTANT else 0
        if self._now != NO_INSTANT and instant < self._now:
            self.counts.back_in_time += 1
            return
        self._now = instant

    def _row(self, row: Row, name: str) -> list[Step]:
        if row.type == "message" and isinstance(row.message, Message):
            return self._message(row.message, name)
        if row.type == "compaction":
            self.counts.compactions += 1
            return [Step("session.compacted", self._now, name, actor="system")]
        if row.type == "reset":
            self.counts.resets += 1
            return [*self._abandon_calls(), self._reset(name, text(row.reason) or "reset")]
        if row.type == "leaf" or row.type in _SILENT:
            return []
        self.counts.unknown_types[str(row.type)[:40]] += 1
        return []

    def _reset(self, name: str, reason: str, part: str = "") -> Step:
        reason = reason if _WORD.fullmatch(reason) else "other"
        return Step("session.reset", self._now, name, part, actor="system", labels=(f"reset:{reason}",))

    def _message(self, message: Message, name: str) -> list[Step]:
        role = message.role
        if role == "assistant":
            return self._assistant(message, name)
        if role in RESULT_ROLES:
            return self._result(message, name)
        if role == "user":
            return self._user(message, name)
        if role == "bashExecution":
            return self._command(message, name)
        if role not in _OTHER_ROLES:
            self.counts.unknown_types[f"message:{str(role)[:40]}"] += 1
        return []

    # -- messages ----------------------------------------------------------------------------------------------

    def _user(self, message: Message, name: str) -> list[Step]:
        self.counts.user += 1
        words = plain_text(blocks(message.content))
        if self._repeated(message, words):
            self.counts.duplicates += 1
            return []
        own = own_words(words)
        kind = self.taxonomy.synthetic(own)
        provenance = message.provenance
        if kind is None and isinstance(provenance, dict) and provenance.get("kind") not in (None, "user"):
            kind = "inter-session"
        steps = self._release_held()
        step = Step(
            "message.user.inbound" if kind is None else f"message.system.{kind}",
            self._now,
            name,
            actor="user" if kind is None else "system",
            metrics={"contentChars": len(own)},
            text=own,
        )
        if kind is None:
            steps += self._abandon_calls()
        else:
            self.counts.synthetic[kind] += 1
            steps += self._announced(own, name)
        return [*steps, step]

    def _repeated(self, message: Message, words: str) -> bool:
        """Some versions wrote every message of the user many times, each with an id of its own."""
        keys = []
        if text(message.idempotency_key):
            keys.append(_digest(f"key {message.idempotency_key}"))
        if isinstance(message.timestamp, int | float) and words:
            keys.append(_digest(f"text {message.timestamp} {words}"))
        known = any(key in self._seen for key in keys)
        self._seen.update(keys)
        return known

    def _assistant(self, message: Message, name: str) -> list[Step]:
        self.counts.assistant += 1
        if message.provider in INJECTED:
            self.counts.injected += 1
            return []
        parts = blocks(message.content)
        calls = [b for b in parts if b.type in CALLS]
        steps = self._release_held({b.id for b in calls if isinstance(b.id, str)})
        stop = text(message.stop_reason)
        words = plain_text(parts)
        if words or not calls:
            labels = () if stop not in _BROKEN_STOPS else (f"stop:{stop}",)
            outcome = "failure" if stop in ("error", "aborted") and not calls else "unknown"
            steps.append(
                Step(
                    "message.assistant.reply",
                    self._now,
                    name,
                    outcome=outcome,
                    labels=labels,
                    metrics={"contentChars": len(words)},
                    meta={"stop": stop if _WORD.fullmatch(stop) else "other"} if stop else {},
                    text=words,
                )
            )
        if not calls:
            return steps
        self.tool_evidence = True
        doubtful = stop in _BROKEN_STOPS or message.error_message is not None
        frame = [self._call(block, name, at, doubtful) for at, block in enumerate(calls)]
        self._frames.append(list(frame))
        del self._frames[:-_OPEN_TURNS]
        self._waiting += len(frame)
        if doubtful:
            # A turn that failed may be tried again with the same calls; then only the later one counts.
            self._held = frame
        else:
            steps += [self._begun(call) for call in frame]
        return steps

    def _call(self, block: Block, name: str, at: int, doubtful: bool) -> _Call:
        given = arguments(block)
        tool = self.taxonomy.tool(text(block.name) or "unnamed", given)
        self.counts.tool_calls += 1
        written = (text(block.name) or "unnamed")[:80]
        self.counts.tools[written] += 1
        job = given.get("sessionId", given.get("session_id"))
        labels = (f"tool:{tool.name}", f"tool-family:{tool.family}")
        return _Call(text(block.id), written, tool, self._now, name, at, doubtful, labels, text(job))

    def _begun(self, call: _Call) -> Step:
        call.told = True
        return self._tool(call.row, f"call-{call.at}", call.id, call.tool, "started", call.labels)

    def _tool(self, row: str, part: str, call_id: str | None, tool: Tool, phase: str, labels: tuple[str, ...]) -> Step:
        meta = {"signature": tool.signature}
        return Step("tool", self._now, row, part, tool=tool, phase=phase, call_id=call_id, labels=labels, meta=meta)

    def _release_held(self, again: frozenset[str] | set[str] = frozenset()) -> list[Step]:
        """Tell the calls of a failed turn, unless the turn was tried again with the same ids."""
        held, self._held = self._held, []
        if not held:
            return []
        if again & {call.id for call in held if call.id}:
            self._drop(held)
            self.counts.superseded_calls += len(held)
            self.counts.tool_calls -= len(held)
            self.counts.tools.subtract(call.name for call in held)
            return []
        return [self._begun(call) for call in held]

    def _drop(self, calls: list[_Call]) -> None:
        for frame in self._frames:
            before = len(frame)
            frame[:] = [call for call in frame if call not in calls]
            self._waiting -= before - len(frame)

    def _command(self, message: Message, name: str) -> list[Step]:
        """A command that the user typed; no call of the agent."""
        code = message.exit_code
        failed = message.cancelled is True or (isinstance(code, int) and code != 0)
        known = failed or code == 0
        outcome = "failure" if failed else "success" if known else "unknown"
        return [*self._release_held(), Step("command.typed", self._now, name, actor="user", outcome=outcome)]

    # -- results -----------------------------------------------------------------------------------------------

    def _result(self, message: Message, name: str) -> list[Step]:
        call_id, tool_name = text(message.tool_call_id), text(message.tool_name)
        if call_id is None and (tool_name is None or tool_name.strip() == "Tool  not found"):
            # A phantom: it answers nothing.
            self.counts.orphan_results += 1
            return []
        self.counts.tool_results += 1
        self.tool_evidence = True
        call = self._take(call_id, tool_name)
        steps = []
        if call is not None and not call.told:
            self._held = [held for held in self._held if held is not call]
            steps.append(self._begun(call))
        if call is None:
            self.counts.orphan_results += 1
            tool = self.taxonomy.tool(tool_name or "unnamed", {})
            labels: tuple[str, ...] = (f"tool:{tool.name}", f"tool-family:{tool.family}", "orphan")
        else:
            tool, labels = call.tool, call.labels
        verdict = judge(message)
        self._count(message, verdict)
        if call is not None and call.doubtful and verdict.phase != "unknown":
            verdict = verdict._replace(phase="unknown")
        details = message.details if isinstance(message.details, Details) else Details()
        step = self._ended(name, call_id, tool, labels, verdict, "result")
        begun = self._now if call is None else call.instant
        lasted = details.duration_ms
        timed = isinstance(lasted, int | float) and not isinstance(lasted, bool) and 0 <= lasted < 1e15
        step.metrics["durationMs"] = lasted if timed else (self._now - begun) // NANOS_PER_MS
        child = text(details.child_session_key)
        if child is not None:
            self.children.append(child)
            step.meta["childSessionKey"] = child
        if self.options.keep_text:
            step.text = plain_text(blocks(message.content))
        steps.append(step)
        return steps + self._background(call, details, verdict, name)

    def _take(self, call_id: str | None, tool_name: str | None) -> _Call | None:
        """The call that a result answers: in the latest turn that still waits for this id, the first of them."""
        for turn in range(len(self._frames) - 1, -1, -1):
            frame = self._frames[turn]
            for at, call in enumerate(frame):
                if call.id == call_id if call_id is not None else call.name == tool_name:
                    self._waiting -= 1
                    del frame[at]
                    if not frame:
                        del self._frames[turn]
                    return call
        return None

    def _count(self, message: Message, verdict: Verdict) -> None:
        counts = self.counts
        counts.failures += verdict.phase == "failed"
        counts.running += verdict.phase == "running"
        counts.nonzero_exit += verdict.nonzero
        counts.synthetic_results += verdict.synthetic
        counts.flagged_errors += message.is_error is True or message.is_error_snake is True

    def _ended(
        self, name: str, call_id: str | None, tool: Tool, labels: tuple[str, ...], verdict: Verdict, part: str
    ) -> Step:
        extra = []
        if verdict.kind:
            extra.append(f"failure:{verdict.kind}")
        if verdict.nonzero:
            extra.append("exit:nonzero")
            if self.options.nonzero_exit_fails and verdict.phase == "succeeded":
                verdict = verdict._replace(phase="failed")
        if verdict.synthetic:
            extra.append("synthetic")
        if verdict.doubtful:
            extra.append("confidence:low")
        step = self._tool(name, part, call_id, tool, verdict.phase, (*labels, *extra))
        step.outcome = verdict.outcome
        return step

    # -- work in the background --------------------------------------------------------------------------------

    def _background(self, call: _Call | None, details: Details, verdict: Verdict, name: str) -> list[Step]:
        """Remember a command that went to the background, or tell the end of one that a later result reports."""
        job = text(details.session_id)
        if call is None:
            return []
        process = call.tool.name == "process"
        if not process:
            if verdict.phase == "running" and job is not None and status_of(details) == "running":
                self._jobs[job] = call
            return []
        job = job or call.job
        if job is None or verdict.phase in ("running", "unknown") or details.status is None:
            return []
        return self._joined(job, verdict, name)

    def _joined(self, job: str, verdict: Verdict, name: str) -> list[Step]:
        begun = self._jobs.pop(job, None)
        if begun is None:
            return []
        self.counts.joined += 1
        step = self._ended(name, begun.id, begun.tool, (*begun.labels, "background"), verdict, "joined")
        step.metrics["durationMs"] = (self._now - begun.instant) // NANOS_PER_MS
        return [step]

    def _announced(self, words: str, name: str) -> list[Step]:
        ended = ended_job(words)
        if ended is None:
            return []
        code = ended.exit_code
        verdict = Verdict("failed", "failed") if ended.failed else Verdict("succeeded", nonzero=bool(code))
        return self._joined(ended.session, verdict, name)

    # -- ends --------------------------------------------------------------------------------------------------

    def _abandon_calls(self) -> list[Step]:
        """The user went on: calls without a result will hardly get one."""
        lost = [call for frame in self._frames for call in frame if call.told and not call.given_up]
        for call in lost:
            call.given_up = True
        return [self._tool(c.row, f"unresolved-{c.at}", c.id, c.tool, "unresolved", c.labels) for c in lost]

    def finish(self) -> list[Step]:
        """No more rows: what is still held is told."""
        steps = self._release_held()
        self.counts.unresolved = self._waiting
        return steps

    def end(self, outcome: str, reason: str) -> Step:
        """The session is known to have ended."""
        return Step("session.ended", self._now, "session", "ended", "system", outcome, labels=(f"end:{reason}",))


def _digest(text: str | bytes) -> int:
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
