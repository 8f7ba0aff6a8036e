"""What tools said the rules are: answers of `get_policies`, each line once, with the circumstances it was given for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from harness.statebench.trajectories import POLICY_TOOL, Call, Trajectory


@dataclass(frozen=True)
class Rule:
    """One line of a policy.

    Attributes
    ----------
    section : str
        Names that lead to the line, joined with dots.
    text : str
    circumstances : tuple of str
        ``name value`` of what it was given for; empty if every answer had the line.
    runs : tuple of int
        Places of the runs in which it was read.
    """

    section: str
    text: str
    circumstances: tuple[str, ...]
    runs: tuple[int, ...]

    def line(self) -> str:
        """As a card shows it."""
        when = f" [{'; '.join(self.circumstances)}]" if self.circumstances else ""
        return f"{self.section}{when}: {self.text}"


def read_policies(runs: Iterable[Trajectory]) -> dict[str, list[Rule]]:
    """Rules of every topic that the runs of one domain looked up, topics and rules in order of first reading."""
    asked: dict[str, list[tuple[int, str, dict[tuple[str, str], None]]]] = {}
    for run in runs:
        for call in run.calls:
            topic = call.arguments.get("topic")
            if call.tool == POLICY_TOOL and isinstance(topic, str) and isinstance(call.result, dict):
                if call.kind == "error":
                    continue
                circumstances = ", ".join(_circumstances(call))
                asked.setdefault(topic, []).append((run.place, circumstances, dict.fromkeys(_lines(call))))
    return {topic: _rules(answers) for topic, answers in asked.items()}


def _rules(answers: list[tuple[int, str, dict[tuple[str, str], None]]]) -> list[Rule]:
    seen: dict[tuple[str, str], tuple[dict[str, None], dict[int, None], int]] = {}
    for place, circumstances, lines in answers:
        for line in lines:
            when, where, times = seen.get(line, ({}, {}, 0))
            when[circumstances] = None
            where[place] = None
            seen[line] = (when, where, times + 1)
    return [
        Rule(section, text, () if times == len(answers) else tuple(w for w in when if w), tuple(where))
        for (section, text), (when, where, times) in seen.items()
    ]


def _about(call: Call, name: str) -> bool:
    """Whether a field of an answer repeats what it was asked for."""
    return name == "topic" or name.startswith("applicable_") or name in call.arguments


def _circumstances(call: Call) -> Iterator[str]:
    for name, value in call.result.items():
        if name != "topic" and _about(call, name) and isinstance(value, str) and value:
            yield f"{name.removeprefix('applicable_')} {value}"


def _lines(call: Call) -> Iterator[tuple[str, str]]:
    for name, value in call.result.items():
        if not _about(call, name):
            yield from _leaves(value, "" if name == "rules" else name)


def _leaves(value: Any, section: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(item, f"{section}.{name}" if section else str(name))
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item, section)
    elif value is not None and value != "":
        text = str(value).lower() if isinstance(value, bool) else " ".join(str(value).split())
        yield section or "rule", text
