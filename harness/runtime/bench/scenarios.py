"""Problems whose every effect is a line of a ledger: small, nested, and the durable run of demonstration A."""

from __future__ import annotations

from typing import Any

AUTHORITY = {"fs_read": ["**"], "fs_write": ["**"], "subprocess_allow": ["python", "pytest"]}


def leaf(name: str, capability: str, **inputs: Any) -> dict[str, Any]:
    """A call of a capability."""
    return {"kind": "invoke_capability", "id": name, "capability": capability, "inputs": inputs}


def once(name: str, text: str | None = None) -> dict[str, Any]:
    """A line that may be written again."""
    return leaf(name, "ledger.append_once", text=text or name)


def line(name: str, text: str | None = None) -> dict[str, Any]:
    """A line that may not."""
    return leaf(name, "ledger.append", text=text or name)


def returns(**outputs: Any) -> dict[str, Any]:
    """The end of a plan."""
    return {"kind": "return", "id": "done", "outputs": outputs}


def decompose(name: str, child: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A decomposition that the library answers."""
    hints = {"plan_library": [{"match": {"pattern_contains": name}, "plan": child}]}
    return {"kind": "decompose", "id": name, "subgoal": f"{name} it", "hints": hints, **more}


def loop(name: str, times: int, *body: dict[str, Any]) -> dict[str, Any]:
    """A loop that runs to its limit."""
    return {"kind": "while", "id": name, "guard": "True", "max_iterations": times, "body": list(body)}


def problem(name: str, *nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A problem with a literal root plan."""
    metadata = {"root_nodes": list(nodes)} | more.pop("metadata", {})
    return {"id": name, "goal": name, "authority": AUTHORITY, "metadata": metadata, **more}


def small() -> dict[str, Any]:
    """Some of everything, each effect repeatable."""
    child = {"id": "child", "root": [once("inner"), returns(v=1)]}
    instead = {"match": {"capability": "ledger.unavailable"}, "plan": {"id": "instead", "root": [once("other")]}}
    return problem(
        "small",
        once("first"),
        loop("turn", 2, once("tick")),
        decompose("part", child),
        leaf("none", "ledger.unavailable"),
        {"kind": "branch", "id": "choice", "cases": [{"when": "part.outputs.v == 1", "body": [once("right")]}]},
        returns(first="{{ first.result.text }}", v="{{ part.outputs.v }}"),
        metadata={"plan_library": [instead]},
        acceptance=[{"id": "v", "kind": "predicate", "spec": {"expr": "outputs.v == 1 and outputs.first == 'first'"}}],
    )


def nested() -> dict[str, Any]:
    """Loops in loops, decompositions in loops, fan-outs: each effect repeatable."""
    child = {
        "id": "child",
        "root": [once("inner"), loop("again", 2, once("deep")), returns(v="{{ inner.result.text }}")],
    }
    return problem(
        "nested",
        loop("outer", 2, loop("inside", 2, once("tick")), decompose("part", child)),
        {
            "kind": "parallel",
            "id": "fan",
            "branches": [[once("left")], [once("middle"), once("twice")], [once("right")]],
        },
        returns(v="{{ part.outputs.v }}", w="{{ left.result.text }}"),
        acceptance=[{"id": "v", "kind": "predicate", "spec": {"expr": "outputs.v == 'inner' and outputs.w == 'left'"}}],
    )


def durable(version: int = 2, *, capability: str = "ledger.append") -> dict[str, Any]:
    """Demonstration A: open, a child's checkpoint, two polls, a fast or slow end.

    Parameters
    ----------
    version : int
        1 returns a number that its acceptance check does not accept; 2 returns the one it does.
    capability : str
        What writes the lines.
    """

    def write(name: str, text: str) -> dict[str, Any]:
        return leaf(name, capability, text=text)

    child = {"id": "checkpointing", "root": [write("mark", "child-checkpoint"), returns()]}
    cases = [{"when": "inputs.fast", "body": [write("fast", "fast")]}, {"body": [write("slow", "slow")]}]
    return problem(
        f"durable_v{version}",
        write("open", "run-open"),
        decompose("checkpoint", child),
        {
            "kind": "while",
            "id": "polling",
            "guard": "inputs.poll",
            "max_iterations": 2,
            "body": [write("tick", "poll")],
        },
        {"kind": "branch", "id": "speed", "cases": cases},
        returns(lines_expected=3 if version == 1 else 4),
        inputs={"poll": True, "fast": True},
        acceptance=[{"id": "lines", "kind": "predicate", "spec": {"expr": "outputs.lines_expected == 4"}}],
    )


DURABLE_LEDGER = ["run-open", "child-checkpoint", "poll", "poll", "fast"]


def by_name(name: str) -> dict[str, Any]:
    """A scenario of the sweep.

    Raises
    ------
    KeyError
        If there is none of this name.
    """
    return {"small": small, "nested": nested, "durable": durable}[name]()
