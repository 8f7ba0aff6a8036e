"""Commands of the memory: ingest, rebuild, status and the four questions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import msgspec
import typer
from msgspec import UnsetType

from sherpa.cli.context import Json, guarded, settings
from sherpa.errors import EventError, SourceError

if TYPE_CHECKING:
    from rich.console import Console

    from sherpa.queries import RecallMode

File = Annotated[Path | None, typer.Argument(help="JSON file; standard input when omitted.", show_default=False)]
CaseId = Annotated[str, typer.Option("--case-id", help="Case to ask about, for instance session:42.")]
MODES = ("successful", "failed", "any")


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command("ingest")(ingest)
    app.command("ingest-batch")(ingest_batch)
    app.command("rebuild")(rebuild)
    app.command("status")(status)
    app.command("workflow-status", hidden=True)(status)
    app.command("workflow-state")(workflow_state)
    app.command("workflow-next")(workflow_next)
    app.command("workflow-outcomes")(workflow_outcomes)
    app.command("workflow-risks", help="Same as workflow-outcomes.")(workflow_outcomes)
    app.command("workflow-recall")(workflow_recall)
    app.command("advise")(advise)


def _read(file: Path | None) -> Any:
    name = "standard input" if file is None else str(file)
    if file is not None and file.is_dir():
        raise SourceError("is a folder; name a file", file=name)
    try:
        data = sys.stdin.buffer.read() if file is None else file.read_bytes()
    except OSError as error:
        raise SourceError(f"cannot be read: {error.strerror or error}", file=name) from None
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SourceError(f"broken JSON: {error}", file=name) from None


@guarded
def ingest(context: typer.Context, file: File = None, json: Json = False) -> None:
    """Store one event and bring the graph up to date.

    \b
    Example:
        echo '{"caseId":"c1","source":"ci","type":"tests.run"}' | sherpa ingest
    """
    options = settings(context, json)
    raw = _read(file)
    if not isinstance(raw, dict):
        raise EventError("ingest takes one JSON object; use ingest-batch for an array")
    with options.memory() as memory:
        event = memory.ingest(raw)
    options.show(event, lambda c: c.print(f"stored {event.event_id} in case {event.case_id} at {event.ts}"))


@guarded
def ingest_batch(context: typer.Context, file: File = None, json: Json = False) -> None:
    """Store an array of events; if one is invalid, none is stored.

    \b
    Example:
        sherpa ingest-batch events.json
    """
    options = settings(context, json)
    raw = _read(file)
    if not isinstance(raw, list):
        raise EventError("ingest-batch takes a JSON array of events")
    with options.memory() as memory:
        appended = memory.ingest_batch(raw)
    if appended.duplicates:
        options.say(f"{appended.duplicates} events were there already and are ignored")
    options.show(appended.events, lambda c: c.print(f"stored {len(appended.events)} events"))


@guarded
def rebuild(
    context: typer.Context,
    engine: Annotated[
        str | None,
        typer.Option(
            help="What counts: local, duckdb (more than memory), ray or spark (more than a machine).",
            show_default=False,
        ),
    ] = None,
    input: Annotated[
        Path | None,
        typer.Option(
            help="Count the Parquet files or JSONL ledgers below this folder in place of the memory's own events. The "
            "graph is stored, the events are not.",
            show_default=False,
        ),
    ] = None,
    memory_limit: Annotated[str, typer.Option("--memory", help="What duckdb may use beside the edges.")] = "2GB",
    json: Json = False,
) -> None:
    """Derive the graph from the whole ledger again.

    \b
    Examples:
        sherpa --max-order 6 rebuild
        sherpa rebuild --engine duckdb --memory 4GB
        sherpa --root fleet rebuild --engine ray --input /data/ledgers
    """
    options = settings(context, json)
    with options.memory() as memory:
        if engine is None and input is None:
            report = memory.rebuild()
            bad = list(memory.last_report.malformed)
        else:
            from sherpa.cli.scale import rebuild_by

            report, bad = rebuild_by(memory, engine or "local", input, memory_limit, options.say)
    for line in bad[:10]:
        options.say(f"skipped {line}")
    if len(bad) > 10:
        options.say(f"skipped {len(bad) - 10} more lines")
    options.show(report, lambda c: _draw_status(c, report))


@guarded
def status(context: typer.Context, json: Json = False) -> None:
    """Show how many events, cases and states there are, and how fresh they are.

    \b
    Example:
        sherpa status --json
    """
    options = settings(context, json)
    with options.memory() as memory:
        report = memory.status() | {"advisoryEnabled": options.configuration().advisory.enabled}
    options.show(report, lambda c: _draw_status(c, report))


def _draw_status(console: Console, report: dict[str, Any]) -> None:
    from sherpa.cli.tables import pairs

    config = report["config"]
    pairs(
        console,
        "Sherpa",
        [
            ("healthy", "yes" if report["healthy"] else "no"),
            ("events", report["events"]),
            ("cases", report["cases"]),
            ("states", report["states"]),
            ("latest event", report["lastUpdateAt"] or "none"),
            ("last rebuild", report["lastRebuildAt"] or "never"),
            ("malformed ledger lines", report["ledgerCorruptionCount"]),
            ("orders", f"{config['minOrder']}-{config['defaultOrder']} of {config['maxOrder']}"),
            ("minimum support", config["minSupport"]),
            ("strategy", config["stateStrategy"]),
            ("ledger", report["ledgerPath"]),
            ("graph", report["graphPath"]),
        ],
    )


@guarded
def workflow_state(
    context: typer.Context,
    case_id: CaseId,
    max_order: Annotated[int | None, typer.Option(min=1, help="Longest suffix to try.")] = None,
    json: Json = False,
) -> None:
    """Show where a case is: the longest state that was seen before.

    \b
    Example:
        sherpa workflow-state --case-id session:42
    """
    options = settings(context, json)
    with options.memory() as memory:
        answer = memory.workflow_state(case_id, max_order)

    def draw(console: Console) -> None:
        from sherpa.cli.tables import pairs

        pairs(
            console,
            f"State of {case_id}",
            [
                ("state", " -> ".join(answer.state) or "no events"),
                ("matched by", answer.matched_by.description if answer.matched_by else "nothing"),
                ("order", answer.matched_order),
                ("support", answer.support),
                ("confidence", f"{answer.confidence:.2f}"),
                ("workflow", answer.matched_workflow or "unknown"),
            ],
        )

    options.show(answer.to_json(), draw)


@guarded
def workflow_next(
    context: typer.Context,
    case_id: CaseId,
    limit: Annotated[int, typer.Option(min=1, help="How many candidates.")] = 5,
    json: Json = False,
) -> None:
    """Show what usually comes next.

    \b
    Example:
        sherpa workflow-next --case-id session:42 --limit 3
    """
    options = settings(context, json)
    with options.memory() as memory:
        answer = memory.workflow_next(case_id, limit)

    def draw(console: Console) -> None:
        from sherpa.cli.tables import share, table

        if not answer.candidates:
            console.print(f"Nothing is known about what follows {' -> '.join(answer.state) or 'an empty case'}.")
            return
        table(
            console,
            f"After {' -> '.join(answer.state)}",
            ("next event", "probability", "support", "succeeds", "fails", "mean time", "score"),
            [
                (
                    c.event,
                    share(c.probability),
                    str(c.support),
                    share(c.success_rate),
                    share(c.failure_rate),
                    "-" if c.mean_time_to_next_ms is None else f"{c.mean_time_to_next_ms / 1000:.1f} s",
                    f"{c.score:.3f}",
                )
                for c in answer.candidates
            ],
        )

    options.show(answer.to_json(), draw)


@guarded
def workflow_outcomes(
    context: typer.Context,
    case_id: CaseId,
    limit: Annotated[int, typer.Option(min=1, help="How many branches.")] = 3,
    json: Json = False,
) -> None:
    """Show which branches fail or stall more often than the state they leave.

    \b
    Example:
        sherpa workflow-outcomes --case-id session:42
    """
    options = settings(context, json)
    with options.memory() as memory:
        answer = memory.workflow_outcomes(case_id, limit)

    def draw(console: Console) -> None:
        from sherpa.cli.tables import share, table

        if not answer.outcomes:
            console.print("No branch fails or stalls more often than its state.")
            return
        if not isinstance(answer.lifts, UnsetType):
            rows = [
                (
                    b.branch,
                    b.kind,
                    f"{b.affected} of {b.cases}",
                    share(b.baseline_rate),
                    f"{b.lift:.2f} ({b.low:.2f} to {b.high:.2f})",
                    "yes" if b.raised else "not shown",
                )
                for b in answer.lifts
            ]
            head = ("branch", "kind", "cases", "all cases here", "lift (95 %)", "raised")
            table(console, "Per case, against all cases that passed here", head, rows)
        table(
            console,
            f"After {' -> '.join(answer.state)}",
            ("branch", "kind", "relative rate", "probability", "support", "what to do"),
            [
                (
                    n.branch,
                    n.kind,
                    f"{n.relative_risk:.2f}",
                    share(n.probability),
                    str(n.support),
                    n.suggested_intervention,
                )
                for n in answer.outcomes
            ],
        )

    options.show(answer.to_json(), draw)


@guarded
def workflow_recall(
    context: typer.Context,
    case_id: CaseId,
    mode: Annotated[str, typer.Option(help=f"Which cases: {', '.join(MODES)}.")] = "successful",
    limit: Annotated[int, typer.Option(min=1, help="How many cases.")] = 3,
    json: Json = False,
) -> None:
    """Show how similar cases went on.

    \b
    Example:
        sherpa workflow-recall --case-id session:42 --mode failed
    """
    options = settings(context, json)
    if mode not in MODES:
        raise typer.BadParameter(f"{mode!r} is unknown; choose one of {', '.join(MODES)}", param_hint="--mode")
    with options.memory() as memory:
        answer = memory.workflow_recall(case_id, cast("RecallMode", mode), limit)

    def draw(console: Console) -> None:
        from sherpa.cli.tables import table

        if not answer.paths:
            console.print("No such case holds a similar state.")
            return
        table(
            console,
            f"Cases like {' -> '.join(answer.state)}",
            ("case", "outcome", "order", "distance", "score", "went on with"),
            [
                (
                    p.case_id,
                    p.outcome,
                    str(p.matched_order),
                    f"{p.distance:.2f}",
                    f"{p.score:.3f}",
                    " -> ".join(p.continuation),
                )
                for p in answer.paths
            ],
        )

    options.show(answer.to_json(), draw)


@guarded
def advise(
    context: typer.Context,
    case_id: CaseId,
    session: Annotated[
        str | None,
        typer.Option(help="Session key the case belongs to; with it the scope is asked too.", show_default=False),
    ] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Count it as given, and begin the pause of this case.")
    ] = False,
    json: Json = False,
) -> None:
    """Show what would be said on a case and, if nothing, which gate says no. No model is called.

    \b
    Examples:
        sherpa advise --case-id session:42
        sherpa advise --case-id session:42 --session agent:main:telegram:direct:42 --record
    """
    from sherpa.capture.scope import Session, not_advised

    options = settings(context, json)
    configuration = options.configuration()
    refused = None if session is None else not_advised(Session(session), configuration)
    with options.memory() as memory:
        advice = memory.advise(case_id, configuration.advisory, refused=refused, record=record)

    def draw(console: Console) -> None:
        if advice.text is None:
            console.print(f"Nothing is said. {advice.gate}: {advice.reason}", soft_wrap=True, markup=False)
        else:
            console.print(advice.text, soft_wrap=True, markup=False)

    options.show(advice.to_json(), draw)
