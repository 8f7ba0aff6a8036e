"""Trying again: how long, how often, and what is never sent twice."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from sherpa.errors import OperationError
from sherpa.serve import backend
from sherpa.serve.backend import Backoff, EmbeddedBackend, Gone, persist
from sherpa.serve.operations import OPERATIONS
from sherpa.serve.service import Opening


class Clock:
    """Time that passes only by waiting."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        monkeypatch.setattr(backend, "time", SimpleNamespace(monotonic=lambda: self.now, sleep=self.sleep))

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Attempts:
    """Fails as it is told, then answers."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.left: list[float] = []

    def __call__(self, left: float) -> str:
        self.left.append(left)
        if self.failures:
            raise self.failures.pop(0)
        return "answer"


def test_pauses_double_from_a_quarter_to_five_seconds_and_begin_again() -> None:
    pauses = Backoff()
    assert [pauses.following() for _ in range(7)] == [0.25, 0.5, 1, 2, 4, 5, 5]
    pauses.reset()
    assert pauses.following() == 0.25


def test_pauses_stay_finite_for_ever() -> None:
    pauses = Backoff()
    for _ in range(2_000):
        last = pauses.following()
    assert last == 5


@pytest.mark.parametrize("name", [name for name, operation in OPERATIONS.items() if operation.repeatable])
def test_what_may_be_repeated_is_tried_until_it_is_answered(name: str, clock: Clock) -> None:
    attempts = Attempts(*(Gone("away", sent=sent) for sent in (True, False, True)))
    assert persist(OPERATIONS[name], 10, attempts, clock.sleep) == "answer"
    assert clock.pauses == [0.25, 0.5, 1]


@pytest.mark.parametrize("name", ["advise", "forget"])
def test_what_may_not_is_not_sent_twice(name: str, clock: Clock) -> None:
    attempts = Attempts(Gone("away", sent=True))
    with pytest.raises(OperationError, match=r"whether .* was done is not known") as raised:
        persist(OPERATIONS[name], 10, attempts, clock.sleep)
    assert raised.value.code == "backend_unavailable"
    assert len(attempts.left) == 1
    assert persist(OPERATIONS[name], 10, Attempts(Gone("nobody there", sent=False)), clock.sleep) == "answer"


def test_only_what_changes_something_once_may_not_be_repeated() -> None:
    assert {name for name, operation in OPERATIONS.items() if not operation.repeatable} == {"advise", "forget"}


def test_the_time_is_kept(clock: Clock) -> None:
    def late(left: float) -> str:
        clock.now += 0.5
        raise Gone("nobody there", sent=False)

    with pytest.raises(OperationError, match="nobody there") as raised:
        persist(OPERATIONS["next"], 3, late, clock.sleep)
    assert raised.value.code == "backend_unavailable"
    assert clock.now <= 3


def test_each_try_is_told_what_is_left(clock: Clock) -> None:
    attempts = Attempts(Gone("away", sent=False), Gone("away", sent=False))
    persist(OPERATIONS["next"], 3, attempts, clock.sleep)
    assert attempts.left == [3, 2.75, 2.25]


def test_a_rebuild_may_take_longer_than_a_question(clock: Clock) -> None:
    attempts = Attempts()
    persist(OPERATIONS["rebuild"], 3, attempts, clock.sleep)
    assert attempts.left[0] >= 300


def test_one_that_has_too_much_to_do_is_asked_again_after_a_second(clock: Clock) -> None:
    attempts = Attempts(OperationError("overloaded", "later"), OperationError("overloaded", "later"))
    assert persist(OPERATIONS["forget"], 3, attempts, clock.sleep) == "answer"
    assert clock.pauses == [1, 1]


def test_one_that_stays_overloaded_is_told_as_that(clock: Clock) -> None:
    attempts = Attempts(*(OperationError("overloaded", "later") for _ in range(9)))
    with pytest.raises(OperationError) as raised:
        persist(OPERATIONS["next"], 3, attempts, clock.sleep)
    assert raised.value.code == "overloaded"
    assert clock.now <= 3


def test_a_refusal_is_final(clock: Clock) -> None:
    attempts = Attempts(OperationError("invalid_parameters", "no"))
    with pytest.raises(OperationError, match="no"):
        persist(OPERATIONS["next"], 3, attempts, clock.sleep)
    assert clock.pauses == []


def test_the_memory_in_this_process_may_be_asked_by_many_threads(tmp_path: Path) -> None:
    memory = EmbeddedBackend(Opening(tmp_path))
    failures: list[Exception] = []

    def work(number: int) -> None:
        try:
            for step in range(5):
                memory.call("ingest_event", {"caseId": f"c{number}", "source": "s", "type": f"t{step}"})
                memory.call("next", {"caseId": f"c{number}"})
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert memory.call("status", {})["events"] == 40
    memory.close()
    memory.close()
    with pytest.raises(OperationError, match="closed"):
        memory.call("status", {})
