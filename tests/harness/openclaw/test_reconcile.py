"""Hooks and transcripts of the same work tell the same; where hooks missed something, it is found and filled in."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from harness.openclaw.reconcile import Comparison, reconcile
from sherpa import ProceduralMemory
from sherpa.capture.spool import drain
from sherpa.cli.main import app
from sherpa.errors import SourceError
from tests.sherpa.capture.spooling import Writer, queued, recorder
from tests.sherpa.openclaw.transcripts import START, Script, replayed

KEY = "agent:main:telegram:direct:42"
FACTS: dict[str, dict[str, Any]] = {
    "done": {},
    "read": {"details": {"kind": "text"}},
    "exit": {"details": {"status": "completed", "exitCode": 1}},
    "error": {"details": {"status": "error", "error": "x"}, "error": True},
    "thrown": {"error": True},
    "blocked": {"details": {"status": "denied"}},
    "accepted": {"details": {"status": "accepted"}},
    "job": {"details": {"status": "running", "sessionId": "ember-cove"}},
    "polled": {"details": {"status": "running", "sessionId": "ember-cove"}},
    "finished": {"details": {"status": "completed", "exitCode": 0, "sessionId": "ember-cove"}},
    "rejected": {"details": {}, "error": True},
    "unknown": {"details": {}, "error": True},
}
EARLY = ("rejected", "unknown")
TOOLS = {"polled": "process", "finished": "process", "unknown": "nosuchtool"}


class Call(NamedTuple):
    """A call: what it is, how it ends, when its end is told among those of its turn."""

    tool: str
    kind: str
    rank: int


class Stage:
    """A state directory with a session in it that hooks and OpenClaw write at the same time."""

    def __init__(self, folder: Path, *, restart: bool = False) -> None:
        self.state = folder
        self.root = folder / "agents" / "main" / "sherpa"
        self.script = Script("s1")
        self.hooks = Writer(self.root, key=KEY, at=START)
        self.restart = restart
        self.number = self.runs = 0

    def prompt(self, text: str = "please go on") -> None:
        self.script.user(text)
        self._now()
        self.runs += 1
        self.hooks.prompt(text, run=f"r{self.runs}")

    def turn(self, calls: list[Call]) -> None:
        if self.restart:
            self.number = 0
        named = []
        for call in calls:
            self.number += 1
            named.append((f"call_{self.number}", call))
        shown = [(name, c.tool) for name, c in named if c.kind != "unknown"]
        if shown:
            self.script.calls(*shown)
        self._now()
        for name, call in named:
            if call.kind not in EARLY:
                self.hooks.start(call.tool, name)
        for name, call in sorted(named, key=lambda n: (n[1].kind not in EARLY, n[1].rank)):
            if call.kind == "lost":
                continue
            facts = dict(FACTS[call.kind])
            error = facts.pop("error", False)
            details = facts.get("details")
            if details is not None and "error" in details:
                facts["details"] = details | {"error": True}
            self.hooks.end(call.tool, name, isError=error, unknown=call.kind == "unknown", hasResult=True, **facts)
        for name, call in named:
            if call.kind != "lost":
                told = FACTS[call.kind]
                self.script.result(name, call.tool, told.get("details"), error=told.get("error", False))

    def _now(self) -> None:
        self.hooks.at = max(self.hooks.at, START + 1000 * self.script.second)

    def write(self) -> None:
        folder = self.state / "agents" / "main" / "sessions"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "s1.jsonl").write_text(self.script.text())
        (folder / "sessions.json").write_text(json.dumps({KEY: {"sessionId": "s1"}}))

    def compare(self, **options: Any) -> Comparison:
        self.write()
        (found,) = reconcile(self.state, **options).sessions
        return found


calls = st.builds(
    lambda tool, kind, rank: Call(TOOLS.get(kind, tool), kind, rank),
    st.sampled_from(["exec", "read", "web_search", "docs__look_up", "bash"]),
    st.sampled_from([*FACTS, "lost"]),
    st.integers(0, 9),
)
turns = st.lists(calls, min_size=1, max_size=4)


@given(st.lists(turns, max_size=6), st.booleans())
def test_hooks_and_transcript_tell_the_same(
    tmp_path_factory: pytest.TempPathFactory, work: list[list[Call]], restart: bool
) -> None:
    stage = Stage(tmp_path_factory.mktemp("state"), restart=restart)
    stage.prompt()
    if restart:
        # With ids that begin anew, a call that never began cannot always be told from one that is told again.
        work = [[c._replace(kind="error") if c.kind in EARLY else c for c in turn] for turn in work]
    for turn in work:
        stage.turn(turn)
        if any(call.kind == "lost" for call in turn):
            stage.prompt("are you still there")
    stage.hooks.write("agent_end", success=True)
    stage.write()
    found = reconcile(stage.state)
    steps = [s for s in replayed(stage.script)[0] if s.tool is not None]
    if not steps:
        assert found.not_captured == 1
        return
    (session,) = found.sessions
    assert session.fits, session.to_json()
    # What the host rejects before it begins is told when the others of its turn may not have begun yet.
    assert session.exact or any(call.kind in EARLY for turn in work for call in turn)
    with ProceduralMemory(stage.root) as memory:
        events = [e for e in memory.store.case_events(f"session:{KEY}") if "toolCallId" in e.meta]
    told = [(e.meta["toolCallId"], e.labels[0], e.type.split(".")[1], e.outcome) for e in events]
    written = [(s.call_id, f"tool:{s.tool.name}", s.phase, s.outcome) for s in steps if s.tool]
    assert sorted(map(str, told)) == sorted(map(str, written))
    assert told == written or not session.exact


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = Stage(tmp_path)
    stage.prompt()
    for kind in ("done", "error", "exit"):
        stage.turn([Call("exec", kind, 0)])
    return stage


def without(stage: Stage, *hooks: str, at: int = 0) -> None:
    """Take records of some hooks away: the at-th call's."""
    lines = stage.hooks.path.read_text().splitlines(keepends=True)
    named = [json.loads(line) for line in lines]
    stage.hooks.path.write_text(
        "".join(
            line
            for line, record in zip(lines, named, strict=True)
            if record["hook"] not in hooks or record.get("callId") != f"call_{at + 1}"
        )
    )


