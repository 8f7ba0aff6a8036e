"""Killed at random moments under load, daemon and child lose nothing acknowledged; clients go on by themselves."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sherpa import ProceduralMemory
from sherpa.client import SherpaClient
from sherpa.configuration import Transport
from sherpa.derive import DERIVED
from sherpa.serve.backend import Backend
from sherpa.serve.child import ChildBackend
from sherpa.serve.managed import ManagedDaemon
from sherpa.serve.remote import HttpBackend
from tests.contract.doors import SHERPA, free_port

PATIENT = 30.0
CLIENTS = 16
POINTS = [4, pytest.param(50, marks=pytest.mark.full)]
Pid = Callable[[], int | None]


class Load:
    """Clients that tell and ask until they are stopped; every acknowledged event is noted."""

    def __init__(self, connect: Callable[[], SherpaClient], clients: int) -> None:
        self.acknowledged: list[str] = []
        self.failures: list[str] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(n, connect)) for n in range(clients)]
        for thread in self._threads:
            thread.start()

    def _work(self, number: int, connect: Callable[[], SherpaClient]) -> None:
        client = connect()
        step = 0
        try:
            while not self._stop.is_set():
                step += 1
                event_id = f"w{number}-{step}"
                case = f"c{number}-{step // 7}"
                event = {"eventId": event_id, "caseId": case, "source": "load", "type": f"t{step % 5}"}
                assert client.ingest(event).event_id == event_id
                self.acknowledged.append(event_id)
                client.workflow_next(case)
        except Exception as error:
            self.failures.append(f"client {number}, step {step}: {error}")

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        assert self.failures == []


@contextmanager
def managed(root: Path) -> Iterator[tuple[Callable[[], SherpaClient], Pid]]:
    """One client owns the daemon and starts it again; the others only talk to it."""
    port = free_port()
    command = [*SHERPA, "--root", str(root), "serve", "--port", str(port), "--owned"]
    owner = ManagedDaemon(command, "127.0.0.1", port)
    owner.ensure(PATIENT)
    token = (root / "daemon.token").read_text().strip()
    backend = HttpBackend(f"http://127.0.0.1:{port}", lambda: token, timeout=PATIENT, managed=owner)
    try:
        yield lambda: SherpaClient(backend=backend), lambda: owner.pid
    finally:
        backend.close()


@contextmanager
def supervised(root: Path) -> Iterator[tuple[Callable[[], SherpaClient], Pid]]:
    """Somebody else starts the daemon again; each client has a connection of its own."""
    port = free_port()
    held: list[subprocess.Popen[bytes]] = []
    over = threading.Event()

    def keep() -> None:
        while not over.is_set():
            if not held or held[-1].poll() is not None:
                command = [*SHERPA, "--root", str(root), "serve", "--port", str(port)]
                held.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
            time.sleep(0.05)

    thread = threading.Thread(target=keep)
    thread.start()
    transport = Transport(mode="http", base_url=f"http://127.0.0.1:{port}", timeout_ms=int(PATIENT * 1000))
    end = time.monotonic() + PATIENT
    while not (root / "daemon.token").exists() and time.monotonic() < end:
        time.sleep(0.05)
    clients: list[SherpaClient] = []

    def connect() -> SherpaClient:
        clients.append(SherpaClient(root, transport=transport))
        return clients[-1]

    try:
        yield connect, lambda: held[-1].pid
    finally:
        for client in clients:
            client.close()
        over.set()
        thread.join()
        held[-1].terminate()
        held[-1].wait(30)


@contextmanager
def child(root: Path) -> Iterator[tuple[Callable[[], SherpaClient], Pid]]:
    """A child behind pipes, shared by all threads."""
    backend: Backend = ChildBackend([*SHERPA, "--root", str(root), "serve", "--stdio"], timeout=PATIENT)
    try:
        yield lambda: SherpaClient(backend=backend), lambda: backend.pid  # type: ignore[attr-defined]
    finally:
        backend.close()


@pytest.mark.parametrize("points", POINTS)
@pytest.mark.parametrize("start", [managed, supervised, child], ids=lambda start: start.__name__)
def test_nothing_acknowledged_is_lost_and_no_call_fails(start, points: int, tmp_path: Path) -> None:
    rng = random.Random(points)
    killed = set()
    with start(tmp_path) as (connect, pid):
        load = Load(connect, CLIENTS)
        for _ in range(points):
            time.sleep(rng.uniform(0.3, 1.0))
            seen = len(load.acknowledged)
            end = time.monotonic() + PATIENT
            # Kill one that works, not one that is just starting.
            while (len(load.acknowledged) == seen or pid() in killed | {None}) and time.monotonic() < end:
                time.sleep(0.005)
            time.sleep(rng.uniform(0, 0.02))
            victim = pid()
            if victim is not None:
                os.kill(victim, signal.SIGKILL)
                killed.add(victim)
        time.sleep(0.5)
        load.stop()
    assert len(killed) >= points * 0.9
    with ProceduralMemory(tmp_path) as memory:
        # Line by line: `Ledger.read` would pass over what stands there twice.
        lines = [line for segment in memory.ledger.segments() for line in segment.read_bytes().splitlines()]
        held = Counter(json.loads(line)["eventId"] for line in lines)
        assert set(held.values()) == {1}
        assert held.keys() >= set(load.acknowledged)
        assert len(load.acknowledged) > points * 10
        grown = {table: sorted(memory.store.rows(table)) for table in DERIVED}
        memory.rebuild()
        assert grown == {table: sorted(memory.store.rows(table)) for table in DERIVED}
