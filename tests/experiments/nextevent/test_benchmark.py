"""The benchmark of next-event prediction."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import experiments.nextevent.peers as peers
from experiments.nextevent import bench
from experiments.nextevent.bench import BenchOptions, benchmark_markdown, run_benchmark, write_benchmark
from experiments.nextevent.calibrated import calibration_report
from experiments.nextevent.cells import Cell, cell_of, load_cell, run_model
from experiments.nextevent.models import MODELS
from experiments.nextevent.outcomes import outcome_report
from experiments.nextevent.tasks import Task, make_task
from sherpa.cli.main import app
from sherpa.errors import ConfigError, SherpaError, SplitError
from sherpa.estimators.registry import ESTIMATORS
from sherpa.eventlog import EventLog


def write_log(path: Path, cases: list[tuple[str, int, str]]) -> Path:
    """A CSV of (case, minute of its start, one-letter types a minute apart)."""
    rows = ["case_id,activity,timestamp"]
    for name, start, types in cases:
        for at, event in enumerate(types):
            hours, minute = divmod(start + at, 60)
            rows.append(f"{name},{event},2026-01-{1 + hours // 24:02d}T{hours % 24:02d}:{minute:02d}:00Z")
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    cases = [(f"task-{n // 4}-trial{n % 4}", 10 * n, "ab" + rng.choice(["c", "d"]) + "e") for n in range(100)]
    return write_log(tmp_path / "log.csv", cases)


def task_of(train: list[str], test: list[str]) -> Task:
    names = sorted(set("".join([*train, *test])))

    def log(cases: list[str]) -> EventLog:
        codes = [names.index(x) for case in cases for x in case]
        return EventLog.from_codes(codes, np.cumsum([0, *map(len, cases)]), names)

    return Task("t", "by-start", log(train), log(test), np.arange(len(test)), "0")


# -- tasks -------------------------------------------------------------------------------------------------------


def test_the_cases_that_started_last_are_tested(path: Path, tmp_path: Path) -> None:
    task = make_task(path)
    assert (len(task.train), len(task.test), task.steps) == (80, 20, 80)
    assert task.test.case_ids[0] == "task-20-trial0"
    late = write_log(tmp_path / "late.csv", [("late", 50, "ab"), ("early", 0, "ab"), ("middle", 20, "ab")])
    assert make_task(late, test_fraction=1 / 3).test.case_ids == ("late",)


def test_a_strict_cut_leaves_out_what_was_under_way(tmp_path: Path) -> None:
    cases = [("a", 0, "xy"), ("long", 1, "x" * 30), ("b", 2, "xy"), ("c", 3, "xy"), ("d", 20, "xy")]
    task = make_task(write_log(tmp_path / "log.csv", cases), "temporal")
    assert task.test.case_ids == ("d",)
    assert set(task.train.case_ids) == {"a", "b", "c"}


def test_groups_are_tested_whole(path: Path) -> None:
    task = make_task(path, group_pattern=r"(task-\d+)-trial")
    assert task.split == "unseen-group"
    assert {name.rsplit("-", 1)[0] for name in task.test.case_ids} == {f"task-{n}" for n in range(20, 25)}
    assert np.bincount(task.cluster).tolist() == [4] * 5
    # A pattern that not every case matches cuts nothing.
    assert make_task(path, group_pattern=r"(other)").split == "by-start"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"split": "unseen-group"}, "needs a pattern"),
        ({"group_pattern": "("}, "not a regular expression"),
        ({"group_pattern": "task"}, "no group in parentheses"),
        ({"group_pattern": "(t)ask"}, "too few"),
        ({"test_fraction": 0.0}, "must lie between"),
    ],
)
def test_what_cannot_be_cut(path: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(SplitError, match=said):
        make_task(path, **options)


def test_times_are_needed_for_a_cut_in_time(tmp_path: Path) -> None:
    plain = tmp_path / "plain.csv"
    plain.write_text("case_id,activity\na,x\na,y\nb,x\n")
    with pytest.raises(SplitError, match="needs the time of every case"):
        make_task(plain)


# -- cells -------------------------------------------------------------------------------------------------------


def test_ranks_and_probabilities() -> None:
    """Vocabulary x, y; one test case x y: steps are y after x, and the end after y."""
    task = task_of(["xy", "xy"], ["xy"])
    rows = np.array([[0.2, 0.2, 0.5, 0.1], [0.5, 0.3, 0.2, 0.0]])
    cell = cell_of(rows, ("x", "y"), task, 1.0, 2.0, {})
    # y has 0.2 like x, which comes first; the end has 0.2, behind x and y.
    assert cell.rank.tolist() == [3, 3]
    assert cell.p_target.tolist() == [0.2, 0.2]
    assert cell.p_top.tolist() == [0.5, 0.5]
    found = cell.to_json(3)
    assert (found["top1"], found["topK"]) == (0, 1)
    assert found["bits"] == pytest.approx(-np.log2(0.2))
    assert found["predictMicros"] == pytest.approx(1e6)
    with pytest.raises(ValueError, match="shape"):
        cell_of(rows[:1], ("x", "y"), task, 0, 0, {})


def test_what_was_called_impossible_has_no_log_loss() -> None:
    task = task_of(["xy"], ["xz"])
    cell = cell_of(np.array([[0.5, 0.5, 0.0, 0.0], [0.1, 0.1, 0.8, 0.0]]), ("x", "y"), task, 0, 0, {})
    assert cell.rank.tolist() == [0, 1]
    assert cell.to_json(3)["bits"] is None
    assert cell.to_json(3)["impossibleSteps"] == 1


@pytest.mark.parametrize("name", [n for n in MODELS if n != "recurrent"])
def test_every_model_gives_distributions(name: str) -> None:
    rng = np.random.default_rng(2)
    cases = ["".join(rng.choice(list("abc"), rng.integers(1, 6))) for _ in range(40)]
    task = task_of(cases, [*cases[:5], "azb"])
    model = MODELS[name](3)
    model.fit(task.train)
    rows = model.predict_proba(task.test)
    assert rows.shape == (task.steps, len(model.vocabulary) + 2)
    assert (rows >= 0).all()
    total = rows.sum(axis=1)
    assert (total < 1 + 1e-9).all()
    if name not in ("longest-suffix", "global-majority"):
        assert total == pytest.approx(np.ones(task.steps), abs=1e-9)


def test_the_recurrent_model_learns() -> None:
    pytest.importorskip("jax", reason="jax is not installed (extra learned)")
    task = task_of(["abcd", "acbd"] * 40, ["abcd", "acbd"])
    cell = run_model(lambda: MODELS["recurrent"](3), task)
    # Only whether b or c comes first is open.
    assert cell.hit.mean() >= 0.7
    assert (cell.p_target > 0).all()


def test_a_cell_is_kept_and_known_again(tmp_path: Path) -> None:
    task = task_of(["xy"] * 5, ["xy"])
    cell = run_model(lambda: MODELS["kneser-ney"](2), task)
    place = tmp_path / "cells" / "one.npz"
    cell.save(place, {"model": "kneser-ney"})
    again = load_cell(place, {"model": "kneser-ney"})
    assert again is not None
    assert again.p_target.tolist() == cell.p_target.tolist()
    assert again.about == cell.about
    assert load_cell(place, {"model": "another"}) is None
    place.write_bytes(place.read_bytes()[:40])
    assert load_cell(place, {"model": "kneser-ney"}) is None
    assert load_cell(tmp_path / "gone.npz", {}) is None


# -- the table ---------------------------------------------------------------------------------------------------


def test_rows_and_contrasts(path: Path, tmp_path: Path) -> None:
    task = make_task(path)
    record = run_benchmark([task], BenchOptions(("global-majority", "kneser-ney"), "mixture"), tmp_path)
    rows = {r["model"]: r for r in record["results"]}
    assert list(rows) == ["mixture", "global-majority", "kneser-ney"]
    wanted = ("log", "model", "split", "cases", "events", "steps", "top1", "topK", "bits", "brier", "ece", "fitSeconds")
    assert all(name in rows["mixture"] for name in (*wanted, "predictMicros", "ci"))
    # a then b then c or d then e then the end: one step in four is a coin toss.
    assert rows["mixture"]["top1"] == pytest.approx(0.875, abs=0.125)
    [first, second] = record["contrasts"]
    assert first["top1Gain"] == pytest.approx(rows["mixture"]["top1"] - rows["global-majority"]["top1"])
    assert first["top1GainCi"]["clusters"] == 20
    assert second["bitsGain"] == pytest.approx(rows["mixture"]["bits"] - rows["kneser-ney"]["bits"])
    [belief] = record["calibration"]
    assert belief["once"]["conformal"]["coverage"] is not None
    write_benchmark(record, tmp_path)
    assert json.loads((tmp_path / "next-event.json").read_bytes())["reference"] == "mixture"
    assert "| log | model |" in benchmark_markdown(record)


def test_finished_cells_are_not_run_again(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = make_task(path)
    options = BenchOptions(("global-majority",), "kneser-ney")
    first = run_benchmark([task], options, tmp_path)

    def broken(_: int) -> Any:
        raise AssertionError("it was run again")

    monkeypatch.setitem(bench.MODELS, "global-majority", broken)
    monkeypatch.setitem(bench.MODELS, "kneser-ney", broken)
    again = run_benchmark([task], options, tmp_path)
    assert again["results"] == first["results"]
    with pytest.raises(AssertionError, match="run again"):
        run_benchmark([task], BenchOptions(("global-majority",), "kneser-ney", order=3), tmp_path)


def test_an_interruption_keeps_the_finished_cells(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_: int) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setitem(bench.MODELS, "global-majority", stop)
    record = run_benchmark([make_task(path)], BenchOptions(("kneser-ney", "global-majority"), "mixture"), tmp_path)
    assert record["interrupted"]
    assert [r["model"] for r in record["results"]] == ["mixture", "kneser-ney"]
    assert len(list((tmp_path / "cells").iterdir())) == 2


def test_a_model_that_is_unknown_or_fails_is_told_and_the_others_run(path: Path) -> None:
    record = run_benchmark([make_task(path)], BenchOptions(("nonsense", "peer:vlmc", "kneser-ney"), "mixture"))
    assert [r["model"] for r in record["results"]] == ["mixture", "kneser-ney"]
    assert [e["model"] for e in record["errors"]] == ["nonsense", "peer:vlmc"]
    assert "is unknown" in record["errors"][0]["error"]
    assert "--peers" in record["errors"][1]["error"]


def test_calibration_once_and_kept_up(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    cases = [(f"c{n:04d}", 10 * n, "ab" + rng.choice(["c", "d"]) + "e") for n in range(600)]
    task = make_task(write_log(tmp_path / "log.csv", cases))
    report = calibration_report(task, lambda: ESTIMATORS["mixture"](3))
    for part in (report["once"], report["keptUp"]):
        assert part["top1"] == pytest.approx(0.875, abs=0.125)
        assert part["ece"] < 0.15
        assert part["conformal"]["coverage"] > 0.85
        assert part["gate"]["accuracy"] >= part["gate"]["ci"]["low"]
        assert [u["threshold"] for u in part["utility"]] == pytest.approx([1 / 3, 1 / 2, 2 / 3, 5 / 6])
    json.dumps(report)


def test_keeping_up_follows_a_change_that_once_does_not(tmp_path: Path) -> None:
    cases = [(f"c{n:04d}", 10 * n, "abcx" if n < 100 else "aqcx") for n in range(200)]
    task = make_task(write_log(tmp_path / "log.csv", cases), test_fraction=0.5)
    report = calibration_report(task, lambda: ESTIMATORS["mixture"](3))
    assert report["once"]["top1"] < 0.6
    assert report["keptUp"]["top1"] > report["once"]["top1"] + 0.2
    assert report["once"]["conformal"]["warning"] is not None


def test_outcomes_are_reported_where_cases_end_both_ways(path: Path) -> None:
    assert outcome_report(make_task(path)) == []
    task = task_of(["ab", "ac"] * 20, ["ab", "ac"] * 5)

    def ended(log: EventLog) -> EventLog:
        b = log.vocabulary.index("b")
        outcomes = [0 if at % 2 == 0 else 1 if code == b else 2 for at, code in enumerate(log.codes.tolist())]
        return EventLog.from_codes(log.codes, log.offsets, log.vocabulary, outcomes=outcomes)

    told = Task("t", "by-start", ended(task.train), ended(task.test), task.cluster, "0")
    [row] = outcome_report(told)
    assert row["cases"] == 10
    assert row["successShare"] == 0.5
    assert row["brier"] < row["baseBrier"]
    # The second event says it; the first says nothing.
    assert row["byQuarter"][0]["auc"] == pytest.approx(0.5)
    assert row["byQuarter"][2]["auc"] == pytest.approx(1.0)


# -- peers -------------------------------------------------------------------------------------------------------

ADAPTER = """
import json, sys
import numpy as np
task = json.load(open(sys.argv[1]))
steps = sum(len(case) for case in task["test"])
assert task["order"] == 5
assert task["test"] == [[0, -1]], task["test"]
np.savez(sys.argv[2], p=np.full((steps, task["types"] + 1), 0.25), seconds=[1.5, 0.5])
"""


def test_a_peer_answers_through_its_adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run_mine.py").write_text(ADAPTER)
    (tmp_path / "run_broken.py").write_text("raise SystemExit('no such luck')")
    monkeypatch.setattr(peers, "ADAPTERS", tmp_path)
    monkeypatch.setattr(peers, "PEERS", ("mine", "broken"))
    cell: Cell = peers.run_peer("mine", task_of(["xy"] * 3, ["xz"]), Path(sys.executable), 5)
    # Three classes with 1/4 each leave 1/4 to a type never learned.
    assert cell.p_target.tolist() == [0.25, 0.25]
    assert (cell.fit_seconds, cell.predict_seconds) == (1.5, 0.5)
    with pytest.raises(SherpaError, match="no such luck"):
        peers.run_peer("broken", task_of(["xy"], ["xy"]), Path(sys.executable), 5)
    with pytest.raises(ConfigError, match="unknown"):
        peers.run_peer("other", task_of(["xy"], ["xy"]), Path(sys.executable), 5)
    assert {f"run_{name}.py" for name in ("ctxchain", "vlmc", "knlm", "tokengrams", "logicsponge", "pm4py")} <= {
        p.name for p in (Path(peers.__file__).parents[2] / "benchmarks" / "peers").iterdir()
    }


# -- the command -------------------------------------------------------------------------------------------------


def test_the_command(path: Path, tmp_path: Path) -> None:
    arguments = [
        "benchmark",
        "next-event",
        "--log",
        str(path),
        "--model",
        "kneser-ney",
        "--output",
        str(tmp_path / "o"),
    ]
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == 0, done.stderr
    record = json.loads(done.stdout)
    assert [r["model"] for r in record["results"]] == ["auto", "kneser-ney"]
    assert record["results"][0]["selection"]["chosen"]
    drawn = CliRunner().invoke(app, arguments)
    assert "Next event" in drawn.stdout
    assert "How far auto can be believed" in drawn.stdout
    missing = CliRunner().invoke(app, ["benchmark", "next-event", "--log", str(tmp_path / "gone.csv")])
    assert missing.exit_code == 2
    assert "no such file" in missing.stderr
    wrong = CliRunner().invoke(app, [*arguments, "--split", "sideways"])
    assert wrong.exit_code == 2


@pytest.mark.full
def test_the_goals_on_real_logs(data: Path) -> None:
    """Accuracy and bits that the chosen estimator must reach (temporal 80/20 by start; unseen tasks for tau-bench)."""
    goals = {
        "sepsis": (0.632, 1.51),
        "helpdesk_full": (0.782, 1.13),
        "receipt": (0.892, 0.62),
        "bpic2012_w_tax2017": (0.658, 1.20),
    }
    tasks = [make_task(data / "eventlogs" / f"{name}.csv.gz") for name in goals]
    tau = data / "agent-logs" / "tau_bench_airline_gpt4o_events.jsonl"
    tasks.append(make_task(tau, group_pattern=r"(airline-\d+)-trial"))
    for task, (top1, bits) in zip(tasks, [*goals.values(), (0.782, 1.02)], strict=True):
        found = run_model(lambda: MODELS["auto"](5), task).to_json(3)
        assert found["top1"] >= top1, task.log
        assert found["bits"] <= bits, task.log
        report = calibration_report(task, lambda: ESTIMATORS["auto"](5))["keptUp"]
        assert report["ece"] <= 0.03, task.log
        assert 0.87 <= report["conformal"]["coverage"] <= 0.92, task.log
