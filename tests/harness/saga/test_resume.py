"""Interruptions and two calls at once (acceptance checks 89 to 91, 98, 99, 101, 102, 103)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.saga.coordinator import Coordinator
from harness.saga.errors import ConflictError, PathError, SagaError
from harness.saga.fold import fold
from harness.saga.tools import call_tool
from tests.harness.saga.scripted import TEXT, Agent, file, files, plan, verdict

Make = Callable[..., Agent]


def test_089_in_the_second_stage(agent: Make) -> None:
    one = agent().planned(*files(3))
    one.finish(a1_md="x")
    (one.folder / "state.json").unlink()
    answer = one.coordinator.resume(one.id)
    assert (answer["nextAction"], answer["stageId"]) == ("continue_worker_now", "stage-02")
    assert (one.state.cursor, one.state.kind) == (1, "worker_mode_injected")


def test_090_after_a_deep_pass(agent: Make) -> None:
    one = agent().planned(*files(3), evaluator="deep")
    one.finish(a1_md=TEXT)
    one.go(evalResult=verdict())
    assert one.forget_snapshot().cursor == 1


def test_091_while_a_person_is_asked(agent: Make) -> None:
    one = agent().planned(*files(1))
    one.finish(a1_md="BLOCKED: no key")
    (one.folder / "state.json").unlink()
    answer = one.coordinator.resume(one.id)
    assert answer["nextAction"] == "await_human"
    assert "no key" in answer["reason"]


@pytest.mark.parametrize("failures", [1, 3, 4])
def test_093_counters_through_the_coordinator(agent: Make, failures: int) -> None:
    one = agent().planned(*files(1))
    one.fail(failures)
    assert one.forget_snapshot().recovery_attempts == {"stage-01": failures}


def test_101_while_a_verdict_is_due(agent: Make) -> None:
    one = agent().planned(*files(1), evaluator="deep")
    prompt = one.finish(a1_md=TEXT)["evalPrompt"]
    for path in (None, "state.json"):
        if path is not None:
            (one.folder / path).unlink()
        again = one.coordinator.resume(one.id)
        assert again["nextAction"] == "eval_deep_required"
        assert len(again["evalPrompt"]) == len(prompt)
    assert one.state.termination is None


def test_a_crash_between_two_events_is_carried_on(agent: Make) -> None:
    """Every prefix of the log of a whole run can be resumed, and leads to the end without skipping a stage."""
    whole = agent().planned(*files(2), evaluator="deep")
    whole.fail(1)
    whole.finish(a1_md=TEXT)
    whole.go(evalResult=verdict(H1="FAIL-ESCALATE"))
    whole.go(humanInput="go on")
    whole.finish(a1_md=TEXT)
    whole.go(evalResult=verdict())
    whole.finish(a2_md=TEXT)
    whole.go(evalResult=verdict())
    lines = (whole.folder / "events.jsonl").read_bytes().splitlines(keepends=True)
    assert len(lines) > 20
    for length in range(1, len(lines) + 1):
        (whole.folder / "state.json").unlink(missing_ok=True)
        (whole.folder / "events.jsonl").write_bytes(b"".join(lines[:length]))
        for _ in range(12):
            answer = whole.go()
            match answer["nextAction"]:
                case "terminated":
                    break
                case "await_human" if answer["reason"] == "plan_required":
                    whole.go(planYaml=plan(*files(2), evaluator="deep"))
                case "await_human":
                    whole.go(humanInput="go on")
                case "eval_deep_required":
                    whole.go(evalResult=verdict())
                case _:
                    whole.finish(**{f"a{whole.state.cursor + 1}_md": TEXT})
        assert answer["nextAction"] == "terminated"
        assert answer["reason"] == "completed", (length, answer)
        passed = [e["stageId"] for e in whole.events("eval_completed")]
        assert passed == ["stage-01", "stage-02"], length
        whole.forget_snapshot()


def test_099_prefixes_of_a_real_run(agent: Make) -> None:
    one = agent().planned(*files(2))
    snapshots = []
    for step in (
        lambda: one.fail(4),
        lambda: one.finish(a1_md="x"),
        lambda: one.fail(1),
        lambda: one.finish(a2_md="x"),
    ):
        step()
        snapshots.append(one.state)
    events = one.events()
    for state in snapshots:
        assert fold(events[: state.last_seq]) == state
    assert [msgspec.to_builtins(fold(events))] == [one.coordinator.replay(one.id)["state"]]
    assert one.coordinator.replay(one.id)["identical"]


ROUNDS = 200


def test_098_of_two_calls_at_once_one_wins(agent: Make, tmp_path: Path, clock: Callable[[], int]) -> None:
    """Two threads finish the same stage at the same moment, 200 stages long."""
    one = agent().planned(*files(50))
    sagas = [one.id]
    for _ in range(ROUNDS // 50 - 1):
        other = agent().planned(*files(50))
        sagas.append(other.id)
    barrier = threading.Barrier(2)

    def finish(saga_id: str, number: int, seq: int) -> dict[str, Any]:
        coordinator = Coordinator(one.root, clock=clock)
        artifacts = [{"path": f"a{number}.md", "content": "x"}]
        barrier.wait()
        arguments = {"sagaId": saga_id, "workerFinished": True, "artifacts": artifacts, "ifSeq": seq}
        return call_tool(coordinator, "saga_advance", arguments)

    wins = 0
    with ThreadPoolExecutor(2) as pool:
        for saga_id in sagas:
            one.id = saga_id
            for number in range(1, 51):
                seq = one.state.last_seq
                answers = list(pool.map(lambda _, s=saga_id, n=number, q=seq: finish(s, n, q), range(2)))
                lost = [a for a in answers if "error" in a]
                assert [a["code"] for a in lost] == ["conflict"], answers
                wins += 1
            assert one.state.termination is not None
            assert one.state.termination.reason == "completed"
            assert [e["stageId"] for e in one.events("eval_completed")] == [f"stage-{n:02d}" for n in range(1, 51)]
            assert [e["seq"] for e in one.events()] == list(range(1, len(one.events()) + 1))
            one.forget_snapshot()
    assert wins == ROUNDS


def test_098_the_stage_alone_is_enough(agent: Make, clock: Callable[[], int]) -> None:
    """Without ifSeq, with the stageId that workerContext tells: the second call never counts against the next stage."""
    one = agent().planned(*files(30))
    barrier = threading.Barrier(2)

    def finish(number: int) -> dict[str, Any]:
        artifacts = [{"path": f"a{number}.md", "content": "x"}]
        arguments = {"sagaId": one.id, "stageId": f"stage-{number:02d}", "workerFinished": True, "artifacts": artifacts}
        barrier.wait()
        return call_tool(Coordinator(one.root, clock=clock), "saga_advance", arguments)

    with ThreadPoolExecutor(2) as pool:
        for number in range(1, 30):
            answers = list(pool.map(finish, [number, number]))
            assert [a["code"] for a in answers if "error" in a] == ["conflict"]
    assert one.state.cursor == 29
    assert one.state.recovery_attempts == {}


def test_098_a_call_that_came_too_late(agent: Make) -> None:
    one = agent().planned(*files(2))
    one.finish(a1_md="x")
    with pytest.raises(ConflictError, match="moved on"):
        one.go(workerFinished=True, stageId="stage-01")
    assert one.state.recovery_attempts == {}


def test_a_request_is_done_once(agent: Make) -> None:
    one = agent().planned(*files(2))
    one.go(workerFinished=True, artifacts=[{"path": "a1.md", "content": "x"}], requestId="r-1")
    before = one.events()
    again = one.go(workerFinished=True, artifacts=[{"path": "a1.md", "content": "x"}], requestId="r-1")
    assert again["repeated"] is True
    assert (again["nextAction"], again["stageId"]) == ("continue_worker_now", "stage-02")
    assert one.events() == before
    one.forget_snapshot()


@pytest.mark.parametrize("path", ["../x", "/tmp/saga-x", "a/../../x", "..\\x", "", "link/x", "out"])
def test_102_nothing_is_written_outside(agent: Make, path: str, tmp_path: Path) -> None:
    one = agent().planned(*files(1))
    outside = tmp_path / "outside"
    outside.mkdir()
    (one.folder / "artifacts" / "link").symlink_to(outside)
    (one.folder / "artifacts" / "out").symlink_to(outside / "file")
    before = sorted(p for p in tmp_path.rglob("*"))
    with pytest.raises(PathError):
        one.go(workerFinished=True, artifacts=[{"path": "good.md", "content": "x"}, {"path": path, "content": "x"}])
    assert sorted(p for p in tmp_path.rglob("*")) == before
    assert not Path("/tmp/saga-x").exists()


def test_102_entries_that_exclude_each_other(agent: Make) -> None:
    one = agent().planned(*files(1))
    for paths in (["a", "a/b"], ["a", "./a"]):
        with pytest.raises(SagaError):
            one.go(artifacts=[{"path": p, "content": "x"} for p in paths])
    for entry in ("a", {"path": "a"}, {"path": "a", "content": 5}, None):
        with pytest.raises(SagaError):
            one.go(artifacts=[entry])
    assert one.state.artifact_index == {}


def test_103_a_criterion_reads_nothing_outside(agent: Make, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("the secret of the house")
    one = agent().planned([file("../../../../secret.txt"), file(str(tmp_path / "secret.txt")), file("link.txt")])
    (one.folder / "artifacts" / "link.txt").symlink_to(tmp_path / "secret.txt")
    answer = one.fail()[0]
    assert answer["nextAction"] == "revision_queued"
    (checked,) = one.events("hard_checks_completed")
    assert {r["status"] for r in checked["results"]} == {"fail"}
    two = agent().planned([{"kind": "free-form", "path": "link.txt"}, {"kind": "peer-vote", "path": "link.txt"}])
    (two.folder / "artifacts" / "link.txt").symlink_to(tmp_path / "secret.txt")
    prompt = two.fail()[0]["evalPrompt"]
    assert "the secret of the house" not in prompt
    assert "(not there)" in prompt


def test_status_does_not_write(agent: Make) -> None:
    one = agent().planned(*files(1))
    (one.folder / "state.json").unlink()
    before = sorted(p.name for p in one.folder.iterdir())
    found = one.coordinator.status(one.id)
    assert found["transition"] == "worker_mode_injected"
    assert any("state.json" in problem for problem in found["problems"])
    assert sorted(p.name for p in one.folder.iterdir()) == before
    assert [s["sagaId"] for s in one.coordinator.sagas()] == [one.id]
    assert one.coordinator.show(one.id)["state"]["sagaId"] == one.id


def test_095_status_reports_half_a_line(agent: Make) -> None:
    one = agent().planned(*files(1))
    with open(one.folder / "events.jsonl", "ab") as log:
        log.write(b'{"v":2,"seq":99,"type":"saga_termin')
    assert any("half a line" in problem for problem in one.coordinator.status(one.id)["problems"])
    assert one.finish(a1_md="x")["reason"] == "completed"
    assert any("torn-1" in problem for problem in one.coordinator.status(one.id)["problems"])


def test_a_full_disk_ends_nothing(agent: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = agent().planned(*files(1))
    before = one.state

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        found = call_tool(
            one.coordinator,
            "saga_advance",
            {"sagaId": one.id, "workerFinished": True, "artifacts": [{"path": "a1.md", "content": "x"}]},
        )
    assert "No space left" in found["error"]
    assert one.state == before
    assert one.finish(a1_md="x")["reason"] == "completed"
