"""What a grant allows, in one place. Two questions are kept apart.

*Access*: may this path, exactly as it will be opened, be touched under these patterns? *Delegation*: may someone who
holds these patterns hand out those?

A pattern is POSIX, segments between ``/``. Without wildcards it grants the file or the whole subtree; ``src/*`` grants
one segment, ``src/**`` any depth; ``**`` everything below the workspace, ``/**`` the whole file system. Relative ones
begin at the workspace. Anything empty, anything with ``..``, and a bare ``/`` or ``.`` grants nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from harness.runtime.ir import Authority

PATHS = ("fs_read", "fs_write")
DIMENSIONS = (*PATHS, "net_domains", "subprocess_allow")
_WILD = re.compile(r"[*?\[]")
_NEVER = ("proc", "sys", "dev")
"""Trees that no grant reaches: what lies there is not files."""


@dataclass(frozen=True)
class Pattern:
    """A path pattern, taken apart.

    Attributes
    ----------
    absolute : bool
    prefix : tuple of str
        Leading segments without wildcards.
    tail : tuple of str
        The rest; empty for a pattern without wildcards, which then stands for its subtree.
    """

    absolute: bool
    prefix: tuple[str, ...]
    tail: tuple[str, ...]

    @property
    def anchor(self) -> str:
        """The literal prefix as a path."""
        return ("/" if self.absolute else "") + "/".join(self.prefix)

    @property
    def any_depth(self) -> bool:
        """True if everything below the prefix is meant."""
        return self.tail in ((), ("**",))

    def matches(self, rest: Sequence[str]) -> bool:
        """Whether the segments below the prefix are meant."""
        return not self.tail or _match(self.tail, tuple(rest))


@lru_cache(maxsize=4096)
def read_pattern(text: str) -> Pattern | None:
    """The parts of a pattern; None for one that grants nothing."""
    segments = [part for part in text.split("/") if part not in ("", ".")]
    if not segments or ".." in segments or "\0" in text:
        return None
    first = next((at for at, part in enumerate(segments) if _WILD.search(part)), len(segments))
    return Pattern(text.startswith("/"), tuple(segments[:first]), tuple(segments[first:]))


def _match(tail: tuple[str, ...], rest: tuple[str, ...]) -> bool:
    # Positions of the pattern that can be reached; linear in the product of both lengths, whatever the pattern.
    reached = _closure({0}, tail)
    for part in rest:
        moved = {at for at in reached if at < len(tail) and tail[at] == "**"}
        moved |= {at + 1 for at in reached if at < len(tail) and tail[at] != "**" and fnmatchcase(part, tail[at])}
        reached = _closure(moved, tail)
    return len(tail) in reached


def _closure(reached: set[int], tail: tuple[str, ...]) -> set[int]:
    done = set(reached)
    for at in range(len(tail)):
        if at in done and tail[at] == "**":
            done.add(at + 1)
    return done


def resolve(path: str | os.PathLike[str], workspace: Path) -> Path:
    """The path as it will be opened: absolute, ``..`` collapsed, links followed."""
    return Path(os.path.realpath(Path(os.path.realpath(workspace)) / path))


def forbidden(resolved: Path) -> bool:
    """True for what no grant reaches: process tables, devices."""
    return len(resolved.parts) > 1 and resolved.parts[1] in _NEVER


def path_within_grants(patterns: Sequence[str], requested: str | os.PathLike[str], workspace: Path) -> bool:
    """Whether any pattern grants a path.

    Parameters
    ----------
    requested : path
        Relative ones begin at the workspace; it is resolved here, exactly as it will be opened.
    """
    resolved = resolve(requested, workspace)
    return any(_grants(pattern, resolved, workspace) for pattern in patterns)


def _grants(text: str, resolved: Path, workspace: Path) -> bool:
    pattern = read_pattern(text)
    if pattern is None:
        return False
    anchor = resolve(pattern.anchor or ".", workspace)
    return within(pattern, anchor, resolved, Path(os.path.realpath(workspace)))


def within(pattern: Pattern, anchor: Path, resolved: Path, workspace: Path) -> bool:
    """Whether a pattern whose prefix lies at `anchor` grants a resolved path.

    Parameters
    ----------
    anchor, resolved, workspace : Path
        All of them resolved.
    """
    if forbidden(resolved):
        return False
    if not pattern.absolute and not anchor.is_relative_to(workspace):
        return False
    return resolved.is_relative_to(anchor) and pattern.matches(resolved.relative_to(anchor).parts)


def token_within_grants(patterns: Sequence[str], token: str) -> bool:
    """Whether a host or a program is granted: patterns match whole tokens."""
    return bool(token) and any(pattern and fnmatchcase(token, pattern) for pattern in patterns)


def authority_covers(parent: Authority, child: Authority) -> bool:
    """Whether everything the child names is within what the parent holds."""
    return not missing_powers(parent, child)


def missing_powers(parent: Authority, child: Authority) -> list[str]:
    """What the child names and the parent does not hold, as ``dimension:pattern``."""
    missing = []
    for dimension in DIMENSIONS:
        covers = _path_covers if dimension in PATHS else _token_covers
        held: Sequence[str] = getattr(parent, dimension)
        missing += [
            f"{dimension}:{wanted}"
            for wanted in getattr(child, dimension)
            if not any(covers(pattern, wanted) for pattern in held)
        ]
    return missing


def _path_covers(parent: str, child: str) -> bool:
    """Conservative: what cannot be shown to lie within is refused.

    A literal name stands for its subtree, so ``src/*`` (one segment) does not cover the literal ``src/x``.
    """
    outer, inner = read_pattern(parent), read_pattern(child)
    if outer is None or inner is None:
        return False
    if outer == inner or outer == read_pattern("/**"):
        return True
    if outer.absolute != inner.absolute or inner == read_pattern("/**"):
        return False
    if outer.any_depth:
        return inner.prefix[: len(outer.prefix)] == outer.prefix
    if outer.tail == ("*",):
        return inner.prefix == outer.prefix and len(inner.tail) == 1 and inner.tail != ("**",)
    return False


def _token_covers(parent: str, child: str) -> bool:
    if not parent or not child:
        return False
    if parent == child or parent == "*":
        return True
    if not _WILD.search(child):
        return fnmatchcase(child, parent)
    suffix = parent[1:]
    return parent.startswith("*") and not _WILD.search(suffix) and child.endswith(suffix)
