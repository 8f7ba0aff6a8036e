"""How a case ended."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sherpa.terminal import OUTCOMES, RunningTerminal, terminal_outcomes

Cases = list[list[tuple[str, str]]]


def ended(cases: Cases, *, parity: bool = False) -> list[str]:
    """Terminal outcomes of cases of (type, outcome)."""
    rows = [event for case in cases for event in case]
    vocabulary = sorted({name for name, _ in rows})
    result = terminal_outcomes(
        vocabulary,
        np.array([vocabulary.index(name) for name, _ in rows], dtype=np.int32),
        np.cumsum([0, *map(len, cases)]).astype(np.int64),
        np.array([OUTCOMES.index(outcome) for _, outcome in rows], dtype=np.int8),
        parity=parity,
    )
    assert result.dtype == np.int8
    return [OUTCOMES[code] for code in result]


U, S, F = "unknown", "success", "failure"


@pytest.mark.parametrize("parity", [False, True])
@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ([("task.completed", F)], S),
        ([("task.failed", S)], F),
        ([("task.completed", S), ("task.ended", S)], U),
        ([("task.ended", U), ("tool.failed", U)], F),
        ([("a.completed", U), ("b.failed", U), ("note", S)], F),
        ([("b.failed", U), ("download.completed", U), ("note", F)], S),
    ],
)
def test_the_last_type_that_declares_an_end_decides(case: list[tuple[str, str]], expected: str, parity: bool) -> None:
    assert ended([case], parity=parity) == [expected]


@pytest.mark.parametrize("parity", [False, True])
@pytest.mark.parametrize("name", ["completed", "failed", "x.completed.late", "x.task.ended", "task.ended.x", "x.ended"])
def test_a_type_that_only_resembles_an_end_declares_nothing(name: str, parity: bool) -> None:
    assert ended([[(name, F)], [(name, S)]], parity=parity) == [F, S]


@pytest.mark.parametrize("parity", [False, True])
@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ([("a", F), ("b", U)], F),
        ([("a", F), ("b", S), ("c", U)], S),
        ([("a", F), ("session.ended", S)], F),
        ([("a", S), ("b", F), ("c.requested", S), ("session.ended", S)], F),
        ([("session.started", U), ("message.sent", F), ("work", U), ("session.ended", S)], F),
    ],
)
def test_otherwise_the_last_known_outcome_of_a_working_event_decides(
    case: list[tuple[str, str]], expected: str, parity: bool
) -> None:
    assert ended([case], parity=parity) == [expected]


@pytest.mark.parametrize("parity", [False, True])
@pytest.mark.parametrize("suffix", ["started", "requested", "received", "needed", "granted", "resumed"])
def test_an_opening_gives_its_outcome_only_if_nothing_else_does(suffix: str, parity: bool) -> None:
    opening = (f"x.{suffix}", S)
    assert ended([[("a", F), opening], [("a", U), opening], [opening, ("a", U)]], parity=parity) == [F, S, U]


@pytest.mark.parametrize("parity", [False, True])
def test_with_nothing_else_to_go_by_the_last_event_decides(parity: bool) -> None:
    assert ended([[("a", U), ("session.ended", S)], [("a.started", F), ("b", U)]], parity=parity) == [S, U]


@pytest.mark.parametrize(
    "case",
    [
        [("session.ended", S)],
        [("session.started", U), ("message.user.inbound", U), ("session.ended", S)],
        [("session.started", U), ("message.received", U), ("message.sent", S), ("session.ended", S)],
    ],
)
def test_a_session_of_chat_alone_is_unknown_and_a_success_in_the_original(case: list[tuple[str, str]]) -> None:
    assert ended([case]) == [U]
    assert ended([case], parity=True) == [S]


def test_a_single_piece_of_work_makes_a_session_count() -> None:
    assert ended([[("session.started", U), ("tool.run", S), ("session.ended", S)]]) == [S]
    assert ended([[("session.started", U), ("sessions", S)]]) == [S]


def test_messages_without_a_session_follow_the_general_rules() -> None:
    assert ended([[("message.received", U), ("message.sent", S)]]) == [S]


@pytest.mark.parametrize("parity", [False, True])
def test_cases_without_events_are_unknown_and_disturb_no_neighbour(parity: bool) -> None:
    cases: Cases = [[], [("a", S)], [], [], [("b.failed", U)], [("c", U)], []]
    assert ended(cases, parity=parity) == [U, S, U, U, F, U, U]


def test_a_log_without_cases_or_without_events_has_no_ends() -> None:
    assert ended([]) == []
    assert ended([[], []]) == [U, U]


TYPES = (
    "a",
    "b.completed",
    "c.failed",
    "task.ended",
    "session.ended",
    "session.started",
    "d.granted",
    "message.sent",
)


def by_the_rules(case: list[tuple[str, str]]) -> str:
    """The published rules, read off one event at a time."""
    for name, _ in reversed(case):
        if name.endswith(".completed"):
            return S
        if name.endswith(".failed"):
            return F
        if name == "task.ended":
            return U
    openings = (".started", ".requested", ".received", ".needed", ".granted", ".resumed")
    for name, outcome in reversed(case):
        if outcome != U and name != "session.ended" and not name.endswith(openings):
            return outcome
    return case[-1][1] if case else U


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (U, U),  # the agent has answered; nothing was done
        (F, F),
    ],
)
def test_the_end_of_a_run_is_work_only_if_it_failed(outcome: str, expected: str) -> None:
    case = [("session.started", U), ("message.received", U), ("run.ended", outcome), ("session.ended", S)]
    running = RunningTerminal()
    for name, result in case:
        running.add(name, OUTCOMES.index(result))
    assert ended([case]) == [expected]
    assert OUTCOMES[running.outcome] == expected
    assert ended([[*case[:2], ("tool.succeeded", S), *case[2:]]]) == [S if outcome == U else F]


@given(st.lists(st.lists(st.tuples(st.sampled_from(TYPES), st.sampled_from(OUTCOMES)), max_size=5), max_size=6))
def test_all_cases_at_once_end_as_each_does_alone(cases: Cases) -> None:
    assert ended(cases, parity=True) == [by_the_rules(case) for case in cases]
