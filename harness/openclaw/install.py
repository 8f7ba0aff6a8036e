"""Puts the plugin, or the MCP server alone, into an OpenClaw, and takes it out again, by OpenClaw's own commands.

A plan is shown before anything is done: the commands, and what they change in the configuration. The configuration is
copied beside itself first, and put back if a command fails.
"""

from __future__ import annotations

import copy
import difflib
import json
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.openclaw import json5
from harness.openclaw.commandline import CommandLine, OpenClawError
from harness.openclaw.manifest import ID
from harness.openclaw.tools import PLUGIN
from sherpa.configuration import configure
from sherpa.errors import ConfigError
from sherpa.files import write_whole

BACKUP = "sherpa-backup"
_SECRET = re.compile(r'("[^"]*(?:key|token|secret|password|credential|auth)[^"]*":\s*)"[^"]*"', re.I)
Document = dict[str, Any]


@dataclass
class Plan:
    """What is going to be done.

    Attributes
    ----------
    program : CommandLine
    config_file : Path
    before : bytes or None
        Content of the configuration; None if there is none yet.
    commands : list of lists of str
        Arguments of OpenClaw's commands; none if everything is as it should be.
    current, desired : dict
        The configuration before and after.
    notes : list of str
        What the user should know beforehand.
    """

    program: CommandLine
    config_file: Path
    before: bytes | None
    current: Document
    desired: Document = field(default_factory=dict)
    commands: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def diff(self) -> str:
        """The change that the commands make, as a unified diff; values that may be secret are not shown."""
        return _diff(self.current, self.desired, self.config_file.name)

    @property
    def shown(self) -> list[str]:
        """The commands as a user would type them."""
        import shlex

        return [shlex.join(["openclaw", *command]) for command in self.commands]


@dataclass
class Done:
    """What was done."""

    plan: Plan
    backup: Path | None
    diff: str

    def to_json(self) -> Document:
        """As the command prints it."""
        return report(self.plan, changed=bool(self.plan.commands)) | {
            "backup": None if self.backup is None else str(self.backup),
            "diff": self.diff,
        }


def report(plan: Plan, *, changed: bool) -> Document:
    """A plan as the command prints it."""
    return {
        "config": str(plan.config_file),
        "changed": changed,
        "commands": plan.shown,
        "diff": plan.diff,
        "backup": None,
        "notes": plan.notes,
    }


# -- plans -----------------------------------------------------------------------------------------------------------


def plan_plugin(program: CommandLine, given: Mapping[str, Any] | None = None, memory: Path | None = None) -> Plan:
    """Install and enable the plugin.

    Parameters
    ----------
    given : mapping, optional
        Options of Sherpa; they go over those that are there.
    memory : Path, optional
        Folder of the memory; that of each agent by default.

    Raises
    ------
    ConfigError
        If the options are none of Sherpa's.
    OpenClawError
    """
    plan = _begin(program)
    plugins = plan.current.get("plugins") or {}
    entry = (plugins.get("entries") or {}).get(ID) or {}
    config = _merged(entry.get("config") or {}, given or {})
    if memory is not None:
        config = _merged(config, {"store": {"root": str(memory.absolute())}})
    if not (config.get("transport") or {}).get("command"):
        # The Gateway need not have the path of this shell.
        command, *rest = _sherpa()
        config = _merged(config, {"transport": {"command": command, **({"args": rest} if rest else {})}})
    configure(config, where=f"plugins.entries.{ID}.config")
    wanted = _desired_plugin(plan, config)
    steps = [
        (
            str(PLUGIN) not in ((plugins.get("load") or {}).get("paths") or []),
            ["plugins", "install", "--link", str(PLUGIN), "--force", "--accept-capabilities"],
        ),
        (
            entry.get("config") != config,
            ["config", "set", f"plugins.entries.{ID}.config", json.dumps(config), "--strict-json"],
        ),
        (
            (entry.get("hooks") or {}).get("allowConversationAccess") is not True,
            ["config", "set", f"plugins.entries.{ID}.hooks.allowConversationAccess", "true", "--strict-json"],
        ),
        (entry.get("enabled") is not True, ["plugins", "enable", ID, "--accept-capabilities"]),
    ]
    plan.commands = [command for needed, command in steps if needed]
    plan.desired = wanted
    allowed = plugins.get("allow")
    if isinstance(allowed, list) and allowed and ID not in allowed:
        plan.notes.append(f"plugins.allow does not name {ID}; OpenClaw adds it when it enables the plugin")
    return plan


