"""From the plan to the end (acceptance checks 25 to 34, 52, 53, 105, 107, 109, 111)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.saga.errors import PlanRefusedError, ProfileError, QuotaError, RefusedError, SagaError
from harness.saga.profiles import profile_of
from harness.saga.tools import call_tool
from tests.harness.saga.scripted import TEXT, Agent, file, files, plan, planner, verdict

Make = Callable[..., Agent]
INCOMPLETE = plan([{"kind": "file-exists"}])


def test_025_three_incomplete_plans(agent: Make) -> None:
    one = agent()
    one.start()
    first = one.go(planYaml=INCOMPLETE)
    assert first["status"] == "plan_incomplete"
    assert first["missingFields"] == ["stage-01: done.path"]
    assert "stage-01: done.path" in first["feedback"]
    assert "shorter" not in first["feedback"]
    assert "planPrompt" in first
    second = one.go(planYaml=INCOMPLETE)
    assert second["status"] == "plan_incomplete"
    assert "shorter plan" in second["feedback"]
    one.forget_snapshot()
    third = one.go(planYaml=INCOMPLETE)
    assert (third["nextAction"], third["reason"]) == ("terminated", "plan_rejected")


def test_025_an_incomplete_plan_can_be_accepted_or_repaired(agent: Make) -> None:
    one = agent()
    one.start()
    one.go(planYaml=INCOMPLETE)
    assert one.go(planYaml=plan(*files(1)))["nextAction"] == "worker_mode_queued"
    two = agent()
    two.start()
    assert two.go(planYaml=INCOMPLETE, acceptIncomplete=True)["nextAction"] == "worker_mode_queued"
    assert two.fail()[0]["nextAction"] == "revision_queued"


def test_026_a_plan_without_stages_changes_nothing(agent: Make) -> None:
    one = agent()
    one.start()
    before = one.state
    with pytest.raises(PlanRefusedError, match="headings"):
        one.go(planYaml="I will do it well.")
    assert "headings" in call_tool(one.coordinator, "saga_advance", {"sagaId": one.id, "planYaml": "no"})["error"]
    assert one.state == before


def test_027_a_planner_begins_at_once(agent: Make) -> None:
    one = agent(planner=planner(*files(3)))
    answer = one.start("research")
    assert answer["status"] == "started"
    assert (answer["nextAction"]["nextAction"], answer["nextAction"]["stageId"]) == ("worker_mode_queued", "stage-01")
    assert (len(one.state.stages), one.state.cursor) == (3, 0)


def test_028_three_stages(agent: Make) -> None:
    one = agent().planned(*files(3))
    assert one.finish(a1_md="x")["stageId"] == "stage-02"
    assert one.finish(a2_md="x")["stageId"] == "stage-03"
    answer = one.finish(a3_md="x")
    assert (answer["nextAction"], answer["reason"]) == ("terminated", "completed")
    assert answer["details"] == "All 3 stages passed"
    assert one.state.cursor == 3
    counts = {kind: len(one.events(kind)) for kind in ("eval_completed", "stage_advanced", "saga_terminated")}
    assert counts == {"eval_completed": 3, "stage_advanced": 2, "saga_terminated": 1}
    one.forget_snapshot()


def test_029_a_missing_artifact(agent: Make) -> None:
    one = agent().planned(*files(1))
    answer = one.fail()[0]
    assert answer["nextAction"] == "revision_queued"
    assert "not found: a1.md" in answer["reason"]


def test_030_nothing_moves_a_saga_that_has_ended(agent: Make) -> None:
    one = agent().planned(*files(1))
    one.finish(a1_md="x")
    before = one.events()
    for parameters in ({}, {"workerFinished": True}, {"humanInput": "go"}, {"evalResult": verdict()}):
        assert one.go(**parameters)["nextAction"] == "terminated"
    late = one.finish(late_md="x")
    assert late["nextAction"] == "terminated"
    assert not (one.folder / "artifacts" / "late.md").exists()
    assert one.events() == before


@pytest.mark.parametrize("profile", ["ops", "research", "curation", "review", "generic"])
def test_031_each_profile_has_its_way(agent: Make, profile: str) -> None:
    one = agent().planned(*files(2), profile=profile, evaluator=None)
    mode = profile_of(profile).strategy.default_evaluator
    assert {stage.evaluator_mode for stage in one.state.stages} == {mode}
    for number in (1, 2):
        answer = one.finish(**{f"a{number}_md": TEXT})
        if mode == "deep":
            assert answer["nextAction"] == "eval_deep_required"
            answer = one.go(evalResult=verdict(profile), externalVerdict={"passed": True})
    assert (answer["nextAction"], answer["reason"]) == ("terminated", "completed")
    assert len(one.events("deep_eval_completed")) == (2 if mode == "deep" else 0)


def test_032_the_tool_way_keeps_every_byte(agent: Make) -> None:
    one = agent()
    started = one.start(goal="Draw the map.")
    assert started["status"] == "plan_required"
    assert "Draw the map." in started["planPrompt"]
    one.go(planYaml=plan([file("maps/a.md")]))
    content = "line\r\n\ttab ü 字 \u2028 end\n\n"
    answer = one.go(workerFinished=True, artifacts=[{"path": "maps/a.md", "content": content}])
    assert answer["reason"] == "completed"
    assert (one.folder / "artifacts" / "maps" / "a.md").read_bytes() == content.encode()


def test_032_an_empty_artifact_is_written(agent: Make) -> None:
    one = agent().planned(*files(1))
    assert "is empty" in one.finish(a1_md="")["reason"]
    assert (one.folder / "artifacts" / "a1.md").read_bytes() == b""


def test_033_no_signal(agent: Make) -> None:
    one = agent().planned(*files(1))
    before = one.state
    assert one.go()["nextAction"] == "continue_worker_now"
    assert one.state == before


def test_034_what_the_worker_reads(agent: Make) -> None:
    one = agent()
    one.start("research")
    answer = one.go(planYaml=plan([file("a1.md", minBytes=2000)], [file("a2.md")]))
    text = answer["workerContext"]
    for part in (
        "(1/2)",
        "Part 1",
        "Make part 1.",
        one.id,
        "stage-01",
        "- a1.md (at least 2000 bytes; fewer than 1500 fail)",
    ):
        assert part in text
    assert profile_of("research").worker_hint in text
    assert "Part 2" not in text
    revised = one.fail()[0]
    assert "Revision needed" in revised["workerContext"]
    assert "file not found: a1.md" in revised["workerContext"]


def test_052_only_free_form_is_judged_deeply(agent: Make) -> None:
    one = agent().planned([{"kind": "free-form", "desc": "It is good."}])
    assert one.state.stages[0].evaluator_mode == "deep"
    assert one.fail()[0]["nextAction"] == "eval_deep_required"


def test_053_only_unknown_kinds_are_judged_deeply(agent: Make) -> None:
    one = agent().planned([{"kind": "peer-vote", "voters": 3}])
    assert one.state.stages[0].evaluator_mode == "deep"
    assert one.fail()[0]["nextAction"] == "eval_deep_required"


def test_054_five_plus_kinds_through_the_coordinator(agent: Make) -> None:
    """A stage with one of each readable kind; the log names the status of each."""
    criteria = [
        file("a1.md"),
        {"kind": "file-schema", "path": "r.jsonl", "schema": {"type": "object"}},
        {"kind": "log-scan", "path": "r.jsonl", "pattern": "n"},
        {"kind": "metrics", "path": "m.json", "metric": "f1", "op": ">", "value": 0.5},
        {"kind": "progress-items", "count": 1, "path": "r.jsonl", "field": "n"},
        {"kind": "command", "command": "true"},
    ]
    one = agent().planned(criteria)
    artifacts = {"a1.md": "x", "r.jsonl": '{"n": "done"}\n', "m.json": '{"f1": 0.7}'}
    one.go(workerFinished=True, artifacts=[{"path": p, "content": c} for p, c in artifacts.items()])
    (checked,) = one.events("hard_checks_completed")
    assert [r["status"] for r in checked["results"]] == ["pass"] * 5 + ["fail"]
    assert "refused by policy" in checked["results"][5]["detail"]


def test_105_a_plan_does_not_open_a_saga_again(agent: Make) -> None:
    one = agent().planned(*files(1))
    one.coordinator.cancel(one.id)
    with pytest.raises(RefusedError, match="has ended"):
        one.go(planYaml=plan(*files(1)), replan=True)


def test_105_a_second_plan_needs_a_word(agent: Make) -> None:
    one = agent().planned(*files(2))
    one.finish(a1_md="x")
    one.fail()
    with pytest.raises(RefusedError, match="replan"):
        one.go(planYaml=plan(*files(1)))
    answer = one.go(planYaml=plan([file("b.md")]), replan=True)
    assert answer["nextAction"] == "worker_mode_queued"
    assert (one.state.cursor, one.state.recovery_attempts, one.state.plan_version) == (0, {}, 2)
    assert "a1.md" in one.state.artifact_index
    one.forget_snapshot()


@pytest.mark.parametrize("profile", ["bogus", "", "Ops", None, 5, "__proto__"])
def test_107_an_unknown_profile_leaves_nothing(agent: Make, profile: object) -> None:
    one = agent()
    with pytest.raises(SagaError):
        one.coordinator.start({"goal": "g", "profile": profile})
    assert not (one.root / "runs").exists()
    with pytest.raises(ProfileError):
        profile_of(profile)


def test_107_an_empty_goal_leaves_nothing(agent: Make) -> None:
    one = agent()
    for goal in ("", "  \n"):
        with pytest.raises(SagaError, match="goal"):
            one.start(goal=goal)
    with pytest.raises(QuotaError):
        one.start(goal="x" * 300_000)
    assert not (one.root / "runs").exists()


def test_109_advance_without_an_id(agent: Make) -> None:
    assert "sagaId" in call_tool(agent().coordinator, "saga_advance", {})["error"]


@pytest.mark.parametrize("saga_id", ["saga-1-nobody", "../..", "", None, 7])
def test_111_104_an_id_that_is_not_known(agent: Make, saga_id: object) -> None:
    for tool in ("saga_status", "saga_advance", "saga_cancel"):
        found = call_tool(agent().coordinator, tool, {"sagaId": saga_id})
        assert set(found) == {"error", "code"}


def test_a_misspelt_signal_is_an_error(agent: Make) -> None:
    one = agent().planned(*files(1))
    for wrong in ({"workerFinnished": True}, {"workerFinished": "yes"}, {"artifacts": "a"}, {"usage": {"tokens": -1}}):
        assert "error" in call_tool(one.coordinator, "saga_advance", {"sagaId": one.id, **wrong})
    assert "error" in call_tool(one.coordinator, "saga_fly", {})
    with pytest.raises(SagaError, match="evalResult"):
        one.go(evalResult=verdict(), workerFinished=True)
    with pytest.raises(SagaError, match="externalVerdict"):
        one.go(externalVerdict={"passed": True})
    assert "workerDiagnostics" in one.go(workerDiagnostics={"notes": "n"})["warnings"][0]


def test_halves_of_characters_do_no_harm(agent: Make) -> None:
    one = agent()
    one.start(goal="half \ud83d goal")
    one.go(planYaml=plan(*files(1)).replace("Part 1", "Part \ud83d"))
    with pytest.raises(SagaError, match="UTF-8"):
        one.finish(a1_md="\ud83d")
    assert one.finish(a1_md="x")["reason"] == "completed"
    one.forget_snapshot()


def test_055_what_was_changed_is_told_with_the_answer(agent: Make) -> None:
    one = agent()
    one.start("research")
    answer = one.go(planYaml=plan([file("a.md"), {"kind": "command", "command": "true"}], [{"file-exists": "b.md"}]))
    assert any("'command' is none of the profile's" in notice for notice in answer["notices"])
    assert any("was taken as kind file-exists" in notice for notice in answer["notices"])
    assert one.events("plan_produced")[0]["notices"] == answer["notices"]
    assert "no commands" in one.finish(a_md="x")["reason"]
