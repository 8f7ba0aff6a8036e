"""Folds spread over processes: each learns everything once and tests its share; the table is the same."""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from typing import Any, cast

import numpy as np

from experiments.dataset import Dataset
from experiments.protocol import Factory, Predictions, Progress, predict
from experiments.splits import Split

_TELL_EVERY = 64
"""Cases after which a process says how far it is."""


def can_spread() -> bool:
    """Whether processes can be made here that share what is in memory: not once JAX runs its threads in this one."""
    return "fork" in multiprocessing.get_all_start_methods() and "jax" not in sys.modules


def predict_in_processes(
    dataset: Dataset,
    split: Split,
    factory: Factory,
    processes: int,
    *,
    top: int = 3,
    online: bool = False,
    progress: Progress | None = None,
    timer: Callable[[], int] = time.perf_counter_ns,
) -> Predictions:
    """`experiments.protocol.predict` in several processes; arguments as there.

    Folds are independent, so every column but the latency is the same as in one process. Where processes cannot be
    forked, there is one.

    Raises
    ------
    Exception
        What a process raises.
    """
    options: dict[str, Any] = {"top": top, "online": online, "timer": timer}
    if processes < 2 or len(split.folds) < 2 or not can_spread():
        return predict(dataset, split, factory, progress=progress, **options)
    context = multiprocessing.get_context("fork")
    shares = np.array_split(np.arange(len(split.folds)), min(processes, len(split.folds)))
    workers, results = [], []
    for share in shares:
        ours, theirs = context.Pipe(duplex=False)
        some = replace(split, folds=[split.folds[i] for i in share.tolist()])
        worker = context.Process(target=_work, args=(theirs, dataset, some, factory, options), daemon=True)
        worker.start()
        theirs.close()
        workers.append(worker)
        results.append(ours)
    try:
        parts = _collect(results, progress)
    except BaseException:
        for worker in workers:
            worker.kill()
        raise
    finally:
        for worker in workers:
            worker.join()
    table = parts[0]
    for part in parts[1:]:
        table.refitted += part.refitted
        for name, values in part.columns.items():
            table.columns[name] += values
    table.log, table.groups = dataset.log, [dataset.group(i) for i in range(len(dataset.log))]
    return table


def _work(sink: Connection, dataset: Dataset, part: Split, factory: Factory, options: dict[str, Any]) -> None:
    done = 0

    def tell(cases: int) -> None:
        nonlocal done
        done += cases
        if done >= _TELL_EVERY:
            sink.send(done)
            done = 0

    try:
        table = predict(dataset, part, factory, progress=tell, **options)
        # The log is there already.
        sink.send(replace(table, log=cast("Any", None), groups=()))
    except Exception as error:
        sink.send(error)
    finally:
        sink.close()


def _collect(sources: list[Connection], progress: Progress | None) -> list[Predictions]:
    """The tables of all processes, in order; what one of them raises is raised here."""
    found: dict[int, Predictions] = {}
    waiting = dict(enumerate(sources))
    while waiting:
        for ready in wait(list(waiting.values())):
            number = next(n for n, source in waiting.items() if source is ready)
            try:
                told = waiting[number].recv()
            except EOFError:
                raise RuntimeError("a process that tested folds ended without a result") from None
            if isinstance(told, int):
                if progress is not None:
                    progress(told)
                continue
            del waiting[number]
            if isinstance(told, Exception):
                raise told
            found[number] = told
    return [found[number] for number in range(len(sources))]
