"""Which case an event belongs to: the session, a task in it, or one turn of the user."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

import msgspec

from sherpa.instants import format_milliseconds

Routing = Literal["session", "task", "run"]
MINUTE = 60 * 10**9
IDLE = 30 * MINUTE
STALE = 120 * MINUTE
_TITLE, _SHORTEST, _SLUG, _TOKENS = 72, 24, 48, 16
_OVERLAP = 0.25
_SENTENCE = re.compile(r"(?<=[.!?])\s|\n")
_WORD = re.compile(r"[a-z0-9]+")


class _Phrases(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    commands_start: tuple[str, ...]
    commands_done: tuple[str, ...]
    commands_fail: tuple[str, ...]
    done: tuple[str, ...]
    failed: tuple[str, ...]
    shift: tuple[str, ...]
    acknowledgements: tuple[str, ...]
    stop_words: tuple[str, ...]


@cache
def _phrases() -> _Phrases:
    text = files("sherpa.capture").joinpath("phrases.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), _Phrases)


class Boundary(NamedTuple):
    """A task begins or ends.

    Attributes
    ----------
    type : str
        ``task.started``, ``task.completed``, ``task.failed`` or ``task.ended``.
    case_id, slug, reason : str
    after : bool
        Whether the message that caused it still belongs to this case and comes first.
    """

    type: str
    case_id: str
    slug: str
    reason: str
    after: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the event."""
        kind = "task-boundary" if self.type == "task.started" else "task-terminal"
        return f"task:{self.slug}", f"{kind}:{self.reason}"


class _Task(NamedTuple):
    case_id: str
    slug: str
    title: str


@dataclass
class TaskRouter:
    """Cuts the messages of one session into tasks.

    A task that was idle for two hours has ended. A message can end the task (a command such as ``/done``, or a phrase
    such as "that worked"), or begin another: by command (``/task``, ``task:`` …), as the first message that looks like
    work, after half an hour of silence, or when it begins with the words of a change of subject and shares at most a
    quarter of its content words with the title of the task.

    Parameters
    ----------
    session : str
        Session key; cases are called ``session:{key}:task:{slug}:{time}``.
    keep_text : bool
        Make the slug from the title; otherwise it is the number of the task, which says nothing of the text.
    idle_timeout, stale_timeout : int
        Nanoseconds of silence after which a message begins another task, and after which a task has ended.
    """

    session: str
    keep_text: bool = False
    task: _Task | None = None
    last: int | None = None
    number: int = 0
    idle_timeout: int = IDLE
    stale_timeout: int = STALE

    def state(self) -> dict[str, Any]:
        """What another process needs to go on: `restored` takes it.

        Without `keep_text` the title is left out; then a change of subject is no longer told by its words.
        """
        task = None if self.task is None else self.task._asdict()
        if task is not None and not self.keep_text:
            task["title"] = ""
        return {"session": self.session, "task": task, "last": self.last, "number": self.number}

    @classmethod
    def restored(cls, state: dict[str, Any], *, keep_text: bool, idle_timeout: int, stale_timeout: int) -> TaskRouter:
        """The router that was left in a state."""
        task = None if state["task"] is None else _Task(**state["task"])
        return cls(state["session"], keep_text, task, state["last"], state["number"], idle_timeout, stale_timeout)

    @property
    def case_id(self) -> str:
        """The case of what happens now."""
        return self.task.case_id if self.task else f"session:{self.session}"

    def touch(self, instant: int) -> None:
        """Something else happened."""
        self.last = instant

    def message(self, text: str, instant: int) -> list[Boundary]:
        """What a message of the user begins and ends, in order."""
        found: list[Boundary] = []
        idle = 0 if self.last is None else instant - self.last
        self.last = instant
        if self.task is not None and idle >= self.stale_timeout:
            found += self.end("stale-timeout")
        words = _phrases()
        lower = text.strip().lower()
        ended = _ends(lower, words)
        if ended is not None:
            if self.task is not None:
                kind, reason = ended
                found.append(Boundary(kind, self.task.case_id, self.task.slug, reason, after=True))
                self.task = None
            return found
        begun = self._begins(text, lower, idle, words)
        if begun is not None:
            title, reason = begun
            found += self.end("superseded")
            found.append(self._start(title, reason, instant))
        return found

    def end(self, reason: str) -> list[Boundary]:
        """End the task, if there is one."""
        if self.task is None:
            return []
        ended = Boundary("task.ended", self.task.case_id, self.task.slug, reason)
        self.task = None
        return [ended]

    def _start(self, title: str, reason: str, instant: int) -> Boundary:
        self.number += 1
        slug = slug_of(title) if self.keep_text else f"task-{self.number}"
        case_id = f"session:{self.session}:task:{slug}:{format_milliseconds(instant)}"
        self.task = _Task(case_id, slug, title)
        return Boundary("task.started", case_id, slug, reason)

    def _begins(self, text: str, lower: str, idle: int, words: _Phrases) -> tuple[str, str] | None:
        for command in words.commands_start:
            if _is_command(lower, command):
                return text.strip()[len(command) :].strip() or "new task", "explicit"
        title = title_of(text)
        if len(title) < _SHORTEST or _acknowledges(lower, words):
            return None
        if self.task is None:
            return title, "auto-first-message"
        if idle >= self.idle_timeout:
            return title, "auto-idle-timeout"
        if lower.startswith(words.shift) and self.task.title and _shared(title, self.task.title, words) <= _OVERLAP:
            return title, "auto-intent-shift"
        return None


def _ends(lower: str, words: _Phrases) -> tuple[str, str] | None:
    for kind, commands, phrases in (
        ("task.completed", words.commands_done, words.done),
        ("task.failed", words.commands_fail, words.failed),
    ):
        if any(_is_command(lower, command) for command in commands):
            return kind, "explicit"
        if any(_begins_with(lower, phrase) for phrase in phrases):
            return kind, "phrase"
    return None


def _is_command(lower: str, command: str) -> bool:
    return lower.startswith(command) and (
        command.endswith(":") or lower[len(command) : len(command) + 1] in ("", " ", "\n")
    )


def _begins_with(lower: str, phrase: str) -> bool:
    return lower.startswith(phrase) and (len(lower) == len(phrase) or lower[len(phrase)] in " \n.,:!?")


def title_of(text: str) -> str:
    """The first sentence, at most 72 characters."""
    return _SENTENCE.split(text.strip(), maxsplit=1)[0].strip()[:_TITLE].strip()


def slug_of(title: str) -> str:
    """A title as part of a case id: lower case, words joined by hyphens, at most 48 characters.

    >>> slug_of("Fix the build!"), slug_of("…")
    ('fix-the-build', 'task')
    """
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:_SLUG].strip("-") or "task"


def _tokens(text: str, words: _Phrases) -> list[str]:
    found = [w for w in _WORD.findall(text.lower()) if len(w) >= 3 and w not in words.stop_words]
    return found[:_TOKENS]


def _acknowledges(lower: str, words: _Phrases) -> bool:
    return any(_begins_with(lower, word) for word in words.acknowledgements) and len(_tokens(lower, words)) <= 4


def _shared(title: str, other: str, words: _Phrases) -> float:
    """Shared content words over the larger number of them."""
    a, b = set(_tokens(title, words)), set(_tokens(other, words))
    return len(a & b) / max(len(a), len(b)) if a and b else 0.0
