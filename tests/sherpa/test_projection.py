"""Procedures, families, tokens and the variants of a window."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sherpa.config import Strategy
from sherpa.projection import (
    PROCEDURES,
    Facets,
    join_state,
    procedure_atom,
    running_families,
    split_state,
    state_variants,
    token_text,
)
from sherpa.projection.ontology import OPERATIONS

BY_OPERATION = {
    "request": "message-received",
    "answer": "message-sent",
    "start": "task-start tool-start",
    "complete": "task-completed",
    "fail": "task-failed",
    "wait": "task-ended",
    "inspect": "repo-inspect repo-inspect-start logs-inspect logs-inspect-start env-check env-check-start",
    "read": "file-read file-read-start web-fetch",
    "edit": "file-edit file-edit-start docs-edit docs-edit-start",
    "write": "file-write file-write-start",
    "test": "tests-run tests-run-start",
    "search": "web-search memory-search memory-search-start",
    "navigate": "browser-navigate",
    "approve": "approval approval-start",
    "capture": "capture-screenshot image-analyze image-analyze-start",
    "manage": "automation-run process-manage process-manage-start session-manage session-manage-start "
    "subagent-manage subagent-manage-start",
    "execute": "deploy deploy-start tool-run",
}
ATOM = {operation: atom for atom, operations in BY_OPERATION.items() for operation in operations.split()}


def test_there_are_43_operations_and_18_procedures() -> None:
    assert len(ATOM) == 43
    assert set(OPERATIONS) == set(ATOM)
    assert len(PROCEDURES) == 18
    assert set(PROCEDURES) == {*BY_OPERATION, "lookup"}


@pytest.mark.parametrize(("operation", "atom"), ATOM.items())
def test_an_operation_has_its_procedure_whatever_the_type(operation: str, atom: str) -> None:
    assert procedure_atom("thing", operation) == atom
    assert procedure_atom("thing.failed", operation) == atom


@pytest.mark.parametrize("operation", sorted({f"{name}-start" for name in ATOM} - set(ATOM)))
def test_a_start_form_that_is_not_listed_is_no_operation(operation: str) -> None:
    assert procedure_atom("thing", operation) is None
    assert procedure_atom("thing.completed", operation) == "complete"


@pytest.mark.parametrize("artifact", ["docs", "knowledge", "web"])
@pytest.mark.parametrize(
    ("intent", "task_class"),
    [("research", None), (None, "research"), ("research", "research"), ("update", "research")],
)
def test_a_message_that_researches_documents_is_a_lookup(
    artifact: str, intent: str | None, task_class: str | None
) -> None:
    assert procedure_atom("thing.failed", "message-received", intent, task_class, artifact) == "lookup"


@pytest.mark.parametrize(
    ("operation", "intent", "task_class", "artifact", "atom"),
    [
        ("message-received", "research", None, "service", "request"),
        ("message-received", "research", None, None, "request"),
        ("message-received", "review", "docs-change", "docs", "request"),
        ("message-sent", "research", "research", "docs", "answer"),
        ("web-search", "research", "research", "web", "search"),
        (None, "research", "research", "web", None),
    ],
)
def test_a_lookup_needs_the_message_the_research_and_the_documents(
    operation: str | None, intent: str, task_class: str | None, artifact: str | None, atom: str | None
) -> None:
    assert procedure_atom("thing", operation, intent, task_class, artifact) == atom


@pytest.mark.parametrize(
    ("event_type", "atom"),
    [
        ("task.completed", "complete"),
        ("tool.failed", "fail"),
        ("a.b.started", "start"),
        ("message.received", "request"),
        ("approval.requested", "request"),
        ("completed", None),
        ("task.completed.late", None),
        ("task.ended", None),
        ("approval.granted", None),
        ("task.Completed", None),
        ("tests-run", None),
    ],
)
def test_without_an_operation_the_ending_of_the_type_decides(event_type: str, atom: str | None) -> None:
    assert procedure_atom(event_type) == atom


C, R, D, G = "code-fix", "research", "docs-change", "general-task"


@pytest.mark.parametrize(
    ("classes", "families"),
    [
        ([], []),
        ([None, None], [None, None]),
        ([G, G], [None, None]),
        ([None, C, R, R], [None, C, C, R]),
        ([G, G, D, G, G], [None, None, D, D, D]),
        ([R, C, C, R], [R, R, C, R]),
        ([C, R, None, R, C, G], [C, C, C, R, C, C]),
        ([R, C], [R, R]),
    ],
)
def test_the_family_is_the_most_frequent_class_so_far_and_the_first_seen_on_a_tie(
    classes: list[str | None], families: list[str | None]
) -> None:
    assert running_families(classes) == families


A_FULL = "a [family=code-fix,procedure=test]"
A_PROCEDURE = "a [procedure=test]"


@pytest.mark.parametrize(
    ("window", "strategy", "expected"),
    [
        pytest.param([("a", "test", C), ("b",)], "raw", [(("a", "b"), (), 0)], id="raw shows types alone"),
        pytest.param(
            [("a", "test", C), ("b",)],
            "procedure",
            [((A_PROCEDURE, "b"), ("procedure",), 17), (("a", "b"), (), 0)],
            id="procedure",
        ),
        pytest.param(
            [("a", "test", C), ("b",)],
            "family-procedure",
            [
                ((A_FULL, "b"), ("family", "procedure"), 33),
                ((A_PROCEDURE, "b"), ("procedure",), 17),
                (("a", "b"), (), 0),
            ],
            id="family and procedure",
        ),
        pytest.param(
            [("a", "test", None), ("b",)],
            "family-procedure",
            [((A_PROCEDURE, "b"), ("procedure",), 17), (("a", "b"), (), 0)],
            id="no family: the procedure level comes once",
        ),
        pytest.param(
            [("a", None, R)],
            "family-procedure",
            [(("a [family=research]",), ("family",), 18), (("a",), (), 0)],
            id="no procedure: the raw level comes once",
        ),
        pytest.param(
            [("a", None, R), ("b", "test", None)],
            "family-procedure",
            [
                (("a [family=research]", "b [procedure=test]"), ("family", "procedure"), 35),
                (("a", "b [procedure=test]"), ("procedure",), 17),
                (("a", "b"), (), 0),
            ],
            id="facets on different events",
        ),
        pytest.param([("a",), ("a",)], "family-procedure", [(("a", "a"), (), 0)], id="nothing to show"),
        pytest.param([("a", None, R)], "procedure", [(("a",), (), 0)], id="procedure ignores the family"),
    ],
)
def test_a_window_is_seen_at_each_level_once_most_specific_first(
    window: list[tuple[str | None, ...]], strategy: Strategy, expected: list[tuple[tuple[str, ...], ...]]
) -> None:
    variants = state_variants([Facets(*event) for event in window], strategy)  # type: ignore[arg-type]
    assert [tuple(v) for v in variants] == expected
    assert [v.key for v in variants] == [" -> ".join(tokens) for tokens, *_ in expected]
    assert [v.mode for v in variants] == ["projected" if fields else "raw" for _, fields, _ in expected]


def test_without_raw_fallback_the_raw_level_is_left_out() -> None:
    window = [Facets("a", "test", C)]
    seen = state_variants(window, "family-procedure", allow_raw_fallback=False)
    assert [v.tokens for v in seen] == [(A_FULL,), (A_PROCEDURE,)]
    assert [v.tokens for v in state_variants(window, "procedure", allow_raw_fallback=False)] == [(A_PROCEDURE,)]


def test_a_level_whose_facets_are_all_absent_is_raw_even_without_fallback() -> None:
    (only,) = state_variants([Facets("a")], "family-procedure", allow_raw_fallback=False)
    assert (only.tokens, only.facet_fields, only.mode) == (("a",), (), "raw")


@pytest.mark.parametrize(
    ("family", "procedure", "token"),
    [
        (None, None, "tool.run"),
        (R, None, "tool.run [family=research]"),
        (None, "read", "tool.run [procedure=read]"),
        (R, "read", "tool.run [family=research,procedure=read]"),
    ],
)
def test_a_token_is_the_type_and_the_facets_that_are_there(
    family: str | None, procedure: str | None, token: str
) -> None:
    assert token_text("tool.run", family, procedure) == token


@pytest.mark.parametrize("event_type", ["a [b]", "a[family=x]", "[x] = 3", "a -> b", "\\", "k=v", "", "a (family=b)"])
def test_a_type_that_cannot_be_taken_for_a_token_with_facets_is_shown_as_it_is(event_type: str) -> None:
    assert token_text(event_type) == event_type


def test_events_that_differ_never_share_a_token() -> None:
    pieces = (
        " [family=code-fix]",
        " [procedure=test]",
        " \\[family=code-fix]",
        " [family=code-fix,procedure=test]",
        "\\",
        "x",
        " ",
        "[",
    )
    types = {"".join(parts) for n in (1, 2, 3) for parts in itertools.product(pieces, repeat=n)}
    events = list(itertools.product(types, (None, C), (None, "test")))
    assert len({token_text(*event) for event in events}) == len(events)


NASTY = st.lists(
    st.sampled_from(("a", "->", " -> ", "-", ">", " ", "\\", "\\->", "[", "]", " [family=x]", ",", "=", "é")),
    min_size=1,
).map("".join)
WINDOWS = st.lists(st.one_of(NASTY, st.text(min_size=1)), min_size=1, max_size=5)


@given(WINDOWS)
def test_a_key_splits_into_the_tokens_it_was_made_of(tokens: list[str]) -> None:
    assert split_state(join_state(tokens)) == tuple(tokens)


@given(st.lists(st.text(alphabet="ab .-_[]", min_size=1), min_size=1, max_size=5))
def test_plain_tokens_are_joined_by_an_arrow_and_nothing_else(tokens: list[str]) -> None:
    assert join_state(tokens) == " -> ".join(tokens)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a -> b", "c"), ("a", "b -> c")),
        (("a -> b",), ("a", "b")),
        (("a->b",), ("a\\->b",)),
        (("a ->", "b"), ("a", "-> b")),
    ],
)
def test_windows_that_differ_have_different_keys(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert join_state(one) != join_state(other)
