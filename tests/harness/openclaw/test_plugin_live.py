"""The plugin in the real program: captured, advised and asked, with a daemon that dies, and compared with the store."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.openclaw.program import InstallError, OpenClaw, install
from harness.openclaw.scripted import Call, ScriptedModel, Turn
from sherpa import ProceduralMemory
from sherpa.capture.builder import SOURCE
from sherpa.capture.spool import waiting
from sherpa.event import Event
from tests.conftest import PROJECT

pytestmark = pytest.mark.openclaw

SCENARIOS: dict[str, list[Turn]] = {
    "mend": [
        Turn((Call("read", {"path": "calc.txt"}),)),
        Turn((Call("exec", {"command": "exit 3"}), Call("read", {"path": "not-there.txt"}))),
        Turn((Call("exec", {"command": ""}), Call("edit", {"path": "calc.txt"}))),
        Turn((Call("exec", {"command": "sleep 30", "background": True}),)),
        Turn((Call("process", {"action": "list"}),)),
        Turn(text="Mended."),
    ],
    "ask": [Turn((Call("read", {"path": "calc.txt"}),)), Turn((Call("workflow_next"),)), Turn(text="Asked.")],
    "ask-mcp": [
        Turn((Call("sherpa__workflow_next", {"caseId": "session:agent:main:explicit:first"}),)),
        Turn(text="Asked."),
    ],
    "held": [
        Turn((Call("exec", {"command": "echo one"}),)),
        Turn((Call("exec", {"command": "echo two"}),)),
        Turn((Call("read", {"path": "calc.txt"}),)),
        Turn(text="Only now."),
    ],
    "saga-begin": [
        Turn((Call("saga_start", {"goal": "Three short notes.", "profile": "generic", "session": "mine"}),)),
        Turn((Call("saga_advance", lambda told: {"sagaId": saga_of(told), "planYaml": PLAN}),)),
        Turn((Call("saga_advance", lambda told: finished(told, 1)),)),
        Turn(text="The first is done."),
    ],
    "saga-end": [
        Turn((Call("saga_start", {"goal": "Another.", "profile": "generic"}),)),
        Turn((Call("saga_advance", lambda told: finished(told, 2, content="short")),)),
        Turn((Call("saga_advance", lambda told: finished(told, 2)),)),
        Turn((Call("saga_advance", lambda told: finished(told, 3)),)),
        Turn((Call("saga_status", lambda told: {"sagaId": saga_of(told)}),)),
        Turn(text="All three are done."),
    ],
}
NOTE = "Every statement of this note was checked twice, and what could not be checked is said to be unknown.\n"
PLAN = "## Summary\nThree notes.\n" + "".join(
    f"\n## Stage {n}: Note {n}\nGoal: Write note {n}.\n\n```yaml\ndone:\n  - kind: file-exists\n    path: n{n}.md\n"
    "    minBytes: 50\nevaluator: auto\n```\n"
    for n in (1, 2, 3)
)


def saga_of(told: list[dict[str, Any]]) -> str:
    """The saga that the conversation is about."""
    return re.findall(r"saga-\d+-\w+", json.dumps(told))[-1]


def finished(told: list[dict[str, Any]], stage: int, content: str = NOTE) -> dict[str, Any]:
    artifacts = [{"path": f"n{stage}.md", "content": content}]
    return {"sagaId": saga_of(told), "workerFinished": True, "artifacts": artifacts}


MENDED = [
    ("call_0_0", "read", "started"),
    ("call_0_0", "read", "succeeded"),
    ("call_1_0", "exec", "started"),
    ("call_1_1", "read", "started"),
    ("call_1_0", "exec", "succeeded"),
    ("call_1_1", "read", "failed"),
    ("call_2_0", "exec", "started"),
    ("call_2_1", "edit", "started"),
    ("call_2_0", "exec", "failed"),
    ("call_2_1", "edit", "failed"),
    ("call_3_0", "exec", "started"),
    ("call_3_0", "exec", "running"),
    ("call_4_0", "process", "started"),
    ("call_4_0", "process", "succeeded"),
]
HELD = [
    (f"call_{at}_0", tool, phase)
    for at, tool in enumerate(("exec", "exec", "read"))
    for phase in ("started", "succeeded")
]
CONFIG = {
    "scope": {"default": "allow"},
    "engine": {"minSupport": 1},
    "advisory": {"injectThreshold": 0.5, "cooldown": "0s"},
}


@dataclass
class Place:
    """An OpenClaw with the plugin, and its memory."""

    openclaw: OpenClaw
    model: ScriptedModel
    folder: Path
    asked: int = 0
    plans: list[dict[str, Any]] = field(default_factory=list)

    @property
    def root(self) -> Path:
        return self.openclaw.state / "agents" / "main" / "sherpa"

    def sherpa(self, *arguments: str, code: int = 0) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "sherpa", *arguments, "--json"],
            capture_output=True,
            text=True,
            env={**os.environ, "HOME": str(self.openclaw.home)},
        )
        assert done.returncode == code, done.stderr + done.stdout
        return json.loads(done.stdout)

    def install(self, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = self.sherpa(
            "openclaw", "install", "--yes", "--openclaw", str(self.openclaw.script), *arguments
        )
        self.plans.append(found)
        return found

    def configure(self, **more: Any) -> Path:
        path = self.folder / "plugin.json"
        path.write_text(json.dumps(CONFIG | more))
        return path

    def run(self, session: str, scenario: str) -> list[dict[str, Any]]:
        """Run a scenario; returns what the model was asked."""
        before = len(self.model.requests)
        self.openclaw.run(session, f"please do scenario {scenario}")
        assert not self.model.problems
        return self.model.requests[before:]

    def events(self, session: str) -> list[Event]:
        with ProceduralMemory(self.root) as memory:
            return memory.store.case_events(f"session:agent:main:explicit:{session}")


def calls(events: list[Event]) -> list[tuple[str, str, str]]:
    return [
        (e.meta["toolCallId"], e.labels[0].removeprefix("tool:"), e.type.rpartition(".")[2])
        for e in events
        if "toolCallId" in e.meta
    ]


def texts(requests: list[dict[str, Any]], role: str) -> str:
    return json.dumps([m for r in requests for m in r["messages"] if m["role"] == role], ensure_ascii=False)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    program = Path(os.environ.get("SHERPA_OPENCLAW", PROJECT / ".openclaw-program"))
    try:
        openclaw = install(program, tmp_path_factory.mktemp("home"))
    except InstallError as error:
        pytest.skip(f"OpenClaw cannot be installed: {error}")
    workspace = tmp_path_factory.mktemp("workspace")
    (workspace / "calc.txt").write_text("2 + 2 = 5\n")
    with ScriptedModel(SCENARIOS) as model:
        openclaw.configure(model.url, workspace)
        place = Place(openclaw, model, tmp_path_factory.mktemp("files"))
        place.install("--plugin-config", str(place.configure()))
        place.asked = len(place.run("first", "mend"))
        yield place


def test_a_run_is_captured_as_it_happened(place: Place) -> None:
    events = place.events("first")
    assert [e.type for e in events[:2]] == ["session.started", "message.received"]
    assert calls(events) == MENDED
    assert events[-1].type == "run.ended"
    assert {e.source for e in events} == {SOURCE}
    outcomes = {"succeeded": "success", "failed": "failure"}
    assert all(e.outcome == outcomes.get(e.type.rpartition(".")[2], "unknown") for e in events)
    times = [e.instant for e in events]
    assert times == sorted(times)
    assert "exit:nonzero" in next(e for e in events if calls([e]) == [("call_1_0", "exec", "succeeded")]).labels
    assert place.sherpa("--root", str(place.root), "doctor")["errors"] == 0


def test_the_next_run_is_advised(place: Place) -> None:
    requests = place.run("second", "mend")
    assert len(requests) == place.asked
    advised = texts(requests, "user")
    assert "Sherpa advisory\\nCurrent state: session.started → message.received" in advised
    assert "1. tool.started (100%)" in advised
    # What was put before the prompt is no part of what the user said.
    assert [e.metrics["contentChars"] for e in place.events("second") if e.type == "message.received"] == [
        len("please do scenario mend")
    ]
    assert calls(place.events("second")) == MENDED


def test_the_model_asks_through_the_plugin(place: Place) -> None:
    answers = texts(place.run("third", "ask"), "tool")
    assert "candidates" in answers
    assert "session:agent:main:explicit:third" in answers
    assert calls(place.events("third"))[-2:] == [
        ("call_1_0", "workflow_next", "started"),
        ("call_1_0", "workflow_next", "succeeded"),
    ]


def test_the_model_asks_through_mcp(place: Place) -> None:
    place.install("--mcp-only")
    answers = texts(place.run("fourth", "ask-mcp"), "tool")
    assert "candidates" in answers
    assert "session:agent:main:explicit:first" in answers


def answered(requests: list[dict[str, Any]]) -> list[Any]:
    """What tools told the model, in order."""
    told = [m["content"] for m in requests[-1]["messages"] if m["role"] == "tool"]
    return [json.loads(one if isinstance(one, str) else one[0]["text"]) for one in told]


def test_a_saga_of_three_stages_over_two_runs(place: Place) -> None:
    begun = answered(place.run("saga", "saga-begin"))
    started, planned, first = begun
    assert "planPrompt" in started
    assert (planned["nextAction"], first["nextAction"]) == ("worker_mode_queued", "worker_mode_queued")
    requests = place.run("saga", "saga-end")
    # The second run is told where the saga is, before the user's words.
    assert f"Saga {started['sagaId']}, stage 2/3: Note 2" in texts(requests[:1], "user")
    refused, short, second, third, status = answered(requests)[-5:]
    assert refused["error"]["code"] == "refused"
    assert [one["nextAction"] for one in (short, second, third)] == [
        "revision_queued", "worker_mode_queued", "terminated",
    ]  # fmt: skip
    assert third["reason"] == "completed"
    assert status["cursor"] == 3
    run = place.root / "saga" / "runs" / started["sagaId"]
    assert [(run / "artifacts" / f"n{n}.md").read_text() for n in (1, 2, 3)] == [NOTE] * 3
    assert place.sherpa("saga", "status", started["sagaId"], "--state-root", str(place.root / "saga"))["cursor"] == 3


def test_installing_again_changes_nothing(place: Place) -> None:
    config = place.openclaw.state / "openclaw.json"
    before = config.read_bytes()
    for arguments in (("--plugin-config", str(place.configure())), ("--mcp-only",)):
        assert place.install(*arguments)["commands"] == []
    assert config.read_bytes() == before
    assert place.plans[0]["backup"] is not None
    assert len(place.plans[0]["commands"]) == 4


def test_hooks_and_store_tell_the_same(place: Place) -> None:
    found = place.sherpa("openclaw", "reconcile")
    assert found["fits"]
    assert found["totals"]["sessions"] == 5
    assert found["totals"]["equal"] == 2 * len(MENDED) + 4 + 2 + 2 * (3 + 5)
    assert all(session["exact"] for session in found["sessions"])


def test_the_doctor_is_content(place: Place) -> None:
    found = place.sherpa("openclaw", "doctor", "--openclaw", str(place.openclaw.script))
    assert found["ok"]
    assert {f["check"] for f in found["findings"]} == {
        "openclaw", "plugin", "permission", "tools", "spool", "backend", "mcp",
    }  # fmt: skip


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def daemon(place: Place, port: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "sherpa", "--root", str(place.root), "--config", str(place.folder / "plugin.json")),
            *("serve", "--port", str(port)),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "listening" in process.stdout.readline()
    return process


def post(place: Place, port: int, operation: str) -> Any:
    token = (place.root / "daemon.token").read_text().strip()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/{operation}", b"{}", headers)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as response:
        return json.load(response)


def test_a_daemon_that_is_killed_costs_nothing(place: Place) -> None:
    port = free_port()
    transport = {"mode": "http", "baseUrl": f"http://127.0.0.1:{port}"}
    place.install("--plugin-config", str(place.configure(transport=transport)))
    first = daemon(place, port)
    place.model.hold("held", 1)
    before = len(place.model.requests)
    agent = place.openclaw.start("fifth", "please do scenario held")
    assert place.model.reached["held"].wait(120), "the agent never asked for its second answer"
    first.send_signal(signal.SIGKILL)
    first.communicate()
    place.model.release("held")
    out, _ = agent.communicate(timeout=120)
    assert agent.returncode == 0, out
    # Before it died it had advised.
    assert "Sherpa advisory" in texts(place.model.requests[before:], "user")
    assert waiting(place.root).records > 0
    doctor = place.sherpa("openclaw", "doctor", "--openclaw", str(place.openclaw.script), code=1)
    assert [f["check"] for f in doctor["findings"] if not f["ok"]] == ["backend"]
    second = daemon(place, port)
    try:
        assert post(place, port, "drain")["stored"] > 0
        assert post(place, port, "drain")["stored"] == 0
        assert waiting(place.root).records == 0
        events = place.events("fifth")
        assert calls(events) == HELD
        assert [e.type for e in events if "toolCallId" not in e.meta] == [
            "session.started", "message.received", "run.ended",
        ]  # fmt: skip
        assert place.sherpa("openclaw", "doctor", "--openclaw", str(place.openclaw.script))["ok"]
        found = place.sherpa("openclaw", "reconcile")
        assert (found["fits"], found["totals"]["sessions"]) == (True, 6)
    finally:
        second.terminate()
        second.communicate(timeout=30)


def test_nothing_is_left_running(place: Place) -> None:
    time.sleep(0.5)
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(place.root) not in listed


def test_uninstalling_leaves_the_memory(place: Place) -> None:
    found = place.sherpa("openclaw", "uninstall", "--yes", "--openclaw", str(place.openclaw.script))
    assert len(found["commands"]) == 2
    config = json.loads((place.openclaw.state / "openclaw.json").read_text())
    assert config["plugins"] == {"entries": {"sherpa": {"enabled": False}}}
    assert "sherpa" not in (config.get("mcp", {}).get("servers") or {})
    assert len(place.events("first")) > len(MENDED)
    again = place.sherpa("openclaw", "uninstall", "--yes", "--openclaw", str(place.openclaw.script))
    assert again["commands"] == []
    assert place.sherpa("openclaw", "doctor", "--openclaw", str(place.openclaw.script), code=1)["ok"] is False
