"""From rows to steps: pairing, outcomes, synthetic messages, background work."""

from __future__ import annotations

import pytest

from tests.sherpa.openclaw.transcripts import START, Script, replayed, shown, stamp, tools


def test_a_plain_turn() -> None:
    script = Script()
    script.user("fix it")
    script.calls(("c1", "read", {"path": "x"}))
    script.result("c1", "read")
    script.reply("fixed")
    steps, replay = replayed(script)
    assert [shown(s) for s in steps] == [
        "session.started",
        "message.user.inbound",
        "read.started",
        "read.succeeded",
        "message.assistant.reply",
    ]
    assert [s.actor for s in steps] == ["system", "user", "agent", "agent", "agent"]
    assert steps[3].metrics["durationMs"] == 1000
    assert steps[1].metrics == {"contentChars": 6}
    counts = replay.counts
    assert (counts.entries, counts.user, counts.assistant, counts.tool_calls, counts.tool_results) == (4, 1, 2, 1, 1)
    assert counts.unresolved == counts.orphan_results == 0


def test_parallel_calls_pair_by_id_whatever_the_order() -> None:
    script = Script()
    script.calls(("a", "read"), ("b", "exec", {"command": "ls"}), ("c", "write"))
    script.result("c", "write")
    script.result("a", "read", {"status": "error"})
    script.result("b", "exec")
    steps, _ = replayed(script)
    assert tools(steps) == [
        "read.started",
        "exec:ls.started",
        "write.started",
        "write.succeeded",
        "read.failed",
        "exec:ls.succeeded",
    ]


def test_ids_repeat_between_turns_and_inside_one() -> None:
    script = Script()
    for command in ("git pull", "npm test"):
        script.calls(("exec_0", "exec", {"command": command}), ("exec_0", "exec", {"command": "ls"}))
        script.result("exec_0", "exec")
        script.result("exec_0", "exec")
    steps, replay = replayed(script)
    assert tools(steps)[2:4] == ["exec:git.succeeded", "exec:ls.succeeded"]
    assert tools(steps)[6:8] == ["exec:npm.succeeded", "exec:ls.succeeded"]
    assert replay.counts.unresolved == 0


def test_an_injected_row_does_not_come_between_call_and_result() -> None:
    script = Script()
    script.calls(("c1", "message", {"action": "send"}))
    script.message("assistant", [{"type": "text", "text": "hi"}], provider="openclaw", model="delivery-mirror")
    script.result("c1", "message")
    steps, replay = replayed(script)
    assert tools(steps) == ["message:send.started", "message:send.succeeded"]
    assert replay.counts.injected == 1
    assert "message.assistant.reply" not in [s.kind for s in steps]


def test_a_late_result_finds_the_turn_that_waits_for_it() -> None:
    script = Script()
    script.calls(("a", "read"))
    script.calls(("b", "write"))
    script.result("a", "read")
    script.result("b", "write")
    steps, replay = replayed(script)
    assert tools(steps) == ["read.started", "write.started", "read.succeeded", "write.succeeded"]
    assert replay.counts.orphan_results == 0


def test_a_result_without_a_call() -> None:
    script = Script()
    script.result("nobody", "read")
    steps, replay = replayed(script)
    assert tools(steps) == ["read.succeeded"]
    assert "orphan" in steps[-1].labels
    assert replay.counts.orphan_results == 1


def test_a_phantom_result_is_dropped() -> None:
    script = Script()
    script.calls(("a", "read"))
    script.result("", "Tool  not found")
    script.result("a", "read")
    steps, replay = replayed(script)
    assert tools(steps) == ["read.started", "read.succeeded"]
    assert (replay.counts.tool_results, replay.counts.orphan_results) == (1, 1)


def test_a_result_without_an_id_goes_by_its_name() -> None:
    script = Script()
    script.calls(("a", "read"), ("b", "write"))
    script.message("toolResult", [], toolName="write", isError=False)
    steps, replay = replayed(script)
    assert tools(steps)[-1] == "write.succeeded"
    assert replay.counts.unresolved == 1


