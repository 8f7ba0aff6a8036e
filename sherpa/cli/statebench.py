"""Commands for STATE-Bench: statebench build-learnings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sherpa.cli.context import Json, guarded, settings

if TYPE_CHECKING:
    from rich.console import Console


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(
        help="Learning cards for the benchmark STATE-Bench.", no_args_is_help=True, rich_markup_mode=None
    )
    # A group of one command would be folded into it.
    group.callback()(lambda: None)
    group.command("build-learnings")(build_learnings)
    app.add_typer(group, name="statebench")


@guarded
def build_learnings(
    context: typer.Context,
    train_dir: Annotated[Path, typer.Option(help="Folder of training runs: DOMAIN/NAME.json.")],
    output: Annotated[Path, typer.Option(help="File for the artefact.")] = Path("learnings.json"),
    max_per_domain: Annotated[
        int | None, typer.Option(min=1, help="Runs of a domain, the first ones.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Make learning cards of recorded runs: what was done, what tools refused, what the policies say.

    Only the conversations are read, never labels or names of tasks. Values of customers are masked, and the build
    fails if one survives.

    \b
    Example:
        sherpa statebench build-learnings --train-dir datasets/train_task_trajectories --output learnings.json
    """
    from harness.statebench.build import build, read_runs, write_artefact

    options = settings(context, json)
    artefact = build(read_runs(train_dir, max_per_domain))
    write_artefact(artefact, output)
    summary = {"output": str(output)} | {key: artefact[key] for key in ("source", "counts")}
    options.show(summary, lambda console: _draw(console, artefact, output))


def _draw(console: Console, artefact: dict[str, Any], output: Path) -> None:
    from sherpa.cli.tables import pairs

    counts = artefact["counts"]
    sizes = [card["tokens"] for card in artefact["learnings"]]
    pairs(
        console,
        "Learning cards",
        [
            ("runs", counts["runs"]),
            ("calls", counts["calls"]),
            *((f"{kind} cards", number) for kind, number in counts["cards"].items()),
            ("tokens per card", f"{sum(sizes) / len(sizes):.0f} on average, {max(sizes)} at most"),
            ("masked values", counts["maskedValues"]),
            ("artefact", output),
        ],
    )
