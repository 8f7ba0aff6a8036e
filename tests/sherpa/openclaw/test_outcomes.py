"""OpenClaw's contract on results (specs: six rules, in order)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sherpa.sources.openclaw.outcomes import Verdict, breaks_contract, judge
from sherpa.sources.openclaw.rows import Details, Message

FAILING = """error failed failure timeout timed_out blocked denied forbidden disabled approval-unavailable
    unavailable aborted cancelled canceled killed invalid""".split()  # noqa: SIM905


def details(**fields: Any) -> Details:
    return msgspec.convert(fields, Details)


@pytest.mark.parametrize("status", [*FAILING, " Error ", "FAILED"])
def test_a_failing_status(status: str) -> None:
    assert breaks_contract(details(status=status))
    assert not breaks_contract(details(status=status, ok=True))
    assert not breaks_contract(details(status=status, success=True))


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"ok": False}, "failed"),
        ({"success": False, "status": "completed"}, "failed"),
        ({"timedOut": True}, "timed_out"),
        ({"timedOut": True, "status": "completed", "exitCode": 0}, "timed_out"),
        ({"error": "boom"}, "failed"),
        ({"error": "boom", "status": "completed"}, "failed"),
        ({"error": ""}, ""),
        ({"exitCode": 2}, "failed"),
        ({"exitCode": 2, "status": "completed"}, ""),
        ({"exitCode": 0}, ""),
        ({"exitCode": True}, ""),
        ({"exitCode": "2"}, ""),
        ({"status": 404}, ""),
        ({"status": "running"}, ""),
        ({}, ""),
        ({"status": "denied"}, "blocked"),
        ({"status": "killed"}, "cancelled"),
        ({"status": "timed_out"}, "timed_out"),
    ],
)
def test_the_contract(fields: dict[str, Any], kind: str) -> None:
    assert breaks_contract(details(**fields)) == kind


def result(details: Any = None, *, error: bool = False, text: str = "done", **more: Any) -> Message:
    body = {"role": "toolResult", "isError": error, "content": [{"type": "text", "text": text}], **more}
    return msgspec.json.decode(msgspec.json.encode({**body, "details": details}), type=Message)


@pytest.mark.parametrize("status", ["running", "accepted", "yielded", "pending"])
def test_work_that_goes_on_is_neither_success_nor_failure(status: str) -> None:
    verdict = judge(result({"status": status}))
    assert (verdict.phase, verdict.outcome) == ("running", "unknown")


def test_the_flag_and_the_details() -> None:
    assert judge(result()) == Verdict("succeeded")
    assert judge(result(error=True)).phase == "failed"
    assert judge(result(is_error=True)).phase == "failed"
    assert judge(result({"status": "error"})).outcome == "failure"
    assert judge(result({"status": "completed", "exitCode": 1})) == Verdict("succeeded", nonzero=True)
    assert judge(result("a text instead of details")) == Verdict("succeeded")


def test_a_success_that_is_flagged_as_an_error_is_doubtful() -> None:
    assert judge(result({"status": "accepted"}, error=True)) == Verdict("failed", "failed", doubtful=True)
    assert not judge(result({"status": "error"}, error=True)).doubtful


@pytest.mark.parametrize("name", ["openclaw", "clawdbot"])
def test_a_result_that_was_inserted_later_says_nothing(name: str) -> None:
    text = f"[{name}] missing tool result in session history; inserted synthetic error result for transcript repair."
    assert judge(result({"status": "error"}, error=True, text=text)) == Verdict("unknown", synthetic=True)


def test_details_that_were_cut_off() -> None:
    cut = {"persistedDetailsTruncated": True, "originalDetailKeys": ["status"]}
    assert judge(result(cut)).phase == "unknown"
    assert judge(result(cut, text="out\n\n(Command exited with code 0)")) == Verdict("succeeded")
    assert judge(result(cut, text="out\n\n(Command exited with code 3)")) == Verdict("succeeded", nonzero=True)
    assert judge(result({**cut, "status": "error"})).phase == "failed"


def test_before_there_were_details_an_error_was_a_text() -> None:
    assert judge(result(text='{"status":"error","tool":"read","error":"no such file"}')).phase == "failed"
    assert judge(result(text='{"status":"error"}')).phase == "succeeded"
    assert judge(result(text='{"status":"ok","tool":"read"}')).phase == "succeeded"
    assert judge(result({}, text='{"status":"error","tool":"read"}')).phase == "succeeded"
