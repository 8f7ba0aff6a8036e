"""The doctor of the plugin: every finding says what to do."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from harness.openclaw.commandline import find
from harness.openclaw.doctor import Finding, diagnose
from harness.openclaw.tools import document
from tests.harness.openclaw.test_install import Fake
from tests.sherpa.capture.spooling import START, Writer

TOOLS = [tool["name"] for tool in json.loads(document())]
LOADED = {"plugin": {"status": "loaded", "version": "1", "rootDir": "/p", "toolNames": TOOLS}, "diagnostics": []}
SELF = {"transport": {"command": sys.executable, "args": ["-m", "sherpa"]}}


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    fake = Fake(tmp_path, monkeypatch)
    monkeypatch.setenv("FAKE_PLUGIN", json.dumps(LOADED))
    installed(fake)
    return fake


def installed(fake: Fake, *, hooks: dict[str, Any] | None = None, **config: Any) -> None:
    entry = {"enabled": True, "hooks": hooks or {"allowConversationAccess": True}, "config": SELF | config}
    fake.file.write_text(json.dumps({"plugins": {"entries": {"sherpa": entry}}}))


def look(fake: Fake, now_ms: int = START) -> dict[str, Finding]:
    findings = diagnose(find(fake.program), now_ms=now_ms)
    assert all(f.ok or f.fix for f in findings)
    return {f.check: f for f in findings}


def problems(fake: Fake, now_ms: int = START) -> list[str]:
    return [name for name, f in look(fake, now_ms).items() if not f.ok]


def test_all_is_well(fake: Fake) -> None:
    found = look(fake)
    assert all(f.ok for f in found.values()), found
    assert list(found) == ["openclaw", "plugin", "permission", "tools", "backend"]
    assert fake.call("doctor")["ok"]


def test_nothing_is_installed(fake: Fake) -> None:
    fake.file.write_text("{}")
    assert "sherpa openclaw install" in look(fake)["plugin"].fix
    assert fake.call("doctor", code=1)["findings"][-1]["fix"] == "run sherpa openclaw install"
    fake.file.write_text("{")
    assert problems(fake) == ["configuration"]


def test_a_plugin_that_does_not_load(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = {
        "plugin": LOADED["plugin"] | {"status": "error", "toolNames": TOOLS[1:]},
        "diagnostics": [{"message": "x"}],
    }
    monkeypatch.setenv("FAKE_PLUGIN", json.dumps(broken))
    found = look(fake)
    assert found["plugin"].detail == "error, version 1, from /p; x"
    assert TOOLS[0] in found["tools"].detail
    assert problems(fake) == ["plugin", "tools"]
    monkeypatch.delenv("FAKE_PLUGIN")
    assert problems(fake) == ["plugin"]


@pytest.mark.parametrize("hooks", [{"timeoutMs": 5}, {"allowConversationAccess": True, "allowPromptInjection": False}])
def test_a_permission_that_is_missing(fake: Fake, hooks: dict[str, Any]) -> None:
    installed(fake, hooks=hooks)
    assert problems(fake) == ["permission"]


def test_a_program_that_does_not_run(fake: Fake) -> None:
    for transport in ({"command": "/no/such"}, {"command": sys.executable, "args": ["-c", "raise SystemExit('no')"]}):
        installed(fake, transport=transport)
        assert problems(fake) == ["backend"]
    installed(fake, transport={"mode": "smoke"})
    assert problems(fake) == ["options"]


def test_what_waits_in_the_spool(fake: Fake) -> None:
    root = fake.state / "agents" / "main" / "sherpa"
    writer = Writer(root)
    writer.start("exec", "a")
    writer.raw(b"nonsense\n")
    assert "1 records wait, the oldest for 9 s" in look(fake, START + 10_000)["spool"].detail
    assert problems(fake, START + 10_000) == []
    assert problems(fake, START + 2 * 3_600_000) == ["spool"]
    (root / "spool" / ".drained.json").write_text('{"dropped": 3, "garbage": 1}')
    found = look(fake)["spool"]
    assert "3 records were dropped" in found.detail
    assert "reconcile --repair" in found.fix
    (root / "daemon.token").write_text("x" * 20)
    (root / "daemon.token").chmod(0o644)
    assert problems(fake) == ["token", "spool"]


@pytest.fixture
def daemon() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            known = self.headers["Authorization"] == "Bearer the-token"
            self.send_response(200 if known else 401)
            self.end_headers()
            self.wfile.write(b'{"events": 7}')

        def log_message(self, format: str, *arguments: Any) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_daemon(fake: Fake, daemon: str, tmp_path: Path) -> None:
    root = tmp_path / "memory"
    root.mkdir()
    (root / "daemon.token").write_text("the-token\n")
    (root / "daemon.token").chmod(0o600)
    store = {"root": str(root)}
    installed(fake, transport={"mode": "http", "baseUrl": daemon + "/"}, store=store)
    assert look(fake)["backend"].detail == f"{daemon} answers; 7 events"
    (root / "daemon.token").write_text("another\n")
    assert look(fake)["backend"].detail == f"{daemon} answers 401"
    for managed in (False, True):
        installed(
            fake, transport={"mode": "http", "baseUrl": "http://127.0.0.1:9", "manageProcess": managed}, store=store
        )
        assert problems(fake) == ([] if managed else ["backend"])


def test_the_mcp_server(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.file.write_text(json.dumps({"mcp": {"servers": {"sherpa": {"command": "x"}}}}))
    assert problems(fake) == ["mcp"]
    monkeypatch.setenv("FAKE_MCP", '{"servers": {"sherpa": {"tools": 15}}}')
    assert look(fake)["mcp"].detail == "15 tools"
    monkeypatch.setenv("FAKE_BREAKS", "mcp probe")
    assert problems(fake) == ["mcp"]
