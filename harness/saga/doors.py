"""The tools of a saga as guests at the memory's doors: MCP, HTTP daemon, framed child, plugin.

The sagas lie in the folder ``saga`` of the memory, or where the configuration says; their owner's options are in
``saga.json`` there. What is asked for advice is the memory itself, if that file asks for any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from sherpa.errors import OperationError
from sherpa.serve.guests import NOBODY, Guests
from sherpa.serve.operations import Operation

if TYPE_CHECKING:
    from harness.saga.coordinator import Coordinator
    from harness.saga.tools import Tool
    from sherpa.configuration import Configuration

PREFIX, FOLDER = "saga_", "saga"
REMINDER = "saga_reminder"


def root_of(configuration: Configuration, memory: Path) -> Path:
    """Where the sagas beside a memory lie."""
    given = configuration.saga.root
    return memory / FOLDER if given is None else Path(given).expanduser()


def guests(configuration: Configuration, memory: Path) -> Guests:
    """The tools of the sagas beside a memory; none if the configuration leaves them out."""
    if not configuration.saga.enabled:
        return NOBODY
    return Guests(PREFIX, lambda: operations(root_of(configuration, memory), memory))


def operations(root: Path, memory: Path) -> Sequence[Operation]:
    """The four tools, and what a host asks before a prompt."""
    from harness.saga.tools import TOOLS

    open_it = partial(_coordinator, root, memory)
    return (*(_operation(tool, open_it) for tool in TOOLS.values()), _reminder(open_it))


def _coordinator(root: Path, memory: Path) -> Coordinator:
    # For every call: the owner may have changed the options meanwhile.
    from harness.saga.coordinator import Coordinator
    from harness.saga.options import read_options

    options = read_options(root)
    return Coordinator(root, replace(options, sherpa_root=options.sherpa_root or str(memory)))


def _operation(tool: Tool, open_it: Callable[[], Coordinator]) -> Operation:
    from harness.saga.tools import call_tool

    def run(_: None, arguments: dict[str, Any]) -> dict[str, Any]:
        answer = call_tool(open_it(), tool.name, arguments)
        if "error" in answer:
            raise OperationError(answer["code"], answer["error"])
        return answer

    return Operation(
        tool.name,
        dict[str, Any],
        dict[str, Any],
        run,
        "guest",
        tool.description,
        tool.name,
        read_only=tool.read_only,
        destructive=tool.destructive,
        repeatable=tool.read_only,
        schema=tool.parameters,
    )


def _reminder(open_it: Callable[[], Coordinator]) -> Operation:
    from harness.saga.hooks import before_prompt

    def run(_: None, arguments: dict[str, Any]) -> dict[str, Any]:
        session = arguments.get("session")
        if not isinstance(session, str):
            raise OperationError("invalid_parameters", "saga_reminder needs the session, a text")
        return {"text": before_prompt(open_it(), session)}

    return Operation(
        REMINDER,
        dict[str, Any],
        dict[str, Any],
        run,
        "guest",
        "What the live saga of a session waits for, as a line for its next prompt.",
        read_only=True,
        schema={"type": "object", "properties": {"session": {"type": "string"}}, "required": ["session"]},
    )
