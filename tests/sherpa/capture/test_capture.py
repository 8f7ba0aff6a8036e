"""Capture: rules, redaction, cases, and a queue that loses nothing."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sherpa import ProceduralMemory
from sherpa.capture.queue import CaptureQueue
from sherpa.capture.recorder import Recorder, within_budget
from sherpa.capture.rules import Captured, apply_rules, broken_patterns
from sherpa.capture.scope import Session
from sherpa.cli.main import app
from sherpa.configuration import configure
from sherpa.errors import LedgerError
from tests.conftest import PROJECT

DIRECT = Session("agent:main:telegram:direct:42", channel="telegram")
PUBLISHED = {
    "match": {"kind": "tool", "toolName": "web_search"},
    "set": {"type": "research.web_search", "labels": ["phase:research"]},
}
SECOND = 10**9


def recorder(root: Path, clock: Callable[[], int] | None = None, **options: Any) -> Recorder:
    ids = iter(range(10**9))
    return Recorder(
        root, configure(options), clock=clock or (lambda: 1_800_000_000 * SECOND), new_id=lambda: f"e{next(ids)}"
    )


def waiting(root: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    CaptureQueue(root / "queue").flush(found.extend)
    return found


def rules(*raw: dict[str, Any]) -> Any:
    return configure({"taxonomy": {"rules": list(raw)}}).taxonomy.rules


def tool(name: str = "web_search", **more: Any) -> Captured:
    return Captured("tool", "web.started", "test", tool_name=name, labels=("tool:x",), **more)


# -- rules ---------------------------------------------------------------------------------------------------------


def test_the_published_rule(tmp_path: Path) -> None:
    capture = recorder(tmp_path, taxonomy={"rules": [PUBLISHED]})
    capture.tool(DIRECT, "started", "web_search")
    capture.tool(DIRECT, "started", "web_fetch")
    first, second = waiting(tmp_path)
    assert first["type"] == "research.web_search"
    assert first["labels"] == ["tool:web_search", "tool-family:web", "phase:research"]
    assert second["type"] == "web.started"


def test_all_rules_that_match_are_applied_and_see_what_was_written() -> None:
    chosen = rules(
        {"match": {"type": "web.started"}, "set": {"type": "a", "labels": ["one"]}},
        {"match": {"type": "web.started"}, "set": {"type": "never"}},
        {"match": {"type": "a"}, "set": {"outcome": "failure", "labels": ["one", "two"]}},
        {"match": {}, "set": {"labels": ["all"]}},
    )
    found = apply_rules(tool(), chosen)
    assert (found.type, found.outcome, found.labels) == ("a", "failure", ("tool:x", "one", "two", "all"))


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        ({"kind": "tool"}, True),
        ({"kind": "message"}, False),
        ({"toolName": "web_search", "channel": "sms"}, False),
        ({"toolFamily": "web"}, False),
        ({"contentPattern": "DEPLOY|release"}, True),
        ({"contentPattern": "^to prod$"}, False),
        ({"contentPattern": "(broken"}, False),
    ],
)
def test_everything_that_is_given_must_hold(match: dict[str, Any], expected: bool) -> None:
    found = apply_rules(tool(content="please deploy to prod"), rules({"match": match, "set": {"type": "hit"}}))
    assert (found.type == "hit") is expected


def test_a_pattern_cannot_run_away() -> None:
    # In a backtracking engine this takes longer than anybody waits.
    chosen = rules({"match": {"contentPattern": "^(a+)+$"}, "set": {"type": "hit"}})
    assert apply_rules(tool(content="a" * 10_000 + "b"), chosen).type == "web.started"


def test_a_pattern_that_is_none_is_named(tmp_path: Path) -> None:
    assert broken_patterns(rules({}, {"match": {"contentPattern": "("}})) == [
        "taxonomy.rules[1].match.contentPattern: '(' is no pattern"
    ]
    file = tmp_path / "c.json"
    file.write_text(json.dumps({"taxonomy": {"rules": [{"match": {"contentPattern": "("}}]}}))
    result = CliRunner().invoke(app, ["config", "validate", str(file)])
    assert result.exit_code == 2
    assert "is no pattern" in result.stderr


# -- what is captured ----------------------------------------------------------------------------------------------


def test_no_text_is_stored_unless_it_is_asked_for(tmp_path: Path) -> None:
    secret = "my password is swordfish and the task is to deploy it"
    for kept, root in ((False, tmp_path / "a"), (True, tmp_path / "b")):
        options = {"ledger": {"redactRawText": not kept}, "caseSplitting": {"by": "task"}}
        capture = recorder(root, **options)
        capture.message(DIRECT, secret)
        capture.tool(DIRECT, "started", "exec", arguments={"command": "cat swordfish"}, call_id="c 1")
        everything = b"".join(path.read_bytes() for path in root.rglob("*") if path.is_file())
        assert (b"swordfish" in everything) is kept
        with ProceduralMemory(root) as memory:
            capture.queue.flush(memory.ingest_batch)
            (case,) = [row[0] for row in memory.store.case_rows()]
            events = memory.store.case_events(case)
        assert [event.type for event in events] == ["task.started", "message.received", "tool.started"]
        assert events[1].metrics == {"contentChars": len(secret)}
        assert events[2].meta == {"paramNames": ["command"], "toolCallId": "c-1"}
        assert events[2].metrics == {"paramCount": 1}
        assert events[1].labels == ("channel:telegram",)


def test_what_is_switched_off_or_out_of_scope_leaves_no_trace(tmp_path: Path) -> None:
    capture = recorder(tmp_path, capture={"messages": False, "web": False}, caseSplitting={"by": "task"})
    group = Session("agent:main:telegram:group:1")
    assert capture.message(DIRECT, "anything at all, and long enough") == []
    assert capture.tool(DIRECT, "started", "web_search") == []
    assert capture.tool(DIRECT, "started", "memory_search") == []
    assert capture.tool(group, "started", "exec") == []
    assert capture.session(group, "started") == []
    assert not any(tmp_path.rglob("*"))
    assert capture.tool(DIRECT, "started", "exec") == ["e0"]


@pytest.mark.parametrize(
    ("meta", "budget", "expected"),
    [
        ({"a": 1}, 100, {"a": 1}),
        ({"a": "x" * 50, "b": 1}, 40, {"b": 1, "metaTruncated": True}),
        ({"a": "é" * 20, "b": "y" * 30}, 60, {"b": "y" * 30, "metaTruncated": True}),  # in bytes, not characters
        ({"a": "x" * 50, "b": "x" * 50}, 10, {"metaTruncated": True}),
    ],
)
def test_meta_data_stay_within_their_budget(meta: dict[str, Any], budget: int, expected: dict[str, Any]) -> None:
    assert within_budget(meta, budget) == expected


def test_the_case_goes_on_in_another_process(tmp_path: Path) -> None:
    now = [1_800_000_000 * SECOND]

    def fresh() -> Recorder:
        return recorder(tmp_path, lambda: now[0], caseSplitting={"by": "task", "staleTimeout": "2h"})

    fresh().message(DIRECT, "Please write the release notes for this week")
    now[0] += 60 * SECOND
    fresh().tool(DIRECT, "started", "exec")
    now[0] += 3 * 3600 * SECOND
    fresh().tool(DIRECT, "succeeded", "exec", duration_ms=5, has_result=True)
    fresh().message(DIRECT, "Now prepare the meeting of next Monday morning")
    fresh().message(DIRECT, "that worked")
    fresh().session(DIRECT, "ended", messageCount=3)
    events = waiting(tmp_path)
    cases = list(dict.fromkeys(event["caseId"] for event in events))
    assert [(event["type"], cases.index(event["caseId"])) for event in events] == [
        ("task.started", 0),
        ("message.received", 0),
        ("tool.started", 0),
        ("tool.succeeded", 0),
        ("message.received", 0),
        ("message.received", 0),
        ("task.completed", 0),
        ("session.ended", 1),
    ]


def test_each_turn_can_be_a_case_in_another_process_too(tmp_path: Path) -> None:
    now = [1_800_000_000 * SECOND]
    for text in ("do it", "and that"):
        now[0] += SECOND
        recorder(tmp_path, lambda: now[0], caseSplitting={"by": "run"}).message(DIRECT, text)
        recorder(tmp_path, lambda: now[0], caseSplitting={"by": "run"}).tool(DIRECT, "started", "exec")
    cases = [event["caseId"] for event in waiting(tmp_path)]
    assert cases[0] == cases[1] != cases[2] == cases[3]


def test_a_session_without_state_has_a_case_per_event(tmp_path: Path) -> None:
    capture = recorder(tmp_path, statelessSessionPatterns=["agent:*:telegram:**"])
    for _ in range(2):
        capture.tool(DIRECT, "started", "exec")
    assert [event["caseId"] for event in waiting(tmp_path)] == [
        f"session:{DIRECT.key}:stateless:e0",
        f"session:{DIRECT.key}:stateless:e1",
    ]


# -- the queue -----------------------------------------------------------------------------------------------------


def test_a_failed_flush_keeps_everything_in_order(tmp_path: Path) -> None:
    queue = CaptureQueue(tmp_path / "queue")
    queue.put([{"n": 1}, {"n": 2}])

    def fail(_events: list[dict[str, Any]]) -> None:
        raise LedgerError("the disk is full")

    with pytest.raises(LedgerError, match="disk is full"):
        queue.flush(fail)
    queue.put([{"n": 3}])
    assert len(queue) == 3
    found: list[dict[str, Any]] = []
    assert queue.flush(found.extend) == 3
    assert found == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert len(queue) == 0
    assert queue.flush(found.extend) == 0


def test_what_was_stored_before_a_crash_is_not_stored_twice(tmp_path: Path) -> None:
    capture = recorder(tmp_path)
    capture.tool(DIRECT, "started", "exec")

    with ProceduralMemory(tmp_path) as memory:

        def store_and_die(events: list[dict[str, Any]]) -> None:
            memory.ingest_batch(events)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            capture.queue.flush(store_and_die)
        assert capture.queue.flush(memory.ingest_batch) == 1
        assert memory.status()["events"] == 1


def test_half_a_line_is_left_out(tmp_path: Path) -> None:
    queue = CaptureQueue(tmp_path / "queue")
    queue.put([{"n": 1}])
    with open(tmp_path / "queue" / "waiting.jsonl", "ab") as file:
        file.write(b'{"n": 2, "half')
    queue.put([{"n": 3}])
    found: list[dict[str, Any]] = []
    queue.flush(found.extend)
    assert found == [{"n": 1}, {"n": 3}]


def test_a_queue_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "queue").write_text("a file")
    with pytest.raises(LedgerError, match="cannot be queued"):
        CaptureQueue(tmp_path / "queue").put([{"n": 1}])


WRITER = """
import sys
from pathlib import Path
from sherpa import ProceduralMemory
from sherpa.capture.recorder import Recorder
from sherpa.capture.scope import Session
from sherpa.configuration import configure
root, who, number, flush = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4] == "flush"
first = int(sys.argv[5])
ids = iter(range(first, first + number))
# All times are equal: only the order of capture can tell.
capture = Recorder(root, configure({}), clock=lambda: 1_800_000_000 * 10**9, new_id=lambda: f"{who}-{next(ids):06d}")
session = Session(f"agent:main:x:direct:{who}")
for at in range(number):
    (event,) = capture.tool(session, "started", "exec")
    print(event, flush=True)
    if flush and at % 25 == 24:
        with ProceduralMemory(root) as memory:
            capture.queue.flush(memory.ingest_batch)
