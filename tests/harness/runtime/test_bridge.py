"""Runs as cases of memory, advice as messages, and the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from harness.runtime.bridge import expose_advice, memory_events
from harness.runtime.errors import RunStoreError
from sherpa import ProceduralMemory
from sherpa.cli import runtime as commands
from tests.harness.runtime.made import append, call, decompose, end, engine, lines, loop, plan, problem


def test_a_run_becomes_a_case(tmp_path: Path) -> None:
    fallback = {"match": {"capability": "test.no_probe"}, "plan": plan("fallback", append("instead"), end(v=5))}
    spec = problem(
        append("a", "private words"),
        decompose("d", plan("child", append("b"))),
        call("s", "test.no_probe"),
        end(),
        metadata={"plan_library": [fallback]},
    )
    with engine(tmp_path / "w") as made:
        made.run(spec, "r")
        events = memory_events(made.store.events("r"), workflow="demo")
    assert events == memory_events(_again(tmp_path / "w"), workflow="demo")
    types = [event.type for event in events]
    assert types == [
        "session.started", "review.passed", "admission.admitted", "tool.test.succeeded", "plan.authored",
        "review.passed", "admission.admitted", "tool.test.succeeded", "task.completed", "admission.reclassified",
        "plan.authored", "review.passed", "admission.admitted", "tool.test.succeeded", "task.completed",
        "review.passed", "session.ended",
    ]  # fmt: skip
    assert {event.case_id for event in events} == {"r"}
    assert events[0].labels == ("workflow:demo",)
    assert (events[-1].outcome, events[-1].labels) == ("success", ())
    assert "private" not in json.dumps([str(event) for event in events])
    assert events[3].labels == ("tool:test.append",)
    with ProceduralMemory(tmp_path / "memory") as memory:
        for _ in range(2):
            memory.ingest_batch(list(events))
        assert memory.status()["events"] == len(events)


def _again(workspace: Path) -> list[Any]:
    with engine(workspace) as made:
        return list(made.store.events("r"))


@pytest.mark.parametrize(
    ("nodes", "outcome", "labels"),
    [
        ([{"kind": "fail", "id": "f", "reason": "x"}], "failure", ()),
        ([call("x", "test.unheard_of")], "unknown", ("terminal:escalated",)),
    ],
)
def test_only_the_last_event_tells_how_it_ended(tmp_path: Path, nodes: Any, outcome: str, labels: Any) -> None:
    with engine(tmp_path) as made:
        made.run(problem(append("a"), *nodes), "r")
        events = memory_events(made.store.events("r"), workflow="demo")
    assert (events[-1].type, events[-1].outcome, events[-1].labels) == ("session.ended", outcome, labels)
    assert not any(label.startswith("terminal") for event in events[:-1] for label in event.labels)


def test_tests_that_fail_are_a_failure(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it():\n    assert False\n")
    with engine(tmp_path) as made:
        made.run(problem(call("t", "repo.run_tests", cwd=".", args=["-q", "test_it.py"]), end()), "r")
        types = [event.type for event in memory_events(made.store.events("r"), workflow="demo")]
    assert "tool.repo.failed" in types


ADVICE = {"state": "a>b", "order": 2, "confidence": 0.9, "candidates": ["c"]}


@pytest.mark.parametrize(
    ("arm", "delivered"), [("advisory", True), ("placebo", True), ("shadow", False), ("none", False)]
)
def test_advice_is_exposed_once(tmp_path: Path, arm: str, delivered: bool) -> None:
    ask = {"kind": "ask_user", "id": "ask", "question": "?"}
    with engine(tmp_path) as made:
        made.run(problem(ask, append("b", "{{ b_msg.advice }}" if delivered else "b"), end(), attended=True), "r")
        key = "root_p@1.b"
        assert expose_advice(made.store, "r", key, arm=arm, text="do c", advisory=ADVICE) is delivered
        assert not expose_advice(made.store, "r", key, arm=arm, text="again", advisory=ADVICE)
        made.deliver_message("r", "root_p@1.ask", "go")
        assert made.resume("r").status == "completed"
        exposed = list(made.store.events("r", kinds=["advisory_exposed"]))
        assert len(exposed) == 1
        assert (exposed[0].payload["arm"], exposed[0].payload["delivered"]) == (arm, delivered)
        assert "do c" not in json.dumps(exposed[0].payload)
        with pytest.raises(RunStoreError, match="candidates"):
            expose_advice(made.store, "r", key, arm=arm, text="x", advisory={})
    assert lines(tmp_path) == ["do c" if delivered else "b"]


# -- the command line ------------------------------------------------------------------------------------------


@pytest.fixture
def cli() -> Any:
    app = typer.Typer()
    commands.register(app)

    @app.callback()
    def main() -> None:
        """Nothing of its own."""

    def call_it(*arguments: str) -> tuple[int, Any]:
        done = CliRunner().invoke(app, ["runtime", *arguments])
        try:
            return done.exit_code, json.loads(done.stdout)
        except json.JSONDecodeError:
            return done.exit_code, done.output

    return call_it


def test_the_commands(cli: Any, tmp_path: Path) -> None:
    ask = {"kind": "ask_user", "id": "ask", "question": "which?"}
    write = call("w", "fs.write_file", path="x", content="{{ ask.answer }}")
    spec = tmp_path / "problem.json"
    spec.write_text(json.dumps(problem(ask, loop("l", 2, write), end(x="{{ ask.answer }}"), attended=True)))
    at = ["-w", str(tmp_path / "work")]
    code, found = cli("run", str(spec), "--run-id", "r", "--json", *at)
    assert (code, found["status"], found["runId"]) == (1, "blocked", "r")
    assert cli("message", "r", "root_p@1.ask", '{"answer": "this"}', "--json", *at) == (0, {"id": 1})
    code, found = cli("resume", "r", "--json", *at)
    assert (code, found["status"], found["outputs"]) == (0, "completed", {"x": "this"})
    code, found = cli("status", "r", "--json", *at)
    assert (code, found["nodes"]["root_p@1.w@2"]["state"]) == (0, "completed")
    code, found = cli("replay", "r", "--json", "--output", str(tmp_path / "trace.json"), *at)
    assert (code, found["equal"], (tmp_path / "trace.json").exists()) == (0, True, True)
    code, found = cli("events", "r", "--json", "--kind", "admission_checked", *at)
    assert (code, len(found)) == (0, 2)
    code, found = cli("events", "r", "--memory", *at)
    assert (code, found[0]["type"], found[0]["caseId"]) == (0, "session.started", "r")
    for command in ("status", "events", "replay"):
        code, text = cli(command, "r", *at)
        assert (code, "r" in text) == (0, True)
    assert cli("status", "nobody", *at)[0] == 2
    assert cli("run", str(tmp_path / "missing.json"), *at)[0] == 2
    assert cli("run", str(spec), "--channel", "live", *at)[0] == 2
    assert cli("resolve", "r", "root_p@1.w@1", "done", *at)[0] == 2
    (tmp_path / "tapes.json").write_text("[]")
    assert cli("run", str(spec), "--recordings", str(tmp_path / "tapes.json"), *at)[0] == 2


def test_a_damaged_blob_is_told(cli: Any, tmp_path: Path) -> None:
    with engine(tmp_path) as made:
        made.run(problem(append("a"), end()), "r")
        event = next(iter(made.store.events("r", kinds=["tool_call_finished"])))
        made.store.blobs.path(event.payload["output_sha"]).write_text("other")
    code, found = cli("replay", "r", "--json", "-w", str(tmp_path))
    assert (code, found["equal"], len(found["problems"])) == (1, False, 1)


def test_the_registration_is_shown(cli: Any) -> None:
    code, found = cli("gates", "--json")
    assert (code, len(found["gates"]), len(found["registration"])) == (0, 8, 64)
    assert cli("gates")[0] == 0


def test_the_bench_wants_a_fresh_folder(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    code, text = cli("bench", "--output", str(tmp_path))
    assert code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["old"], text
