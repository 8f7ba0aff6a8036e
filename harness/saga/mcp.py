"""The four tools over MCP, on the protocol's own SDK: descriptors and calls for any server, and one over stdio.

A server that has tools of its own takes `descriptors` into its list and passes calls of `harness.saga.tools.TOOLS` to
`answer`.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from harness.saga.coordinator import Coordinator
from harness.saga.tools import TOOLS, call_tool
from sherpa import __version__

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.server.lowlevel.server import Server


def descriptors() -> list[types.Tool]:
    """The tools as a client lists them."""
    import mcp_types as types

    return [
        types.Tool(
            name=tool.name,
            title=tool.name.replace("_", " ").capitalize(),
            description=tool.description,
            input_schema=tool.parameters,
            annotations=types.ToolAnnotations(
                title=tool.name.replace("_", " ").capitalize(),
                read_only_hint=tool.read_only,
                destructive_hint=tool.destructive,
                idempotent_hint=tool.read_only,
                open_world_hint=False,
            ),
        )
        for tool in TOOLS.values()
    ]


def answer(coordinator: Coordinator, name: str, arguments: dict[str, Any] | None) -> types.CallToolResult:
    """What a call answers; an error object is marked as one."""
    import mcp_types as types

    found = call_tool(coordinator, name, arguments or {})
    text = json.dumps(found, ensure_ascii=False, default=str)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)],
        structured_content=json.loads(text),
        is_error="error" in found,
    )


def build_server(coordinator: Coordinator) -> Server[Any]:
    """A server with these tools alone."""
    import mcp_types as types
    from mcp.server.lowlevel.server import Server

    async def list_tools(context: Any, parameters: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=descriptors())

    async def call(context: Any, parameters: types.CallToolRequestParams) -> types.CallToolResult:
        # Checks may run for minutes: the loop must go on answering.
        return await asyncio.to_thread(answer, coordinator, parameters.name, parameters.arguments)

    return Server("saga", version=__version__, title="Saga", on_list_tools=list_tools, on_call_tool=call)


def serve_stdio(coordinator: Coordinator) -> None:
    """Serve one client over standard input and output, until the input ends."""
    from mcp.server.stdio import stdio_server

    server = build_server(coordinator)

    async def run() -> None:
        async with stdio_server() as (source, sink):
            await server.run(source, sink, server.create_initialization_options())

    asyncio.run(run())
