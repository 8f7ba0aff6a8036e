"""Questions, people, budgets, sessions, hooks (acceptance checks 82 to 88, 106, 108, 110, 112 to 116)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.saga.errors import QuotaError, RefusedError, SagaError
from harness.saga.hooks import before_prompt, before_tool
from harness.saga.model import PROFILE_IDS
from harness.saga.options import SagaOptions, read_options, state_root
from harness.saga.profiles import profile_of
from tests.harness.saga.scripted import TEXT, Agent, file, files, plan, planner, verdict

Make = Callable[..., Agent]


def clarifier(*rounds: list[str]) -> Callable[[str, Sequence[Any], int], list[str]]:
    def ask(goal: str, history: Sequence[Any], number: int) -> list[str]:
        return rounds[number] if number < len(rounds) else []

    return ask


TWO_ROUNDS = clarifier(["Which one?", "Since when?"], ["How many?"], ["And why?"])


def test_082_two_rounds_then_the_planner(agent: Make) -> None:
    one = agent(clarifier=TWO_ROUNDS, planner=planner(*files(1)))
    first = one.start("research")["nextAction"]
    assert (first["nextAction"], first["questions"], first["round"], first["limit"]) == (
        "clarification_needed",
        ["Which one?", "Since when?"],
        0,
        2,
    )
    second = one.go(humanInput="the red one, since May")
    assert (second["nextAction"], second["questions"], second["round"]) == ("clarification_needed", ["How many?"], 1)
    one.forget_snapshot()
    assert one.go(humanInput="three")["nextAction"] == "worker_mode_queued"
    history = one.state.clarification_history
    assert [(e.question, e.answer) for e in history] == [
        ("Which one?\nSince when?", "the red one, since May"),
        ("How many?", "three"),
    ]


@pytest.mark.parametrize(
    "answer", ["skip", "Enough, go ahead", "够了", "不用问了，开始吧", "no more questions please.", "SKIP it!"]
)
def test_083_a_stop_phrase_ends_the_questions(agent: Make, answer: str) -> None:
    one = agent(clarifier=TWO_ROUNDS, planner=planner(*files(1)))
    one.start("research")
    assert one.go(humanInput=answer)["nextAction"] == "worker_mode_queued"
    assert len(one.state.clarification_history) == 1


@pytest.mark.parametrize(
    "answer", ["I don't have enough data", "not enough data, sorry", "no more than five pages", "Skipper is the name"]
)
def test_084_a_sentence_with_such_a_word_does_not(agent: Make, answer: str) -> None:
    one = agent(clarifier=TWO_ROUNDS, planner=planner(*files(1)))
    one.start("research")
    assert one.go(humanInput=answer)["nextAction"] == "clarification_needed"


def test_085_nothing_to_ask(agent: Make) -> None:
    one = agent(clarifier=clarifier(), planner=planner(*files(1)))
    assert one.start("research")["nextAction"]["nextAction"] == "worker_mode_queued"
    assert len(one.events("clarification_skipped")) == 1


def test_086_the_answers_reach_the_planner_and_the_prompt(agent: Make) -> None:
    seen: list[str] = []
    one = agent(clarifier=clarifier(["Which one?"]), planner=planner(*files(1), seen=seen))
    one.start("generic", goal="Paint it.")
    one.go(humanInput="the red one")
    assert seen == ["Paint it.\n\n## Clarifications\nQ: Which one?\nA: the red one"]
    two = agent(clarifier=clarifier(["Which one?"]))
    two.start("generic", goal="Paint it.")
    answer = two.go(humanInput="the red one")
    assert seen[0] in answer["planPrompt"]
    assert answer["nextAction"] == "await_human"
    assert "planYaml" in answer["diagnostic"]


def test_087_no_answer_no_progress(agent: Make) -> None:
    one = agent(clarifier=TWO_ROUNDS)
    asked = one.start("research")["nextAction"]
    before = one.events()
    for parameters in ({}, {"workerFinished": True}):
        again = one.go(**parameters)
        assert (again["nextAction"], again["questions"], again["round"]) == (
            "clarification_needed",
            asked["questions"],
            0,
        )
    assert one.events() == before


def test_088_rounds_per_profile(agent: Make) -> None:
    found = {p: profile_of(p).strategy.clarification_rounds for p in PROFILE_IDS}
    assert found == {"ops": 2, "research": 2, "curation": 1, "review": 1, "generic": 1}
    for profile in PROFILE_IDS:
        one = agent()
        one.start(profile)
        assert one.state.clarification_limit == found[profile]


def escalated(agent: Make, **options: Any) -> Agent:
    one = agent(**options).planned([file("a1.md"), file("b1.md")], [file("a2.md")], profile="generic", evaluator="deep")
    one.go(workerFinished=True, artifacts=[{"path": p, "content": TEXT} for p in ("a1.md", "b1.md")])
    one.go(evalResult=verdict(H1="FAIL-ESCALATE"))
    return one


def test_106_only_a_person_opens_the_gate(agent: Make) -> None:
    one = escalated(agent)
    before = one.events()
    for parameters in (
        {},
        {"workerFinished": True},
        {"workerFinished": True, "artifacts": [{"path": "c.md", "content": "x"}]},
    ):
        assert one.go(**parameters)["nextAction"] == "await_human"
    with pytest.raises(RefusedError):
        one.go(evalResult=verdict())
    with pytest.raises(RefusedError, match="person"):
        one.go(planYaml=plan(*files(1)), replan=True)
    assert one.events() == before
    assert not (one.folder / "artifacts" / "c.md").exists()


def test_112_what_the_person_says_reaches_the_worker(agent: Make) -> None:
    one = escalated(agent)
    answer = one.go(humanInput="Take the figures of 2019 instead.")
    assert (answer["nextAction"], answer["cause"]) == ("worker_mode_queued", "human")
    assert "Take the figures of 2019 instead." in answer["workerContext"]
    assert one.state.human_notes == ("Take the figures of 2019 instead.",)
    one.forget_snapshot()


def test_112_criteria_can_be_relaxed_and_the_log_says_so(agent: Make) -> None:
    one = escalated(agent)
    with pytest.raises(RefusedError, match="relax"):
        one.go(humanInput="go on", criteriaPatch=[{"index": 1, "action": "drop"}])
    for bad in (
        [{"index": 5, "action": "drop"}],
        ["drop"],
        [{"index": 1, "action": "alter", "criterion": {"kind": "command"}}],
    ):
        with pytest.raises(RefusedError):
            one.go(humanInput="relax", criteriaPatch=bad)
    patch = [
        {"index": 2, "action": "drop"},
        {"index": 1, "action": "alter", "criterion": {"kind": "file-exists", "path": "a1.md", "minBytes": 10}},
    ]
    assert one.go(humanInput="Relax the second one.", criteriaPatch=patch)["nextAction"] == "worker_mode_queued"
    assert one.state.stages[0].done_criteria == ({"kind": "file-exists", "path": "a1.md", "minBytes": 10},)
    assert one.events("human_input_received")[0]["patch"] == patch
    one.forget_snapshot()


def test_112_dropping_everything_leaves_the_evaluator(agent: Make) -> None:
    one = agent().planned(*files(1))
    one.finish(a1_md="BLOCKED: no")
    one.go(humanInput="relax", criteriaPatch=[{"index": 1, "action": "drop"}])
    stage = one.state.stages[0]
    assert (stage.evaluator_mode, stage.done_criteria[0]["kind"]) == ("deep", "free-form")


def test_nobody_is_there(agent: Make) -> None:
    one = escalated(agent, options=SagaOptions(unattended=True))
    assert one.state.termination is not None
    assert one.state.termination.reason == "human_input_required"
    two = agent(options=SagaOptions(unattended=True), clarifier=TWO_ROUNDS, planner=planner(*files(1)))
    assert two.start()["nextAction"]["nextAction"] == "worker_mode_queued"


def test_an_answer_that_nobody_asked_for_is_told(agent: Make) -> None:
    one = agent().planned(*files(1))
    answer = one.go(humanInput="hurry")
    assert answer["nextAction"] == "continue_worker_now"
    assert any("humanInput" in warning for warning in answer["warnings"])


def test_108_one_live_saga_per_session(agent: Make) -> None:
    one = agent()
    one.start(session="s-1")
    other = agent()
    with pytest.raises(RefusedError, match=one.id):
        other.start(session="s-1")
    assert "finish or cancel" in str(before_tool(other.coordinator, "s-1", "saga_start", {}))
    other.start(session="s-2")
    one.go(planYaml=plan(*files(1)))
    assert one.finish(a1_md="x")["reason"] == "completed"
    assert before_tool(other.coordinator, "s-1", "saga_start", {}) is None
    agent().start(session="s-1")
    two = agent()
    two.id = other.id
    two.coordinator.cancel(other.id)
    agent().start(session="s-2")


def test_109_the_hook_wants_an_id(agent: Make) -> None:
    coordinator = agent().coordinator
    assert before_tool(coordinator, "s", "saga_advance", {}) is not None
    assert before_tool(coordinator, "s", "saga_advance", {"sagaId": "x"}) is None
    assert before_tool(coordinator, "s", "saga_status", {}) is None


def test_110_cancel_twice(agent: Make) -> None:
    one = agent().planned(*files(1))
    assert one.coordinator.cancel(one.id) == {"sagaId": one.id, "status": "cancelled", "reason": "cancelled by user"}
    with pytest.raises(RefusedError, match="has ended already"):
        one.coordinator.cancel(one.id)
    assert len(one.events("saga_cancelled")) == 1


def test_113_quotas(agent: Make) -> None:
    one = agent().planned(*files(1))
    large = [{"path": "big.md", "content": "x" * ((5 << 20) + 1)}]
    many = [{"path": f"f{n}.md", "content": "x"} for n in range(201)]
    for artifacts in (large, many):
        with pytest.raises(QuotaError):
            one.go(workerFinished=True, artifacts=artifacts)
    for number in range(12):
        one.go(artifacts=[{"path": f"p{number}.md", "content": "x" * (5 << 20)}])
    with pytest.raises(QuotaError, match="at most 67108864"):
        one.go(artifacts=[{"path": "last.md", "content": "x" * (5 << 20)}])
    assert sorted(p.name for p in (one.folder / "artifacts").glob("*.md")) == sorted(f"p{n}.md" for n in range(12))
    two = agent()
    two.start()
    for text in (plan(*files(65)), plan([file(f"a{n}") for n in range(51)]), "x" * 256_001):
        with pytest.raises(QuotaError):
            two.go(planYaml=text)
    assert two.state.plan is None


@pytest.mark.parametrize(
    ("usage", "unit"),
    [
        ({"tokens": 500_001}, "tokens"),
        ({"wallMs": 180 * 60_000 + 1}, "milliseconds"),
        ({"tokens": 120_001}, "in this stage"),
    ],
)
def test_114_budgets(agent: Make, usage: dict[str, int], unit: str) -> None:
    one = agent().planned(*files(2))
    assert one.go(usage={"tokens": 100, "wallMs": 10})["nextAction"] == "continue_worker_now"
    answer = one.go(usage=usage, workerFinished=True, artifacts=[{"path": "a1.md", "content": "x"}])
    assert (answer["nextAction"], answer["reason"]) == ("terminated", "budget_exceeded")
    assert unit in answer["details"]
    one.forget_snapshot()


def test_114_the_cap_is_per_stage(agent: Make) -> None:
    one = agent().planned(*files(2))
    one.go(usage={"tokens": 100_000})
    one.finish(a1_md="x")
    assert one.go(usage={"tokens": 100_000})["nextAction"] == "continue_worker_now"
    assert one.state.usage.per_stage_tokens == {"stage-01": 100_000, "stage-02": 100_000}


def memory_of(one: Agent) -> list[Path]:
    return sorted((one.root / "memory").glob("*.md")) if (one.root / "memory").exists() else []


def test_115_operations_are_remembered_once(agent: Make) -> None:
    one = agent()
    one.start("ops", goal="The printer vanishes every hour.")
    one.go(planYaml=plan([file("diagnosis.md"), file("runbook.md")], evaluator="deep"))
    artifacts = [
        {"path": "diagnosis.md", "content": f"# Diagnosis\n\nThe lease runs out.\n\n{TEXT}"},
        {
            "path": "runbook.md",
            "content": "Run rm -rf never.\n\n```sh\n# longer lease\nuci set dhcp.lease=24h\n```\nUndo: 1h.",
        },
    ]
    one.go(workerFinished=True, artifacts=artifacts)
    assert one.go(evalResult=verdict("ops"))["reason"] == "completed"
    (path,) = memory_of(one)
    assert path.name == "2026-01-01.md"
    text = path.read_text()
    assert text.count(one.id) == 2
    for part in (
        "The printer vanishes",
        "Diagnosis: The lease runs out.",
        "`uci set dhcp.lease=24h`",
        "Undo: described",
    ):
        assert part in text
    one.go()
    assert path.read_text() == text


def test_115_the_workers_own_entry_is_kept(agent: Make) -> None:
    one = agent().planned([file("memory-entry.md")], profile="ops", evaluator="deep")
    one.go(workerFinished=True, artifacts=[{"path": "memory-entry.md", "content": f"# Printer\n{TEXT}"}])
    one.go(evalResult=verdict("ops"))
    (path,) = memory_of(one)
    assert f"### Printer\n{TEXT.strip()}" in path.read_text()


@pytest.mark.parametrize("profile", ["research", "curation", "review", "generic"])
def test_115_other_profiles_are_not(agent: Make, profile: str) -> None:
    one = agent().planned(*files(1), profile=profile)
    assert one.finish(a1_md=TEXT)["reason"] == "completed"
    assert memory_of(one) == []


def test_115_a_cancelled_operation_is_not(agent: Make) -> None:
    one = agent().planned(*files(1), profile="ops")
    one.coordinator.cancel(one.id)
    assert memory_of(one) == []


def test_116_the_line_before_a_prompt(agent: Make) -> None:
    one = agent()
    assert before_prompt(one.coordinator, "s") is None
    one.start(session="s")
    assert before_prompt(one.coordinator, "s") is None
    one.go(planYaml=plan(*files(1), evaluator="deep"))
    working = before_prompt(one.coordinator, "s")
    assert working is not None
    assert "Part 1" in working
    assert one.id in working
    assert "\n-" not in working
    assert "Revision" not in working
    one.fail()
    revising = before_prompt(one.coordinator, "s")
    assert revising is not None
    assert "Revision needed:\n- file-exists: file not found: a1.md" in revising
    one.finish(a1_md=TEXT)
    assert "verdict is due" in str(before_prompt(one.coordinator, "s"))
    (one.folder / "state.json").write_text("{")
    (one.folder / "events.jsonl").write_text("{")
    assert before_prompt(one.coordinator, "s") is None


def test_options_come_from_the_state_root(tmp_path: Path) -> None:
    (tmp_path / "saga.json").write_text('{"commands": true, "programs": ["make"]}')
    assert read_options(tmp_path, unattended=True) == SagaOptions(commands=True, programs=("make",), unattended=True)
    (tmp_path / "saga.json").write_text('{"commandz": true}')
    with pytest.raises(SagaError, match="commandz"):
        read_options(tmp_path)
    assert state_root(None, {"SAGA_STATE_ROOT": "/x"}) == Path("/x")
    assert state_root("y", {"SAGA_STATE_ROOT": "/x"}) == Path("y")
    assert state_root(None, {}) == Path(".saga")
