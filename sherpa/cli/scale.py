"""Commands for what is large: ledgers to Parquet and back; rebuilding by an engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sherpa.cli.context import Json, guarded, settings

if TYPE_CHECKING:
    from sherpa.ledger import BadLine
    from sherpa.memory import ProceduralMemory

FORMATS = ("parquet",)


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command("ledger-export")(ledger_export)
    app.command("ledger-import")(ledger_import)


@guarded
def ledger_export(
    context: typer.Context,
    output: Annotated[Path, typer.Option(help="New folder; a file per day is written there.")],
    format: Annotated[str, typer.Option(help="Format of the files: parquet.")] = "parquet",
    json: Json = False,
) -> None:
    """Write the ledger as Parquet files that hold every event exactly. A later `forget` does not reach them.

    \b
    Example:
        sherpa ledger-export --format parquet --output ledger-2026
    """
    from sherpa.ledger import LedgerReport
    from sherpa.scale.transfer import export_ledger

    options = settings(context, json)
    if format not in FORMATS:
        raise typer.BadParameter(f"{format!r} is unknown; choose parquet", param_hint="--format")
    with options.memory() as memory:
        read = LedgerReport()
        report = export_ledger(memory.ledger, output, read)
    for line in read.malformed[:10]:
        options.say(f"skipped {line}")
    if len(read.malformed) > 10:
        options.say(f"skipped {len(read.malformed) - 10} more lines")
    report["malformed"] = len(read.malformed)
    size = f"{report['files']} files, {report['bytes']:,} bytes"
    options.show(report, lambda c: c.print(f"wrote {report['events']} events to {output} ({size})"))


@guarded
def ledger_import(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(help="A folder of Parquet files, or one of them.")],
    json: Json = False,
) -> None:
    """Take in the events of Parquet files.

    An empty memory gets the ledger back byte for byte, numbers included. Beside other events those that are there
    already are left out, and the others are numbered anew. Forgotten cases stay away.

    \b
    Example:
        sherpa --root restored ledger-import ledger-2026
    """
    from sherpa.scale.transfer import import_ledger

    options = settings(context, json)
    with options.memory() as memory:
        report = import_ledger(memory, path)
    how = "restored" if report["restored"] else "added"
    left = f"{report['skipped']} were there, {report['forgotten']} are of forgotten cases"
    options.show(report, lambda c: c.print(f"{how} {report['added']} events; {left}"))


def rebuild_by(
    memory: ProceduralMemory, name: str, path: Path | None, amount: str, say: Callable[[str], None]
) -> tuple[dict[str, Any], list[BadLine]]:
    """Rebuild by an engine; gives the status, and lines that cannot be read.

    Parameters
    ----------
    memory : ProceduralMemory
    name : str
        Of the engine.
    path : Path or None
        Events in place of the memory's own.
    amount : str
        Memory that duckdb may use.
    say : callable
        Takes a remark.
    """
    from sherpa.scale.engines import engine_of
    from sherpa.scale.rebuild import STORED, rebuild, rebuild_from

    scratch = memory.root / "tmp"
    scratch.mkdir(parents=True, exist_ok=True)
    engine = engine_of(name, memory=amount, scratch=scratch)
    if path is None:
        if name == "local":
            memory.rebuild()
        else:
            rebuild(memory, engine)
        return memory.status(), memory.last_report.malformed
    counted = rebuild_from(memory, engine, path)
    say(f"counted {counted.events} events of {path}; the graph is stored, the events are not copied")
    told = {
        "path": str(path),
        "engine": name,
        "events": counted.events,
        "cases": counted.cases,
        "duplicates": counted.duplicates,
        "malformed": len(counted.malformed),
        "stored": list(STORED),
    }
    return {**memory.status(), "input": told}, list(counted.malformed)
