"""The MCP server, on the protocol's own SDK: tools of the memory over standard input and output, or over HTTP."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import os
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from sherpa import __version__
from sherpa.errors import OperationError
from sherpa.serve.guests import NOBODY, Guests
from sherpa.serve.operations import TOOLS, Operation
from sherpa.serve.schemas import answer_schema, tool_parameters
from sherpa.serve.service import Opening, parameters_of
from sherpa.serve.workers import Answer, Workers

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server

    from sherpa.serve.daemon import App, Receive, Send

_INSTRUCTIONS = (
    "Procedural memory of this agent's recurring work. Ask workflow_next before you choose a step, workflow_outcomes "
    "before a step that is hard to undo, workflow_recall to see how similar cases ended. Everything is counted from "
    "past events on this machine; nothing is generated."
)
_encoder = msgspec.json.Encoder()


def build_server(workers: Workers) -> Server[Any]:
    """The MCP server over workers that were started."""
    import mcp_types as types
    from mcp.server.lowlevel.server import Server

    async def list_tools(context: Any, parameters: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        tools = TOOLS | workers.guests.tools()
        return types.ListToolsResult(tools=[_tool(name, operation) for name, operation in tools.items()])

    async def call_tool(context: Any, parameters: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            answer = await _call(workers, parameters.name, parameters.arguments or {})
        except OperationError as error:
            text = _encoder.encode({"error": {"code": error.code, "message": str(error)}}).decode()
            return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=answer.decode())],
            structured_content=msgspec.json.decode(answer),
        )

    return Server(
        "sherpa",
        version=__version__,
        title="Sherpa",
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _tool(name: str, operation: Operation) -> Any:
    import mcp_types as types

    description = operation.description
    if name == "workflow_risks":
        description = f"Same as {operation.tool}. {description}"
    return types.Tool(
        name=name,
        title=operation.title,
        description=description,
        input_schema=tool_parameters(operation),
        output_schema=answer_schema(operation),
        annotations=types.ToolAnnotations(
            title=operation.title,
            read_only_hint=operation.read_only,
            destructive_hint=operation.destructive,
            idempotent_hint=operation.repeatable,
            open_world_hint=False,
        ),
    )


async def _call(workers: Workers, name: str, arguments: dict[str, Any]) -> bytes:
    operation = TOOLS.get(name) or workers.guests.find(name)
    if operation is None or operation.tool is None:
        raise OperationError("unknown_operation", f"no tool {name[:80]!r}; there are {', '.join(TOOLS)}")
    parameters = parameters_of(operation, arguments)
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Answer] = loop.create_future()
    workers.submit(operation, parameters, lambda answer: _tell(loop, future, answer))
    answer = await future
    if isinstance(answer, OperationError):
        raise answer
    return answer


def _tell(loop: asyncio.AbstractEventLoop, future: asyncio.Future[Answer], answer: Answer) -> None:
    def settle() -> None:
        if not future.done():
            future.set_result(answer)

    with suppress(RuntimeError):  # the loop has ended: nobody waits any more
        loop.call_soon_threadsafe(settle)


def serve_stdio(opening: Opening, guests: Guests = NOBODY) -> None:
    """Serve one client over standard input and output, until the input ends.

    The memory is opened by the first call, so that a client sees the tools at once.
    """
    with server_only():
        from mcp.server.stdio import stdio_server

        workers = Workers(opening, guests=guests)
        workers.start(check=False)
        server = build_server(workers)

    async def run() -> None:
        async with stdio_server() as (source, sink):
            await server.run(source, sink, server.create_initialization_options())

    try:
        asyncio.run(run())
    finally:
        workers.close()


class McpEndpoint:
    """The MCP server as an ASGI application. The SDK is loaded by the first request.

    Every request stands alone: nothing is kept between them, so a daemon that starts anew is not missed.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._app: App | None = None
        self._task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[App] | None = None
        self._stop = asyncio.Event()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """One request."""
        if self._app is None:
            await self.start()
        assert self._app is not None
        await self._app(scope, receive, send)

    async def start(self) -> None:
        """Load the SDK and begin."""
        if self._ready is None:
            self._ready = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._run(self._ready))
        self._app = await asyncio.shield(self._ready)

    async def close(self) -> None:
        """End what was begun."""
        self._stop.set()
        if self._task is not None:
            await self._task

    async def _run(self, ready: asyncio.Future[App]) -> None:
        # The manager's tasks must end in the task that began them, so they have one of their own.
        try:
            from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

            manager = StreamableHTTPSessionManager(build_server(self._workers), json_response=True, stateless=True)
            async with manager.run():
                ready.set_result(manager.handle_request)
                await self._stop.wait()
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)


@contextmanager
def server_only() -> Iterator[None]:
    """Import parts of the SDK's server without all that its packages load when they are imported as a whole.

    ``mcp`` loads the client and ``mcp.server`` a second framework, together a third of the time that a child needs to
    start. Within the block both are bare packages; after it a plain import finds them as they are. What is loaded
    stays, so the collector of garbage does not look through it meanwhile; no plugin of another package is
    looked for.
    """
    bare = []
    collecting = gc.isenabled()
    gc.disable()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    for name in ("mcp", "mcp.server"):
        if name in sys.modules:
            continue
        spec = importlib.util.find_spec(name)
        if spec is not None:
            sys.modules[name] = importlib.util.module_from_spec(spec)
            bare.append(name)
    try:
        yield
    finally:
        for name in bare:
            del sys.modules[name]
        if collecting:
            gc.enable()
