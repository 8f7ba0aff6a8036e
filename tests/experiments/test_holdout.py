"""Learning from some files and testing another."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.dataset import Dataset, load_dataset
from experiments.holdout import join
from experiments.validation import Protocol, validate
from sherpa.config import EngineConfig
from sherpa.errors import SplitError


def save(folder: Path, name: str, *cases: str, workflow: str | None = None) -> Dataset:
    document = {
        "name": name,
        "cases": [
            {
                "caseId": f"{name}-{i}",
                "events": [{"type": t} for t in types],
                "annotations": {"workflowClass": workflow},
            }
            for i, types in enumerate(cases)
        ],
    }
    path = folder / f"{name}.json"
    path.write_text(json.dumps(document))
    return load_dataset(path)


def csv(folder: Path) -> Dataset:
    path = folder / "plain.csv"
    path.write_text("caseId,type\np-0,x\np-0,y\np-1,z\n")
    return load_dataset(path)


def test_cases_are_joined_in_order_and_the_last_file_is_tested(tmp_path):
    first, second = save(tmp_path, "first", "ab", "c"), save(tmp_path, "second", "ba")
    tested = save(tmp_path, "tested", "ca", "ab")
    joined, indices = join([first, second], tested)
    assert [(c.case_id, "".join(c.types)) for c in joined.log] == [
        ("first-0", "ab"),
        ("first-1", "c"),
        ("second-0", "ba"),
        ("tested-0", "ca"),
        ("tested-1", "ab"),
    ]
    assert indices == [3, 4]


def test_the_joined_dataset_carries_the_name_of_the_tested_one(tmp_path):
    tested = save(tmp_path, "tested", "ab")
    joined, _ = join([save(tmp_path, "first", "ab")], tested)
    assert (joined.name, joined.path, joined.sha256) == (tested.name, tested.path, tested.sha256)


def test_annotations_and_texts_stay_with_their_cases(tmp_path):
    first = save(tmp_path, "first", "ab", "c", workflow="red")
    tested = save(tmp_path, "tested", "ab", workflow="blue")
    joined, _ = join([first], tested)
    assert [joined.group(i) for i in range(3)] == ["red", "red", "blue"]
    assert [case.info.workflow_class for case in joined.log] == ["red", "red", "blue"]


@pytest.mark.parametrize("csv_first", [True, False])
def test_a_file_without_annotations_keeps_the_others_aligned(tmp_path, csv_first):
    said, plain = save(tmp_path, "said", "ab", workflow="red"), csv(tmp_path)
    joined, indices = join([plain], said) if csv_first else join([said], plain)
    assert len(joined.cases) == len(joined.log) == 3
    assert [c.case_id for c in joined.cases] == list(joined.log.case_ids)
    assert [joined.group(i) for i in range(3)] == ([None, None, "red"] if csv_first else ["red", None, None])
    assert indices == ([2] if csv_first else [1, 2])


def test_files_without_annotations_have_none_when_joined(tmp_path):
    joined, indices = join([csv(tmp_path)], csv(tmp_path))
    assert (joined.cases, len(joined.log), indices) == ((), 4, [2, 3])


def test_only_the_tested_file_is_tested_and_only_the_others_are_learned_from(tmp_path):
    """a b is learned once; of the tested a b, a c only the first is right, whatever its neighbour says."""
    joined, indices = join([save(tmp_path, "first", "ab")], save(tmp_path, "tested", "ab", "ac", "ac"))
    config = EngineConfig(min_support=1)
    report, table = validate(joined, config, Protocol(split="holdout", top_k=1), test=indices)
    assert table.columns["rank_of_target"] == [1, 0, 0]
    assert (report["protocol"]["testedCases"], report["evaluatedSteps"]) == (3, 3)
    assert report["dataset"]["name"] == "tested"


def test_an_id_in_both_files_is_reported(tmp_path):
    dataset = save(tmp_path, "same", "ab", "ac")
    joined, indices = join([dataset], replace(dataset, name="again"))
    report, _ = validate(joined, EngineConfig(), Protocol(split="holdout"), test=indices)
    assert report["leakage"]["sharedCaseIds"] == 2


def test_without_a_file_to_learn_from_there_is_no_holdout(tmp_path):
    joined, indices = join([], save(tmp_path, "tested", "ab", "ac"))
    with pytest.raises(SplitError, match="--train"):
        validate(joined, EngineConfig(), Protocol(split="holdout"), test=indices)
