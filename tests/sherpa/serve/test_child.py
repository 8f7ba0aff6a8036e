"""The client's side of a child: one that dies, hangs, talks nonsense or cannot be started."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sherpa.errors import OperationError
from sherpa.serve import child as module
from sherpa.serve.child import ChildBackend
from sherpa.serve.lines import LONGEST_LINE

CHILD = """
import json, os, sys, time
marker = sys.argv[1]
open(marker, "a").write("started\\n")
for line in sys.stdin:
    request = json.loads(line)
    name = request["params"].get("caseId", "")
    open(marker, "a").write(f"{request['operation']} {name[:20]}\\n")
    if name == "die" or name == "die-once" and open(marker).read().count("die-once") == 1:
        os._exit(7)
    if name == "silent":
        continue
    if name == "nonsense":
        print("not JSON")
        print('{"id": 999999, "result": 1}')
        print('{"id": null, "error": {"code": "invalid_request", "message": "?"}}')
        sys.stdout.buffer.write(b"\\xff\\xfe\\n")
    if name == "refused":
        print(json.dumps({"id": request["id"], "error": {"code": "not_found", "message": "no such case"}}), flush=True)
        continue
    print(json.dumps({"id": request["id"], "result": {"pid": os.getpid(), "asked": name}}), flush=True)
open(marker, "a").write("ended\\n")
"""
Start = Callable[..., ChildBackend]


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "marker"


@pytest.fixture
def start(marker: Path) -> Iterator[Start]:
    started: list[ChildBackend] = []

    def begin(timeout: float = 10.0) -> ChildBackend:
        started.append(ChildBackend([sys.executable, "-c", CHILD, str(marker)], timeout=timeout))
        return started[-1]

    yield begin
    for one in started:
        one.close()


def test_one_child_answers_everybody(start: Start, marker: Path) -> None:
    asking = start()
    found: list[tuple[str, str]] = []

    def ask(name: str) -> None:
        found.append((name, asking.call("next", {"caseId": name})["asked"]))

    threads = [threading.Thread(target=ask, args=(f"case-{n}",)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted((f"case-{n}", f"case-{n}") for n in range(20))
    assert marker.read_text().count("started") == 1
    asking.close()
    assert marker.read_text().endswith("ended\n"), "its input ended, and it could finish"
    with pytest.raises(OperationError, match="closed"):
        asking.call("status", {})


def test_a_child_that_was_killed_is_started_again(start: Start) -> None:
    asking = start()
    first = asking.call("next", {"caseId": "c"})["pid"]
    assert asking.pid == first
    os.kill(first, signal.SIGKILL)
    second = asking.call("next", {"caseId": "c"})["pid"]
    assert second not in (None, first)
    assert asking.pid == second


def test_one_that_dies_over_a_question_is_asked_again_after_its_start(start: Start, marker: Path) -> None:
    assert start().call("next", {"caseId": "die-once"})["asked"] == "die-once"
    assert marker.read_text().count("started") == 2


def test_what_may_not_be_repeated_is_not(start: Start, marker: Path) -> None:
    with pytest.raises(OperationError, match="ended with 7; whether forget was done is not known") as raised:
        start().call("forget", {"caseId": "die"})
    assert raised.value.code == "backend_unavailable"
    assert marker.read_text().count("forget die") == 1


def test_one_that_always_dies_is_told_in_time(start: Start) -> None:
    asking = start(timeout=1.0)
    began = time.monotonic()
    with pytest.raises(OperationError, match="the child ended") as raised:
        asking.call("next", {"caseId": "die"})
    assert raised.value.code == "backend_unavailable"
    assert time.monotonic() - began < 2


def test_a_refusal_is_told_as_it_is(start: Start) -> None:
    with pytest.raises(OperationError, match="no such case") as raised:
        start().call("forget", {"caseId": "refused"})
    assert raised.value.code == "not_found"


def test_nonsense_in_between_is_passed_over(start: Start) -> None:
    assert start().call("next", {"caseId": "nonsense"})["asked"] == "nonsense"


def test_no_answer_is_told_in_time_and_the_next_question_is_answered(start: Start) -> None:
    asking = start(timeout=1.0)
    asking.call("next", {"caseId": "c"})
    with pytest.raises(OperationError, match="no answer within"):
        asking.call("next", {"caseId": "silent"})
    assert asking.call("next", {"caseId": "c"})["asked"] == "c"


def test_a_child_that_does_not_read_holds_nobody_up_and_is_ended(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a pipe holds: whoever writes it would wait for ever."""
    asking = start(timeout=0.5)
    stuck = asking.call("next", {"caseId": "c"})["pid"]
    os.kill(stuck, signal.SIGSTOP)
    for _ in range(2):
        began = time.monotonic()
        with pytest.raises(OperationError, match="no answer within"):
            asking.call("next", {"caseId": "x" * 1_000_000})
        assert time.monotonic() - began < 1.5
    assert asking.pid == stuck, "it may only be slow"
    monkeypatch.setattr(module, "_STUCK_SECONDS", 0.1)
    with pytest.raises(OperationError, match=r"no answer within|ended"):
        asking.call("next", {"caseId": "c"})
    monkeypatch.undo()
    end = time.monotonic() + 10
    while asking.pid == stuck and time.monotonic() < end:
        try:
            asking.call("next", {"caseId": "c"})
        except OperationError:
            time.sleep(0.05)
    assert asking.pid not in (None, stuck)


def test_a_program_that_is_not_there_is_named() -> None:
    asking = ChildBackend(["/no/such/program"], timeout=0.3)
    with pytest.raises(OperationError, match="/no/such/program cannot be started") as raised:
        asking.call("next", {"caseId": "c"})
    asking.close()
    assert raised.value.code == "backend_unavailable"


def test_what_is_too_large_for_a_line_is_refused_here(start: Start, marker: Path) -> None:
    with pytest.raises(OperationError) as raised:
        start().call("ingest_batch", {"events": ["x" * LONGEST_LINE]})
    assert raised.value.code == "too_large"
    assert not marker.exists()


def test_its_environment_is_that_of_this_process_and_more(tmp_path: Path) -> None:
    script = "import json, os; print(json.dumps({'id': 1, 'result': [os.environ.get('EXTRA'), 'PATH' in os.environ]}))"
    asking = ChildBackend(
        [sys.executable, "-c", f"input(); {script}; input()"], environment={"EXTRA": "yes"}, timeout=10
    )
    assert asking.call("next", {}) == ["yes", True]
    asking.close()
