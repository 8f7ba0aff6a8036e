"""The tools on Sherpa's MCP server, with the protocol's own client: a run per profile, a server for every call."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from harness.saga.model import PROFILE_IDS
from harness.saga.tools import TOOLS
from tests.conftest import PROJECT
from tests.harness.saga.scripted import TEXT, file, plan, verdict


@asynccontextmanager
async def client(root: Path) -> AsyncIterator[Any]:
    from mcp import ClientSession, StdioServerParameters, stdio_client

    arguments = ["-m", "sherpa", "--root", str(root), "mcp"]
    parameters = StdioServerParameters(command=sys.executable, args=arguments, cwd=str(PROJECT))
    async with stdio_client(parameters) as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        yield session


async def call(session: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await session.call_tool(tool, arguments)
    found: dict[str, Any] = json.loads(result.content[0].text)
    assert result.is_error == ("error" in found)
    assert result.structured_content == (None if result.is_error else found)
    return found


def steps(profile: str) -> list[tuple[dict[str, Any], str]]:
    """What is sent, and what comes of it."""
    text, more = [{"path": "a.md", "content": TEXT}], [{"path": "a.md", "content": TEXT * 2}]
    return [
        ({"planYaml": plan([file("a.md", minBytes=50)], [file("b.md")], evaluator="deep")}, "worker_mode_queued"),
        ({"workerFinished": True, "artifacts": [{"path": "a.md", "content": "short"}]}, "revision_queued"),
        ({"workerFinished": True, "artifacts": text}, "eval_deep_required"),
        ({"evalResult": verdict(profile, H2="FAIL-REWORK")}, "revision_queued"),
        ({"workerFinished": True, "artifacts": more}, "eval_deep_required"),
        ({"evalResult": verdict(profile, H1="FAIL-ESCALATE")}, "await_human"),
        ({"humanInput": "go on"}, "worker_mode_queued"),
        ({"workerFinished": True, "artifacts": more}, "eval_deep_required"),
        ({"evalResult": verdict(profile)}, "worker_mode_queued"),
        ({"workerFinished": True, "artifacts": [{"path": "b.md", "content": TEXT}]}, "eval_deep_required"),
        ({"evalResult": verdict(profile)}, "terminated"),
    ]


def test_a_run_per_profile(tmp_path: Path) -> None:
    async def run() -> None:
        async with client(tmp_path) as session:
            tools = {tool.name: tool for tool in (await session.list_tools()).tools}
            sagas = {name for name in tools if not name.startswith("workflow_")}
            assert sagas == {"saga_start", "saga_advance", "saga_status", "saga_cancel"}
            assert tools["saga_status"].annotations.read_only_hint
            assert tools["saga_cancel"].annotations.destructive_hint
            properties = tools["saga_advance"].input_schema["properties"]
            assert "workerDiagnostics" in properties
            assert "escalate" in properties["evalResult"]["properties"]
            assert properties.keys() == TOOLS["saga_advance"].parameters["properties"].keys()
            for profile in PROFILE_IDS:
                started = await call(session, "saga_start", goal="Make two files.", profile=profile)
                saga_id = started["sagaId"]
                for arguments, following in steps(profile):
                    found = await call(session, "saga_advance", sagaId=saga_id, **arguments)
                    assert found["nextAction"] == following, found
                assert found["reason"] == "completed"
                assert (await call(session, "saga_status", sagaId=saga_id))["cursor"] == 2
                assert (await call(session, "saga_cancel", sagaId=saga_id))["error"]["code"] == "refused"
            assert (await call(session, "saga_advance", sagaId="../.."))["error"]["code"] == "invalid_parameters"

    asyncio.run(run())


def test_a_server_of_its_own_for_every_call(tmp_path: Path) -> None:
    """Nothing is kept in the server: the saga goes on in another one, and without its snapshot."""

    async def once(tool: str, **arguments: Any) -> dict[str, Any]:
        async with client(tmp_path) as session:
            return await call(session, tool, **arguments)

    started = asyncio.run(once("saga_start", goal="Make two files.", profile="generic"))
    for arguments, following in steps("generic"):
        found = asyncio.run(once("saga_advance", sagaId=started["sagaId"], **arguments))
        assert found["nextAction"] == following, found
        (tmp_path / "saga" / "runs" / started["sagaId"] / "state.json").unlink()
    assert found["reason"] == "completed"