def test_what_hooks_missed_is_added_once_and_in_its_place(stage: Stage) -> None:
    without(stage, "before_tool_call", "after_tool_call", at=1)
    found = stage.compare()
    assert (found.missing, found.equal) == (["tool.started of call_2", "tool.failed of call_2"], 4)
    assert not found.fits
    repaired = stage.compare(repair=True)
    assert repaired.repaired == 2
    again = stage.compare(repair=True)
    assert (again.fits, again.exact, again.repaired, again.equal) == (True, True, 0, 6)
    with ProceduralMemory(stage.root) as memory:
        (case,) = [row[0] for row in memory.store.case_rows()]
        events = memory.store.case_events(case)
    assert [e.type for e in events if "toolCallId" in e.meta] == [
        "tool.started",
        "tool.succeeded",
        "tool.started",
        "tool.failed",
        "tool.started",
        "tool.succeeded",
    ]
    assert events[4].event_id.startswith("oc-live:repair:s1:")


def test_the_first_and_the_last_call_can_be_added_too(stage: Stage) -> None:
    for at in (0, 2):
        without(stage, "before_tool_call", "after_tool_call", at=at)
    assert stage.compare(repair=True).repaired == 4
    found = stage.compare()
    assert (found.fits, found.exact) == (True, True)


