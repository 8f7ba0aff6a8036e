"""Accuracy and misses of the original's rivals, on its fixtures and on random datasets, in parity mode."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from baselines.registry import PUBLISHED, baseline
from experiments.dataset import load_dataset
from experiments.protocol import Predictions, run
from experiments.splits import make_split
from tests.conftest import DATA

CONFORMANCE = DATA / "conformance"
GOLDEN = sorted((CONFORMANCE / "golden").glob("golden-*.json"))
TOP = 3
MAX_MISSES = 25

needs_data = pytest.mark.skipif(not GOLDEN, reason=f"real inputs are absent: {DATA} (set SHERPA_DATA)")


def figures(part: Predictions) -> dict[str, Any]:
    """The figures of a report, counted from the table row by row."""
    ranks = part.columns["rank_of_target"]
    steps = len(ranks)
    top1 = sum(rank == 1 for rank in ranks)
    topk = sum(1 <= rank <= TOP for rank in ranks)
    rows = zip(*(part.columns[name] for name in ("case", "step", "target", "top_k", "rank_of_target")), strict=True)
    misses = [
        {"caseId": part.log.case_ids[case], "step": step, "expected": target, "predicted": list(predicted)}
        for case, step, target, predicted, rank in rows
        if not 1 <= rank <= TOP
    ]
    return {
        "evaluatedSteps": steps,
        "nextTop1Accuracy": top1 / steps if steps else 0,
        "nextTopKAccuracy": topk / steps if steps else 0,
        "missCount": steps - topk,
        "misses": misses[:MAX_MISSES],
    }


def assert_same_rivals(path: Path, expected: list[dict[str, Any]]) -> None:
    dataset = load_dataset(path, parity=True)
    split = make_split("leave-one-case-out", dataset.log)
    assert tuple(want["baseline"] for want in expected) == PUBLISHED
    table = run(dataset, split, [baseline(name, annotations=True) for name in PUBLISHED], top=TOP)
    for want in expected:
        got = figures(table[want["baseline"]])
        assert {"baseline": want["baseline"], **got} == {"baseline": want["baseline"], **{k: want[k] for k in got}}


@needs_data
@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_random_datasets(golden: Path, tmp_path: Path) -> None:
    answers = json.loads(golden.read_text())
    path = tmp_path / "ds.json"
    path.write_text(json.dumps(answers["dataset"]))
    assert_same_rivals(path, answers["baselines"]["baselines"])


@needs_data
def test_published_baselines() -> None:
    result = CONFORMANCE / "published/results/2026-05-21-baselines-synthetic.json"
    expected = json.loads(result.read_text())["baselines"]
    assert_same_rivals(CONFORMANCE / "published/synthetic-workflows.json", expected)


@needs_data
@pytest.mark.parametrize(
    ("dataset", "result"),
    [
        ("openclaw-realish.json", "results/2026-05-21-research-gate-openclaw-realish.json"),
        ("synthetic-workflows.json", "derived/gate-synthetic-workflows.json"),
        ("derived/statebench-projected-12.json", "derived/gate-statebench-projected-12.json"),
    ],
)
def test_published_gates(dataset: str, result: str) -> None:
    expected = json.loads((CONFORMANCE / "published" / result).read_text())["baselines"]["baselines"]
    assert_same_rivals(CONFORMANCE / "published" / dataset, expected)
