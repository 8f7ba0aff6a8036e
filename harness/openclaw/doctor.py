"""Whether Sherpa works in an OpenClaw: what was looked at, what was found, and what to do about it."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.openclaw import json5
from harness.openclaw.commandline import CommandLine, OpenClawError
from harness.openclaw.manifest import ID
from harness.openclaw.reconcile import CONFIG_FILE
from harness.openclaw.tools import document
from sherpa.capture.spool import waiting
from sherpa.configuration import Configuration, configure
from sherpa.errors import ConfigError

TOKEN = "daemon.token"
_INSTALL = "run sherpa openclaw install"
_BACKEND_SECONDS = 20.0
_OLD_MS = 3_600_000


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes
    ----------
    check : str
    ok : bool
    detail : str
        What was found.
    fix : str
        What to do if it is not as it should be.
    """

    check: str
    ok: bool
    detail: str
    fix: str = ""

    def to_json(self) -> dict[str, Any]:
        """As the command prints it."""
        return {"check": self.check, "ok": self.ok, "detail": self.detail} | ({"fix": self.fix} if not self.ok else {})


def diagnose(program: CommandLine, *, now_ms: int | None = None) -> list[Finding]:
    """Look at everything that must hold for capture, advice and questions to work.

    Raises
    ------
    OpenClawError
        If OpenClaw itself does not answer.
    """
    found = [Finding("openclaw", True, program.version)]
    config_file = program.config_file
    try:
        config = json5.loads(config_file.read_text("utf-8")) if config_file.exists() else {}
    except (OSError, ValueError) as error:
        return [*found, Finding("configuration", False, f"{config_file}: {error}", "run openclaw config validate")]
    entry = ((config.get("plugins") or {}).get("entries") or {}).get(ID) or {}
    server = ((config.get("mcp") or {}).get("servers") or {}).get(ID)
    plugin = entry.get("enabled") is True
    if not plugin and server is None:
        return [*found, Finding("plugin", False, "neither the plugin nor the MCP server is installed", _INSTALL)]
    if plugin:
        found += _plugin(program, entry)
        try:
            options = configure(entry.get("config") or {}, where=f"plugins.entries.{ID}.config")
        except ConfigError as error:
            return [*found, Finding("options", False, str(error), f"correct plugins.entries.{ID}.config")]
        state = program.state
        roots = _roots(state, options)
        for root in roots:
            found += _memory(root, int(time.time() * 1000) if now_ms is None else now_ms)
        found.append(_backend(options, roots[0] if roots else state / "agents" / "main" / "sherpa"))
    if server is not None:
        found.append(_mcp(program))
    return found


def _plugin(program: CommandLine, entry: dict[str, Any]) -> Iterator[Finding]:
    try:
        seen = program.ask("plugins", "inspect", ID, "--runtime")
    except OpenClawError as error:
        yield Finding("plugin", False, str(error), _INSTALL)
        return
    status = seen["plugin"]["status"]
    said = "; ".join(str(d.get("message", d)) for d in seen.get("diagnostics") or [])
    detail = f"{status}, version {seen['plugin'].get('version')}, from {seen['plugin'].get('rootDir')}"
    fix = "run openclaw plugins doctor; plugins.allow must name sherpa if it is set, plugins.deny must not"
    yield Finding("plugin", status == "loaded" and not said, f"{detail}{'; ' + said if said else ''}", fix)
    hooks = entry.get("hooks") or {}
    allowed = hooks.get("allowConversationAccess") is True and hooks.get("allowPromptInjection") is not False
    yield Finding(
        "permission",
        allowed,
        "prompts may be seen and added to" if allowed else "without it there is no advice, and ends of runs are missed",
        f"run openclaw config set plugins.entries.{ID}.hooks.allowConversationAccess true --strict-json, and leave "
        "allowPromptInjection out",
    )
    there = set(seen["plugin"].get("toolNames") or [])
    missing = [tool["name"] for tool in json.loads(document()) if tool["name"] not in there]
    yield Finding(
        "tools",
        not missing,
        f"{len(there)} tools" + (f"; not there: {', '.join(missing)}" if missing else ""),
        _INSTALL,
    )