def plan_mcp(program: CommandLine, memory: Path | None = None) -> Plan:
    """Offer the memory as an MCP server alone: questions, no capture, no advice.

    Parameters
    ----------
    memory : Path, optional
        Folder of the memory; the one that the plugin uses for the agent main by default.
    """
    plan = _begin(program)
    root = memory.absolute() if memory is not None else program.state / "agents" / "main" / "sherpa"
    command, *rest = _sherpa()
    server = {"command": command, "args": [*rest, "--root", str(root), "mcp"]}
    plan.desired = _merged(plan.current, {"mcp": {"servers": {ID: server}}})
    held = ((plan.current.get("mcp") or {}).get("servers") or {}).get(ID) or {}
    if {key: held.get(key) for key in server} != server:
        plan.commands = [["mcp", "set", ID, json.dumps(held | server)]]
        plan.desired["mcp"]["servers"][ID] = held | server
    return plan


def plan_removal(program: CommandLine) -> Plan:
    """Take out the plugin and the MCP server; the memory stays."""
    plan = _begin(program)
    after = copy.deepcopy(plan.current)
    plugins = after.get("plugins") or {}
    paths = (plugins.get("load") or {}).get("paths") or []
    entry = (plugins.get("entries") or {}).get(ID)
    if str(PLUGIN) in paths or (entry is not None and set(entry) != {"enabled"}):
        plan.commands.append(["plugins", "uninstall", ID, "--force"])
        plugins.setdefault("entries", {})[ID] = {"enabled": False}
        if str(PLUGIN) in paths:
            paths.remove(str(PLUGIN))
            if not paths:
                del plugins["load"]
    servers = (after.get("mcp") or {}).get("servers") or {}
    if ID in servers:
        plan.commands.append(["mcp", "unset", ID])
        del servers[ID]
    plan.desired = after
    return plan


def _begin(program: CommandLine) -> Plan:
    path = program.config_file
    try:
        before = path.read_bytes() if path.exists() else None
        text = "" if before is None else before.decode("utf-8")
        current = json5.loads(text) if text.strip() else {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}; run openclaw config validate") from None
    if not isinstance(current, dict):
        raise ConfigError(f"{path}: is not an object; run openclaw config validate")
    plan = Plan(program, path, before, current, copy.deepcopy(current))
    if text.strip() and not json5.is_plain(text):
        plan.notes.append(f"{path.name} has comments or other JSON5; OpenClaw writes plain JSON, the backup keeps them")
    return plan


def _desired_plugin(plan: Plan, config: Document) -> Document:
    after = copy.deepcopy(plan.current)
    plugins = after.setdefault("plugins", {})
    paths = plugins.setdefault("load", {}).setdefault("paths", [])
    if str(PLUGIN) not in paths:
        paths.append(str(PLUGIN))
    entry = plugins.setdefault("entries", {}).setdefault(ID, {})
    entry["enabled"] = True
    entry["config"] = config
    entry.setdefault("hooks", {})["allowConversationAccess"] = True
    return after


def _sherpa() -> list[str]:
    """How this Sherpa is run from anywhere."""
    beside = Path(sys.executable).with_name("sherpa")
    if beside.is_file():
        return [str(beside)]
    found = shutil.which("sherpa")
    return [found] if found else [sys.executable, "-m", "sherpa"]


# -- doing it --------------------------------------------------------------------------------------------------------


def carry_out(plan: Plan, say: Callable[[str], None] = lambda text: None) -> Done:
    """Run the commands of a plan.

    Raises
    ------
    OpenClawError
        If one fails; the configuration is then as it was.
    """
    if not plan.commands:
        return Done(plan, None, "")
    backup = _back_up(plan)
    for command, shown in zip(plan.commands, plan.shown, strict=True):
        say(shown)
        try:
            plan.program.run(*command)
        except (OpenClawError, KeyboardInterrupt) as error:
            _restore(plan)
            if isinstance(error, KeyboardInterrupt):
                raise
            raise OpenClawError(f"{error}; the configuration is as it was") from None
    after = json5.loads(plan.config_file.read_text("utf-8"))
    return Done(plan, backup, _diff(plan.current, after, plan.config_file.name))


def _back_up(plan: Plan) -> Path | None:
    if plan.before is None:
        return None
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    path = plan.config_file.with_name(f"{plan.config_file.name}.{BACKUP}-{stamp}")
    write_whole(path, plan.before)
    # It may hold keys of providers.
    path.chmod(0o600)
    return path


def _restore(plan: Plan) -> None:
    if plan.before is None:
        plan.config_file.unlink(missing_ok=True)
    elif plan.config_file.read_bytes() != plan.before:
        mode = plan.config_file.stat().st_mode
        write_whole(plan.config_file, plan.before)
        plan.config_file.chmod(mode & 0o777)


def _merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> Document:
    both = copy.deepcopy(dict(old))
    for key, value in new.items():
        held = both.get(key)
        both[key] = _merged(held, value) if isinstance(held, Mapping) and isinstance(value, Mapping) else value
    return both


def _diff(before: Document, after: Document, name: str) -> str:
    old, new = (
        _SECRET.sub(r'\1"…"', json.dumps(d, indent=2, ensure_ascii=False)).splitlines() for d in (before, after)
    )
    return "\n".join(difflib.unified_diff(old, new, name, name, n=2, lineterm=""))
