"""Commands for long tasks in stages: saga start, advance, status, cancel, resume, watch, report and more.

What an agent calls as a tool prints one JSON document. Exit codes are 0 done, 1 an error object was printed, 2 wrong
usage, 3 the saga has ended without being completed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sherpa.cli.context import MISSED, Json, guarded, settings
from sherpa.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from harness.saga.coordinator import Coordinator

ENDED = 3


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(
        help="Long tasks in stages, with checks, recovery and a log.", no_args_is_help=True, rich_markup_mode=None
    )
    group.command("start")(start)
    group.command("advance")(advance)
    group.command("status")(status)
    group.command("cancel")(cancel)
    group.command("resume")(resume)
    group.command("list")(list_sagas)
    group.command("show")(show)
    group.command("replay")(replay)
    group.command("watch")(watch)
    group.command("report")(report)
    group.command("lint-profile")(lint_profile)
    group.command("doctor")(doctor)
    app.add_typer(group, name="saga")


Identifier = Annotated[str, typer.Argument(help="Id of the saga.", show_default=False)]
StateRoot = Annotated[
    Path | None,
    typer.Option(envvar="SAGA_STATE_ROOT", help="Folder of the sagas; .saga by default.", show_default=False),
]
Unattended = Annotated[
    bool | None, typer.Option("--unattended", help="End where a person would have to decide.", show_default=False)
]
Advice = Annotated[
    str | None,
    typer.Option(help="Memory under --root: off, shadow (log what it says) or advisory.", show_default=False),
]
AllowProgram = Annotated[
    list[str] | None,
    typer.Option(help="A program that command checks may run; may be repeated.", show_default=False),
]


def _coordinator(context: typer.Context, root: Path | None, **changes: Any) -> Coordinator:
    """The coordinator of a state root, with flags before its saga.json."""
    from harness.saga.coordinator import Coordinator
    from harness.saga.options import read_options, state_root

    folder = state_root(root)
    if changes.get("advice") not in (None, "off", "shadow", "advisory"):
        raise ConfigError(f"--advice: {changes['advice']!r} is unknown; it is off, shadow or advisory")
    if changes.get("advice") in ("shadow", "advisory"):
        changes["sherpa_root"] = str(settings(context).root)
    programs = changes.pop("programs", None)
    if programs:
        changes |= {"commands": True, "programs": tuple(programs)}
    return Coordinator(folder, read_options(folder, **changes))


def _call(context: typer.Context, coordinator: Coordinator, tool: str, arguments: dict[str, Any]) -> None:
    """Call a tool, print what it answers, and exit accordingly."""
    from harness.saga.tools import call_tool

    given = {name: value for name, value in arguments.items() if value is not None}
    answer = call_tool(coordinator, tool, given)
    settings(context).print_json(answer)
    if "error" in answer:
        raise typer.Exit(MISSED)
    following = answer.get("nextAction")
    last = following if isinstance(following, dict) else answer
    if last.get("nextAction") == "terminated" and last.get("reason") != "completed":
        raise typer.Exit(ENDED)


@guarded
def start(
    context: typer.Context,
    goal: Annotated[str, typer.Option(help="The user's goal, word for word.", show_default=False)],
    profile: Annotated[str, typer.Option(help="ops, research, curation, review or generic.")] = "generic",
    session: Annotated[str | None, typer.Option(help="Id of the host's session.", show_default=False)] = None,
    state_root: StateRoot = None,
    unattended: Unattended = None,
    advice: Advice = None,
    json: Json = False,
) -> None:
    """Begin a long task; answers with what to write as the plan.

    \b
    Example:
        sherpa saga start --profile research --goal "Compare three formats for event logs"
    """
    coordinator = _coordinator(context, state_root, unattended=unattended, advice=advice)
    _call(context, coordinator, "saga_start", {"goal": goal, "profile": profile, "session": session})


@guarded
def advance(
    context: typer.Context,
    saga_id: Identifier,
    plan: Annotated[Path | None, typer.Option(help="File with the plan; - for stdin.", show_default=False)] = None,
    replan: Annotated[bool, typer.Option("--replan", help="Begin with a new plan; artifacts stay.")] = False,
    accept_incomplete: Annotated[
        bool, typer.Option("--accept-incomplete", help="Take a plan that lacks something.")
    ] = False,
    worker_finished: Annotated[
        bool, typer.Option("--worker-finished", help="The stage is done and is to be checked.")
    ] = False,
    artifact: Annotated[
        list[str] | None, typer.Option(help="NAME=FILE to hand over; may be repeated.", show_default=False)
    ] = None,
    eval: Annotated[Path | None, typer.Option(help="File with the verdict (JSON, or text with it).")] = None,
    external: Annotated[Path | None, typer.Option(help="File with a second reviewer's verdict (JSON).")] = None,
    human: Annotated[str | None, typer.Option(help="What the user says.", show_default=False)] = None,
    criteria_patch: Annotated[
        Path | None, typer.Option(help="File with criteria to drop or alter (JSON), with a --human 'relax …'.")
    ] = None,
    diagnostics: Annotated[Path | None, typer.Option(help="File with the worker's diagnostics (JSON).")] = None,
    tokens: Annotated[int | None, typer.Option(min=0, help="Tokens used since the last report.")] = None,
    wall_ms: Annotated[int | None, typer.Option(min=0, help="Milliseconds used since the last report.")] = None,
    stage_id: Annotated[str | None, typer.Option(help="Refuse if the saga is at another stage.")] = None,
    if_seq: Annotated[int | None, typer.Option(help="Refuse if the saga has moved past this seq.")] = None,
    request_id: Annotated[str | None, typer.Option(help="Do it once, however often it is sent.")] = None,
    allow_program: AllowProgram = None,
    state_root: StateRoot = None,
    unattended: Unattended = None,
    advice: Advice = None,
    json: Json = False,
) -> None:
    """Move a saga by one decision; without any signal it tells where to go on.

    \b
    Examples:
        sherpa saga advance saga-1767225600000-a1b2c3 --plan plan.md
        sherpa saga advance saga-1767225600000-a1b2c3 --worker-finished --artifact stages/report.md=report.md
        sherpa saga advance saga-1767225600000-a1b2c3 --eval verdict.json
    """
    usage = {name: value for name, value in (("tokens", tokens), ("wallMs", wall_ms)) if value is not None}
    arguments = {
        "sagaId": saga_id,
        "planYaml": None if plan is None else _text(plan),
        "replan": replan or None,
        "acceptIncomplete": accept_incomplete or None,
        "workerFinished": worker_finished or None,
        "artifacts": [_artifact(given) for given in artifact] if artifact else None,
        "evalResult": None if eval is None else _text(eval),
        "externalVerdict": None if external is None else _document(external),
        "humanInput": human,
        "criteriaPatch": None if criteria_patch is None else _document(criteria_patch),
        "workerDiagnostics": None if diagnostics is None else _document(diagnostics),
        "usage": usage or None,
        "stageId": stage_id,
        "ifSeq": if_seq,
        "requestId": request_id,
    }
    coordinator = _coordinator(context, state_root, unattended=unattended, advice=advice, programs=allow_program)
    _call(context, coordinator, "saga_advance", arguments)


@guarded
def status(context: typer.Context, saga_id: Identifier, state_root: StateRoot = None, json: Json = False) -> None:
    """Where a saga is; changes nothing.

    \b
    Example:
        sherpa saga status saga-1767225600000-a1b2c3
    """
    _call(context, _coordinator(context, state_root), "saga_status", {"sagaId": saga_id})


@guarded
def cancel(
    context: typer.Context,
    saga_id: Identifier,
    reason: Annotated[str | None, typer.Option(help="Why.", show_default=False)] = None,
    state_root: StateRoot = None,
    json: Json = False,
) -> None:
    """End a saga; its files stay.

    \b
    Example:
        sherpa saga cancel saga-1767225600000-a1b2c3 --reason "no longer needed"
    """
    _call(context, _coordinator(context, state_root), "saga_cancel", {"sagaId": saga_id, "reason": reason})


@guarded
def resume(
    context: typer.Context,
    saga_id: Identifier,
    state_root: StateRoot = None,
    unattended: Unattended = None,
    advice: Advice = None,
    json: Json = False,
) -> None:
    """Go on after an interruption, from whichever of the saga's files is left.

    \b
    Example:
        sherpa saga resume saga-1767225600000-a1b2c3
    """
    coordinator = _coordinator(context, state_root, unattended=unattended, advice=advice)
    _call(context, coordinator, "saga_advance", {"sagaId": saga_id})


@guarded
def list_sagas(context: typer.Context, state_root: StateRoot = None, json: Json = False) -> None:
    """All sagas of a state root.

    \b
    Example:
        sherpa saga list
    """
    options = settings(context, json)
    found = _coordinator(context, state_root).sagas()
    options.show({"sagas": found}, lambda console: _draw_list(console, found))


def _draw_list(console: Console, found: list[dict[str, Any]]) -> None:
    from sherpa.cli.tables import table

    rows = [
        [saga["sagaId"], saga["profile"], f"{saga['cursor']}/{saga['totalStages']}", saga["status"], saga["goal"][:60]]
        if "error" not in saga
        else [saga["sagaId"], "-", "-", "unreadable", saga["error"]]
        for saga in found
    ]
    table(console, "Sagas", ["saga", "profile", "stages", "status", "goal"], rows)


@guarded
def show(context: typer.Context, saga_id: Identifier, state_root: StateRoot = None, json: Json = False) -> None:
    """The whole state and all events of a saga (JSON).

    \b
    Example:
        sherpa saga show saga-1767225600000-a1b2c3
    """
    settings(context).print_json(_coordinator(context, state_root).show(saga_id))


@guarded
def replay(context: typer.Context, saga_id: Identifier, state_root: StateRoot = None, json: Json = False) -> None:
    """Fold a saga's log and compare it with its snapshot (JSON); exit 1 if they differ.

    \b
    Example:
        sherpa saga replay saga-1767225600000-a1b2c3
    """
    found = _coordinator(context, state_root).replay(saga_id)
    settings(context).print_json(found)
    if not found["identical"]:
        raise typer.Exit(MISSED)


@guarded
def watch(
    context: typer.Context,
    saga_id: Identifier,
    once: Annotated[bool, typer.Option("--once", help="Show it as it is now, and stop.")] = False,
    interval: Annotated[float, typer.Option(min=0.05, help="Seconds between two looks.")] = 1.0,
    state_root: StateRoot = None,
    json: Json = False,
) -> None:
    """Show a saga while it runs: stages, attempts, checks; until it ends. With --json its history, when it has ended.

    \b
    Example:
        sherpa saga watch saga-1767225600000-a1b2c3
    """
    from harness.saga.watching import follow
    from harness.saga.watching import watch as shown

    options, store = settings(context, json), _coordinator(context, state_root).store
    if options.json:
        options.print_json(follow(store, saga_id, lambda record: None, once=once, interval=interval))
    else:
        shown(store, saga_id, options.console(), once=once, interval=interval)


@guarded
def report(
    context: typer.Context,
    saga_id: Identifier,
    output: Annotated[Path | None, typer.Option(help="File for the page; SAGA_ID.html by default.")] = None,
    state_root: StateRoot = None,
    json: Json = False,
) -> None:
    """Draw a saga's history as one HTML page.

    \b
    Example:
        sherpa saga report saga-1767225600000-a1b2c3 --output history.html
    """
    from harness.saga.history import history, to_html
    from sherpa.files import write_whole

    options = settings(context, json)
    record = history(_coordinator(context, state_root).store, saga_id)
    path = output or Path(f"{saga_id}.html")
    write_whole(path, to_html(record).encode())
    options.show({**record, "output": str(path)}, lambda console: console.print(f"written: {path}", soft_wrap=True))


@guarded
def lint_profile(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(help="The profile's JSON file.", show_default=False)],
    json: Json = False,
) -> None:
    """Check a profile's file; exit 1 if something is wrong with it.

    \b
    Example:
        sherpa saga lint-profile harness/saga/profiles/ops-default.json
    """
    from harness.saga.profiles import lint

    problems = lint(path)
    settings(context, json).show(
        {"passed": not problems, "problems": problems},
        lambda console: console.print("\n".join(problems) or "clean", soft_wrap=True),
    )
    if problems:
        raise typer.Exit(MISSED)


@guarded
def doctor(context: typer.Context, state_root: StateRoot = None, json: Json = False) -> None:
    """Check state root, profiles, browser and all sagas; exit 1 if something is broken.

    \b
    Example:
        sherpa saga doctor
    """
    from harness.saga.doctor import examine

    checks = examine(_coordinator(context, state_root))
    passed = all(check["passed"] for check in checks)
    settings(context, json).show({"passed": passed, "checks": checks}, lambda console: _draw_checks(console, checks))
    if not passed:
        raise typer.Exit(MISSED)


def _draw_checks(console: Console, checks: list[dict[str, Any]]) -> None:
    from sherpa.cli.tables import table

    rows = [[check["name"], "ok" if check["passed"] else "FAILED", check["found"]] for check in checks]
    table(console, "Sagas", ["check", "", "found"], rows)


def _text(path: Path) -> str:
    import sys

    if str(path) == "-":
        return sys.stdin.read()
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None


def _document(path: Path) -> Any:
    import json

    try:
        return json.loads(_text(path))
    except ValueError as error:
        raise ConfigError(f"{path}: is no JSON: {error}") from None


def _artifact(given: str) -> dict[str, str]:
    name, mark, path = given.partition("=")
    if not mark or not name or not path:
        raise ConfigError(f"--artifact: {given!r} is not NAME=FILE")
    return {"path": name, "content": _text(Path(path))}
