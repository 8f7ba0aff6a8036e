"""What the hooks of a host become: the same calls, in the same order, with the same outcomes as in its transcript."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sherpa import ProceduralMemory
from sherpa.capture.scope import Session
from sherpa.capture.spool import drain
from tests.sherpa.capture.spooling import KEY, Writer, queued, recorder, told


def events(root: Path, **options: Any) -> list[dict[str, Any]]:
    drain(root, recorder(root, **options))
    return queued(root)


def test_a_run_from_its_prompt_to_its_end(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.prompt("please mend the calculation")
    writer.start("read", "c1", names=["path"])
    writer.end("read", "c1", names=["path"], details={"kind": "text"}, durationMs=12, hasResult=True)
    writer.start("exec", "c2", names=["command"])
    writer.end("exec", "c2", names=["command"], details={"status": "completed", "exitCode": 1})
    writer.start("edit", "c3")
    writer.end("edit", "c3", isError=True, details={"status": "error", "error": True})
    writer.write("agent_end", success=True, durationMs=900)
    found = events(tmp_path)
    assert told(found) == [
        ("-", "session.started"),
        ("-", "message.received"),
        ("c1", "tool.started"),
        ("c1", "tool.succeeded"),
        ("c2", "tool.started"),
        ("c2", "tool.succeeded"),
        ("c3", "tool.started"),
        ("c3", "tool.failed"),
        ("-", "run.ended"),
    ]
    assert {e["caseId"] for e in found} == {f"session:{KEY}"}
    assert [e["outcome"] for e in found][-3:] == ["unknown", "failure", "unknown"]
    assert found[3]["metrics"] == {"paramCount": 1, "durationMs": 12, "hasResult": 1}
    assert found[3]["meta"] == {"paramNames": ["path"], "toolCallId": "c1", "sessionId": "s1", "runId": "r1"}
    assert found[5]["labels"] == ["tool:exec", "tool-family:tool", "exit:nonzero"]
    assert found[7]["labels"] == ["tool:edit", "tool-family:tool", "failure:failed"]
    # Time is that of the hook, not that of the drain.
    assert found[2]["ts"] == "2027-01-15T08:00:00.002Z"
    assert [e["eventId"] for e in found[:3]] == ["oc-live:w1", "oc-live:w1:1", "oc-live:w2"]


@pytest.mark.parametrize(
    ("facts", "phase", "labels"),
    [
        ({"details": {}}, "succeeded", []),
        ({}, "succeeded", []),
        ({"isError": True}, "failed", ["failure:failed"]),
        ({"details": {"status": "timeout"}}, "failed", ["failure:timed_out"]),
        ({"details": {"status": "denied"}}, "failed", ["failure:blocked"]),
        ({"details": {"status": "killed"}}, "failed", ["failure:cancelled"]),
        ({"details": {"ok": False}}, "failed", ["failure:failed"]),
        ({"details": {"exitCode": 2}}, "failed", ["failure:failed"]),
        ({"details": {"status": 200}}, "succeeded", []),
        ({"details": {"status": "accepted"}}, "running", []),
        ({"details": {"status": "ok"}, "isError": True}, "failed", ["failure:failed", "confidence:low"]),
        ({"text": '{"status":"error","tool":"read"}'}, "failed", ["failure:failed"]),
        ({"text": '{"status":"error"}'}, "succeeded", []),
    ],
)
def test_how_a_call_ended(tmp_path: Path, facts: dict[str, Any], phase: str, labels: list[str]) -> None:
    writer = Writer(tmp_path)
    writer.start("exec", "c1")
    writer.end("exec", "c1", **facts)
    found = events(tmp_path)[-1]
    assert found["type"] == f"tool.{phase}"
    assert found["labels"][2:] == labels


def test_what_is_told_twice_counts_once(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    for _ in range(3):
        writer.start("exec", "c1")
    for _ in range(2):
        writer.end("exec", "c1")
    # A provider that counts its ids anew in every turn.
    writer.start("exec", "c1")
    writer.start("exec", "c1")
    writer.end("exec", "c1", isError=True)
    writer.end("exec", "c1", isError=True)
    writer.write("agent_end", success=True)
    writer.write("agent_end", success=True)
    assert [t for _, t in told(events(tmp_path))] == [
        "session.started",
        "tool.started",
        "tool.succeeded",
        "tool.started",
        "tool.failed",
        "run.ended",
    ]


def test_a_rejected_call_with_an_id_that_was_there_before_is_another_one(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.start("exec", "call_0", names=["command"])
    writer.end("exec", "call_0", names=["command"])
    for _ in range(2):
        writer.end("edit", "call_0", names=["path"], isError=True, details={})
    assert [t for _, t in told(events(tmp_path))][2:] == ["tool.succeeded", "tool.started", "tool.failed"]


def test_ends_of_calls_side_by_side_come_in_the_order_of_the_calls(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    for call in ("a", "b", "c"):
        writer.start("exec", call)
    for call in ("c", "b"):
        writer.end("exec", call)
    assert told(events(tmp_path))[1:] == [(c, "tool.started") for c in "abc"]
    writer.end("exec", "a", isError=True)
    found = events(tmp_path)
    assert told(found) == [("a", "tool.failed"), ("b", "tool.succeeded"), ("c", "tool.succeeded")]
    assert [e["ts"] for e in found] == [found[0]["ts"]] * 3


def test_an_end_that_never_comes_holds_nothing_back_for_long(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.start("exec", "a")
    writer.start("exec", "b")
    writer.end("exec", "b")
    writer.start("read", "c")  # the agent has gone on
    writer.end("read", "c")
    writer.end("exec", "a")  # late, as hooks may be
    writer.start("exec", "d")
    writer.prompt("and now something else", run="r2")
    writer.prompt("and again", run="r3")
    assert told(events(tmp_path))[1:] == [
        ("a", "tool.started"),
        ("b", "tool.started"),
        ("b", "tool.succeeded"),
        ("c", "tool.started"),
        ("c", "tool.succeeded"),
        ("a", "tool.succeeded"),
        ("d", "tool.started"),
        ("d", "tool.unresolved"),
        ("-", "message.received"),
        ("-", "message.received"),
    ]


def test_a_call_that_the_host_rejects_has_begun_unless_there_is_no_such_tool(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.start("exec", "a")
    writer.end("nosuchtool", "b", isError=True, details={}, unknown=True)
    writer.end("edit", "c", isError=True, details={})
    writer.end("exec", "a")
    found = events(tmp_path)
    assert told(found)[1:] == [
        ("a", "tool.started"),
        ("c", "tool.started"),
        ("a", "tool.succeeded"),
        ("b", "tool.failed"),
        ("c", "tool.failed"),
    ]
    assert len({e["eventId"] for e in found}) == len(found)
    assert "orphan" in found[4]["labels"]


def test_a_command_in_the_background_ends_when_it_is_told(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    running = {"status": "running", "sessionId": "ember-cove"}
    writer.start("exec", "a")
    writer.end("exec", "a", details=running)
    writer.start("process", "b", job="ember-cove")
    writer.end("process", "b", job="ember-cove", details=running)
    writer.start("process", "c", job="ember-cove")
    writer.end("process", "c", job="ember-cove", details={"status": "completed", "exitCode": 0})
    writer.start("exec", "d")
    writer.end("exec", "d", details={"status": "running", "sessionId": "nova-dune"})
    writer.prompt("System: [2026-06-01 10:00:00 UTC] Exec failed (nova-dune, code 1) :: x", run="r2")
    found = events(tmp_path)
    assert told(found)[1:] == [
        ("a", "tool.started"),
        ("a", "tool.running"),
        ("b", "tool.started"),
        ("b", "tool.running"),
        ("c", "tool.started"),
        ("c", "tool.succeeded"),
        ("a", "tool.succeeded"),
        ("d", "tool.started"),
        ("d", "tool.running"),
        ("d", "tool.failed"),
    ]
    assert "background" in found[7]["labels"]


@pytest.mark.parametrize(
    ("text", "facts", "chars"),
    [
        ("please do it", {}, 12),
        ("[Telegram Ann id:7 +3m 2026-06-01 10:00 UTC] please do it\n[message_id: 4]", {}, 12),
        ("please do it", {"chars": 100}, 100),
        ("please do it", {"trigger": "user", "origin": "external_user"}, 12),
        ("please do it", {"origin": "inter_session"}, None),
        ("please do it", {"trigger": "heartbeat"}, None),
        ("Read HEARTBEAT.md if it exists", {}, None),
        ("[cron:7 nightly] go", {}, None),
        ("   ", {}, None),
    ],
)
def test_only_what_the_user_said_is_a_message(
    tmp_path: Path, text: str, facts: dict[str, Any], chars: int | None
) -> None:
    Writer(tmp_path).prompt(text, **facts)
    found = [e["metrics"]["contentChars"] for e in events(tmp_path) if e["type"] == "message.received"]
    assert found == ([] if chars is None else [chars])


def test_a_message_is_told_once_whichever_hooks_tell_it(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.session_id = None
    writer.write("before_dispatch", text="please do it", messageId="m1")
    writer.write("message_received", text="please do it")
    writer.session_id = "s1"
    writer.prompt("please do it", run="r1")
    writer.prompt("please do it", run="r1")  # a prompt is built again
    writer.write("agent_end", success=False)
    writer.prompt("please do it", run="r2")
    found = events(tmp_path, caseSplitting={"by": "task"})
    assert [e["type"] for e in found] == ["message.received", "session.started", "run.ended", "message.received"]
    assert found[2]["outcome"] == "failure"


def test_sessions_begin_go_on_and_end(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.write("session_start")
    writer.prompt("Please write the release notes for this week")
    writer.session_id = "s2"
    writer.prompt("Please prepare the meeting of next Monday", run="r2")
    writer.write("session_start", resumed=True)
    writer.write("session_end", messageCount=4, durationMs=70)
    found = events(tmp_path, caseSplitting={"by": "task"})
    assert [e["type"] for e in found] == [
        "session.started",
        "task.started",
        "message.received",
        "task.ended",
        "session.resumed",
        "task.started",
        "message.received",
        "task.ended",
        "session.ended",
    ]
    assert found[-1]["metrics"] == {"messageCount": 4, "durationMs": 70}
    assert found[3]["caseId"] == found[2]["caseId"] != found[6]["caseId"]


def test_each_turn_of_the_user_can_be_a_case(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.prompt("please do it", run="r1")
    writer.start("exec", "a")
    writer.write("message_received", text="and hurry", messageId="m1")  # while it works
    writer.end("exec", "a")
    writer.write("agent_end", success=True)
    writer.prompt("and hurry", run="r2")
    writer.start("exec", "b")
    writer.end("exec", "b")
    writer.write("agent_end", success=True)
    writer.write("message_received", text="thank you", messageId="m2")
    writer.prompt("thank you", run="r3")
    writer.write("session_end")
    found = events(tmp_path, caseSplitting={"by": "run"})
    cases = list(dict.fromkeys(e["caseId"] for e in found))
    assert [(e["type"], cases.index(e["caseId"])) for e in found] == [
        ("session.started", 0),
        ("message.received", 1),
        ("tool.started", 1),
        ("message.received", 1),
        ("tool.succeeded", 1),
        ("run.ended", 1),
        ("tool.started", 2),
        ("tool.succeeded", 2),
        ("run.ended", 2),
        ("message.received", 3),
        ("session.ended", 0),
    ]
    assert cases[0] == f"session:{KEY}"
    assert cases[1] == f"session:{KEY}:run:2027-01-15T08:00:00.001Z"
    assert recorder(tmp_path, caseSplitting={"by": "run"}).case_of(Session(KEY)) == cases[3]


def test_what_is_out_of_scope_or_switched_off_leaves_no_trace(tmp_path: Path) -> None:
    writer = Writer(tmp_path, key="agent:main:telegram:group:1")
    writer.prompt("a secret of many")
    writer.start("exec", "a")
    assert drain(tmp_path, recorder(tmp_path)) == 0
    assert not (tmp_path / "queue").exists()
    writer = Writer(tmp_path, word="v")
    writer.prompt("a secret of one")
    writer.start("memory_search", "a")
    writer.start("web_search", "b")
    found = events(tmp_path, capture={"messages": False, "web": False})
    assert [e["type"] for e in found] == ["session.started"]
    assert not any(b"secret" in path.read_bytes() for path in (tmp_path / "queue").rglob("*") if path.is_file())


def test_the_case_of_the_next_event_can_be_asked_for(tmp_path: Path) -> None:
    session = Session(KEY, "main")
    capture = recorder(tmp_path, caseSplitting={"by": "task"})
    assert capture.case_of(session) == f"session:{KEY}"
    Writer(tmp_path).prompt("Please write the release notes for this week")
    drain(tmp_path, capture)
    assert capture.case_of(session) == queued(tmp_path)[-1]["caseId"] != f"session:{KEY}"
    assert recorder(tmp_path).case_of(session) == f"session:{KEY}"
    assert capture.case_of(Session("")) == "agent:main:session:default"


def test_a_chat_without_work_has_not_succeeded(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.prompt("how are you")
    writer.write("agent_end", success=True)
    writer.write("session_end")
    capture = recorder(tmp_path)
    drain(tmp_path, capture)
    with ProceduralMemory(tmp_path) as memory:
        capture.queue.flush(memory.ingest_batch)
        assert memory.store.outcome_counts() == {"unknown": 1}
    writer.prompt("and now", run="r2")
    writer.write("agent_end", success=False)
    with ProceduralMemory(tmp_path) as memory:
        drain(tmp_path, capture)
        capture.queue.flush(memory.ingest_batch)
        assert memory.store.outcome_counts() == {"failure": 1}


def test_forgetting_the_case_removes_the_state_of_its_session(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.start("exec", "a")
    capture = recorder(tmp_path)
    drain(tmp_path, capture)
    with ProceduralMemory(tmp_path) as memory:
        capture.queue.flush(memory.ingest_batch)
        memory.forget(f"session:{KEY}")
    assert list((tmp_path / "queue" / "routes").iterdir()) == []
