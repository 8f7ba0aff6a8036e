"""The real program, end to end: what a script made it do comes back from the store that it wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.openclaw.program import InstallError, OpenClaw, install
from harness.openclaw.scripted import Call, ScriptedModel, Turn
from sherpa.sources.openclaw import Installation, Mapping
from tests.conftest import PROJECT

pytestmark = pytest.mark.openclaw

SCENARIOS: dict[str, list[Turn]] = {
    "mend": [
        Turn((Call("read", {"path": "calc.txt"}),)),
        Turn((Call("edit", {"path": "calc.txt", "oldText": "2 + 2 = 5", "newText": "2 + 2 = 4"}),)),
        Turn((Call("exec", {"command": "grep -c 'is missing' calc.txt"}),)),
        Turn(text="Mended."),
    ],
    "lost": [
        Turn((Call("read", {"path": "not-there.txt"}),)),
        Turn((Call("edit", {"path": "calc.txt", "oldText": "no such words", "newText": "x"}),)),
        Turn(text="Could not."),
    ],
    "many": [
        Turn(
            (
                Call("exec", {"command": "echo one"}),
                Call("read", {"path": "calc.txt"}),
                Call("exec", {"command": "pwd"}),
            )
        ),
        Turn((Call("write", {"path": "new.txt", "content": "hello"}),)),
        Turn(text="Done."),
    ],
    "slow": [
        Turn((Call("exec", {"command": "sleep 2; echo over", "background": True}),)),
        Turn((Call("process", {"action": "list"}),)),
        Turn(text="Started."),
    ],
    "held": [Turn((Call("exec", {"command": "ls"}),)), Turn(text="Only now.")],
}
EXPECTED = {
    "mend": [
        ("read.started", "unknown"),
        ("read.succeeded", "success"),
        ("edit.started", "unknown"),
        ("edit.succeeded", "success"),
        ("exec:grep.started", "unknown"),
        # grep found nothing: completed with exit code 1, which the contract calls a success.
        ("exec:grep.succeeded", "success"),
    ],
    "lost": [
        ("read.started", "unknown"),
        ("read.failed", "failure"),
        ("edit.started", "unknown"),
        ("edit.failed", "failure"),
    ],
    "many": [
        ("exec:echo.started", "unknown"),
        ("read.started", "unknown"),
        ("exec:pwd.started", "unknown"),
        ("exec:echo.succeeded", "success"),
        ("read.succeeded", "success"),
        ("exec:pwd.succeeded", "success"),
        ("write.started", "unknown"),
        ("write.succeeded", "success"),
    ],
    "slow": [
        ("exec:sleep.started", "unknown"),
        ("exec:sleep.running", "unknown"),
        ("process:list.started", "unknown"),
        ("process:list.succeeded", "success"),
    ],
    "held": [("exec:ls.started", "unknown"), ("exec:ls.succeeded", "success")],
}


@pytest.fixture(scope="module")
def openclaw(tmp_path_factory: pytest.TempPathFactory) -> OpenClaw:
    place = Path(os.environ.get("SHERPA_OPENCLAW", PROJECT / ".openclaw-program"))
    try:
        return install(place, tmp_path_factory.mktemp("home"))
    except InstallError as error:
        pytest.skip(f"OpenClaw cannot be installed: {error}")


@pytest.fixture(scope="module")
def model(openclaw: OpenClaw, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedModel]:
    workspace = tmp_path_factory.mktemp("workspace")
    (workspace / "calc.txt").write_text("2 + 2 = 5\n")
    with ScriptedModel(SCENARIOS) as model:
        openclaw.configure(model.url, workspace)
        yield model


@pytest.fixture(scope="module")
def held(openclaw: OpenClaw, model: ScriptedModel) -> Iterator[subprocess.Popen[str]]:
    """Four scenarios that have ended, and one whose agent is still running."""
    for name in ("mend", "lost", "many", "slow"):
        openclaw.run(f"session-{name}", f"please do scenario {name}")
    model.hold("held")
    process = openclaw.start("session-held", "please do scenario held")
    assert model.reached["held"].wait(120), "the agent never asked for its last answer"
    # The row of the last result is written before the model is asked again, but not by the same thread.
    time.sleep(1)
    yield process
    model.release("held")
    process.communicate(timeout=120)
    assert process.returncode == 0


def sherpa(*arguments: str) -> Any:
    done = subprocess.run([sys.executable, "-m", "sherpa", *arguments, "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_scripted_steps_come_back_while_the_store_is_open(
    openclaw: OpenClaw, model: ScriptedModel, held: subprocess.Popen[str]
) -> None:
    assert held.poll() is None
    mapping = Mapping("operation")
    with Installation(openclaw.state) as installation:
        found = {}
        for session in installation.sessions:
            events = list(mapping.events(session, session.steps()))
            found[session.session.removeprefix("session-")] = [
                (e.type.removeprefix("tool."), e.outcome) for e in events if e.tool
            ]
            assert events[1].type == "message.user.inbound"
            assert session.about.kind == "explicit"
    assert found == EXPECTED
    assert not model.problems


def test_the_open_store_is_replayed_and_left_alone(openclaw: OpenClaw, held: subprocess.Popen[str]) -> None:
    folder = openclaw.state / "agents" / "main" / "agent"
    names = {path.name for path in folder.iterdir()}
    record = sherpa("simulate", "--sessions-dir", str(openclaw.state), "--events", "operation")
    assert held.poll() is None
    assert record["sessionsProcessed"] == 5
    steps = sum(len(steps) for steps in EXPECTED.values())
    # A start and a message for each session, and a reply for those that have ended.
    assert record["totalEvents"] == steps + 2 * 5 + 4
    assert record["counts"]["failures"] == 2
    assert record["counts"]["running"] == 1
    assert record["counts"]["nonzeroExit"] == 1
    assert record["losses"] == {}
    assert {path.name for path in folder.iterdir()} == names


def test_inspection_names_the_era(openclaw: OpenClaw, held: subprocess.Popen[str]) -> None:
    report = sherpa("sources", "inspect", str(openclaw.state))
    assert report["totals"]["eras"] == {"sqlite": 5}
    assert report["warnings"] == []
    assert report["totals"]["rowsLost"] == 0


def test_what_is_imported_now_is_completed_later(
    openclaw: OpenClaw, model: ScriptedModel, held: subprocess.Popen[str], tmp_path: Path
) -> None:
    root = str(tmp_path / "memory")
    first = sherpa("--root", root, "import-sessions", "--sessions-dir", str(openclaw.state))
    model.release("held")
    held.communicate(timeout=120)
    second = sherpa("--root", root, "import-sessions", "--sessions-dir", str(openclaw.state))
    assert (second["stored"], second["alreadyPresent"]) == (1, first["stored"])
