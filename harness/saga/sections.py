"""Markdown cut at its headings, with the fenced blocks of each section."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_BOLD = re.compile(r"\*\*(.+?)\*\*:?")
_STAGE = re.compile(r"(?:\*\*|__)?(?:stage|s|阶段) ?[-#]? ?\d+\b ?(?:\*\*|__)? ?[:：.)\-–—]*(.*)", re.IGNORECASE)
_FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})\s*([^\s`]*).*")
_GOAL = re.compile(r"\s*(?:[-*]\s+)?(?:\*\*|__)?goal(?:\*\*|__)?\s*[:：]\s*(?:\*\*|__)?", re.IGNORECASE)
_LOOSE = re.compile(
    r"\s*(?:\*\*)?(?:done|done-?criteria|checks|dod|acceptance|criteria)(?:\*\*)?\s*:(?:\*\*)?", re.IGNORECASE
)
_STRAY = re.compile(r"\s*-\s*\W?kind\W?\s*:", re.IGNORECASE)
_YAML = ("yaml", "yml")
_STAGE_LINE = re.compile(
    r"(?mi)^[ \t]*-?[ \t]*[\"']?(?:done|done-?criteria|checks|dod|acceptance|criteria|kind|goal)[\"']?[ \t]*:"
)


@dataclass
class Block:
    """A fenced block; `info` is what stands behind the opening fence."""

    info: str
    text: str


@dataclass
class Section:
    """What stands under one heading.

    Attributes
    ----------
    title : str
        Of a stage, what follows ``Stage N:``; else the heading.
    prose : list of str
        Lines outside fenced blocks that are not empty.
    blocks : list of Block
        Those that can hold a stage.
    """

    title: str = ""
    is_stage: bool = False
    lines: list[str] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)

    @property
    def prose(self) -> list[str]:
        return [line.strip() for line in self.lines if line.strip()]

    @property
    def goal(self) -> str | None:
        """The first line ``Goal: …`` outside the blocks, or inside one."""
        inner = [line for block in self.blocks for line in block.text.split("\n")]
        texts = (line[match.end() :].strip() for line in [*self.lines, *inner] if (match := _GOAL.match(line)))
        return next((text for text in texts if text), None)

    @property
    def has_stray_criteria(self) -> bool:
        """Whether criteria stand outside the blocks."""
        return any(_STRAY.match(line) for line in self.lines)

    def loose_criteria(self) -> str | None:
        """Criteria that stand outside any block, from their heading on."""
        for at, line in enumerate(self.lines):
            match = _LOOSE.match(line)
            if match:
                rest = [text for text in self.lines[at + 1 :] if not _GOAL.match(text)]
                return "\n".join([f"done: {line[match.end() :].strip()}", *rest])
        return None


def unwrapped(text: str) -> str:
    """The document without one fence around all of it."""
    lines = text.strip("\n").split("\n")
    while lines and not lines[0].strip():
        lines.pop(0)
    while lines and not lines[-1].strip():
        lines.pop()
    if len(lines) < 2:
        return text
    opening, closing = _FENCE.fullmatch(lines[0]), _FENCE.fullmatch(lines[-1])
    if opening is None or closing is None or closing[2] or opening[1][0] != closing[1][0]:
        return text
    inner = lines[1:-1]
    fences = [line for line in inner if _FENCE.fullmatch(line)]
    if opening[2].lower() in _YAML and fences:
        return text
    if opening[2].lower() not in ("", "md", "markdown", "text", "txt", "plaintext", *_YAML, "json"):
        return text
    if opening[2] == "" and len(fences) % 2:
        return text
    return "\n".join(inner)


def sections_of(text: str, notices: list[str]) -> list[Section]:
    """The sections of a document; what stands before the first heading is one, too."""
    sections = [Section()]
    fence: str | None = None
    info, inside = "", []  # type: str, list[str]
    for line in text.split("\n"):
        mark = _FENCE.fullmatch(line)
        heading = _heading(line)
        if fence is not None:
            if mark and mark[1].startswith(fence) and not mark[2]:
                _close(sections[-1], info, inside)
                fence = None
                continue
            if heading is None or not heading.is_stage:
                inside.append(line)
                continue
            notices.append(f"a fenced block was not closed before {line.strip()[:60]!r}")
            _close(sections[-1], info, inside)
            fence = None
        if mark and heading is None:
            fence, info, inside = mark[1][:3], mark[2].lower(), []
        elif heading is not None:
            sections.append(heading)
        else:
            sections[-1].lines.append(line)
    if fence is not None:
        notices.append("the last fenced block was not closed")
        _close(sections[-1], info, inside)
    return sections


def _heading(line: str) -> Section | None:
    """A section that this line begins: a heading of level 2, or one of another level that names a stage."""
    # Long runs of blanks would make patterns slow; no heading needs them.
    bare = " ".join(line.split())
    marks = len(bare) - len(bare.lstrip("#"))
    if not marks:
        bold = _BOLD.fullmatch(bare)
        stage = _STAGE.fullmatch(bold[1]) if bold else None
        return None if stage is None else Section(stage[1].strip(), True)
    if marks > 4:
        return None
    text = bare[marks:].strip().rstrip("#").strip()
    stage = _STAGE.fullmatch(text)
    if stage is not None:
        return Section(stage[1].strip(" *_"), True)
    return Section(text) if marks == 2 else None


def _close(section: Section, info: str, lines: list[str]) -> None:
    text = "\n".join(lines)
    if info in _YAML or (info in ("", "json", "text") and _STAGE_LINE.search(text)):
        section.blocks.append(Block(info, text))
    elif info not in _YAML:
        section.lines += lines
