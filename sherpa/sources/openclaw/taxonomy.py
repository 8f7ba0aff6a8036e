"""The names that tools, commands and synthetic texts get; the names themselves are data (``taxonomy.toml``)."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from sherpa.errors import SourceError

Granularity = Literal["family", "tool", "operation"]
GRANULARITIES: tuple[Granularity, ...] = get_args(Granularity)
Words = tuple[Annotated[str, Meta(min_length=1)], ...]
_UNUSUAL = re.compile(r"[^A-Za-z0-9_./@+-]+")
_NAME_LENGTH, _COMMAND, _ARGUMENTS = 80, 1024, 16
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=\S*")
_SEPARATOR = re.compile(r"&&|\|\||;|\n")


class _Family(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    family: str
    parts: Words


class _Action(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    argument: str
    values: Words


class _Commands(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tools: Words = ()
    argument: str = "command"
    programs: Words = ()
    prefixes: Words = ()
    leading: Words = ()


class _Synthetic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: str
    starts: Words = ()
    matches: Words = ()


class _Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    renamed: dict[str, str] = {}
    families: tuple[_Family, ...] = ()
    family_of: dict[str, str] = {}
    actions: dict[str, _Action] = {}
    commands: _Commands = _Commands()
    arguments: dict[str, Words] = {}
    synthetic: tuple[_Synthetic, ...] = ()


@dataclass(frozen=True)
class Tool:
    """A tool call by its names.

    Attributes
    ----------
    name : str
        Common name of the tool; for a tool of an MCP server ``mcp:server/tool``.
    family : str
    operation : str
        The name, with the action or the program where the tool does several things: ``exec:git``, ``process:poll``.
    signature : str
        The operation with the common names of its arguments: ``edit(new_text,old_text,path)``.
    """

    name: str
    family: str
    operation: str
    signature: str

    def stem(self, granularity: Granularity) -> str:
        """What stands before the phase in an event type."""
        if granularity == "family":
            return self.family
        return f"tool.{self.name if granularity == 'tool' else self.operation}"


@dataclass(frozen=True, eq=False)
class Taxonomy:
    """Names tools and texts.

    Parameters
    ----------
    parity : bool
        Families by the parts of a name alone, as the original has them.
    """

    data: _Data
    parity: bool = False
    _alias: dict[str, str] = field(init=False, repr=False)
    _matches: tuple[tuple[re.Pattern[str], str], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        alias = {spelling: name for name, spellings in self.data.arguments.items() for spelling in spellings}
        object.__setattr__(self, "_alias", alias)
        patterns = [(re.compile(p), s.kind) for s in self.data.synthetic for p in s.matches]
        object.__setattr__(self, "_matches", tuple(patterns))

    def tool(self, name: str, arguments: dict[str, Any]) -> Tool:
        """The names of a call."""
        shown = self._action(name, arguments) or self._program(name, arguments) or ""
        return self._named(name, shown, tuple(arguments))

    @lru_cache(maxsize=4096)  # noqa: B019 - a taxonomy lives as long as the program
    def _named(self, raw: str, action: str, keys: tuple[str, ...]) -> Tool:
        server, bare = _mcp(raw)
        clean = _clean(bare)
        name = f"mcp:{_clean(server)}/{clean}" if server else self.data.renamed.get(clean, clean)
        operation = f"{name}:{action}" if action else name
        shown = ",".join(sorted({_clean(self._alias.get(key, key)) for key in keys})[:_ARGUMENTS])
        return Tool(name, self.family(raw), operation, f"{operation}({shown})")

    def family(self, name: str) -> str:
        """The family of a tool."""
        lower = name.lower()
        if not self.parity and lower in self.data.family_of:
            return self.data.family_of[lower]
        return next((f.family for f in self.data.families if any(part in lower for part in f.parts)), "tool")

    def _action(self, name: str, arguments: dict[str, Any]) -> str | None:
        action = self.data.actions.get(self.data.renamed.get(name, name))
        if action is None:
            return None
        value = arguments.get(action.argument)
        return value if isinstance(value, str) and value in action.values else "other"

    def _program(self, name: str, arguments: dict[str, Any]) -> str | None:
        commands = self.data.commands
        if self.data.renamed.get(name, name) not in commands.tools:
            return None
        command = arguments.get(commands.argument)
        if not isinstance(command, str):
            return "other"
        return self._first_program(command[:_COMMAND])

    @lru_cache(maxsize=4096)  # noqa: B019
    def _first_program(self, command: str) -> str:
        return _program(command, self.data.commands)

    def synthetic(self, text: str) -> str | None:
        """What wrote a text with the role of the user, if not the user: ``heartbeat``, ``cron`` …"""
        for pattern, kind in self._matches:
            if pattern.match(text):
                return kind
        return next((s.kind for s in self.data.synthetic if text.startswith(s.starts)), None)


def _program(command: str, commands: _Commands) -> str:
    for part in _SEPARATOR.split(command):
        words = part.split()
        while words and (words[0] in commands.prefixes or _ASSIGNMENT.fullmatch(words[0]) or words[0].startswith("-")):
            words.pop(0)
        if not words:
            continue
        first = words[0].strip("\"'()`{}$")
        if first in commands.leading:
            continue
        name = first.rsplit("/", 1)[-1]
        if name in commands.programs:
            return name
        return "script" if "/" in first or first.endswith((".sh", ".py", ".js")) else "other"
    return "other"


def _mcp(name: str) -> tuple[str, str]:
    """(server, tool) of ``server__tool`` or ``mcp__server__tool``; no server for a tool of OpenClaw itself."""
    parts = name.split("__")
    if parts[0] == "mcp" and len(parts) > 2:
        parts = parts[1:]
    if len(parts) < 2 or not parts[0] or not parts[1]:
        return "", name
    return parts[0], "__".join(parts[1:])


def _clean(name: str) -> str:
    """A name without anything that could be running text."""
    short = _UNUSUAL.sub("-", name[:_NAME_LENGTH]).strip("-.")
    return short or "unnamed"


def load_taxonomy(path: Path | None = None, *, parity: bool = False) -> Taxonomy:
    """The taxonomy of the package, with the sections of a file put in their place.

    Raises
    ------
    SourceError
        If the file is not a taxonomy.
    """
    text = files("sherpa.sources.openclaw").joinpath("taxonomy.toml").read_text("utf-8")
    sections = tomllib.loads(text)
    if path is not None:
        try:
            sections.update(tomllib.loads(path.read_text("utf-8")))
        except OSError as error:
            raise SourceError(f"cannot be read: {error.strerror or error}", file=path) from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SourceError(f"is not TOML: {error}", file=path) from None
    try:
        data = msgspec.convert(sections, _Data)
        return Taxonomy(data, parity)
    except (msgspec.ValidationError, re.error) as error:
        raise SourceError(f"is not a taxonomy: {error}", file=path) from None
