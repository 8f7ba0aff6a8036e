"""Commands of the experiments: validate, validate-suite."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from sherpa.cli.context import BAD_INPUT, DONE, INTERRUPTED, MISSED, Json, Settings, guarded, settings
from sherpa.cli.groups import grouped

if TYPE_CHECKING:
    from rich.console import Console

    from experiments.dataset import ImportOptions
    from experiments.validation import Protocol, Thresholds

Format = Literal["auto", "json", "jsonl", "csv", "xes", "statebench"]
FORMATS = ("auto", "json", "jsonl", "csv", "xes", "statebench")


@dataclass
class FieldFlags:
    """Where a file holds what."""

    case_field: Annotated[str | None, typer.Option(help="Column or attribute of the case.")] = None
    type_field: Annotated[str | None, typer.Option(help="Column or attribute of the event type.")] = None
    timestamp_field: Annotated[str | None, typer.Option(help="Column or attribute of the time.")] = None
    outcome_field: Annotated[str | None, typer.Option(help="Column or attribute of the outcome.")] = None
    source_field: Annotated[str | None, typer.Option(help="Column or attribute of the source.")] = None
    agent_field: Annotated[str | None, typer.Option(help="Column or attribute of the agent.")] = None
    actor_field: Annotated[str | None, typer.Option(help="Column or attribute of the actor.")] = None
    csv_delimiter: Annotated[str, typer.Option(help="One character.")] = ","

    def read_as(self, format: str) -> ImportOptions:
        """Import options for files of a format."""
        from experiments.dataset import ImportOptions
        from sherpa.sources.fields import FieldNames

        if format not in FORMATS:
            raise typer.BadParameter(
                f"{format!r} is unknown; choose one of {', '.join(FORMATS)}", param_hint="--format"
            )
        names = FieldNames(
            self.case_field,
            self.type_field,
            self.timestamp_field,
            self.outcome_field,
            self.actor_field,
            self.source_field,
            self.agent_field,
        )
        return ImportOptions(cast("Format", format), names, self.csv_delimiter)


@dataclass
class ImportFlags(FieldFlags):
    """How files are read."""

    format: Annotated[str, typer.Option(help=f"One of {', '.join(FORMATS)}.")] = "auto"

    def options(self) -> ImportOptions:
        """Import options."""
        return self.read_as(self.format)


@dataclass
class ProtocolFlags:
    """How datasets are tested."""

    split: Annotated[
        str, typer.Option(help="leave-one-case-out, k-fold, temporal, holdout or leave-one-group-out.")
    ] = "leave-one-case-out"
    folds: Annotated[int, typer.Option(min=2, help="Folds of k-fold.")] = 5
    test_fraction: Annotated[float, typer.Option(help="Share of cases after the cut of temporal.")] = 0.3
    seed: Annotated[int, typer.Option(min=0, help="Shuffle of k-fold.")] = 0
    online: Annotated[bool, typer.Option("--online", help="Learn the earlier steps of the tested case.")] = False
    no_fallback: Annotated[bool, typer.Option("--no-fallback", help="No prediction where no state matches.")] = False
    top_k: Annotated[int, typer.Option(min=1, help="A hit is a target among the first K.")] = 3
    max_misses: Annotated[int, typer.Option(min=0, help="How many misses to list.")] = 25
    jobs: Annotated[int, typer.Option(min=1, help="Processes to spread folds over; the figures stay the same.")] = 1

    def protocol(self, options: Settings) -> Protocol:
        from experiments.validation import Protocol, parity_protocol

        protocol = Protocol(
            split=self.split,
            folds=self.folds,
            test_fraction=self.test_fraction,
            seed=self.seed,
            processes=self.jobs,
            online=self.online,
            fallback=not self.no_fallback,
            top_k=self.top_k,
            max_misses=self.max_misses,
        )
        return parity_protocol(protocol) if options.parity else protocol


@dataclass
class GateFlags:
    """What has to be reached for exit code 0."""

    min_top1: Annotated[float | None, typer.Option(min=0, max=1, help="Least top-1 accuracy.")] = None
    min_topk: Annotated[float | None, typer.Option(min=0, max=1, help="Least top-K accuracy.")] = None
    max_miss_count: Annotated[int | None, typer.Option(min=0, help="Most misses.")] = None

    def thresholds(self) -> Thresholds:
        from experiments.validation import Thresholds

        return Thresholds(self.min_top1, self.min_topk, self.max_miss_count)


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command("validate")(grouped(validate))
    app.command("validate-suite")(grouped(validate_suite))


def _defaults(options: Settings) -> dict[str, Any]:
    """Validation looks at projected states unless told otherwise; the original believes a single observation."""
    return {"state_strategy": "family-procedure", **({"min_support": 1} if options.parity else {})}


@guarded
def validate(
    context: typer.Context,
    dataset: Annotated[Path, typer.Option(help="Dataset to test.")],
    imports: ImportFlags,
    protocol: ProtocolFlags,
    gates: GateFlags,
    train: Annotated[list[Path] | None, typer.Option(help="Learn from these files (split holdout).")] = None,
    predictions: Annotated[Path | None, typer.Option(help="Write the prediction table to this CSV file.")] = None,
    json: Json = False,
) -> None:
    """Test how well Sherpa predicts the next event of a dataset.

    Exit code 1 means that a threshold is missed.

    \b
    Example:
        sherpa validate --dataset log.xes.gz --split temporal --min-top1 0.5
    """
    from experiments.dataset import load_dataset
    from experiments.holdout import join
    from experiments.validation import validate as run

    options = settings(context, json)
    rules = protocol.protocol(options)
    loaded = load_dataset(dataset, imports.options(), parity=rules.parity)
    test = None
    if train:
        loaded, test = join([load_dataset(p, imports.options(), parity=rules.parity) for p in train], loaded)
    config = options.config(**_defaults(options))
    with watching(options) as watch:
        report, table = run(loaded, config, rules, test=test, progress=watch(loaded.name, len(loaded.log)))
    if predictions is not None:
        from sherpa.files import write_whole

        write_whole(predictions, table.to_pandas().to_csv(index=False).encode())
    failures = gates.thresholds().failures(report)
    report = {**report, "passed": not failures, "failures": failures}
    options.show(report, lambda c: _draw(c, loaded.name, [report], None))
    _remark(options, [report])
    _complain(failures)
    raise typer.Exit(MISSED if failures else DONE)


@guarded
def validate_suite(
    context: typer.Context,
    input: Annotated[Path, typer.Option(help="Suite file, or folder of datasets.")],
    imports: ImportFlags,
    protocol: ProtocolFlags,
    gates: GateFlags,
    max_failing_datasets: Annotated[
        int | None, typer.Option(min=0, help="How many datasets may miss a threshold.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Also write the JSON record to this file.")] = None,
    json: Json = False,
) -> None:
    """Test every dataset of a suite file or folder, and print one table.

    Exit code 1 means that a threshold is missed, 2 that a dataset could not be read; the others are tested all the
    same.

    \b
    Example:
        sherpa validate-suite --input logs/ --split temporal --min-top1 0.6
    """
    from experiments.suite import load_suite
    from experiments.suite import validate_suite as run

    options = settings(context, json)
    suite = load_suite(input)
    with watching(options) as watch:
        report = run(
            suite,
            options.config(**_defaults(options)),
            protocol.protocol(options),
            options=imports.options(),
            thresholds=gates.thresholds(),
            max_failing=max_failing_datasets,
            watch=watch,
        )
    if output is not None:
        from sherpa.answers import json_document
        from sherpa.files import write_whole

        write_whole(output, json_document(report))
    options.show(report, lambda c: _draw(c, report["name"], report["datasets"], report["totals"]))
    _remark(options, report["datasets"])
    _complain([error["error"] for error in report["errors"]])
    _complain(report["failures"])
    if report["interrupted"]:
        _complain(["interrupted; the datasets above were finished"])
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(BAD_INPUT if report["errors"] else MISSED if report["failures"] else DONE)


def watching(options: Settings) -> AbstractContextManager[Callable[[str, int], Callable[[int], None]]]:
    """Progress bars on stderr, unless ``--quiet``."""
    from sherpa.cli.tables import progress

    return progress(options.console(stderr=True), enabled=not options.quiet)


def _complain(problems: Sequence[str]) -> None:
    for problem in problems:
        print(f"sherpa: {problem}", file=sys.stderr)


def _remark(options: Settings, reports: list[dict[str, Any]]) -> None:
    for report in reports:
        reason = report["protocol"].get("reason")
        if reason:
            options.say(f"{report['dataset']['name']}: not measured: {reason}")
        for kind, number in report["dataset"]["skipped"].items():
            options.say(f"{report['dataset']['name']}: {kind}: {number}")


def _draw(console: Console, name: str, reports: list[dict[str, Any]], totals: dict[str, Any] | None) -> None:
    from sherpa.cli.tables import share, table

    def cells(label: str, report: dict[str, Any], tested: int, hard: str, passed: str) -> tuple[str, ...]:
        return (
            label,
            str(report["cases"]),
            str(report["datasetEvents"]),
            str(tested),
            str(report["evaluatedSteps"]),
            share(report["nextTop1Accuracy"]),
            share(report["nextTopKAccuracy"]),
            hard,
            str(report["missCount"]),
            passed,
        )

    rows = [
        cells(
            r["dataset"]["name"],
            r,
            r["protocol"]["testedCases"],
            share(r["nonTrivial"]["nextTop1Accuracy"]),
            "yes" if r["passed"] else "NO",
        )
        for r in reports
    ]
    if totals is not None:
        rows.append(cells("total", totals, sum(r["protocol"]["testedCases"] for r in reports), "", ""))
    k = reports[0]["topK"] if reports else 3
    split = f" ({reports[0]['protocol']['split']})" if reports else ""
    head = ("dataset", "cases", "events", "tested", "steps", "top-1", f"top-{k}", "non-trivial", "misses", "passed")
    table(console, f"{name}{split}", head, rows, footer=0 if totals is None else 1)
