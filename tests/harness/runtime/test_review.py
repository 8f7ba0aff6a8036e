"""The review gate. Acceptance checks 103 to 114."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.runtime.acceptance import CheckResult
from harness.runtime.channel import EchoChannel, RecordedChannel
from harness.runtime.criteria import output_findings, plan_findings
from harness.runtime.errors import ReviewError, SeparationOfDutyError
from harness.runtime.ir import Budgets, Plan, ProblemSpec, read_problem, read_record
from harness.runtime.review import Evidence, Finding, ReviewGate, ReviewReport, freeze, set_disposition
from harness.runtime.run import Policies
from harness.runtime.store import RunStore
from tests.harness.runtime.made import append, decompose, end, engine, granted, kinds, plan, problem

CHECK = {"id": "c", "kind": "predicate", "spec": {"expr": "outputs.n == 1"}}


def spec(*checks: dict[str, Any], **more: Any) -> ProblemSpec:
    return read_problem({"id": "p", "goal": "g", "acceptance": list(checks or [CHECK]), **more})


def says(*findings: dict[str, Any]) -> str:
    return json.dumps({"findings": list(findings)})


BLOCKING = {"criterion": "acceptance:c", "subject": "s", "evidence": "line 3 is wrong", "blocking": True}


def reviewed(store: RunStore, *tape: str, rounds: int = 1, under: str = "reviewer::a", **more: Any) -> ReviewReport:
    gate = ReviewGate(store, RecordedChannel({under: list(tape)}).complete, max_rounds=rounds)
    return gate.review("r", more.pop("problem", spec()), "output:p", "the content", author="a", **more)


def test_103_nobody_reviews_themselves(store: RunStore) -> None:
    with pytest.raises(SeparationOfDutyError):
        reviewed(store, reviewer="a")
    report = reviewed(store, says(), under="a")
    assert (report.rounds, report.verdict) == (0, "escalated_review_incomplete")
    report = reviewed(store, says())
    assert (report.rounds, report.verdict) == (1, "pass_with_risk")
    told = [e.payload["reviewer_session"] for e in store.events("r", kinds=["review_round"])]
    assert told == ["reviewer::a", "reviewer::a"]


def test_104_a_plan_with_duplicate_ids_is_blocked(tmp_path: Path) -> None:
    child = plan("child", append("a"), append("a"))
    with engine(tmp_path) as made:
        result = made.run(problem(decompose("d", child), end()), "r")
        assert result.status == "escalated"
        found = [e.payload for e in made.store.events("r", kinds=["finding_raised"])]
    assert [(f["criterion"], f["blocking"]) for f in found] == [("plan_validity:duplicate_id", True)]
    assert "root[1]" in found[0]["evidence_ref"]
    assert not (tmp_path / "ledger.txt").exists()


def test_105_excess_is_blocked_with_its_reason(store: RunStore) -> None:
    wide = read_record(plan("p", append("a"), authority={"fs_write": ["/**"]}, budgets={"max_nodes": 300}), Plan)
    found = plan_findings(wide, "plan:p", [granted(fs_write=["out/**"])], Budgets())
    assert [f.criterion for f in found] == ["authority_containment", "budget_containment"]
    report = reviewed(store, rounds=0, found=found)
    assert report.verdict == "blocked_escalated"
    kept = [e.payload for e in store.events("r", kinds=["finding_raised"])]
    assert [f["evidence_ref"] for f in kept] == ["fs_write:/**", "max_nodes 300 > 200"]


@pytest.mark.parametrize("name", Budgets.__struct_fields__)
def test_105_each_budget_is_contained(name: str) -> None:
    tight = Budgets(max_cost_usd=1.0)
    greedy = read_record(plan("p", append("a"), budgets={"max_cost_usd": 1.0, name: getattr(tight, name) * 2}), Plan)
    found = plan_findings(greedy, "plan:p", [], tight)
    assert [f.criterion for f in found] == ["budget_containment"]
    assert name in found[0].evidence_ref


@pytest.mark.parametrize("evidence", [None, "", "   "])
def test_106_without_evidence_nothing_blocks(store: RunStore, evidence: str | None) -> None:
    report = reviewed(store, says({**BLOCKING, "evidence": evidence}))
    assert report.verdict == "pass_with_risk"
    assert [(f.blocking, f.disposition) for f in report.findings] == [(False, "invalid")]
    assert report.residual_risks == ("acceptance:c: no evidence was given",)


def test_107_off_the_ledger_nothing_blocks(store: RunStore) -> None:
    report = reviewed(store, says({**BLOCKING, "criterion": "I do not like it" + "x" * 300}))
    assert report.verdict == "pass_with_risk"
    assert "ledger" in report.findings[0].rationale
    assert len(report.findings[0].criterion) == 200


def test_108_on_the_ledger_with_evidence_it_blocks(store: RunStore) -> None:
    assert reviewed(store, says(BLOCKING)).verdict == "blocked_escalated"
    assert reviewed(store, says({**BLOCKING, "blocking": False})).verdict == "pass_with_risk"


def test_108_evidence_that_names_something_is_carried_out_again(store: RunStore) -> None:
    sha = store.blobs.put(b"0123456789")
    evidence = Evidence(checks={"c": True, "d": False}, scope={"outputs": {"n": 1}})
    for told, verdict in [
        ("check:c", "pass_with_risk"),
        ("check:d", "blocked_escalated"),
        ("check:unknown", "pass_with_risk"),
        (f"file:{sha}:0-4", "blocked_escalated"),
        (f"file:{sha}:0-99", "pass_with_risk"),
        (f"file:{'0' * 64}:0-4", "pass_with_risk"),
        ("expr:outputs.n == 1", "blocked_escalated"),
        ("expr:outputs.n == 2", "pass_with_risk"),
        ("expr:outputs.missing", "pass_with_risk"),
    ]:
        report = reviewed(store, says({**BLOCKING, "evidence": told}), evidence=evidence)
        assert report.verdict == verdict, told


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_109_rounds_are_bounded(store: RunStore, rounds: int) -> None:
    report = reviewed(store, says(BLOCKING), says(BLOCKING), says(BLOCKING), rounds=rounds)
    assert report.rounds == rounds
    logged = [e.payload["round"] for e in store.events("r", kinds=["review_round"])]
    assert logged == (list(range(1, rounds + 1)) or [0])
    assert (report.tokens > 0) == (rounds > 0)


def test_109_a_round_without_blocking_findings_is_the_last(store: RunStore) -> None:
    assert reviewed(store, says(), says(), rounds=2).rounds == 1


def test_109_time_and_tokens_end_a_review(store: RunStore) -> None:
    ticks = iter([0.0, 0.0, 500.0, 500.0, 500.0])
    channel = RecordedChannel({"reviewer::a": [says(BLOCKING)] * 3})
    gate = ReviewGate(store, channel.complete, max_rounds=3, timer=lambda: next(ticks))
    assert gate.review("r", spec(), "s", "c", author="a").rounds == 1
    gate = ReviewGate(
        store, RecordedChannel({"reviewer::a": [says(BLOCKING)] * 3}).complete, max_rounds=3, token_limit=1
    )
    assert gate.review("r", spec(), "s", "c", author="a").rounds == 1


def test_110_the_ledger_is_frozen_and_shown(store: RunStore) -> None:
    other = {**CHECK, "id": "d"}
    assert freeze(spec(CHECK)).sha == freeze(spec(CHECK)).sha != freeze(spec(CHECK, other)).sha
    assert freeze(spec(CHECK, other)).sha == freeze(spec(other, CHECK)).sha
    assert len(freeze(spec()).sha) == 16
    asked: list[str] = []

    class Listening(RecordedChannel):
        def complete(self, messages: Any, **more: Any) -> Any:
            asked.append(messages[0]["content"])
            return super().complete(messages, **more)

    gate = ReviewGate(store, Listening({"reviewer::a": [says(BLOCKING), says(BLOCKING)]}).complete, max_rounds=2)
    report = gate.review("r", spec(CHECK, other), "s", "c", author="a")
    assert len(asked) == 2
    assert asked[0] == asked[1]
    assert report.ledger_sha in asked[0]
    for concern in ("acceptance:c", "acceptance:d", "outputs_conform_to_schema", "no_acceptance_check_skipped"):
        assert concern in asked[0]
    assert "budgets_respected" in asked[0]


@pytest.mark.parametrize(
    ("outputs", "results", "usage", "criterion"),
    [
        ({"n": 1}, [CheckResult("c", False, "n is 2")], {}, "acceptance:c"),
        ({"n": 1}, [], {}, "no_acceptance_check_skipped"),
        ({"n": 1}, [CheckResult("c", None, "broke off")], {}, "no_acceptance_check_skipped"),
        ({"n": "x"}, [CheckResult("c", True, "")], {}, "outputs_conform_to_schema"),
        ({}, [CheckResult("c", True, "")], {}, "outputs_conform_to_schema"),
        ("text", [CheckResult("c", True, "")], {}, "outputs_conform_to_schema"),
        ({"n": 1}, [CheckResult("c", True, "")], {"tokens": 200_001}, "budgets_respected"),
        ({"n": 1}, [CheckResult("c", True, "")], {"nodes": 201}, "budgets_respected"),
        ({"n": 1}, [CheckResult("c", True, "")], {"cost_usd": 0.01}, "budgets_respected"),
        ({"n": 1}, [CheckResult("c", True, "")], {"wall_seconds": 901}, "budgets_respected"),
    ],
)
def test_111_outputs_against_the_contract(outputs: Any, results: Any, usage: dict[str, float], criterion: str) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    found = output_findings(spec(output_schema=schema), "output:p", outputs, results, usage)
    assert [(f.criterion, f.blocking) for f in found] == [(criterion, True)]
    assert found[0].evidence_ref
    assert output_findings(spec(), "output:p", {"n": 1}, [CheckResult("c", True, "")], {"tokens": 200_000}) == []


def test_112_a_reviewer_that_cannot_be_asked(store: RunStore) -> None:
    report = ReviewGate(store, EchoChannel().complete, max_rounds=1).review("r", spec(), "s", "c", author="a")
    assert (report.verdict, report.rounds) == ("escalated_review_incomplete", 0)
    assert "ChannelRequired" in str(report.channel_error)
    found = [e.payload for e in store.events("r", kinds=["finding_raised"])]
    assert [(f["criterion"], f["disposition"]) for f in found] == [("review_channel_unavailable", "deferred")]
    mismatch = RecordedChannel({"reviewer::a": [{"text": "{}", "match": {"temperature": 1.0}}]})
    assert ReviewGate(store, mismatch.complete).review("r", spec(), "s", "c", author="a").verdict == report.verdict


def test_112_a_required_model_that_is_missing_escalates(tmp_path: Path) -> None:
    with engine(tmp_path, policies=Policies(review_required="model")) as made:
        result = made.run(problem(append("a"), end()), "r")
        assert (result.status, "could not be reviewed" in str(result.error)) == ("escalated", True)
        assert not (tmp_path / "ledger.txt").exists()
    tapes = {"reviewer::author::r": [says()], "reviewer::worker::r": []}
    with engine(tmp_path / "b", policies=Policies(review_required="model"), recordings=tapes) as made:
        result = made.run(problem(append("a"), end()), "r")
        assert (result.status, "final review incomplete" in str(result.error)) == ("escalated", True)
    tapes["reviewer::worker::r"] = [says()]
    with engine(tmp_path / "c", policies=Policies(review_required="model"), recordings=tapes) as made:
        assert made.run(problem(append("a"), end()), "r").status == "completed"


def test_112_without_a_model_the_log_says_so(tmp_path: Path) -> None:
    with engine(tmp_path) as made:
        made.run(problem(append("a"), end()), "r")
        modes = [e.payload["mode"] for e in made.store.events("r", kinds=["review_round"])]
    assert modes == ["deterministic", "deterministic"]
    with engine(tmp_path / "off", policies=Policies(review_required="off")) as made:
        made.run(problem(append("a"), end()), "r")
        assert kinds(made, "r").count("review_round") == 1


def test_113_other_errors_are_not_swallowed(store: RunStore) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ReviewGate(store, broken).review("r", spec(), "s", "c", author="a")


def test_114_what_became_of_a_finding(store: RunStore) -> None:
    report = reviewed(store, says(BLOCKING))
    name = report.findings[0].finding_id
    assert name.startswith("find_")
    assert len(name) == 25
    assert set_disposition(store, "r", name, "fixed", "done")
    assert not set_disposition(store, "r", "find_unknown", "fixed")
    with pytest.raises(ReviewError, match="no disposition"):
        set_disposition(store, "r", name, "great")
    row = store.db.execute("SELECT disposition FROM findings WHERE finding_id = ?", (name,)).fetchone()
    assert row == ("fixed",)
    twice = Finding(criterion="a", subject="s", evidence_ref="e", blocking=True)
    assert twice.finding_id == Finding(criterion="a", subject="s", evidence_ref="e", blocking=False).finding_id


@pytest.mark.parametrize("answer", ["not json", "{}", '{"findings": 3}', '{"findings": [{"no": "criterion"}]}', "[1]"])
def test_an_answer_that_is_no_findings_says_so(store: RunStore, answer: str) -> None:
    report = reviewed(store, answer)
    assert [f.criterion for f in report.findings] == ["review_output_unparseable"]
    assert report.verdict == "pass_with_risk"
