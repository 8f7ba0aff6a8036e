"""Commands that look after a memory: reports, metrics, export, import, gc."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sherpa.cli.context import MISSED, Json, guarded, settings

if TYPE_CHECKING:
    from rich.console import Console

Limit = Annotated[int, typer.Option(min=1, help="Rows of each list.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command("taxonomy-report")(taxonomy_report)
    app.command("analytics-report")(analytics_report)
    app.command("metrics")(metrics)
    app.command("export")(export)
    app.command("import")(import_snapshot)
    app.command("gc")(gc)
    app.command("forget")(forget)
    app.command("doctor")(doctor)


@guarded
def taxonomy_report(
    context: typer.Context,
    recent_days: Annotated[int, typer.Option(min=1, help="Length of the recent window.")] = 14,
    rare_support: Annotated[int, typer.Option(min=0, help="A type with at most so many events is rare.")] = 3,
    limit: Limit = 10,
    max_types: Annotated[int | None, typer.Option(min=0, help="Fail above so many types.", show_default=False)] = None,
    max_new_type_share: Annotated[
        float | None, typer.Option(min=0, max=1, help="Fail above this share of new types.", show_default=False)
    ] = None,
    max_rare_event_share: Annotated[
        float | None, typer.Option(min=0, max=1, help="Fail above this share of rare events.", show_default=False)
    ] = None,
    max_drift_score: Annotated[
        float | None, typer.Option(min=0, max=1, help="Fail above this score of drift.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Show the types of events, and how far the latest days are from all before. Exit 1 if a limit is passed.

    \b
    Examples:
        sherpa taxonomy-report --recent-days 14
        sherpa taxonomy-report --max-types 50 --max-drift-score 0.2
    """
    options = settings(context, json)
    with options.memory() as memory:
        report = memory.taxonomy_report(recent_days=recent_days, rare_support=rare_support, limit=limit)
    drift = report["drift"]
    gates = (
        ("types", report["distinctTypes"], max_types),
        ("share of new types", drift["newTypeShare"], max_new_type_share),
        ("share of rare events", drift["rareEventShare"], max_rare_event_share),
        ("drift score", drift["score"], max_drift_score),
    )
    passed = [(name, found, most) for name, found, most in gates if most is not None and found > most]
    options.show(report, lambda console: _draw_taxonomy(console, report))
    for name, found, most in passed:
        options.say(f"{name}: {found} is above {most}")
    if passed:
        raise typer.Exit(MISSED)


def _draw_taxonomy(console: Console, report: dict[str, Any]) -> None:
    from sherpa.cli.tables import pairs, share, table

    head = ("type", "events", "share", "before", "recent", "last seen")
    for title, key in (("Types", "topTypes"), ("Rare types", "rareTypes"), ("New types", "recentNewTypes")):
        rows = [
            (
                row["event"],
                str(row["count"]),
                share(row["share"]),
                share(row["baselineShare"]),
                share(row["recentShare"]),
                row["lastSeenAt"],
            )
            for row in report[key]
        ]
        if rows:
            table(console, title, head, rows)
    drift = report["drift"]
    p = drift["pValue"]
    pairs(
        console,
        f"Drift of the last {drift['recentWindowDays']} days",
        [
            ("events before, recent", f"{drift['baselineEventCount']}, {drift['recentEventCount']}"),
            ("score", drift["score"]),
            ("by chance", "not tested: a window is empty" if p is None else f"p = {p:.3f}"),
            ("new types", f"{drift['newTypeCount']} ({share(drift['newTypeShare'])} of recent events)"),
            ("rare types", f"{drift['rareTypeCount']} ({share(drift['rareEventShare'])} of all events)"),
        ],
    )


@guarded
def analytics_report(context: typer.Context, limit: Limit = 10, json: Json = False) -> None:
    """Show the most frequent transitions, and those that fail or stall most.

    \b
    Example:
        sherpa analytics-report --limit 5
    """
    options = settings(context, json)
    with options.memory() as memory:
        report = memory.analytics_report(limit)
    options.show(report, lambda console: _draw_analytics(console, report))


def _draw_analytics(console: Console, report: dict[str, Any]) -> None:
    from sherpa.cli.tables import pairs, share, table

    cases = report["cases"]
    pairs(
        console,
        "Cases",
        [
            ("all", cases["total"]),
            ("succeeded", f"{cases['success']} ({share(cases['successRate'])})"),
            ("failed", f"{cases['failure']} ({share(cases['failureRate'])})"),
            ("unknown", cases["unknown"]),
        ],
    )
    head = ("after", "comes", "support", "succeeds", "fails", "stalls", "mean time")
    titles = (("Frequent", "hotTransitions"), ("Failing", "failureBranches"), ("Stalling", "stallBranches"))
    for title, key in titles:
        rows = [
            (
                " -> ".join(row["state"]),
                row["nextEvent"],
                str(row["support"]),
                share(row["successRate"]),
                share(row["failureRate"]),
                share(row["stallRate"]),
                "-" if row["meanTimeToNextMs"] is None else f"{row['meanTimeToNextMs'] / 1000:.1f} s",
            )
            for row in report[key]
        ]
        if rows:
            table(console, title, head, rows)


