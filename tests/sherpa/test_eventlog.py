"""Cases as columns."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sherpa.event import Event, Projection
from sherpa.eventlog import EventLog, concatenate, milliseconds
from sherpa.instants import NO_INSTANT
from sherpa.logbuilder import LogBuilder, case_order, group_cases
from sherpa.projection import Facets
from sherpa.terminal import FAILURE, SUCCESS, UNKNOWN
from tests.property.strategies import logs

NEW_YEAR = 1_767_225_600 * 10**9  # 2026-01-01T00:00Z


def project(task_class: str | None = None, operation: str | None = None) -> Projection:
    return Projection(version="draft-v1", source="manual", task_class=task_class, operation=operation)


def log_of(*cases: tuple[str, list[tuple[Any, ...]]], parity: bool = False) -> EventLog:
    """A log of cases of (type, instant, outcome, actor, projection); what is left out of an event is unknown."""
    builder = LogBuilder(parity=parity)
    for case_id, events in cases:
        for name, *more in events:
            builder.add(name, *more, *(NO_INSTANT, UNKNOWN)[len(more) :])
        builder.end_case(case_id)
    return builder.build()


def described(log: EventLog) -> list[tuple[Any, ...]]:
    """All that a log says of its cases, in words instead of codes."""

    def words(codes: npt.NDArray[Any], names: tuple[str, ...]) -> list[str | None]:
        return [names[c] if c >= 0 else None for c in codes.tolist()]

    return [
        (
            case.case_id,
            case.recent(len(case)),
            case.outcome,
            log.instants[case.start : case.stop].tolist(),
            log.outcomes[case.start : case.stop].tolist(),
            words(log.responses[case.start : case.stop], log.response_vocabulary),
        )
        for case in log
    ]


# -- from codes ------------------------------------------------------------------------------------------------


def test_codes_and_offsets_make_cases() -> None:
    log = EventLog.from_codes([0, 1, 0], [0, 2, 2, 3], ["a", "b.failed"], case_ids=["x", "y", "z"])
    assert [(c.case_id, c.types, c.outcome) for c in log] == [
        ("x", ("a", "b.failed"), "failure"),
        ("y", (), "unknown"),
        ("z", ("a",), "unknown"),
    ]
    assert (len(log), log.events) == (3, 3)


def test_columns_that_are_not_given_are_unknown() -> None:
    log = EventLog.from_codes([0, 1], [0, 2], ["a", "b.completed"])
    assert log.case_ids == ("case-0",)
    assert log.instants.tolist() == [NO_INSTANT] * 2
    assert (log.outcomes.tolist(), log.responses.tolist()) == ([UNKNOWN] * 2, [-1, -1])
    assert log[0].recent(2) == [Facets("a"), Facets("b.completed", "complete")]


@pytest.mark.parametrize(
    ("codes", "offsets", "vocabulary", "options", "message"),
    [
        ([0, 2], [0, 2], ["a", "b"], {}, "vocabulary"),
        ([0, -1], [0, 2], ["a", "b"], {}, "vocabulary"),
        ([0], [0, 1], [], {}, "vocabulary"),
        ([[0], [0]], [0, 2], ["a"], {}, "one-dimensional"),
        (np.array([2**32]), [0, 1], ["a"], {}, "vocabulary"),
        ([0, 0], [0, 1], ["a"], {}, "offsets"),
        ([0, 0], [1, 2], ["a"], {}, "offsets"),
        ([0, 0], [0, 2, 1, 2], ["a"], {}, "offsets"),
        ([0, 0], [0, 3], ["a"], {}, "offsets"),
        ([], [], ["a"], {}, "offsets"),
        ([0], [0, 1], ["a", "a"], {}, "twice"),
        ([0], [0, 1], ["a"], {"case_ids": ["x", "y"]}, "2 case ids for 1 cases"),
        ([0], [0, 1], ["a"], {"instants": [1, 2]}, "shape"),
        ([0], [0, 1], ["a"], {"outcomes": []}, "shape"),
        ([0], [0, 1], ["a"], {"procedures": [0, 0]}, "shape"),
        ([0], [0, 1], ["a"], {"families": [[0]]}, "shape"),
    ],
)
def test_columns_that_do_not_fit_together_are_refused(
    codes: Any, offsets: list[int], vocabulary: list[str], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        EventLog.from_codes(codes, offsets, vocabulary, **options)


@pytest.mark.parametrize("index", [2, -1])
def test_a_case_that_is_not_there_cannot_be_had(index: int) -> None:
    with pytest.raises(IndexError):
        EventLog.from_codes([0, 0], [0, 1, 2], ["a"])[index]


# -- building --------------------------------------------------------------------------------------------------


def test_the_builder_keeps_every_column() -> None:
    log = log_of(
        (
            "x",
            [
                ("a", NEW_YEAR, SUCCESS, "agent", project("code-fix", "file-edit")),
                ("message.user.stop", 5, 0, "user"),
            ],
        ),
        ("empty", []),
        ("y", [("poke", 7, FAILURE, "user", project("research"))]),
    )
    assert described(log) == [
        (
            "x",
            [Facets("a", "edit", "code-fix"), Facets("message.user.stop", None, "code-fix")],
            "success",
            [NEW_YEAR, 5],
            [SUCCESS, UNKNOWN],
            [None, "stop"],
        ),
        ("empty", [], "unknown", [], [], []),
        ("y", [Facets("poke", None, "research")], "failure", [7], [FAILURE], ["poke"]),
    ]


def test_families_start_afresh_in_each_case() -> None:
    log = log_of(("x", [("a", 0, 0, "agent", project("research"))]), ("y", [("a",), ("a",)]))
    assert [f.family for case in log for f in case.recent(9)] == ["research", None, None]


def test_one_type_may_have_different_procedures() -> None:
    log = log_of(
        ("x", [("a", 0, 0, "agent", project(operation=o)) for o in ("file-edit", "tests-run", None, "file-edit")])
    )
    assert [f.procedure for f in log[0].recent(4)] == ["edit", "test", None, "edit"]


# -- subset and concatenate ------------------------------------------------------------------------------------


def three_cases() -> EventLog:
    return log_of(
        ("x", [("a", 1, SUCCESS), ("b", 2)]),
        ("y", [("c.failed", 3, 0, "user", project("research", "tool-run"))]),
        ("z", [("a", 4), ("message.user.no", 5, 0, "user"), ("d", 6, FAILURE)]),
    )


@pytest.mark.parametrize("chosen", [[2, 0], [1], [1, 1], [], [0, 1, 2]])
def test_a_subset_holds_the_chosen_cases_whole_in_the_chosen_order(chosen: list[int]) -> None:
    log = three_cases()
    part = log.subset(chosen)
    everything = described(log)
    assert described(part) == [everything[i] for i in chosen]
    assert part.vocabulary == log.vocabulary
    assert part.offsets.dtype == np.int64


def test_a_subset_has_its_own_views() -> None:
    log = three_cases()
    log.view("raw")
    part = log.subset([1]).view("raw")
    assert [part.tokens[c] for c in part.codes] == ["c.failed"]


def test_logs_with_different_vocabularies_become_one() -> None:
    first = log_of(("x", [("a", 1, SUCCESS), ("message.user.no", 2, 0, "user")]))
    second = log_of(
        ("y", [("b", 3, 0, "user"), ("a", 4, FAILURE, "agent", project("research"))]), ("x", [("message.user.no", 5)])
    )
    third = log_of(("z", [("c", 6, 0, "user", project("docs-change", "docs-edit")), ("b", 7)]))
    whole = concatenate([first, second, third])
    assert described(whole) == described(first) + described(second) + described(third)
    assert sorted(whole.vocabulary) == ["a", "b", "c", "message.user.no"]
    assert sorted(whole.response_vocabulary) == ["b", "c", "no"]
    assert sorted(whole.family_vocabulary) == ["docs-change", "research"]


@given(st.lists(logs(max_cases=3, max_events=4), min_size=1, max_size=4))
def test_joining_logs_loses_nothing(parts: list[EventLog]) -> None:
    assert described(concatenate(parts)) == [case for part in parts for case in described(part)]


def test_joining_no_logs_gives_a_log_without_cases() -> None:
    whole = concatenate([])
    assert (len(whole), whole.events) == (0, 0)


def test_joining_keeps_the_terminal_outcomes_of_the_original() -> None:
    chat = ("x", [("session.ended", 0, SUCCESS)])
    whole = concatenate([log_of(chat, parity=True), log_of(chat, parity=True)])
    assert [c.outcome for c in whole] == ["success", "success"]
    assert whole[0].prefix(1).outcome == "success"


# -- cases -----------------------------------------------------------------------------------------------------


def test_a_prefix_is_the_case_as_it_was() -> None:
    case = three_cases()[2]
    prefix = case.prefix(2)
    assert (prefix.case_id, prefix.types, len(prefix)) == ("z", ("a", "message.user.no"), 2)
    assert [prefix.prefix(n).types for n in range(3)] == [(), ("a",), ("a", "message.user.no")]


@pytest.mark.parametrize("length", [-1, 3])
def test_a_prefix_cannot_be_longer_than_its_case(length: int) -> None:
    with pytest.raises(ValueError, match="a case of 2"):
        three_cases()[0].prefix(length)


def test_a_prefix_ends_by_its_own_events() -> None:
    log = log_of(("other", [("x.failed",)]), ("c", [("a",), ("b", 0, SUCCESS), ("c", 0, FAILURE), ("d.completed",)]))
    case = log[1]
    assert [case.prefix(n).outcome for n in range(5)] == ["unknown", "unknown", "success", "failure", "success"]


def test_a_prefix_follows_the_original_where_its_log_does() -> None:
    chat = ("c", [("session.started",), ("session.ended", 0, SUCCESS), ("a",)])
    assert log_of(chat)[0].prefix(2).outcome == "unknown"
    assert log_of(chat, parity=True)[0].prefix(2).outcome == "success"


def test_recent_events_come_oldest_first_and_never_from_another_case() -> None:
    case = log_of(("other", [("x",)]), ("c", [("a",), ("b.failed",), ("c",)]), ("more", [("y",)]))[1]
    assert case.recent(2) == [Facets("b.failed", "fail"), Facets("c")]
    assert [f.type for f in case.recent(9)] == ["a", "b.failed", "c"]
    assert [f.type for f in case.prefix(2).recent(1)] == ["b.failed"]
    assert case.recent(0) == []


def test_a_prefix_has_the_families_of_its_time() -> None:
    classes = ["research", "code-fix", "code-fix"]
    case = log_of(("c", [("a", 0, 0, "agent", project(c)) for c in classes]))[0]
    assert [case.prefix(n).recent(1)[0].family for n in (1, 2, 3)] == ["research", "research", "code-fix"]


def test_a_case_alone_is_a_log() -> None:
    log = three_cases()
    assert described(log[2].as_log()) == [described(log)[2]]
    (shortened,) = log[2].prefix(2).as_log()
    assert (shortened.types, shortened.outcome) == (("a", "message.user.no"), "unknown")


def test_equal_cases_have_equal_fingerprints_whatever_their_log() -> None:
    alone = log_of(("z", [("a", 4), ("message.user.no", 5, 0, "user"), ("d", 6, FAILURE)]))
    assert three_cases()[2].fingerprint() == alone[0].fingerprint()


@pytest.mark.parametrize(
    "other",
    [
        ("y", [("a", 1)]),
        ("x", [("b", 1)]),
        ("x", [("a", 2)]),
        ("x", [("a", 1, SUCCESS)]),
        ("x", [("a", 1, 0, "user")]),
        ("x", [("a", 1, 0, "agent", project("research"))]),
        ("x", [("a", 1), ("a", 1)]),
    ],
    ids=["id", "type", "time", "outcome", "actor", "family", "length"],
)
def test_cases_that_differ_in_anything_have_different_fingerprints(other: tuple[str, list[tuple[Any, ...]]]) -> None:
    assert log_of(("x", [("a", 1)]))[0].fingerprint() != log_of(other)[0].fingerprint()


# -- views -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "tokens", "ranks"),
    [
        ("raw", ["a", "a", "b.failed", "b.failed"], [0, 0, 0, 0]),
        (
            "procedure",
            ["a", "a [procedure=edit]", "b.failed [procedure=fail]", "b.failed [procedure=fail]"],
            [0, 1, 1, 1],
        ),
        (
            "family-procedure",
            [
                "a [family=research]",
                "a [family=research,procedure=edit]",
                "b.failed [family=research,procedure=fail]",
                "b.failed [procedure=fail]",
            ],
            [2, 2, 2, 1],
        ),
    ],
)
def test_a_view_shows_each_event_as_its_token(level: str, tokens: list[str], ranks: list[int]) -> None:
    log = log_of(
        (
            "x",
            [
                ("a", 0, 0, "agent", project("research")),
                ("a", 0, 0, "agent", project("research", "file-edit")),
                ("b.failed",),
            ],
        ),
        ("y", [("b.failed",)]),
    )
    view = log.view(level)
    assert [view.tokens[c] for c in view.codes] == tokens
    assert [int(view.rank[c]) for c in view.codes] == ranks
    assert sorted(view.tokens) == sorted(set(tokens))


def test_types_that_look_like_tokens_stay_apart_in_a_view() -> None:
    log = log_of(("x", [("a [procedure=edit]",), ("a", 0, 0, "agent", project(operation="file-edit"))]))
    view = log.view("procedure")
    assert len({view.tokens[c] for c in view.codes}) == 2


# -- order of events -------------------------------------------------------------------------------------------


def arrived(event_id: str, ts: str, seq: int | None = None, case_id: str = "c") -> Event:
    event = Event(event_id=event_id, case_id=case_id, ts=ts, source="s", type=f"t-{event_id}")
    return event if seq is None else msgspec.structs.replace(event, seq=seq)


def ids(events: list[Event]) -> list[str]:
    return [event.event_id for event in events]


def test_events_are_ordered_by_instant_and_equal_instants_by_arrival() -> None:
    events = [
        arrived("v-2", "2026-01-01T00:00:00.000Z", 3),
        arrived("v-10", "2026-01-01T00:00:00.000Z", 2),
        arrived("v-1", "2026-01-01T00:00:00.000001Z", 1),
        arrived("v-0", "2026-01-01T01:00:00.000+02:00", 9),
    ]
    assert ids(case_order(events)) == ["v-0", "v-10", "v-2", "v-1"]


def test_events_that_were_not_stamped_keep_their_order() -> None:
    events = [arrived(i, "2026-01-01T00:00:00.000Z") for i in ("b", "a", "c")]
    assert ids(case_order(events)) == ["b", "a", "c"]


def test_the_original_orders_by_the_text_of_time_and_of_id() -> None:
    same = "2026-01-01T00:00:00.000Z"
    events = [
        arrived("v-2", same, 1),
        arrived("v-10", same, 2),
        arrived("B", same, 3),
        arrived("a", same, 4),
        arrived("v_9", same, 5),
        # A digit stands before Z, so the later instant is the smaller text.
        arrived("later", "2026-01-01T00:00:00.000001Z", 6),
    ]
    assert ids(case_order(events, parity=True)) == ["later", "a", "B", "v_9", "v-10", "v-2"]


@pytest.mark.parametrize("parity", [False, True])
def test_events_of_a_ledger_are_grouped_by_case_in_order_of_ids(parity: bool) -> None:
    events = [
        arrived("1", "2026-01-01T00:00:02.000Z", 1, "b"),
        arrived("2", "2026-01-01T00:00:01.000Z", 2, "b"),
        arrived("3", "2026-01-01T00:00:00.000Z", 3, "a"),
        arrived("4", "2026-01-01T00:00:00.000Z", 4, "B"),
    ]
    grouped = [(case_id, ids(members)) for case_id, members in group_cases(events, parity=parity)]
    assert grouped == [("B", ["4"]), ("a", ["3"]), ("b", ["2", "1"])]
    log = EventLog.from_ledger(events, parity=parity)
    assert [(c.case_id, c.types) for c in log] == [("B", ("t-4",)), ("a", ("t-3",)), ("b", ("t-2", "t-1"))]
    assert log.instants[0] == NEW_YEAR


def test_a_ledger_fills_every_column_of_the_log() -> None:
    event = Event(
        event_id="1",
        case_id="c",
        ts="2026-01-01T00:00:00.000Z",
        source="s",
        type="message.user.stop",
        actor="user",
        outcome="failure",
        projection=project("code-fix", "message-received"),
    )
    assert described(EventLog.from_ledger([event])) == [
        ("c", [Facets("message.user.stop", "request", "code-fix")], "failure", [NEW_YEAR], [FAILURE], ["stop"])
    ]


def test_milliseconds_are_whole_and_rounded_down() -> None:
    assert milliseconds(np.array([0, 999_999, 1_000_000, -1])).tolist() == [0, 0, 1, -1]
