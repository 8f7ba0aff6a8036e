"""From steps to events: granularity, cases, and what does not leave the reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from sherpa.event import read_event
from sherpa.sources.openclaw import Installation, Mapping, ReadOptions
from sherpa.sources.openclaw.taxonomy import Granularity
from tests.sherpa.openclaw.transcripts import Script, events_of, write


def talk() -> Script:
    script = Script("chat")
    script.user("Please fix the failing build of the app")
    script.calls(("a", "exec", {"command": "git pull"}), ("b", "mcp__github__create_issue"))
    script.result("a", "exec", {"status": "error"})
    script.result("b", "mcp__github__create_issue")
    script.reply("fixed")
    script.user("that worked")
    script.reply("good")
    return script


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, "agents/helper/sessions/chat.jsonl", talk().text())
    return tmp_path


@pytest.mark.parametrize(
    ("granularity", "types"),
    [
        ("family", ["tool.started", "tool.started", "tool.failed", "tool.succeeded"]),
        (
            "tool",
            [
                "tool.exec.started",
                "tool.mcp:github/create_issue.started",
                "tool.exec.failed",
                "tool.mcp:github/create_issue.succeeded",
            ],
        ),
        (
            "operation",
            [
                "tool.exec:git.started",
                "tool.mcp:github/create_issue.started",
                "tool.exec:git.failed",
                "tool.mcp:github/create_issue.succeeded",
            ],
        ),
    ],
)
def test_granularity(folder: Path, granularity: Granularity, types: list[str]) -> None:
    found = events_of(folder, Mapping(granularity))
    assert [t for _, _, t, _ in found] == [
        "session.started",
        "message.user.inbound",
        *types,
        "message.assistant.reply",
        "message.user.inbound",
        "message.assistant.reply",
    ]
    assert {c for c, _, _, _ in found} == {"session:helper:chat"}


def test_every_event_is_one_that_the_ledger_takes(folder: Path) -> None:
    with Installation(folder) as installation:
        [session] = installation.sessions
        for mapped in Mapping("operation").events(session, session.steps()):
            event = mapped.to_event(session.agent)
            again = read_event(event, clock=lambda: 0, new_id=lambda: "x")
            assert again == event
            assert (event.agent_id, event.source) == ("helper", "openclaw")
            if mapped.tool:
                assert f"tool:{mapped.tool}" in event.labels
                assert event.meta["signature"].startswith(mapped.tool)


def test_no_text_leaves_the_reader_unless_it_is_asked_for(folder: Path) -> None:
    for routing in ("session", "task", "run"):
        with Installation(folder) as installation:
            [session] = installation.sessions
            found = list(Mapping("operation", routing).events(session, session.steps()))
        assert "build" not in repr(found)
        assert "good" not in repr(found)
    with Installation(folder, ReadOptions(keep_text=True)) as installation:
        [session] = installation.sessions
        found = list(Mapping("tool", "task", keep_text=True).events(session, session.steps()))
    assert found[1].case_id.startswith("session:helper:chat:task:please-fix-the-failing-build-of-the-app:")
    contexts = [event.to_event("a").context for event in found]
    assert [c.text for c in contexts if c] == [
        "Please fix the failing build of the app",
        "done",
        "done",
        "fixed",
        "that worked",
        "good",
    ]


def test_long_texts_are_kept_in_part(tmp_path: Path) -> None:
    script = Script("chat")
    script.user("word " * 1000)
    write(tmp_path, "chat.jsonl", script.text())
    with Installation(tmp_path, ReadOptions(keep_text=True)) as installation:
        [session] = installation.sessions
        last = list(Mapping(keep_text=True).events(session, session.steps()))[-1]
    assert last.metrics == {"contentChars": 4999}
    assert len(last.to_event("a").context.text or "") == 500


def test_tasks(folder: Path) -> None:
    found = events_of(folder, Mapping("tool", "task"))
    assert [(c.removeprefix("session:helper:chat")[:12], t, o) for c, _, t, o in found] == [
        ("", "session.started", "unknown"),
        (":task:task-1", "task.started", "unknown"),
        (":task:task-1", "message.user.inbound", "unknown"),
        (":task:task-1", "tool.exec.started", "unknown"),
        (":task:task-1", "tool.mcp:github/create_issue.started", "unknown"),
        (":task:task-1", "tool.exec.failed", "failure"),
        (":task:task-1", "tool.mcp:github/create_issue.succeeded", "success"),
        (":task:task-1", "message.assistant.reply", "unknown"),
        (":task:task-1", "message.user.inbound", "unknown"),
        (":task:task-1", "task.completed", "success"),
        ("", "message.assistant.reply", "unknown"),
    ]
    assert len({e for _, e, _, _ in found}) == len(found)


def test_a_reset_ends_a_task(tmp_path: Path) -> None:
    script = Script("chat")
    script.user("Please fix the failing build of the app")
    script.row("reset", reason="new")
    script.user("A new session was started via /new or /reset. Say hello.")
    script.user("Please write the release notes for it")
    write(tmp_path, "chat.jsonl", script.text())
    found = [
        (c.split(":")[-1][:3] if "task" in c else "-", t) for c, _, t, _ in events_of(tmp_path, Mapping("tool", "task"))
    ]
    types = [t for _, t in found]
    assert types == [
        "session.started",
        "task.started",
        "message.user.inbound",
        "task.ended",
        "session.reset",
        "message.system.session-reset",
        "task.started",
        "message.user.inbound",
    ]
    assert found[4][0] == found[5][0] == "-"


def test_runs(tmp_path: Path) -> None:
    script = Script("chat")
    first = script.user("one")
    script.user("and another thing")
    script.calls(("a", "read"))
    script.result("a", "read", {"status": "error"})
    script.reply()
    second = script.user("Read HEARTBEAT.md if it exists")
    script.message("assistant", [], stopReason="error", errorMessage="overloaded")
    third = script.user("two")
    script.calls(("b", "read"))
    write(tmp_path, "chat.jsonl", script.text())
    found = [(c, t, o) for c, _, t, o in events_of(tmp_path, Mapping("tool", "run"))]
    assert found == [
        (f"run:chat:{first}", "message.user.inbound", "unknown"),
        (f"run:chat:{first}", "message.user.inbound", "unknown"),
        (f"run:chat:{first}", "tool.read.started", "unknown"),
        (f"run:chat:{first}", "tool.read.failed", "failure"),
        (f"run:chat:{first}", "message.assistant.reply", "unknown"),
        (f"run:chat:{first}", "run.ended", "unknown"),
        (f"run:chat:{second}", "message.system.heartbeat", "unknown"),
        (f"run:chat:{second}", "message.assistant.reply", "failure"),
        (f"run:chat:{second}", "run.ended", "failure"),
        (f"run:chat:{third}", "message.user.inbound", "unknown"),
        (f"run:chat:{third}", "tool.read.started", "unknown"),
    ]


def test_a_run_that_the_agent_finished_has_ended(folder: Path) -> None:
    found = events_of(folder, Mapping("tool", "run"))
    assert [t for _, _, t, _ in found][-2:] == ["message.assistant.reply", "run.ended"]
    assert len({e for _, e, _, _ in found}) == len(found)
