"""Suites: many datasets, one table, one verdict."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from experiments.dataset import ImportOptions
from experiments.suite import load_suite, validate_suite
from experiments.validation import Protocol, Thresholds
from sherpa.config import EngineConfig
from sherpa.errors import DatasetError, SplitError

GOOD = ("ab", "ab", "ab")
"""Three steps, all right: the other cases know nothing but b."""
BAD = ("ac", "ad")
"""Two steps, both wrong: the other case knows d for c and c for d."""


def save(folder: Path, name: str, cases: tuple[str, ...]) -> Path:
    """A dataset of cases whose types are letters."""
    document = {"cases": [{"caseId": f"c{i}", "events": [{"type": t} for t in case]} for i, case in enumerate(cases)]}
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def manifest(folder: Path, *datasets: dict[str, object], **head: object) -> Path:
    path = folder / "suite.json"
    path.write_text(json.dumps({"datasets": datasets, **head}))
    return path


def validated(path: Path, *, split: str = "leave-one-case-out", **options):
    return validate_suite(load_suite(path), EngineConfig(), Protocol(split=split), **options)


@pytest.fixture
def both(tmp_path: Path) -> Path:
    """A folder with the good and the bad dataset: 3 right of 5 steps."""
    save(tmp_path, "good.json", GOOD)
    save(tmp_path, "bad.json", BAD)
    return tmp_path


# -- what is in a suite ----------------------------------------------------------------------------------------


def test_a_suite_file_names_datasets_relative_to_itself(tmp_path):
    save(tmp_path, "sub/good.json", GOOD)
    path = manifest(tmp_path, {"path": "sub/good.json", "name": "mine"}, {"path": "./sub/good.json"}, name="all")
    suite = load_suite(path)
    assert (suite.name, suite.path) == ("all", path)
    assert [p.resolve() for p, _ in suite.entries] == [tmp_path / "sub" / "good.json"] * 2
    assert [r["dataset"]["name"] for r in validated(path)["datasets"]] == ["mine", "good"]


def test_a_suite_file_without_a_name_is_called_like_the_file(tmp_path):
    assert load_suite(manifest(tmp_path, {"path": "x.json"})).name == "suite"


def test_a_folder_is_a_suite_of_all_its_datasets(tmp_path):
    save(tmp_path, "b.json", GOOD)
    save(tmp_path, "sub/c.json", GOOD)
    (tmp_path / "a.csv").write_text("caseId,type\none,a\none,b\ntwo,a\ntwo,b\n")
    (tmp_path / "notes.md").write_text("not a dataset")
    suite = load_suite(tmp_path)
    assert suite.name == tmp_path.name
    assert [p.relative_to(tmp_path).as_posix() for p, _ in suite.entries] == ["a.csv", "b.json", "sub/c.json"]
    assert [r["cases"] for r in validated(tmp_path)["datasets"]] == [2, 3, 3]


@pytest.mark.parametrize("name", ["suite.json", "deep/suite.json", "suite.json.gz", "SUITE.JSON"])
def test_a_suite_file_among_the_datasets_of_a_folder_is_not_a_dataset(both, name):
    text = json.dumps({"datasets": [{"path": "good.json"}]}).encode()
    (both / "deep").mkdir()
    (both / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    assert [p.name for p, _ in load_suite(both).entries] == ["bad.json", "good.json"]


@pytest.mark.parametrize("files", [[], ["notes.md"]], ids=["empty", "no dataset"])
def test_a_folder_without_datasets_is_refused(tmp_path, files):
    for name in files:
        (tmp_path / name).write_text("")
    with pytest.raises(DatasetError, match="holds no") as caught:
        load_suite(tmp_path)
    assert caught.value.file == str(tmp_path)


@pytest.mark.parametrize(
    ("document", "problem", "field"),
    [
        ({"datasets": [{"path": "a.json", "minTop2": 1}]}, "minTop2", "datasets[0]"),
        ({"datasets": [{"path": "a.json"}], "colour": "red"}, "colour", None),
        ({"datasets": []}, "length", "datasets"),
        ({"name": "x"}, "datasets", None),
        ({"datasets": [{"name": "x"}]}, "path", "datasets[0]"),
        ({"datasets": [{"path": ""}]}, "length", "datasets[0].path"),
        ({"datasets": [{"path": "a.json", "minTop1": 1.5}]}, "1", "datasets[0].minTop1"),
        ({"datasets": [{"path": "a.json", "maxMisses": -1}]}, "0", "datasets[0].maxMisses"),
        ({"datasets": [{"path": "a.json", "format": "yaml"}]}, "yaml", "datasets[0].format"),
    ],
)
def test_a_malformed_suite_file_is_refused_with_the_place(tmp_path, document, problem, field):
    path = tmp_path / "suite.json"
    path.write_text(json.dumps(document))
    with pytest.raises(DatasetError) as caught:
        load_suite(path)
    assert (caught.value.file, caught.value.field) == (str(path), field)
    assert problem in caught.value.problem


def test_a_broken_suite_file_is_refused(tmp_path):
    (tmp_path / "suite.json").write_text('{"datasets": [')
    with pytest.raises(DatasetError, match="broken JSON"):
        load_suite(tmp_path / "suite.json")


def test_an_entry_wins_over_the_options_given(tmp_path):
    (tmp_path / "a.txt").write_text("trace;step\none;a\none;b\ntwo;a\ntwo;b\n")
    fields = {"caseField": "trace", "typeField": "step", "csvDelimiter": ";", "format": "csv"}
    path = manifest(tmp_path, {"path": "a.txt", **fields})
    report = validated(path, options=ImportOptions(format="json", delimiter=","))
    assert report["errors"] == []
    assert [(r["cases"], r["datasetEvents"]) for r in report["datasets"]] == [(2, 4)]


def test_an_entry_may_have_its_own_split(tmp_path):
    save(tmp_path, "good.json", GOOD)
    path = manifest(tmp_path, {"path": "good.json", "split": "k-fold"}, {"path": "good.json"})
    report = validate_suite(load_suite(path), EngineConfig(), Protocol(folds=3))
    assert [r["protocol"]["split"] for r in report["datasets"]] == ["k-fold", "leave-one-case-out"]


# -- totals ----------------------------------------------------------------------------------------------------


def test_totals_are_sums_and_accuracies_weighted_by_step(both):
    totals = validated(both)["totals"]
    assert totals == {
        "datasets": 2,
        "cases": 5,
        "datasetEvents": 10,
        "evaluatedSteps": 5,
        "nextTop1Accuracy": pytest.approx(3 / 5),
        "nextTopKAccuracy": pytest.approx(3 / 5),
        "missCount": 2,
    }


def test_totals_of_nothing_are_not_measured(tmp_path):
    (tmp_path / "broken.json").write_text("{")
    totals = validated(tmp_path)["totals"]
    assert (totals["datasets"], totals["evaluatedSteps"]) == (0, 0)
    assert (totals["nextTop1Accuracy"], totals["nextTopKAccuracy"]) == (None, None)


def test_a_dataset_without_steps_does_not_weigh(both):
    save(both, "still.json", ("a", "b"))
    report = validated(both)
    assert report["datasets"][-1]["nextTop1Accuracy"] is None
    assert report["totals"]["nextTop1Accuracy"] == pytest.approx(3 / 5)


# -- thresholds ------------------------------------------------------------------------------------------------


def test_without_thresholds_nothing_fails(both):
    report = validated(both)
    assert (report["passed"], report["failingDatasets"], report["failures"]) == (True, [], [])


@pytest.mark.parametrize(
    ("limits", "max_failing", "failing", "passed"),
    [
        (Thresholds(min_top1=0.6), None, ["bad"], True),
        (Thresholds(min_top1=0.61), None, ["bad"], False),
        (Thresholds(min_topk=0.61), None, ["bad"], False),
        (Thresholds(max_misses=2), None, [], True),
        (Thresholds(max_misses=1), None, ["bad"], False),
        (Thresholds(min_top1=0.6), 1, ["bad"], True),
        (Thresholds(min_top1=0.6), 0, ["bad"], False),
        (Thresholds(), 0, [], True),
    ],
)
def test_given_thresholds_are_asked_of_the_totals_and_counted_per_dataset(both, limits, max_failing, failing, passed):
    """3 of 5 steps are right over both datasets, none of 2 in the bad one."""
    report = validated(both, thresholds=limits, max_failing=max_failing)
    assert report["failingDatasets"] == failing
    assert report["passed"] is passed
    assert bool(report["failures"]) is not passed


@pytest.mark.parametrize(
    ("own", "limits", "failing", "passed"),
    [
        ({"minTop1": 0.5}, Thresholds(), ["bad"], False),
        ({"minTopK": 0.5}, Thresholds(), ["bad"], False),
        ({"maxMisses": 1}, Thresholds(), ["bad"], False),
        ({"minTop1": 0.0, "maxMisses": 2}, Thresholds(), [], True),
        ({"minTop1": 0.0}, Thresholds(min_top1=0.6), [], True),
    ],
)
def test_a_dataset_has_its_own_thresholds(both, own, limits, failing, passed):
    path = manifest(both, {"path": "good.json"}, {"path": "bad.json", **own})
    report = validated(path, thresholds=limits)
    assert [r["passed"] for r in report["datasets"]] == [True, not failing]
    assert (report["failingDatasets"], report["passed"]) == (failing, passed)


def test_max_failing_forgives_datasets_that_miss_their_own(both):
    path = manifest(both, {"path": "good.json"}, {"path": "bad.json", "minTop1": 0.5})
    assert validated(path, max_failing=1)["passed"] is True
    assert validated(path, max_failing=0)["passed"] is False


# -- what goes wrong -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("broken.json", '{"cases": ['),
        ("broken.json", '{"cases": [{"caseId": "one", "events": [{"type": 5}]}]}'),
        ("broken.json", "[" * 200_000),
        ("broken.json", '{"cases": [{"caseId": "one", "events": [{"type": "a"}]}]}'),
        ("broken.csv", "colour,size\nred,1\n"),
        ("broken.xes", "<log><trace>"),
        ("broken.jsonl", "{}\n"),
    ],
    ids=["truncated", "wrong type", "nested too deeply", "a single case", "CSV", "XES", "lines"],
)
def test_a_dataset_that_cannot_be_read_is_reported_and_the_others_run(both, name, content):
    (both / name).write_text(content)
    report = validated(both)
    assert [r["dataset"]["name"] for r in report["datasets"]] == ["bad", "good"]
    (error,) = report["errors"]
    assert (error["name"], error["path"]) == (name, str(both / name))
    assert str(both / name) in error["error"]
    assert report["passed"] is False
    assert report["totals"]["evaluatedSteps"] == 5


def test_a_missing_dataset_is_reported_by_its_name_in_the_suite(both):
    report = validated(manifest(both, {"path": "absent.json", "name": "gone"}, {"path": "good.json"}))
    assert [e["name"] for e in report["errors"]] == ["gone"]
    assert len(report["datasets"]) == 1


def test_an_unknown_split_of_an_entry_is_reported_and_of_the_suite_refused(both):
    report = validated(manifest(both, {"path": "good.json", "split": "half"}, {"path": "bad.json"}))
    assert "'half'" in report["errors"][0]["error"]
    assert len(report["datasets"]) == 1
    with pytest.raises(SplitError, match="'half'"):
        validated(both, split="half")


def test_an_interrupted_suite_reports_what_is_done_and_does_not_pass(both):
    def watch(name: str, cases: int):
        def step(done: int) -> None:
            if name == "good":
                raise KeyboardInterrupt

        return step

    report = validated(both, watch=watch)
    assert [r["dataset"]["name"] for r in report["datasets"]] == ["bad"]
    assert (report["interrupted"], report["passed"], report["errors"]) == (True, False, [])


def test_watch_is_told_of_every_case(both):
    seen: list[tuple[str, int]] = []
    validated(both, watch=lambda name, cases: lambda done: seen.append((f"{name} of {cases}", done)))
    assert seen == [("bad of 2", 1)] * 2 + [("good of 3", 1)] * 3
