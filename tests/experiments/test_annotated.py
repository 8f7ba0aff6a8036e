"""Predictions against annotations, by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.annotated import advice, annotated_report, terminal_agreement
from experiments.dataset import StepExpectation, load_dataset
from experiments.protocol import predict
from experiments.splits import leave_one_case_out
from tests.experiments.support import Fixed


def said(step: int, expected: list[str] | None = None, risks: list[str] | None = None) -> StepExpectation:
    return StepExpectation(
        step=step,
        expected_next=None if expected is None else tuple(expected),
        expected_risks=None if risks is None else tuple(risks),
    )


def test_speaking_is_scored_at_points_and_at_silences() -> None:
    keys = [(0, 1), (0, 2), (0, 3), (0, 4), (1, 1), (1, 2)]
    found = advice(
        ["a", "b", "c", "d", "e", None],
        [0.9, 0.8, 0.75, 0.7, 0.9, None],
        keys,
        {
            (0, 1): said(1, ["a", "x"]),  # speaks, right
            (0, 2): said(2, ["x"], ["b"]),  # speaks, names a risk
            (0, 3): said(3, []),  # should be silent, speaks
            (0, 4): said(4, ["d"]),  # should speak, is silent
            (1, 2): said(2, []),  # should be silent, is
        },
    ).to_json()
    assert found == {
        "threshold": 0.75,
        "fireRate": 4 / 6,
        "advisoriesPerCase": 2.0,
        "interventionPoints": 3,
        "precision": 1 / 2,
        "recall": 1 / 3,
        "silenceSteps": 2,
        "silencePrecision": 1 / 2,
        "harmRate": 1 / 3,
    }


def test_what_is_not_annotated_is_not_measured() -> None:
    found = advice(["a"], [0.1], [(0, 1)], {}).to_json()
    assert (found["precision"], found["recall"], found["silencePrecision"], found["harmRate"]) == (None,) * 4
    assert found["fireRate"] == 0


@pytest.fixture
def annotated(tmp_path: Path) -> Path:
    path = tmp_path / "annotated.json"
    names = ("x", "y", "task.completed")
    cases = [{"caseId": c, "events": [{"type": name} for name in names]} for c in ("a", "b")]
    cases[0]["annotations"] = {
        "expectations": {
            "terminalOutcome": "success",
            "nextByStep": [{"step": 1, "expectedNext": ["y", "z"]}, {"step": 2, "expectedNext": ["q"]}],
        }
    }
    cases[1]["annotations"] = {"expectations": {"terminalOutcome": "failure"}}
    path.write_text(json.dumps({"cases": cases}))
    return path


def test_expected_events_may_be_several(annotated: Path) -> None:
    dataset = load_dataset(annotated)
    part = predict(dataset, leave_one_case_out(dataset.log), lambda: Fixed(("w", "z", "y"), (0.5, 0.3, 0.2)), top=3)
    found = annotated_report(dataset, part, 2)
    assert found is not None
    # Step 1 accepts y or z: the second rank hits; step 2 accepts q: nothing does.
    assert found["expectedNext"] == {"steps": 2, "top1": 0.0, "topK": 0.5}


def test_annotated_ends_are_compared_with_what_the_events_say(annotated: Path) -> None:
    assert terminal_agreement(load_dataset(annotated)) == {"cases": 2, "agreement": 0.5}


def test_data_without_annotations_has_no_such_report(tmp_path: Path) -> None:
    path = tmp_path / "plain.csv"
    path.write_text("case,activity\n1,x\n1,y\n2,x\n2,y\n")
    dataset = load_dataset(path)
    part = predict(dataset, leave_one_case_out(dataset.log), lambda: Fixed(("x",), (1.0,)))
    assert annotated_report(dataset, part, 3) is None