@guarded
def metrics(context: typer.Context, json: Json = False) -> None:
    """Show how the memory is used: events, active cases, advice given, rebuilds, broken lines.

    \b
    Example:
        sherpa metrics --json
    """
    options = settings(context, json)
    with options.memory() as memory:
        found = memory.metrics()
    options.show(found, lambda console: _draw(console, "Use", found))


def _draw(console: Console, title: str, found: dict[str, Any]) -> None:
    from sherpa.cli.tables import pairs

    pairs(console, title, [(name, "-" if value is None else value) for name, value in found.items()])


@guarded
def export(context: typer.Context, json: Json = False) -> None:
    """Write everything the memory holds as one JSON document to the folder export.

    \b
    Example:
        sherpa --root .sherpa export
    """
    options = settings(context, json)
    with options.memory() as memory:
        found = memory.export()
    options.show(found, lambda console: _draw(console, "Exported", found))


@guarded
def import_snapshot(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="Snapshot of this program or of the original.", show_default=False)],
    json: Json = False,
) -> None:
    """Take in the events of a snapshot; those that are here already are left out.

    \b
    Example:
        sherpa import other/export/2026-05-21T10-00-00.000Z.json
    """
    options = settings(context, json)
    with options.memory() as memory:
        found = memory.import_snapshot(file)
    options.show(found, lambda console: _draw(console, "Imported", found))


@guarded
def gc(context: typer.Context, json: Json = False) -> None:
    """Remove temporary files and all but the latest ten exports, and shrink the database.

    \b
    Example:
        sherpa gc
    """
    options = settings(context, json)
    with options.memory() as memory:
        found = memory.gc()
    options.show(found, lambda console: _draw(console, "Cleaned", found))


@guarded
def forget(
    context: typer.Context,
    case_id: Annotated[str, typer.Option("--case-id", "--case", help="Case to forget, for instance session:42.")],
    json: Json = False,
) -> None:
    """Remove a case from ledger, graph and exports. There is no way back; `gc` then empties the database's pages.

    \b
    Example:
        sherpa forget --case session:42 && sherpa gc
    """
    from contextlib import closing

    from sherpa.serve.service import Service

    options = settings(context, json)
    with closing(Service(options.opening())) as service:
        found = service.call("forget", {"caseId": case_id})
    options.show(found, lambda console: console.print(f"forgotten: {found['removedEvents']} events"))


@guarded
def doctor(
    context: typer.Context,
    fix: Annotated[
        bool, typer.Option("--fix", help="Put a graph that is damaged aside and derive it from the ledger again.")
    ] = False,
    json: Json = False,
) -> None:
    """Check ledger and graph, and whether one follows from the other. Exit 1 if there is an error.

    Nothing is changed without --fix, and with it only the graph: the ledger is the truth and stays as it is.

    \b
    Examples:
        sherpa doctor
        sherpa doctor --fix
    """
    from time import time_ns

    from sherpa.doctor import diagnose

    options = settings(context, json)
    report = diagnose(options.root, now=time_ns())
    if fix and any(check["check"].startswith("graph") and check["level"] != "ok" for check in report["checks"]):
        aside = _put_aside(options.root)
        with options.memory() as memory:
            memory.rebuild()
        report = diagnose(options.root, now=time_ns()) | {"putAside": aside}
    options.show(report, lambda console: _draw_doctor(console, report))
    if not report["healthy"]:
        raise typer.Exit(MISSED)


def _put_aside(root: Path) -> list[str]:
    """The graph and the files beside it under other names; nothing is deleted."""
    moved = []
    for name in ("graph.db", "graph.db-wal", "graph.db-shm"):
        path = root / name
        if path.exists():
            number = 1
            while (target := root / f"{name}.damaged-{number}").exists():
                number += 1
            path.rename(target)
            moved.append(str(target))
    return moved


def _draw_doctor(console: Console, report: dict[str, Any]) -> None:
    from sherpa.cli.tables import table

    rows = [(c["check"], c["level"], c["found"], c["advice"]) for c in report["checks"]]
    table(
        console,
        f"{report['root']}: {'healthy' if report['healthy'] else 'damaged'}",
        ("check", "", "found", "what to do"),
        rows,
    )
