"""The research gate from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from experiments.record import VOLATILE, without_volatile
from sherpa.cli.main import app

PLAN = 'schemaVersion = 1\nname = "quick"\nresamples = 300\nsplit = "k-fold"\n'


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return path


@pytest.fixture
def dataset(fixtures: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    path = tmp_path / "data.json"
    path.write_bytes((fixtures / "synthetic-workflows.json").read_bytes())
    return path


def gate(plan: Path, dataset: Path, *more: str) -> tuple[int, dict[str, Any]]:
    result = invoke("research-gate", "--plan", str(plan), "--dataset", str(dataset), "--json", *more)
    assert result.stdout, result.stderr
    return result.exit_code, json.loads(result.stdout)


def test_a_run_carries_everything_a_decision_needs(plan: Path, dataset: Path) -> None:
    code, record = gate(plan, dataset)
    assert code == 0
    assert record["mode"] == "exploratory"
    assert [c["id"] for c in record["claims"]] == ["H1", "H2", "H3", "H4", "H5"]
    h1 = record["claims"][0]
    assert h1["decision"] == "supported"
    assert h1["ci"]["low"] > 0
    assert (h1["clusters"], h1["ci"]["level"]) == (60, 0.95)
    for claim in record["claims"]:
        assert claim["evidence"]
        assert claim["nextAction"]
    assert record["sherpa"]["strategies"][0]["stateStrategy"] == "raw"
    assert len(record["baselines"]["baselines"]) == 7
    assert record["provenance"]["planSha256"]
    assert record["datasets"][0]["dataset"]["sha256"]


def test_two_runs_are_equal_but_for_the_volatile_fields(plan: Path, dataset: Path) -> None:
    first, second = (gate(plan, dataset)[1] for _ in range(2))
    assert json.dumps(without_volatile(first)) == json.dumps(without_volatile(second))
    assert set(VOLATILE) >= {
        key for key in first["provenance"] if first["provenance"][key] != second["provenance"][key]
    }


def test_a_preregistered_run_confirms_once(plan: Path, dataset: Path) -> None:
    frozen = invoke("preregister", "--plan", str(plan), "--dataset", str(dataset))
    assert frozen.exit_code == 0, frozen.stderr
    _, record = gate(plan, dataset)
    assert (record["mode"], record["reasons"]) == ("confirmatory", [])
    code, record = gate(plan, dataset)
    assert code == 1
    assert (record["mode"], record["reasons"]) == ("exploratory", ["the test data were opened 1 time before"])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda plan, data: plan.write_text(PLAN + "seed = 9\n"), "the plan was changed"),
        (lambda plan, data: data.write_bytes(data.read_bytes() + b"\n"), "not the preregistered data"),
    ],
)
def test_what_changed_after_registration_is_told(plan: Path, dataset: Path, change: Any, reason: str) -> None:
    invoke("preregister", "--plan", str(plan), "--dataset", str(dataset))
    change(plan, dataset)
    code, record = gate(plan, dataset)
    assert code == 1
    assert record["mode"] == "exploratory"
    assert reason in record["reasons"][0]


def test_options_that_override_a_registered_plan_are_told(plan: Path, dataset: Path) -> None:
    invoke("preregister", "--plan", str(plan), "--dataset", str(dataset))
    code, record = gate(plan, dataset, "--split", "temporal")
    assert code == 1
    assert record["reasons"] == ["the command line overrides the plan"]
    assert record["datasets"][0]["protocol"]["split"] == "temporal"


@pytest.mark.parametrize(
    ("view", "start"), [("md", "# Research gate"), ("html", "<!DOCTYPE html>"), ("table", "explor")]
)
def test_views(plan: Path, dataset: Path, view: str, start: str) -> None:
    result = invoke("research-gate", "--plan", str(plan), "--dataset", str(dataset), "--format", view)
    assert result.exit_code == 0
    assert result.stdout.lstrip().startswith(start)


def test_a_report_is_drawn_again_from_its_record(plan: Path, dataset: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    invoke("research-gate", "--plan", str(plan), "--dataset", str(dataset), "--output", str(first))
    result = invoke(
        "report", str(first / "record.json"), "--output", str(second), "--figures", "svg", "--figures", "png"
    )
    assert result.exit_code == 0, result.stderr
    for name in ("record.json", "report.md", "report.html"):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    drawn = sorted(p.name for p in (second / "figures").iterdir())
    assert len(drawn) == 12
    assert all((second / "figures" / name).stat().st_size > 1000 for name in drawn)


def test_every_figure_can_be_computed_again_from_the_predictions(plan: Path, dataset: Path, tmp_path: Path) -> None:
    import pandas as pd

    invoke("research-gate", "--plan", str(plan), "--dataset", str(dataset), "--output", str(tmp_path / "out"))
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    table = pd.read_csv(tmp_path / "out" / "predictions.csv.gz")
    for arm in [*record["sherpa"]["strategies"], *record["baselines"]["baselines"]]:
        ranks = table[table["predictor"] == arm["predictor"]]["rank_of_target"]
        assert len(ranks) == arm["evaluatedSteps"]
        assert (ranks == 1).mean() == pytest.approx(arm["nextTop1Accuracy"])
        assert ranks.between(1, 3).mean() == pytest.approx(arm["nextTopKAccuracy"])


def test_names_from_data_are_escaped_in_html(plan: Path, tmp_path: Path) -> None:
    nasty = "<script>alert(1)</script>"
    cases = [
        {"caseId": f"{nasty}{i}", "events": [{"type": nasty}, {"type": "x|y"}, {"type": nasty}]} for i in range(12)
    ]
    data = tmp_path / "nasty.json"
    data.write_text(json.dumps({"name": nasty, "cases": cases}))
    for view in ("html", "md"):
        result = invoke("research-gate", "--plan", str(plan), "--dataset", str(data), "--format", view)
        assert result.exit_code == 0
        if view == "html":
            assert "<script" not in result.stdout
            assert "&lt;script&gt;" in result.stdout


def test_comparing_a_run_with_itself_shows_no_difference(plan: Path, dataset: Path, tmp_path: Path) -> None:
    invoke("research-gate", "--plan", str(plan), "--dataset", str(dataset), "--output", str(tmp_path / "a"))
    path = str(tmp_path / "a" / "record.json")
    rows = json.loads(invoke("compare", path, path, "--json").stdout)["rows"]
    assert len(rows) == 20
    assert all((r["difference"], r["clusters"]) == (0, 60) for r in rows)


def test_comparing_two_settings_pairs_cases(plan: Path, dataset: Path, tmp_path: Path) -> None:
    for name, support in (("one", "1"), ("nine", "9")):
        arguments = ("--plan", str(plan), "--dataset", str(dataset), "--output", str(tmp_path / name))
        assert invoke("--min-support", support, "research-gate", *arguments).exit_code == 0
    found = invoke("compare", str(tmp_path / "nine" / "record.json"), str(tmp_path / "one" / "record.json"), "--json")
    rows = {(r["predictor"], r["metric"]): r for r in json.loads(found.stdout)["rows"]}
    assert rows["sherpa-raw", "top-1"]["difference"] != 0
    assert rows["global-majority", "top-1"]["difference"] == 0


def test_several_datasets_are_pooled(plan: Path, fixtures: Path) -> None:
    names = ("synthetic-workflows.json", "openclaw-realish.json")
    datasets = [part for name in names for part in ("--dataset", str(fixtures / name))]
    result = invoke("research-gate", "--plan", str(plan), *datasets, "--json")
    record = json.loads(result.stdout)
    assert [d["dataset"]["name"] for d in record["datasets"]] == ["synthetic-workflows", "openclaw-realish"]
    assert [p["id"] for p in record["pooled"]] == ["H1", "H2", *["H3"] * 7]
    assert record["pooled"][0]["ci"]["method"] == "random-effects"


def test_cases_of_one_cluster_count_once(plan: Path, tmp_path: Path) -> None:
    plan.write_text(PLAN + 'clusterPattern = "^(.*)-trial[0-9]+$"\n')
    data = tmp_path / "trials.jsonl"
    rows = [
        {"case_id": f"task{t}-trial{k}", "type": name}
        for t in range(8)
        for k in range(4)
        for name in ("ask", f"tool.{t % 3}", "answer")
    ]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, record = gate(plan, data)
    assert record["claims"][0]["clusters"] == 8
    assert record["datasets"][0]["cases"] == 32
    plan.write_text(plan.read_text() + "twoLevel = true\n")
    _, nested = gate(plan, data)
    assert nested["claims"][0]["clusters"] == 8
    assert len(nested["datasets"][0]["clusters"]["names"]) == 32
    assert nested["claims"][0]["estimate"] == pytest.approx(record["claims"][0]["estimate"])


def test_rivals_can_be_chosen(fixtures: Path) -> None:
    dataset = str(fixtures / "simple.csv")
    result = invoke("validate-baselines", "--dataset", dataset, "--baseline", "raw-ngram", "--json")
    found = json.loads(result.stdout)
    assert [b["baseline"] for b in found["baselines"]] == ["raw-ngram"]
    assert found["bestByAccuracy"]["baseline"] == "raw-ngram"
    assert invoke("validate-baselines", "--dataset", dataset, "--baseline", "magic").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("research-gate", "--dataset", "none.json"), "none.json: there is no such file"),
        (("report", "none.json", "--output", "x"), "none.json: cannot be read"),
        (("compare", "none.json", "none.json"), "none.json: cannot be read"),
        (("research-gate", "--dataset", "x.json", "--plan", "none.toml"), "none.toml: cannot be read"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, monkeypatch: Any, arguments: tuple[str, ...], part: str) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert part in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_file_that_is_no_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text("{}")
    result = invoke("report", str(tmp_path / "r.json"), "--output", str(tmp_path / "x"))
    assert result.exit_code == 2
    assert "is not the record of a gate run" in result.stderr
