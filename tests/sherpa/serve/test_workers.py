"""Lines of work: what is stored together, what is refused alone, and what happens when there is too much or an end."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sherpa.errors import OperationError, StoreError
from sherpa.serve import workers as module
from sherpa.serve.operations import OPERATIONS
from sherpa.serve.service import Opening, Service, parameters_of
from sherpa.serve.workers import Answer, Job, Workers, do

Given = dict[str, Any]


class Told:
    """Who asks, and waits for the answer."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self._come = threading.Event()

    def __call__(self, answer: Answer) -> None:
        self.answers.append(answer)
        self._come.set()

    def wait(self) -> Any:
        """The answer as a JSON value, or the error."""
        assert self._come.wait(20), "no answer came"
        assert len(self.answers) == 1
        answer = self.answers[0]
        return answer if isinstance(answer, OperationError) else json.loads(answer)


def event(name: str, **more: Any) -> Given:
    return {"eventId": name, "caseId": "c", "source": "test", "type": "t", **more}


def submit(workers: Workers, operation: str, **given: Any) -> Told:
    told = Told()
    workers.submit(OPERATIONS[operation], parameters_of(OPERATIONS[operation], given), told)
    return told


def job(operation: str, given: Given) -> Job:
    return Job(OPERATIONS[operation], parameters_of(OPERATIONS[operation], given), lambda answer: None)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with_memory = Service(Opening(tmp_path))
    yield with_memory
    with_memory.close()


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    started = Workers(Opening(tmp_path))
    started.start()
    yield started
    started.close()


# -- together --------------------------------------------------------------------------------------------------


def answers_to(service: Service, jobs: list[Job]) -> list[Any]:
    found = do(service, jobs)
    assert [one for one, _ in found] == jobs, "each is answered, in order"
    return [a if isinstance(a, OperationError) else json.loads(a) for _, a in found]


