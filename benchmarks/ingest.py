"""``python -m benchmarks.ingest [EVENTS …]``: what one more event costs a memory that holds so many already."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import numpy as np

from sherpa import ProceduralMemory

SIZES = (1_000, 10_000, 100_000)
ASKED = 200
_CASE = 10


def event(number: int, case: str, kind: int, day: int, second: int) -> dict[str, Any]:
    stamp = f"2026-01-{day:02d}T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}.000Z"
    return {"eventId": f"{case}-{number}", "caseId": case, "source": "bench", "type": f"type-{kind}", "ts": stamp}


def past(events: int) -> Iterator[dict[str, Any]]:
    """Cases of ten events over thirty types."""
    rng = random.Random(1)
    for at in range(events):
        yield event(at, f"case-{at // _CASE}", rng.randrange(30), 1 + at // 80_000 % 27, at % 80_000)


def seconds_per_event(size: int) -> list[float]:
    """Seconds of each of `ASKED` durable ingests of one event, after `size` events."""
    times = []
    with tempfile.TemporaryDirectory() as root:
        with ProceduralMemory(root) as memory:
            memory.ingest_batch(list(past(size)))
        with ProceduralMemory(root) as memory:
            for at in range(ASKED):
                one = event(at, f"new-{at // _CASE}", at % 30, 28, at)
                begin = time.perf_counter()
                memory.ingest(one)
                times.append(time.perf_counter() - begin)
    return times


def main(sizes: list[int]) -> None:
    medians = []
    print(f"{'events held':>12} {'median ms':>10} {'95 % ms':>8}")
    for size in sizes:
        times = seconds_per_event(size)
        medians.append(median(times))
        print(f"{size:>12,} {medians[-1] * 1000:>10.2f} {np.quantile(times, 0.95) * 1000:>8.2f}", flush=True)
    if len(sizes) > 1:
        exponent = np.polyfit(np.log(sizes), np.log(medians), 1)[0]
        print(f"growth exponent {exponent:.3f}; {medians[-1] / medians[0]:.2f} times the cost at the smallest size")


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or list(SIZES))
