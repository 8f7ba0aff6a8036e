"""Interruptions, doubt and rivals. Acceptance checks 75, 76, 86 to 89 and 95."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from harness.runtime.bench.ledger import registry, texts
from harness.runtime.bench.scenarios import DURABLE_LEDGER, durable
from harness.runtime.capabilities import Capability, CapabilitySpec, Context, Inputs
from harness.runtime.engine import KILL_VARIABLE, Engine
from harness.runtime.errors import RunStoreError
from harness.runtime.run import Policies
from tests.conftest import PROJECT
from tests.harness.runtime.made import append, call, end, engine, kinds, lines, loop, problem, same


class Interrupting(Capability):
    """Is interrupted every time."""

    spec = CapabilitySpec(name="test.interrupt", idempotent=True)

    def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
        raise KeyboardInterrupt


class Doubtful(Capability):
    """Takes effect, and is interrupted before anyone hears of it, the first time."""

    spec = CapabilitySpec(name="test.doubtful")

    def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
        with open(context.workspace / "ledger.txt", "a") as file:
            file.write("effect\n")
        if len(lines(context.workspace)) == 1:
            raise KeyboardInterrupt
        return {}


class Repeatable(Doubtful):
    """The same, and may be repeated."""

    spec = CapabilitySpec(name="test.repeatable", idempotent=True)


KILLED = """
import sys
from pathlib import Path
from tests.harness.runtime.made import *
with engine(Path(sys.argv[1]), fault_injection=True) as made:
    made.run(json.loads(sys.argv[2]), "r")
