"""Commands for sessions of OpenClaw: simulate, import-sessions, sources inspect, dataset from-sessions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from sherpa.cli.context import INTERRUPTED, Json, Settings, guarded, settings
from sherpa.cli.experiment import watching
from sherpa.cli.groups import grouped
from sherpa.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from sherpa.sources.openclaw import Mapping, ReadOptions, Session, Taxonomy

Place = Annotated[
    Path | None,
    typer.Option(
        "--sessions-dir",
        help="State directory, agent's directory, sessions directory, store or transcript; by default every agent of "
        "the local installation.",
        show_default=False,
    ),
]
_EVENTS = ("family", "tool", "operation")
_CASES = ("session", "task", "run")


@dataclass
class ReadFlags:
    """What is read, and as which events."""

    events: Annotated[
        str,
        typer.Option(
            help="Granularity: family (tool.failed), tool (tool.exec.failed), operation (tool.exec:git.failed)."
        ),
    ] = "tool"
    case: Annotated[str, typer.Option(help="What a case is: session, task, or run (one turn of the user).")] = "session"
    taxonomy: Annotated[
        Path | None, typer.Option(help="TOML file whose sections replace those of the built-in taxonomy.")
    ] = None
    nonzero_exit_fails: Annotated[
        bool, typer.Option("--nonzero-exit-fails", help="A completed command with another exit code than 0 has failed.")
    ] = False
    active_branch_only: Annotated[
        bool, typer.Option("--active-branch-only", help="Leave out rows off the active path of a transcript.")
    ] = False
    no_archives: Annotated[
        bool, typer.Option("--no-archives", help="Leave out archives of reset and deleted sessions.")
    ] = False

    def options(self, *, keep_text: bool = False, label_abandoned: bool = False) -> ReadOptions:
        """Options of the reader."""
        from sherpa.sources.openclaw import ReadOptions

        return ReadOptions(
            nonzero_exit_fails=self.nonzero_exit_fails,
            active_only=self.active_branch_only,
            archives=not self.no_archives,
            keep_text=keep_text,
            label_abandoned=label_abandoned,
        )

    def mapping(self, keep_text: bool = False) -> Mapping:
        """How steps become events."""
        from sherpa.sources.openclaw import Mapping

        for flag, value, choices in (("--events", self.events, _EVENTS), ("--case", self.case, _CASES)):
            if value not in choices:
                raise typer.BadParameter(f"{value!r} is unknown; choose one of {', '.join(choices)}", param_hint=flag)
        return Mapping(cast("Any", self.events), cast("Any", self.case), keep_text)

    def names(self, options: Settings) -> Taxonomy:
        """The taxonomy."""
        from sherpa.sources.openclaw import load_taxonomy

        return load_taxonomy(self.taxonomy, parity=options.parity)


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command("simulate")(grouped(simulate))
    app.command("import-sessions")(grouped(import_sessions))
    sources = typer.Typer(help="What there is to learn from.", no_args_is_help=True, rich_markup_mode=None)
    sources.command("inspect")(sources_inspect)
    app.add_typer(sources, name="sources")
    dataset = typer.Typer(help="Datasets for people to annotate.", no_args_is_help=True, rich_markup_mode=None)
    dataset.command("from-sessions")(grouped(dataset_from_sessions))
    app.add_typer(dataset, name="dataset")


def _latest(sessions: list[Session], number: int | None) -> list[Session]:
    """The sessions that began last, in their usual order."""
    if number is None or number >= len(sessions):
        return sessions
    kept = {id(s) for s in sorted(sessions, key=lambda s: (s.begins, s.host, s.agent, s.session))[-number:]}
    return [s for s in sessions if id(s) in kept]


def _warn(options: Settings, warnings: list[str]) -> None:
    for warning in warnings:
        options.say(f"warning: {warning}")


@guarded
def simulate(
    context: typer.Context,
    flags: ReadFlags,
    sessions_dir: Place = None,
    max_sessions: Annotated[int | None, typer.Option(min=1, help="Only the sessions that began last.")] = None,
    rebuild_every: Annotated[
        int, typer.Option(min=1, help="Events after which what was seen becomes known; 1 is at once.")
    ] = 1,
    top_k: Annotated[int, typer.Option(min=1, help="Candidates that count as a hit.")] = 3,
    threshold: Annotated[float, typer.Option(min=0, max=1, help="Confidence from which advice is given.")] = 0.75,
    seed: Annotated[int, typer.Option(min=0, help="Of the resampling for intervals.")] = 0,
    output: Annotated[
        Path | None, typer.Option(help="Also write simulate.json and simulate.html to this folder.")
    ] = None,
    json: Json = False,
) -> None:
    """Replay real sessions: what would the memory have said at each step?

    Every event is predicted from what came before it, then learned. Nothing is written to the memory, and the
    sessions are only read. Ctrl-C shows what was done so far.

    \b
    Examples:
        sherpa simulate
        sherpa simulate --sessions-dir ~/.openclaw/agents/main/sessions --events operation --output reports/replay
    """
    from experiments.simulate import SimulateOptions
    from experiments.simulate import simulate as run
    from sherpa.sources.openclaw import Installation
    from sherpa.sources.openclaw.collect import collect

    options = settings(context, json)
    mapping, taxonomy = flags.mapping(), flags.names(options)
    config = options.config()
    if config.estimator != "longest-suffix":
        raise ConfigError(
            "simulate follows counts event by event, by the estimator longest-suffix; for others make a "
            "dataset of the sessions (dataset from-sessions) and validate it"
        )
    with Installation(sessions_dir, flags.options(), taxonomy) as installation, watching(options) as watch:
        _warn(options, installation.warnings)
        sessions = _latest(installation.sessions, max_sessions)
        data = collect(installation, mapping, sessions, watch("reading", sum(s.size for s in sessions)))
        record = run(
            data,
            config,
            SimulateOptions(top_k, threshold, rebuild_every, seed),
            skipped=installation.skipped,
            watch=watch("replaying", data.log.events),
        )
    record = {**record, "events": flags.events, "case": flags.case, "warnings": installation.warnings}
    if output is not None:
        from experiments.report.simulation import write_simulation

        write_simulation(record, output)
        options.say(f"wrote {output / 'simulate.json'} and {output / 'simulate.html'}")
    options.show(record, lambda c: _draw_simulation(c, record))
    if record["interrupted"]:
        options.say("interrupted; the figures are those of the events replayed so far")
        raise typer.Exit(INTERRUPTED)


def _draw_simulation(console: Console, record: dict[str, Any]) -> None:
    from sherpa.cli.tables import pairs, share, table
    from sherpa.sources.openclaw.lines import Losses

    advisory = record["advisory"]
    lost = sum(record["losses"].get(kind, 0) for kind in Losses.LOSING)
    pairs(
        console,
        "Replay",
        [
            ("sessions", record["sessionsProcessed"]),
            ("cases", record["casesDetected"]),
            ("events", record["totalEvents"]),
            ("state coverage", share(record["stateCoverage"])),
            (
                "prompts with advice",
                f"{advisory['fired']} of {advisory['prompts']} ({share(record['advisoryFireRate'])})",
            ),
            ("advised step came next", share(advisory["topCandidateRight"])),
            ("calibration error (probability)", share(record["calibration"]["probability"]["ece"])),
            ("files not read", len(record["skipped"])),
            ("rows lost", lost),
        ],
    )
    console.print()
    k = record["protocol"]["topK"]
    rows = []
    for name, key in (("all steps", "all"), ("non-trivial steps", "nonTrivial")):
        part = record["predictionAccuracy"][key]
        rows.append(
            (
                name,
                str(part["steps"]),
                share(part["top1"]),
                _span(part["ci"]["top1"]),
                share(part["topK"]),
                share(part["lastTransition"]),
                share(part["globalMajority"]),
            )
        )
    head = ("accuracy", "steps", "top-1", "95 % interval", f"top-{k}", "last transition", "most frequent")
    table(console, "How often the next step was foreseen", head, rows)
    for title, name, key in (("By tool", "tool", "tools"), ("By agent", "agent", "agents")):
        found = record[key][:15]
        if found:
            cells = [
                (
                    str(row[name]) if name == "tool" else f"{row['host']}/{row['agent']}".removeprefix("./"),
                    str(row["steps"]),
                    share(row["top1"]),
                    str(row["nonTrivialSteps"]),
                    share(row["nonTrivialTop1"]),
                )
                for row in found
            ]
            table(console, title, (name, "steps", "top-1", "non-trivial", "top-1 there"), cells)


def _span(ci: dict[str, Any] | None) -> str:
    from sherpa.cli.tables import share

    return "-" if ci is None else f"{share(ci['low'])} to {share(ci['high'])}"


@guarded
def import_sessions(
    context: typer.Context,
    flags: ReadFlags,
    sessions_dir: Place = None,
    keep_text: Annotated[
        bool, typer.Option("--keep-text", help="Keep the first 500 characters of texts with the events.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Go on as sessions grow; end with Ctrl-C.")] = False,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between looks of --watch.")] = 2.0,
    json: Json = False,
) -> None:
    """Store the events of real sessions in the memory; running it again adds nothing.

    \b
    Examples:
        sherpa --root .sherpa import-sessions --sessions-dir ~/.openclaw
        sherpa import-sessions --watch
    """
    from sherpa.sources.openclaw.importer import Follower, follow
    from sherpa.sources.openclaw.importer import import_sessions as run

    options = settings(context, json)
    mapping, taxonomy, reading = (
        flags.mapping(keep_text),
        flags.names(options),
        flags.options(keep_text=keep_text, label_abandoned=True),
    )
    if watch:
        if json:
            raise ConfigError("--watch goes on for ever and cannot print one JSON document; leave out --json")
        with options.memory() as memory:
            follower = Follower(memory, sessions_dir, mapping, reading, taxonomy)
            for look in follow(follower, interval=interval):
                if look.stored:
                    options.say(f"stored {look.stored} events of {look.sessions} sessions")
        return
    with options.memory() as memory, watching(options) as bars:
        done = run(memory, sessions_dir, mapping, reading, taxonomy, lambda total: bars("importing", total))
    _warn(options, done.warnings)
    report = done.to_json()
    text = f"stored {done.stored} events of {done.sessions} sessions; {done.present} were there already"
    options.show(report, lambda c: c.print(text))
    if done.interrupted:
        options.say("interrupted; what was stored stays, and running it again goes on from there")
        raise typer.Exit(INTERRUPTED)


@guarded
def sources_inspect(
    context: typer.Context,
    path: Annotated[
        Path | None,
        typer.Argument(help="As --sessions-dir of simulate; by default the local installation.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Show which transcripts there are, from which era, and how much of them is usable.

    \b
    Example:
        sherpa sources inspect ~/.openclaw
    """
    from sherpa.sources.openclaw import Installation
    from sherpa.sources.openclaw.inspect import inspect

    options = settings(context, json)
    with Installation(path) as installation, watching(options) as watch:
        report = inspect(installation, watch("reading", installation.size))
    _warn(options, report["warnings"])
    options.show(report, lambda c: _draw_inspection(c, report))
    if report["interrupted"]:
        options.say("interrupted; the files above were read")
        raise typer.Exit(INTERRUPTED)


