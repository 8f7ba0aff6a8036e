"""The MCP Inspector's command line, from npm, lists and calls every tool over both transports."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.saga.coordinator import Coordinator
from harness.saga.tools import TOOLS as SAGAS
from harness.saga.tools import call_tool
from sherpa.serve.operations import TOOLS
from tests.contract.doors import SHERPA, TOOL_CALLS, client_door, daemon, event, play, prepare

pytestmark = pytest.mark.full
PACKAGES = ["node@26", "@modelcontextprotocol/inspector@2.12.0"]
ARGUMENTS: dict[str, dict[str, Any]] = {
    **{f"workflow_{name}": {"caseId": "now"} for name in ("state", "next", "outcomes", "risks", "recall")},
    "workflow_import": {"name": "snapshot.json"},
    "saga_start": {"goal": "Two notes.", "profile": "generic"},
    "workflow_ingest_event": {key: str(value) for key, value in event("late", 0, "task.started").items()},
}


@pytest.fixture(scope="module")
def inspector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the programs, installed once; SHERPA_INSPECTOR names one to keep."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    folder = Path(os.environ.get("SHERPA_INSPECTOR") or tmp_path_factory.mktemp("inspector"))
    programs = folder / "node_modules" / ".bin"
    if not (programs / "mcp-inspector").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}\n')
        command = [npm, "install", "--no-audit", "--no-fund", *PACKAGES]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            pytest.skip(f"npm cannot install {' '.join(PACKAGES)}: {done.stderr[-300:]}")
    return folder / "node_modules"


def inspect(modules: Path, server: list[str], *arguments: str) -> dict[str, Any]:
    environment = os.environ | {"PATH": f"{modules / 'node' / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [str(modules / ".bin" / "mcp-inspector"), "--cli", *server, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def every_tool(modules: Path, server: list[str], root: Path) -> None:
    saga = call_tool(Coordinator(root / "saga"), "saga_start", {"goal": "g", "profile": "generic"})["sagaId"]
    named = ARGUMENTS | {f"saga_{name}": {"sagaId": saga} for name in ("advance", "status", "cancel")}
    listed = inspect(modules, server, "--method", "tools/list", "--strict")["tools"]
    assert {tool["name"] for tool in listed} == set(TOOLS) | set(SAGAS)
    for tool in listed:
        assert tool["description"]
        assert tool["outputSchema"]["type"] == tool["inputSchema"]["type"] == "object"
        given = [f"{key}={value}" for key, value in named.get(tool["name"], {}).items()]
        arguments = ["--tool-arg", *given] if given else []
        answer = inspect(modules, server, "--method", "tools/call", "--tool-name", tool["name"], *arguments)
        assert not answer.get("isError"), (tool["name"], answer)
        assert set(tool["outputSchema"].get("required", ())) <= set(answer["structuredContent"]), tool["name"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    prepare(tmp_path / "root")
    with client_door(tmp_path / "root", "embedded") as door:
        play(door, TOOL_CALLS[2:23], tmp_path)
    return tmp_path / "root"


def test_over_standard_input_and_output(inspector: Path, root: Path) -> None:
    every_tool(inspector, [*SHERPA, "--root", str(root), "mcp"], root)


def test_over_http(inspector: Path, root: Path) -> None:
    with daemon(root) as (url, token):
        head = ["--transport", "http", "--header", f"Authorization: Bearer {token}"]
        every_tool(inspector, [f"{url}/mcp", *head], root)
