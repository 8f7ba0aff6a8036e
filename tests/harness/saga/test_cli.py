"""The command line: a scripted run per profile, each call a process of its own in spirit and some in fact."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from harness.saga.history import history, told
from harness.saga.model import PROFILE_IDS
from harness.saga.store import RunStore
from harness.saga.watching import frame
from sherpa.cli import saga
from sherpa.cli.context import Settings
from tests.conftest import PROJECT
from tests.harness.saga.scripted import TEXT, file, plan, verdict


def program() -> typer.Typer:
    app = typer.Typer()
    saga.register(app)
    return app


class Line:
    """The command line on one state root."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "sagas"

    def call(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        found = CliRunner().invoke(program(), ["saga", *arguments, "--state-root", str(self.root)], obj=Settings())
        assert found.exit_code == code, (found.output, found.exception)
        return json.loads(found.stdout)

    def write(self, name: str, content: Any) -> str:
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return str(path)


@pytest.fixture
def line(tmp_path: Path) -> Line:
    return Line(tmp_path)


@pytest.mark.parametrize("profile", PROFILE_IDS)
def test_a_run_per_profile(line: Line, profile: str) -> None:
    """plan → work → failing check → fix → deep evaluation that says no → fix → pass → completion"""
    started = line.call("start", "--profile", profile, "--goal", "Make two files.")
    saga_id = started["sagaId"]
    assert started["status"] == "plan_required"
    plan_file = line.write("plan.md", plan([file("out/a.md", minBytes=50)], [file("b.md")], evaluator="deep"))
    begun = line.call("advance", saga_id, "--plan", plan_file)
    assert (begun["nextAction"], begun["stageId"]) == ("worker_mode_queued", "stage-01")
    short = line.write("short.md", "short")
    failed = line.call("advance", saga_id, "--worker-finished", "--artifact", f"out/a.md={short}")
    assert failed["nextAction"] == "revision_queued"
    assert "too short" in failed["reason"]
    text = line.write("text.md", TEXT)
    due = line.call("advance", saga_id, "--worker-finished", "--artifact", f"out/a.md={text}")
    assert due["nextAction"] == "eval_deep_required"
    no = line.write("no.json", verdict(profile, H2="FAIL-REWORK"))
    assert line.call("advance", saga_id, "--eval", no)["nextAction"] == "revision_queued"
    again = line.write("again.md", TEXT * 2)
    line.call("advance", saga_id, "--worker-finished", "--artifact", f"out/a.md={again}")
    yes = line.write("yes.json", verdict(profile))
    external = line.write("external.json", {"passed": True, "reviewer": "another"})
    assert line.call("advance", saga_id, "--eval", yes, "--external", external)["stageId"] == "stage-02"
    line.call("advance", saga_id, "--worker-finished", "--artifact", f"b.md={text}")
    ended = line.call("advance", saga_id, "--eval", yes)
    assert (ended["nextAction"], ended["reason"]) == ("terminated", "completed")
    status = line.call("status", saga_id)
    assert status["recoveryAttempts"] == {"stage-01": 2}
    assert status["progress"]["completedStages"] == 2
    assert line.call("replay", saga_id)["identical"] is True
    assert (line.root / "runs" / saga_id / "artifacts" / "out" / "a.md").read_text() == TEXT * 2


def test_every_call_in_a_process_of_its_own(line: Line) -> None:
    def run(*arguments: str, code: int = 0, text: str | None = None) -> dict[str, Any]:
        command = [sys.executable, "-m", "sherpa", "saga", *arguments, "--state-root", str(line.root)]
        done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False, input=text)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    saga_id = run("start", "--goal", "Make it.")["sagaId"]
    run("advance", saga_id, "--plan", "-", text=plan([file("a.md")]))
    (line.root / "runs" / saga_id / "state.json").unlink()
    assert run("resume", saga_id)["nextAction"] == "continue_worker_now"
    assert run("cancel", saga_id, "--reason", "enough")["status"] == "cancelled"
    assert run("cancel", saga_id, code=1)["code"] == "refused"
    assert run("advance", saga_id, code=3)["reason"] == "aborted_by_user"


def test_exit_codes(line: Line) -> None:
    assert "error" in line.call("status", "saga-none", code=1)
    assert "error" in line.call("start", "--goal", "g", "--profile", "bogus", code=1)
    assert "error" in line.call("status", "../..", code=1)
    saga_id = line.call("start", "--goal", "g")["sagaId"]
    for wrong in (["--plan", "nowhere.md"], ["--artifact", "a.md"], ["--external", line.write("x.json", "{")]):
        found = CliRunner().invoke(program(), ["saga", "advance", saga_id, *wrong], obj=Settings())
        assert found.exit_code == 2
    bad = line.write("bad.md", plan([{"kind": "file-exists"}]))
    assert line.call("advance", saga_id, "--plan", bad)["status"] == "plan_incomplete"
    line.call("advance", saga_id, "--plan", bad)
    assert line.call("advance", saga_id, "--plan", bad, code=3)["reason"] == "plan_rejected"
    assert CliRunner().invoke(program(), ["saga", "advance"], obj=Settings()).exit_code == 2