_SHOWN_FILES = 40


def _draw_inspection(console: Console, report: dict[str, Any]) -> None:
    from sherpa.cli.tables import pairs, table

    totals = report["totals"]
    counts = totals["counts"]
    pairs(
        console,
        "Sources",
        [
            ("sessions", totals["sessions"]),
            ("files", ", ".join(f"{n} {kind}" for kind, n in totals["kinds"].items())),
            ("not read", ", ".join(f"{n} {why}" for why, n in totals["skipped"].items()) or "none"),
            ("tool calls", counts["toolCalls"]),
            ("failed", counts["failures"]),
            ("still running", counts["running"]),
            ("without result", counts["unresolved"]),
            ("sessions without tool evidence", totals["sessionsWithoutToolEvidence"]),
            ("rows lost", totals["rowsLost"]),
            ("irregular lines", ", ".join(f"{n} {kind}" for kind, n in totals["losses"].items()) or "none"),
        ],
    )
    console.print()
    rows = [
        (
            f["path"],
            f["kind"],
            str(f["counts"]["entries"]),
            str(f["counts"]["toolCalls"]),
            str(f["counts"]["failures"]),
            str(f["counts"]["unresolved"]),
            str(sum(f["losses"].values())),
        )
        for f in report["files"][:_SHOWN_FILES]
    ]
    more = len(report["files"]) - len(rows)
    title = "Transcripts" + (f" (the first {_SHOWN_FILES}; {more} more with --json)" if more else "")
    table(console, title, ("path", "kind", "rows", "calls", "failed", "open", "irregular"), rows)


