"""Runs as events, and what the graph says of a step."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.statebench.build import build, write_store
from harness.statebench.events import event_log, objects, run_events
from harness.statebench.procedures import Followers, read_procedures
from harness.statebench.trajectories import Trajectory
from sherpa.memory import ProceduralMemory
from tests.harness.statebench.made import call, run

REJECTED = {"status": "rejected", "reason": "not allowed"}


def changed(place: int = 0) -> Trajectory:
    """A change that is previewed, refused once and then carried out."""
    return run(
        "Change it",
        call("get_booking"),
        call("update_booking", {"status": "preview"}, confirm=False),
        call("update_booking", REJECTED, turn=1, confirm=True),
        call("get_policies", {"topic": "change"}, turn=1, topic="change"),
        call("update_booking", {"status": "updated"}, turn=1, confirm=True),
        place=place,
        more=("That's not what I asked for.",),
    )


def test_a_run_as_events() -> None:
    search = call("search_flights", {"flights": []}, turn=0)
    again = call("search_flights", {"flights": []}, turn=0, repeated=True)
    check = call("validate_promo", {"valid": False}, turn=1)
    events = list(run_events(run("Find one", search, again, check, place=7, more=("Go on.",))))
    assert [(event["type"], event["actor"], event["outcome"]) for event in events] == [
        ("task.requested", "user", "unknown"),
        ("tool.search_flights.empty", "agent", "failure"),
        ("tool.search_flights.empty", "agent", "failure"),
        ("user.replied", "user", "unknown"),
        ("tool.validate_promo.negative", "agent", "failure"),
        ("task.ended", "system", "unknown"),
    ]
    assert {event["caseId"] for event in events} == {"support/007"}
    assert [("repeated" in event["labels"]) for event in events] == [False, False, True, False, False, False]
    times = [event["ts"] for event in events]
    assert times == sorted(set(times))


def test_types_know_what_was_confirmed_and_what_was_refused() -> None:
    assert event_log([changed()])[0].types == (
        "task.requested",
        "tool.get_booking",
        "tool.update_booking.preview",
        "user.objected",
        "tool.update_booking.confirm.refused",
        "tool.get_policies",
        "tool.update_booking.confirm",
        "task.ended",
    )


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("That's not what I asked for.", True),
        ("That\u2019s not what I asked for.", True),
        ("That is wrong.", True),
        ("I already told you my number.", True),
        ("Yes, please go on.", False),
        ("The wrong colour came; I want the right one.", False),
    ],
)
def test_a_user_who_objects(said: str, expected: bool) -> None:
    assert objects(said) is expected


def test_a_procedure_by_hand() -> None:
    (found,) = read_procedures([changed(0), changed(1)], min_runs=2)
    assert found.step == "update_booking.confirm"
    assert (found.times, found.refused, found.runs) == (4, 2, (0, 1))
    assert found.before == Followers((("tool.get_policies", 2),), 2)
    assert found.after == Followers((("task.ended", 2),), 2)
    assert found.after_refusal == Followers((("tool.get_policies", 2),), 2)
    assert (found.recovered, found.refused_runs) == (2, 2)


def test_a_procedure_card_claims_what_was_counted() -> None:
    cards = build([changed(place) for place in range(5)])["learnings"]
    (card,) = [card for card in cards if card["kind"] == "procedure"]
    assert card["text"].splitlines() == [
        "Observed step update_booking.confirm of support: 10 calls in 5 of 5 runs, refused 5 times (50 %).",
        "Before it: get_policies 5 (of 5).",
        "After it: task.ended 5 (of 5).",
        "After a refusal: get_policies 5 (of 5).",
        "In 5 of 5 runs with a refusal it went through later.",
    ]
    assert card["support"] == 5
    assert card["provenance"][0] == {"run": 0, "field": "tool_calls"}


def test_a_step_of_few_runs_gets_no_card() -> None:
    assert list(read_procedures([changed(place) for place in range(4)])) == []


def test_the_store_knows_what_comes_next(tmp_path: Path) -> None:
    runs = [changed(place) for place in range(3)]
    assert write_store(runs, tmp_path) == 24
    assert write_store(runs, tmp_path) == 0
    with ProceduralMemory(tmp_path, overrides={"require_projection": False}) as memory:
        for name in ("task.requested", "tool.get_booking"):
            memory.ingest({"caseId": "now", "source": "state-bench", "type": name})
        assert memory.workflow_next("now").candidates[0].event == "tool.update_booking.preview"