def test_flags_reach_the_saga(line: Line) -> None:
    python = Path(sys.executable).name
    saga_id = line.call("start", "--goal", "g", "--session", "s-1")["sagaId"]
    assert line.call("start", "--goal", "g", "--session", "s-1", code=1)["code"] == "refused"
    checks = [{"kind": "command", "argv": [python, "-c", "pass"]}]
    line.call("advance", saga_id, "--plan", line.write("plan.md", plan(checks, [file("b.md")])))
    refused = line.call("advance", saga_id, "--worker-finished", "--tokens", "10", "--wall-ms", "20")
    assert "refused by policy" in refused["reason"]
    assert line.call("status", saga_id)["usage"]["tokens"] == 10
    passed = line.call("advance", saga_id, "--worker-finished", "--allow-program", python, "--stage-id", "stage-01")
    assert passed["stageId"] == "stage-02"
    late = line.call("advance", saga_id, "--worker-finished", "--stage-id", "stage-01", code=1)
    assert late["code"] == "conflict"
    line.call("advance", saga_id, "--if-seq", "1", code=1)
    blocked = line.write("b.md", "BLOCKED: no key")
    diagnostics = line.write("d.json", {"notes": "n"})
    asked = line.call(
        "advance", saga_id, "--worker-finished", "--artifact", f"b.md={blocked}", "--diagnostics", diagnostics
    )
    assert asked["nextAction"] == "await_human"
    patch = line.write(
        "patch.json", [{"index": 1, "action": "alter", "criterion": {"kind": "file-exists", "path": "c.md"}}]
    )
    answered = line.call("advance", saga_id, "--human", "relax", "--criteria-patch", patch, "--request-id", "r")
    assert "c.md" in answered["workerContext"]


@pytest.fixture
def lived(line: Line) -> tuple[Line, str]:
    """A saga with a failure and an end, and something that must not become markup."""
    saga_id = line.call("start", "--goal", "Make <script>alert(1)</script> [bold]it[/bold].")["sagaId"]
    line.call("advance", saga_id, "--plan", line.write("plan.md", plan([file("a.md")], [file("b.md")])))
    line.call("advance", saga_id, "--worker-finished")
    text = line.write("text.md", TEXT)
    line.call("advance", saga_id, "--worker-finished", "--artifact", f"a.md={text}")
    line.call("advance", saga_id, "--worker-finished", "--artifact", f"b.md={text}")
    return line, saga_id


def test_the_report(lived: tuple[Line, str], tmp_path: Path) -> None:
    line, saga_id = lived
    output = tmp_path / "history.html"
    record = line.call("report", saga_id, "--output", str(output), "--json")
    assert record["status"] == "completed"
    assert [(s["mark"], s["attempts"]) for s in record["stages"]] == [("done", 2), ("done", 1)]
    page = output.read_text(encoding="utf-8")
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "file not found: a.md" in page
    assert "http" not in page
    assert page.count("<article>") == 2
    assert "stage-01, done, 2 attempts" in page
    assert "stage-02, done, 1 attempt<" in page


def test_watching(lived: tuple[Line, str]) -> None:
    line, saga_id = lived
    assert line.call("watch", saga_id, "--json")["status"] == "completed"
    for arguments, shown in ((["--once"], "✅  Part 2"), ([], "checks failed: file not found: a.md")):
        command = ["saga", "watch", saga_id, *arguments, "--state-root", str(line.root)]
        found = CliRunner().invoke(program(), command, obj=Settings())
        assert found.exit_code == 0, found.exception
        assert "stage passed" in found.stdout
        assert shown in found.stdout


def test_watching_follows_until_the_end(line: Line) -> None:
    from harness.saga.coordinator import Coordinator
    from harness.saga.watching import follow

    coordinator = Coordinator(line.root)
    saga_id = coordinator.start({"goal": "g", "profile": "generic"})["sagaId"]
    steps = iter(
        [
            lambda: coordinator.advance(saga_id, {"planYaml": plan([file("a.md")])}),
            lambda: None,
            lambda: coordinator.advance(saga_id, {"workerFinished": True}),
            lambda: coordinator.cancel(saga_id),
        ]
    )
    seen: list[str] = []
    last = follow(
        coordinator.store, saga_id, lambda record: seen.append(record["details"]), sleep=lambda _: next(steps)()
    )
    assert seen == ["awaiting plan yaml", "worker mode injected", "eval needs fix attempt", "cancelled by user"]
    assert last["status"] == "aborted_by_user"
    assert frame(last) is not None


def test_what_else_can_be_seen(lived: tuple[Line, str], tmp_path: Path) -> None:
    line, saga_id = lived
    (found,) = line.call("list", "--json")["sagas"]
    assert (found["sagaId"], found["status"]) == (saga_id, "completed")
    assert len(line.call("show", saga_id)["events"]) == line.call("status", saga_id)["seq"]
    checks = line.call("doctor", "--json")
    assert checks["passed"], checks
    profile = PROJECT / "harness" / "saga" / "profiles" / "ops-default.json"
    for path, code in ((profile, 0), (tmp_path / "none.json", 1)):
        lint = CliRunner().invoke(program(), ["saga", "lint-profile", str(path), "--json"], obj=Settings())
        assert lint.exit_code == code
    log = line.root / "runs" / saga_id / "state.json"
    log.write_text(log.read_text().replace('"modeRevision": 2', '"modeRevision": 7'))
    differing = line.call("replay", saga_id, code=1)
    assert differing["differences"] == ["mode_revision"]


def test_events_that_only_keep_the_books_are_not_told(lived: tuple[Line, str]) -> None:
    line, saga_id = lived
    store = RunStore(line.root, clock=lambda: 0)
    shown = {entry["type"] for entry in history(store, saga_id)["timeline"]}
    assert "worker_finished" not in shown
    assert told({"type": "cleanup"}) is None
