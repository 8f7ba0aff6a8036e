"""`validate-suite`: many datasets, one table, one exit code."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from experiments.dataset import ImportOptions, dataset_files, load_dataset
from experiments.splits import SPLITS
from experiments.validation import Protocol, Thresholds, validate
from sherpa.config import EngineConfig
from sherpa.errors import DatasetError, SherpaError, SplitError
from sherpa.sources.compressed import bare_stem, bare_suffix, open_bytes

Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=0)]


class SuiteEntry(msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """One dataset of a suite file; what it gives wins over the command line."""

    path: Annotated[str, Meta(min_length=1)]
    name: str | None = None
    format: Literal["auto", "json", "jsonl", "csv", "xes", "statebench"] | None = None
    case_field: str | None = None
    type_field: str | None = None
    timestamp_field: str | None = None
    outcome_field: str | None = None
    source_field: str | None = None
    agent_field: str | None = None
    actor_field: str | None = None
    csv_delimiter: str | None = None
    split: str | None = None
    min_top1: Share | None = None
    min_top_k: Share | None = msgspec.field(default=None, name="minTopK")
    max_misses: Count | None = None

    def options(self, defaults: ImportOptions) -> ImportOptions:
        """Import options of this entry over those of the command line."""
        names = ("case", "type", "timestamp", "outcome", "source", "agent", "actor")
        given = {name: value for name in names if (value := getattr(self, f"{name}_field")) is not None}
        return replace(
            defaults,
            format=self.format or defaults.format,
            fields=replace(defaults.fields, **given),
            delimiter=self.csv_delimiter or defaults.delimiter,
        )

    def thresholds(self, defaults: Thresholds) -> Thresholds:
        """Thresholds of this entry over those of the command line."""
        return Thresholds(
            defaults.min_top1 if self.min_top1 is None else self.min_top1,
            defaults.min_topk if self.min_top_k is None else self.min_top_k,
            defaults.max_misses if self.max_misses is None else self.max_misses,
        )


class SuiteFile(msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """A suite: datasets with their own import options and thresholds."""

    datasets: Annotated[tuple[SuiteEntry, ...], Meta(min_length=1)]
    name: str | None = None
    description: str | None = None


@dataclass(frozen=True)
class Suite:
    """A suite, with paths made absolute or relative to the working folder."""

    name: str
    path: Path
    entries: tuple[tuple[Path, SuiteEntry], ...]


def load_suite(path: Path) -> Suite:
    """A suite file, or every dataset file under a folder.

    Raises
    ------
    DatasetError, SourceError
        If the file is malformed, or the folder holds no dataset.
    """
    if path.is_dir():
        files = dataset_files(path)
        manifests = [f for f in files if _is_suite(f)]
        files = [f for f in files if f not in manifests]
        if not files:
            raise DatasetError("the folder holds no .json, .jsonl, .csv or .xes file", file=path)
        return Suite(path.resolve().name, path, tuple((f, SuiteEntry(path=str(f))) for f in files))
    with open_bytes(path) as file:
        data = file.read()
    try:
        suite = msgspec.json.decode(data, type=SuiteFile)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at ")
        raise DatasetError(problem, file=path, field=place.strip("`").removeprefix("$.") or None) from None
    except msgspec.DecodeError as error:
        raise DatasetError(f"broken JSON: {error}", file=path) from None
    return Suite(
        suite.name or bare_stem(path), path, tuple((path.parent / entry.path, entry) for entry in suite.datasets)
    )


def _is_suite(path: Path) -> bool:
    """True for a suite file that lies among the datasets of a folder."""
    if bare_suffix(path) != ".json":
        return False
    try:
        with open_bytes(path) as file:
            document = msgspec.json.decode(file.read())
    except (msgspec.DecodeError, SherpaError, UnicodeDecodeError, RecursionError):
        return False
    return isinstance(document, dict) and "datasets" in document and "cases" not in document


Watch = Callable[[str, int], Callable[[int], None]]


def validate_suite(
    suite: Suite,
    config: EngineConfig,
    protocol: Protocol,
    *,
    options: ImportOptions | None = None,
    thresholds: Thresholds | None = None,
    max_failing: int | None = None,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Test every dataset of a suite; one that cannot be read is reported, and the others still run.

    Parameters
    ----------
    thresholds : Thresholds
        Asked of the totals, and of every dataset that does not set its own.
    max_failing : int
        How many datasets may miss their thresholds; without it any that misses its own (from the suite file) fails
        the suite.
    watch : callable, optional
        Given a dataset's name and number of cases, returns what is called with each number of cases done.

    Returns
    -------
    dict
        The report as ``sherpa validate-suite --json``; ``passed`` and ``errors`` decide the exit code.
    """
    options, limits = options or ImportOptions(), thresholds or Thresholds()
    if protocol.split not in SPLITS:
        raise SplitError(f"{protocol.split!r} is unknown; choose one of {', '.join(SPLITS)}", field="--split")
    reports: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    own_failures = 0
    interrupted = False
    for path, entry in suite.entries:
        name = entry.name or path.name
        try:
            dataset = load_dataset(path, entry.options(options), name=entry.name, parity=protocol.parity)
            step = watch(dataset.name, len(dataset.log)) if watch else None
            own = replace(protocol, split=entry.split or protocol.split)
            report, _ = validate(dataset, config, own, progress=step)
        except SherpaError as error:
            errors.append({"name": name, "path": str(path), "error": str(error)})
            continue
        except KeyboardInterrupt:
            # What is done is worth reporting.
            interrupted = True
            break
        failures = entry.thresholds(limits).failures(report)
        own_failures += bool(entry.thresholds(Thresholds()).failures(report))
        reports.append({**report, "passed": not failures, "failures": failures})
    totals = _totals(reports)
    failing = [r["dataset"]["name"] for r in reports if r["failures"]]
    complaints = limits.failures(totals) if limits.any and reports else []
    if max_failing is not None:
        if len(failing) > max_failing:
            complaints.append(f"{len(failing)} datasets miss a threshold; at most {max_failing} may")
    elif own_failures:
        complaints.append(f"{own_failures} datasets miss a threshold of their own")
    return {
        "name": suite.name,
        "path": str(suite.path),
        "datasets": reports,
        "totals": totals,
        "failingDatasets": failing,
        "errors": errors,
        "failures": complaints,
        "interrupted": interrupted,
        "passed": not complaints and not errors and not interrupted,
    }


def _totals(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Sums, and accuracies weighted by step; not rounded, so that thresholds see the exact value."""
    steps = sum(r["evaluatedSteps"] for r in reports)

    def weighted(key: str) -> float | None:
        parts = [r[key] * r["evaluatedSteps"] for r in reports if r[key] is not None]
        return math.fsum(parts) / steps if steps else None

    return {
        "datasets": len(reports),
        "cases": sum(r["cases"] for r in reports),
        "datasetEvents": sum(r["datasetEvents"] for r in reports),
        "evaluatedSteps": steps,
        "nextTop1Accuracy": weighted("nextTop1Accuracy"),
        "nextTopKAccuracy": weighted("nextTopKAccuracy"),
        "missCount": sum(r["missCount"] for r in reports),
    }
