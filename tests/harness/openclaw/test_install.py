"""Into OpenClaw and out again, by a stand-in for its commands: what is shown is what is done, and can be undone."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.openclaw import json5
from harness.openclaw.commandline import OpenClawError, find
from harness.openclaw.tools import PLUGIN
from sherpa.cli.main import app
from tests.sherpa.capture.spooling import Writer

FAKE = """
import json, os, sys
from pathlib import Path
state = Path(os.environ["FAKE_STATE"])
file = state / "openclaw.json"
arguments = sys.argv[1:]
with open(state / "log", "a") as log:
    log.write(json.dumps(arguments) + "\\n")
try:
    config = json.loads(file.read_text())
except (OSError, ValueError):
    config = {}
def entries():
    return config.setdefault("plugins", {}).setdefault("entries", {})
def put(path, value):
    *parents, last = path.split(".")
    place = config
    for name in parents:
        place = place.setdefault(name, {})
    place[last] = value
name = " ".join(arguments[:2])
if os.environ.get("FAKE_BREAKS") == name:
    file.write_text("half of it")
    print(json.dumps({"ok": False, "error": {"message": "it broke"}}))
    sys.exit(1)
if arguments == ["--version"]:
    print("OpenClaw 2026.9.6")
elif name == "config file":
    print(json.dumps({"path": str(file)}))
elif name == "config set":
    put(arguments[2], json.loads(arguments[3]))
elif name == "plugins install":
    config.setdefault("plugins", {}).setdefault("load", {}).setdefault("paths", []).append(arguments[3])
    entries().setdefault("sherpa", {})["enabled"] = True
elif name == "plugins enable":
    entries().setdefault("sherpa", {})["enabled"] = True
elif name == "plugins uninstall":
    entries()["sherpa"] = {"enabled": False}
    config["plugins"].pop("load", None)
elif name == "plugins inspect":
    print(os.environ.get("FAKE_PLUGIN", "{}"))
    sys.exit(0 if "FAKE_PLUGIN" in os.environ else 1)
elif name == "mcp set":
    put("mcp.servers." + arguments[2], json.loads(arguments[3]))
elif name == "mcp unset":
    del config["mcp"]["servers"][arguments[2]]
elif name == "mcp probe":
    print(os.environ.get("FAKE_MCP", '{"servers": {}, "diagnostics": ["no answer"]}'))
if name in ("config set", "plugins install", "plugins enable", "plugins uninstall", "mcp set", "mcp unset"):
    file.write_text(json.dumps(config, indent=2))