"""


def killed(workspace: Path, spec: dict[str, Any], after: int) -> None:
    """Run a problem in another process until the log has so many events."""
    environment = {**os.environ, KILL_VARIABLE: str(after), "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(workspace), json.dumps(spec)], env=environment, check=False
    )
    assert done.returncode == -signal.SIGKILL


def test_075_a_loop_body_is_finished_after_a_crash(tmp_path: Path) -> None:
    once = [call("a", "test.append_once", text="a"), call("b", "test.append_once", text="b")]
    spec = problem(loop("l", 2, *once), end())
    with engine(tmp_path / "whole") as made:
        made.run(spec, "r")
        found = list(made.store.events("r"))
    between = next(e.seq for e in found if e.kind == "node_created" and e.node_key == "root_p@1.b@2")
    killed(tmp_path / "cut", spec, between)
    assert len(lines(tmp_path / "cut")) == 3
    with engine(tmp_path / "cut") as made:
        assert made.resume("r").status == "completed"
        assert kinds(made, "r").count("loop_iteration_done") == 2
        assert kinds(made, "r").count("node_progress") == 3
    assert lines(tmp_path / "cut") == lines(tmp_path / "whole")
    assert len(lines(tmp_path / "whole")) == 4


def test_076_killed_after_every_event(tmp_path: Path) -> None:
    from harness.runtime.bench.sweep import sweep

    report = sweep("small", tmp_path)
    assert report["kills"] == report["events"] > 60
    assert report["differences"] == []


def test_086_interrupted_as_often_as_allowed(tmp_path: Path) -> None:
    for limit in (1, 2):
        with engine(tmp_path / str(limit), Interrupting()) as made:
            spec = problem(call("i", "test.interrupt"), end(), budgets={"max_attempts_per_node": limit})
            with pytest.raises(KeyboardInterrupt):
                made.run(spec, "r")
            for _ in range(limit - 1):
                with pytest.raises(KeyboardInterrupt):
                    made.resume("r")
            result = made.resume("r")
            assert result.status == "budget_exhausted"
            assert "max_attempts_per_node" in str(result.error)
            assert kinds(made, "r").count("attempt_started") == limit
            assert made.status("r")["nodes"]["root_p@1.i"]["state"] == "budget_exhausted"
            assert "crash_detected" in kinds(made, "r")
            assert "orphan_recovered" in kinds(made, "r")
            assert same(made, "r")


def test_087_what_is_in_doubt_is_not_repeated(tmp_path: Path) -> None:
    with engine(tmp_path, Doubtful()) as made:
        spec = problem(call("d", "test.doubtful"), append("after"), end())
        with pytest.raises(KeyboardInterrupt):
            made.run(spec, "r")
        result = made.resume("r")
        assert (result.status, lines(tmp_path)) == ("escalated", ["effect"])
        assert "in doubt" in str(result.error)
        assert "in_doubt_detected" in kinds(made, "r")
        with pytest.raises(RunStoreError, match="done or redo"):
            made.resolve_in_doubt("r", "root_p@1.d", "whatever")
        with pytest.raises(RunStoreError, match="not in doubt"):
            made.resolve_in_doubt("r", "root_p@1.after", "done")
        made.resolve_in_doubt("r", "root_p@1.d", "done", evidence="the line is there")
        assert made.resume("r").status == "completed"
        assert lines(tmp_path) == ["effect", "after"]
        assert same(made, "r")


def test_087_an_operator_may_have_it_done_again(tmp_path: Path) -> None:
    with engine(tmp_path, Doubtful()) as made:
        with pytest.raises(KeyboardInterrupt):
            made.run(problem(call("d", "test.doubtful"), end(), budgets={"max_attempts_per_node": 2}), "r")
        made.resume("r")
        made.resolve_in_doubt("r", "root_p@1.d", "redo")
        assert made.resume("r").status == "completed"
        assert lines(tmp_path) == ["effect", "effect"]


def test_087_what_may_be_repeated_is(tmp_path: Path) -> None:
    with engine(tmp_path, Repeatable()) as made:
        with pytest.raises(KeyboardInterrupt):
            made.run(problem(call("d", "test.repeatable"), end()), "r")
        assert made.resume("r").status == "completed"
        assert lines(tmp_path) == ["effect", "effect"]


def test_088_a_node_that_another_holds(tmp_path: Path) -> None:
    with engine(tmp_path, policies=Policies(lease_wait=0.1)) as made:
        made.store.leases.acquire("r", "root_p@1.a", "somebody")
        result = made.run(problem(append("a"), end()), "r")
        assert (result.status, lines(tmp_path)) == ("blocked", [])
        assert "leased by somebody" in str(result.error)
        assert "lease_denied" in kinds(made, "r")
        made.store.leases.release("r", "root_p@1.a", "somebody")
        assert made.resume("r").status == "completed"
    assert lines(tmp_path) == ["a"]


def test_088_a_lease_that_runs_out_is_waited_for(tmp_path: Path) -> None:
    with engine(tmp_path, policies=Policies(lease_wait=5)) as made:
        made.store.leases.acquire("r", "root_p@1.a", "somebody", ttl=0.2)
        assert made.run(problem(append("a"), end()), "r").status == "completed"
    assert lines(tmp_path) == ["a"]


class Slow(Capability):
    """Takes a while."""

    spec = CapabilitySpec(name="test.slow")

    def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
        time.sleep(1.8)
        with open(context.workspace / "ledger.txt", "a") as file:
            file.write("slow\n")
        return {}


def test_089_a_long_call_keeps_its_lease(tmp_path: Path) -> None:
    with engine(tmp_path, Slow(), policies=Policies(lease_ttl=1.0, lease_wait=0)) as made:
        rival: list[str] = []

        def intrude() -> None:
            time.sleep(1.4)
            with engine(tmp_path, Slow(), policies=Policies(lease_ttl=1.0, lease_wait=0)) as other:
                rival.append(other.resume("r").status)

        thread = threading.Thread(target=intrude)
        thread.start()
        result = made.run(problem(call("s", "test.slow"), end()), "r")
        thread.join()
        assert (result.status, rival, lines(tmp_path)) == ("completed", ["blocked"], ["slow"])


def test_089_a_worker_that_was_replaced_stops(tmp_path: Path) -> None:
    class Robbed(Capability):
        spec = CapabilitySpec(name="test.robbed")

        def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
            with engine(context.workspace) as other:
                other.store.leases.acquire(context.run_id, "", "thief", now=time.time() + 1000)
            return {}

    with engine(tmp_path, Robbed()) as made:
        result = made.run(problem(call("x", "test.robbed"), append("after"), end()), "r")
        assert result.status == "running"
        assert "another worker" in str(result.error)
        assert lines(tmp_path) == []
        assert "tool_call_finished" not in kinds(made, "r")


def _race(workspace: str, start: Any, results: Any) -> None:
    with engine(Path(workspace), policies=Policies(lease_wait=20)) as made:
        start.wait()
        results.put(made.resume("r").status)


def race(workspace: Path, spec: dict[str, Any]) -> list[str]:
    """Two processes resume the same paused run at the same time."""
    with engine(workspace) as made:
        assert made.run(spec, "r").status == "blocked"
        made.deliver_message("r", "root_p@1.ask", "go")
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(2), context.Queue()
    workers = [context.Process(target=_race, args=(str(workspace), start, results)) for _ in range(2)]
    for worker in workers:
        worker.start()
    found = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    return found


ASKING = {"kind": "ask_user", "id": "ask", "question": "?"}


def test_089_two_workers_resume_the_same_run(tmp_path: Path) -> None:
    steps = [append(f"s{n}") for n in range(20)]
    assert race(tmp_path, problem(ASKING, *steps, end(), attended=True)) == ["completed", "completed"]
    assert lines(tmp_path) == [f"s{n}" for n in range(20)]
    with engine(tmp_path) as made:
        assert same(made, "r")
        assert kinds(made, "r").count("attempt_started") == 20


@pytest.mark.full
def test_089_two_workers_two_hundred_rounds(tmp_path: Path) -> None:
    from harness.runtime.bench.race import race_rounds

    assert race_rounds(tmp_path, rounds=200) == {"rounds": 200, "double": 0, "lost": 0, "unfinished": 0}


def test_095_a_message_that_was_left_while_nobody_worked(tmp_path: Path) -> None:
    spec = problem(
        call("a", "test.append_once", text="a"), call("b", "test.append_once", text="{{ b_msg.scope }}"), end()
    )
    killed(tmp_path, spec, 14)
    with engine(tmp_path) as made:
        made.deliver_message("r", "root_p@1.b", {"scope": "first"})
        made.deliver_message("r", "root_p@1.b", {"scope": "changed"})
        assert made.status("r")["messages_pending"] == 2
        assert made.resume("r").status == "completed"
        assert made.status("r")["messages_pending"] == 0
        assert kinds(made, "r").count("message_delivered") == 2
        told = [e.payload for e in made.store.events("r", kinds=["journal_appended"]) if e.node_key == "root_p@1.b"]
        assert [t["kind"] for t in told] == ["decision", "decision"]
        assert same(made, "r")
    assert lines(tmp_path)[-1].endswith("changed")


def test_095_the_scope_changes_while_nobody_works(tmp_path: Path) -> None:
    """Demonstration A: killed in the middle, told something while down, and the same ledger in the end."""
    with Engine(tmp_path / "whole", registry=registry()) as made:
        made.run(durable(capability="ledger.append_once"), "r")
    environment = {**os.environ, KILL_VARIABLE: "22", "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-c", DURABLE, str(tmp_path / "cut")]
    assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL
    key = "root_durable_v2@1.tick@2"
    with Engine(tmp_path / "cut", registry=registry()) as made:
        assert made.store.head() == 22
        made.deliver_message("r", key, {"scope": "only two polls"})
        assert made.resume("r").status == "completed"
        delivered = list(made.store.events("r", kinds=["message_delivered"]))
        assert [e.node_key for e in delivered] == [key]
        noted = [e for e in made.store.events("r", kinds=["journal_appended"]) if e.node_key == key]
        assert len(noted) == 1
        assert made.status("r") == made.store.replay_projection("r")
    assert texts(tmp_path / "cut") == texts(tmp_path / "whole") == DURABLE_LEDGER


DURABLE = """
import sys
from pathlib import Path
from harness.runtime.bench.ledger import registry
from harness.runtime.bench.scenarios import durable
from harness.runtime.engine import Engine
with Engine(Path(sys.argv[1]), registry=registry(), fault_injection=True) as made:
    made.run(durable(capability="ledger.append_once"), "r")
