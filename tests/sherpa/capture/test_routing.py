"""When a message begins or ends a task (specs: case routing)."""

from __future__ import annotations

import pytest

from sherpa.capture.routing import MINUTE, TaskRouter, slug_of, title_of

WORK = "Please fix the failing build of the mobile app"


def router() -> TaskRouter:
    return TaskRouter("k", keep_text=True)


def kinds(found: list[object]) -> list[tuple[str, str]]:
    return [(b.type, b.reason) for b in found]


def test_the_first_message_that_looks_like_work_begins_a_task() -> None:
    tasks = router()
    assert tasks.message("hi", 0) == []
    assert tasks.case_id == "session:k"
    [begun] = tasks.message(f"{WORK}. It has been red since noon.", 1)
    assert begun.type == "task.started"
    assert begun.case_id == tasks.case_id == f"session:k:task:{slug_of(WORK)}:1970-01-01T00:00:00.000Z"
    assert begun.labels == (f"task:{slug_of(WORK)}", "task-boundary:auto-first-message")


def test_without_text_the_slug_is_a_number() -> None:
    tasks = TaskRouter("k")
    tasks.message(WORK, 0)
    assert tasks.case_id == "session:k:task:task-1:1970-01-01T00:00:00.000Z"


@pytest.mark.parametrize("text", ["thanks, that is just what I wanted", "short", "Ok, got it, perfect, many thanks"])
def test_small_talk_begins_nothing(text: str) -> None:
    assert router().message(text, 0) == []


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("/done", "task.completed", "explicit"),
        ("done: all green", "task.completed", "explicit"),
        ("/complete now", "task.completed", "explicit"),
        ("That worked!", "task.completed", "phrase"),
        ("we're good, thanks", "task.completed", "phrase"),
        ("/fail", "task.failed", "explicit"),
        ("blocked: no access", "task.failed", "explicit"),
        ("That failed. Again.", "task.failed", "phrase"),
        ("didn't work", "task.failed", "phrase"),
    ],
)
def test_words_that_end_a_task(text: str, kind: str, reason: str) -> None:
    tasks = router()
    [begun] = tasks.message(WORK, 0)
    [ended] = tasks.message(text, 1)
    assert (ended.type, ended.reason, ended.case_id, ended.after) == (kind, reason, begun.case_id, True)
    assert tasks.case_id == "session:k"
    assert tasks.message(text, 2) == []


@pytest.mark.parametrize("text", ["that workedout", "/doner kebab", "it is fixed now", "that failedness"])
def test_words_that_only_look_like_it(text: str) -> None:
    tasks = router()
    tasks.message(WORK, 0)
    assert tasks.message(text, 1) == []


@pytest.mark.parametrize(("text", "slug"), [("/task Write docs", "write-docs"), ("task: x", "x"), ("/new", "new-task")])
def test_a_command_begins_another_task(text: str, slug: str) -> None:
    tasks = router()
    tasks.message(WORK, 0)
    ended, begun = tasks.message(text, 1)
    assert kinds([ended, begun]) == [("task.ended", "superseded"), ("task.started", "explicit")]
    assert begun.slug == slug


def test_half_an_hour_of_silence_begins_another_task() -> None:
    tasks = router()
    tasks.message(WORK, 0)
    assert tasks.message(WORK, 30 * MINUTE - 1) == []
    tasks.touch(31 * MINUTE)
    assert tasks.message(WORK, 60 * MINUTE) == []
    found = tasks.message(WORK, 90 * MINUTE)
    assert kinds(found) == [("task.ended", "superseded"), ("task.started", "auto-idle-timeout")]


def test_two_hours_of_silence_end_the_task() -> None:
    tasks = router()
    tasks.message(WORK, 0)
    assert kinds(tasks.message("hi", 120 * MINUTE)) == [("task.ended", "stale-timeout")]
    tasks.message(WORK, 121 * MINUTE)
    found = tasks.message(WORK, 241 * MINUTE)
    assert kinds(found) == [("task.ended", "stale-timeout"), ("task.started", "auto-first-message")]


def test_a_change_of_subject_begins_another_task() -> None:
    tasks = router()
    tasks.message(WORK, 0)
    # Four of six content words are shared: it is still the same work.
    assert tasks.message("Now let's rerun the failing build of the mobile app", 1) == []
    found = tasks.message("Now let's write the quarterly letter to customers", 2)
    assert kinds(found) == [("task.ended", "superseded"), ("task.started", "auto-intent-shift")]
    assert tasks.message("The letter to partners comes after that, in autumn", 3) == []


def test_the_end_of_a_session_ends_its_task_once() -> None:
    tasks = router()
    assert tasks.end("session-end") == []
    tasks.message(WORK, 0)
    assert kinds(tasks.end("session-end")) == [("task.ended", "session-end")]
    assert tasks.end("session-end") == []


def test_titles_and_slugs() -> None:
    assert title_of("  Fix it. Then rest.") == "Fix it."
    assert title_of("first line\nsecond") == "first line"
    assert len(title_of("x" * 100)) == 72
    assert slug_of("Ünïcode & Co: v2.0") == "n-code-co-v2-0"
    assert len(slug_of("word " * 40)) <= 48
