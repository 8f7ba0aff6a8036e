"""``sherpa mcp`` as a host runs it: a child that speaks the protocol alone, and may be killed at any time."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sherpa import ProceduralMemory


class Child:
    """The server and one client, line by line."""

    def __init__(self, root: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sherpa", "--root", str(root), "mcp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        self.told = self.ask(1, "initialize", hello)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, number: int, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters})
        return self.line()

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def call(self, number: int, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = self.ask(number, "tools/call", {"name": tool, "arguments": arguments})["result"]
        return answer

    def end(self) -> bytes:
        """Close the input; gives what else came on standard output."""
        rest, _ = self.process.communicate(timeout=30)
        return rest


def test_it_says_what_it_is_and_when_to_call_its_tools(tmp_path: Path) -> None:
    child = Child(tmp_path / "root")
    assert child.told["result"]["serverInfo"]["name"] == "sherpa"
    assert "workflow_next" in child.told["result"]["instructions"]
    tools = {tool["name"]: tool for tool in child.ask(2, "tools/list", {})["result"]["tools"]}
    seed = "status state next outcomes recall taxonomy analytics doctor rebuild export import metrics gc ingest_event"
    sagas = {"saga_start", "saga_advance", "saga_status", "saga_cancel"}
    assert set(tools) == {f"workflow_{name}" for name in seed.split()} | {"workflow_risks"} | sagas
    tools = {name: tool for name, tool in tools.items() if name not in sagas}
    writing = {name for name, tool in tools.items() if not tool["annotations"]["readOnlyHint"]}
    assert writing == {f"workflow_{name}" for name in ("rebuild", "export", "import", "gc", "ingest_event")}
    assert all("Call it" in tool["description"] for tool in tools.values())
    assert not (tmp_path / "root").exists(), "nothing is opened before a call needs it"
    assert child.end() == b""
    assert child.process.returncode == 0


def test_what_is_not_there_is_an_error_of_the_tool_and_the_server_goes_on(tmp_path: Path) -> None:
    child = Child(tmp_path)
    missing = child.call(2, "workflow_fortune", {})
    assert missing["isError"]
    assert json.loads(missing["content"][0]["text"])["error"]["code"] == "unknown_operation"
    child.send({"jsonrpc": "2.0", "id": 3, "method": "tools/fortune"})
    assert "error" in child.line()
    assert child.process.stdin is not None
    child.process.stdin.write(b"this is no JSON\n")
    child.process.stdin.flush()
    answers = [child.ask(4, "tools/list", {})]
    while answers[-1].get("id") != 4:
        answers.append(child.line())
    assert len(answers[-1]["result"]["tools"]) == 19
    child.end()


def test_a_memory_that_cannot_be_opened_is_told_by_the_tool(tmp_path: Path) -> None:
    (tmp_path / "graph.db").write_bytes(b"this is no database at all" * 100)
    child = Child(tmp_path)
    answer = child.call(2, "workflow_status", {})
    assert answer["isError"]
    assert "graph.db" in answer["content"][0]["text"]
    child.end()


def killed_at_random(root: Path, points: int, rng: random.Random) -> list[str]:
    acknowledged: list[str] = []
    for point in range(points):
        child = Child(root)
        end = time.monotonic() + rng.uniform(0.02, 0.3)
        number = 1
        while time.monotonic() < end:
            number += 1
            event_id = f"p{point}-{number}"
            arguments = {"eventId": event_id, "caseId": f"c{point}", "source": "t", "type": f"step-{number % 4}"}
            answer = child.call(number, "workflow_ingest_event", arguments)
            assert not answer["isError"], answer
            acknowledged.append(event_id)
        # One more is on its way when the end comes.
        child.send(
            {"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": {"name": "workflow_ingest_event",
             "arguments": {"caseId": f"c{point}", "source": "t", "type": "last"}}}
        )  # fmt: skip
        time.sleep(rng.uniform(0, 0.005))
        os.kill(child.process.pid, signal.SIGKILL)
        child.process.communicate()
    return acknowledged


@pytest.mark.parametrize("points", [5, pytest.param(50, marks=pytest.mark.full)])
def test_what_was_acknowledged_survives_kill(points: int, tmp_path: Path) -> None:
    acknowledged = killed_at_random(tmp_path, points, random.Random(7))
    assert len(acknowledged) > points
    with ProceduralMemory(tmp_path) as memory:
        held = [event.event_id for event in memory.ledger.read()]
        assert len(held) == len(set(held))
        assert set(acknowledged) <= set(held)
        before = memory.store.rows("state_edges")
        memory.rebuild()
        assert memory.store.rows("state_edges") == before
