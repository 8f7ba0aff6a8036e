"""The official protocol: what is checked before, run, and compared after."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.statebench.analysis import analyse, read_metrics
from harness.statebench.build import build
from harness.statebench.install import install_agent
from harness.statebench.official import steps
from harness.statebench.preflight import DOMAINS, preflight
from sherpa.cli.main import app
from sherpa.errors import SourceError
from tests.harness.statebench import double
from tests.harness.statebench.made import call, run

SETTINGS = {"STATE_BENCH_EVAL_ENDPOINT": "x", "STATE_BENCH_EVAL_DEPLOYMENTS": "x", "STATE_BENCH_AGENT_ENDPOINT": "x"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    runs = [
        run(f"return broken thing number {at}", call("get_order"), place=at, domain=domain)
        for domain in sorted(DOMAINS)
        for at in range(4)
    ]
    (tmp_path / "learnings.json").write_text(json.dumps(build(runs)))
    install_agent(tmp_path, tmp_path / "learnings.json")
    return tmp_path


def failed(root: Path, environment: dict[str, str] | None = None) -> dict[str, str]:
    with double.installed():
        checks = preflight(root, SETTINGS if environment is None else environment)
    return {check.name: check.found for check in checks if not check.passed and check.name != "python"}


def test_a_folder_that_is_ready(root: Path) -> None:
    assert failed(root) == {}


def test_an_artefact_that_lacks_a_domain(root: Path) -> None:
    (root / "learnings.json").write_text(json.dumps(build([run("return it", call("get_order"), domain="travel")])))
    assert failed(root)["artefact"] == "ValueError: has no cards for customer_support, shopping_assistant"


@pytest.mark.parametrize("change", ["missing", "labelled", "broken"])
def test_an_artefact_that_cannot_be_used(root: Path, change: str) -> None:
    path = root / "learnings.json"
    if change == "missing":
        path.unlink()
    elif change == "broken":
        path.write_text("{")
    else:
        path.write_text(path.read_text().replace('"labelFree": true', '"labelFree": false'))
    assert "artefact" in failed(root)


def test_cards_that_are_too_long(root: Path) -> None:
    path = root / "learnings.json"
    document = json.loads(path.read_text())
    for card in document["learnings"]:
        card["text"] += " word" * 200
    path.write_text(json.dumps(document))
    assert "more than 450" in failed(root)["answers"]


def test_an_agent_with_a_constructor(root: Path) -> None:
    path = root / "agents" / "sherpa_memory_agent.py"
    path.write_text(
        path.read_text() + "\n    def __init__(self, *args, **given):\n        super().__init__(*args, **given)\n"
    )
    assert "SherpaMemoryAgent has an __init__" in failed(root)["constructor"]


def test_no_agent(root: Path) -> None:
    (root / "agents" / "sherpa_memory_agent.py").unlink()
    assert "agent" in failed(root)


def test_settings_may_stand_in_a_file(root: Path) -> None:
    assert set(failed(root, {})) == {*list(SETTINGS)[:2], "STATE_BENCH_AGENT_ENDPOINT"}
    (root / ".env").write_text("".join(f"{name}=x\n" for name in SETTINGS))
    assert failed(root, {}) == {}


def test_without_the_benchmark_it_says_so(root: Path) -> None:
    result = CliRunner().invoke(app, ["statebench", "preflight", str(root), "--json"])
    assert result.exit_code == 1
    checks = {check["name"]: check for check in json.loads(result.stdout)["checks"]}
    assert checks["state_bench"] == {
        "name": "state_bench",
        "passed": False,
        "found": "is not installed for this Python",
    }


def test_the_commands_word_by_word() -> None:
    found = [shlex.join(step.command) for step in steps("gpt-5.4", reasoning="high", workers=8, output=Path("out"))]
    assert len(found) == 12
    assert found[:4] == [
        "python -m state_bench.scripts.run_batch --domain travel --split test --agent-model-name gpt-5.4"
        " --agent-model-reasoning-level high --num-runs 5 --retrieve-learnings-top-k 3 --num-workers 8"
        " --output-dir out/baseline/travel",
        "python -m state_bench.scripts.compute_metrics --domain travel --split test --results-dir out/baseline/travel"
        " --num-runs 5 --output-dir out/baseline/travel",
        "python -m state_bench.scripts.run_batch --domain travel --split test --agent-class SherpaMemoryAgent"
        " --agent-model-name gpt-5.4 --agent-model-reasoning-level high --num-runs 5 --retrieve-learnings-top-k 3"
        " --num-workers 8 --output-dir out/memory/travel",
        "python -m state_bench.scripts.compute_metrics --domain travel --split test --results-dir out/memory/travel"
        " --num-runs 5 --output-dir out/memory/travel",
    ]


def test_nothing_is_paid_for_without_a_word() -> None:
    result = CliRunner().invoke(app, ["statebench", "run-official"])
    assert result.exit_code == 2
    assert "--yes" in result.stderr
    result = CliRunner().invoke(app, ["statebench", "run-official", "--dry-run", "--json"])
    assert len(json.loads(result.stdout)["commands"]) == 12


def test_a_run_goes_on_where_it_stopped(root: Path, tmp_path: Path) -> None:
    # A stand-in for the benchmark's Python: passes the checks, notes each command, fails at the third script once.
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\n"
        'case "$*" in *preflight*) echo \'[{"name": "all", "passed": true, "found": ""}]\'; exit 0;; esac\n'
        'echo "$@" >> calls.txt\n'
        'if [ "$(wc -l < calls.txt)" = 3 ]; then exit 1; fi\n'
        "for last; do :; done\n"
        'case "$*" in *compute_metrics*) mkdir -p "$last"; echo {} > "$last/metrics.json";; esac\n'
    )
    python.chmod(0o755)
    arguments = ["statebench", "run-official", str(root), "--python", str(python), "--yes"]
    first = CliRunner().invoke(app, arguments)
    assert first.exit_code == 2
    assert "memory, travel: the command failed" in first.stderr
    second = CliRunner().invoke(app, arguments)
    assert second.exit_code == 0, second.output
    calls = (root / "calls.txt").read_text().splitlines()
    assert len(calls) == 3 + 10  # the finished arm of two commands is not run again
    assert sum("outputs/baseline/travel" in line for line in calls) == 2


def metrics(folder: Path, tasks: dict[str, list[dict[str, Any]]]) -> Path:
    place = folder / "per_task_metrics"
    place.mkdir(parents=True)
    for name, runs in tasks.items():
        (place / f"{name}.json").write_text(json.dumps({"task_id": name, "runs": runs}))
    return folder


def episode(passed: bool | None, ux: float | None = 4.0, calls: int = 10, cost: float | None = None) -> dict[str, Any]:
    return {"present": passed is not None, "passed": passed, "ux_score": ux, "tool_calls": calls, "cost_usd": cost}


def test_two_arms_by_hand(tmp_path: Path) -> None:
    before = metrics(
        tmp_path / "a",
        {
            "one": [episode(True), episode(False)],
            "two": [episode(False, 3.0), episode(False, 3.0)],
            "three": [episode(True), episode(True)],
            "gone": [episode(True), episode(True)],
        },
    )
    after = metrics(
        tmp_path / "b",
        {
            "one": [episode(True, calls=12), episode(True, calls=12)],
            "two": [episode(True, 5.0, 11), episode(False, 4.0, 11)],
            "three": [episode(True), episode(None)],
            "new": [episode(True), episode(True)],
        },
    )
    report = analyse(read_metrics(before), read_metrics(after), seed=1, resamples=200)
    assert (report["tasks"], report["onlyBaseline"], report["onlyMemory"]) == (3, ["gone"], ["new"])
    found = report["groups"]["tasks"]
    # pass@1 of one, two, three: 1/2, 0, 1 before; 1, 1/2, 1 after.
    assert (found["passAt1"]["baseline"], found["passAt1"]["memory"]) == pytest.approx((0.5, 5 / 6))
    assert found["passAt1"]["difference"] == pytest.approx(1 / 3)
    assert found["passAt1"]["interval"]["low"] <= 1 / 3 <= found["passAt1"]["interval"]["high"]
    # With one run missing, "three" has no pass^2: one and two remain, 0 and 0 before, 1 and 0 after.
    assert found["passAll"]["tasks"] == 2
    assert (found["passAll"]["baseline"], found["passAll"]["memory"]) == (0.0, 0.5)
    assert found["ux"]["difference"] == pytest.approx((0 + 1.5 + 0) / 3)
    assert found["toolCalls"]["difference"] == pytest.approx((2 + 1 + 0) / 3)
    # No cost was reported: that is not a cost of 0.
    assert found["costUsd"]["baseline"] is None
    assert found["costUsd"]["interval"] is None


def test_domains_are_compared_apart_and_together(tmp_path: Path) -> None:
    for arm, passed in (("a", False), ("b", True)):
        for domain in ("travel", "shopping"):
            metrics(tmp_path / arm / domain, {name: [episode(passed)] for name in ("one", "two")})
    arguments = ["statebench", "analyze", str(tmp_path / "a"), str(tmp_path / "b"), "--resamples", "100"]
    result = CliRunner().invoke(app, [*arguments, "--json"])
    groups = json.loads(result.stdout)["groups"]
    assert set(groups) == {"travel", "shopping", "pooled"}
    assert groups["pooled"]["passAt1"]["tasks"] == 4
    shown = CliRunner().invoke(app, arguments)
    assert "pooled: memory minus baseline" in shown.stdout


def test_folders_without_a_common_task(tmp_path: Path) -> None:
    one = metrics(tmp_path / "a", {"one": [episode(True)]})
    two = metrics(tmp_path / "b", {"two": [episode(True)]})
    with pytest.raises(SourceError, match="share no task"):
        analyse(read_metrics(one), read_metrics(two), seed=1)
    with pytest.raises(SourceError, match="per_task_metrics"):
        read_metrics(tmp_path / "a" / "per_task_metrics")
    (one / "per_task_metrics" / "one.json").write_text("{")
    with pytest.raises(SourceError, match="broken JSON"):
        read_metrics(one)
