"""The battery: goals with two decompositions each, some of whose steps are ambiguous or cannot be done at once.

It exercises what the branching measure m counts: declared ambiguity, claims of atomicity that the probe refutes, and
escalations. The supercritical control leaves more open questions than it settles; the gate on m must refuse it.
"""

from __future__ import annotations

import random
from typing import Any

from harness.runtime.bench.scenarios import decompose, leaf, once, problem, returns


def _child(name: str, rng: random.Random, *, refuted: bool) -> dict[str, Any]:
    steps = []
    for n in range(3):
        step = once(f"step_{n}", f"{name}-{n}")
        if rng.random() < 0.2:
            step["atomic_claim"] = False
        steps.append(step)
    if refuted:
        steps.append(leaf("claimed", "ledger.unavailable"))
    return {"id": name, "root": [*steps, returns(v=name)]}


def _fallback() -> dict[str, Any]:
    instead = {"id": "instead", "root": [once("by_hand"), returns(v="instead")]}
    return {"match": {"capability": "ledger.unavailable"}, "plan": instead}


def battery_problem(number: int) -> dict[str, Any]:
    """A goal of the battery."""
    rng = random.Random(f"battery:{number}")
    first = decompose("first", _child(f"first_{number}", rng, refuted=rng.random() < 0.5))
    second = decompose("second", _child(f"second_{number}", rng, refuted=rng.random() < 0.3))
    done = returns(a="{{ first.outputs.v }}", b="{{ second.outputs.v }}")
    check = {"id": "both", "kind": "predicate", "spec": {"expr": f"outputs.a == 'first_{number}' and 'b' in outputs"}}
    return problem(
        f"battery_{number}", first, second, done, metadata={"plan_library": [_fallback()]}, acceptance=[check]
    )


def supercritical_problem(number: int) -> dict[str, Any]:
    """A goal whose plans leave more open than they settle."""
    steps = [{**once(f"step_{n}", f"open-{n}"), "atomic_claim": False} for n in range(4)]
    child = {"id": "sprawling", "root": [*steps, leaf("claimed", "ledger.unavailable"), returns()]}
    return problem(f"sprawl_{number}", decompose("all", child), returns(), metadata={"plan_library": [_fallback()]})
