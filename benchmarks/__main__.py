"""``python -m benchmarks``: run everything and print one table."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.transcripts import write_transcript
from experiments.dataset import Dataset
from experiments.intervals import cluster_bootstrap
from experiments.validation import Protocol, validate
from sherpa import EngineConfig, EventLog, ProceduralMemory, VariableOrderMarkovModel
from sherpa.counting import count
from sherpa.sources.openclaw import Installation
from sherpa.sources.openclaw.inspect import inspect

REPEATS = 5


def measured(action: Callable[[], object]) -> list[float]:
    """Seconds of each of `REPEATS` runs."""
    times = []
    for _ in range(REPEATS):
        gc.collect()
        begin = time.perf_counter()
        action()
        times.append(time.perf_counter() - begin)
    return times


def workload(events: int, symbols: int = 30, length: int = 20, seed: int = 1) -> EventLog:
    """Cases of one length over symbols of falling frequency."""
    rng = np.random.default_rng(seed)
    weight = 1 / np.arange(1, symbols + 1)
    size = events // length * length
    return EventLog.from_codes(
        rng.choice(symbols, size, p=weight / weight.sum()),
        np.arange(0, size + 1, length),
        [f"type-{i}" for i in range(symbols)],
        instants=np.arange(size) * 10**9,
    )


def count_in_dictionaries(log: EventLog, max_order: int) -> Counter[tuple[int, ...]]:
    """Support only, one tuple per n-gram: what a few lines of Python do."""
    seen: Counter[tuple[int, ...]] = Counter()
    codes, bounds = log.codes.tolist(), log.offsets.tolist()
    for start, stop in pairwise(bounds):
        for i in range(start + 1, stop):
            for k in range(1, min(max_order, i - start) + 1):
                seen[tuple(codes[i - k : i + 1])] += 1
    return seen


def counting() -> list[tuple[str, list[float], list[float]]]:
    """The kernel with all provenance columns against dictionaries with support only."""
    log = workload(1_000_000)
    ours = measured(lambda: count(log, 5))
    return [
        ("count 1,000,000 events, orders 1-5 / dictionaries", ours, measured(lambda: count_in_dictionaries(log, 5)))
    ]


def leaving_out() -> list[tuple[str, list[float], list[float]]]:
    """Leave-one-case-out by forgetting against fitting again for each of a sample of cases."""
    log = workload(40_000, length=8)
    dataset = Dataset("workload", "workload", "csv", log, "")
    config = EngineConfig()
    ours = measured(lambda: validate(dataset, config, Protocol()))
    sample = range(0, len(log), len(log) // 20)

    def refit() -> None:
        for out in sample:
            VariableOrderMarkovModel(5).learn(log.subset([i for i in range(len(log)) if i != out]))

    scale = len(log) / len(sample)
    return [
        (f"leave-one-case-out, {len(log):,} cases / refits", ours, [t * scale for t in measured(refit)]),
    ]


def storing() -> list[tuple[str, list[float], list[float]]]:
    """One more event into a large store against into a small one; a cold question against starting Python."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        roots = {}
        for size in (1_000, 100_000):
            root = roots[size] = Path(folder) / str(size)
            with ProceduralMemory(root) as memory:
                memory.ingest_batch(
                    [
                        {"caseId": f"case-{i // 10}", "source": "bench", "type": f"type-{i * i % 30}"}
                        for i in range(size)
                    ]
                )
        times = {}
        for size, root in roots.items():
            with ProceduralMemory(root) as memory:

                def add(memory: ProceduralMemory = memory) -> None:
                    for i in range(20):
                        memory.ingest({"caseId": f"case-{i}", "source": "bench", "type": "type-1"})

                times[size] = measured(add)
        rows.append(("20 events into a store of 100,000 / of 1,000", times[100_000], times[1_000]))
        ask = [sys.executable, "-m", "sherpa", "--root", str(roots[100_000]), "workflow-next", "--case-id", "case-3"]
        bare = [sys.executable, "-c", "pass"]
        help_ = [sys.executable, "-m", "sherpa", "--help"]

        def run(command: Sequence[str]) -> Callable[[], object]:
            return lambda: subprocess.run(command, check=True, capture_output=True)

        start = measured(run(bare))
        rows.append(("cold workflow-next, 100,000 events / bare Python", measured(run(ask)), start))
        rows.append(("sherpa --help / bare Python", measured(run(help_)), start))
    return rows


def resampling() -> list[tuple[str, list[float], list[float]]]:
    """10,000 resamples of 5,000 cases for eight predictors against scipy (one predictor, a tenth of the draws)."""
    from scipy.stats import bootstrap

    rng = np.random.default_rng(0)
    hits = rng.random((5000, 8))
    ours = measured(lambda: cluster_bootstrap(hits, np.ones(5000), rng=np.random.default_rng(1)))
    peer = measured(
        lambda: bootstrap((hits[:, 0],), np.mean, n_resamples=1000, batch=100, rng=np.random.default_rng(1))
    )
    return [("bootstrap, 10,000 x 5,000 x 8 / scipy, scaled to the same work", ours, [80 * t for t in peer])]


def reading() -> list[tuple[str, list[float], list[float]]]:
    """Everything that is known of a transcript of 100 MB, against decoding its lines with the standard library."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.jsonl"
        size = write_transcript(path, 100_000_000).bytes

        def ours() -> None:
            with Installation(path) as installation:
                inspect(installation)

        def peer() -> None:
            with open(path, "rb") as file:
                for line in file:
                    json.loads(line)

        times = measured(ours)
        return [
            (f"read a transcript of 100 MB ({size / 1e6 / median(times):.0f} MB/s) / json.loads", times, measured(peer))
        ]


def main() -> None:
    """Print name, medians and ratio of each comparison."""
    print(f"medians of {REPEATS} (fastest-slowest), seconds\n")
    for name, ours, peer in [*counting(), *leaving_out(), *resampling(), *storing(), *reading()]:
        spread = f"{min(ours):.3f}-{max(ours):.3f}"
        print(f"{name}\n    {median(ours):.3f} ({spread}) / {median(peer):.3f} = {median(ours) / median(peer):.3f}")


if __name__ == "__main__":
    main()
