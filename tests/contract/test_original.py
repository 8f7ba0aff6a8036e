"""Answers of the original, on its own fixtures and on random datasets (``data/conformance``), in parity mode.

docs/research/parity.md lists what differs without ``--parity``, and why.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from experiments.dataset import load_dataset
from experiments.suite import load_suite, validate_suite
from experiments.validation import Protocol, parity_protocol, validate
from sherpa import EngineConfig, ProceduralMemory
from sherpa.instants import parse_instant
from sherpa.reports.analytics import analytics_report, order_of_discovery
from sherpa.reports.taxonomy import taxonomy_report
from tests.conftest import DATA

GOLDEN = sorted((DATA / "conformance" / "golden").glob("golden-*.json"))
STRATEGIES = ("raw", "procedure", "family-procedure")
PARITY = parity_protocol(Protocol())
FIGURES = (
    "cases",
    "datasetEvents",
    "evaluatedSteps",
    "nextTop1Accuracy",
    "nextTopKAccuracy",
    "topK",
    "missCount",
    "eventBreakdown",
    "misses",
)

needs_data = pytest.mark.skipif(not GOLDEN, reason=f"real inputs are absent: {DATA} (set SHERPA_DATA)")


@pytest.fixture(scope="module", params=GOLDEN, ids=lambda path: path.stem)
def golden(request: pytest.FixtureRequest) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(request.param.read_text())
    return answer


def assert_same_report(report: dict[str, Any], expected: dict[str, Any]) -> None:
    assert {name: report[name] for name in FIGURES} == {name: expected[name] for name in FIGURES}
    assert report["stateStrategy"] == expected["stateStrategy"]
    for part in ("support", "matchBreakdown"):
        assert report["research"][part] == expected["research"][part]


def parity_report(path: Path, strategy: str) -> dict[str, Any]:
    config = EngineConfig(min_support=1, state_strategy=strategy, parity=True)
    return validate(load_dataset(path, parity=True), config, PARITY)[0]


@needs_data
def test_ingest_fills_the_same_defaults(golden: dict[str, Any], tmp_path: Path) -> None:
    with ProceduralMemory(tmp_path) as memory:
        stored = json.loads(msgspec.json.encode(memory.ingest_batch(golden["ingest"]).events))
    assert [event.pop("seq") for event in stored] == list(range(1, len(stored) + 1))
    assert stored == golden["ingest"]


@needs_data
@pytest.mark.parametrize("one_by_one", [False, True], ids=["batch", "event by event"])
def test_state_next_and_recall(golden: dict[str, Any], tmp_path: Path, one_by_one: bool) -> None:
    config = EngineConfig(min_support=1, parity=True)
    with ProceduralMemory(tmp_path, config) as memory:
        for batch in [[e] for e in golden["ingest"]] if one_by_one else [golden["ingest"]]:
            memory.ingest_batch(batch)
        for case_id, expected in golden["queries"].items():
            state = memory.workflow_state(case_id).to_json()
            for event in state["recentEvents"]:
                del event["seq"]
            assert state == expected["state"]
            assert memory.workflow_next(case_id).to_json() == expected["next"]
            assert memory.workflow_recall(case_id, "any").to_json() == expected["recall_any"]
            assert memory.workflow_recall(case_id, "successful").to_json() == expected["recall_successful"]


@needs_data
def test_counts(golden: dict[str, Any], tmp_path: Path) -> None:
    """Cases and edges behind the original's analytics report."""
    config = EngineConfig(min_support=1, parity=True)
    with ProceduralMemory(tmp_path, config) as memory:
        memory.ingest_batch(golden["ingest"])
        outcomes = [str(row[5]) for row in memory.store.rows("cases")]
        edges = {(row[0], row[1], row[2]): row for row in memory.store.rows("state_edges")}
    expected = golden["analytics"]
    assert len(outcomes) == expected["cases"]["total"]
    for name in ("success", "failure", "unknown"):
        assert outcomes.count(name) == expected["cases"][name]
    assert expected["hotTransitions"]
    for edge in expected["hotTransitions"]:
        row = edges[edge["order"], " -> ".join(edge["state"]), edge["nextEvent"]]
        assert row[3] == edge["support"]
        assert row[13] == edge["lastSeenAt"]
        assert math.floor(int(row[10]) / int(row[3]) + 0.5) == edge["meanTimeToNextMs"]


