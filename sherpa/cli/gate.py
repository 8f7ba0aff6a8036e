"""Commands of the research gate: validate-baselines, research-gate, preregister, report, compare."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from sherpa import __version__
from sherpa.cli.context import DONE, MISSED, Json, Settings, guarded, settings
from sherpa.cli.experiment import FORMATS, FieldFlags, ImportFlags, ProtocolFlags, watching
from sherpa.cli.groups import grouped

if TYPE_CHECKING:
    from rich.console import Console

    from experiments.dataset import Dataset, ImportOptions
    from experiments.plan import Plan

Datasets = Annotated[list[Path], typer.Option("--dataset", help="Dataset; may be given several times.")]
PlanFile = Annotated[Path | None, typer.Option(help="Plan (TOML); the plan of the package when omitted.")]
Figures = Annotated[list[str] | None, typer.Option(help="Also write figures: svg, png; may be given twice.")]


@dataclass
class DataFlags(FieldFlags):
    """How the files of a gate run are read; ``--format`` is that of its report."""

    input_format: Annotated[str, typer.Option(help=f"Format of the datasets: {', '.join(FORMATS)}.")] = "auto"

    def options(self) -> ImportOptions:
        """Import options."""
        return self.read_as(self.input_format)


VIEWS = ("table", "json", "md", "html")


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command("validate-baselines")(grouped(validate_baselines))
    app.command("research-gate")(grouped(research_gate))
    app.command("preregister")(grouped(preregister))
    app.command("report")(report)
    app.command("compare")(compare)


@guarded
def validate_baselines(
    context: typer.Context,
    dataset: Annotated[Path, typer.Option(help="Dataset to test.")],
    imports: ImportFlags,
    protocol: ProtocolFlags,
    baseline: Annotated[
        list[str] | None, typer.Option(help="Name of a rival; may be given several times. All when omitted.")
    ] = None,
    annotations: Annotated[
        bool, typer.Option("--annotations", help="Let rivals read classes, notes and annotated risks.")
    ] = False,
    json: Json = False,
) -> None:
    """Test rival predictors on a dataset.

    \b
    Example:
        sherpa validate-baselines --dataset log.csv --baseline raw-ngram --baseline global-majority
    """
    from baselines.registry import BASELINES, NAMED, PUBLISHED
    from baselines.registry import baseline as make
    from experiments.arm_report import arm_report, best_by_accuracy, best_by_risk_recall
    from experiments.dataset import load_dataset
    from experiments.protocol import predict
    from experiments.validation import dataset_json, split_for

    options = settings(context, json)
    names = tuple(baseline or (PUBLISHED if options.parity else BASELINES))
    for name in names:
        if name not in (*BASELINES, *NAMED):
            known = ", ".join((*BASELINES, *NAMED))
            raise typer.BadParameter(f"{name!r} is unknown; choose of {known}", param_hint="--baseline")
    rules = protocol.protocol(options)
    loaded = load_dataset(dataset, imports.options(), parity=rules.parity)
    split = split_for(loaded, rules)
    order = options.engine.get("default_order") or 3
    rows = []
    with watching(options) as watch:
        for name in names:
            # The rivals of the original always fall back, and never learn the tested case.
            fallback = rules.fallback or rules.parity
            factory = make(name, order=order, fallback=fallback, annotations=annotations or rules.parity)
            online = rules.online and not rules.parity
            part = predict(
                loaded, split, factory, top=rules.top_k, online=online, progress=watch(name, len(loaded.log))
            )
            found = arm_report(loaded, part, rules.top_k, rules.max_misses)
            risks = found["research"]["risks"]
            description = str(getattr(factory(), "description", name))
            rows.append({"baseline": name, "description": description, **found, "risks": risks})
    result = {
        "dataset": dataset_json(loaded),
        "baselines": rows,
        "bestByAccuracy": best_by_accuracy(rows, "baseline"),
        "bestByRiskRecall": best_by_risk_recall(rows, "baseline"),
    }

    def draw(console: Console) -> None:
        from sherpa.cli.tables import share, table

        table(
            console,
            f"Rivals on {loaded.name} ({split.name})",
            ("predictor", "steps", "top-1", f"top-{rules.top_k}", "non-trivial", "misses"),
            [
                (
                    r["baseline"],
                    str(r["evaluatedSteps"]),
                    share(r["nextTop1Accuracy"]),
                    share(r["nextTopKAccuracy"]),
                    share(r["nonTrivial"]["nextTop1Accuracy"]),
                    str(r["missCount"]),
                )
                for r in rows
            ],
        )

    options.show(result, draw)


def _now() -> str:
    from sherpa.instants import format_milliseconds

    return format_milliseconds(time.time_ns())


def _load(datasets: list[Path], imports: DataFlags, parity: bool) -> list[Dataset]:
    from experiments.dataset import load_dataset

    return [load_dataset(path, imports.options(), parity=parity) for path in datasets]


def _with_overrides(plan: Plan, options: Settings, split: str | None) -> Plan:
    """The plan with what the command line sets; a change makes a preregistered run exploratory."""
    import msgspec

    from experiments.plan import parity_plan

    plan = parity_plan(plan) if options.parity else plan
    given: dict[str, Any] = {
        "split": split,
        "default_order": options.engine.get("default_order"),
        "max_order": options.engine.get("max_order"),
        "min_support": options.engine.get("min_support"),
    }
    changed: Plan = msgspec.structs.replace(plan, **{k: v for k, v in given.items() if v is not None})
    return changed


@guarded
def research_gate(
    context: typer.Context,
    dataset: Datasets,
    imports: DataFlags,
    plan: PlanFile = None,
    split: Annotated[str | None, typer.Option(help="Split, instead of the plan's.")] = None,
    interventions: Annotated[Path | None, typer.Option(help="Folder of intervention runs, for H4.")] = None,
    output: Annotated[Path | None, typer.Option(help="Folder for record, report and predictions.")] = None,
    figures: Figures = None,
    format: Annotated[str, typer.Option(help=f"What to print: {', '.join(VIEWS)}.")] = "table",
    json: Json = False,
) -> None:
    """Decide H1 to H5 on one or several datasets, each with an interval.

    A run is confirmatory only if plan and data are those that were preregistered and the test data were not opened
    before. Exit code 1: the run was preregistered and is not confirmatory, or a confirmatory claim is rejected.

    \b
    Example:
        sherpa research-gate --dataset fixtures/validation/synthetic-workflows.json --output reports/gate
    """
    import numpy as np
    import pandas as pd

    from experiments.gate import run_gate
    from experiments.intervention import h4, load_runs
    from experiments.plan import load_plan, open_test
    from experiments.record import gate_record
    from experiments.report import to_html, to_markdown, write_predictions, write_report

    options = settings(context, json)
    view = "json" if options.json else format
    if view not in VIEWS:
        raise typer.BadParameter(f"{view!r} is unknown; choose one of {', '.join(VIEWS)}", param_hint="--format")
    kinds = _figure_kinds(figures)
    begin, started_at = time.perf_counter(), _now()
    wanted, data = load_plan(plan)
    rules = _with_overrides(wanted, options, split)
    loaded = _load(dataset, imports, options.parity)
    evidence = h4(load_runs(interventions) if interventions else [], rules, np.random.default_rng([rules.seed, 4]))
    mode = open_test(plan, data, loaded, now=started_at, overridden=rules != wanted)
    with watching(options) as watch:
        results = [run_gate(d, rules, evidence, parity=options.parity, watch=watch) for d in loaded]
    record = gate_record(
        results,
        rules,
        data,
        mode,
        parity=options.parity,
        command=["sherpa", *sys.argv[1:]],
        started_at=started_at,
        wall_seconds=time.perf_counter() - begin,
    )
    if output is not None:
        paths = write_report(record, output, figures=kinds)
        write_predictions(pd.concat([r.table.to_pandas() for r in results]), output / "predictions.csv.gz")
        options.say(f"report: {paths['html']}")
    if view == "json":
        options.print_json(record)
    elif view in ("md", "html"):
        sys.stdout.write(to_markdown(record) if view == "md" else to_html(record))
    else:
        _draw(options.console(), record)
    rejected = any(c["decision"] == "rejected" for d in record["datasets"] for c in d["claims"])
    failed = (mode.registered and not mode.confirmatory) or (mode.confirmatory and rejected)
    raise typer.Exit(MISSED if failed else DONE)


def _figure_kinds(figures: list[str] | None) -> tuple[Literal["svg", "png"], ...]:
    for kind in figures or ():
        if kind not in ("svg", "png"):
            raise typer.BadParameter(f"{kind!r} is unknown; choose of svg, png", param_hint="--figures")
    return tuple(cast("Literal['svg', 'png']", kind) for kind in figures or ())


def _draw(console: Console, record: dict[str, Any]) -> None:
    from experiments.report.markdown import DECISION_HEAD, decision_row
    from sherpa.cli.tables import table

    why = f": {'; '.join(record['reasons'])}" if record["reasons"] else ""
    console.print(f"{record['mode']} run{why}")
    for entry in record["datasets"]:
        rows = [decision_row(c) for c in entry["claims"]]
        keep = [at for at, name in enumerate(DECISION_HEAD) if name != "claim"]
        table(
            console,
            f"{entry['dataset']['name']} (percentage points)",
            [DECISION_HEAD[at] for at in keep],
            [[row[at] for at in keep] for row in rows],
        )
        for claim in entry["claims"]:
            console.print(f"{claim['id']}: {claim['evidence']}. {claim['nextAction']}")


@guarded
def preregister(
    context: typer.Context,
    plan: Annotated[Path, typer.Option(help="Plan (TOML) to freeze.")],
    dataset: Datasets,
    imports: DataFlags,
    json: Json = False,
) -> None:
    """Freeze a plan and the hashes of the data it will be tested on.

    The frozen plan is written beside the plan; every later opening of the data is recorded there too.

    \b
    Example:
        sherpa preregister --plan plan.toml --dataset test.json
    """
    from experiments import plan as plans

    options = settings(context, json)
    loaded = _load(dataset, imports, options.parity)
    frozen = plans.preregister(plan, loaded, now=_now(), version=__version__)
    where = plans.frozen_path(plan)
    options.show(frozen, lambda c: c.print(f"frozen: {where} (plan {frozen['planSha256'][:12]})"))


@guarded
def report(
    context: typer.Context,
    record: Annotated[Path, typer.Argument(help="record.json of a gate run.")],
    output: Annotated[Path, typer.Option(help="Folder to write to.")],
    figures: Figures = None,
    json: Json = False,
) -> None:
    """Draw the report of a record again, without running anything.

    \b
    Example:
        sherpa report reports/gate/record.json --output redrawn --figures png
    """
    from experiments.record import load_record
    from experiments.report import write_report

    options = settings(context, json)
    paths = write_report(load_record(record), output, figures=_figure_kinds(figures))
    shown = {name: str(path) for name, path in paths.items()}
    options.show(shown, lambda c: c.print("\n".join(f"{name}: {path}" for name, path in shown.items())))


@guarded
def compare(
    context: typer.Context,
    left: Annotated[Path, typer.Argument(help="record.json of a gate run.")],
    right: Annotated[Path, typer.Argument(help="record.json of another run on the same data.")],
    seed: Annotated[int, typer.Option(min=0, help="Seed of the resamples.")] = 0,
    json: Json = False,
) -> None:
    """Compare two runs on the same data, predictor by predictor, in pairs.

    \b
    Example:
        sherpa compare before/record.json after/record.json
    """
    from experiments.record import compare_records, load_record

    options = settings(context, json)
    found = compare_records(load_record(left), load_record(right), seed=seed)

    def draw(console: Console) -> None:
        from experiments.report.markdown import points, span
        from sherpa.cli.tables import share, table

        table(
            console,
            "right - left, percentage points",
            ("predictor", "dataset", "metric", "left", "right", "difference", "interval", "clusters"),
            [
                (
                    r["predictor"],
                    r["dataset"],
                    r["metric"],
                    share(r["left"]),
                    share(r["right"]),
                    points(r["difference"]),
                    span(r["ci"]),
                    str(r["clusters"]),
                )
                for r in found["rows"]
            ],
        )

    options.show(found, draw)
