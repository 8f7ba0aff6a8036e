"""Commands that compare models: benchmark next-event."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from sherpa.cli.context import BAD_INPUT, DONE, INTERRUPTED, Json, guarded, settings
from sherpa.cli.experiment import FieldFlags, watching
from sherpa.cli.groups import grouped

if TYPE_CHECKING:
    from rich.console import Console

_SPLITS = ("by-start", "temporal", "unseen-group")
_USUAL = ("global-majority", "longest-suffix", "kneser-ney", "witten-bell", "ppm-c", "mixture", "auto")


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(help="Models compared on real logs.", no_args_is_help=True, rich_markup_mode=None)
    # A group of one command would be folded into it.
    group.callback()(lambda: None)
    group.command("next-event")(grouped(next_event))
    app.add_typer(group, name="benchmark")


@guarded
def next_event(
    context: typer.Context,
    fields: FieldFlags,
    log: Annotated[list[Path], typer.Option(help="Event log or dataset; may be repeated.")],
    model: Annotated[
        list[str] | None,
        typer.Option(help=f"May be repeated; by default {', '.join(_USUAL)}. Others: learned ones, and peer:NAME."),
    ] = None,
    split: Annotated[str, typer.Option(help="by-start, temporal or unseen-group.")] = "by-start",
    test_fraction: Annotated[float, typer.Option(help="Share of cases (or groups) that are tested.")] = 0.2,
    group_pattern: Annotated[
        str | None, typer.Option(help="Regular expression; its group names the group of a case, by the case id.")
    ] = None,
    reference: Annotated[str, typer.Option(help="What the others are compared with.")] = "auto",
    order: Annotated[int, typer.Option(min=1, max=16, help="Longest context in events.")] = 5,
    top_k: Annotated[int, typer.Option(min=1, help="Candidates that count as a hit.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Of the resampling for intervals.")] = 0,
    peers: Annotated[
        Path | None, typer.Option(help="Environment with the peers (python -m benchmarks.peers FOLDER).")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder for the record and for finished cells; running again goes on from there."),
    ] = None,
    json: Json = False,
) -> None:
    """Compare models at predicting the next event, the end of a case included.

    Every model learns the earlier cases and is asked about every prefix of the later ones; differences are paired on
    the same steps, with intervals that resample cases.

    \b
    Examples:
        sherpa benchmark next-event --log sepsis.csv.gz --log helpdesk.csv.gz --output bench/
        sherpa benchmark next-event --log tau.jsonl --group-pattern '(.*)-trial' --model gradient-boosting --model auto
    """
    from experiments.nextevent.bench import BenchOptions, run_benchmark, write_benchmark
    from experiments.nextevent.tasks import make_task
    from sherpa.errors import SherpaError

    options = settings(context, json)
    if split not in _SPLITS:
        raise typer.BadParameter(f"{split!r} is unknown; choose one of {', '.join(_SPLITS)}", param_hint="--split")
    tasks, errors = [], []
    for path in log:
        try:
            tasks.append(
                make_task(
                    path,
                    cast("Any", split),
                    test_fraction=test_fraction,
                    group_pattern=group_pattern,
                    options=fields.read_as("auto"),
                )
            )
        except SherpaError as problem:
            errors.append({"log": str(path), "model": "", "error": str(problem)})
    names = tuple(model or _USUAL)
    python = None if peers is None else peers / "bin" / "python"
    chosen = BenchOptions(names, reference, order, top_k, seed, python)
    cells = len(tasks) * len(dict.fromkeys([reference, *names]))
    with watching(options) as watch:
        record = run_benchmark(tasks, chosen, output, watch=watch("models", cells))
    record["errors"] = [*errors, *record["errors"]]
    if output is not None:
        write_benchmark(record, output)

    options.show(record, lambda c: _draw(c, record))
    for error in record["errors"]:
        options.say(f"{error['log']}: {error['model']}: {error['error']}")
    if record["interrupted"]:
        options.say("interrupted; finished cells are kept")
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(BAD_INPUT if record["errors"] else DONE)


def _draw(console: Console, record: dict[str, Any]) -> None:
    from experiments.nextevent.bench import CALIBRATION_HEAD, HEAD, benchmark_rows, calibration_rows
    from sherpa.cli.tables import table

    table(console, "Next event", HEAD, benchmark_rows(record))
    if record["calibration"]:
        table(console, f"How far {record['reference']} can be believed", CALIBRATION_HEAD, calibration_rows(record))
