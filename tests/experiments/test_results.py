"""What is committed under ``results`` is what this revision computes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.results import check, differences
from tests.conftest import PROJECT


def test_the_committed_results_are_those_of_this_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT)
    assert check(Path("results")) == []


@pytest.mark.parametrize(
    ("committed", "rebuilt", "found"),
    [
        ({"a": 1.0}, {"a": 1.0 + 1e-12}, []),
        ({"a": 1.0}, {"a": 1.1}, [".a: 1.0 committed, 1.1 rebuilt"]),
        ({"a": [1, 2]}, {"a": [1]}, [".a: 2 entries committed, 1 rebuilt"]),
        ({"a": 1}, {}, [".a: only in the committed record"]),
        ({"provenance": 1}, {"provenance": 2}, []),
        ({"a": True}, {"a": False}, [".a: True committed, False rebuilt"]),
        ({"a": None}, {"a": 0}, [".a: None committed, 0 rebuilt"]),
    ],
)
def test_differences_are_named(committed: object, rebuilt: object, found: list[str]) -> None:
    assert list(differences(committed, rebuilt)) == found


def test_a_figure_that_was_typed_by_hand_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    monkeypatch.chdir(PROJECT)
    shutil.copytree("results", tmp_path / "results")
    record = tmp_path / "results" / "suite" / "record.json"
    data = json.loads(record.read_text())
    data["datasets"][0]["nextTop1Accuracy"] = 0.99
    record.write_text(json.dumps(data))
    found = check(tmp_path / "results")
    assert any("nextTop1Accuracy: 0.99 committed" in line for line in found)
    assert "README.md is not what the records say" in found
