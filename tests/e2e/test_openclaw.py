"""Commands for sessions of OpenClaw, as people and scripts use them."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sherpa.cli.main import app
from sherpa.online import OnlineCounts
from tests.sherpa.openclaw.transcripts import Script, write

NAME = "07070789-57d6-d198-e6f3-3ac090ddda{:02d}"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def session(number: int, turns: int = 3) -> Script:
    script = Script(NAME.format(number), second=100 * number)
    for turn in range(turns):
        script.user("please pull the changes and tell me")
        script.calls((f"c{turn}", "exec", {"command": "git pull"}), (f"d{turn}", "read", {"path": "x"}))
        script.result(f"c{turn}", "exec", {"status": "error"} if turn % 2 else None)
        script.result(f"d{turn}", "read")
        script.reply()
    return script


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / ".openclaw"
    for number in range(5):
        script = session(number)
        write(folder, f"agents/main/sessions/{script.session}.jsonl", script.text())
    write(folder, f"agents/main/sessions/{NAME.format(1)}.jsonl.bak-1-1782530279123", session(1).text())
    return folder


def answer(*arguments: str) -> Any:
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_simulate(state: Path, tmp_path: Path) -> None:
    record = answer("simulate", "--sessions-dir", str(state))
    for name in ("sessionsProcessed", "totalEvents", "casesDetected", "advisoryFireRate", "stateCoverage", "skipped"):
        assert name in record
    assert record["predictionAccuracy"].keys() == {"all", "nonTrivial"}
    assert (record["sessionsProcessed"], record["totalEvents"]) == (5, 5 * 19)
    assert [s["reason"].split()[0] for s in record["skipped"]] == ["repair-copy"]
    inside = answer("--json", "simulate", "--sessions-dir", str(state / "agents" / "main" / "sessions"))
    assert {**inside, "skipped": 0} == {**record, "skipped": 0}
    drawn = invoke("simulate", "--sessions-dir", str(state), "--output", str(tmp_path / "out"))
    assert drawn.exit_code == 0
    assert "How often the next step was foreseen" in drawn.stdout
    assert json.loads((tmp_path / "out" / "simulate.json").read_bytes()) == record
    assert "<h1>Replay of real sessions</h1>" in (tmp_path / "out" / "simulate.html").read_text()


def test_simulate_writes_nothing_beside_its_output(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    answer("simulate", "--sessions-dir", str(state))
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == before


def test_simulate_takes_the_options_of_the_engine_and_of_the_reader(state: Path) -> None:
    family = answer("simulate", "--sessions-dir", str(state), "--events", "family", "--case", "run")
    assert family["casesDetected"] == 15
    assert family["toolFamilyCounts"] == {"tool": 30}
    engine = answer("--min-support", "1", "--default-order", "1", "simulate", "--sessions-dir", str(state))
    assert [row["order"] for row in engine["matchedOrders"]] == [0, 1]
    latest = answer("simulate", "--sessions-dir", str(state), "--max-sessions", "2")
    assert latest["sessionsProcessed"] == 2
    assert latest["drift"][0]["from"] > "2026-03-01T00:05"
    stale = answer("simulate", "--sessions-dir", str(state), "--rebuild-every", "50")
    assert stale["rebuildsPerformed"] == 1


def test_the_default_is_the_local_installation(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(state))
    assert answer("simulate")["sessionsProcessed"] == 5
    assert answer("sources", "inspect")["totals"]["sessions"] == 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["simulate", "--sessions-dir", "gone"], "there is no such file"),
        (["simulate", "--sessions-dir", "."], "holds no OpenClaw transcripts"),
        (["simulate", "--events", "colour"], "choose one of family, tool, operation"),
        (["simulate", "--case", "colour"], "choose one of session, task, run"),
        (["import-sessions", "--watch", "--json"], "leave out --json"),
        (["dataset", "from-sessions", "--output", "x", "--fractions", "most"], "three numbers"),
        (["dataset", "from-sessions", "--output", "x", "--split-by", "colour"], "time or host"),
        (["sources", "inspect", "gone"], "there is no such file"),
    ],
)
def test_bad_input(arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.replace("│", " ").split())
    assert "Traceback" not in result.stderr


def test_sources_inspect(state: Path) -> None:
    report = answer("sources", "inspect", str(state))
    assert report["totals"]["sessions"] == 5
    assert report["totals"]["kinds"] == {"primary": 5, "repair-copy": 1}
    assert report["totals"]["skipped"] == {"repair-copy": 1}
    first = report["files"][0]
    assert {"path", "kind", "era", "sessionId", "counts"} <= first.keys()
    wanted = {
        "lines",
        "entries",
        "toolCalls",
        "toolResults",
        "failures",
        "running",
        "nonzeroExit",
        "unresolved",
        "orphanResults",
        "injected",
        "compactions",
        "tools",
    }
    assert wanted <= first["counts"].keys()
    drawn = invoke("sources", "inspect", str(state))
    assert "Transcripts" in drawn.stdout


def test_import_sessions(state: Path, tmp_path: Path) -> None:
    root = str(tmp_path / "memory")
    report = answer("--root", root, "import-sessions", "--sessions-dir", str(state))
    assert (report["sessionsProcessed"], report["stored"], report["alreadyPresent"]) == (5, 95, 0)
    again = answer("--root", root, "import-sessions", "--sessions-dir", str(state))
    assert (again["stored"], again["alreadyPresent"]) == (0, 95)
    state_of = answer("--root", root, "status")
    assert (state_of["events"], state_of["cases"]) == (95, 5)
    candidates = answer("--root", root, "workflow-next", "--case-id", f"session:{NAME.format(4)}")["candidates"]
    assert candidates[0]["event"] == "message.user.inbound"


def test_text_is_stored_only_if_asked_for(state: Path, tmp_path: Path) -> None:
    for name, flags in (("without", []), ("with", ["--keep-text"])):
        answer("--root", str(tmp_path / name), "import-sessions", "--sessions-dir", str(state), *flags)
    ledgers = {
        name: b"".join(p.read_bytes() for p in (tmp_path / name / "events").iterdir()) for name in ("without", "with")
    }
    assert b"please pull" not in ledgers["without"]
    assert b"please pull" in ledgers["with"]


def test_dataset_from_sessions_feeds_validate_suite(state: Path, tmp_path: Path) -> None:
    out = tmp_path / "dataset"
    report = answer("dataset", "from-sessions", "--sessions-dir", str(state), "--case", "run", "--output", str(out))
    assert {name: part["cases"] for name, part in report["splits"].items()} == {"train": 9, "dev": 3, "test": 3}
    suite = answer("validate-suite", "--input", str(out / "suite.json"))
    assert [d["dataset"]["name"] for d in suite["datasets"]] == ["train", "dev", "test"]
    assert suite["totals"]["cases"] == 15


# -- interruptions -----------------------------------------------------------------------------------------------


def big(folder: Path, sessions: int = 12, turns: int = 400) -> Path:
    for number in range(sessions):
        script = session(number, turns)
        write(folder, f"agents/main/sessions/{script.session}.jsonl", script.text())
    return folder


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "sherpa", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_ctrl_c_shows_what_was_replayed_so_far(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    observe = OnlineCounts.observe

    def impatient(self: OnlineCounts, *arguments: Any, **more: Any) -> None:
        if self.events == 50:
            raise KeyboardInterrupt
        observe(self, *arguments, **more)

    monkeypatch.setattr(OnlineCounts, "observe", impatient)
    result = invoke("simulate", "--sessions-dir", str(state), "--json")
    assert result.exit_code == 130
    record = json.loads(result.stdout)
    assert record["interrupted"]
    assert record["totalEvents"] == 50
    assert record["predictionAccuracy"]["all"]["steps"] > 40
    assert "interrupted" in result.stderr


@pytest.mark.full
def test_an_import_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    """Killed at random moments, then run to its end: every event is there once, as if it had never been killed."""
    place = str(big(tmp_path / "s", sessions=6, turns=250))
    whole = answer("--root", str(tmp_path / "whole"), "import-sessions", "--sessions-dir", place)
    rng = random.Random(11)
    killed = 0
    root = str(tmp_path / "memory")
    for _ in range(12):
        process = start("--root", root, "import-sessions", "--sessions-dir", place)
        time.sleep(rng.uniform(0.2, 2.5))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
    assert killed
    answer("--root", root, "import-sessions", "--sessions-dir", place)
    status = answer("--root", root, "status")
    assert status["healthy"]
    assert status["events"] == whole["totalEvents"]
    again = answer("--root", root, "import-sessions", "--sessions-dir", place)
    assert again["stored"] == 0
