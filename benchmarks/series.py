"""Times over sizes: medians, ranges and the growth exponent."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

REPEATS = 5


def measured(action: Callable[[], object], repeats: int = REPEATS) -> list[float]:
    """Seconds of each run."""
    times = []
    for _ in range(repeats):
        gc.collect()
        begin = time.perf_counter()
        action()
        times.append(time.perf_counter() - begin)
    return times


@dataclass
class Series:
    """One thing measured at several sizes.

    Attributes
    ----------
    name : str
    unit : str
        What one size counts.
    times : dict of int to list of float
        Seconds of each run, by size.
    """

    name: str
    unit: str
    times: dict[int, list[float]] = field(default_factory=dict)

    def add(self, size: int, action: Callable[[], object], repeats: int = REPEATS) -> float:
        """Measure at one size; gives the median."""
        self.times[size] = measured(action, repeats)
        return self.median(size)

    def median(self, size: int) -> float:
        """Median seconds at a size."""
        return median(self.times[size])

    def exponent(self, least: int = 0) -> float | None:
        """Slope of log time over log size from a size on; None for fewer than two sizes."""
        sizes = [size for size in sorted(self.times) if size >= least]
        if len(sizes) < 2:
            return None
        return float(np.polyfit(np.log(sizes), np.log([self.median(s) for s in sizes]), 1)[0])

    def to_json(self) -> dict[str, Any]:
        """As the record holds it."""
        return {
            "name": self.name,
            "unit": self.unit,
            "exponent": self.exponent(),
            "seconds": {str(size): times for size, times in sorted(self.times.items())},
        }


@dataclass(frozen=True)
class Goal:
    """A figure that was aimed at.

    Attributes
    ----------
    name : str
    found, wanted : float
    most : bool
        Whether `wanted` is the most that is allowed, or the least.
    """

    name: str
    found: float
    wanted: float
    most: bool = True

    @property
    def reached(self) -> bool:
        """Whether it was reached."""
        return self.found <= self.wanted if self.most else self.found >= self.wanted