def test_a_call_without_result_is_told_when_the_user_goes_on() -> None:
    script = Script()
    script.calls(("a", "exec", {"command": "make"}))
    assert tools(replayed(script)[0]) == ["exec:make.started"]
    assert replayed(script)[1].counts.unresolved == 1
    script.user()
    script.user("and again")
    steps, replay = replayed(script)
    assert tools(steps) == ["exec:make.started", "exec:make.unresolved"]
    assert steps[-2].outcome == "unknown"
    script.result("a", "exec")
    steps, replay = replayed(script)
    assert tools(steps)[-1] == "exec:make.succeeded"
    assert replay.counts.unresolved == 0


def test_a_heartbeat_is_not_the_user_going_on() -> None:
    script = Script()
    script.calls(("a", "exec", {"command": "make"}))
    script.user("Read HEARTBEAT.md if it exists (workspace context).")
    steps, replay = replayed(script)
    assert tools(steps) == ["exec:make.started"]
    assert steps[-1].kind == "message.system.heartbeat"
    assert steps[-1].actor == "system"
    assert dict(replay.counts.synthetic) == {"heartbeat": 1}


@pytest.mark.parametrize("stop", ["error", "aborted", "length"])
def test_calls_of_a_turn_that_broke_have_an_unknown_end(stop: str) -> None:
    script = Script()
    script.calls(("a", "read"), stopReason=stop)
    script.result("a", "read")
    steps, replay = replayed(script)
    assert tools(steps) == ["read.started", "read.unknown"]
    assert steps[-1].outcome == "unknown"
    assert replay.counts.tool_results == 1


def test_a_turn_that_was_tried_again_counts_once() -> None:
    script = Script()
    script.calls(("a", "read"), stopReason="error", errorMessage="overloaded")
    script.calls(("a", "read"))
    script.result("a", "read")
    steps, replay = replayed(script)
    assert tools(steps) == ["read.started", "read.succeeded"]
    assert (replay.counts.tool_calls, replay.counts.superseded_calls, replay.counts.unresolved) == (1, 1, 0)
    assert +replay.counts.tools == {"read": 1}


def test_a_turn_that_failed_and_was_not_tried_again_began_its_calls() -> None:
    script = Script()
    script.calls(("a", "read"), stopReason="error", errorMessage="overloaded")
    script.calls(("b", "write"))
    steps, replay = replayed(script)
    assert tools(steps) == ["read.started", "write.started"]
    assert replay.counts.unresolved == 2


def test_a_command_in_the_background_ends_when_a_poll_says_so() -> None:
    script = Script()
    script.calls(("a", "exec", {"command": "npm test", "background": True}))
    script.result("a", "exec", {"status": "running", "sessionId": "calm-reef"})
    script.calls(("b", "process", {"action": "poll", "sessionId": "calm-reef"}))
    script.result("b", "process", {"status": "running", "sessionId": "calm-reef"})
    script.calls(("c", "process", {"action": "poll", "sessionId": "calm-reef"}))
    script.result("c", "process", {"status": "failed", "sessionId": "calm-reef", "exitCode": 2})
    steps, replay = replayed(script)
    assert tools(steps) == [
        "exec:npm.started",
        "exec:npm.running",
        "process:poll.started",
        "process:poll.running",
        "process:poll.started",
        "process:poll.failed",
        "exec:npm.failed",
    ]
    assert [s.outcome for s in steps if s.tool] == ["unknown"] * 5 + ["failure"] * 2
    assert "background" in steps[-1].labels
    assert steps[-1].metrics["durationMs"] == 5000
    assert replay.counts.joined == 1


def test_a_list_of_processes_ends_nothing() -> None:
    script = Script()
    script.calls(("a", "exec", {"command": "npm test"}))
    script.result("a", "exec", {"status": "running", "sessionId": "calm-reef"})
    script.calls(("b", "process", {"action": "list"}))
    script.result("b", "process", {"status": "completed", "sessions": []})
    assert tools(replayed(script)[0])[-1] == "process:list.succeeded"


