"""Long runs: what the kernel costs, how fast a log is replayed, and that memory stays where it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PROJECT

LONG = """
import resource, sys, time
from pathlib import Path
from harness.runtime.capabilities import Capability, CapabilitySpec, Registry
from harness.runtime.engine import Engine

class Nothing(Capability):
    spec = CapabilitySpec(name="test.nothing", idempotent=True)
    def run(self, inputs, context):
        return {"n": inputs["n"]}

nodes = int(sys.argv[2])
leaf = {"kind": "invoke_capability", "capability": "test.nothing"}
body = [{**leaf, "id": f"n{n}", "inputs": {"n": n}} for n in range(10)]
loop = {"kind": "while", "id": "l", "guard": "True", "max_iterations": nodes // 10, "body": body}
spec = {"id": "p", "goal": "g", "budgets": {"max_nodes": 10**6, "max_wall_seconds": 10**6},
        "metadata": {"root_nodes": [loop, {"kind": "return", "id": "z"}]}}
with Engine(Path(sys.argv[1]), registry=Registry([Nothing()])) as engine:
    begin = time.process_time()
    assert engine.run(spec, "r").status == "completed"
    took = time.process_time() - begin
    begin = time.process_time()
    replayed = engine.store.replay_projection("r")
    rate = engine.store.head() / (time.process_time() - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(1000 * took / nodes, rate, peak, replayed == engine.status("r"))
"""


def long_run(folder: Path, nodes: int) -> tuple[float, float, float]:
    """(milliseconds of CPU per node, events replayed per second, peak memory in MB) of a run in its own process."""
    command = [sys.executable, "-c", LONG, str(folder), str(nodes)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    per_node, rate, peak, equal = done.stdout.split()
    assert equal == "True"
    return float(per_node), float(rate), float(peak)


@pytest.mark.full
def test_ten_thousand_nodes(tmp_path: Path) -> None:
    _, _, small = long_run(tmp_path / "small", 1_000)
    per_node, rate, peak = long_run(tmp_path / "large", 10_000)
    # Of CPU, not of the clock: what a busy machine does meanwhile says nothing about the kernel.
    assert per_node <= 3
    assert rate >= 20_000
    # The projections that are compared at the end hold every node; the run itself does not.
    assert peak - small < 40
