"""Commands of the runtime: runtime run, resume, status, replay, events, message, resolve, gates, bench."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sherpa.cli.context import DONE, MISSED, Json, guarded, settings
from sherpa.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from harness.runtime.engine import Engine, RunResult


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(
        help="The evidence-driven recursive runtime: typed plans, checked steps, a durable event log.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    for command in (run, resume, status, replay, events, message, resolve, gates, bench):
        group.command(command.__name__)(command)
    app.add_typer(group, name="runtime")


Workspace = Annotated[Path, typer.Option("--workspace", "-w", help="Folder of the log and of the files of its runs.")]
RunId = Annotated[str, typer.Argument(help="Id of the run.", show_default=False)]
Channel = Annotated[str, typer.Option(help="Where a model is asked: recorded, or live.")]
Recordings = Annotated[Path | None, typer.Option(help="JSON file of tapes by session.", show_default=False)]
Model = Annotated[
    str, typer.Option(help="Model of the live channel.", envvar="SHERPA_RUNTIME_MODEL", show_default=False)
]
ModelUrl = Annotated[
    str, typer.Option(help="Address of the live channel.", envvar="SHERPA_RUNTIME_URL", show_default=False)
]


def _engine(
    workspace: Path, channel: str = "recorded", recordings: Path | None = None, model: str = "", url: str = ""
) -> Engine:
    import os

    from harness.runtime.channel import OpenAICompatible
    from harness.runtime.engine import Engine

    if channel == "live" and not (model and url):
        raise ConfigError("--channel live needs --model and --model-url")
    tapes = None
    if recordings is not None:
        import msgspec

        try:
            tapes = msgspec.json.decode(recordings.read_bytes(), type=dict[str, list[Any]])
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigError(f"--recordings {recordings}: {error}") from None
    key = os.environ.get("SHERPA_RUNTIME_KEY", "")
    return Engine(workspace, channel, tapes, providers=lambda: [OpenAICompatible(url, model, key)])


def _told(context: typer.Context, json: bool, result: RunResult) -> None:
    import msgspec

    options = settings(context, json)
    options.show(msgspec.to_builtins(result), lambda console: _draw_result(console, result))
    raise typer.Exit(DONE if result.status == "completed" else MISSED)


def _draw_result(console: Console, result: RunResult) -> None:
    from sherpa.cli.tables import pairs

    rows = [("run", result.run_id), ("status", result.status), ("error", result.error or "")]
    pairs(console, "Run", [*rows, *result.outputs.items()])


@guarded
def run(
    context: typer.Context,
    problem: Annotated[Path, typer.Argument(help="JSON file of the problem.", show_default=False)],
    workspace: Workspace = Path("runtime"),
    run_id: Annotated[str | None, typer.Option(help="Id of the run.", show_default=False)] = None,
    channel: Channel = "recorded",
    recordings: Recordings = None,
    model: Model = "",
    model_url: ModelUrl = "",
    json: Json = False,
) -> None:
    """Run a problem until it ends, blocks or is stopped. Exit code 0 only if it completed.

    \b
    Examples:
        sherpa runtime run problem.json -w work
        sherpa runtime run problem.json -w work --recordings tapes.json --run-id first
    """
    with _engine(workspace, channel, recordings, model, model_url) as engine:
        result = engine.run(problem, run_id)
    _told(context, json, result)


@guarded
def resume(
    context: typer.Context,
    run_id: RunId,
    workspace: Workspace = Path("runtime"),
    channel: Channel = "recorded",
    recordings: Recordings = None,
    model: Model = "",
    model_url: ModelUrl = "",
    force: Annotated[bool, typer.Option(help="Although capabilities, planner or code have changed.")] = False,
    json: Json = False,
) -> None:
    """Go on with a run; nothing that finished is done again.

    \b
    Examples:
        sherpa runtime resume run_1 -w work
    """
    with _engine(workspace, channel, recordings, model, model_url) as engine:
        result = engine.resume(run_id, force=force)
    _told(context, json, result)


@guarded
def status(context: typer.Context, run_id: RunId, workspace: Workspace = Path("runtime"), json: Json = False) -> None:
    """How a run stands: its status, its nodes, what it used.

    \b
    Examples:
        sherpa runtime status run_1 -w work --json
    """
    from sherpa.cli.tables import table

    with _engine(workspace) as engine:
        found = engine.status(run_id)

    def draw(console: Console) -> None:
        console.print(f"{run_id}: {found['status']} {found['error'] or ''}", soft_wrap=True)
        rows = [(key, node["state"], str(node["depth"])) for key, node in found["nodes"].items()]
        table(console, "Nodes", ["node", "state", "depth"], rows)

    settings(context, json).show(found, draw)


@guarded
def replay(
    context: typer.Context,
    run_id: RunId,
    workspace: Workspace = Path("runtime"),
    output: Annotated[Path | None, typer.Option(help="File for the whole trace.", show_default=False)] = None,
    json: Json = False,
) -> None:
    """Replay a run's events and compare: tables, replay, and every blob that is named. Exit code 1 if they differ.

    \b
    Examples:
        sherpa runtime replay run_1 -w work
        sherpa runtime replay run_1 -w work --output trace.json
    """
    with _engine(workspace) as engine:
        problems = engine.verify(run_id)
        found = engine.store.replay_projection(run_id)
        if output is not None:
            engine.export_trace(run_id, output)
    answer = {"runId": run_id, "equal": not problems, "problems": problems, "projection": found}

    def draw(console: Console) -> None:
        console.print(f"{run_id}: {found['status']}; " + ("; ".join(problems) or "the replay agrees"), soft_wrap=True)

    settings(context, json).show(answer, draw)
    if problems:
        raise typer.Exit(MISSED)


@guarded
def events(
    context: typer.Context,
    run_id: RunId,
    workspace: Workspace = Path("runtime"),
    kind: Annotated[list[str] | None, typer.Option(help="Only events of this kind.", show_default=False)] = None,
    since: Annotated[int, typer.Option(min=0, help="Only events after this number.")] = 0,
    memory: Annotated[bool, typer.Option(help="As events for memory, to be piped into ingest-batch.")] = False,
    workflow: Annotated[str, typer.Option(help="Family of the task, with --memory.")] = "runtime",
    json: Json = False,
) -> None:
    """The event log of a run.

    \b
    Examples:
        sherpa runtime events run_1 -w work --kind admission_checked
        sherpa runtime events run_1 -w work --memory --json | sherpa ingest-batch
    """
    import msgspec

    from harness.runtime.bridge import memory_events
    from sherpa.cli.tables import table

    with _engine(workspace) as engine:
        engine.status(run_id)
        found = list(engine.store.events(run_id, since_seq=since, kinds=kind or None))
    rows = memory_events(found, workflow=workflow) if memory else found
    listed = [msgspec.to_builtins(row) for row in rows]

    def draw(console: Console) -> None:
        cells = [(str(e.seq), e.kind, e.node_key or "", msgspec.json.encode(e.payload).decode()[:100]) for e in found]
        table(console, run_id, ["seq", "kind", "node", "payload"], cells)

    settings(context, json or memory).show(listed, draw)


@guarded
def message(
    context: typer.Context,
    run_id: RunId,
    node_key: Annotated[str, typer.Argument(help="Key of the node, as status shows it.", show_default=False)],
    text: Annotated[str, typer.Argument(help="The message; JSON, or plain text.", show_default=False)],
    workspace: Workspace = Path("runtime"),
    json: Json = False,
) -> None:
    """Leave a message for a node; it reads it when it begins. The answer to a question is such a message.

    \b
    Examples:
        sherpa runtime message run_1 root_p@1.ask yes -w work
    """
    import msgspec

    try:
        payload = msgspec.json.decode(text.encode())
    except msgspec.DecodeError:
        payload = text
    with _engine(workspace) as engine:
        number = engine.deliver_message(run_id, node_key, payload)
    settings(context, json).show(
        {"id": number}, lambda console: console.print(f"message {number} waits for {node_key}")
    )


@guarded
def resolve(
    context: typer.Context,
    run_id: RunId,
    node_key: Annotated[str, typer.Argument(help="The node that is in doubt.", show_default=False)],
    decision: Annotated[str, typer.Argument(help="done: it took effect; redo: it did not.", show_default=False)],
    evidence: Annotated[str, typer.Option(help="How you know.")] = "",
    workspace: Workspace = Path("runtime"),
    json: Json = False,
) -> None:
    """Say what became of a call that was cut off; then the run can be resumed.

    \b
    Examples:
        sherpa runtime resolve run_1 root_p@1.pay done --evidence "receipt 4711" -w work
    """
    with _engine(workspace) as engine:
        engine.resolve_in_doubt(run_id, node_key, decision, evidence)
    done = {"node": node_key, "decision": decision}
    settings(context, json).show(done, lambda console: console.print(f"{node_key}: {decision}"))


@guarded
def gates(context: typer.Context, json: Json = False) -> None:
    """The preregistered gates, and the hash of their registration.

    \b
    Examples:
        sherpa runtime gates --json
    """
    from harness.runtime.bench.gates import registration
    from sherpa.cli.tables import table

    registered, sha = registration()

    def draw(console: Console) -> None:
        rows = [(gate["id"], f"{gate['rule']} {gate['threshold']}", gate["what"]) for gate in registered["gates"]]
        table(console, f"Gates ({sha[:12]})", ["gate", "threshold", "what"], rows)

    settings(context, json).show({"registration": sha, **registered}, draw)


@guarded
def bench(
    context: typer.Context,
    output: Annotated[Path, typer.Option(help="Folder for raw artefacts and the report.")] = Path("runtime-bench"),
    json: Json = False,
) -> None:
    """Run the preregistered matrix and decide: GO only if every gate passes, else exit code 1.

    \b
    Examples:
        sherpa runtime bench --output runtime-bench
    """
    from harness.runtime.bench.report import bench as run_bench
    from sherpa.cli.tables import table

    options = settings(context, json)
    if output.exists() and any(output.iterdir()):
        raise ConfigError(f"--output {output} is not empty; every run of the bench begins in fresh folders")
    report = run_bench(output, say=options.say)

    def draw(console: Console) -> None:
        rows = [(g["id"], f"{g['rule']} {g['threshold']}", str(g["observed"]), g["verdict"]) for g in report["gates"]]
        table(console, f"{report['decision']}", ["gate", "threshold", "observed", "verdict"], rows)

    options.show(report, draw)
    raise typer.Exit(DONE if report["decision"] == "GO" else MISSED)
