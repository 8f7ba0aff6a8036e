"""``python -m benchmarks.daemon``: what the daemon bears, and whether it keeps what it acknowledged.

Clients ask and tell at once, each as soon as it has its answer. They run in this process, the daemon in a child; both
share the machine. Then they do the same for a fifth of the time once more: every event is there already, so the memory
does not grow, and what the daemon holds must not either. Afterwards the ledger is compared with what was acknowledged,
and the graph with a rebuilt one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import uvloop

from sherpa import ProceduralMemory
from sherpa.store import TABLES

QUESTIONS = ("next", "state", "outcomes")
SHARE_OF_EVENTS, SHARE_OF_REPORTS = 0.35, 0.05
KINDS, USUAL = 40, 3
"""Types of events, and how many of them usually follow one."""
SHORTEST, LONGEST = 5, 20
_STRAY = 0.1
_SAMPLE_SECONDS = 0.5


@dataclass
class Figures:
    """What a run of the load found.

    Attributes
    ----------
    seconds : dict
        Seconds from request to answer, by operation.
    refused : Counter
        Answers other than 200, by operation and status.
    acknowledged : list of str
        Ids of the events that the daemon said it stored.
    samples : list of (float, int, int)
        Seconds since the start, bytes that the daemon held then, and requests that were answered by then.
    took : float
        Seconds of the run.
    """

    seconds: dict[str, list[float]] = field(default_factory=dict)
    refused: Counter[tuple[str, int]] = field(default_factory=Counter)
    acknowledged: list[str] = field(default_factory=list)
    samples: list[tuple[float, int, int]] = field(default_factory=list)
    took: float = 0.0

    @property
    def requests(self) -> int:
        """Requests that were answered with 200."""
        return sum(map(len, self.seconds.values()))

    def quantile(self, share: float, operation: str | None = None) -> float:
        """Milliseconds within which a share of the requests was answered."""
        chosen = [self.seconds[operation]] if operation else self.seconds.values()
        times = sorted(one for many in chosen for one in many)
        return 1000 * times[min(len(times) - 1, int(share * len(times)))]

    def memory_growth(self) -> float:
        """Mean of the last fifth of the run over that of its second fifth."""
        held = [size for _, size, _ in self.samples]
        fifth = max(1, len(held) // 5)
        return sum(held[-fifth:]) / sum(held[fifth : 2 * fifth])


class Procedures:
    """Cases of 5 to 20 events over forty types, each of which is usually followed by one of three."""

    def __init__(self, name: str, seed: int) -> None:
        usual = random.Random(0)
        self._following = [usual.sample(range(KINDS), USUAL) for _ in range(KINDS)]
        self._rng = random.Random(seed)
        self._name = name
        self._cases = 0
        self._left = self._at = 0
        self._kind = 0

    @property
    def case(self) -> str:
        """The case that grows at present."""
        return f"{self._name}-{self._cases}"

    def following(self) -> tuple[str, dict[str, Any]]:
        """Id and body of the next event; after the last of a case the first of a new one."""
        rng = self._rng
        if not self._left:
            self._cases += 1
            self._at, self._left, self._kind = 0, rng.randint(SHORTEST, LONGEST), rng.randrange(4)
        elif rng.random() < _STRAY:
            self._kind = rng.randrange(KINDS)
        else:
            self._kind = self._following[self._kind][min(rng.randrange(4), USUAL - 1)]
        self._at, self._left = self._at + 1, self._left - 1
        name = f"{self.case}:{self._at}"
        event = {"eventId": name, "caseId": self.case, "source": "load", "type": f"type.{self._kind}"}
        if not self._left:
            event["outcome"] = rng.choice(("success", "success", "failure"))
        return name, event


class Client(asyncio.Protocol):
    """One connection that always has one request under way."""

    def __init__(self, figures: Figures, head: str, name: str, seed: int, until: float) -> None:
        self._figures, self._head, self._until = figures, head, until
        self._procedures = Procedures(name, seed)
        self._rng = random.Random(f"client {seed}")
        self._operation, self._id, self._begin, self._answer = "", "", 0.0, b""
        self._transport: asyncio.WriteTransport | None = None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)
        self._ask()

    def data_received(self, data: bytes) -> None:
        answer = self._answer = self._answer + data
        end = answer.find(b"\r\n\r\n")
        if end < 0:
            return
        at = answer.index(b"content-length: ") + 16
        if len(answer) < end + 4 + int(answer[at : answer.index(b"\r", at)]):
            return
        self._answer = b""
        self._count(int(answer[9:12]))
        if time.perf_counter() < self._until:
            self._ask()
        else:
            assert self._transport is not None
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._operation:
            self._figures.refused[self._operation, 0] += 1
        if not self.ended.done():
            self.ended.set_result(None)

    def _count(self, status: int) -> None:
        operation, self._operation = self._operation, ""
        if status != 200:
            self._figures.refused[operation, status] += 1
            return
        self._figures.seconds.setdefault(operation, []).append(time.perf_counter() - self._begin)
        if operation == "ingest_event":
            self._figures.acknowledged.append(self._id)

    def _ask(self) -> None:
        drawn = self._rng.random()
        body: dict[str, Any] = {"caseId": self._procedures.case}
        if drawn < SHARE_OF_EVENTS:
            self._operation = "ingest_event"
            self._id, body = self._procedures.following()
        elif drawn < SHARE_OF_EVENTS + SHARE_OF_REPORTS:
            self._operation = self._rng.choice(("recall", "status"))
            body = body if self._operation == "recall" else {}
        else:
            self._operation = self._rng.choice(QUESTIONS)
        text = json.dumps(body)
        assert self._transport is not None
        self._begin = time.perf_counter()
        self._transport.write(
            f"POST /v1/{self._operation} HTTP/1.1\r\n{self._head}content-length: {len(text)}\r\n\r\n{text}".encode()
        )


async def put_under_load(url: str, token: str, pid: int, *, seconds: float, clients: int) -> Figures:
    """Let clients ask and tell for a time.

    Parameters
    ----------
    url, token : str
        Of the daemon.
    pid : int
        Its process; that is the one whose memory is read.
    seconds : float
    clients : int
        Connections, each with one request under way.
    """
    place = urlsplit(url)
    head = f"host: {place.netloc}\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n"
    figures = Figures()
    loop = asyncio.get_running_loop()
    begin = time.perf_counter()
    running = []
    for at in range(clients):

        def client(at: int = at) -> Client:
            return Client(figures, head, f"client{at}", at + 1, begin + seconds)

        _, protocol = await loop.create_connection(client, place.hostname, place.port)
        running.append(protocol.ended)
    ended = asyncio.gather(*running)
    while not ended.done():
        figures.samples.append((time.perf_counter() - begin, resident_bytes(pid), figures.requests))
        await asyncio.wait([ended], timeout=_SAMPLE_SECONDS)
    figures.took = time.perf_counter() - begin
    return figures


def resident_bytes(pid: int) -> int:
    """Memory that a process holds."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def processor_seconds(pid: int) -> float:
    """Processor time that a process took."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Running:
    """A daemon that runs."""

    url: str
    token: str
    pid: int


@contextlib.contextmanager
def daemon(root: Path, *arguments: str) -> Iterator[Running]:
    """A daemon over a folder, on a free port."""
    command = [sys.executable, "-m", "sherpa", "--root", str(root), "--json", "serve", "--port", "0", "--owned"]
    process = subprocess.Popen([*command, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        lines: list[bytes] = []
        while not lines or lines[-1].rstrip() != b"}":
            lines.append(process.stdout.readline())
            if not lines[-1]:
                raise RuntimeError("the daemon did not start")
        yield Running(json.loads(b"".join(lines))["url"], (root / "daemon.token").read_text().strip(), process.pid)
        process.stdin.close()
        process.wait(60)


@dataclass(frozen=True)
class Kept:
    """What is in the ledger afterwards.

    Attributes
    ----------
    lost, twice : int
        Acknowledged events that are not there, or more than once.
    whole : bool
        Whether the graph is that of the ledger.
    """

    lost: int
    twice: int
    whole: bool


def compare(root: Path, acknowledged: list[str]) -> Kept:
    """Compare what was acknowledged with the ledger, and the graph with one that is derived again."""
    stored: Counter[str] = Counter()
    for segment in sorted((root / "events").glob("*.jsonl")):
        stored.update(json.loads(line)["eventId"] for line in segment.read_bytes().splitlines())
    with ProceduralMemory(root) as memory:
        tables = [name for name in TABLES if name not in ("metadata", "config_versions")]
        found = {name: memory.store.rows(name) for name in tables}
        memory.rebuild()
        whole = found == {name: memory.store.rows(name) for name in tables}
    twice = sum(times > 1 for times in stored.values())
    return Kept(sum(name not in stored for name in acknowledged), twice, whole)


def run(seconds: float, clients: int) -> dict[str, Any]:
    """A fresh daemon under load; figures as a JSON value."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with daemon(root) as running:
            used = time.process_time()
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                figures, again = (
                    runner.run(put_under_load(running.url, running.token, running.pid, seconds=time_, clients=clients))
                    for time_ in (seconds, seconds / 5)
                )
            processor = {"daemon": processor_seconds(running.pid), "clients": time.process_time() - used}
        kept = compare(root, figures.acknowledged + again.acknowledged)
    stored, took = len(set(figures.acknowledged)), figures.took + again.took
    every = max(1, len(figures.samples) // 10)
    fifths = figures.samples[:: max(1, len(figures.samples) // 5)]
    return {
        "seconds": round(figures.took, 1),
        "clients": clients,
        "requests": figures.requests,
        "requestsPerSecond": round(figures.requests / figures.took),
        "milliseconds": {
            name or "all": {f"p{q}": round(figures.quantile(q / 100, name), 2) for q in (50, 95, 99)}
            | {"requests": len(figures.seconds[name]) if name else figures.requests}
            for name in (None, *sorted(figures.seconds))
        },
        "requestsPerSecondByFifth": [
            round((b[2] - a[2]) / (b[0] - a[0])) for a, b in pairwise([*fifths[:5], figures.samples[-1]])
        ],
        "errors": {
            f"{operation} {status}": times for (operation, status), times in (figures.refused + again.refused).items()
        },
        "acknowledgedEvents": len(figures.acknowledged),
        "lostEvents": kept.lost,
        "storedTwice": kept.twice,
        "graphIsThatOfTheLedger": kept.whole,
        "megabytes": [[round(at), round(size / 1e6, 1)] for at, size, _ in figures.samples[::every]],
        "memoryGrowth": round(figures.memory_growth(), 3),
        "bytesPerStoredEvent": round((figures.samples[-1][1] - figures.samples[len(figures.samples) // 5][1]) / stored),
        "megabytesWhenNothingIsNew": [round(size / 1e6, 1) for _, size, _ in (again.samples[0], again.samples[-1])],
        "memoryGrowthWhenNothingIsNew": round(again.samples[-1][1] / again.samples[0][1], 3),
        "processorShare": {name: round(spent / took, 2) for name, spent in processor.items()},
    }


def main() -> None:
    """Print the figures of one run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.daemon", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--json", action="store_true", help="print a JSON document instead of a table")
    options = parser.parse_args()
    found = run(options.seconds, options.clients)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{'operation':<14}{'requests':>10}{'p50 ms':>9}{'p95 ms':>9}{'p99 ms':>9}")
    for name, row in found.pop("milliseconds").items():
        print(f"{name:<14}{row['requests']:>10,}{row['p50']:>9.2f}{row['p95']:>9.2f}{row['p99']:>9.2f}")
    for name, value in found.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
