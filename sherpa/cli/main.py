"""``sherpa``: the program."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from sherpa import __version__
from sherpa.cli import (
    admin,
    benchmark,
    configuration,
    experiment,
    gate,
    openclaw,
    openclaw_plugin,
    runtime,
    saga,
    scale,
    serve,
    statebench,
    store,
)
from sherpa.cli.context import INTERNAL, Settings, guarded
from sherpa.config import ESTIMATORS, STRATEGIES

HELP = """Procedural memory for LLM agents, and the experiments that test it.

Typical use:

\b
    sherpa ingest-batch events.json
    sherpa workflow-next --case-id session:42
    sherpa validate-suite --input fixtures/validation/suite.json
    sherpa simulate --sessions-dir ~/.openclaw
"""

app = typer.Typer(
    name="sherpa",
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"sherpa {__version__}")
        raise typer.Exit


def _choice(name: str, value: str | None, choices: tuple[str, ...]) -> str | None:
    if value is not None and value not in choices:
        raise typer.BadParameter(f"{value!r} is unknown; choose one of {', '.join(choices)}", param_hint=name)
    return value


def _root(file: Path | None) -> Path:
    """The folder that a configuration names, if it was itself named."""
    from sherpa.configuration import VARIABLE, of_environment, read_document

    path = file or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    found = {} if path is None else read_document(path).get("store") or {}
    found = found | (of_environment(os.environ).get("store") or {})
    return Path(found["root"]).expanduser() if isinstance(found.get("root"), str) else Path(".sherpa")


@app.callback()
@guarded
def options(
    context: typer.Context,
    root: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the memory; .sherpa, unless the configuration says otherwise.", show_default=False
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="Configuration file, JSON or TOML; config.json or config.toml of the memory's folder by default.",
            show_default=False,
        ),
    ] = None,
    default_order: Annotated[int | None, typer.Option(min=1, help="Longest suffix that a query tries.")] = None,
    min_order: Annotated[int | None, typer.Option(min=1, help="Shortest suffix that a query tries.")] = None,
    max_order: Annotated[int | None, typer.Option(min=1, help="Longest suffix that is counted.")] = None,
    min_support: Annotated[int | None, typer.Option(min=1, help="Observations that a suffix needs.")] = None,
    strategy: Annotated[
        str | None, typer.Option(help=f"What a state shows: {', '.join(STRATEGIES)}, merged (by the estimator merged).")
    ] = None,
    estimator: Annotated[str | None, typer.Option(help=f"How counts predict: {', '.join(ESTIMATORS)}.")] = None,
    parity: Annotated[bool, typer.Option("--parity", help="Follow the original where it is corrected here.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print exactly one JSON document.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no remarks.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    if strategy == "merged":
        if estimator not in (None, "merged"):
            raise typer.BadParameter(
                f"merged types go with the estimator merged, not {estimator}", param_hint="--strategy"
            )
        strategy, estimator = None, "merged"
    context.obj = Settings(
        root=root or _root(config),
        file=config,
        engine={
            "default_order": default_order,
            "min_order": min_order,
            "max_order": max_order,
            "min_support": min_support,
            "state_strategy": _choice("--strategy", strategy, STRATEGIES),
            "estimator": _choice("--estimator", estimator, ESTIMATORS),
        },
        parity=parity,
        json=json,
        quiet=quiet,
        color=not no_color,
    )


store.register(app)
admin.register(app)
configuration.register(app)
experiment.register(app)
gate.register(app)
openclaw.register(app)
openclaw_plugin.register(app)
benchmark.register(app)
statebench.register(app)
serve.register(app)
scale.register(app)
runtime.register(app)
saga.register(app)


def main() -> None:
    """Run the program; an error that nobody foresaw exits with 3."""
    try:
        app()
    except Exception as error:
        if sys.flags.dev_mode:
            raise
        print(f"sherpa: internal error: {type(error).__name__}: {error}", file=sys.stderr)
        print("run with python -X dev -m sherpa for the whole trace", file=sys.stderr)
        sys.exit(INTERNAL)