def test_a_task_that_was_split_gets_what_it_lacks(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    (stage.root / "openclaw-plugin.json").write_text('{"caseSplitting": {"by": "task"}}')
    for text in ("Please write the release notes for this week", "/task prepare the meeting"):
        stage.prompt(text)
        stage.turn([Call("exec", "done", 0)])
        stage.turn([Call("read", "done", 0)])
    without(stage, "before_tool_call", "after_tool_call", at=3)
    assert stage.compare(repair=True).repaired == 2
    with ProceduralMemory(stage.root) as memory:
        types = [[e.type for e in memory.store.case_events(r[0])] for r in memory.store.case_rows() if ":task:" in r[0]]
    assert [t.count("tool.succeeded") for t in types] == [2, 2]


def test_another_outcome_is_named_and_not_rewritten(stage: Stage) -> None:
    text = stage.hooks.path.read_text()
    for name, other in (('"error": true', '"error": false'), ('"isError": true', '"isError": false')):
        text = text.replace(name, other)
    stage.hooks.path.write_text(text.replace('"status": "error"', '"status": "ok"'))
    found = stage.compare(repair=True)
    assert (found.different, found.repaired) == (["tool.succeeded of call_2, written tool.failed"], 0)


def test_what_only_hooks_told_is_extra(stage: Stage) -> None:
    stage.hooks.start("exec", "call_9")
    found = stage.compare()
    assert (found.extra, found.missing) == (["tool.started of call_9"], [])


def test_a_wrong_order_is_counted(stage: Stage) -> None:
    lines = stage.hooks.path.read_text().splitlines(keepends=True)
    records = [json.loads(line) for line in lines]
    first = next(i for i, r in enumerate(records) if r.get("callId") == "call_1")
    last = next(i for i, r in enumerate(records) if r.get("callId") == "call_3")
    for name in ("callId", "isError", "details"):
        for one, other in ((first, last), (first + 1, last + 1)):
            a, b = records[one].pop(name, None), records[other].pop(name, None)
            records[one] |= {} if b is None else {name: b}
            records[other] |= {} if a is None else {name: a}
    stage.hooks.path.write_text("".join(json.dumps(r) + "\n" for r in records))
    found = stage.compare()
    assert (found.missing, found.extra, found.different) == ([], [], [])
    assert found.out_of_order > 0
    assert not found.fits


def test_rules_that_rename_events_do_not_confuse_it(stage: Stage) -> None:
    rules = [{"match": {"toolName": "exec"}, "set": {"type": "shell", "labels": ["x"]}}]
    (stage.root / "config.json").write_text(json.dumps({"taxonomy": {"rules": rules}}))
    found = stage.compare()
    assert (found.fits, found.equal) == (True, 6)


def test_sessions_that_were_not_captured_are_only_counted_unless_one_is_named(stage: Stage) -> None:
    shutil.rmtree(stage.root / "spool")
    stage.write()
    assert (reconcile(stage.state).not_captured, reconcile(stage.state).sessions) == (1, [])
    assert stage.compare(session="s1", repair=True).repaired == 6
    assert stage.compare().fits
    with pytest.raises(SourceError, match="no session 'nobody'"):
        reconcile(stage.state, session="nobody")


def test_the_memory_that_the_configuration_names_is_compared(stage: Stage, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    shutil.move(stage.root, moved)
    config = {"plugins": {"entries": {"sherpa": {"config": {"store": {"root": str(moved)}}}}}}
    (stage.state / "openclaw.json").write_text(f"// mine\n{json.dumps(config)}")
    assert stage.compare().fits
    (stage.state / "openclaw.json").unlink()
    assert reconcile(stage.state).not_captured == 1
    assert reconcile(stage.state, memory=moved).sessions[0].fits


def test_the_command(stage: Stage) -> None:
    without(stage, "after_tool_call", at=2)
    stage.write()
    arguments = ["openclaw", "reconcile", "--state-dir", str(stage.state)]
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 1
    assert json.loads(result.stdout)["totals"] == {
        "sessions": 1, "notCaptured": 0, "equal": 5, "missing": 1, "extra": 0, "different": 0, "outOfOrder": 0,
        "repaired": 0,
    }  # fmt: skip
    result = CliRunner().invoke(app, arguments)
    assert "s1: missing: tool.succeeded of call_3" in result.stdout
    assert CliRunner().invoke(app, [*arguments, "--repair"]).exit_code == 0
    assert CliRunner().invoke(app, arguments).exit_code == 0


def test_the_drain_of_a_comparison_is_the_usual_one(stage: Stage) -> None:
    assert stage.compare().fits
    assert drain(stage.root, recorder(stage.root)) == 0
    assert queued(stage.root) == []
