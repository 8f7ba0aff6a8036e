"""Plans: what is written down, frozen and honoured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.dataset import Dataset, load_dataset
from experiments.plan import (
    PlanError,
    frozen_path,
    load_plan,
    log_path,
    open_test,
    parity_plan,
    preregister,
)

NOW = "2026-01-01T00:00:00.000Z"
DATA = '{"cases": [{"caseId": "a", "events": [{"type": "x"}, {"type": "y"}]}]}'


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text('schemaVersion = 1\nname = "mine"\nseed = 3\n[H2]\nmargin = 0.05\n')
    return path


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    path = tmp_path / "test.json"
    path.write_text(DATA)
    return load_dataset(path)


def test_what_a_plan_leaves_out_has_the_default(plan: Path) -> None:
    found, data = load_plan(plan)
    assert (found.name, found.seed, found.h2.margin, found.h1.control) == ("mine", 3, 0.05, "global-majority")
    assert data == plan.read_bytes()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("alpha = 2.0", "alpha"),
        ("alpha = ", "broken TOML"),
        ('colour = "red"', "colour"),
        ('split = "random"', "field split: 'random' is unknown"),
        ('[H1]\ntreatment = "magic"', "field H1.treatment: 'magic' is unknown"),
        ('[H3]\ncontrols = ["magic"]', "field H3.controls"),
        ("[H3]\ncontrols = []", "H3.controls"),
        ('clusterPattern = "("', "not a regular expression"),
        ('clusterPattern = "a"', "exactly one group"),
        ("schemaVersion = 2", "schemaVersion"),
    ],
)
def test_a_malformed_plan_names_its_field(tmp_path: Path, text: str, part: str) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    with pytest.raises(PlanError, match=r"plan\.toml") as error:
        load_plan(path)
    assert part in str(error.value)


def test_every_arm_that_a_hypothesis_names_is_run_once(plan: Path) -> None:
    arms = load_plan(plan)[0].arms
    assert arms[:3] == ("sherpa-raw", "sherpa-procedure", "sherpa-family-procedure")
    assert len(arms) == len(set(arms)) == 10


def test_parity_keeps_the_rivals_of_the_original(plan: Path) -> None:
    found = parity_plan(load_plan(plan)[0])
    assert "repeat-last" not in found.h3.controls
    assert len(found.h3.controls) == 5
    assert found.min_support == 1


def test_a_frozen_plan_is_confirmatory_once(plan: Path, dataset: Dataset) -> None:
    frozen = preregister(plan, [dataset], now=NOW, version="1")
    assert json.loads(frozen_path(plan).read_text()) == frozen
    data = plan.read_bytes()
    first = open_test(plan, data, [dataset], now=NOW)
    assert (first.name, first.reasons, first.registered) == ("confirmatory", (), True)
    second = open_test(plan, data, [dataset], now=NOW)
    assert (second.name, second.reasons) == ("exploratory", ("the test data were opened 1 time before",))
    third = open_test(plan, data, [dataset], now=NOW)
    assert third.reasons == ("the test data were opened 2 times before",)
    assert len(log_path(plan).read_text().splitlines()) == 3


def test_a_plan_that_was_never_frozen_is_exploratory(plan: Path, dataset: Dataset) -> None:
    for path in (plan, None):
        found = open_test(path, plan.read_bytes(), [dataset], now=NOW)
        assert (found.confirmatory, found.registered) == (False, False)
        assert found.reasons == ("the plan was not preregistered",)
    assert not log_path(plan).exists()


def test_a_plan_that_was_changed_is_exploratory(plan: Path, dataset: Dataset) -> None:
    preregister(plan, [dataset], now=NOW, version="1")
    plan.write_text(plan.read_text() + "# a remark\n")
    found = open_test(plan, plan.read_bytes(), [dataset], now=NOW)
    assert found.reasons == ("the plan was changed after it was preregistered",)


def test_a_dataset_that_was_changed_by_one_byte_is_exploratory(plan: Path, dataset: Dataset) -> None:
    preregister(plan, [dataset], now=NOW, version="1")
    Path(dataset.path).write_text(DATA + " ")
    found = open_test(plan, plan.read_bytes(), [load_dataset(dataset.path)], now=NOW)
    assert not found.confirmatory
    assert found.reasons == (
        "not the preregistered data: test",
        "a preregistered dataset is missing from the run",
    )


def test_options_that_override_the_plan_make_it_exploratory(plan: Path, dataset: Dataset) -> None:
    preregister(plan, [dataset], now=NOW, version="1")
    found = open_test(plan, plan.read_bytes(), [dataset], now=NOW, overridden=True)
    assert found.reasons == ("the command line overrides the plan",)


def test_a_plan_cannot_be_frozen_twice(plan: Path, dataset: Dataset) -> None:
    preregister(plan, [dataset], now=NOW, version="1")
    with pytest.raises(PlanError, match="frozen already"):
        preregister(plan, [dataset], now=NOW, version="1")


def test_a_damaged_registration_is_an_error(plan: Path, dataset: Dataset) -> None:
    frozen_path(plan).write_text("{")
    with pytest.raises(PlanError, match="cannot be read"):
        open_test(plan, plan.read_bytes(), [dataset], now=NOW)
