"""Ray: rows are dealt to shards by the hash of their case, each shard is counted by a task, tables meet in a tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from sherpa.errors import SherpaError
from sherpa.scale.cases import Job
from sherpa.scale.engines import Engine
from sherpa.scale.libraries import needed
from sherpa.scale.shards import dealt, gathered, shards_for
from sherpa.scale.source import Source

T = TypeVar("T")
R = TypeVar("R")
WIDTH = 8
"""Tables that one task merges."""


class RayEngine(Engine):
    """Counts on a Ray cluster.

    The one that ``RAY_ADDRESS`` names, or one that is started on this machine and ends with the process. The files of a
    source must be readable under the same paths on every node. A shard fits into the memory of one worker.

    Parameters
    ----------
    shards : int, optional
        As many as there are million events by default, up to `sherpa.scale.shards.MOST`.
    """

    name = "ray"

    def __init__(self, *, shards: int | None = None) -> None:
        self._ray = _running()
        self.shards = shards

    def fold(self, source: Source, job: Job[R]) -> R:
        ray, units = self._ray, source.units()
        if not units:
            return job.merge([])
        shards = self.shards or shards_for(source.events)
        deal = ray.remote(num_returns=shards)(_dealt)
        work, merge = ray.remote(_worked), ray.remote(_merged)
        shared = ray.put(job)
        rows = [deal.remote(unit, shards, job.details) for unit in units]
        pieces = rows if shards > 1 else [[row] for row in rows]
        results = [work.remote(shared, *(piece[shard] for piece in pieces)) for shard in range(shards)]
        del rows, pieces
        while len(results) > 1:
            results = [merge.remote(shared, *results[at : at + WIDTH]) for at in range(0, len(results), WIDTH)]
        result: R = _fetched(ray, results)[0]
        return job.merge([]) if result is None else result


def _dealt(unit: Any, shards: int, details: bool) -> Any:
    pieces = dealt(unit.read(details=details), shards)
    return pieces if shards > 1 else pieces[0]


def _worked(job: Job[R], *pieces: Any) -> R | None:
    cases = gathered(pieces)
    return None if cases is None else job.work(cases)


def _merged(job: Job[R], *results: R | None) -> R | None:
    there = [result for result in results if result is not None]
    return job.merge(there) if there else None


def spread_on_ray(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """One task per item; results in their order."""
    ray = _running()
    task = ray.remote(function)
    return _fetched(ray, [task.remote(item) for item in items])


def _fetched(ray: Any, references: Sequence[Any]) -> list[Any]:
    """The results in order; after the first error the rest is cancelled."""
    found = []
    for at, reference in enumerate(references):
        try:
            found.append(ray.get(reference))
        except ray.exceptions.RayTaskError as error:
            for other in references[at + 1 :]:
                with suppress(ray.exceptions.RayError):
                    ray.cancel(other)
                    ray.get(other)
            if isinstance(error.cause, SherpaError):
                raise error.cause from None
            raise
    return found


def _running() -> Any:
    ray = needed("ray", "ray")
    if not ray.is_initialized():
        ray.init(log_to_driver=False, include_dashboard=False, logging_level="error")
    return ray
