"""The demonstrations and the bench. Acceptance checks 130 to 132; a planted defect in each gate's subject."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.runtime.bench import measure, sweep
from harness.runtime.bench.battery import battery_problem, supercritical_problem
from harness.runtime.bench.corpus import CODE, Claim, make_corpus, supported
from harness.runtime.bench.defects import CLASSES, Seeded, seed_defect
from harness.runtime.bench.gates import decide, registration
from harness.runtime.bench.ledger import registry, texts
from harness.runtime.bench.measure import battery_run, corpus_run, measured, repair_run
from harness.runtime.bench.repair import RepairPlanner, judge, repair, suite_passes
from harness.runtime.bench.report import bench, html
from harness.runtime.bench.scenarios import DURABLE_LEDGER, durable
from harness.runtime.engine import Engine
from harness.runtime.ir import Plan, read_record
from tests.conftest import PROJECT

GATES = registration()[0]["gates"]


def verdicts(records: list[dict[str, Any]], sweeps: list[dict[str, Any]] | None = None) -> dict[str, str]:
    return {gate.id: gate.verdict for gate in decide(measured(records, sweeps or []), GATES)[1]}


# -- demonstration A -------------------------------------------------------------------------------------------


def test_the_durable_run(tmp_path: Path) -> None:
    with Engine(tmp_path / "one", registry=registry()) as engine:
        result = engine.run(durable(1), "r")
        assert result.status == "escalated"
        assert str(result.error).startswith("final review blocked")
    with Engine(tmp_path / "two", registry=registry()) as engine:
        assert engine.run(durable(2), "r").status == "completed"
    assert texts(tmp_path / "one") == texts(tmp_path / "two") == DURABLE_LEDGER


# -- demonstration B -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("seed", range(4))
def test_130_a_seeded_defect_is_found_and_named(tmp_path: Path, kind: str, seed: int) -> None:
    seeded = seed_defect(kind, seed)
    assert seeded == seed_defect(kind, seed)
    found = repair(seeded.module, seeded.tests)
    assert found is not None
    assert found[0] == kind
    assert found[1] != seeded.module


def test_130_both_spellings_occur() -> None:
    for kind in CLASSES:
        bodies = {re.sub(r"\d+", "", _target(seed_defect(kind, seed).module)) for seed in range(12)}
        assert len(bodies) == 2


def test_130_a_repair_fails_before_and_passes_after(tmp_path: Path) -> None:
    record = repair_run(tmp_path, seed_defect("inverted_comparison", 3), "x", held_out=True)
    assert (record["status"], record["failed_before"], record["verified"]) == ("completed", True, True)
    assert record["named"] == record["seeded"] == "inverted_comparison"
    assert verdicts([record])["repairs-verified"] == verdicts([record])["defects-named"] == "PASS"


OTHER = "def f(n):\n    return sorted(n)\n"
OTHER_TESTS = "from pkg import mod\n\n\ndef test_f():\n    assert mod.f([3, 1, 2]) == [3, 2, 1]\n"


def test_130_what_is_outside_of_the_grammar_is_refused(tmp_path: Path) -> None:
    assert repair(OTHER, OTHER_TESTS) is None
    record = repair_run(tmp_path, Seeded("another", OTHER, OTHER_TESTS), "x", held_out=True)
    assert (record["status"], record["verified"], record["named"]) == ("escalated", False, None)
    found = verdicts([record])
    assert found["repairs-verified"] == found["defects-named"] == found["held-out-success"] == "FAIL"


def test_a_planner_that_names_the_wrong_class_is_told(tmp_path: Path) -> None:
    class Misnaming(RepairPlanner):
        def author_plan(self, *args: Any, **more: Any) -> Plan:
            made = msgspec.to_builtins(super().author_plan(*args, **more), builtin_types=())
            made["root"][-1]["outputs"]["defect_class"] = "something_else"
            return read_record(made, Plan)

    record = repair_run(tmp_path, seed_defect("wrong_constant", 1), "x", held_out=False, planner=Misnaming())
    assert record["verified"]
    found = measured([record], [])["defects-named"]
    assert (found.observed, found.raw["undetected"]) == (0.0, ["wrong_constant"])


def test_candidates_cannot_hang_or_end_the_judge() -> None:
    sources = [
        "def f(n):\n    while True:\n        pass\n",
        "def f(n):\n    raise SystemExit\n",
        "def f(n):\n    return n + 1\n",
        "def f(n):\n    return n\n",
    ]
    assert judge(sources, [("f", "1", "2"), ("f", "2", "3")]) == [
        ["raised", "raised"], ["raised", "raised"], ["right", "right"], ["wrong", "wrong"],
    ]  # fmt: skip
    assert judge(["import os\nos._exit(0)\n"], [("f", "1", "2")]) == [["raised"]]


def _target(module: str) -> str:
    return module[module.index("def target") :].split("\n\n")[0].strip()


# -- demonstration C -------------------------------------------------------------------------------------------


def test_131_the_corpus(tmp_path: Path) -> None:
    first, again = (corpus_run(tmp_path / name, 7, held_out=True) for name in ("a", "b"))
    assert first["questions"] == again["questions"]
    asked = first["questions"]
    assert [row["supported"] for row in asked if row["answerable"]] == [True] * 8
    assert [row["claimed"] for row in asked if not row["answerable"]] == [False] * 4
    assert verdicts([first])["needle-recall"] == "PASS"
    size = sum(path.stat().st_size for path in (tmp_path / "a" / "corpus").iterdir())
    assert 80_000 < size < 110_000


def test_131_a_claim_is_read_again(tmp_path: Path) -> None:
    questions = make_corpus(tmp_path, 7)
    question = questions[0]
    for path in tmp_path.iterdir():
        text = path.read_text()
        for match in CODE.finditer(text):
            begin = text.rfind(".", 0, match.start()) + 1
            claim = Claim(match[0], path.name, begin, match.end())
            assert supported(claim, question, tmp_path) == (match[0] == question.answer)
            assert not supported(Claim(str(question.answer), path.name, 0, 5), question, tmp_path)
            assert not supported(claim, questions[-1], tmp_path)


def test_a_search_that_finds_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.runtime.textwork.search", lambda *_, **__: [])
    record = corpus_run(tmp_path, 7, held_out=True)
    assert verdicts([record])["needle-recall"] == verdicts([record])["held-out-success"] == "FAIL"


# -- the battery -----------------------------------------------------------------------------------------------


def test_the_battery_exercises_what_it_measures(tmp_path: Path) -> None:
    records = [battery_run(tmp_path / str(n), battery_problem(n)) for n in range(25)]
    assert {record["status"] for record in records} == {"completed"}
    found = measured(records, [])
    values = [record["metrics"]["branching"]["m"] for record in records]
    assert 0.3 < sum(values) / 25 < 0.8
    assert any(record["metrics"]["admission"]["overclaim_rate"] for record in records)
    assert found["decompositions"].observed == sum(found["decompositions"].raw["per_run"]) >= 50
    given = verdicts(records)
    assert given["decompositions"] == given["claimed-atomic"] == given["corrected-m"] == "PASS"
    fewer = verdicts(records[:5])
    assert fewer["decompositions"] == "FAIL"
    assert verdicts(records[:2])["claimed-atomic"] == "FAIL"


def test_129_the_control_is_refused(tmp_path: Path) -> None:
    records = [battery_run(tmp_path / str(n), supercritical_problem(n)) for n in range(4)]
    assert verdicts(records)["corrected-m"] == "FAIL"


# -- crashes ---------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_an_effect_that_is_repeated_is_told(tmp_path: Path) -> None:
    code = (
        "import json, sys\nfrom pathlib import Path\nfrom harness.runtime.bench import ledger, sweep\n"
        "ledger.AppendOnce.run = ledger.Append.run\n"
        "print(json.dumps(sweep.sweep_here('small', Path(sys.argv[1]), step=1)))\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=PROJECT)
    report = json.loads(done.stdout)
    assert report["differences"]
    assert all(row["differs"] == ["effects"] for row in report["differences"])
    assert verdicts([], [report])["crash-resume"] == "FAIL"


@pytest.mark.full
@pytest.mark.parametrize("name", ["durable", "nested"])
def test_076_killed_after_every_event_of_two_scenarios(tmp_path: Path, name: str) -> None:
    report = sweep.sweep(name, tmp_path)
    assert report["differences"] == []
    assert report["kills"] == report["events"]
    assert (report["decided_by_operator"] > 0) == (name == "durable")


# -- the whole -------------------------------------------------------------------------------------------------


def test_132_a_reduced_matrix(tmp_path: Path) -> None:
    matrix = {"repair_held_out": [401], "corpus_held_out": [401], "battery": 25, "sweeps": ["small"]}
    report = bench(tmp_path / "out", matrix=matrix)
    assert report["decision"] == "GO", report["gates"]
    assert report["control"]["refused"]
    assert all(gate["ci"] is not None and gate["raw"] for gate in report["gates"])
    assert report["provenance"]["registeredMatrix"] is False
    written = json.loads((tmp_path / "out" / "report.json").read_text())
    assert written == json.loads(json.dumps(report))
    assert (tmp_path / "out" / "report.md").read_text().startswith("# Runtime bench: GO")
    assert "<h1>Runtime bench: GO</h1>" in (tmp_path / "out" / "report.html").read_text()
    assert len(list((tmp_path / "out" / "runs").glob("*/trace.json"))) == 4 + 1 + 25 + 5


def test_132_what_is_not_measured_is_no_go(tmp_path: Path) -> None:
    report = bench(tmp_path, matrix={"battery": 3})
    assert report["decision"] == "NO-GO"
    missing = {gate["id"] for gate in report["gates"] if gate["verdict"] == "MISSING"}
    assert missing == {"held-out-success", "needle-recall", "crash-resume", "repairs-verified", "defects-named"}
    assert "n/a" in (tmp_path / "report.md").read_text()


def test_the_page_escapes() -> None:
    gate = {
        "id": "<b>",
        "what": "x",
        "rule": ">=",
        "threshold": 1.0,
        "observed": None,
        "ci": None,
        "verdict": "MISSING",
    }
    provenance = {"registration": "r", "code": "c", "python": "3"}
    page = html(
        {"decision": "NO-GO", "gates": [{**gate, "raw": {}}], "control": {"upper": None, "refused": False},
         "provenance": provenance, "seconds": 1.0}
    )  # fmt: skip
    assert "&lt;b&gt;" in page
    assert "<b>" not in page


def test_the_verifier_tells_the_truth(tmp_path: Path) -> None:
    seed_defect("wrong_constant", 1).write(tmp_path)
    assert not suite_passes(tmp_path)
    assert measure.CLASSES == CLASSES