def _roots(state: Path, options: Configuration) -> list[Path]:
    """Folders of the memories that exist."""
    if options.store.root is not None:
        root = Path(options.store.root).expanduser()
        return [root] if root.is_dir() else []
    return sorted(path for path in (state / "agents").glob("*/sherpa") if path.is_dir())


def _memory(root: Path, now_ms: int) -> Iterator[Finding]:
    token = root / TOKEN
    if token.exists():
        mode = token.stat().st_mode & 0o777
        yield Finding("token", not mode & 0o077, f"{token} has mode {mode:o}", f"run chmod 600 {token}")
    spool = waiting(root)
    age = 0 if spool.oldest_ms is None else max(0, now_ms - spool.oldest_ms)
    detail = f"{root}: {spool.records} records wait"
    if spool.records:
        detail += f", the oldest for {age // 1000} s"
    if spool.garbage:
        detail += f"; {spool.garbage} lines were no records"
    if spool.dropped:
        detail += f"; {spool.dropped} records were dropped because the spool was full or could not be written"
    drain = f'echo \'{{"id":1,"operation":"drain","params":{{}}}}\' | sherpa --root {root} serve --stdio'
    fix = f"make room on the disk, then run sherpa openclaw reconcile --repair; to take in what waits: {drain}"
    yield Finding("spool", not spool.dropped and age < _OLD_MS, detail, fix)


def _backend(options: Configuration, root: Path) -> Finding:
    transport = options.transport
    if transport.mode == "http":
        return _daemon(options, root)
    file = root / CONFIG_FILE
    configured = ["--config", str(file)] if file.is_file() else []
    command = [transport.command, *transport.args, "--root", str(root), *configured, "serve", "--stdio"]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **transport.env},
            input='{"id":1,"operation":"status","params":{}}\n',
            capture_output=True,
            text=True,
            timeout=_BACKEND_SECONDS,
            check=False,
        )
        events = json.loads(done.stdout)["result"]["events"]
    except OSError as error:
        detail = f"{transport.command} cannot be run: {error.strerror or error}"
    except subprocess.TimeoutExpired:
        detail = f"{transport.command} did not answer within {_BACKEND_SECONDS:g} s"
    except (ValueError, KeyError, TypeError):
        detail = f"{transport.command} did not answer: {(done.stderr or done.stdout).strip()[-300:]}"
    else:
        return Finding("backend", True, f"{transport.command} answers; {events} events in {root}")
    return Finding("backend", False, detail, f"set plugins.entries.{ID}.config.transport.command to a sherpa that runs")


def _daemon(options: Configuration, root: Path) -> Finding:
    url = options.transport.base_url.rstrip("/")
    try:
        token = (root / TOKEN).read_text("ascii").strip()
    except OSError:
        token = ""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{url}/v1/status", b"{}", headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=_BACKEND_SECONDS) as response:
            return Finding("backend", True, f"{url} answers; {json.load(response)['events']} events")
    except urllib.error.HTTPError as error:
        with error:
            detail = f"{url} answers {error.code}"
        fix = f"the daemon must serve this memory: sherpa --root {root} serve"
    except (OSError, ValueError, KeyError, TypeError) as error:
        detail = f"no daemon at {url}: {getattr(error, 'reason', error)}"
        fix = f"run sherpa --root {root} serve, or set transport.manageProcess"
        if options.transport.manage_process:
            return Finding("backend", True, f"{detail}; the plugin starts it when it is needed")
    return Finding("backend", False, detail, fix)


def _mcp(program: CommandLine) -> Finding:
    fix = "run sherpa openclaw install --mcp-only"
    try:
        seen = program.ask("mcp", "probe", ID)
        tools = seen["servers"][ID]["tools"]
    except OpenClawError as error:
        return Finding("mcp", False, str(error), fix)
    except (KeyError, TypeError):
        return Finding("mcp", False, f"the server does not answer: {seen.get('diagnostics')}", fix)
    return Finding("mcp", True, f"{tools} tools")
