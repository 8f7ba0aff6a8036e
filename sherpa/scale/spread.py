"""A function over items, here or on workers: for folds, data sets, blocks of a bootstrap, files.

The results come in the order of the items whatever the engine. So a run is the same everywhere as long as each item
says everything that its result depends on, a seed included (`seeds`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np

from sherpa.errors import ConfigError

T = TypeVar("T")
R = TypeVar("R")

SPREADING = ("local", "ray", "spark")
"""Engines that run a function over items; ``duckdb`` runs it like ``local``."""


def spread(function: Callable[[T], R], items: Iterable[T], engine: str = "local") -> list[R]:
    """``[function(item) for item in items]``, computed by an engine.

    Parameters
    ----------
    function : callable
        Depends on its item alone. Ray and Spark pickle it, its items and its results.
    items : iterable
    engine : str
        ``local``: in order, in this process. ``ray``: one task per item. ``spark``: one partition per item.

    Raises
    ------
    ConfigError
        If the engine is unknown or not installed.
    Exception
        What the function raises, that of the first item that fails in order.
    """
    if engine in ("local", "duckdb"):
        return [function(item) for item in items]
    if engine == "ray":
        from sherpa.scale.on_ray import spread_on_ray

        return spread_on_ray(function, list(items))
    if engine == "spark":
        from sherpa.scale.on_spark import spread_on_spark

        return spread_on_spark(function, list(items))
    raise ConfigError(f"engine {engine!r} is unknown; choose one of {', '.join(SPREADING)}")


def seeds(seed: int, items: int) -> list[np.random.SeedSequence]:
    """Independent seeds, one per item, the same for the same arguments."""
    return np.random.SeedSequence(seed).spawn(items)
