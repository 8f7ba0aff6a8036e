"""Sixteen clients at once: how much the daemon bears, and that it keeps what it acknowledged."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.daemon import compare, daemon, run
from tests.e2e.raw import Target, read_answer

CLIENTS = 16


@pytest.mark.full
def test_sixteen_clients_are_answered_quickly_and_nothing_is_lost() -> None:
    """The figures of the daemon alone on two cores; whoever else computes at the time takes part of them."""
    found = run(15, CLIENTS)
    assert found["errors"] == {}
    assert found["lostEvents"] == found["storedTwice"] == 0
    assert found["graphIsThatOfTheLedger"]
    assert found["acknowledgedEvents"] > found["requests"] / 4
    assert found["requestsPerSecond"] >= 1_000
    assert found["milliseconds"]["all"]["p99"] < 50
    # It holds an index of what is stored, some hundred bytes an event; nothing else may grow.
    assert found["memoryGrowth"] < 1.3
    assert found["memoryGrowthWhenNothingIsNew"] < 1.05


class Flood:
    """Clients that send event after event and wait for nothing but the answer."""

    def __init__(self, target: Target, clients: int) -> None:
        self.acknowledged: list[str] = []
        self.statuses: Counter[int] = Counter()
        self.retry_after: set[str] = set()
        self._target = target
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(number,)) for number in range(clients)]
        for thread in self._threads:
            thread.start()

    def _send(self, number: int) -> None:
        step = 0
        with self._target.connect() as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while not self._over.is_set():
                step += 1
                name = f"flood-{number}-{step}"
                event = {"eventId": name, "caseId": f"c{number}", "source": "test", "type": f"t{step % 5}"}
                body = json.dumps(event).encode()
                connection.sendall(self._target.head("/v1/ingest_event", Content_Length=str(len(body))) + body)
                answer = read_answer(connection)
                self.statuses[answer.status] += 1
                if answer.status == 200:
                    self.acknowledged.append(name)
                else:
                    assert answer.error == "overloaded"
                    self.retry_after.add(answer.headers["retry-after"])

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(20)


def test_beyond_its_capacity_it_says_so_at_once_and_recovers(tmp_path: Path) -> None:
    with daemon(tmp_path, "--max-pending", "4") as running:
        target = Target(running.url, running.token)
        flood = Flood(target, CLIENTS)
        time.sleep(2.0)
        flood.stop()
        assert set(flood.statuses) == {200, 503}
        assert flood.retry_after == {"1"}
        # What it does take, it goes on doing.
        assert flood.statuses[200] > 50
        for _ in range(20):
            assert target.call("next", caseId="c0").status == 200
        assert target.call("status").json["events"] == len(flood.acknowledged)
    kept = compare(tmp_path, flood.acknowledged)
    assert (kept.lost, kept.twice, kept.whole) == (0, 0, True)
