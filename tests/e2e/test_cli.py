"""The command line as people and scripts use it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

from sherpa.cli.main import app
from tests.conftest import PROJECT


def commands() -> dict[str, Any]:
    """Every command by its words; those of a group follow its name."""
    found: dict[str, Any] = {}
    for name, command in vars(get_command(app))["commands"].items():
        inner = getattr(command, "commands", None)
        found.update({f"{name} {word}": c for word, c in inner.items()} if inner else {name: command})
    return found


COMMANDS = sorted(commands())


def invoke(*arguments: str, **more: Any) -> Result:
    return CliRunner().invoke(app, list(arguments), **more)


@pytest.fixture
def root(tmp_path: Path) -> str:
    """A memory of three finished cases and one that has just begun."""
    events = [
        {"caseId": case, "source": "ci", "type": name, "ts": f"2026-01-0{day}T00:00:0{second}Z"}
        for day, (case, names) in enumerate(
            [
                ("good-1", ("task.started", "tests.run", "task.completed")),
                ("good-2", ("task.started", "tests.run", "task.completed")),
                ("bad-1", ("task.started", "deploy.requested", "task.failed")),
                ("now", ("task.started",)),
            ],
            start=1,
        )
        for second, name in enumerate(names)
    ]
    place = str(tmp_path / "memory")
    result = invoke("--root", place, "ingest-batch", "--json", input=json.dumps(events))
    assert result.exit_code == 0
    assert [e["seq"] for e in json.loads(result.stdout)] == list(range(1, 11))
    return place


def ask(root: str, *arguments: str) -> Any:
    """The answer of a command; the flag works before and after it."""
    before = invoke("--root", root, "--json", *arguments)
    after = invoke("--root", root, *arguments, "--json")
    assert before.exit_code == after.exit_code == 0, before.stderr
    assert (before.stderr, after.stderr) == ("", "")
    if arguments[0] not in ("status", "rebuild"):
        assert before.stdout == after.stdout
    assert before.stdout.endswith("}\n")
    return json.loads(before.stdout)


def test_state(root: str) -> None:
    answer = ask(root, "workflow-state", "--case-id", "now")
    # Seen three times before: 0.45 + log10(4) / 3 = 0.6507.
    assert (answer["state"], answer["support"], answer["confidence"]) == (["task.started"], 3, 0.65)
    assert answer["matchedBy"]["stateKey"] == "task.started"


def test_next(root: str) -> None:
    answer = ask(root, "workflow-next", "--case-id", "now")
    assert [(c["event"], c["probability"], c["support"]) for c in answer["candidates"]] == [
        ("tests.run", 0.67, 2),
        ("deploy.requested", 0.33, 1),
    ]
    assert answer["candidates"][0]["successRate"] == 1
    # 2/3 · (0.55 + 0.25·1 + 0.10·2/4 + 0.10·1/3 − 0) = 0.5889; 1/3 · (0.55 + 0 + 0.10/3 + 0.10/3 − 0.25) = 0.1222.
    assert [c["score"] for c in answer["candidates"]] == [0.589, 0.122]


@pytest.mark.parametrize("command", ["workflow-outcomes", "workflow-risks"])
def test_outcomes(root: str, command: str) -> None:
    answer = ask(root, command, "--case-id", "now")
    (note,) = answer["outcomes"]
    # One of three observations failed, and it is this branch: relative rate 1 / (1/3) = 3.
    assert (note["branch"], note["kind"], note["relativeRisk"], note["probability"]) == (
        "deploy.requested",
        "failure",
        3,
        0.33,
    )


def test_recall(root: str) -> None:
    answer = ask(root, "workflow-recall", "--case-id", "now", "--mode", "failed")
    assert [(p["caseId"], p["outcome"], p["continuation"]) for p in answer["paths"]] == [
        ("bad-1", "failure", ["deploy.requested", "task.failed"])
    ]
    assert len(ask(root, "workflow-recall", "--case-id", "now")["paths"]) == 2


def test_status_and_rebuild(root: str) -> None:
    before = ask(root, "status")
    assert (before["events"], before["cases"], before["healthy"]) == (10, 4, True)
    after = ask(root, "rebuild")
    assert {k: after[k] for k in ("events", "cases", "states")} == {k: before[k] for k in ("events", "cases", "states")}


def test_the_options_a_graph_was_built_with_are_kept(root: str) -> None:
    assert (
        invoke(
            "--root", root, "--strategy", "procedure", "--max-order", "2", "--default-order", "2", "rebuild"
        ).exit_code
        == 0
    )
    config = ask(root, "status")["config"]
    assert (config["stateStrategy"], config["maxOrder"], config["defaultOrder"]) == ("procedure", 2, 2)
    assert ask(root, "workflow-next", "--case-id", "now")["match"]["mode"] == "projected"


def test_duplicates_are_ignored_and_told(root: str) -> None:
    event = json.dumps([{"eventId": "once", "caseId": "x", "source": "s", "type": "t"}] * 2)
    result = invoke("--root", root, "ingest-batch", input=event)
    assert result.exit_code == 0
    assert result.stderr == "1 events were there already and are ignored\n"


@pytest.mark.parametrize(
    "command",
    [
        ("status",),
        ("workflow-state", "--case-id", "now"),
        ("workflow-next", "--case-id", "now"),
        ("workflow-outcomes", "--case-id", "now"),
        ("workflow-recall", "--case-id", "now"),
    ],
)
def test_tables_without_json(root: str, command: tuple[str, ...]) -> None:
    result = invoke("--root", root, *command)
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    assert "{" not in result.stdout
    assert len(result.stdout.splitlines()) >= 3


def test_a_case_that_is_not_there(root: str) -> None:
    assert ask(root, "workflow-next", "--case-id", "nobody")["candidates"] == []
    assert ask(root, "workflow-state", "--case-id", "nobody")["state"] == []
    assert "Nothing is known" in invoke("--root", root, "workflow-next", "--case-id", "nobody").stdout


# -- experiments -----------------------------------------------------------------------------------------------


def test_validate_suite_prints_one_table(fixtures: Path) -> None:
    result = invoke("validate-suite", "--input", str(fixtures / "suite.json"))
    assert result.exit_code == 0, result.stderr
    for name in ("synthetic-workflows", "openclaw-realish", "simple", "total"):
        assert len(re.findall(rf"^ ?{name}", result.stdout, re.M)) >= 1
    assert result.stdout.count("top-1") == 1


def test_validate_suite_is_the_same_twice_but_for_latency(fixtures: Path) -> None:
    runs = [invoke("validate-suite", "--input", str(fixtures / "suite.json"), "--json") for _ in range(2)]
    assert runs[0].stdout == runs[1].stdout
    report = json.loads(runs[0].stdout)
    assert report["totals"]["datasets"] == len(report["datasets"]) == 4


@pytest.mark.parametrize(
    ("gate", "code"),
    [
        (("--min-top1", "0"), 0),
        (("--min-top1", "1"), 1),
        (("--min-topk", "1"), 1),
        (("--max-miss-count", "0"), 1),
        (("--max-miss-count", "100000"), 0),
        (("--min-top1", "1", "--max-failing-datasets", "0"), 1),
    ],
)
def test_thresholds_decide_the_exit_code(fixtures: Path, gate: tuple[str, ...], code: int) -> None:
    suite = invoke("validate-suite", "--input", str(fixtures / "suite.json"), *gate)
    single = invoke("validate", "--dataset", str(fixtures / "synthetic-workflows.json"), *gate[:2])
    assert (suite.exit_code, single.exit_code) == (code, code)
    assert bool(suite.stderr) == bool(code)


def test_the_prediction_table_is_written_whole(fixtures: Path, tmp_path: Path) -> None:
    import pandas as pd

    target = tmp_path / "deep" / "table.csv"
    result = invoke("validate", "--dataset", str(fixtures / "simple.csv"), "--predictions", str(target), "--json")
    assert result.exit_code == 0
    report, table = json.loads(result.stdout), pd.read_csv(target)
    assert len(table) == report["evaluatedSteps"]
    assert (table["rank_of_target"] == 1).mean() == pytest.approx(report["nextTop1Accuracy"])
    assert [p.name for p in target.parent.iterdir()] == ["table.csv"]


@pytest.mark.parametrize("split", ["leave-one-case-out", "k-fold", "temporal", "leave-one-group-out"])
@pytest.mark.parametrize("strategy", ["raw", "procedure", "family-procedure"])
def test_every_split_and_strategy_runs(fixtures: Path, split: str, strategy: str) -> None:
    dataset = str(fixtures / "synthetic-workflows.json")
    result = invoke("--strategy", strategy, "--json", "validate", "--dataset", dataset, "--split", split)
    assert result.exit_code == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["stateStrategy"] == strategy
    assert report["protocol"]["split"] == split
    assert 0 < report["nextTop1Accuracy"] <= report["nextTopKAccuracy"] <= 1


def test_holdout_learns_from_the_named_files(fixtures: Path, tmp_path: Path) -> None:
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    train.write_text("case,activity\n1,x\n1,y\n2,x\n2,y\n")
    test.write_text("case,activity\n9,x\n9,y\n")
    result = invoke("validate", "--dataset", str(test), "--train", str(train), "--split", "holdout", "--json")
    report = json.loads(result.stdout)
    assert (report["protocol"]["testedCases"], report["evaluatedSteps"], report["nextTop1Accuracy"]) == (1, 1, 1)


# -- help ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_option_has_help_and_an_example(command: str) -> None:
    parsed = commands()[command]
    assert parsed.help
    for parameter in parsed.params:
        assert getattr(parameter, "help", None), f"{command} {parameter.name}"
    result = invoke(*command.split(), "--help")
    assert result.exit_code == 0
    if command not in ("workflow-risks", "workflow-status"):
        assert f"sherpa {command}" in result.stdout or f"sherpa --max-order 6 {command}" in result.stdout


def test_importing_the_program_loads_nothing_heavy() -> None:
    script = "import sys, sherpa.cli.main; print(*(m for m in ('numpy', 'pandas', 'scipy') if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_question_needs_no_numpy(root: str) -> None:
    script = (
        "import sys; from sherpa import ProceduralMemory\n"
        f"with ProceduralMemory({root!r}) as m: m.workflow_next('now'), m.workflow_recall('now'), m.status()\n"
        "print(*(m for m in ('numpy', 'pandas', 'scipy') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_version() -> None:
    assert re.fullmatch(r"sherpa \d+\.\d+\.\d+\n", invoke("--version").stdout)


def test_an_unforeseen_error_exits_with_3(tmp_path: Path) -> None:
    script = (
        "import sys, sherpa.memory\n"
        "def broken(*a, **k): raise RuntimeError('boom')\n"
        "sherpa.memory.ProceduralMemory.status = broken\n"
        f"sys.argv = ['sherpa', '--root', {str(tmp_path / 'r')!r}, 'status']\n"
        "from sherpa.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "internal error: RuntimeError: boom" in done.stderr


def test_the_readme_shows_what_make_run_prints(fixtures: Path) -> None:
    shown = (PROJECT / "README.md").read_text(encoding="utf-8")
    printed = invoke("validate-suite", "--input", str(fixtures / "suite.json")).stdout
    for line in printed.splitlines():
        assert line.rstrip() in shown


def test_an_interrupted_suite_reports_what_was_finished(fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import experiments.suite

    real, calls = experiments.suite.validate, []

    def second_time_interrupted(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr(experiments.suite, "validate", second_time_interrupted)
    result = invoke("validate-suite", "--input", str(fixtures / "suite.json"), "--json")
    assert result.exit_code == 130
    assert [d["dataset"]["name"] for d in json.loads(result.stdout)["datasets"]] == ["synthetic-workflows"]
    assert "interrupted" in result.stderr
