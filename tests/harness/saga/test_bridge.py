"""A saga's events in the procedural memory, and what the memory says back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.saga.bridge import saga_to_sherpa
from harness.saga.coordinator import Coordinator
from harness.saga.options import SagaOptions
from sherpa import ProceduralMemory
from tests.harness.saga.scripted import TEXT, Agent, file, files, verdict

Make = Callable[..., Agent]


def lived(agent: Make, **options: object) -> Agent:
    """A saga with a failing check, a fix, a verdict that says no, a person, and an end."""
    one = agent(options=SagaOptions(**options)).planned(*files(2), evaluator="deep")
    one.fail()
    one.finish(a1_md=TEXT)
    one.go(evalResult=verdict(passed=False, issues=["the secret detail is missing"]))
    one.finish(a1_md=TEXT * 2)
    one.go(evalResult=verdict(H1="FAIL-ESCALATE"))
    one.go(humanInput="private words of the user")
    one.finish(a1_md=TEXT * 3)
    one.go(evalResult=verdict())
    one.finish(a2_md=TEXT)
    one.go(evalResult=verdict())
    return one


def test_the_vocabulary(agent: Make) -> None:
    told = saga_to_sherpa(lived(agent).events())
    assert [event["type"] for event in told] == [
        "session.started", "plan.produced", "stage.started", "check.failed", "recovery.fix",
        "artifact.submitted", "check.passed", "eval.requested", "eval.rework", "recovery.fix",
        "artifact.submitted", "check.passed", "eval.requested", "eval.escalated", "human.requested", "human.answered",
        "stage.started", "artifact.submitted", "check.passed", "eval.requested", "eval.passed", "stage.completed",
        "stage.started", "artifact.submitted", "check.passed", "eval.requested", "eval.passed", "session.ended",
    ]  # fmt: skip
    by_type = {event["type"]: event for event in told}
    assert by_type["session.ended"]["outcome"] == "success"
    assert by_type["session.ended"]["metrics"]["wallMs"] > 1_000
    assert by_type["check.failed"]["labels"] == ["workflow:generic", "stage:1", "kind:file-exists"]
    assert by_type["check.failed"]["metrics"] == {"nPass": 0.0, "nFail": 1.0}
    assert by_type["recovery.fix"]["labels"][-1] == "layer:1"
    assert by_type["eval.passed"]["metrics"] == {"score": 4.0}
    assert {event["source"].split(".")[0] for event in told} == {"saga"}
    assert len({event["caseId"] for event in told}) == 1
    staged = saga_to_sherpa(lived(agent).events(), case="stage")
    assert sorted({event["caseId"].partition("/")[2] for event in staged}) == ["", "stage-01", "stage-02"]


def test_no_text_leaves_the_saga(agent: Make) -> None:
    text = json.dumps(saga_to_sherpa(lived(agent).events()))
    for part in ("secret detail", "private words", "Make it", "a1.md", "Part 1"):
        assert part not in text


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [("completed", "success"), ("human_input_required", "unknown"), ("budget_exceeded", "failure")],
)
def test_how_it_ended(reason: str, outcome: str) -> None:
    event = {"type": "saga_terminated", "sagaId": "s", "seq": 1, "ts": "2026-01-01T00:00:00Z", "reason": reason}
    assert saga_to_sherpa([event])[0]["outcome"] == outcome
    cancelled = {**event, "type": "saga_cancelled"}
    assert saga_to_sherpa([cancelled])[0]["outcome"] == "unknown"


def test_a_second_import_adds_nothing(agent: Make, tmp_path: Path) -> None:
    one = lived(agent)
    with ProceduralMemory(tmp_path / "memory") as memory:
        assert len(memory.ingest_batch(saga_to_sherpa(one.events())).events) == 28
        again = memory.ingest_batch(saga_to_sherpa(one.events()))
        assert (len(again.events), again.duplicates) == (0, 28)


@pytest.fixture
def taught(agent: Make, tmp_path: Path) -> Path:
    """A memory that has seen several sagas fail, be fixed and pass."""
    root = tmp_path / "memory"
    with ProceduralMemory(root) as memory:
        for _ in range(20):
            one = agent().planned(*files(1))
            one.fail()
            one.finish(a1_md=TEXT)
            memory.ingest_batch(saga_to_sherpa(one.events()))
    return root


@pytest.mark.parametrize("mode", ["shadow", "advisory"])
def test_advice_reaches_the_worker_and_the_log(agent: Make, taught: Path, mode: str) -> None:
    one = agent(options=SagaOptions(advice=mode, sherpa_root=str(taught))).planned(*files(1))
    assert one.events("advisory_injected")[0]["point"] == "plan"
    answer = one.fail()[0]
    logged = [e for e in one.events("advisory_injected") if e["point"] == "worker"]
    assert len(logged) == 1
    assert logged[0]["mode"] == mode
    assert logged[0]["delivered"] == (mode == "advisory")
    assert logged[0]["state"][-1] == "recovery.fix"
    assert logged[0]["candidates"][0]["event"] == "artifact.submitted"
    assert len(logged[0]["hash"]) == 64
    assert ("From memory" in answer["workerContext"]) == (mode == "advisory")
    assert ("artifact.submitted" in answer["workerContext"]) == (mode == "advisory")
    one.forget_snapshot()


def test_advice_before_a_verdict(agent: Make, taught: Path) -> None:
    one = agent(options=SagaOptions(advice="shadow", sherpa_root=str(taught))).planned(*files(1), evaluator="deep")
    one.finish(a1_md=TEXT)
    assert [e["point"] for e in one.events("advisory_injected")] == ["plan", "evaluation"]


def test_without_advice_nothing_is_asked(agent: Make, taught: Path) -> None:
    one = agent(options=SagaOptions(advice="off", sherpa_root=str(taught))).planned(*files(1))
    one.fail()
    assert one.events("advisory_injected") == []


def test_a_memory_that_cannot_be_opened_stops_no_saga(agent: Make, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    options = SagaOptions(advice="advisory", sherpa_root=str(tmp_path / "file"))
    one = agent(options=options).planned(*files(1))
    assert one.fail()[0]["nextAction"] == "revision_queued"
    assert "did not answer" in one.events("advisory_injected")[0]["reason"]


# One test per failure mode of long tasks: the countermeasure acts.


def test_mode_1_one_shot_illusion(agent: Make) -> None:
    """All files at once do not finish the saga: one call, one stage."""
    one = agent().planned(*files(3))
    answer = one.finish(a1_md="x", a2_md="x", a3_md="x")
    assert (answer["nextAction"], one.state.cursor) == ("worker_mode_queued", 1)
    assert "Part 3" not in answer["workerContext"]


def test_mode_2_premature_completion(agent: Make) -> None:
    one = agent().planned([file("a1.md", minBytes=500)])
    assert one.finish(a1_md="That is good enough.")["nextAction"] == "revision_queued"


def test_mode_3_context_drift(agent: Make) -> None:
    """After three failures the worker reads a few lines, whatever was said before."""
    one = agent().planned(*files(1), evaluator="deep")
    for number in range(3):
        one.finish(a1_md=f"{TEXT}{number}")
        answer = one.go(evalResult=verdict(passed=False, issues=[f"{number} " + "long " * 2_000]))
    assert one.state.kind == "microcompact_retry"
    assert len(answer["workerContext"]) < 3_000


def test_mode_4_self_evaluation(agent: Make) -> None:
    one = agent().planned(*files(1), profile="research", evaluator="deep")
    one.finish(a1_md=TEXT)
    assert one.go(evalResult={"passed": True, "score": 5})["nextAction"] == "revision_queued"


def test_mode_5_interruption(agent: Make) -> None:
    one = agent().planned(*files(2))
    one.finish(a1_md="x")
    (one.folder / "state.json").unlink()
    other = Coordinator(one.root)
    assert other.resume(one.id)["stageId"] == "stage-02"


def test_mode_6_hand_off(agent: Make) -> None:
    """Another agent learns from the status and one call what is done and what counts as done."""
    one = agent().planned(*files(2))
    one.finish(a1_md="x")
    found = one.coordinator.status(one.id)
    assert found["progress"]["completedStages"] == 1
    assert one.state.stages[1].done_criteria == ({"kind": "file-exists", "path": "a2.md"},)
    assert "a2.md" in one.fail()[0]["workerContext"]


def test_mode_7_external_validation(agent: Make) -> None:
    """What a machine can see counts before anybody is asked for a judgement."""
    one = agent().planned(
        [{"kind": "metrics", "path": "m.json", "metric": "f1", "op": ">", "value": 0.9}], evaluator="deep"
    )
    answer = one.go(workerFinished=True, artifacts=[{"path": "m.json", "content": '{"f1": 0.2}'}])
    assert answer["nextAction"] == "revision_queued"
    assert "f1 is 0.2" in answer["reason"]
    assert one.events("eval_deep_required") == []


def test_mode_8_observability(agent: Make) -> None:
    one = lived(agent)
    kinds = {event["type"] for event in one.events()}
    wanted = (
        "saga_created plan_requested plan_produced worker_mode_queued artifacts_submitted worker_finished "
        "hard_checks_completed recovery_attempt eval_deep_required deep_eval_completed human_escalated "
        "human_input_received eval_completed stage_advanced saga_terminated"
    )
    assert set(wanted.split()) <= kinds
    assert all({"seq", "ts", "v", "sagaId"} <= set(event) for event in one.events())
