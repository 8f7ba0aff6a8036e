"""The reference of all commands, made from the commands: ``python -m sherpa.cli.reference docs/cli.md``."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

HEAD = """# Commands

Made from the commands themselves (`make docs`); do not edit. Global options come before the command:
`sherpa --root DIR COMMAND …`. With `--json` (also after the command) stdout is exactly one JSON document. Exit codes: 0
done, 1 a threshold is missed, 2 bad input or usage, 3 internal error.

Completion for the shell: `sherpa --install-completion`.
"""
_HIDDEN = frozenset({"help", "install_completion", "show_completion"})


def reference(app: typer.Typer) -> str:
    """The whole page as Markdown."""
    root = get_command(app)
    parts = [HEAD, "## Global options", "", *_options(root)]
    for path, command in commands(root):
        parts += ["", f"## {path}", "", *_described(command)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


def commands(group: Any, path: str = "sherpa") -> Iterator[tuple[str, Any]]:
    """(words, command) of every command that is not hidden, by name."""
    for name, command in sorted(group.commands.items()):
        if command.hidden:
            continue
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def parameters(command: Any) -> list[Any]:
    """Options and arguments that are the command's own."""
    return [p for p in command.params if p.name not in _HIDDEN and not getattr(p, "hidden", False)]


def _described(command: Any) -> Iterator[str]:
    for block in inspect.cleandoc(command.help or "").split("\n\n"):
        lines = block.split("\n")
        if lines[0].strip() == "\b":
            title, *examples = lines[1:]
            yield from ("", title.strip(), "", "```", *(line.strip() for line in examples), "```")
        else:
            yield from ("", " ".join(line.strip() for line in lines))
    yield ""
    yield from _options(command)


def _options(command: Any) -> Iterator[str]:
    yield "| option | meaning |"
    yield "|---|---|"
    for parameter in parameters(command):
        names = _names(parameter)
        text = " ".join((getattr(parameter, "help", None) or "").split()).replace("|", "\\|")
        extra = ["required"] if parameter.required else []
        default = _default(parameter)
        extra += [] if default is None else [f"default {default}"]
        remark = f" ({', '.join(extra)})" if extra else ""
        yield f"| {names} | {text}{remark} |"


def _names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.name.upper()}`"
    names = [*parameter.opts, *parameter.secondary_opts]
    value = "" if parameter.is_flag else f" {(parameter.metavar or parameter.name).upper()}"
    return ", ".join(f"`{name}{value}`" for name in names)


def _default(parameter: Any) -> str | None:
    value = parameter.default
    if value is None or value is False or callable(value) or parameter.required:
        return None
    if isinstance(value, Path):
        return f"`{value.as_posix()}`"
    return None if value in ("", (), []) else f"`{value}`"


if __name__ == "__main__":
    from sherpa.cli.main import app as program

    Path(sys.argv[1]).write_text(reference(program), encoding="utf-8")
