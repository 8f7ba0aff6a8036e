"""Capabilities, problems and nodes that tests share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.runtime.capabilities import Capability, CapabilitySpec, Context, Inputs, Need
from harness.runtime.engine import Engine
from harness.runtime.ir import Authority
from harness.runtime.run import Policies
from harness.runtime.textwork import builtin

LINES = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
FULL = {"fs_read": ["**"], "fs_write": ["**"], "subprocess_allow": ["python", "pytest"]}


class Append(Capability):
    """Appends a line: an effect that shows if it is repeated. Nobody can tell whether it happened."""

    spec = CapabilitySpec(name="test.append", input_schema=LINES, requires=("fs_write",))

    def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
        with open(context.workspace / "ledger.txt", "a") as file:
            file.write(inputs["text"] + "\n")
        return {"text": inputs["text"]}


class AppendOnce(Capability):
    """Appends a line for its node unless that is there: it may be repeated."""

    spec = CapabilitySpec(name="test.append_once", input_schema=LINES, requires=("fs_write",), idempotent=True)

    def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
        path = context.workspace / "ledger.txt"
        line = f"{context.node_key} {inputs['text']}\n"
        if not path.exists() or line not in path.read_text():
            with open(path, "a") as file:
                file.write(line)
        return {"text": inputs["text"]}


class Broken(Capability):
    """Raises."""

    spec = CapabilitySpec(name="test.broken")

    def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
        raise OSError("it broke")


class InterruptOnce(Capability):
    """Is interrupted the first time."""

    spec = CapabilitySpec(name="test.interrupt_once", idempotent=True)

    def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
        mark = context.workspace / "interrupted"
        if not mark.exists():
            mark.touch()
            raise KeyboardInterrupt
        return {}


class NoProbe(Capability):
    """Cannot be shown to work."""

    spec = CapabilitySpec(name="test.no_probe")

    def probe(self, inputs: Inputs, context: Context) -> bytes:
        raise OSError("nothing there")

    def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
        return {}


class Liar(Capability):
    """Gives something else than its contract says, and needs a file."""

    spec = CapabilitySpec(
        name="test.liar",
        input_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        output_schema={"type": "object", "properties": {"n": {"type": "string"}}, "required": ["n"]},
    )

    def needs(self, inputs: Inputs, context: Context) -> list[Need]:
        return []

    def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
        return {"n": inputs["n"]}


def engine(workspace: Path, *more: Capability, policies: Policies | None = None, **options: Any) -> Engine:
    registry = builtin()
    for capability in (Append(), AppendOnce(), Broken(), NoProbe(), Liar(), *more):
        registry.register(capability)
    return Engine(workspace, registry=registry, policies=policies or Policies(lease_wait=0.3), **options)


def problem(*nodes: dict[str, Any], name: str = "p", **more: Any) -> dict[str, Any]:
    metadata = {"root_nodes": list(nodes)} | more.pop("metadata", {})
    return {"id": name, "goal": "g", "authority": FULL, "metadata": metadata, **more}


def call(name: str, capability: str, **inputs: Any) -> dict[str, Any]:
    return {"kind": "invoke_capability", "id": name, "capability": capability, "inputs": inputs}


def append(name: str, text: str | None = None) -> dict[str, Any]:
    return call(name, "test.append", text=name if text is None else text)


def end(**outputs: Any) -> dict[str, Any]:
    return {"kind": "return", "id": "end", "outputs": outputs}


def loop(name: str, times: int, *body: dict[str, Any], guard: str = "True") -> dict[str, Any]:
    return {"kind": "while", "id": name, "guard": guard, "max_iterations": times, "body": list(body)}


def plan(name: str, *nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": name, "root": list(nodes), **more}


def decompose(name: str, child: dict[str, Any], goal: str = "goal", **more: Any) -> dict[str, Any]:
    library = [{"match": {"pattern_contains": goal}, "plan": child}]
    return {"kind": "decompose", "id": name, "subgoal": goal, "hints": {"plan_library": library}, **more}


def lines(workspace: Path) -> list[str]:
    path = workspace / "ledger.txt"
    return path.read_text().splitlines() if path.exists() else []


def kinds(made: Engine, run: str) -> list[str]:
    return [event.kind for event in made.store.events(run)]


def authority(**patterns: Any) -> dict[str, Any]:
    return {name: list(value) for name, value in patterns.items()}


def granted(**patterns: Any) -> Authority:
    return Authority(**{name: tuple(value) for name, value in patterns.items()})


def same(made: Engine, run: str) -> bool:
    """Whether tables and replay agree, as JSON."""
    store = made.store
    return json.dumps(store.projection(run), sort_keys=True) == json.dumps(store.replay_projection(run), sort_keys=True)
