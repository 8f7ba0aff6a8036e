"""The replay of sessions: predict, then learn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.report.simulation import simulation_page
from experiments.simulate import SimulateOptions, simulate
from sherpa.answers import json_document
from sherpa.config import EngineConfig
from sherpa.errors import DatasetError
from sherpa.sources.openclaw import Installation, Mapping
from sherpa.sources.openclaw.collect import SessionLog, collect
from tests.sherpa.openclaw.transcripts import Script, write


def sessions(folder: Path, *scripts: Script) -> Path:
    for script in scripts:
        write(folder, f"agents/main/sessions/{script.session}.jsonl", script.text())
    return folder


def turn(script: Script, *, failed: bool = False) -> Script:
    script.user("please pull the changes and tell me")
    script.calls(("c", "exec", {"command": "git pull"}))
    script.result("c", "exec", {"status": "error"} if failed else None)
    script.reply()
    return script


def three(folder: Path) -> Path:
    """Three sessions of one turn each, one after another; the second fails."""
    return sessions(
        folder,
        turn(Script("a")),
        turn(Script("b", second=100), failed=True),
        turn(Script("c", second=200)),
    )


def data_of(folder: Path, mapping: Mapping | None = None) -> SessionLog:
    with Installation(folder) as installation:
        return collect(installation, mapping or Mapping())


def run(folder: Path, **options: Any) -> dict[str, Any]:
    config = options.pop("config", EngineConfig(min_support=1))
    return simulate(data_of(folder), config, SimulateOptions(**options))


def test_every_step_is_predicted_from_what_came_before_it(tmp_path: Path) -> None:
    """By hand: s u e+ e- r per session (started, user, exec started, exec ended, reply); a step is a transition.

    Session a: 4 steps, nothing known, 0 right. Session b: started→user right, user→exec right, exec→succeeded is
    predicted but it failed, failed→reply was never seen (0 right). Session c: u, e+ right; after e+ both ends were
    seen once, and the successful one ranks first, right; then reply, right.
    """
    record = run(three(tmp_path))
    assert (record["sessionsProcessed"], record["totalEvents"], record["casesDetected"]) == (3, 15, 3)
    overall = record["predictionAccuracy"]["all"]
    assert overall["steps"] == 12
    assert overall["top1"] == pytest.approx(6 / 12)
    assert record["predictionHits"] == 6
    # Nothing matches in session a, nor after the failure in session b.
    assert record["predictionAttempts"] == 7
    assert record["stateCoverage"] == pytest.approx(7 / 12)
    hard = record["predictionAccuracy"]["nonTrivial"]
    assert (hard["steps"], hard["top1"]) == (9, pytest.approx(5 / 9))
    assert record["rebuildsPerformed"] == 15


def test_top_k_counts_what_is_among_the_first(tmp_path: Path) -> None:
    folder = sessions(
        tmp_path,
        turn(Script("a")),
        turn(Script("b", second=100), failed=True),
        turn(Script("c", second=200), failed=True),
        turn(Script("d", second=300)),
    )
    overall = run(folder, top_k=2)["predictionAccuracy"]["all"]
    # Session c fails, but the end of session a scores higher, so its third step is only among the first two. In session
    # d failure is twice as frequent: 2/3 · (0.55 + 0 + 0.1·2/4 + 0.1·3/3 − 0.25) = 0.30 (p and rates with 2 digits);
    # success still scores 1/3 · (0.55 + 0.25 + 0.1·1/3 + 0.1) = 0.31 and ranks first.
    assert overall["top1"] == pytest.approx((0 + 2 + 3 + 4) / 16)
    assert overall["topK"] == pytest.approx((0 + 2 + 4 + 4) / 16)


def test_sessions_that_run_side_by_side_learn_from_each_other(tmp_path: Path) -> None:
    """The second starts half a second after the first, so each of its steps comes after the same step of the first."""
    late = Script("b")
    turn(late)
    for row in late.rows:
        row["timestamp"] = row["timestamp"].replace(".000Z", ".500Z")
    record = run(sessions(tmp_path, turn(Script("a")), late))
    assert record["predictionHits"] == 4


def test_with_a_rebuild_every_so_often_what_was_just_seen_is_not_known(tmp_path: Path) -> None:
    at_once = run(three(tmp_path))
    batched = run(three(tmp_path), rebuild_every=5)
    assert batched["rebuildsPerformed"] == 3
    assert batched["predictionHits"] == at_once["predictionHits"]
    never = run(three(tmp_path), rebuild_every=100)
    assert (never["rebuildsPerformed"], never["predictionHits"], never["stateCoverage"]) == (0, 0, 0)
    assert never["finalGraphStats"]["events"] == 0


def test_what_was_learned_at_the_end_is_what_a_model_learns(tmp_path: Path) -> None:
    from sherpa.model import VariableOrderMarkovModel

    data = data_of(three(tmp_path))
    record = simulate(data, EngineConfig())
    model = VariableOrderMarkovModel(5).learn(data.log)
    assert record["finalGraphStats"] == {"events": 15, "cases": 3, "states": model.edges}


def test_advice_is_given_at_prompts(tmp_path: Path) -> None:
    """Support 1 has confidence 0.45 + log10(2)/3 = 0.55, support 2 0.61, support 3 0.65."""
    folder = three(tmp_path)
    record = run(folder, threshold=0.6)
    advisory = record["advisory"]
    assert advisory["prompts"] == 3
    # Only at the third prompt have two sessions gone on from there.
    assert (record["advisoryFireCount"], record["advisoryFireRate"]) == (1, pytest.approx(1 / 3))
    assert record["advisoryExamples"] == [
        {
            "caseId": "session:c",
            "eventIndex": 1,
            "eventType": "message.user.inbound",
            "topCandidate": "tool.exec.started",
            "confidence": 0.61,
        }
    ]
    assert advisory["topCandidateRight"] == 1
    assert run(folder, threshold=0.5)["advisoryFireCount"] == 2
    assert run(folder, threshold=0.99)["advisoryFireRate"] == 0


def test_advice_is_not_repeated_within_two_minutes(tmp_path: Path) -> None:
    script = Script("b", second=10)
    for _ in range(3):
        turn(script)
    script.second += 120
    turn(script)
    record = run(sessions(tmp_path, turn(Script("a")), script), threshold=0.5)
    # Prompts at seconds 1 (nothing is known), 11, 15, 19 and 143.
    assert record["advisory"]["prompts"] == 5
    assert record["advisory"]["fired"] == 2
    assert record["advisory"]["heldBackByCooldown"] == 2


def test_tables(tmp_path: Path) -> None:
    record = run(three(tmp_path))
    [tool] = record["tools"]
    assert tool["tool"] == "exec"
    assert tool["phases"] == {"failed": 1, "started": 3, "succeeded": 2}
    assert tool["steps"] == 6
    [agent] = record["agents"]
    assert (agent["agent"], agent["sessions"], agent["steps"]) == ("main", 3, 12)
    assert [(r["order"], r["steps"]) for r in record["matchedOrders"]] == [(0, 5), (1, 2), (2, 2), (3, 3)]
    assert {r["support"]: r["steps"] for r in record["supports"]} == {"1": 4, "2-4": 3}
    assert sum(r["steps"] for r in record["drift"]) == 12
    assert record["drift"][0]["from"] == "2026-03-01T00:00:01.000Z"
    assert record["toolFamilyCounts"] == {"tool": 3}
    assert record["counts"]["toolCalls"] == 3


def test_baselines_are_measured_on_the_same_steps(tmp_path: Path) -> None:
    overall = run(three(tmp_path))["predictionAccuracy"]["all"]
    # The last transition is right where the memory is, except after a call that has ended both ways.
    assert overall["lastTransition"] == pytest.approx(5 / 12)
    assert overall["gainOverLastTransition"] == pytest.approx(1 / 12)
    assert overall["ci"]["top1"]["clusters"] == 3


def test_one_session_has_no_interval(tmp_path: Path) -> None:
    overall = run(sessions(tmp_path, turn(Script("a"))))["predictionAccuracy"]["all"]
    assert overall["ci"]["top1"] is None
    assert overall["top1"] == 0


def test_nothing_to_predict_is_not_measured(tmp_path: Path) -> None:
    script = Script("a")
    record = run(sessions(tmp_path, script))
    assert record["stateCoverage"] is None
    assert record["advisoryFireRate"] is None
    assert record["predictionAccuracy"]["all"]["top1"] is None
    assert "Replay of 1 sessions" in simulation_page({**record, "events": "tool", "case": "session"})


def test_two_runs_are_the_same_and_sessions_are_only_read(tmp_path: Path) -> None:
    folder = three(tmp_path)
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.rglob("*") if p.is_file()}
    first, second = json_document(run(folder)), json_document(run(folder))
    assert first == second
    assert {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.rglob("*") if p.is_file()} == before


def test_an_interruption_keeps_what_was_done(tmp_path: Path) -> None:
    data = data_of(three(tmp_path))

    class Impatient:
        def __init__(self) -> None:
            self.calls = 0

        def __call__(self, case: object, *arguments: object, **more: object) -> None:
            self.calls += 1
            if self.calls > 7:
                raise KeyboardInterrupt

    import sherpa.online as online

    observe = online.OnlineCounts.observe
    patience = Impatient()

    def counting(self: online.OnlineCounts, *arguments: Any, **more: Any) -> None:
        patience(None)
        observe(self, *arguments, **more)

    online.OnlineCounts.observe = counting
    try:
        record = simulate(data, EngineConfig())
    finally:
        online.OnlineCounts.observe = observe
    assert record["interrupted"]
    assert record["totalEvents"] == 7


def test_an_interruption_while_reading_keeps_the_sessions_read(tmp_path: Path) -> None:
    with Installation(three(tmp_path)) as installation:
        done: list[int] = []

        def watch(size: int) -> None:
            done.append(size)
            if len(done) == 2:
                raise KeyboardInterrupt

        data = collect(installation, Mapping(), watch=watch)
    assert data.interrupted
    assert len(data.sessions) == 1
    assert simulate(data, EngineConfig())["interrupted"]


def test_the_page_holds_every_table_and_escapes_what_it_shows(tmp_path: Path) -> None:
    record = {**run(three(tmp_path)), "events": "tool", "case": "session"}
    record["skipped"] = [{"path": "<script>alert(1)</script>", "reason": "copy"}]
    page = simulation_page(record)
    assert "<script>" not in page
    assert page.count("<figure>") == 3
    assert page.count("<table>") == 11
    assert simulation_page(record) == page


def test_real_traces(data: Path) -> None:
    with Installation(data / "openclaw-traces") as installation:
        log = collect(installation, Mapping())
        record = simulate(log, EngineConfig(), skipped=installation.skipped)
    assert record["sessionsProcessed"] == 136
    assert record["totalEvents"] == log.log.events
    assert len(record["skipped"]) == 3
    overall, hard = record["predictionAccuracy"]["all"], record["predictionAccuracy"]["nonTrivial"]
    assert overall["ci"]["top1"]["low"] < overall["top1"] < overall["ci"]["top1"]["high"]
    assert 0 < hard["top1"] < overall["top1"] < 1
    assert overall["steps"] == sum(r["steps"] for r in record["agents"]) == log.log.events - len(log.log)
    assert np.isfinite(record["calibration"]["probability"]["ece"])
    json.loads(json_document(record))


# -- datasets ----------------------------------------------------------------------------------------------------


def test_a_dataset_from_sessions(tmp_path: Path) -> None:
    from experiments.dataset import load_dataset
    from experiments.skeleton import from_sessions

    scripts = [turn(Script(f"s{n}", second=100 * n)) for n in range(10)]
    short = Script("short", second=5000)
    folder = sessions(tmp_path / "in", *scripts, short)
    with Installation(folder) as installation:
        report = from_sessions(installation, Mapping(), tmp_path / "out")
    assert {name: part["cases"] for name, part in report["splits"].items()} == {"train": 6, "dev": 2, "test": 2}
    assert report["leftOut"] == {"shorterThan": 3, "cases": 1}
    train, test = (load_dataset(tmp_path / "out" / f"{name}.json") for name in ("train", "test"))
    assert train.log.case_ids == tuple(f"session:s{n}" for n in range(6))
    assert test.log.case_ids == ("session:s8", "session:s9")
    assert (train.split, test.split) == ("train", "test")
    assert test.log.events == 10
    assert "please" not in (tmp_path / "out" / "train.json").read_text()


def test_a_dataset_split_by_host(tmp_path: Path) -> None:
    from experiments.skeleton import from_sessions

    for host, number in (("big", 6), ("middle", 2), ("small", 2)):
        sessions(tmp_path / "in" / host, *(turn(Script(f"{host}{n}", second=100 * n)) for n in range(number)))
    with Installation(tmp_path / "in") as installation:
        report = from_sessions(installation, Mapping(), tmp_path / "out", by="host")
    assert {name: part["cases"] for name, part in report["splits"].items()} == {"train": 6, "dev": 2, "test": 2}
    cases = json.loads((tmp_path / "out/dev.json").read_text())["cases"]
    assert {label for case in cases for label in case["labels"]} == {"agent:main", "host:middle"}


def test_too_little_for_three_splits(tmp_path: Path) -> None:
    from experiments.skeleton import from_sessions

    with Installation(sessions(tmp_path / "in", turn(Script("a")))) as installation:
        with pytest.raises(DatasetError, match="too few cases"):
            from_sessions(installation, Mapping(), tmp_path / "out")
        with pytest.raises(DatasetError, match="sum to 1"):
            from_sessions(installation, Mapping(), tmp_path / "out", fractions=(0.5, 0.6, 0.1))
    assert not (tmp_path / "out").exists()
