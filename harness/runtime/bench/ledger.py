"""Capabilities whose effect can be counted from outside: lines in a file, each with the node that wrote it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.runtime.capabilities import Capability, CapabilitySpec, Context, Inputs, Registry
from harness.runtime.textwork import builtin

FILE = "ledger.txt"
_INPUTS = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def _line(inputs: Inputs, context: Context) -> str:
    return f"{context.node_key}\t{inputs['text']}\n"


class Append(Capability):
    """Appends a line. Repeated, it appends another; only who looks at the file can tell whether it happened."""

    spec = CapabilitySpec(name="ledger.append", input_schema=_INPUTS, requires=("fs_write",))

    def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
        with open(context.confinement.check_path("fs_write", FILE), "a", encoding="utf-8") as file:
            file.write(_line(inputs, context))
        return {"text": inputs["text"]}


class AppendOnce(Capability):
    """Appends the line of its node unless it is there, so that it may be repeated."""

    spec = CapabilitySpec(name="ledger.append_once", input_schema=_INPUTS, requires=("fs_write",), idempotent=True)

    def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
        path = context.confinement.check_path("fs_write", FILE)
        if _line(inputs, context).rstrip("\n") not in entries(path.parent):
            with open(path, "a", encoding="utf-8") as file:
                file.write(_line(inputs, context))
        return {"text": inputs["text"]}


class Unavailable(Capability):
    """Claims to be one step and cannot be shown to work."""

    spec = CapabilitySpec(name="ledger.unavailable")

    def probe(self, inputs: Inputs, context: Context) -> bytes:
        raise OSError("there is nothing behind this capability")

    def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
        raise OSError("there is nothing behind this capability")


def entries(workspace: Path) -> list[str]:
    """The lines, whoever wrote them."""
    path = workspace / FILE
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def texts(workspace: Path) -> list[str]:
    """What the lines say."""
    return [line.split("\t")[1] for line in entries(workspace)]


def registry() -> Registry:
    """The built-in capabilities and those of the ledger."""
    made = builtin()
    for capability in (Append(), AppendOnce(), Unavailable()):
        made.register(capability)
    return made