@needs_data
@pytest.mark.parametrize("one_by_one", [False, True], ids=["batch", "event by event"])
def test_reports(golden: dict[str, Any], tmp_path: Path, one_by_one: bool) -> None:
    config = EngineConfig(min_support=1, parity=True)
    taxonomy, analytics = golden["taxonomy"], golden["analytics"]
    with ProceduralMemory(tmp_path, config) as memory:
        for batch in [[e] for e in golden["ingest"]] if one_by_one else [golden["ingest"]]:
            memory.ingest_batch(batch)
        found = taxonomy_report(
            memory.store,
            as_of=parse_instant(taxonomy["generatedAt"]),
            recent_days=taxonomy["drift"]["recentWindowDays"],
            rare_support=taxonomy["rareSupport"],
        )
        assert found["drift"].pop("pValue") is None or taxonomy["drift"]["recentEventCount"]
        assert found == taxonomy
        discovered = order_of_discovery(memory.store, 5)
        as_of = parse_instant(analytics["generatedAt"])
        assert analytics_report(memory.store, as_of=as_of, discovered=discovered) == analytics


@needs_data
def test_validate_on_random_datasets(golden: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "ds.json"
    path.write_text(json.dumps(golden["dataset"]))
    assert_same_report(parity_report(path, "family-procedure"), golden["validate"])
    for expected in golden["gate"]["sherpa"]["strategies"]:
        assert_same_report(parity_report(path, expected["stateStrategy"]), expected)


def published(data: Path, name: str) -> Any:
    return json.loads((data / "conformance" / "published" / name).read_text())


def test_published_validation(data: Path) -> None:
    report = parity_report(data / "conformance/published/synthetic-workflows.json", "family-procedure")
    assert_same_report(report, published(data, "results/2026-05-21-validate-synthetic.json"))
    assert report["evaluatedSteps"] == 24
    assert (round(report["nextTop1Accuracy"], 4), round(report["nextTopKAccuracy"], 4)) == (0.8333, 0.9167)


def test_published_suite(data: Path) -> None:
    suite = load_suite(data / "conformance/published/suite.json")
    config = EngineConfig(min_support=1, state_strategy="family-procedure", parity=True)
    report = validate_suite(suite, config, PARITY)
    expected = published(data, "results/2026-05-21-validate-suite.json")
    for got, want in zip(report["datasets"], expected["datasets"], strict=True):
        assert_same_report(got, want)
    totals = {**report["totals"]}
    for name in ("nextTop1Accuracy", "nextTopKAccuracy"):
        totals[name] = round(totals[name], 3)
    assert totals == expected["totals"]
    assert (totals["nextTop1Accuracy"], totals["nextTopKAccuracy"]) == (0.667, 0.733)


@pytest.mark.parametrize(
    ("dataset", "result"),
    [
        ("openclaw-realish.json", "results/2026-05-21-research-gate-openclaw-realish.json"),
        ("synthetic-workflows.json", "derived/gate-synthetic-workflows.json"),
        ("derived/statebench-projected-12.json", "derived/gate-statebench-projected-12.json"),
    ],
)
def test_published_strategies(data: Path, dataset: str, result: str) -> None:
    expected = published(data, result)["sherpa"]["strategies"]
    assert [e["stateStrategy"] for e in expected] == list(STRATEGIES)
    for want in expected:
        assert_same_report(parity_report(data / "conformance/published" / dataset, want["stateStrategy"]), want)


def test_published_figures_of_the_realish_dataset(data: Path) -> None:
    report = parity_report(data / "conformance/published/openclaw-realish.json", "raw")
    assert (report["nextTop1Accuracy"], report["nextTopKAccuracy"]) == (0.20, 0.20)