"""
PLAIN = {"gateway": {"mode": "local"}, "models": {"apiKey": "sk-secret"}, "channels": {"x": {"botToken": "t-secret"}}}


class Fake:
    """An OpenClaw that only keeps its configuration."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state = folder / "state"
        self.state.mkdir()
        script = folder / "fake.py"
        script.write_text(FAKE)
        self.program = folder / "openclaw"
        self.program.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
        self.program.chmod(0o755)
        self.file = self.state / "openclaw.json"
        self.file.write_text(json.dumps(PLAIN, indent=2))
        monkeypatch.setenv("FAKE_STATE", str(self.state))
        monkeypatch.delenv("OPENCLAW_STATE_DIR", raising=False)

    @property
    def config(self) -> dict[str, Any]:
        found: dict[str, Any] = json5.loads(self.file.read_text())
        return found

    def ran(self) -> list[str]:
        """The commands that change something."""
        lines = [json.loads(line) for line in (self.state / "log").read_text().splitlines()]
        quiet = ("config file", "--version", "plugins inspect", "mcp probe")
        return [" ".join(a[:2]) for a in lines if " ".join(a[:2]) not in quiet]

    def call(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        result = CliRunner().invoke(app, ["openclaw", *arguments, "--openclaw", str(self.program), "--json"])
        assert result.exit_code == code, result.output
        found: dict[str, Any] = json.loads(result.stdout) if code in (0, 1) else {"error": result.stderr}
        return found


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    return Fake(tmp_path, monkeypatch)


def entry(fake: Fake) -> dict[str, Any]:
    found: dict[str, Any] = fake.config["plugins"]["entries"]["sherpa"]
    return found


def test_installing_shows_asks_keeps_and_can_be_repeated(fake: Fake) -> None:
    before = fake.file.read_bytes()
    done = fake.call("install", "--yes")
    assert fake.ran() == ["plugins install", "config set", "config set", "plugins enable"]
    assert fake.config["plugins"]["load"]["paths"] == [str(PLUGIN)]
    assert entry(fake)["hooks"] == {"allowConversationAccess": True}
    assert Path(entry(fake)["config"]["transport"]["command"]).is_absolute()
    assert fake.config["channels"] == PLAIN["channels"]
    backup = Path(done["backup"])
    assert backup.read_bytes() == before
    assert backup.name.startswith("openclaw.json.sherpa-backup-")
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert '+      "sherpa": {' in done["diff"]
    assert "secret" not in done["diff"]
    again = fake.call("install", "--yes")
    assert (again["commands"], again["changed"], len(fake.ran())) == ([], False, 4)


def test_a_dry_run_shows_what_would_be_done(fake: Fake) -> None:
    before = fake.file.read_bytes()
    shown = fake.call("install", "--dry-run")
    assert (shown["dryRun"], shown["changed"], len(shown["commands"])) == (True, False, 4)
    assert fake.ran() == []
    assert fake.file.read_bytes() == before
    done = fake.call("install", "--yes")
    assert (done["commands"], done["diff"]) == (shown["commands"], shown["diff"])


def test_nobody_to_ask_is_an_error(fake: Fake) -> None:
    refused = fake.call("install", code=2)
    assert "give --yes" in refused["error"]
    assert fake.ran() == []


def test_options_go_over_those_that_are_there(fake: Fake, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[advisory]\ninjectThreshold = 0.5\n[transport]\ncommand = "/opt/sherpa"\n')
    fake.call("install", "--yes", "--plugin-config", str(file), "--memory", str(tmp_path / "memory"))
    file.write_text("[advisory]\nmaxChars = 400\n")
    fake.call("install", "--yes", "--plugin-config", str(file))
    assert entry(fake)["config"] == {
        "advisory": {"injectThreshold": 0.5, "maxChars": 400},
        "transport": {"command": "/opt/sherpa"},
        "store": {"root": str(tmp_path / "memory")},
    }
    file.write_text("[advisory]\nmaxChar = 400\n")
    refused = fake.call("install", "--yes", "--plugin-config", str(file), code=2)
    assert "did you mean maxChars?" in refused["error"]


@pytest.mark.parametrize("breaks", ["plugins install", "config set", "plugins enable"])
def test_a_command_that_fails_leaves_the_configuration_as_it_was(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, breaks: str
) -> None:
    fake.file.chmod(0o640)
    before = fake.file.read_bytes()
    monkeypatch.setenv("FAKE_BREAKS", breaks)
    refused = fake.call("install", "--yes", code=2)
    assert "it broke; the configuration is as it was" in refused["error"]
    assert fake.file.read_bytes() == before
    assert stat.S_IMODE(fake.file.stat().st_mode) == 0o640


def test_without_a_configuration_one_is_made_and_unmade(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.file.unlink()
    monkeypatch.setenv("FAKE_BREAKS", "plugins enable")
    fake.call("install", "--yes", code=2)
    assert not fake.file.exists()
    monkeypatch.delenv("FAKE_BREAKS")
    assert fake.call("install", "--yes")["backup"] is None
    assert entry(fake)["enabled"] is True


def test_comments_are_announced_to_go(fake: Fake) -> None:
    fake.file.write_text("{ // mine\n gateway: {mode: 'local',}, }")
    shown = fake.call("install", "--dry-run")
    assert "the backup keeps them" in shown["notes"][0]
    fake.file.write_text("{ broken")
    assert "cannot be read" in fake.call("install", "--dry-run", code=2)["error"]
    fake.file.write_text("[]")
    assert "is not an object" in fake.call("install", "--dry-run", code=2)["error"]


def test_the_tools_alone_come_by_mcp(fake: Fake) -> None:
    done = fake.call("install", "--yes", "--mcp-only")
    assert fake.ran() == ["mcp set"]
    server = fake.config["mcp"]["servers"]["sherpa"]
    assert server["args"][-3:] == ["--root", str(fake.state / "agents" / "main" / "sherpa"), "mcp"]
    assert "plugins" not in fake.config
    assert done["changed"]
    config = fake.config
    config["mcp"]["servers"]["sherpa"]["requestTimeoutMs"] = 5000
    fake.file.write_text(json.dumps(config))
    assert fake.call("install", "--yes", "--mcp-only")["commands"] == []
    fake.call("install", "--yes", "--mcp-only", "--memory", "/srv/memory")
    server = fake.config["mcp"]["servers"]["sherpa"]
    assert (server["args"][-2], server["requestTimeoutMs"]) == ("/srv/memory", 5000)


def test_out_again(fake: Fake, tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    Writer(memory).start("exec", "a")
    fake.call("install", "--yes")
    fake.call("install", "--yes", "--mcp-only")
    done = fake.call("uninstall", "--yes")
    assert fake.ran()[-2:] == ["plugins uninstall", "mcp unset"]
    assert fake.config["plugins"] == {"entries": {"sherpa": {"enabled": False}}}
    assert '-        "enabled": true,' in done["diff"]
    assert memory.exists()
    assert fake.call("uninstall", "--yes")["commands"] == []
    # What was taken out can be put in again.
    fake.call("install", "--yes")
    assert entry(fake)["enabled"] is True


def test_a_memory_is_deleted_only_by_name_and_only_if_it_is_one(fake: Fake, tmp_path: Path) -> None:
    memory, other, link = tmp_path / "memory", tmp_path / "other", tmp_path / "link"
    Writer(memory).start("exec", "a")
    other.mkdir()
    (other / "letters.txt").write_text("dear")
    link.symlink_to(memory)
    for path, why in ((other, "is no memory"), (link, "is no folder"), (tmp_path / "nothing", "is no folder")):
        assert why in fake.call("uninstall", "--yes", "--delete-memory", str(path), code=2)["error"]
    assert (other / "letters.txt").exists()
    fake.call("uninstall", "--dry-run", "--delete-memory", str(memory))
    assert "give --yes" in fake.call("uninstall", "--delete-memory", str(memory), code=2)["error"]
    assert memory.exists()
    fake.call("uninstall", "--yes", "--delete-memory", str(memory))
    assert not memory.exists()


# -- the program -----------------------------------------------------------------------------------------------------


def test_a_program_is_found(tmp_path: Path) -> None:
    with pytest.raises(OpenClawError, match="not on the PATH"):
        find(None, {"PATH": str(tmp_path)})
    with pytest.raises(OpenClawError, match="no such program"):
        find(tmp_path / "openclaw", {})
    script = tmp_path / "node_modules" / "openclaw" / "openclaw.mjs"
    script.parent.mkdir(parents=True)
    script.write_text("")
    with pytest.raises(OpenClawError, match="needs Node"):
        find(script, {"PATH": str(tmp_path)})
    node = tmp_path / "node_modules" / "node" / "bin" / "node"
    node.parent.mkdir(parents=True)
    node.write_text("")
    assert find(script, {}).argv == (str(node), str(script))
    program = tmp_path / "openclaw"
    program.write_text("#!/bin/sh\necho not json\n")
    program.chmod(0o755)
    found = find(None, {"PATH": f"{tmp_path}{os.pathsep}{os.defpath}"})
    assert found.argv == (str(program),)
    with pytest.raises(OpenClawError, match="did not answer with JSON"):
        found.ask("config", "file")


# -- JSON5 -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": [1, -2.5e3, true, null, "x"]}', {"a": [1, -2500.0, True, None, "x"]}),
        ('{a: 1, $b_2: \'x\', "c": "y",}', {"a": 1, "$b_2": "x", "c": "y"}),
        ("// one\n[1, /* two,\n */ 2,]", [1, 2]),
        ("'it\\'s \"so\"'", 'it\'s "so"'),
        ('"http://x/*y*/"', "http://x/*y*/"),
        ("[+1, .5, 5., 0xFF, -0x10, 1.e2]", [1, 0.5, 5.0, 255, -16, 100.0]),
        ('\ufeff{"true": true, true: false}', {"true": False}),
        ("'a\\\nb'", "ab"),
    ],
)
def test_json5_is_read(text: str, expected: object) -> None:
    assert json5.loads(text) == expected


@pytest.mark.parametrize(
    "text", ["", "{", "{a}", "[1 2]", "undefined", "{a: Infinity}", "'open", "{a: 1}}", "[,]", "@"]
)
def test_what_is_no_json5_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):
        json5.loads(text)
