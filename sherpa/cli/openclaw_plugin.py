"""Commands that put Sherpa into OpenClaw and look after it there: openclaw install, doctor, uninstall, reconcile."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sherpa.cli.context import MISSED, Json, Settings, guarded, settings

if TYPE_CHECKING:
    from rich.console import Console

    from harness.openclaw.install import Plan
    from harness.openclaw.reconcile import Reconciled

Program = Annotated[
    Path | None,
    typer.Option("--openclaw", help="The openclaw program, or its openclaw.mjs; by default that of the PATH."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")]
Memory = Annotated[
    Path | None,
    typer.Option("--memory", help="Folder of the memory; agents/AGENT/sherpa of OpenClaw's state by default."),
]
_SHOWN = 10


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(help="Sherpa in OpenClaw.", no_args_is_help=True, rich_markup_mode=None)
    group.command("install")(install)
    group.command("doctor")(doctor)
    group.command("uninstall")(uninstall)
    group.command("reconcile")(reconcile)
    app.add_typer(group, name="openclaw")


@guarded
def install(
    context: typer.Context,
    openclaw: Program = None,
    mcp_only: Annotated[
        bool, typer.Option("--mcp-only", help="Only the tools, as an MCP server: no plugin, no capture, no advice.")
    ] = False,
    plugin_config: Annotated[
        Path | None, typer.Option("--plugin-config", help="JSON or TOML file with Sherpa's options for the plugin.")
    ] = None,
    memory: Memory = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Put the plugin into OpenClaw: it captures what the agent does, advises it, and answers its questions.

    The commands and the change of openclaw.json are shown first. The old file is kept beside the new one, and put back
    if a command fails. Running it again changes nothing.

    \b
    Examples:
        sherpa openclaw install
        sherpa openclaw install --mcp-only --yes
    """
    from harness.openclaw.commandline import find
    from harness.openclaw.install import plan_mcp, plan_plugin
    from sherpa.configuration import read_document

    options = settings(context, json)
    program = find(openclaw)
    if mcp_only:
        plan = plan_mcp(program, memory)
    else:
        plan = plan_plugin(program, None if plugin_config is None else read_document(plugin_config), memory)
    _carry_out(options, plan, yes=yes, dry_run=dry_run, nothing="it is installed already")


@guarded
def uninstall(
    context: typer.Context,
    openclaw: Program = None,
    delete_memory: Annotated[
        Path | None, typer.Option("--delete-memory", help="Also delete this folder of a memory, for good.")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Take the plugin and the MCP server out of OpenClaw; the memory stays.

    \b
    Example:
        sherpa openclaw uninstall
    """
    from harness.openclaw.commandline import find
    from harness.openclaw.install import plan_removal
    from harness.openclaw.removal import check_memory, delete

    options = settings(context, json)
    if delete_memory is not None:
        check_memory(delete_memory)
    plan = plan_removal(find(openclaw))
    if delete_memory is not None:
        plan.notes.append(f"the memory in {delete_memory} is deleted; there is no way back")
    _carry_out(options, plan, yes=yes, dry_run=dry_run, nothing="it is not installed", also=delete_memory is not None)
    if delete_memory is not None and not dry_run:
        delete(delete_memory)
        options.say(f"deleted {delete_memory}")


@guarded
def doctor(context: typer.Context, openclaw: Program = None, json: Json = False) -> None:
    """Check that Sherpa works in OpenClaw; exit code 1 if something must be done.

    \b
    Example:
        sherpa openclaw doctor
    """
    from harness.openclaw.commandline import find
    from harness.openclaw.doctor import diagnose

    options = settings(context, json)
    findings = diagnose(find(openclaw))
    well = all(finding.ok for finding in findings)

    def draw(console: Console) -> None:
        from sherpa.cli.tables import table

        rows = [(f.check, "ok" if f.ok else "problem", f.detail, "" if f.ok else f.fix) for f in findings]
        table(console, "Sherpa in OpenClaw", ("check", "", "found", "what to do"), rows)

    options.show({"ok": well, "findings": [finding.to_json() for finding in findings]}, draw)
    if not well:
        raise typer.Exit(MISSED)


@guarded
def reconcile(
    context: typer.Context,
    state_dir: Annotated[
        Path | None,
        typer.Option("--state-dir", help="State directory of OpenClaw; that of the local installation by default."),
    ] = None,
    memory: Memory = None,
    session: Annotated[str | None, typer.Option(help="Id of a session; all by default.", show_default=False)] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Add to the memory what the hooks missed.")] = False,
    json: Json = False,
) -> None:
    """Compare the tool calls that the hooks told with those that OpenClaw wrote; exit code 1 if they differ.

    \b
    Examples:
        sherpa openclaw reconcile
        sherpa openclaw reconcile --session 4f2c --repair
    """
    from harness.openclaw.reconcile import reconcile as run

    options = settings(context, json)
    done = run(state_dir, memory=memory, session=session, repair=repair)
    options.show(done.to_json(), lambda console: _draw(console, done))
    if not done.fits:
        raise typer.Exit(MISSED)


def _draw(console: Console, done: Reconciled) -> None:
    from sherpa.cli.tables import table

    rows = [
        (
            c.session,
            str(c.equal),
            str(len(c.missing)),
            str(len(c.extra)),
            str(len(c.different)),
            str(c.out_of_order),
            str(c.repaired),
        )
        for c in done.sessions
    ]
    head = ("session", "equal", "missing", "extra", "different", "out of order", "added")
    table(console, "Told by hooks, and written by OpenClaw", head, rows)
    for c in done.sessions:
        for kind in ("missing", "extra", "different"):
            names = getattr(c, kind)
            for name in names[:_SHOWN]:
                console.print(f"{c.session}: {kind}: {name}")
            if len(names) > _SHOWN:
                console.print(f"{c.session}: {kind}: {len(names) - _SHOWN} more with --json")
    if done.not_captured:
        console.print(f"{done.not_captured} sessions were not captured at all; import-sessions reads them")


def _carry_out(options: Settings, plan: Plan, *, yes: bool, dry_run: bool, nothing: str, also: bool = False) -> None:
    """Show a plan, ask, and do it."""
    from harness.openclaw.install import carry_out, report

    for note in plan.notes:
        options.say(f"note: {note}")
    if not plan.commands:
        options.show(report(plan, changed=False) | {"dryRun": dry_run}, lambda c: c.print(nothing))
        if also and not dry_run:
            _ask(yes)
        return
    options.say("\n".join(["these commands are run:", *(f"  {shown}" for shown in plan.shown)]))
    options.say(f"they change {plan.config_file}:\n{plan.diff}")
    if dry_run:
        options.show(report(plan, changed=False) | {"dryRun": True}, lambda c: c.print("nothing was done"))
        return
    _ask(yes)
    done = carry_out(plan, options.say)
    text = "done" if done.backup is None else f"done; the configuration as it was: {done.backup}"
    options.show(done.to_json() | {"dryRun": False}, lambda c: c.print(text))
    options.say("a running Gateway takes the change over; if it does not, restart it")


def _ask(yes: bool) -> None:
    from sherpa.errors import ConfigError

    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError("nobody can be asked here; give --yes, or --dry-run to see what would be done")
    if not typer.confirm("Go on?", err=True):
        raise typer.Exit(MISSED)
