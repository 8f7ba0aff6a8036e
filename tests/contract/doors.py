"""The calls that every door must answer alike, and the doors: ways to make a call of a memory in a folder."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

from sherpa import SherpaClient
from sherpa.configuration import Transport
from sherpa.errors import OperationError
from sherpa.serve.operations import OPERATIONS, find_operation

Call = tuple[str, dict[str, Any]]
Door = Callable[[str, Mapping[str, Any]], Any]
SHERPA = [sys.executable, "-m", "sherpa"]
_STEPS = {
    "mon": ("task.started", "tests.run", "tests.failed", "fix.applied", "tests.run", "task.completed"),
    "tue": ("task.started", "tests.run", "task.completed"),
    "wed": ("task.started", "tests.run", "tests.failed", "task.failed"),
    "thu": ("task.started", "tests.run", "tests.failed", "fix.applied", "tests.run", "task.completed"),
    "now": ("task.started", "tests.run"),
}
_OUTCOME = {"task.completed": "success", "tests.failed": "failure", "task.failed": "failure"}


def event(case: str, at: int, kind: str, **more: Any) -> dict[str, Any]:
    """An event with everything that would otherwise be chosen by the other side."""
    day = list(_STEPS).index(case) + 1 if case in _STEPS else 9
    return {
        "eventId": f"{case}-{at}",
        "caseId": case,
        "source": "doors",
        "type": kind,
        "ts": f"2026-03-{day:02d}T10:{at:02d}:00Z",
        "outcome": _OUTCOME.get(kind, "unknown"),
        **more,
    }


def _story() -> Iterator[Call]:
    for case, kinds in _STEPS.items():
        for at, kind in enumerate(kinds):
            yield "ingest_event", event(case, at, kind)


SNAPSHOT = {
    "exportedAt": "2026-03-01T00:00:00.000Z",
    "events": [event("fri", at, kind) for at, kind in enumerate(_STEPS["tue"])] + [event("mon", 0, "task.started")],
}
_REFUSED: list[Call] = [
    ("ingest_event", {"caseId": "x", "source": "doors"}),
    ("ingest_event", {"caseId": "", "source": "doors", "type": "a"}),
    ("ingest_event", {"caseId": "a\nb", "source": "doors", "type": "a"}),
    ("ingest_event", event("x", 0, "a", outcome="perhaps")),
    ("ingest_event", event("x", 0, "a", ts="yesterday")),
    ("ingest_event", event("x", 0, "a", labels=["y" * 600])),
    ("ingest_event", event("x", 0, "a", meta={"padding": "z" * 300_000})),
    ("ingest_event", event("x", 0, "a", metrics={"n": "many"})),
    ("next", {}),
    ("next", {"caseId": "now", "limit": 0}),
    ("next", {"caseId": "now", "limt": 1}),
    ("next", {"caseId": 7}),
    ("state", {"caseId": "now", "maxOrder": 99}),
    ("recall", {"caseId": "now", "mode": "lucky"}),
    ("taxonomy", {"recentDays": "all"}),
    ("import", {}),
    ("import", {"name": "../secret.json"}),
    ("import", {"name": "absent.json"}),
    ("status", {"verbose": True}),
]
TOOL_CALLS: list[Call] = [
    ("status", {}),
    ("next", {"caseId": "now"}),
    *_story(),
    ("ingest_event", event("mon", 0, "task.started")),
    ("ingest_event", event("mon", 0, "another.type")),
    ("ingest_event", event("odd", 0, "naïve'; DROP TABLE events; --", labels=["ünï", "tool:x"], metrics={"n": 1.5})),
    ("ingest_event", event("odd", 1, "日本", meta={"deep": {"list": [1, 2.5, None, True]}}, context={"text": "why"})),
    *(("state", {"caseId": case}) for case in ("now", "mon", "odd", "nobody")),
    ("state", {"caseId": "now", "maxOrder": 1}),
    *(("next", {"caseId": case}) for case in ("now", "wed", "odd", "nobody")),
    ("next", {"caseId": "now", "limit": 1}),
    *(("outcomes", {"caseId": case}) for case in ("now", "tue", "nobody")),
    ("risks", {"caseId": "now", "limit": 1}),
    *(("recall", {"caseId": "now", "mode": mode, "limit": 2}) for mode in ("successful", "failed", "any")),
    ("recall", {"caseId": "odd"}),
    ("taxonomy", {"recentDays": 30, "limit": 3}),
    ("taxonomy", {}),
    ("analytics", {"limit": 4}),
    ("metrics", {}),
    ("doctor", {}),
    ("rebuild", {}),
    ("export", {}),
    ("import", {"name": "snapshot.json"}),
    ("import", {"name": "snapshot.json"}),
    ("next", {"caseId": "fri"}),
    ("gc", {}),
    ("status", {}),
    *_REFUSED,
]
OTHER_CALLS: list[Call] = [
    ("ingest_batch", {"events": [event("sat", at, kind) for at, kind in enumerate(_STEPS["mon"])]}),
    ("ingest_batch", {"events": [event("sat", 0, "task.started"), event("sun", 0, "task.started")]}),
    ("ingest_batch", {"events": [event("bad", 0, "a"), {"caseId": "bad"}]}),
    ("ingest_batch", {"events": []}),
    ("state", {"caseId": "bad"}),
    ("advise", {"caseId": "now"}),
    ("advise", {"caseId": "now", "record": True}),
    ("advise", {"session": {"key": "agent:main:telegram:direct:1"}}),
    ("advise", {}),
    ("next", {"session": {"key": "agent:main:telegram:direct:1"}}),
    ("import", {"events": SNAPSHOT["events"], "exportedAt": "2026-03-01T00:00:00.000Z"}),
    ("forget", {"caseId": "sat"}),
    ("forget", {"caseId": "sat"}),
    ("drain", {}),
    ("nothing", {}),
    ("status", {}),
]
_MOMENTS = frozenset(
    {"ageMs", "generatedAt", "exportedAt", "importedAt", "lastRebuildAt", "rebuiltAt", "recentWindowStart"}
)
_FILE = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z\.json")
_DISK = re.compile(r"[\d.,]+ (?:[KMGT]iB|GB|MB)")


def comparable(answer: Any, root: Path) -> Any:
    """An answer without the present time, free disk space and the folder's own name."""
    if isinstance(answer, dict):
        return {key: "MOMENT" if key in _MOMENTS and value is not None else comparable(value, root)
                for key, value in answer.items()}  # fmt: skip
    if isinstance(answer, list):
        return [comparable(item, root) for item in answer]
    if isinstance(answer, str):
        return _DISK.sub("SPACE", _FILE.sub("FILE", answer.replace(str(root), "ROOT")))
    return answer