"""


def start(root: Path, who: str, number: int, first: int = 0, *, flush: bool = True) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(root), who, str(number), "flush" if flush else "", str(first)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )


def ids_by_case(root: Path) -> dict[str, list[str]]:
    with ProceduralMemory(root) as memory:
        CaptureQueue(root / "queue").flush(memory.ingest_batch)
        return {row[0]: [e.event_id for e in memory.store.case_events(row[0])] for row in memory.store.case_rows()}


def test_four_processes_in_bursts_keep_the_order_of_each_case(tmp_path: Path) -> None:
    children = [start(tmp_path, who, 250) for who in "abcd"]
    for child in children:
        _, errors = child.communicate(timeout=120)
        assert (child.returncode, errors) == (0, "")
    found = ids_by_case(tmp_path)
    assert found == {
        f"session:agent:main:x:direct:{who}": [f"{who}-{number:06d}" for number in range(250)] for who in "abcd"
    }


@pytest.mark.full
def test_nothing_acknowledged_is_lost_in_fifty_kills(tmp_path: Path) -> None:
    rng = random.Random(7)
    acknowledged: list[str] = []
    for round_ in range(50):
        child = start(tmp_path, "k", 400, round_ * 400)
        assert child.stdout is not None
        lines = [child.stdout.readline()]
        time.sleep(rng.uniform(0, 0.3))
        child.send_signal(signal.SIGKILL)
        lines += child.stdout.readlines()
        child.communicate()
        # A last line without its end may have been cut by the kill itself.
        acknowledged += [line.strip() for line in lines if line.endswith("\n")]
    (case,) = ids_by_case(tmp_path).values()
    assert len(acknowledged) >= 50
    assert len(set(case)) == len(case)
    assert set(acknowledged) <= set(case)
    assert case == sorted(case)
    with ProceduralMemory(tmp_path) as memory:
        kept = memory.store.rows("state_edges")
        memory.rebuild()
        assert memory.store.rows("state_edges") == kept
