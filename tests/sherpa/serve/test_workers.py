"""Writes that arrive together are stored together, and what is refused is refused alone."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from sherpa.errors import OperationError
from sherpa.serve.operations import OPERATIONS
from sherpa.serve.service import Opening, Service, parameters_of
from sherpa.serve.workers import Answer, Job, Workers, do


def job(operation: str, **given: Any) -> Job:
    wanted = OPERATIONS[operation]
    return Job(wanted, parameters_of(wanted, given), lambda answer: None)


def told(answer: Answer) -> Any:
    return (answer.code, str(answer)) if isinstance(answer, OperationError) else json.loads(answer)


def event(name: str, **more: Any) -> dict[str, Any]:
    return {"eventId": name, "caseId": "c", "source": "s", "type": "t", "ts": "2026-01-01T00:00:00Z"} | more


@pytest.fixture
def service(tmp_path: Path) -> Any:
    opened = Service(Opening(tmp_path))
    yield opened
    opened.close()


def test_neighbours_share_one_append(service: Service, monkeypatch: Any) -> None:
    sizes = []
    original = service.memory.ingest_batch
    monkeypatch.setattr(service.memory, "ingest_batch", lambda events: sizes.append(len(events)) or original(events))
    jobs = [job("ingest_event", **event("a")), job("ingest_batch", events=[event("b"), event("d")])]
    jobs += [job("next", caseId="c"), job("ingest_event", **event("e")), job("ingest_event", **event("f"))]
    answers = [told(answer) for _, answer in do(service, jobs)]
    assert sizes == [3, 2]
    assert answers[0]["eventId"] == "a"
    assert [e["eventId"] for e in answers[1]["events"]] == ["b", "d"]
    # Seen twice: t after t. It is asked between the two groups, when three events are there.
    assert (answers[2]["state"], answers[2]["match"]["matchedOrder"]) == (["t"], 1)
    assert [e.event_id for e in service.memory.ledger.read()] == ["a", "b", "d", "e", "f"]


def test_an_invalid_one_is_refused_alone(service: Service) -> None:
    bad = job("ingest_event", **event("bad", ts="yesterday"))
    large = job("ingest_batch", events=[event("x"), event("y", meta={"p": "z" * 300_000})])
    answers = [
        told(a)
        for _, a in do(service, [job("ingest_event", **event("a")), bad, large, job("ingest_event", **event("b"))])
    ]
    assert [answers[0]["eventId"], answers[3]["eventId"]] == ["a", "b"]
    assert answers[1][0] == answers[2][0] == "invalid_event"
    assert "events[1]" in answers[2][1]
    assert [e.event_id for e in service.memory.ledger.read()] == ["a", "b"]


def test_an_id_that_two_send_is_new_to_the_first(service: Service) -> None:
    jobs = [
        job("ingest_batch", events=[event("a"), event("a")]),
        job("ingest_event", **event("a", type="other")),
        job("ingest_batch", events=[event("a"), event("b")]),
    ]
    first, second, third = (told(a) for _, a in do(service, jobs))
    assert (len(first["events"]), first["duplicates"]) == (1, 1)
    assert second["type"] == "t"
    assert ([e["eventId"] for e in third["events"]], third["duplicates"]) == (["b"], 1)


def test_a_group_that_fails_is_tried_one_by_one(tmp_path: Path) -> None:
    opened = Service(Opening.of(tmp_path, {"engine": {"requireProjection": True}}))
    projected = event("a", projection={"version": "draft-v1", "source": "manual"})
    answers = [told(a) for _, a in do(opened, [job("ingest_event", **projected), job("ingest_event", **event("b"))])]
    opened.close()
    assert answers[0]["eventId"] == "a"
    assert answers[1][0] == "invalid_configuration"


def test_more_than_may_wait_is_refused_and_what_waits_is_done_at_the_end(tmp_path: Path) -> None:
    workers = Workers(Opening(tmp_path), most=2)
    answers: list[Answer] = []
    hold = threading.Event()

    def slow(answer: Answer) -> None:
        hold.wait(20)
        answers.append(answer)

    workers.start()
    wanted = OPERATIONS["ingest_event"]
    workers.submit(wanted, parameters_of(wanted, event("a")), slow)
    while workers.pending:
        pass
    for name in ("b", "c"):
        workers.submit(wanted, parameters_of(wanted, event(name)), answers.append)
    with pytest.raises(OperationError, match="wait already") as refused:
        workers.submit(wanted, parameters_of(wanted, event("d")), answers.append)
    assert refused.value.code == "overloaded"
    hold.set()
    workers.close()
    assert [told(answer)["eventId"] for answer in answers] == ["a", "b", "c"]
    with pytest.raises(OperationError, match="closing"):
        workers.submit(wanted, parameters_of(wanted, event("e")), answers.append)


def test_what_nobody_foresaw_tells_nothing_of_the_inside(service: Service, monkeypatch: Any, capsys: Any) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr(service.memory, "metrics", broken)
    ((_, answer),) = do(service, [job("metrics")])
    code, message = told(answer)
    assert code == "internal"
    assert "secret" not in message
    assert "a secret" in capsys.readouterr().err
