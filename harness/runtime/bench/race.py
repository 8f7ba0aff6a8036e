"""Two workers that resume the same run at the same moment, over and over."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from pathlib import Path
from typing import Any

from harness.runtime.bench.ledger import registry, texts
from harness.runtime.bench.scenarios import line, problem, returns
from harness.runtime.engine import Engine
from harness.runtime.run import Policies

STEPS = 6


def _engine(workspace: Path) -> Engine:
    return Engine(workspace, registry=registry(), policies=Policies(lease_wait=30))


def _worker(folder: str, rounds: int, barrier: Any, results: Any) -> None:
    for number in range(rounds):
        with _engine(Path(folder) / str(number)) as engine:
            barrier.wait()
            results.put(engine.resume("r").status)


def race_rounds(folder: Path, *, rounds: int) -> dict[str, int]:
    """Let two processes resume each of `rounds` runs at once.

    Returns
    -------
    dict
        Rounds, and in how many an effect happened twice, was lost, or a worker did not see the run completed.
    """
    ask = {"kind": "ask_user", "id": "ask", "question": "go on?"}
    spec = problem("raced", ask, *(line(f"step{n}") for n in range(STEPS)), returns(), attended=True)
    for number in range(rounds):
        with _engine(folder / str(number)) as engine:
            engine.run(spec, "r")
            engine.deliver_message("r", "root_raced@1.ask", "go")
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(2), context.Queue()
    workers = [context.Process(target=_worker, args=(str(folder), rounds, barrier, results)) for _ in range(2)]
    for worker in workers:
        worker.start()
    statuses = [results.get(timeout=120) for _ in range(2 * rounds)]
    for worker in workers:
        worker.join()
    double = lost = 0
    for number in range(rounds):
        counts = Counter(texts(folder / str(number)))
        double += any(count > 1 for count in counts.values())
        lost += len(counts) < STEPS
    unfinished = sum(status != "completed" for status in statuses)
    return {"rounds": rounds, "double": double, "lost": lost, "unfinished": unfinished}