"""


def test_095_a_message_is_not_lost_by_a_crash_after_its_delivery(tmp_path: Path) -> None:
    spec = problem(ASKING, call("b", "test.append_once", text="{{ b_msg }}"), end(), attended=True)
    for late in (1, 2, 3, 4, 5):
        home = tmp_path / str(late)
        with engine(home) as made:
            made.run(spec, "r")
            made.deliver_message("r", "root_p@1.b", "hello")
            made.deliver_message("r", "root_p@1.ask", "go")
            head = made.store.head()
        _resumed_and_killed(home, head, late)
        with engine(home) as made:
            assert made.resume("r").status == "completed"
            assert kinds(made, "r").count("message_delivered") == 2
        assert [line.split()[1] for line in lines(home)] == ["hello"]


RESUMED = """
import sys
from pathlib import Path
from tests.harness.runtime.made import *
with engine(Path(sys.argv[1]), fault_injection=True) as made:
    made.resume("r")
"""


def _resumed_and_killed(workspace: Path, head: int, late: int) -> None:
    """Kill a resume some events after the delivery of the message to b."""
    # lease, run_resumed, delivery and journal of the answer, its state; create, lease, state, attempt, delivery.
    environment = {**os.environ, KILL_VARIABLE: str(head + 9 + late), "PYTHONPATH": str(PROJECT)}
    done = subprocess.run([sys.executable, "-c", RESUMED, str(workspace)], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