@guarded
def dataset_from_sessions(
    context: typer.Context,
    flags: ReadFlags,
    output: Annotated[Path, typer.Option(help="Folder for train.json, dev.json, test.json and suite.json.")],
    sessions_dir: Place = None,
    split_by: Annotated[str, typer.Option(help="time (the latest cases are the test) or host.")] = "time",
    fractions: Annotated[str, typer.Option(help="Shares of train, dev and test.")] = "0.6,0.2,0.2",
    shortest: Annotated[int, typer.Option(min=1, help="Leave out cases with fewer events.")] = 3,
    json: Json = False,
) -> None:
    """Make a dataset of real sessions for people to annotate and for validate-suite to read.

    \b
    Example:
        sherpa dataset from-sessions --sessions-dir ~/.openclaw --case task --output data/mine
        sherpa validate-suite --input data/mine/suite.json
    """
    from experiments.skeleton import from_sessions
    from sherpa.sources.openclaw import Installation

    options = settings(context, json)
    if split_by not in ("time", "host"):
        raise typer.BadParameter(f"{split_by!r} is unknown; choose time or host", param_hint="--split-by")
    try:
        shares = [float(part) for part in fractions.split(",")]
    except ValueError:
        raise typer.BadParameter("must be three numbers such as 0.6,0.2,0.2", param_hint="--fractions") from None
    mapping, taxonomy = flags.mapping(), flags.names(options)
    reading = flags.options(label_abandoned=True)
    with Installation(sessions_dir, reading, taxonomy) as installation, watching(options) as watch:
        bar: Callable[[int], None] = watch("reading", installation.size)
        report = from_sessions(
            installation, mapping, output, by=cast("Any", split_by), fractions=shares, shortest=shortest, watch=bar
        )
    said = ", ".join(f"{name} {part['cases']} cases" for name, part in report["splits"].items())
    options.show(report, lambda c: c.print(f"wrote {output}: {said}"))
