"""Runs for tests, made by hand."""

from __future__ import annotations

from typing import Any

from harness.statebench.trajectories import Call, Trajectory


def call(tool: str, result: Any = None, *, turn: int = 0, repeated: bool = False, **arguments: Any) -> Call:
    """A call that went well, unless the result says something else."""
    return Call(tool, arguments, {} if result is None else result, turn, repeated)


def run(opening: str, *calls: Call, place: int = 0, domain: str = "support", more: tuple[str, ...] = ()) -> Trajectory:
    """A run with one turn of the agent for each message of the user."""
    said = (opening, *more)
    return Trajectory(domain, place, "", said, ("Done.",) * len(said), calls)


def runs(*parts: tuple[Any, ...], domain: str = "support") -> list[Trajectory]:
    """Runs of one domain from (opening, call, …)."""
    return [run(opening, *calls, place=at, domain=domain) for at, (opening, *calls) in enumerate(parts)]