def test_a_command_in_the_background_ends_when_a_message_says_so() -> None:
    script = Script()
    script.calls(("a", "exec", {"command": "npm test"}))
    script.result("a", "exec", {"status": "running", "sessionId": "calm-reef"})
    script.user("System: [2026-03-01 10:00:00 UTC] Exec completed (calm-reef, code 1) :: 2 failing")
    steps, _ = replayed(script)
    assert [shown(s) for s in steps][-2:] == ["exec:npm.succeeded", "message.system.background-ended"]
    assert "exit:nonzero" in steps[-2].labels


def test_a_nonzero_exit_can_count_as_a_failure() -> None:
    script = Script()
    script.calls(("a", "exec", {"command": "grep x y"}))
    script.result("a", "exec", {"status": "completed", "exitCode": 1})
    steps, replay = replayed(script)
    assert (shown(steps[-1]), steps[-1].labels[-1]) == ("exec:grep.succeeded", "exit:nonzero")
    assert replay.counts.nonzero_exit == 1
    strict, _ = replayed(script, nonzero_exit_fails=True)
    assert (shown(strict[-1]), strict[-1].outcome) == ("exec:grep.failed", "failure")


def test_an_inserted_result_is_unknown() -> None:
    script = Script()
    script.calls(("a", "read"))
    text = "[openclaw] missing tool result in session history; inserted synthetic error result for transcript repair."
    script.result("a", "read", error=True, text=text)
    steps, replay = replayed(script)
    assert tools(steps) == ["read.started", "read.unknown"]
    assert "synthetic" in steps[-1].labels
    assert (replay.counts.synthetic_results, replay.counts.failures) == (1, 0)


def test_other_spellings_of_calls_and_results() -> None:
    script = Script()
    script.message("assistant", [{"type": "tool_use", "id": "a", "name": "read", "input": {"path": "x"}}])
    script.message("tool", "done", toolCallId="a", toolName="read", is_error=True)
    script.message("assistant", [{"type": "functionCall", "id": "b", "name": "read", "arguments": '{"file":"x"}'}])
    script.message("toolResult", [], toolCallId="b", toolName="read")
    steps, _ = replayed(script)
    assert tools(steps) == ["read.started", "read.failed", "read.started", "read.succeeded"]
    assert {s.meta["signature"] for s in steps if s.tool} == {"read(path)"}


def test_rows_that_are_no_steps_and_rows_of_unknown_kinds() -> None:
    script = Script()
    script.row("model_change", provider="p", modelId="m")
    script.row("custom", customType="model-snapshot", data={})
    script.row("custom_message", customType="openclaw.runtime-context", content="x", display=False)
    script.row("leaf", targetId=None)
    script.row("context_transform")
    script.message("compactionSummary", "…")
    script.message("novel", "…")
    script.row("compaction", summary="…", firstKeptEntryId="x", tokensBefore=1)
    script.row("reset", reason="idle")
    script.row("reset", reason="because I say so")
    steps, replay = replayed(script)
    assert [s.kind for s in steps] == ["session.started", "session.compacted", "session.reset", "session.reset"]
    assert [s.labels for s in steps[2:]] == [("reset:idle",), ("reset:other",)]
    assert dict(replay.counts.unknown_types) == {"context_transform": 1, "message:novel": 1}
    assert (replay.counts.compactions, replay.counts.resets) == (1, 2)


def test_a_command_that_the_user_typed() -> None:
    script = Script()
    script.message("bashExecution", "", command="ls", exitCode=1)
    script.message("bashExecution", "", command="ls", exitCode=0)
    steps, replay = replayed(script)
    assert [(s.kind, s.actor, s.outcome) for s in steps[1:]] == [
        ("command.typed", "user", "failure"),
        ("command.typed", "user", "success"),
    ]
    assert replay.counts.tool_calls == 0


def test_a_message_written_many_times_counts_once() -> None:
    script = Script()
    for _ in range(3):
        script.user("hello", idempotencyKey="k-1")
        script.user("good morning")
        script.rows[-1]["message"]["timestamp"] = START
    steps, replay = replayed(script)
    assert [s.kind for s in steps].count("message.user.inbound") == 2
    assert replay.counts.duplicates == 4


