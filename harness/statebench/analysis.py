"""Two arms of the benchmark against each other: tasks are paired, differences have intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from experiments.intervals import RESAMPLES
from harness.statebench.evaluation import paired
from sherpa.errors import SourceError

Runs = list[dict[str, Any]]
Tasks = dict[tuple[str, str], Runs]
"""(domain, task) to what was recorded of each of its runs."""
PER_TASK = "per_task_metrics"


def read_metrics(folder: Path) -> Tasks:
    """Runs of every task under a folder of ``compute_metrics``, or a folder of several of them, one per domain.

    Raises
    ------
    SourceError
        If there are no metrics, or a file is not of that shape.
    """
    places = [folder] if (folder / PER_TASK).is_dir() else sorted(p.parent for p in folder.glob(f"*/{PER_TASK}"))
    found: Tasks = {}
    for place in places:
        domain = "" if place == folder else place.name
        for path in sorted((place / PER_TASK).glob("*.json")):
            found[domain, path.stem] = _runs(path)
    if not found:
        raise SourceError(f"holds no {PER_TASK}/ (made by compute_metrics), nor do its folders", file=folder)
    return found


def _runs(path: Path) -> Runs:
    try:
        document = msgspec.json.decode(path.read_bytes())
    except (msgspec.DecodeError, OSError) as error:
        raise SourceError(f"broken JSON: {error}", file=path) from None
    runs = document.get("runs") if isinstance(document, dict) else None
    if not isinstance(runs, list) or not all(isinstance(run, dict) for run in runs):
        raise SourceError("must be a list of objects", file=path, field="runs")
    return [run for run in runs if run.get("present", True)]


@dataclass(frozen=True)
class Measure:
    """A measure of a task: its key, what it is called, and how it comes from the runs (None if it was not measured)."""

    key: str
    name: str
    of: Callable[[Runs], float | None]


def _mean_of(field: str) -> Callable[[Runs], float | None]:
    def mean(runs: Runs) -> float | None:
        values = [run[field] for run in runs if isinstance(run.get(field), (int, float))]
        return fmean(map(float, values)) if values else None

    return mean


def _passed(runs: Runs) -> list[bool]:
    return [bool(run["passed"]) for run in runs if run.get("passed") is not None]


def _pass_at_1(runs: Runs) -> float | None:
    passed = _passed(runs)
    return fmean(passed) if passed else None


def _pass_all(wanted: int) -> Callable[[Runs], float | None]:
    def all_of(runs: Runs) -> float | None:
        # With fewer runs than wanted "all passed" would be easier to reach: it is not measured.
        passed = _passed(runs)
        return float(all(passed)) if len(passed) == wanted else None

    return all_of


def measures(runs: int) -> tuple[Measure, ...]:
    """What is compared, for tasks of so many runs."""
    return (
        Measure("passAt1", "pass@1", _pass_at_1),
        Measure("passAll", f"pass^{runs}", _pass_all(runs)),
        Measure("ux", "UX score", _mean_of("ux_score")),
        Measure("costUsd", "cost per task ($)", _mean_of("cost_usd")),
        Measure("toolCalls", "tool calls", _mean_of("tool_calls")),
        Measure("turns", "turns", _mean_of("turns")),
    )


def analyse(baseline: Tasks, memory: Tasks, *, seed: int, resamples: int = RESAMPLES) -> dict[str, Any]:
    """Levels of both arms and their paired differences, memory minus baseline.

    The task is the unit that is resampled: its runs are not independent of each other. Tasks of one arm alone are
    named and not compared.

    Raises
    ------
    SourceError
        If the arms share no task.
    """
    shared = sorted(baseline.keys() & memory.keys())
    if not shared:
        raise SourceError("the two folders share no task")
    most = max(len(runs) for tasks in (baseline, memory) for runs in tasks.values())
    parts: dict[str, list[tuple[str, str]]] = {}
    for key in shared:
        parts.setdefault(key[0], []).append(key)
    groups = {name or "tasks": keys for name, keys in parts.items()}
    if len(groups) > 1:
        groups["pooled"] = shared
    return {
        "runs": most,
        "tasks": len(shared),
        "onlyBaseline": ["/".join(filter(None, key)) for key in sorted(baseline.keys() - memory.keys())],
        "onlyMemory": ["/".join(filter(None, key)) for key in sorted(memory.keys() - baseline.keys())],
        "groups": {
            name: _compared(keys, baseline, memory, measures(most), seed, resamples) for name, keys in groups.items()
        },
    }


def _compared(
    keys: Sequence[tuple[str, str]],
    baseline: Mapping[tuple[str, str], Runs],
    memory: Mapping[tuple[str, str], Runs],
    compared: Sequence[Measure],
    seed: int,
    resamples: int,
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for measure in compared:
        values = [(measure.of(baseline[key]), measure.of(memory[key])) for key in keys]
        pairs = [(before, after) for before, after in values if before is not None and after is not None]
        found[measure.key] = {
            "name": measure.name,
            "tasks": len(pairs),
            "baseline": fmean(before for before, _ in pairs) if pairs else None,
            "memory": fmean(after for _, after in pairs) if pairs else None,
            **(paired([after - before for before, after in pairs], seed, resamples) or _NOT_MEASURED),
        }
    return found


_NOT_MEASURED: dict[str, Any] = {"difference": None, "interval": None}
