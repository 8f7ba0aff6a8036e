"""Unified diffs, strictly: what a hunk claims must be there, and a header's counts decide where a hunk ends."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from harness.runtime.errors import PatchError

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_REFUSED = ("rename from", "rename to", "copy from", "copy to", "GIT binary patch", "Binary files")
_NO_NEWLINE = "\\ No newline"


@dataclass
class Hunk:
    """A change at a place: the lines that must be there, and those that come instead, with their line ends."""

    start: int
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


@dataclass
class FilePatch:
    """All hunks of one file; ``old`` is None for a new file, ``new`` for one that is deleted."""

    old: str | None
    new: str | None
    hunks: list[Hunk] = field(default_factory=list)

    @property
    def path(self) -> str:
        """The file that is changed."""
        return self.new or self.old or ""


def parse_diff(text: str) -> list[FilePatch]:
    """The files and hunks of a diff.

    Raises
    ------
    PatchError
        If it has no hunk, is cut off, or asks for something else than changed text.
    """
    lines = text.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    patches: list[FilePatch] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith(_REFUSED) or re.match(r"(new|old|deleted)( file)? mode (12|16)", line):
            raise PatchError(f"line {at + 1}: only changes of text files are applied, not {line[:30]!r}")
        if line.startswith("--- "):
            if at + 1 >= len(lines) or not lines[at + 1].startswith("+++ "):
                raise PatchError(f"line {at + 1}: --- without +++")
            patches.append(_file(_path(line[4:], "a/", at), _path(lines[at + 1][4:], "b/", at + 1), at))
            at += 2
        elif line.startswith("@@"):
            if not patches:
                raise PatchError(f"line {at + 1}: a hunk before any file")
            at = _hunk(lines, at, patches[-1])
        else:
            at += 1
    if not patches or any(not patch.hunks for patch in patches):
        raise PatchError("the diff has no hunk" + (f" for {patches[-1].path}" if patches else ""))
    paths = [patch.path for patch in patches]
    if len(set(paths)) != len(paths):
        raise PatchError("the diff names a file twice")
    return patches


def _path(text: str, side: str, at: int) -> str | None:
    name = text.split("\t")[0].rstrip("\r")
    if name == "/dev/null":
        return None
    if not name or name.startswith('"'):
        raise PatchError(f"line {at + 1}: {name!r} is no usable path")
    return name.removeprefix(side)


def _file(old: str | None, new: str | None, at: int) -> FilePatch:
    if old is None and new is None:
        raise PatchError(f"line {at + 1}: no file at all")
    if old is not None and new is not None and old != new:
        raise PatchError(f"line {at + 1}: {old} would become {new}; files are not renamed")
    return FilePatch(old, new)


def _hunk(lines: list[str], at: int, patch: FilePatch) -> int:
    match = _HUNK.match(lines[at])
    if match is None:
        raise PatchError(f"line {at + 1}: {lines[at][:40]!r} is no header of a hunk")
    start, removed, added = int(match[1]), int(match[2] or 1), int(match[4] or 1)
    hunk = Hunk(start if removed else start + 1)
    at += 1
    while len(hunk.before) < removed or len(hunk.after) < added:
        if at >= len(lines):
            raise PatchError("the diff ends within a hunk")
        line = lines[at]
        if line.startswith(_NO_NEWLINE):
            _without_end(lines[at - 1], hunk)
        elif line.startswith(" ") or line in ("", "\r"):
            hunk.before.append(line[1:] + "\n" if line.startswith(" ") else line + "\n")
            hunk.after.append(hunk.before[-1])
        elif line.startswith("-"):
            hunk.before.append(line[1:] + "\n")
        elif line.startswith("+"):
            hunk.after.append(line[1:] + "\n")
        else:
            raise PatchError(f"line {at + 1}: {line[:40]!r} cannot be in a hunk")
        at += 1
    if at < len(lines) and lines[at].startswith(_NO_NEWLINE):
        _without_end(lines[at - 1], hunk)
        at += 1
    if (len(hunk.before), len(hunk.after)) != (removed, added):
        raise PatchError(f"the hunk at line {start} has other counts than its header")
    patch.hunks.append(hunk)
    return at


def _without_end(previous: str, hunk: Hunk) -> None:
    """The previous line is the last one of its file and ends without a line end."""
    sides = [hunk.before] if previous.startswith("-") else [hunk.after] if previous.startswith("+") else []
    for side in sides or [hunk.before, hunk.after]:
        side[-1] = side[-1].removesuffix("\n")


def apply_hunks(content: str | None, patch: FilePatch) -> str | None:
    """The new content of a file; None if it is to be deleted.

    Parameters
    ----------
    content : str or None
        The present content, None if there is no file.

    Raises
    ------
    PatchError
        If a hunk does not match exactly.
    """
    if (content is None) != (patch.old is None):
        raise PatchError(f"{patch.path} " + ("does not exist" if content is None else "exists already"))
    lines = _split(content or "")
    result: list[str] = []
    done = 0
    for hunk in patch.hunks:
        begin = hunk.start - 1
        if begin < done or lines[begin : begin + len(hunk.before)] != hunk.before:
            raise PatchError(f"{patch.path}: the lines at {hunk.start} are not those that the diff expects")
        result += lines[done:begin] + hunk.after
        done = begin + len(hunk.before)
    result += lines[done:]
    if patch.new is None:
        if result:
            raise PatchError(f"{patch.path} would be deleted, but the diff does not remove all of it")
        return None
    return "".join(result)


def _split(text: str) -> list[str]:
    """Lines by line feed only: a carriage return belongs to its line."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
