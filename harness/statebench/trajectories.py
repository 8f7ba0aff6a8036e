"""Training runs of STATE-Bench as steps with observable outcomes.

The files say nothing of whether a task was solved, and nothing here guesses it. What a tool said of itself is another
matter: errors, rejections, empty searches and negative answers stand in the results.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import msgspec

from sherpa.collation import collation_key
from sherpa.errors import SourceError
from sherpa.sources.statebench import read_conversation, tool_calls

Kind = Literal["ok", "preview", "empty", "rejected", "error", "negative"]
SOFT_FAILURES: frozenset[Kind] = frozenset({"rejected", "error"})
"""Kinds by which a tool refuses what it was asked."""
POLICY_TOOL = "get_policies"


@dataclass(frozen=True)
class Call:
    """One tool call.

    Attributes
    ----------
    tool : str
    arguments : dict
    result : object
    turn : int
        Number of the assistant's turn, from 0.
    repeated : bool
        Whether the same call with the same arguments was made before in this run.
    """

    tool: str
    arguments: dict[str, Any]
    result: Any
    turn: int
    repeated: bool

    @cached_property
    def kind(self) -> Kind:
        """What the result says of itself: an error, a refusal, a negative answer, a preview, an empty search, or ok."""
        result = self.result
        if not isinstance(result, dict):
            return "ok"
        if "error" in result or "errors" in result:
            return "error"
        if result.get("status") == "rejected":
            return "rejected"
        if result.get("valid") is False or result.get("compatible") is False:
            return "negative"
        if result.get("status") == "preview":
            return "preview"
        lists = [value for value in result.values() if isinstance(value, list)]
        if self.tool.startswith("search_") and lists and not any(lists):
            return "empty"
        return "ok"

    @property
    def token(self) -> str:
        """The tool, and whether it was asked to go through with it or only to show what would happen."""
        confirm = self.arguments.get("confirm")
        return self.tool if not isinstance(confirm, bool) else f"{self.tool}.{'confirm' if confirm else 'preview'}"

    @property
    def writes(self) -> bool:
        """Whether it changed something: a tool whose name says so, that did not answer with a preview or a refusal.

        The answer counts and not the argument: some calls without confirmation were carried out all the same.
        """
        return self.kind not in ("error", "rejected", "preview", "negative") and self.tool.startswith(_CHANGES)


_CHANGES = (
    "add_",
    "apply_",
    "book_",
    "cancel_",
    "checkout",
    "create_",
    "place_",
    "process_",
    "redeem_",
    "remove_",
    "set_",
    "update_",
    "issue_",
    "grant_",
    "transfer_",
)


@dataclass(frozen=True)
class Trajectory:
    """One run.

    Attributes
    ----------
    domain : str
    place : int
        Number of the run in its domain, in the order of file names. The names themselves give solutions away and are
        not kept.
    system : str
        What the agent was told first.
    user : tuple of str
        What the user said, turn by turn; the mark that ends a run is left out.
    answers : tuple of str
        What the agent answered, turn by turn.
    calls : tuple of Call
    """

    domain: str
    place: int
    system: str
    user: tuple[str, ...]
    answers: tuple[str, ...]
    calls: tuple[Call, ...]

    @property
    def opening(self) -> str:
        """The first message of the user."""
        return self.user[0] if self.user else ""

    @cached_property
    def sequence(self) -> tuple[str, ...]:
        """Tokens of the calls, repeats in a row once."""
        return tuple(token for token, _ in groupby(call.token for call in self.calls))

    @cached_property
    def tools(self) -> frozenset[str]:
        """Tools that were used."""
        return frozenset(call.tool for call in self.calls)

    @cached_property
    def topics(self) -> frozenset[str]:
        """Policies that were looked up."""
        named = (call.arguments.get("topic") for call in self.calls if call.tool == POLICY_TOOL)
        return frozenset(topic for topic in named if isinstance(topic, str))

    @cached_property
    def written(self) -> frozenset[tuple[str, str]]:
        """What was changed: (tool, reason that was given for it)."""
        named = ((c, c.arguments.get("reason") or c.arguments.get("change_reason") or "") for c in self.calls)
        return frozenset((c.tool, str(reason)) for c, reason in named if c.writes)

    @property
    def clean(self) -> bool:
        """Whether no tool refused anything and no call was made twice. It says nothing of the task."""
        return not any(call.kind in SOFT_FAILURES or call.repeated for call in self.calls)


END_MARK = "[TASK_DONE]"


def run_files(folder: Path) -> Iterator[tuple[str, int, Path]]:
    """(domain, place, file) of every run under a folder of domains, by domain and file name."""
    domains = sorted((p for p in folder.iterdir() if p.is_dir()), key=lambda p: p.name) if folder.is_dir() else []
    for domain in domains:
        files = sorted(domain.glob("*.json"), key=lambda p: collation_key(p.name))
        for place, path in enumerate(files):
            yield domain.name, place, path


def read_trajectories(folder: Path) -> Iterator[Trajectory]:
    """Every run under a folder of domains, by domain and file name.

    Raises
    ------
    SourceError
        If a file is not a run, or there is none.
    """
    found = 0
    for domain, place, path in run_files(folder):
        found += 1
        yield _read(path, domain, place)
    if not found:
        raise SourceError("holds no domains with runs (DOMAIN/NAME.json)", file=folder)


def _read(path: Path, domain: str, place: int) -> Trajectory:
    # Nothing but the conversation is looked at, whatever else a file may hold.
    system, user, answers, calls = "", [], [], []
    made: set[bytes] = set()
    turn = -1
    for at, message in enumerate(read_conversation(path, "a run")):
        content = message.get("content")
        said = content if isinstance(content, str) else ""
        role = message.get("role")
        if role == "system":
            system = said
        elif role == "user" and said.strip() != END_MARK:
            user.append(said)
        elif role == "assistant":
            turn += 1
            answers.append(said)
            for call in tool_calls(message, path, at):
                given = call.get("arguments")
                arguments = given if isinstance(given, dict) else {}
                key = msgspec.json.encode([call["name"], arguments], order="sorted")
                calls.append(Call(call["name"], arguments, call.get("result"), turn, key in made))
                made.add(key)
    return Trajectory(domain, place, system, tuple(user), tuple(answers), tuple(calls))