def test_neighbours_become_durable_in_one_append(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    appends = []
    store = service.memory.ingest_batch
    monkeypatch.setattr(service.memory, "ingest_batch", lambda events: appends.append(len(events)) or store(events))
    jobs = [job("ingest_event", event(f"e{n}")) for n in range(5)]
    jobs.append(job("ingest_batch", {"events": [event("e5"), event("e6")]}))
    answers = answers_to(service, jobs)
    assert appends == [7]
    assert [a["eventId"] for a in answers[:5]] == [f"e{n}" for n in range(5)]
    assert [a["seq"] for a in answers[:5]] == [1, 2, 3, 4, 5]
    assert [e["seq"] for e in answers[5]["events"]] == [6, 7]
    assert answers[5]["duplicates"] == 0


def test_what_stands_between_events_keeps_its_place(service: Service) -> None:
    jobs = [
        job("ingest_event", event("e1")),
        job("ingest_event", event("e2")),
        job("advise", {"caseId": "c"}),
        job("drain", {}),
        job("ingest_event", event("e3")),
        job("ingest_event", event("e4")),
    ]
    answers_to(service, jobs)
    assert [e.event_id for e in service.memory.ledger.read()] == ["e1", "e2", "e3", "e4"]


def test_a_question_is_answered_from_what_came_before_it(service: Service) -> None:
    jobs = [job("ingest_event", event("e1")), job("ingest_event", event("e2")), job("state", {"caseId": "c"})]
    jobs += [job("ingest_event", event("e3", type="later")), job("ingest_event", event("e4", type="later"))]
    answers = answers_to(service, jobs)
    # Seen once: t after t.
    assert (answers[2]["state"], answers[2]["support"]) == (["t", "t"], 0)
    assert [e["eventId"] for e in answers[2]["recentEvents"]] == ["e1", "e2"]


def test_a_group_that_fails_is_tried_one_by_one(tmp_path: Path) -> None:
    service = Service(Opening.of(tmp_path, {"engine": {"requireProjection": True}}))
    projected = event("e1", projection={"version": "draft-v1", "source": "manual"})
    first, second = answers_to(service, [job("ingest_event", projected), job("ingest_event", event("e2"))])
    service.close()
    assert first["eventId"] == "e1"
    assert second.code == "invalid_configuration"


def test_an_invalid_event_is_refused_alone(service: Service) -> None:
    jobs = [
        job("ingest_event", event("e1")),
        job("ingest_event", event("bad", meta={"n": "x" * 300_000})),
        job("ingest_batch", {"events": [event("e2"), event("worse", meta={"n": "x" * 300_000})]}),
        job("ingest_event", event("late", ts="yesterday")),
        job("ingest_event", event("e3")),
    ]
    answers = answers_to(service, jobs)
    assert [a.code if isinstance(a, OperationError) else a["eventId"] for a in answers] == [
        "e1", "invalid_event", "invalid_event", "invalid_event", "e3",
    ]  # fmt: skip
    assert "events[1]" in str(answers[2])
    assert [e.event_id for e in service.memory.ledger.read()] == ["e1", "e3"]


def test_an_event_that_two_send_is_new_to_the_first(service: Service) -> None:
    jobs = [
        job("ingest_event", event("e1", type="first")),
        job("ingest_batch", {"events": [event("e1", type="second"), event("e2"), event("e2")]}),
        job("ingest_event", event("e2", type="third")),
    ]
    single, batch, repeated = answers_to(service, jobs)
    assert (single["type"], single["seq"]) == ("first", 1)
    assert [e["eventId"] for e in batch["events"]] == ["e2"]
    assert batch["duplicates"] == 2
    assert (repeated["type"], repeated["seq"]) == ("t", 2)
    assert [e.event_id for e in service.memory.ledger.read()] == ["e1", "e2"]


def test_together_and_one_by_one_leave_the_same_memory(tmp_path: Path) -> None:
    given = [event(f"e{n}", caseId=f"c{n % 3}", type=f"t{n % 4}", ts="2026-01-01T00:00:00Z") for n in range(30)]
    jobs = [job("ingest_event", one) for one in given]
    rows, answers = [], []
    for name, groups in (("together", [jobs]), ("alone", [[one] for one in jobs])):
        service = Service(Opening(tmp_path / name))
        answers.append([answer for group in groups for _, answer in do(service, group)])
        rows.append([service.memory.store.rows(table) for table in ("events", "cases", "state_edges")])
        service.close()
    assert rows[0] == rows[1]
    assert answers[0] == answers[1]


def test_when_the_disk_fails_each_is_told_and_nothing_is_said_to_be_stored(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sherpa.ledger.os.fsync", full)
    answers = answers_to(service, [job("ingest_event", event(f"e{n}")) for n in range(3)])
    assert all(isinstance(a, OperationError) and "No space left" in str(a) for a in answers)
    monkeypatch.undo()
    answers_to(service, [job("ingest_event", event(f"e{n}")) for n in range(3)])
    assert [e.seq for e in service.memory.ledger.read()] == [1, 2, 3]


# -- lines -----------------------------------------------------------------------------------------------------


def test_the_order_of_writes_is_the_order_of_arrival(workers: Workers) -> None:
    told = [submit(workers, "ingest_event", **event(f"e{n}")) for n in range(50)]
    assert [one.wait()["seq"] for one in told] == list(range(1, 51))


class Gate:
    """Holds an operation up until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
        self.reached, self._open = threading.Event(), threading.Event()
        original: Callable[..., Any] = getattr(Service, method)

        def held(service: Service, *given: Any) -> Any:
            self.reached.set()
            assert self._open.wait(20)
            return original(service, *given)

        monkeypatch.setattr(Service, method, held)

    def open(self) -> None:
        self._open.set()


def test_questions_do_not_wait_behind_a_rebuild(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch, "rebuild")
    slow = submit(workers, "rebuild")
    assert gate.reached.wait(20)
    assert submit(workers, "next", caseId="c").wait()["candidates"] == []
    assert submit(workers, "status").wait()["events"] == 0
    assert slow.answers == []
    gate.open()
    assert slow.wait()["healthy"]


def test_too_much_is_refused_and_a_place_is_free_again_after_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, "rebuild")
    workers = Workers(Opening(tmp_path), most=2)
    workers.start()
    first = submit(workers, "rebuild")
    assert gate.reached.wait(20)
    second = submit(workers, "rebuild")
    with pytest.raises(OperationError, match="2 operations wait already") as raised:
        submit(workers, "next", caseId="c")
    assert raised.value.code == "overloaded"
    assert workers.pending == 2
    gate.open()
    assert first.wait()["healthy"]
    assert second.wait()["healthy"]
    assert workers.pending == 0
    assert submit(workers, "next", caseId="c").wait()["caseId"] == "c"
    workers.close()


def test_what_waits_is_finished_before_the_end_and_nothing_is_taken_after(tmp_path: Path) -> None:
    workers = Workers(Opening(tmp_path), most=1_000)
    workers.start()
    told = [submit(workers, "ingest_event", **event(f"e{n}")) for n in range(300)]
    questions = [submit(workers, "next", caseId="c") for _ in range(50)]
    workers.close()
    assert [one.wait()["seq"] for one in told] == list(range(1, 301))
    assert all(one.wait()["caseId"] == "c" for one in questions)
    with pytest.raises(OperationError, match="closing") as raised:
        submit(workers, "status")
    assert raised.value.code == "overloaded"
    workers.close()


def test_a_memory_that_cannot_be_opened_is_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "graph.db").write_bytes(b"no database" * 500)
    with pytest.raises(StoreError, match=r"graph\.db"):
        Workers(Opening(tmp_path)).start()


@pytest.mark.parametrize("error", [StoreError("is locked"), OSError(24, "Too many open files")])
def test_a_line_that_could_not_open_the_memory_tries_again(
    error: Exception, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Closed:
        def __init__(self, opening: Opening) -> None:
            raise error

    with monkeypatch.context() as patch:
        patch.setattr(module, "Service", Closed)
        refused = submit(workers, "next", caseId="c").wait()
        assert isinstance(refused, OperationError)
        assert refused.code == "store_unavailable"
    assert submit(workers, "next", caseId="c").wait()["caseId"] == "c"


def test_an_error_inside_is_told_without_its_details_and_the_line_goes_on(
    workers: Workers, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(service: Service) -> None:
        raise KeyError("secret of somebody's case")

    with monkeypatch.context() as patch:
        patch.setattr(Service, "status", broken)
        answer = submit(workers, "status").wait()
    assert (answer.code, str(answer)) == ("internal", "status: internal error (KeyError)")
    assert "secret" in capsys.readouterr().err
    assert submit(workers, "status").wait()["events"] == 0


def test_somebody_who_has_gone_away_ends_no_line(workers: Workers) -> None:
    def gone(answer: Answer) -> None:
        raise RuntimeError("Event loop is closed")

    workers.submit(OPERATIONS["status"], parameters_of(OPERATIONS["status"], {}), gone)
    assert submit(workers, "status").wait()["events"] == 0
