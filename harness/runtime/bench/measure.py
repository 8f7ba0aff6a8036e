"""Runs the registered matrix, each run in a fresh workspace, and measures what the gates ask for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness.runtime.bench.battery import battery_problem, supercritical_problem
from harness.runtime.bench.corpus import answer, corpus_problem, make_corpus, supported
from harness.runtime.bench.defects import CLASSES, Seeded, seed_defect
from harness.runtime.bench.gates import Measured, share, total, upper_m
from harness.runtime.bench.ledger import registry
from harness.runtime.bench.repair import RepairPlanner, repair_problem, suite_passes, write_repository
from harness.runtime.bench.sweep import sweep
from harness.runtime.engine import Engine
from harness.runtime.planner import Planner

Say = Callable[[str], None]
Record = dict[str, Any]
"""What is kept of a run: its task, its end, what was verified outside, its measures."""


def repair_run(folder: Path, seeded: Seeded, name: str, *, held_out: bool, planner: Planner | None = None) -> Record:
    """One repair, verified by pytest outside of the runtime, before and after."""
    repo = write_repository(folder, seeded)
    failed_before = not suite_passes(repo)
    with Engine(folder, planner=planner or RepairPlanner()) as engine:
        result = engine.run(repair_problem(name), name)
        engine.export_trace(name, folder / "trace.json")
    return {
        "family": "repair",
        "task": name,
        "held_out": held_out,
        "status": result.status,
        "error": result.error,
        "failed_before": failed_before,
        "verified": failed_before and suite_passes(repo),
        "seeded": seeded.kind,
        "named": result.outputs.get("defect"),
        "metrics": result.metrics,
    }


def corpus_run(folder: Path, seed: int, *, held_out: bool, engine: Engine | None = None) -> Record:
    """Questions about one corpus, each claim verified by reading what it cites."""
    questions = make_corpus(folder / "corpus", seed)
    name = f"corpus_{seed}"
    with engine or Engine(folder) as opened:
        result = opened.run(corpus_problem(name, questions), name)
        opened.export_trace(name, folder / "trace.json")
    rows = []
    for n, question in enumerate(questions):
        claim = answer(question, result.outputs.get(f"q{n}", []), folder / "corpus")
        held = claim is not None and supported(claim, question, folder / "corpus")
        rows.append(
            {"question": question.text, "answerable": question.answer is not None, "claimed": claim is not None}
        )
        rows[-1]["supported"] = held
    right = [row["supported"] if row["answerable"] else not row["claimed"] for row in rows]
    return {
        "family": "corpus",
        "task": name,
        "held_out": held_out,
        "status": result.status,
        "error": result.error,
        "verified": result.status == "completed" and all(right),
        "questions": rows,
        "metrics": result.metrics,
    }


def battery_run(folder: Path, problem: dict[str, Any]) -> Record:
    """One goal of the battery."""
    with Engine(folder, registry=registry()) as engine:
        result = engine.run(problem, problem["id"])
        engine.export_trace(problem["id"], folder / "trace.json")
    return {
        "family": "battery",
        "task": problem["id"],
        "held_out": False,
        "status": result.status,
        "error": result.error,
        "verified": None,
        "metrics": result.metrics,
    }


def run_matrix(folder: Path, matrix: dict[str, Any], say: Say = lambda _: None) -> dict[str, Any]:
    """Run everything that is registered.

    Returns
    -------
    dict
        ``records`` of runs, ``control`` of the supercritical ones, ``sweeps``.
    """
    records: list[Record] = []
    for part, held_out in (("repair_seen", False), ("repair_held_out", True)):
        for seed in matrix.get(part, []):
            for kind in CLASSES:
                name = f"repair_{kind}_{seed}"
                say(name)
                records.append(repair_run(folder / name, seed_defect(kind, seed), name, held_out=held_out))
    for part, held_out in (("corpus_seen", False), ("corpus_held_out", True)):
        for seed in matrix.get(part, []):
            say(f"corpus {seed}")
            records.append(corpus_run(folder / f"corpus_{seed}", seed, held_out=held_out))
    for number in range(matrix.get("battery", 0)):
        say(f"battery {number}")
        records.append(battery_run(folder / f"battery_{number}", battery_problem(number)))
    control = [
        battery_run(folder / f"control_{number}", supercritical_problem(number))
        for number in range(min(5, matrix.get("battery", 0)))
    ]
    sweeps = []
    for name in matrix.get("sweeps", []):
        say(f"crash sweep of {name}")
        sweeps.append(sweep(name, folder / f"sweep_{name}"))
    return {"records": records, "control": control, "sweeps": sweeps}


def measured(records: Sequence[Record], sweeps: Sequence[dict[str, Any]]) -> dict[str, Measured]:
    """What the gates ask for, from the records of runs and sweeps alone."""
    repairs = [record for record in records if record["family"] == "repair"]
    planned = [record for record in records if record["family"] != "corpus"]
    held_out = [record for record in records if record["held_out"]]
    asked = [row for record in records if record["family"] == "corpus" for row in record["questions"]]
    answerable = [row for row in asked if row["answerable"]]
    # The root plan of a run is no decision of a planner.
    decompositions = [max(0, record["metrics"]["branching"]["decompositions"] - 1) for record in planned]
    claimed = [record["metrics"]["admission"]["claimed_atomic"] for record in records]
    kills = sum(report["kills"] for report in sweeps)
    differing = sum(len(report["differences"]) for report in sweeps)
    recall = share(sum(row["supported"] for row in answerable), len(answerable))
    silent = [row for row in asked if not row["answerable"]]
    recall.raw["unanswerable"] = len(silent)
    recall.raw["abstained"] = sum(not row["claimed"] for row in silent)
    success = share(sum(_succeeded(record) for record in held_out), len(held_out))
    success.raw["tasks"] = [record["task"] for record in held_out if not _succeeded(record)]
    named = share(sum(record["named"] == record["seeded"] for record in repairs), len(repairs))
    named.raw["undetected"] = sorted({r["seeded"] for r in repairs if r["named"] != r["seeded"]})
    return {
        "decompositions": total(decompositions),
        "claimed-atomic": total(claimed),
        "held-out-success": success,
        "corrected-m": upper_m([record["metrics"]["branching"] for record in planned]),
        "needle-recall": recall,
        "crash-resume": share(kills - differing, kills),
        "repairs-verified": share(sum(bool(record["verified"]) for record in repairs), len(repairs)),
        "defects-named": named,
    }


def _succeeded(record: Record) -> bool:
    return record["status"] == "completed" and bool(record["verified"])
