"""The table of models × logs, resumable cell by cell, with intervals paired on the same steps."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.nextevent.calibrated import calibration_report
from experiments.nextevent.cells import Cell, load_cell, run_model
from experiments.nextevent.models import DEFAULT, MODELS
from experiments.nextevent.outcomes import outcome_report
from experiments.nextevent.peers import PEERS, run_peer
from experiments.nextevent.resampling import bootstrap
from experiments.nextevent.tasks import Task
from experiments.report.markdown import table
from sherpa import __version__
from sherpa.answers import json_document
from sherpa.errors import SherpaError
from sherpa.estimators.registry import ESTIMATORS
from sherpa.files import write_whole

Watch = Callable[[int], None]
Float = npt.NDArray[np.float64]
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
REVISION = 1
"""Raised when a model changes what it says, so that older cells are computed again."""


@dataclass(frozen=True)
class BenchOptions:
    """How the benchmark is run.

    Attributes
    ----------
    models : sequence of str
        Of `MODELS`, or ``peer:NAME`` for a package that runs in its own environment.
    reference : str
        What the others are compared with.
    order, top_k, seed : int
    peers : Path or None
        Python of the environment with the peers.
    """

    models: Sequence[str]
    reference: str = DEFAULT
    order: int = 5
    top_k: int = 3
    seed: int = 0
    peers: Path | None = None


def run_benchmark(
    tasks: Sequence[Task], options: BenchOptions, folder: Path | None = None, *, watch: Watch | None = None
) -> dict[str, Any]:
    """Run every model on every task; cells finished before are taken as they are.

    Parameters
    ----------
    folder : Path, optional
        Where cells are kept, each written at once when it is finished.
    watch : callable, optional
        Called with 1 after each cell.

    Returns
    -------
    dict
        ``results`` (a row per log and model), ``contrasts`` (against the reference), ``errors``, ``interrupted``.
    """
    names = list(dict.fromkeys([options.reference, *options.models]))
    results: list[dict[str, Any]] = []
    calibrations: list[dict[str, Any]] = []
    outcomes: list[dict[str, Any]] = []
    contrasts: list[dict[str, Any]] = []
    errors: list[dict[str, str]] = []
    interrupted = False
    for task in tasks:
        cells: dict[str, Cell] = {}
        try:
            for name in names:
                try:
                    cells[name] = _cell(task, name, options, folder)
                except (SherpaError, ImportError) as error:
                    errors.append({"log": task.log, "model": name, "error": str(error)})
                if watch is not None:
                    watch(1)
        except KeyboardInterrupt:
            interrupted = True
        results += _rows(task, cells, options)
        contrasts += _contrasts(task, cells, options)
        try:
            calibrations += _calibrations(task, options)
            outcomes += outcome_report(task)
        except KeyboardInterrupt:
            interrupted = True
        if interrupted:
            break
    return {
        "interrupted": interrupted,
        "reference": options.reference,
        "order": options.order,
        "topK": options.top_k,
        "results": results,
        "contrasts": contrasts,
        "calibration": calibrations,
        "outcomes": outcomes,
        "errors": errors,
    }


def _calibrations(task: Task, options: BenchOptions) -> list[dict[str, Any]]:
    """How far the reference can be believed, if it is one of the estimators."""
    make = ESTIMATORS.get(options.reference)
    if make is None:
        return []
    report = calibration_report(task, lambda: make(options.order), seed=options.seed)
    return [{"log": task.log, "model": options.reference, **report}]


def _cell(task: Task, name: str, options: BenchOptions, folder: Path | None) -> Cell:
    key = {
        "log": task.sha256,
        "split": task.split,
        "train": _digest(task.train.case_ids),
        "test": _digest(task.test.case_ids),
        "model": name,
        "order": options.order,
        "revision": REVISION,
        "version": __version__,
    }
    path = None
    if folder is not None:
        path = folder / "cells" / (_UNSAFE.sub("-", f"{task.log}--{task.split}--{name}") + ".npz")
        held = load_cell(path, key)
        if held is not None:
            return held
    if name.startswith("peer:"):
        cell = run_peer(name.removeprefix("peer:"), task, options.peers, options.order)
    else:
        make = MODELS.get(name)
        if make is None:
            known = [*MODELS, *(f"peer:{p}" for p in PEERS)]
            raise SherpaError(f"model {name!r} is unknown; choose of {', '.join(known)}")
        cell = run_model(lambda: make(options.order), task)
    if path is not None:
        cell.save(path, key)
    return cell


def _digest(names: Sequence[str]) -> str:
    return hashlib.blake2b("\0".join(names).encode(), digest_size=16).hexdigest()


def _rows(task: Task, cells: dict[str, Cell], options: BenchOptions) -> list[dict[str, Any]]:
    rows = []
    for name, cell in cells.items():
        bits = _bits(cell)
        values = np.column_stack([cell.hit.astype(float), np.zeros(len(cell.rank)) if bits is None else bits])
        found = bootstrap(task, values, seed=options.seed)
        ci = (
            None
            if found is None
            else {"top1": found.interval(0).to_json(), "bits": None if bits is None else found.interval(1).to_json()}
        )
        rows.append(
            {
                "log": task.log,
                "model": name,
                "split": task.split,
                "cases": len(task.train) + len(task.test),
                "events": task.train.events + task.test.events,
                "testCases": len(task.test),
                **cell.to_json(options.top_k),
                "ci": ci,
            }
        )
    return rows


def _contrasts(task: Task, cells: dict[str, Cell], options: BenchOptions) -> list[dict[str, Any]]:
    """Reference minus model: more accuracy and fewer bits favour the reference."""
    reference = cells.get(options.reference)
    if reference is None:
        return []
    rows = []
    own = _bits(reference)
    for name, cell in cells.items():
        if name == options.reference:
            continue
        other = _bits(cell)
        comparable = own is not None and other is not None
        difference = own - other if own is not None and other is not None else np.zeros(len(cell.rank))
        values = np.column_stack([reference.hit.astype(float) - cell.hit, difference])
        found = bootstrap(task, values, seed=options.seed)
        rows.append(
            {
                "log": task.log,
                "model": name,
                "top1Gain": float(values[:, 0].mean()),
                "top1GainCi": None if found is None else found.interval(0).to_json(),
                "bitsGain": float(difference.mean()) if comparable else None,
                "bitsGainCi": found.interval(1).to_json() if comparable and found is not None else None,
                "fitTimeRatio": reference.fit_seconds / cell.fit_seconds if cell.fit_seconds else None,
            }
        )
    return rows


def _bits(cell: Cell) -> Float | None:
    return None if (cell.p_target <= 0).any() else -np.log2(cell.p_target)


def write_benchmark(record: dict[str, Any], folder: Path) -> None:
    """Write ``next-event.json`` and ``next-event.md``."""
    write_whole(folder / "next-event.json", json_document(record))
    write_whole(folder / "next-event.md", benchmark_markdown(record).encode())


HEAD = ("log", "model", "top-1", "bits", "ECE", "top-1 of the reference minus this (95 %)", "fit, s")


def benchmark_rows(record: dict[str, Any]) -> list[tuple[str, ...]]:
    """A row per log and model, as cells of text."""
    gains = {(c["log"], c["model"]): c for c in record["contrasts"]}
    rows: list[tuple[str, ...]] = []
    for r in record["results"]:
        gain = gains.get((r["log"], r["model"]))
        ci = None if gain is None else gain["top1GainCi"]
        said = "reference" if gain is None else f"{100 * gain['top1Gain']:+.2f}"
        if ci is not None:
            said += f" ({100 * ci['low']:+.2f} to {100 * ci['high']:+.2f})"
        rows.append(
            (
                r["log"],
                r["model"],
                "-" if r["top1"] is None else f"{100 * r['top1']:.2f} %",
                "-" if r["bits"] is None else f"{r['bits']:.3f}",
                "-" if r["ece"] is None else f"{r['ece']:.3f}",
                said,
                f"{r['fitSeconds']:.3f}",
            )
        )
    return rows


CALIBRATION_HEAD = (
    "log",
    "use",
    "ECE before",
    "ECE after",
    "coverage of 90 % sets",
    "mean size",
    "drift",
    "p ≥ 0.75: promised",
    "came true (95 %)",
)


def calibration_rows(record: dict[str, Any]) -> list[tuple[str, ...]]:
    """Two rows per log: calibrated once, and kept up."""
    rows: list[tuple[str, ...]] = []
    for entry in record["calibration"]:
        for key, name in (("once", "once"), ("keptUp", "kept up")):
            part = entry[key]
            conformal, gate = part["conformal"], part["gate"]
            ci = gate["ci"]
            came = "-" if gate["accuracy"] is None else f"{100 * gate['accuracy']:.1f} %"
            rows.append(
                (
                    entry["log"],
                    name,
                    f"{part['rawEce']:.3f}",
                    f"{part['ece']:.3f}",
                    f"{100 * conformal['coverage']:.1f} %",
                    f"{conformal['meanSize']:.2f}",
                    "warning" if conformal["warning"] else "none seen",
                    "-" if gate["promised"] is None else f"{100 * gate['promised']:.1f} %",
                    came if ci is None else f"{came} ({100 * ci['low']:.1f} to {100 * ci['high']:.1f})",
                )
            )
    return rows


def benchmark_markdown(record: dict[str, Any]) -> str:
    """The table as Markdown."""
    lines = ["# Next-event benchmark", "", *table(HEAD, benchmark_rows(record))]
    if record["calibration"]:
        lines += [f"## Calibration of {record['reference']}", "", *table(CALIBRATION_HEAD, calibration_rows(record))]
    for error in record["errors"]:
        lines += [f"- {error['log']}, {error['model']}: {error['error']}", ""]
    return "\n".join(lines)
