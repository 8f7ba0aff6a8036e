"""Commands for STATE-Bench: statebench build-learnings, evaluate, install-agent, preflight, run-official, analyze."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sherpa.cli.context import MISSED, Json, guarded, settings
from sherpa.cli.experiment import watching
from sherpa.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(
        help="Procedural memory for the benchmark STATE-Bench: learning cards, retrieval, evaluation.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.command("build-learnings")(build_learnings)
    group.command("evaluate")(evaluate)
    group.command("install-agent")(install_agent)
    group.command("preflight")(preflight)
    group.command("run-official")(run_official)
    group.command("analyze")(analyze)
    app.add_typer(group, name="statebench")


TrainDir = Annotated[Path, typer.Option(help="Folder of training runs: DOMAIN/NAME.json.")]
Folder = Annotated[Path, typer.Argument(help="Folder from which the benchmark is started.", show_default=False)]
Seed = Annotated[int, typer.Option(help="Of the bootstrap and whatever else is drawn by chance.")]


@guarded
def build_learnings(
    context: typer.Context,
    train_dir: TrainDir,
    output: Annotated[Path, typer.Option(help="File for the artefact.")] = Path("learnings.json"),
    max_per_domain: Annotated[
        int | None, typer.Option(min=1, help="Runs of a domain, the first ones.", show_default=False)
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="Folder for a memory of the runs' events, too.", show_default=False)
    ] = None,
    cards: Annotated[
        str, typer.Option(help="sherpa, or parity: the original's three kinds, for comparison only.")
    ] = "sherpa",
    json: Json = False,
) -> None:
    """Make learning cards of recorded runs: what was done, what tools refused, what the policies say.

    Only the conversations are read, never labels or names of tasks. Values of customers are masked, and the build
    fails if one survives.

    \b
    Examples:
        sherpa statebench build-learnings --train-dir datasets/train_task_trajectories --output learnings.json
        sherpa statebench build-learnings --train-dir datasets/train_task_trajectories --store .state-bench
    """
    from harness.statebench.build import build, read_runs, write_artefact, write_store

    options = settings(context, json)
    if cards not in ("sherpa", "parity"):
        raise ConfigError(f"--cards: {cards!r} is unknown; it is sherpa or parity")
    runs = read_runs(train_dir, max_per_domain)
    artefact = build(runs, parity=cards == "parity")
    write_artefact(artefact, output)
    summary = {"output": str(output)} | {key: artefact[key] for key in ("source", "counts")}
    if store is not None:
        summary["store"] = {"root": str(store), "eventsAdded": write_store(runs, store)}
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


@guarded
def evaluate(
    context: typer.Context,
    train_dir: TrainDir,
    state_bench_dir: Annotated[
        Path | None,
        typer.Option(
            envvar="STATE_BENCH_DIR",
            help="Checkout of the benchmark; its task types are used to measure, for nothing else.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="File for the report (JSON).", show_default=False)] = None,
    seed: Seed = 20260513,
    resamples: Annotated[int, typer.Option(min=100, help="Bootstrap samples.")] = 10_000,
    cross_fit: Annotated[
        bool, typer.Option(help="Also choose the settings on two domains and test them on the third.")
    ] = True,
    json: Json = False,
) -> None:
    """Test the retrieval without a model: each run is left out once, and its opening message is the query.

    Against BM25, the original's cards and chance, with paired intervals. These are proxies: none of them shows that a
    card helps an agent to solve a task.

    \b
    Examples:
        sherpa statebench evaluate --train-dir datasets/train_task_trajectories
        sherpa statebench evaluate --train-dir datasets/train_task_trajectories --state-bench-dir . --output report.json
    """
    from harness.statebench.build import read_runs
    from harness.statebench.evaluation import Options, stages, task_types
    from harness.statebench.evaluation import evaluate as measured
    from sherpa.answers import json_document
    from sherpa.files import write_whole

    options = settings(context, json)
    runs = read_runs(train_dir)
    types = None if state_bench_dir is None else task_types(train_dir, state_bench_dir)
    asked = Options(seed=seed, resamples=resamples, cross_fit=cross_fit)
    with watching(options) as watch:
        report = measured(runs, types, asked, watch("evaluate", stages(runs, asked)))
    if output is not None:
        write_whole(output, json_document(report))
    options.show(report, lambda console: _draw_evaluation(console, report))


def _draw_evaluation(console: Console, report: dict[str, Any]) -> None:
    from sherpa.cli.tables import pairs, share, table

    methods = report["measures"]
    names = list(next(iter(methods.values()))["pooled"])
    rows = [[name, *(_plain(methods[method]["pooled"][name]) for method in methods)] for name in names]
    table(console, "Leave-one-out, all domains", ["measure", *methods], rows)
    for title, differences in report["differences"].items():
        rows = [[name, *_difference(found)] for name, found in differences.items() if found is not None]
        table(console, title, ["measure", "difference", "95 % interval"], rows)
    rows = [
        [domain, share(found["top1"]["estimate"]), share(found["top3"]["estimate"]), str(found["targets"])]
        for domain, found in report["nextTool"].items()
    ]
    table(console, "Next tool", ["domain", "top-1", "top-3", "targets"], rows)
    answers = report["answers"]
    pairs(
        console,
        "Answers of three cards",
        [
            ("tokens", f"{answers['tokensMean']:.0f} on average, {answers['tokensMax']} at most"),
            ("with a card twice", share(answers["duplicateRate"])),
            ("empty", share(answers["emptyRate"])),
            ("cards with a value of a customer", answers["leaks"]),
            ("cards kept with half the words", share(answers["keptWithHalfTheWords"])),
            ("answers to requests of no domain", share(answers["answeredOffDomain"])),
        ],
    )
    if not report["labels"]:
        console.print("No checkout was named (--state-bench-dir): nothing is known of task types.")


def _plain(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _difference(found: dict[str, Any]) -> tuple[str, str]:
    interval = found["interval"]
    return f"{found['difference']:+.3f}", f"{interval['low']:+.3f} to {interval['high']:+.3f}"


@guarded
def install_agent(
    context: typer.Context,
    folder: Folder,
    learnings: Annotated[Path, typer.Option(help="The artefact.")] = Path("learnings.json"),
    force: Annotated[bool, typer.Option("--force", help="Replace an agent's file that says something else.")] = False,
    json: Json = False,
) -> None:
    """Write agents/sherpa_memory_agent.py: the benchmark's own agent with this memory.

    \b
    Example:
        sherpa statebench install-agent . --learnings learnings.json
    """
    from harness.statebench.install import install_agent as install

    options = settings(context, json)
    path = install(folder, learnings, force=force)
    options.show({"agent": str(path)}, lambda console: console.print(f"written: {path}", soft_wrap=True))


@guarded
def preflight(
    context: typer.Context,
    folder: Folder,
    python: Annotated[
        str | None, typer.Option(help="The benchmark's Python, if it is another one.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Check artefact, interface and environment before a paid run; exit 1 if anything would spoil it.

    \b
    Examples:
        sherpa statebench preflight .
        sherpa statebench preflight . --python .venv/bin/python
    """
    options = settings(context, json)
    checks = _checks(folder, python)
    passed = all(check["passed"] for check in checks)
    options.show({"passed": passed, "checks": checks}, lambda console: _draw_checks(console, checks))
    if not passed:
        raise typer.Exit(MISSED)


