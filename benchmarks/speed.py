"""``python -m benchmarks.speed``: how the cost of everything grows with the ledger, and against what others take.

Counting, rebuilding, one more event, questions warm and cold, leaving cases out. Peers run in the same run. The record
goes to ``benchmarks/results/speed.json``, tables and plots beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.ingest import seconds_per_event
from benchmarks.series import Goal, Series
from benchmarks.workload import LENGTH, process_log, write_ledger
from experiments.claims import PENDING, Claim
from experiments.dataset import Dataset
from experiments.gate import run_gate
from experiments.plan import Plan
from experiments.validation import Protocol, validate
from sherpa import EngineConfig, EventLog, ProceduralMemory
from sherpa.bulk import load
from sherpa.counting import count, count_support
from sherpa.ledger import Ledger, LedgerReport

ORIGINAL = {"rebuild, events per second": [2_500, 4_650], "one event into 100,000, seconds": 140}
"""Published for the original program, quoted; not measured here."""
_QUESTIONS = ("workflow_state", "workflow_next", "workflow_outcomes", "workflow_recall")
_GOAL_MS = {"workflow_state": 0.3, "workflow_next": 0.3, "workflow_outcomes": 0.5, "workflow_recall": 10.0}
_FOLLOWS = """
SELECT before, code, count(*) FROM (SELECT code, lag(code) OVER (PARTITION BY one ORDER BY place) AS before FROM events)
WHERE before IS NOT NULL GROUP BY ALL
"""
_PM4PY = """
import sys, time, numpy as np, pandas as pd, pm4py
codes = np.load(sys.argv[1]); cases = np.repeat(np.arange(len(codes) // 20), 20)
frame = pd.DataFrame({"case:concept:name": cases.astype(str), "concept:name": codes.astype(str),
                      "time:timestamp": pd.to_datetime(np.arange(len(codes)), unit="s", utc=True)})
times = []
for _ in range(3):
    begin = time.perf_counter(); pm4py.discover_dfg(frame); times.append(time.perf_counter() - begin)
print(*times)
"""


def dictionaries(log: EventLog, max_order: int = 5) -> Counter[tuple[int, ...]]:
    """Support alone, one tuple per n-gram: what a few lines of Python do."""
    seen: Counter[tuple[int, ...]] = Counter()
    codes, bounds = log.codes.tolist(), log.offsets.tolist()
    for start, stop in pairwise(bounds):
        for i in range(start + 1, stop):
            for k in range(1, min(max_order, i - start) + 1):
                seen[tuple(codes[i - k : i + 1])] += 1
    return seen


def frames(log: EventLog, max_order: int = 5) -> int:
    """The same with pandas: shifted columns and a group-by for each order."""
    import pandas as pd

    table = pd.DataFrame({"case": log.case_of, "c0": log.codes})
    grouped = table.groupby("case")["c0"]
    for back in range(1, max_order + 1):
        table[f"c{back}"] = grouped.shift(back)
    return sum(len(table.groupby([f"c{k}" for k in range(order + 1)]).size()) for order in range(1, max_order + 1))


def counting(sizes: list[int], peers: Path | None) -> tuple[list[Series], list[Goal], dict[str, Any]]:
    """Kernel and peers; peers at a tenth of the largest size where they take long."""
    whole, support = Series("count, all provenance", "events"), Series("count, support only", "events")
    for size in sizes:
        log = process_log(size)
        log.view("raw")
        whole.add(size, lambda log=log: count(log, 5))
        support.add(size, lambda log=log: count_support(log, 5))
    largest = sizes[-1]
    log = process_log(largest)
    by_hand = Series("Python Counter, orders 1-5", "events")
    by_hand.add(largest, lambda: dictionaries(log), 1)
    by_pandas = Series("pandas group-by, orders 1-5", "events")
    small = process_log(largest // 10)
    by_pandas.add(largest // 10, lambda: frames(small), 1)
    series, notes = [whole, support, by_hand, by_pandas], {}
    try:
        series.append(_duckdb(log))
    except ImportError:
        notes["DuckDB"] = "not measured: it is not installed"
    goals = [
        Goal(f"count support of {largest:,} events, s", support.median(largest), 1.0),
        Goal(f"count all of {largest:,} events, s", whole.median(largest), 2.5),
        Goal("times faster than a Counter", by_hand.median(largest) / support.median(largest), 30, False),
        Goal("growth exponent of counting", whole.exponent(100_000) or 0.0, 1.05),
    ]
    times = _pm4py(log, peers)
    if times is None:
        notes["pm4py"] = "not measured: SHERPA_PEERS names no Python that has it"
    else:
        series.append(Series("pm4py directly-follows, order 1", "events", {largest: times}))
        goals.append(Goal("times faster than pm4py's order 1", median(times) / support.median(largest), 10, False))
    return series, goals, notes


def _duckdb(log: EventLog) -> Series:
    """Directly-follows, order 1, as a window function over columns in memory."""
    import duckdb
    import pandas as pd

    frame = pd.DataFrame({"place": np.arange(len(log.codes)), "one": log.case_of, "code": log.codes})
    with duckdb.connect() as database:
        database.register("events", frame)
        series = Series("DuckDB directly-follows, order 1", "events")
        series.add(len(log.codes), lambda: database.execute(_FOLLOWS).fetchall())
    return series


def _pm4py(log: EventLog, python: Path | None) -> list[float] | None:
    if python is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "codes.npy"
        np.save(path, log.codes)
        done = subprocess.run([str(python), "-c", _PM4PY, str(path)], capture_output=True, text=True, check=False)
    return [float(t) for t in done.stdout.split()] if done.returncode == 0 else None


_REBUILD = """
import resource, sys, time
from sherpa import ProceduralMemory
begin = time.perf_counter()
with ProceduralMemory(sys.argv[1]):
    print(time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def _parse(root: Path) -> None:
    ledger = Ledger(root / "events")
    load(ledger.batches(LedgerReport(), ledger.positions()), lambda rows: deque(rows, maxlen=0))


def rebuilding(sizes: list[int], folder: Path) -> tuple[list[Series], list[Goal], dict[str, Any]]:
    """From a JSONL ledger to a graph that can be asked, events table included, in a process of its own."""
    series, notes, peak = Series("rebuild from JSONL", "events"), {}, 0.0
    parsing = Series("parse JSONL into columns and rows", "events")
    for size in sizes:
        root = folder / str(size)
        ledger = write_ledger(root, size)
        times = []
        for _ in range(5):
            for name in ("graph.db", "graph.db-wal", "graph.db-shm"):
                (root / name).unlink(missing_ok=True)
            out = subprocess.run(
                [sys.executable, "-c", _REBUILD, str(root)], capture_output=True, text=True, check=True
            )
            seconds, kilobytes = out.stdout.split()
            times.append(float(seconds))
            peak = float(kilobytes) / 1e6
        series.times[size] = times
        parsing.add(size, lambda root=root: _parse(root))
        notes[f"bytes per event at {size:,}"] = {
            "ledger": ledger / size,
            "graph": (root / "graph.db").stat().st_size / size,
        }
    largest = sizes[-1]
    rate = largest / series.median(largest)
    return (
        [series, parsing],
        [
            Goal(f"rebuild of {largest:,} events, events/s", rate, 80_000, False),
            Goal(f"rebuild of {largest:,} events, peak GB", peak, 1.5),
            Goal(
                "times the original's best published rate", rate / ORIGINAL["rebuild, events per second"][1], 20, False
            ),
        ],
        notes,
    )


def ingesting(sizes: list[int]) -> tuple[list[Series], list[Goal], dict[str, Any]]:
    """One more durable event."""
    series = Series("ingest one durable event", "events held")
    for size in sizes:
        series.times[size] = seconds_per_event(size)
    largest = sizes[-1]
    times = series.times[largest]
    return (
        [series],
        [
            Goal(f"one event into {largest:,}, p50 ms", 1e3 * median(times), 5),
            Goal(f"one event into {largest:,}, p99 ms", 1e3 * float(np.quantile(times, 0.99)), 20),
            Goal("growth exponent of ingest", series.exponent() or 0.0, 0.1),
        ],
        {},
    )


def asking(root: Path, size: int) -> tuple[list[Series], list[Goal], dict[str, Any]]:
    """Questions on cases at random: warm, and from a process that has just opened the graph."""
    rng = np.random.default_rng(3)
    cases = [f"case-{n}" for n in rng.integers(0, size // LENGTH, 200)]
    series, goals = [], []
    with ProceduralMemory(root) as memory:
        for question in _QUESTIONS:
            ask = getattr(memory, question)
            ask(cases[0])
            times = []
            for case in cases:
                begin = time.perf_counter()
                ask(case)
                times.append(time.perf_counter() - begin)
            series.append(Series(f"{question}, warm", "events held", {size: times}))
            goals.append(Goal(f"{question}, p50 ms", 1e3 * median(times), _GOAL_MS[question]))
    firsts = []
    for case in cases[:20]:
        with ProceduralMemory(root) as memory:
            begin = time.perf_counter()
            memory.workflow_next(case)
            firsts.append(time.perf_counter() - begin)
    series.append(Series("workflow_next, first question of a connection", "events held", {size: firsts}))
    goals.append(Goal("workflow_next from SQLite, no model loaded, p50 ms", 1e3 * median(firsts), 2))
    return series, goals, {}


def leaving_out(sizes: list[int]) -> tuple[list[Series], list[Goal], dict[str, Any]]:
    """Leave-one-case-out of the raw strategy, on as many processes as there are cores."""
    cores = len(os.sched_getaffinity(0))
    series = Series(f"leave-one-case-out, raw, {cores} processes", "events")
    for size in sizes:
        log = process_log(size)
        dataset = Dataset("workload", "workload", "csv", log, "")
        series.add(size, lambda dataset=dataset: validate(dataset, EngineConfig(), Protocol(processes=cores)))
    largest = sizes[-1]
    return (
        [series],
        [
            Goal(f"leave-one-case-out of {largest:,} events, s", series.median(largest), 60),
            Goal("growth exponent of leave-one-case-out", series.exponent() or 0.0, 1.1),
        ],
        {},
    )


def deciding(sizes: list[int]) -> tuple[list[Series], list[Goal], dict[str, Any]]:
    """The whole research gate: every arm, 10,000 resamples, H1 to H5."""
    series = Series("research gate, all arms", "events")
    pending = Claim("H4", PENDING, None, None, None, "not measured here", "", PENDING, [])
    for size in sizes:
        dataset = Dataset("workload", "workload", "csv", process_log(size), "")
        series.add(size, lambda dataset=dataset: run_gate(dataset, Plan(), pending), 3)
    return [series], [], {}


def sections(quick: bool, folder: Path, peers: Path | None) -> Iterator[tuple[str, Any]]:
    """Every section with its name, one after the other."""
    top = 4 if quick else 7
    yield "counting", counting([10**k for k in range(3, top + 1)], peers)
    graph = [10**k for k in range(3, (4 if quick else 6) + 1)]
    yield "rebuilding", rebuilding(graph, folder)
    yield "asking", asking(folder / str(graph[-1]), graph[-1])
    yield "ingesting", ingesting(graph)
    yield "leaving out", leaving_out([10_000] if quick else [10_000, 100_000, 1_000_000])
    yield "deciding", deciding([1_000] if quick else [1_000, 10_000])


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes: whether it runs, not how fast")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    given = os.environ.get("SHERPA_PEERS")
    found: dict[str, Any] = {"original, as published": ORIGINAL, "sections": {}}
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for name, (series, goals, notes) in sections(options.quick, Path(folder), Path(given) if given else None):
            print(f"{name} ({time.monotonic() - begin:.0f} s)", file=sys.stderr, flush=True)
            found["sections"][name] = {
                "series": [s.to_json() for s in series],
                "goals": [{**vars(g), "reached": g.reached} for g in goals],
                "notes": notes,
            }
    found["minutes"] = round((time.monotonic() - begin) / 60, 1)
    from benchmarks.page import write_page

    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "speed.json").write_text(json.dumps(found, indent=1) + "\n")
    print(write_page(options.output, found))


if __name__ == "__main__":
    main()
