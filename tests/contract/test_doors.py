"""The same calls through every door give the same answers."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sherpa import AsyncSherpaClient, SherpaClient
from tests.contract.doors import (
    OTHER_CALLS,
    TOOL_CALLS,
    Call,
    Door,
    client_door,
    event,
    free_port,
    mcp_door,
    play,
    prepare,
)

Opener = Callable[[Path], AbstractContextManager[Door]]
CLIENTS: dict[str, Opener] = {mode: partial(client_door, mode=mode) for mode in ("stdio", "http")}
MODELS: dict[str, Opener] = {
    f"mcp-{transport}": partial(mcp_door, transport=transport) for transport in ("stdio", "http")
}


def answers(opener: Opener, calls: list[Call], root: Path) -> list[Any]:
    prepare(root)
    with opener(root) as door:
        return play(door, calls, root)


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return answers(partial(client_door, mode="embedded"), TOOL_CALLS, tmp_path_factory.mktemp("tools"))


@pytest.fixture(scope="module")
def embedded_more(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return answers(partial(client_door, mode="embedded"), TOOL_CALLS + OTHER_CALLS, tmp_path_factory.mktemp("others"))


def same(found: list[Any], expected: list[Any], calls: list[Call]) -> None:
    for at, (call, one, other) in enumerate(zip(calls, found, expected, strict=True)):
        assert one == other, f"call {at}: {call[0]} {call[1]}"


def test_there_are_more_than_sixty_calls_of_every_tool() -> None:
    assert len(TOOL_CALLS) > 60
    named = {"risks": "outcomes"}
    assert {named.get(name, name) for name, _ in TOOL_CALLS} == {
        "status", "state", "next", "outcomes", "recall", "taxonomy", "analytics", "doctor", "rebuild", "export",
        "import", "metrics", "gc", "ingest_event",
    }  # fmt: skip


@pytest.mark.parametrize("name", CLIENTS)
def test_the_sdk_answers_alike_wherever_the_memory_runs(name: str, embedded_more: list[Any], tmp_path: Path) -> None:
    calls = TOOL_CALLS + OTHER_CALLS
    same(answers(CLIENTS[name], calls, tmp_path / "root"), embedded_more, calls)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_gets_the_same_answers(name: str, embedded: list[Any], tmp_path: Path) -> None:
    # What a tool does not take at all is refused in the same words; only what a host adds differs.
    same(answers(MODELS[name], TOOL_CALLS, tmp_path / "root"), embedded, TOOL_CALLS)


def test_what_is_answered_is_right(embedded: list[Any]) -> None:
    """Counted by hand: after task.started, tests.run three of four cases failed a test, one was completed."""
    calls = dict(zip(map(str, TOOL_CALLS), embedded, strict=True))
    following = calls[str(("next", {"caseId": "now"}))]
    assert {c["event"]: (c["probability"], c["support"]) for c in following["candidates"]} == {
        "tests.failed": (0.75, 3),
        "task.completed": (0.25, 1),
    }
    state = calls[str(("state", {"caseId": "now"}))]
    assert (state["state"], state["matchedOrder"], state["support"]) == (["task.started", "tests.run"], 2, 4)
    recalled = calls[str(("recall", {"caseId": "now", "mode": "failed", "limit": 2}))]
    assert [path["caseId"] for path in recalled["paths"]] == ["wed"]
    first, *_, last = (answer for call, answer in zip(TOOL_CALLS, embedded, strict=True) if call == ("status", {}))
    assert (first["events"], last["events"], last["cases"]) == (0, 21 + 2 + 3, 5 + 1 + 1)
    imports = [a for (name, p), a in zip(TOOL_CALLS, embedded, strict=True) if p == {"name": "snapshot.json"}]
    assert [(a["added"], a["skipped"]) for a in imports] == [(3, 1), (0, 4)]


def test_an_event_that_was_stored_comes_back_as_it_was(embedded: list[Any]) -> None:
    twice = [a for (name, p), a in zip(TOOL_CALLS, embedded, strict=True) if p.get("eventId") == "mon-0"]
    assert [a["type"] for a in twice] == ["task.started"] * 3
    assert len({a["seq"] for a in twice}) == 1


def test_what_does_not_fit_is_refused_with_its_place(embedded: list[Any]) -> None:
    refused = [(call, a) for call, a in zip(TOOL_CALLS, embedded, strict=True) if "error" in a]
    codes = {(call[0], tuple(call[1])): (a["error"], a["message"]) for call, a in refused}
    assert len(refused) == 19
    assert codes["next", ("caseId", "limit")] == ("invalid_parameters", "next: Expected `int` >= 1 - at `$.limit`")
    assert codes["next", ("caseId", "limt")][1] == "next: Object contains unknown field `limt`"
    assert codes["import", ("name",)][0] == "not_found"
    long = next(a["message"] for call, a in refused if "padding" in str(call[1].get("meta", {}))[:20])
    assert "262,144" in long
    assert any("control character" in a["message"] and "$.caseId" in a["message"] for _, a in refused)


@pytest.mark.parametrize("mode", ["embedded", "stdio", "http"])
def test_the_methods_of_the_client(mode: str, tmp_path: Path) -> None:
    """Each method reads its answer into its type; the async client has the same methods."""
    from sherpa.configuration import Transport

    prepare(tmp_path / "root")
    transport = Transport(mode="http", base_url=f"http://127.0.0.1:{free_port()}", manage_process=True)
    with SherpaClient(tmp_path / "root", mode=mode, transport=transport if mode == "http" else None) as client:
        for name, parameters in TOOL_CALLS[2:23]:
            assert name == "ingest_event"
            assert client.ingest(parameters).type == parameters["type"]
        batch = client.ingest_batch([event("mon", 0, "task.started"), {"caseId": "new", "source": "s", "type": "t"}])
        assert (len(batch.events), batch.duplicates) == (1, 1)
        assert client.workflow_state("now").support == 4
        assert [c.event for c in client.workflow_next("now").candidates] == ["tests.failed", "task.completed"]
        assert client.workflow_outcomes("now").case_id == "now"
        assert client.workflow_recall("now", "failed").paths[0].case_id == "wed"
        assert client.status()["events"] == 22
        assert client.taxonomy_report(limit=1)["distinctTypes"] == 7
        assert client.analytics_report(1)["cases"]["total"] == 6
        assert client.metrics()["totalEvents"] == 22
        assert client.doctor()["errors"] == 0
        assert client.rebuild()["healthy"]
        path = Path(client.export()["exportPath"])
        assert client.import_snapshot(path)["skipped"] == 22
        assert client.import_snapshot(tmp_path / "root" / "import" / "snapshot.json")["added"] == 3
        assert client.advise("now")["text"] is None or isinstance(client.advise("now")["text"], str)
        assert client.forget("wed")["removedEvents"] == 4
        assert client.gc()["vacuumed"]


def test_the_async_client_has_the_same_methods_and_overlaps_calls(tmp_path: Path) -> None:
    public = {name for name, member in inspect.getmembers(SherpaClient, inspect.isfunction) if not name.startswith("_")}
    for name in public:
        own, other = getattr(SherpaClient, name), getattr(AsyncSherpaClient, name)
        assert inspect.iscoroutinefunction(other), name
        assert inspect.signature(own).parameters.keys() == inspect.signature(other).parameters.keys(), name

    async def work() -> tuple[int, list[str]]:
        async with AsyncSherpaClient(tmp_path / "root", mode="stdio") as client:
            events = [event("fri", at, f"type-{at}") for at in range(40)]
            stored = await asyncio.gather(*(client.ingest(e) for e in events))
            return (await client.status())["events"], [e.event_id for e in stored]

    # In a thread of its own: a test of a browser may have left a loop running in this one.
    with ThreadPoolExecutor(1) as thread:
        count, ids = thread.submit(lambda: asyncio.run(work())).result()
    assert count == 40
    assert ids == [f"fri-{at}" for at in range(40)]