def _checks(folder: Path, python: str | None) -> list[dict[str, Any]]:
    """The checks as the benchmark's own Python finds them."""
    import json
    import subprocess
    from dataclasses import asdict

    from harness.statebench.preflight import preflight as check

    if python is None:
        return [asdict(found) for found in check(folder)]
    command = [python, "-m", "harness.statebench.preflight", "--dir", str(folder), "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        return list(json.loads(done.stdout.splitlines()[-1]))
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
        said = done.stderr.strip().splitlines()[-1:] if "done" in locals() else []
        raise ConfigError(f"{python}: the checks do not run there: {' '.join(said) or error}") from None


def _draw_checks(console: Console, checks: list[dict[str, Any]]) -> None:
    from sherpa.cli.tables import table

    rows = [[check["name"], "ok" if check["passed"] else "FAILED", check["found"]] for check in checks]
    table(console, "Before a paid run", ["check", "", "found"], rows)


@guarded
def run_official(
    context: typer.Context,
    folder: Folder = Path(),
    model: Annotated[str, typer.Option(help="The agent's model, as it is to be reported.")] = "gpt-5.4",
    reasoning: Annotated[
        str | None, typer.Option(help="Its reasoning level: low, medium or high.", show_default=False)
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Tasks at once.")] = 4,
    output: Annotated[Path, typer.Option(help="Folder for results, below the first one.")] = Path("outputs"),
    python: Annotated[str, typer.Option(help="The benchmark's Python.")] = "python",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the commands and run nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Run them: 1,500 episodes of a paid model.")] = False,
    json: Json = False,
) -> None:
    """The official protocol of the agent learning track: baseline and memory, five runs of 150 test tasks each.

    Without --dry-run it needs --yes, runs the preflight first, and leaves out what is finished already.

    \b
    Examples:
        sherpa statebench run-official --dry-run --model gpt-5.4 --reasoning high
        sherpa statebench run-official . --python .venv/bin/python --yes
    """
    import subprocess

    from harness.statebench.official import steps

    options = settings(context, json)
    planned = list(steps(model, reasoning=reasoning, workers=workers, output=output, python=python))
    if dry_run:
        found = [{"arm": step.arm, "domain": step.domain, "command": list(step.command)} for step in planned]
        options.show({"commands": found}, lambda _console: print("\n".join(shlex.join(s.command) for s in planned)))
        return
    if not yes:
        raise ConfigError("this runs 1,500 episodes of a paid model: say --yes, or --dry-run to see the commands")
    checks = _checks(folder, python)
    failed = [check for check in checks if not check["passed"]]
    if failed:
        raise ConfigError(f"preflight: {failed[0]['name']}: {failed[0]['found']}")
    finished = {(s.arm, s.domain) for s in planned if s.produces is not None and (folder / s.produces).is_file()}
    for step in planned:
        if (step.arm, step.domain) in finished:
            continue
        options.say(shlex.join(step.command))
        if subprocess.run(step.command, cwd=folder, check=False).returncode:
            raise ConfigError(f"{step.arm}, {step.domain}: the command failed; run again to go on from there")
    options.show(
        {"output": str(folder / output)},
        lambda console: console.print(
            f"done; now: sherpa statebench analyze {folder / output / 'baseline'} {folder / output / 'memory'}",
            soft_wrap=True,
        ),
    )


@guarded
def analyze(
    context: typer.Context,
    baseline: Annotated[Path, typer.Argument(help="Folder of compute_metrics, or of one per domain.")],
    memory: Annotated[Path, typer.Argument(help="The same of the other arm.")],
    output: Annotated[Path | None, typer.Option(help="File for the report (JSON).", show_default=False)] = None,
    seed: Seed = 20260513,
    resamples: Annotated[int, typer.Option(min=100, help="Bootstrap samples.")] = 10_000,
    json: Json = False,
) -> None:
    """Compare two arms, paired by task: pass@1, pass^5, UX, cost and calls, with intervals.

    \b
    Example:
        sherpa statebench analyze outputs/baseline outputs/memory
    """
    from harness.statebench.analysis import analyse, read_metrics
    from sherpa.answers import json_document
    from sherpa.files import write_whole

    options = settings(context, json)
    report = analyse(read_metrics(baseline), read_metrics(memory), seed=seed, resamples=resamples)
    if output is not None:
        write_whole(output, json_document(report))
    options.show(report, lambda console: _draw_analysis(console, report))


def _draw_analysis(console: Console, report: dict[str, Any]) -> None:
    from sherpa.cli.tables import table

    for group, measured in report["groups"].items():
        rows = [
            [
                found["name"],
                _plain(found["baseline"]),
                _plain(found["memory"]),
                *(_difference(found) if found["interval"] else ("-", "-")),
                str(found["tasks"]),
            ]
            for found in measured.values()
        ]
        head = ["measure", "baseline", "memory", "difference", "95 % interval", "tasks"]
        table(console, f"{group}: memory minus baseline", head, rows)
    for arm, key in (("baseline", "onlyBaseline"), ("memory", "onlyMemory")):
        if report[key]:
            console.print(f"only in {arm}, not compared: {', '.join(report[key])}", soft_wrap=True)