def prepare(root: Path) -> None:
    """A folder with a snapshot to import and a secret beside the folders that may be read."""
    (root / "import").mkdir(parents=True)
    (root / "import" / "snapshot.json").write_text(json.dumps(SNAPSHOT))
    (root / "secret.json").write_text(json.dumps({"events": []}))


def play(door: Door, calls: list[Call], root: Path) -> list[Any]:
    """The answers to calls, errors as their code and message."""
    found = []
    for operation, parameters in calls:
        try:
            answer = door(operation, parameters)
        except OperationError as error:
            answer = {"error": error.code, "message": str(error)}
        found.append(comparable(answer, root))
    return found


@contextmanager
def client_door(root: Path, mode: str) -> Iterator[Door]:
    """Through the SDK."""
    transport = None
    if mode == "http":
        transport = Transport(mode="http", base_url=f"http://127.0.0.1:{free_port()}", manage_process=True)
    with SherpaClient(root, mode=mode, transport=transport) as client:
        yield lambda operation, parameters: client.call(operation, **parameters)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def mcp_door(root: Path, transport: str) -> Iterator[Door]:
    """Through the official MCP client, over standard input and output or over HTTP."""
    with daemon(root) if transport == "http" else _nothing() as place, _Loop() as loop:
        session = loop.run(_open(loop.stack, root, place))

        def door(operation: str, parameters: Mapping[str, Any]) -> Any:
            return loop.run(_ask(session, operation, parameters))

        yield door


@contextmanager
def _nothing() -> Iterator[None]:
    yield None


@contextmanager
def daemon(root: Path, *arguments: str) -> Iterator[tuple[str, str]]:
    """A daemon; gives its base address and its token."""
    command = [*SHERPA, "--root", str(root), "--json", "serve", "--port", "0", "--owned", *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        lines = []
        while not lines or lines[-1] != b"}\n":
            lines.append(process.stdout.readline())
            assert lines[-1], "the daemon did not start"
        url = json.loads(b"".join(lines))["url"]
        yield url, (root / "daemon.token").read_text().strip()
    finally:
        process.stdin.close()
        process.wait(20)
        process.stdout.close()


class _Loop:
    """An event loop in a thread, for clients that stay open between calls of a test."""

    def __enter__(self) -> _Loop:
        self.stack = AsyncExitStack()
        self._loop = asyncio.new_event_loop()
        self._queue: asyncio.Queue[Any] = asyncio.Queue()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._work(),))
        self._thread.start()
        return self

    async def _work(self) -> None:
        # The client's tasks must be ended by the task that began them: one task does everything.
        while (item := await self._queue.get()) is not None:
            work, told = item
            try:
                told.append(await work)
            except BaseException as error:
                told.append(error)
            self._done.set()
        await self.stack.aclose()

    def run(self, work: Awaitable[Any]) -> Any:
        told: list[Any] = []
        self._done = threading.Event()
        self._loop.call_soon_threadsafe(self._queue.put_nowait, (work, told))
        assert self._done.wait(60)
        if isinstance(told[0], BaseException):
            raise told[0]
        return told[0]

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._queue.put_nowait, None)
        self._thread.join(30)
        self._loop.close()


async def _open(stack: AsyncExitStack, root: Path, place: tuple[str, str] | None) -> Any:
    from mcp import ClientSession, StdioServerParameters, stdio_client

    if place is None:
        parameters = StdioServerParameters(command=SHERPA[0], args=[*SHERPA[1:], "--root", str(root), "mcp"])
        streams = await stack.enter_async_context(stdio_client(parameters))
    else:
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        url, token = place
        http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=30)
        await stack.enter_async_context(http)
        streams = await stack.enter_async_context(streamable_http_client(f"{url}/mcp", http_client=http))
    session = await stack.enter_async_context(ClientSession(streams[0], streams[1]))
    await session.initialize()
    await session.list_tools()
    return session


async def _ask(session: Any, operation: str, parameters: Mapping[str, Any]) -> Any:
    name = "workflow_risks" if operation == "risks" else (find_operation(operation) or OPERATIONS["status"]).tool
    result = await session.call_tool(name, dict(parameters))
    told = json.loads(result.content[0].text)
    if result.is_error:
        raise OperationError(told["error"]["code"], told["error"]["message"])
    assert result.structured_content == told
    return told
