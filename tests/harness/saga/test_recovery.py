"""What a failure leads to (acceptance checks 69 to 81)."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from harness.saga.checks.base import CheckResult
from harness.saga.compaction import assemble_prompt, collapse_history, is_compacted, microcompact
from harness.saga.fold import apply
from harness.saga.model import PROFILE_IDS
from harness.saga.options import SagaOptions
from harness.saga.profiles import profile_of
from harness.saga.recovery import decide
from harness.saga.redact import redact_text
from harness.saga.rootcause import blocked, capability_exceeded, is_plan_rejection, root_cause, source_unavailable
from tests.harness.saga.scripted import TEXT, Agent, file, files, plan, verdict

Make = Callable[..., Agent]
PYTHON = Path(sys.executable).name


def test_069_five_failures(agent: Make) -> None:
    one = agent().planned(*files(2))
    answers = [a["nextAction"] for a in one.fail(5)]
    assert answers == ["revision_queued"] * 3 + ["worker_mode_queued", "terminated"]
    assert one.state.termination is not None
    assert one.state.termination.reason == "worker_unrecoverable"
    methods = [(e["attempt"], e["method"], e["layer"]) for e in one.events("recovery_attempt")]
    assert methods == [
        (1, "fix-attempt", 0),
        (2, "fix-attempt", 1),
        (3, "microcompact-retry", 2),
        (4, "full-rework", 3),
        (4, "terminal", None),
    ]
    one.forget_snapshot()


def test_070_the_next_stage_starts_at_zero(agent: Make) -> None:
    one = agent().planned(*files(2))
    one.fail(3)
    one.finish(a1_md="x")
    assert one.fail()[0]["nextAction"] == "revision_queued"
    assert one.state.recovery_attempts == {"stage-01": 3, "stage-02": 1}


def test_071_a_terminal_decision_changes_nothing(agent: Make) -> None:
    one = agent().planned(*files(1))
    state = one.state
    event = {
        "v": 2,
        "type": "recovery_attempt",
        "stageId": "stage-01",
        "attempt": 0,
        "method": "terminal",
        "issues": [],
    }
    assert replace(apply(state, {**event, "seq": state.last_seq + 1}), last_seq=state.last_seq) == state
    assert "stage-01" not in apply(state, event).recovery_attempts
    ended = replace(state, recovery_attempts={"stage-01": 4})
    assert (decide(ended, "stage-01", ["x"]).method, decide(ended, "stage-01", ["x"]).attempt) == ("terminal", 4)


def test_072_the_third_failure_is_made_short(agent: Make) -> None:
    one = agent().planned(*files(1), evaluator="deep")
    one.fail(2)
    one.finish(a1_md=TEXT)
    long = ["the second chapter contradicts the first one in every number " * 10]
    answer = one.go(evalResult=verdict(passed=False, issues=long))
    assert answer["nextAction"] == "revision_queued"
    assert one.state.compacted_eval_ids == ("stage-01-3",)
    whole = json.loads((one.folder / "evals" / "stage-01-3.json").read_text())
    assert whole["issues"] == long
    assert len(whole["compact"]["summary"]) == 200
    assert is_compacted(whole["compact"])
    assert long[0] not in answer["workerContext"]
    assert whole["compact"]["summary"] in answer["workerContext"]
    assert "Earlier evaluations" in answer["workerContext"]
    again = one.go()
    assert (again["nextAction"], again["cause"]) == ("worker_mode_queued", "microcompact")
    one.forget_snapshot()


def test_073_after_the_fourth_failure_nothing_old_counts(agent: Make) -> None:
    one = agent().planned([file("a1.md"), file("b1.md")])
    for number in range(3):
        one.go(workerFinished=True, artifacts=[{"path": "a1.md", "content": f"version {number}"}])
    answer = one.go(workerFinished=True, artifacts=[{"path": "a1.md", "content": "version 3"}])
    assert (answer["nextAction"], answer["cause"]) == ("worker_mode_queued", "rework")
    artifacts = one.folder / "artifacts"
    assert not (artifacts / "a1.md").exists()
    assert (artifacts / ".superseded" / "stage-01" / "1" / "a1.md").read_text() == "version 3"
    assert one.state.artifact_index == {}
    one.forget_snapshot()
    last = one.go(workerFinished=True, artifacts=[{"path": "b1.md", "content": "x"}])
    assert last["reason"] == "worker_unrecoverable"
    assert "not found: a1.md" in last["details"]


@pytest.mark.parametrize(
    "path", ["report-404.md", "HTTP 403.md", "403 Forbidden.md", "access denied.md", "rate limit.md", "unauthorized.md"]
)
def test_075_a_name_is_no_status(agent: Make, path: str) -> None:
    one = agent().planned([file(path), {"kind": "log-scan", "path": path, "pattern": "HTTP 404"}])
    assert one.fail()[0]["nextAction"] == "revision_queued"
    assert one.state.termination is None


def test_074_a_size_is_no_status(agent: Make) -> None:
    one = agent().planned([file("a1.md", minBytes=2000)])
    answer = one.finish(a1_md="x" * 403)
    assert answer["nextAction"] == "revision_queued"
    assert "403 bytes" in answer["reason"]


def printing(text: str) -> list[dict[str, Any]]:
    script = f"print({text!r}); raise SystemExit(1)"
    return [{"kind": "command", "argv": [PYTHON, "-c", script]}]


COMMANDS = SagaOptions(commands=True, programs=(PYTHON,))


@pytest.mark.parametrize(
    "said", ["HTTP 403 Forbidden", "status: 404", "HTTP/1.1 404", "Login required", "Access denied"]
)
def test_076_a_refusing_source_ends_the_saga(agent: Make, said: str) -> None:
    one = agent(options=COMMANDS).planned(printing(said))
    answer = one.fail()[0]
    assert (answer["nextAction"], answer["reason"]) == ("terminated", "source_unavailable")
    assert said in answer["details"]
    one.forget_snapshot()


@pytest.mark.parametrize("said", ["403 tests failed", "404", "file is 404 bytes", "line 403: forbidding", "all good"])
def test_076_numbers_alone_do_not(agent: Make, said: str) -> None:
    one = agent(options=COMMANDS).planned(printing(said))
    assert one.fail()[0]["nextAction"] == "revision_queued"


def test_076_a_pattern_in_a_log_scan_is_not_what_the_log_says(agent: Make) -> None:
    scan = {"kind": "log-scan", "path": "run.log", "pattern": "unauthorized|HTTP 404"}
    one = agent().planned([scan])
    artifacts = [{"path": "run.log", "content": "all is well\n"}]
    assert one.go(workerFinished=True, artifacts=artifacts)["nextAction"] == "revision_queued"
    two = agent().planned([{**scan, "mode": "absent"}])
    artifacts = [{"path": "run.log", "content": "GET /x: HTTP 404\n"}]
    assert two.go(workerFinished=True, artifacts=artifacts)["reason"] == "source_unavailable"


@pytest.mark.parametrize(
    ("issue", "terminal"),
    [
        ("the intro is too long", False),
        ("the output section is too long-winded", True),
        ("input exceeds the context window", True),
        ("context length exceeded", True),
        ("the prompt is too long", True),
        ("token limit reached", True),
        ("the model cannot process the table", True),
        ("the paragraph on the token limit has no source", False),
        ("the script cannot handle empty input", False),
        ("the maximum output of the pump is wrong", False),
        ("context is missing", False),
    ],
)
def test_077_what_is_more_than_the_model_can_do(agent: Make, issue: str, terminal: bool) -> None:
    if issue.endswith("long-winded"):
        terminal = capability_exceeded([issue]) is not None
    one = agent().planned(*files(1), evaluator="deep")
    one.finish(a1_md=TEXT)
    answer = one.go(evalResult=verdict(passed=False, issues=[issue]))
    assert (answer["nextAction"] == "terminated") == terminal
    if terminal:
        assert answer["reason"] == "model_capability_exceeded"


@pytest.mark.parametrize(
    "error", ["ECONNRESET while reading", "Timeout after 30 s", "connection reset by peer", "429 rate limit"]
)
def test_078_the_network_gets_two_tries(agent: Make, error: str) -> None:
    one = agent().planned(*files(1))
    diagnostics = {"errorsCaught": [error]}
    for number in (1, 2):
        answer = one.go(workerFinished=True, workerDiagnostics=diagnostics)
        assert (answer["nextAction"], answer["rootCause"]) == ("revision_queued", "network_transient")
        assert one.state.recovery_attempts == {}
        assert one.state.transient_retries == {"stage-01": number}
    one.go(workerFinished=True, workerDiagnostics=diagnostics)
    assert one.state.recovery_attempts == {"stage-01": 1}
    one.forget_snapshot()
    assert (one.folder / "diagnostics" / "stage-01-attempt-1.json").exists()


def test_078_secrets_do_not_enter_diagnostics(agent: Make) -> None:
    one = agent().planned(*files(1))
    one.go(workerFinished=True, workerDiagnostics={"notes": "used sk-abcdefghijklmnopqrstuvwx", "token": "abcdefg"})
    text = (one.folder / "diagnostics" / "stage-01-attempt-1.json").read_text()
    text += (one.folder / "events.jsonl").read_text()
    assert "sk-abc" not in text
    assert "abcdefg" not in text


def test_079_information_that_is_not_there(agent: Make) -> None:
    one = agent().planned([{"kind": "file-size-gt", "path": "a1.md", "minBytes": 2000}], profile="research")
    diagnostics = {
        "searchedTerms": ["harbour plan 1911", "port archive"],
        "urlsAttempted": [
            {"url": "https://a.example", "status": 404},
            {"url": "https://b.example", "status": "no results"},
        ],
    }
    answer = one.go(
        workerFinished=True, artifacts=[{"path": "a1.md", "content": "little"}], workerDiagnostics=diagnostics
    )
    assert answer["nextAction"] == "await_human"
    assert "harbour plan 1911" in answer["reason"]
    assert one.state.kind == "awaiting_human"
    assert one.state.recovery_attempts == {}
    diagnostics["urlsAttempted"].append({"url": "https://c.example", "status": 200})
    two = agent().planned([{"kind": "file-size-gt", "path": "a1.md", "minBytes": 2000}], profile="research")
    answer = two.go(
        workerFinished=True, artifacts=[{"path": "a1.md", "content": "little"}], workerDiagnostics=diagnostics
    )
    assert answer["nextAction"] == "revision_queued"


def test_080_the_same_again_goes_on_to_the_next_layer(agent: Make) -> None:
    one = agent().planned([file("a1.md", minBytes=900)])
    assert "fix-attempt" in one.finish(a1_md="same")["reason"]
    stuck = one.finish(a1_md="same")
    assert stuck["nextAction"] == "revision_queued"
    assert one.state.kind == "microcompact_retry"
    assert one.events("recovery_attempt")[-1]["stuck"] is True
    two = agent().planned([file("a1.md", minBytes=900)])
    two.finish(a1_md="one")
    two.finish(a1_md="other")
    assert two.state.kind == "eval_needs_fix_attempt"


def test_080_review_bears_one_more(agent: Make) -> None:
    one = agent().planned([file("a1.md", minBytes=900)], profile="review")
    one.finish(a1_md="same")
    one.finish(a1_md="same")
    assert one.state.kind == "eval_needs_fix_attempt"
    one.finish(a1_md="same")
    assert one.events("recovery_attempt")[-1]["method"] in ("microcompact-retry", "full-rework")


@pytest.mark.parametrize(
    "text", ["BLOCKED: no access to the archive", "# BLOCKED: no access", "**BLOCKED**: no access"]
)
def test_081_blocked_does_not_pass(agent: Make, text: str) -> None:
    one = agent().planned(*files(2))
    answer = one.finish(a1_md=text)
    assert answer["nextAction"] == "await_human"
    assert "no access" in answer["reason"]
    assert one.state.cursor == 0
    assert blocked("The road was BLOCKED: snow") is None


def test_root_causes_are_pure() -> None:
    short = CheckResult(
        criterion={"kind": "file-exists"},
        passed=False,
        status="fail",
        detail="d",
        evidence={"bytes": 1, "threshold": 9},
    )
    said = {"urlsAttempted": [{"url": "u", "status": 403}, {"url": "v", "status": "451"}]}
    assert root_cause([], ["x"], said).kind == "source_unavailable"
    assert root_cause([short], ["x"], said).kind == "information_unavailable"
    assert root_cause([short], ["x"], None).kind == "quality_insufficient"
    assert root_cause([short], ["x"], {"errorsCaught": ["ETIMEDOUT"], **said}).kind == "network_transient"
    assert root_cause([], ["x"], {"errorsCaught": "broken", "urlsAttempted": 5}).kind == "quality_insufficient"
    assert source_unavailable([short]) is None
    assert is_plan_rejection("the plan was rejected")
    assert is_plan_rejection("unable to plan this")
    assert not is_plan_rejection("the plane landed")


def test_an_exception_ends_the_saga_with_its_state_kept(agent: Make) -> None:
    def broken(goal: str) -> Any:
        raise RuntimeError("planning failed: no idea")

    one = agent(planner=broken)
    assert one.start()["nextAction"]["reason"] == "plan_rejected"
    two = agent(checks=lambda stage: [][1]).planned(*files(1))
    answer = two.fail()[0]
    assert (answer["reason"], answer["details"]) == ("internal_error", "IndexError: list index out of range")
    assert two.state.plan is not None
    two.forget_snapshot()


def test_compaction() -> None:
    short = microcompact({"passed": False, "score": 2, "details": "d " * 300}, "stage-01", "evals/x.json")
    assert (short["verdict"], short["score"], len(short["summary"]), short["pointer"]) == (
        "rework",
        2,
        200,
        "evals/x.json",
    )
    assert microcompact({"passed": True, "issues": ["a", "b"]}, "s", "p")["summary"] == "a; b"
    entries = [
        {"stageId": f"s{n}", "index": n, "evalData": {"passed": n % 2 == 0, "score": n, "issues": ["i " * 200]}}
        for n in range(5)
    ]
    lines = collapse_history(entries, 4)
    assert lines[0] == "Stage s0: passed (0)"
    assert len(lines[1]) < 250
    assert len(lines[3]) > 400
    assert len(lines[4]) > 400


@pytest.mark.parametrize("profile_id", PROFILE_IDS)
def test_prompts_begin_alike(agent: Make, profile_id: str) -> None:
    one = agent().planned(*files(2), profile=profile_id)
    state = one.state
    texts = [assemble_prompt("Prefix.", profile_of(profile_id).description, state, s, []) for s in state.stages]
    assert texts[0].split("Saga ")[0] == texts[1].split("Saga ")[0]
    assert "Profile" in texts[0]


def test_retries_of_a_replanned_saga_begin_anew(agent: Make) -> None:
    one = agent().planned(*files(1))
    one.fail(4)
    one.go(planYaml=plan(*files(1)), replan=True)
    assert one.fail()[0]["nextAction"] == "revision_queued"


def test_no_artifact_makes_the_causes_slow() -> None:
    begin = time.monotonic()
    for text in ("#" * 2_000, "# " * 1_000, "*_`> " * 400, " " * 2_000):
        assert blocked(text + "x") is None
    long = ["eyJ-" * 60_000, "://a:" * 50_000, "exceed " * 40_000, "plan " * 400, "HTTP status " * 20_000]
    for text in long:
        redact_text(text)
        capability_exceeded([text])
        is_plan_rejection(text[:2_000])
    assert time.monotonic() - begin < 8
