"""The plugin without OpenClaw: its own tests, its generated files, and its spool read by Python."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.openclaw.manifest import MANIFEST, config_schema, text
from harness.openclaw.tools import PLUGIN, TOOLS, document, skills
from sherpa.capture.spool import drain, waiting
from sherpa.configuration import Configuration, configure
from tests.conftest import PROJECT
from tests.sherpa.capture.spooling import queued, recorder, told

HERE = Path(__file__).parent
OLDEST = 22


def node() -> str:
    """A program that runs JavaScript, new enough."""
    installed = Path(os.environ.get("SHERPA_OPENCLAW", PROJECT / ".openclaw-program")) / "node_modules/node/bin/node"
    for path in (shutil.which("node"), str(installed)):
        if path is None or not Path(path).is_file():
            continue
        version = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
        found = re.match(r"v(\d+)\.", version)
        if found is not None and int(found[1]) >= OLDEST:
            return path
    pytest.skip(f"no Node {OLDEST} or newer is installed")


def test_its_own_tests_pass() -> None:
    files = sorted(str(path) for path in (HERE / "plugin").glob("*.test.mjs"))
    done = subprocess.run([node(), "--test", *files], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_generated_files_are_current() -> None:
    assert TOOLS.read_text("utf-8") == document(), "run python -m harness.openclaw.tools"
    held = {path: path.read_bytes() for path in (PLUGIN / "skills").rglob("*") if path.is_file()}
    assert held == skills(), "run python -m harness.openclaw.tools"
    assert MANIFEST.read_text("utf-8") == text(), "run python -m harness.openclaw.manifest"


def test_the_manifest_takes_what_python_takes() -> None:
    sections = set(Configuration.__struct_encode_fields__) | {"order"}
    assert set(config_schema()["properties"]) == sections
    assert "$ref" not in json.dumps(config_schema())
    configure({"order": dict.fromkeys(config_schema()["properties"]["order"]["properties"], 1)})


@pytest.mark.parametrize("path", sorted(PLUGIN.glob("*.js")), ids=lambda path: path.name)
def test_it_needs_nothing_but_node(path: Path) -> None:
    imported = re.findall(r"""(?:from|import)\s*\(?["']([^"']+)["']""", path.read_text("utf-8"))
    assert all(name.startswith(("node:", "./")) for name in imported)


SCENE = """
const { handlersOf } = await import(process.argv[1]);
const { Memories } = await import(process.argv[2]);
const hooks = handlersOf(new Memories({ transport: { mode: "stdio", command: "/none" } }, () => process.argv[3]));
const ctx = { agentId: "main", sessionKey: "agent:main:telegram:direct:42", sessionId: "s1", runId: "r1" };
const call = (name, params, toolCallId, result, error) => {
  hooks.before_tool_call({ toolName: name, params, toolCallId }, ctx);
  hooks.after_tool_call({ toolName: name, params, toolCallId, result, error, durationMs: 3 }, ctx);
};
await hooks.before_prompt_build({ prompt: "please mend it \\ud83e", messages: [] }, ctx);
const read = { content: [{ type: "text", text: "secret" }], details: { content: "secret" } };
call("read", { path: "secret" }, "a\\ud83e", read);
call("exec", { command: "secret" }, "b", { content: [], details: { status: "completed", exitCode: 1 } });
call("edit", { path: "secret" }, "c", { content: [], details: { status: "error", error: "secret" } }, "secret");
call("read", {}, "d", '{"status":"error","tool":"read","error":"secret"}');
hooks.after_tool_call({ toolName: "nosuch", params: {}, toolCallId: "e", error: "x",
  result: { content: [{ type: "text", text: "Tool nosuch not found" }], details: {} } }, ctx);
await hooks.agent_end({ success: true, messages: [], durationMs: 5 }, ctx);
await hooks.session_end({ messageCount: 2 }, ctx);
"""


def test_what_it_writes_python_reads(tmp_path: Path) -> None:
    done = subprocess.run(
        [node(), "--input-type=module", "-e", SCENE, str(PLUGIN / "hooks.js"), str(PLUGIN / "memories.js"), tmp_path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    root = tmp_path / "agents" / "main" / "sherpa"
    written = b"".join(path.read_bytes() for path in (root / "spool").iterdir())
    assert b"secret" not in written
    assert waiting(root).records == len(written.splitlines()) == 12
    drain(root, recorder(root))
    assert (waiting(root).garbage, waiting(root).bytes) == (0, 0)
    assert told(queued(root)) == [
        ("-", "session.started"),
        ("-", "message.received"),
        ("a�", "tool.started"),
        ("a�", "tool.succeeded"),
        ("b", "tool.started"),
        ("b", "tool.succeeded"),
        ("c", "tool.started"),
        ("c", "tool.failed"),
        ("d", "tool.started"),
        ("d", "tool.failed"),
        ("e", "tool.failed"),
        ("-", "run.ended"),
        ("-", "session.ended"),
    ]
