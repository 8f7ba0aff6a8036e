"""Committed evidence: rebuilt by ``make results``, compared with what is committed by ``make results-check``.

``results/README.md`` is drawn from the records; no figure in it is typed by hand.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from experiments.dataset import load_dataset
from experiments.gate import run_gate
from experiments.intervention import h4
from experiments.plan import load_plan, open_test
from experiments.record import gate_record
from experiments.report import to_markdown, write_report
from experiments.report.markdown import DECISION_HEAD, decision_row, percent, table
from experiments.suite import load_suite, validate_suite
from experiments.validation import Protocol
from sherpa.answers import json_document
from sherpa.config import EngineConfig
from sherpa.files import write_whole
from sherpa.instants import format_milliseconds

FIXTURES = Path("fixtures/validation")
GATE_DATASETS = ("synthetic-workflows.json", "openclaw-realish.json")
TOLERANCE = 1e-9


def build(folder: Path) -> None:
    """Run the bundled suite and the gate, and write records, pages and the table of contents."""
    suite = run_suite()
    write_whole(folder / "suite" / "record.json", json_document(suite))
    gate = run_bundled_gate()
    write_report(gate, folder / "gate")
    write_whole(folder / "README.md", readme(suite, gate).encode())


def run_suite() -> dict[str, Any]:
    """The bundled suite by the default protocol."""
    config = EngineConfig(state_strategy="family-procedure")
    return validate_suite(load_suite(FIXTURES / "suite.json"), config, Protocol())


def run_bundled_gate() -> dict[str, Any]:
    """The gate with the plan of the package on the two annotated datasets."""
    begin = time.perf_counter()
    started_at = format_milliseconds(time.time_ns())
    plan, data = load_plan(None)
    datasets = [load_dataset(FIXTURES / name) for name in GATE_DATASETS]
    mode = open_test(None, data, datasets, now=started_at)
    evidence = h4([], plan, np.random.default_rng([plan.seed, 4]))
    return gate_record(
        [run_gate(dataset, plan, evidence) for dataset in datasets],
        plan,
        data,
        mode,
        parity=False,
        command=["make", "results"],
        started_at=started_at,
        wall_seconds=time.perf_counter() - begin,
    )


def readme(suite: dict[str, Any], gate: dict[str, Any]) -> str:
    """The table of contents, from the records."""
    rows = [
        (
            d["dataset"]["name"],
            str(d["cases"]),
            str(d["datasetEvents"]),
            str(d["evaluatedSteps"]),
            percent(d["nextTop1Accuracy"]),
            percent(d["nextTopKAccuracy"]),
            percent(d["nonTrivial"]["nextTop1Accuracy"]),
        )
        for d in suite["datasets"]
    ]
    lines = [
        "# Results",
        "",
        "Written by `make results` from the records in this folder; `make results-check` rebuilds them and compares.",
        "",
        "## Bundled suite ([record](suite/record.json))",
        "",
        *table(("dataset", "cases", "events", "steps", "top-1", "top-3", "non-trivial top-1"), rows),
        "## Research gate ([record](gate/record.json), [tables](gate/report.md), [page](gate/report.html))",
        "",
        f"{gate['mode'].capitalize()} run: {'; '.join(gate['reasons'])}. Estimates and intervals in percentage points.",
        "",
    ]
    for entry in gate["datasets"]:
        lines += [f"### {entry['dataset']['name']}", ""]
        lines += table(DECISION_HEAD, [decision_row(c) for c in entry["claims"]])
    return "\n".join(lines).rstrip() + "\n"


def differences(committed: Any, rebuilt: Any, place: str = "") -> Iterator[str]:
    """Places at which two records differ, beyond provenance and rounding of the last digits."""
    if isinstance(committed, dict) and isinstance(rebuilt, dict):
        for key in sorted(committed.keys() | rebuilt.keys()):
            if key == "provenance":
                continue
            if key not in committed or key not in rebuilt:
                yield f"{place}.{key}: only in the {'committed' if key in committed else 'rebuilt'} record"
            else:
                yield from differences(committed[key], rebuilt[key], f"{place}.{key}")
    elif isinstance(committed, list) and isinstance(rebuilt, list):
        if len(committed) != len(rebuilt):
            yield f"{place}: {len(committed)} entries committed, {len(rebuilt)} rebuilt"
        for at, (a, b) in enumerate(zip(committed, rebuilt, strict=False)):
            yield from differences(a, b, f"{place}[{at}]")
    elif not _same(committed, rebuilt):
        yield f"{place}: {committed!r} committed, {rebuilt!r} rebuilt"


def _same(a: Any, b: Any) -> bool:
    numbers = isinstance(a, int | float) and isinstance(b, int | float) and not isinstance(a, bool)
    return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE) if numbers else bool(a == b)


def check(folder: Path) -> list[str]:
    """Rebuild everything in memory and say where the committed results differ."""
    suite, gate = (json.loads(json_document(value)) for value in (run_suite(), run_bundled_gate()))
    found = []
    for name, rebuilt in (("suite/record.json", suite), ("gate/record.json", gate)):
        committed = json.loads((folder / name).read_text(encoding="utf-8"))
        found += [f"{name}{place}" for place in differences(committed, rebuilt)]
    committed_gate = json.loads((folder / "gate" / "record.json").read_text(encoding="utf-8"))
    committed_suite = json.loads((folder / "suite" / "record.json").read_text(encoding="utf-8"))
    if (folder / "README.md").read_text(encoding="utf-8") != readme(committed_suite, committed_gate):
        found.append("README.md is not what the records say")
    if (folder / "gate" / "report.md").read_text(encoding="utf-8") != to_markdown(committed_gate):
        found.append("gate/report.md is not what the record says")
    return found


def main() -> None:
    """``build`` or ``check`` the folder ``results``."""
    folder = Path("results")
    if sys.argv[1:] == ["build"]:
        build(folder)
    elif sys.argv[1:] == ["check"]:
        found = check(folder)
        print("\n".join(found[:40]) or "the committed results are those of this revision")
        sys.exit(1 if found else 0)
    else:
        sys.exit("usage: python -m experiments.results build|check")


if __name__ == "__main__":
    main()
