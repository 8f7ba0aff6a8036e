"""The crash sweep: a run is killed after each of its events, resumed, and compared with one that nobody disturbed.

``python -m harness.runtime.bench.sweep SCENARIO FOLDER`` prints the report. It runs in a process of its own, because
each victim is a fork of it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from harness.runtime.bench.ledger import entries, registry
from harness.runtime.bench.scenarios import by_name
from harness.runtime.engine import KILL_VARIABLE, Engine
from harness.runtime.errors import UnknownRunError
from harness.runtime.run import Policies

RUN = "swept"


def _engine(workspace: Path, *, doomed: bool = False) -> Engine:
    # One branch after the other, so that the events of all runs have the same order.
    policies = Policies(parallelism=1, cache=False)
    return Engine(workspace, registry=registry(), policies=policies, fault_injection=doomed)


def comparable(engine: Engine) -> dict[str, Any]:
    """What a resumed run must share with an undisturbed one: all but who worked on it, how often and how long."""
    projection = engine.status(RUN)
    nodes = {key: {**node, "owner_session": None} for key, node in projection["nodes"].items()}
    usage = {name: projection["usage"][name] for name in ("tokens", "cost_usd", "nodes")}
    return {**projection, "nodes": nodes, "usage": usage, "outputs": engine.result(RUN).outputs}


def _victim(workspace: Path, problem: dict[str, Any], after: int) -> int:
    """Run in a fork that kills itself; returns how it ended."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.environ[KILL_VARIABLE] = str(after)
            with _engine(workspace, doomed=True) as engine:
                engine.run(problem, RUN)
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _finish(workspace: Path, problem: dict[str, Any]) -> tuple[dict[str, Any], bool, int]:
    """Resume what was killed; what is in doubt is decided by looking at the ledger, as an operator would."""
    decided = 0
    with _engine(workspace) as engine:
        try:
            result = engine.resume(RUN)
        except UnknownRunError:
            result = engine.run(problem, RUN)
        while result.status == "escalated" and "in doubt" in (result.error or ""):
            decided += 1
            for key, node in engine.status(RUN)["nodes"].items():
                if node["state"] == "escalated":
                    there = any(line.split("\t")[0] == key for line in entries(workspace))
                    engine.resolve_in_doubt(RUN, key, "done" if there else "redo", "looked into the ledger")
            result = engine.resume(RUN)
        equal = engine.status(RUN) == engine.store.replay_projection(RUN)
        return comparable(engine), equal, decided


def sweep_here(name: str, folder: Path, *, step: int = 1) -> dict[str, Any]:
    """Sweep a scenario in this process, which must have no threads."""
    problem = by_name(name)
    whole = folder / "reference"
    with _engine(whole) as engine:
        engine.run(problem, RUN)
        expected, total = comparable(engine), engine.store.head()
    effects = Counter(entries(whole))
    differences: list[dict[str, Any]] = []
    kills = decided = 0
    for after in range(1, total + 1, step):
        workspace = folder / f"kill-{after}"
        ended = _victim(workspace, problem, after)
        kills += ended == -signal.SIGKILL
        found, equal, operator = _finish(workspace, problem)
        decided += operator
        wrong = [key for key in expected if found[key] != expected[key]]
        wrong += [] if equal else ["replay"]
        wrong += [] if Counter(entries(workspace)) == effects else ["effects"]
        if ended != -signal.SIGKILL:
            wrong.append(f"ended with {ended}")
        if wrong:
            differences.append({"after": after, "differs": wrong})
        else:
            shutil.rmtree(workspace)
    return {
        "scenario": name,
        "events": total,
        "kills": kills,
        "decided_by_operator": decided,
        "effects": sum(effects.values()),
        "differences": differences,
    }


def sweep(name: str, folder: Path, *, step: int = 1) -> dict[str, Any]:
    """Sweep a scenario in a process of its own.

    Returns
    -------
    dict
        Events of the reference, kills, and where a resumed run differs from it in projection, replay or effects.
    """
    command = [sys.executable, "-m", "harness.runtime.bench.sweep", name, str(folder), str(step)]
    root = str(Path(__file__).resolve().parents[3])
    environment = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise RuntimeError(f"the sweep of {name} broke off: {done.stderr[-2000:]}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


if __name__ == "__main__":
    print(json.dumps(sweep_here(sys.argv[1], Path(sys.argv[2]), step=int(sys.argv[3]))))
