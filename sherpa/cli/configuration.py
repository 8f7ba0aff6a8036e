"""Commands for the configuration: config show, validate, schema."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sherpa.cli.context import Json, guarded, settings

if TYPE_CHECKING:
    from rich.console import Console


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(
        help="Options of the memory: defaults, file, environment (SHERPA_ENGINE_MAX_ORDER=6), flags; later ones win.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.command("show")(show)
    group.command("validate")(validate)
    group.command("schema")(schema)
    app.add_typer(group, name="config")


@guarded
def show(context: typer.Context, json: Json = False) -> None:
    """Show all options as they are in force.

    \b
    Examples:
        sherpa config show
        sherpa --config sherpa.toml --max-order 6 config show --json
    """
    import msgspec

    options = settings(context, json)
    found = msgspec.to_builtins(options.configuration())
    options.show(found, lambda console: _draw(console, found))


def _draw(console: Console, found: dict[str, Any]) -> None:
    from sherpa.cli.tables import pairs

    rows = []
    for section, value in found.items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        rows += [(f"{section}.{name}".rstrip("."), item) for name, item in inner]
    pairs(console, "Configuration", rows)


@guarded
def validate(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(help="File; the one in force when omitted.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Check a configuration file. Exit 2, with the option that was probably meant, if it is wrong.

    \b
    Example:
        sherpa config validate sherpa.toml
    """
    from sherpa.capture.rules import broken_patterns
    from sherpa.configuration import configure, find_file, read_document
    from sherpa.errors import ConfigError

    options = settings(context, json)
    path = find_file(options.root, os.environ, file or options.file)
    if path is None:
        raise ConfigError(f"{options.root}: holds no configuration file; name one")
    broken = broken_patterns(configure(read_document(path), where=str(path)).taxonomy.rules)
    if broken:
        raise ConfigError(f"{path}: {'; '.join(broken)}")
    options.show({"file": str(path), "valid": True}, lambda console: console.print(f"{path}: valid", soft_wrap=True))


@guarded
def schema(context: typer.Context, json: Json = False) -> None:
    """Print the JSON Schema of a configuration file.

    \b
    Example:
        sherpa config schema > sherpa.schema.json
    """
    from sherpa.configuration import schema as described

    settings(context, json).print_json(described())