def test_the_same_words_at_another_time_are_another_message() -> None:
    script = Script()
    script.user("go on")
    script.user("go on")
    assert replayed(script)[1].counts.duplicates == 0


def test_a_message_between_sessions_is_not_the_users() -> None:
    script = Script()
    script.user("do this", provenance={"kind": "inter_session", "sourceTool": "sessions_send"})
    steps, _ = replayed(script)
    assert (steps[-1].kind, steps[-1].actor) == ("message.system.inter-session", "system")


def test_order_is_that_of_the_file_and_time_never_goes_back() -> None:
    script = Script()
    script.user(timestamp=stamp(10))
    script.calls(("a", "read"), timestamp=stamp(9.997))
    script.result("a", "read", timestamp=stamp(12))
    script.rows[-1]["timestamp"] = "nonsense"
    script.rows[-1]["message"]["timestamp"] = None
    steps, replay = replayed(script)
    instants = [s.instant for s in steps]
    assert instants == sorted(instants)
    assert [shown(s) for s in steps[-2:]] == ["read.started", "read.succeeded"]
    assert (replay.counts.back_in_time, replay.counts.untimed) == (1, 1)


def test_an_entry_without_a_time_takes_that_of_its_message() -> None:
    script = Script()
    script.user()
    script.user("later")
    script.rows[-1]["timestamp"] = None
    steps, replay = replayed(script)
    assert steps[-1].instant == (START + 1000 * script.second) * 1_000_000
    assert replay.counts.untimed == 0


def test_a_session_of_the_first_version_has_no_ids() -> None:
    script = Script()
    script.user("hello")
    script.calls(("a", "read"))
    script.result("a", "read")
    for row in script.rows[1:]:
        del row["id"], row["parentId"]
    del script.rows[0]["version"]
    steps, _ = replayed(script)
    assert [shown(s) for s in steps[1:]] == ["message.user.inbound", "read.started", "read.succeeded"]
    assert len({(s.row, s.part) for s in steps}) == len(steps)
    again, _ = replayed(script)
    assert [s.row for s in again] == [s.row for s in steps]


def test_a_turn_of_an_outer_harness_shows_no_tools() -> None:
    script = Script()
    script.user("hello")
    script.message("assistant", "done", api="cli", provider="claude-cli", stopReason="stop")
    steps, replay = replayed(script)
    assert [s.kind for s in steps[1:]] == ["message.user.inbound", "message.assistant.reply"]
    assert not replay.tool_evidence


def test_an_empty_turn_that_failed() -> None:
    script = Script()
    script.message("assistant", [], stopReason="error", errorMessage="overloaded")
    steps, _ = replayed(script)
    assert (steps[-1].kind, steps[-1].outcome, steps[-1].labels) == (
        "message.assistant.reply",
        "failure",
        ("stop:error",),
    )


def test_many_calls_that_never_end_cost_no_more_than_others() -> None:
    script = Script()
    for at in range(3000):
        script.calls((f"c{at}", "read"))
    _, replay = replayed(script)
    assert replay.counts.unresolved == 3000


def test_nothing_that_a_user_or_a_tool_wrote_is_in_names_labels_or_metrics() -> None:
    secret = "hunter2"
    script = Script()
    script.user(f"my password is {secret}")
    script.calls(("a", "exec", {"command": f"{secret} --now", secret: 1}), ("b", "process", {"action": secret}))
    script.result("a", "exec", {"status": "error", "error": secret}, text=secret)
    script.reply(secret)
    steps, _ = replayed(script)
    visible = [(s.kind, s.row, s.part, s.labels, s.metrics, s.tool and s.tool.operation) for s in steps]
    assert secret not in repr(visible)


def test_an_id_that_is_no_id_is_not_passed_on() -> None:
    script = Script()
    script.user(id="my password is hunter2")
    script.user(id="my password is hunter2")
    script.user(id="x" * 500)
    steps, replay = replayed(script)
    assert replay.counts.duplicates == 1
    assert [len(s.row) for s in steps[1:]] == [17, 17]
    assert replayed(script)[0][1].row == steps[1].row
