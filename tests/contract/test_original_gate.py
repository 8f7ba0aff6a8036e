"""Gate runs of the original in parity mode: risks of every arm, the best arms, the decisions of its point rule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from experiments.dataset import Dataset, load_dataset
from experiments.gate import run_gate
from experiments.intervention import h4
from experiments.plan import Mode, Plan, load_plan, parity_plan
from experiments.record import gate_record
from sherpa.rounding import round_half_up
from tests.conftest import DATA

GOLDEN = sorted((DATA / "conformance" / "golden").glob("golden-*.json"))
PUBLISHED = DATA / "conformance" / "published"

pytestmark = pytest.mark.skipif(not GOLDEN, reason=f"real inputs are absent: {DATA} (set SHERPA_DATA)")


def parity_record(dataset: Dataset) -> dict[str, Any]:
    plan, data = load_plan(None)
    plan = msgspec.structs.replace(parity_plan(plan), resamples=200)
    result = run_gate(dataset, plan, h4([], plan, np.random.default_rng(0)), parity=True)
    return gate_record(
        [result],
        plan,
        data,
        Mode(False, (), False),
        parity=True,
        command=["sherpa"],
        started_at="2026-01-01T00:00:00.000Z",
        wall_seconds=0.0,
    )


def rounded(value: float | None) -> float | None:
    return None if value is None else round_half_up(value, 3)


def assert_same_gate(record: dict[str, Any], expected: dict[str, Any]) -> None:
    claims = expected["claims"]
    decisions = (
        {name: claims[name] for name in ("H1", "H2", "H3", "H4", "H5")}
        if isinstance(claims, dict)
        else {c["id"]: c["decision"] for c in claims}
    )
    assert {c["id"]: c["decisionPointRule"] for c in record["claims"]} == decisions
    for ours, theirs, key in (
        (record["sherpa"]["strategies"], expected["sherpa"]["strategies"], "stateStrategy"),
        (record["baselines"]["baselines"], expected["baselines"]["baselines"], "baseline"),
    ):
        by_name = {row[key]: row for row in ours}
        for want in theirs:
            got = by_name[want[key]]
            assert got["nextTop1Accuracy"] == want["nextTop1Accuracy"]
            assert got["nextTopKAccuracy"] == want["nextTopKAccuracy"]
            assert got["missCount"] == want["missCount"]
            assert got["misses"] == want["misses"]
            risks = got["research"]["risks"]
            wanted = want["research"]["risks"] if key == "stateStrategy" else want["risks"]
            if wanted["evaluatedSteps"] == 0:
                assert risks is None
                continue
            for name in ("evaluatedSteps", "expectedRiskCount", "predictedRiskCount", "truePositiveCount"):
                assert risks[name] == wanted[name], (want[key], name)
            assert rounded(risks["precision"]) == wanted["precision"]
            assert rounded(risks["recall"]) == wanted["recall"]
    for part, rows in (("sherpa", "strategies"), ("baselines", "baselines")):
        assert record[part]["bestByAccuracy"] == expected[part]["bestByAccuracy"]
        best, wanted = record[part]["bestByRiskRecall"], expected[part]["bestByRiskRecall"]
        assert (best is None) == (wanted is None)
        if best is not None:
            assert {k: rounded(v) if isinstance(v, float) else v for k, v in best.items()} == wanted
        assert rows in record[part]
    assert record["sherpa"]["bestBySupportDensity"] == expected["sherpa"]["bestBySupportDensity"]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_gate_runs_on_random_datasets(path: Path, tmp_path: Path) -> None:
    golden = json.loads(path.read_text())
    target = tmp_path / "ds.json"
    target.write_text(json.dumps(golden["dataset"]))
    assert_same_gate(parity_record(load_dataset(target, parity=True)), golden["gate"])


@pytest.mark.parametrize(
    ("dataset", "result"),
    [
        ("openclaw-realish.json", "results/2026-05-21-research-gate-openclaw-realish.json"),
        ("synthetic-workflows.json", "derived/gate-synthetic-workflows.json"),
        ("derived/statebench-projected-12.json", "derived/gate-statebench-projected-12.json"),
    ],
)
def test_published_gate_runs(dataset: str, result: str) -> None:
    expected = json.loads((PUBLISHED / result).read_text())
    assert_same_gate(parity_record(load_dataset(PUBLISHED / dataset, parity=True)), expected)


def test_the_published_decisions() -> None:
    record = parity_record(load_dataset(PUBLISHED / "openclaw-realish.json", parity=True))
    assert {c["id"]: c["decisionPointRule"] for c in record["claims"]} == {
        "H1": "supported",
        "H2": "supported",
        "H3": "rejected",
        "H4": "pending",
        "H5": "pending",
    }
    # With intervals, four cases support nothing.
    assert all(c["decision"] != "supported" for c in record["claims"])


def test_the_plan_of_the_package_is_that_of_its_documentation() -> None:
    plan, _ = load_plan(None)
    assert isinstance(plan, Plan)
    assert (plan.alpha, plan.resamples, plan.min_clusters, plan.h2.margin) == (0.05, 10_000, 20, 0.02)
