"""Threads that do operations, each with the memory open for itself, and the queues before them.

Quick questions never wait behind a rebuild, and writes that arrive together become durable together: one append, one
fsync, one transaction for all of them, and every client is answered after it.
"""

from __future__ import annotations

import queue
import sqlite3
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, get_args

import msgspec

from sherpa.errors import OperationError, SherpaError
from sherpa.event import Event
from sherpa.serve.guests import NOBODY, THREADS, Guests
from sherpa.serve.operations import Lane, Operation
from sherpa.serve.parameters import IncomingEvent, IngestBatch
from sherpa.serve.service import Opening, Service, operation_of, plain, run

Answer = bytes | OperationError
Done = Callable[[Answer], None]
MOST_TOGETHER = 512
"""Events that are stored in one transaction at most."""
OVERLOADED, UNUSABLE = "overloaded", "store_unavailable"
_encoder = msgspec.json.Encoder()


@dataclass(frozen=True)
class Job:
    """An operation that waits, and who is told the answer."""

    operation: Operation
    parameters: Any
    done: Done


class Workers:
    """Does operations in threads.

    Parameters
    ----------
    opening : Opening
    most : int
        Operations that may wait or run at a time; more are refused.
    guests : Guests
        What is served beside the memory.

    Notes
    -----
    `submit` may be called by any thread. The answer is told by the thread that did the work.
    """

    def __init__(self, opening: Opening, *, most: int = 256, guests: Guests = NOBODY) -> None:
        self.guests = guests
        self._opening = opening
        self._most = most
        self._pending = 0
        self._lock = threading.Lock()
        self._closed = False
        self._queues: dict[Lane, queue.SimpleQueue[Job | None]] = {lane: queue.SimpleQueue() for lane in get_args(Lane)}
        self._lanes: list[Lane] = [lane for lane in get_args(Lane) if lane != "guest"]
        self._lanes += ["guest"] * (0 if guests is NOBODY else THREADS)
        self._threads = [
            threading.Thread(target=self._work, args=(lane,), name=f"sherpa-{lane}", daemon=True)
            for lane in self._lanes
        ]

    def start(self, *, check: bool = True) -> None:
        """Begin; with `check` the memory is opened once before, so that what is wrong with it is said at once.

        Raises
        ------
        SherpaError
        """
        if check:
            Service(self._opening).close()
        for thread in self._threads:
            thread.start()

    def operation_of(self, name: str) -> Operation:
        """The operation of a name, be it the memory's or a guest's.

        Raises
        ------
        OperationError
        """
        return self.guests.find(name) or operation_of(name)

    def submit(self, operation: Operation, parameters: Any, done: Done) -> None:
        """Let an operation be done.

        Raises
        ------
        OperationError
            ``overloaded`` if too many wait, or the workers are closing.
        """
        with self._lock:
            if self._closed:
                raise OperationError(OVERLOADED, "the memory is closing; try again")
            if self._pending >= self._most:
                raise OperationError(OVERLOADED, f"{self._most} operations wait already; try again")
            self._pending += 1
        self._queues[operation.lane].put(Job(operation, parameters, done))

    @property
    def pending(self) -> int:
        """Operations that wait or run."""
        return self._pending

    def close(self) -> None:
        """Finish what waits, then stop."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        for lane in self._lanes:
            self._queues[lane].put(None)
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _work(self, lane: Lane) -> None:
        line = self._queues[lane]
        service: Service | None = None
        job: Job | None
        try:
            while (job := line.get()) is not None:
                jobs, last = ([job], False) if lane != "write" else _together(job, line)
                try:
                    service = service or (None if lane == "guest" else Service(self._opening))
                except (SherpaError, sqlite3.Error, OSError) as error:
                    code = error.code if isinstance(error, SherpaError) else UNUSABLE
                    self._tell([(j, OperationError(code, str(error))) for j in jobs])
                else:
                    self._tell(do(service, jobs))
                if last:
                    return
        finally:
            if service is not None:
                service.close()

    def _tell(self, answers: list[tuple[Job, Answer]]) -> None:
        with self._lock:
            self._pending -= len(answers)
        for job, answer in answers:
            # The loop that asked may have ended.
            with suppress(RuntimeError):
                job.done(answer)


def _together(job: Job, line: queue.SimpleQueue[Job | None]) -> tuple[list[Job], bool]:
    """The job and those behind it that wait already; whether the end was among them."""
    jobs, events = [job], _size(job)
    while events < MOST_TOGETHER:
        try:
            following = line.get_nowait()
        except queue.Empty:
            break
        if following is None:
            return jobs, True
        jobs.append(following)
        events += _size(following)
    return jobs, False


def _size(job: Job) -> int:
    return len(job.parameters.events) if isinstance(job.parameters, IngestBatch) else 1


def do(service: Service | None, jobs: list[Job]) -> list[tuple[Job, Answer]]:
    """Do operations in order; neighbours that only store events are stored together."""
    answers: list[tuple[Job, Answer]] = []
    at = 0
    while at < len(jobs):
        end = at
        while end < len(jobs) and isinstance(jobs[end].parameters, IncomingEvent | IngestBatch):
            end += 1
        if service is not None and end - at > 1:
            answers += _store(service, jobs[at:end])
            at = end
        else:
            answers.append((jobs[at], _one(service, jobs[at])))
            at += 1
    return answers


def _one(service: Service | None, job: Job) -> Answer:
    try:
        return _encoder.encode(run(service, job.operation, job.parameters))
    except OperationError as error:
        return error
    except (sqlite3.Error, OSError) as error:
        return OperationError(UNUSABLE, f"{job.operation.name}: {error}")
    except Exception as error:
        # The client learns only that it failed: what it holds may be anything.
        traceback.print_exc(file=sys.stderr)
        return OperationError("internal", f"{job.operation.name}: internal error ({type(error).__name__})")


def _store(service: Service, jobs: list[Job]) -> list[tuple[Job, Answer]]:
    """Store the events of several jobs at once. What is refused is refused alone."""
    checked: list[tuple[Job, list[Event]]] = []
    answers: dict[int, Answer] = {}
    for job in jobs:
        try:
            if isinstance(job.parameters, IncomingEvent):
                checked.append((job, [service.checked(job.parameters)]))
            else:
                checked.append((job, service.all_checked(job.parameters.events)))
        except SherpaError as error:
            answers[id(job)] = OperationError(error.code, str(error))
    try:
        appended = service.memory.ingest_batch([event for _, events in checked for event in events])
        stored = {event.event_id: event for event in appended.events}
        for job, events in checked:
            answers[id(job)] = _encoder.encode(plain(_of(service, job, events, stored)))
    except Exception:
        # One of them, or the disk: each alone says what is wrong with it.
        answers |= {id(job): _one(service, job) for job, _ in checked}
    return [(job, answers[id(job)]) for job in jobs]


def _of(service: Service, job: Job, events: list[Event], stored: dict[str, Event]) -> Any:
    """The answer to one job; an event that two jobs sent is new to the first of them."""
    new = [stored.pop(event.event_id) for event in events if event.event_id in stored]
    if isinstance(job.parameters, IngestBatch):
        return {"events": new, "duplicates": len(events) - len(new)}
    return new[0] if new else service.memory.stored(events[0].event_id)
