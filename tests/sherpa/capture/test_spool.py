"""The spool: nothing is lost, doubled or out of order, whatever dies in between."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock

from sherpa import ProceduralMemory
from sherpa.capture.recorder import Recorder
from sherpa.capture.spool import drain, waiting
from sherpa.errors import LedgerError
from tests.conftest import PROJECT
from tests.sherpa.capture.spooling import KEY, START, Writer, queued, recorder, told

GONE = 4_194_304
"""A process id that no system gives."""


def calls(root: Path) -> list[str]:
    return [e["meta"]["toolCallId"] for e in queued(root) if e["type"] == "tool.started"]


def test_without_a_spool_nothing_happens(tmp_path: Path) -> None:
    assert drain(tmp_path, recorder(tmp_path)) == 0
    assert waiting(tmp_path).records == 0
    assert list(tmp_path.iterdir()) == []


def test_lines_that_are_no_records_are_counted_and_left_out(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.start("exec", "a")
    for junk in (
        b"undefined",
        b"[]",
        b"{",
        b'{"id":"x"}',
        b"\xff\xfe\x00",
        b'{"id":"x","at":-1,"n":9,"hook":"agent_end"}',
        b'{"id":"x","at":99999999999999999,"n":9,"hook":"agent_end"}',
        b'{"id":"x","at":1,"n":9,"hook":"no_such_hook"}',
        b"[" * 100_000,
        b"y" * (3 << 20),
    ):
        writer.raw(junk + b"\n")
    writer.raw(b"\n\n")
    writer.start("exec", "b")
    assert waiting(tmp_path).records == 2
    assert drain(tmp_path, recorder(tmp_path)) == 3
    assert calls(tmp_path) == ["a", "b"]
    assert waiting(tmp_path).garbage == 10
    assert drain(tmp_path, recorder(tmp_path)) == 0
    assert waiting(tmp_path).garbage == 10


def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.start("exec", "a")
    line = json.dumps(writer.record("before_tool_call", tool="exec", callId="b")).encode()
    writer.raw(line[:40])
    assert drain(tmp_path, recorder(tmp_path)) == 2
    assert drain(tmp_path, recorder(tmp_path)) == 0
    writer.raw(line[40:] + b"\n")
    assert drain(tmp_path, recorder(tmp_path)) == 1
    assert calls(tmp_path) == ["a", "b"]


def test_files_are_removed_when_they_are_used_up_and_nobody_writes_to_them(tmp_path: Path) -> None:
    alive = Writer(tmp_path)
    alive.start("exec", "a")
    first = alive.path
    dead = Writer(tmp_path, pid=GONE, word="d", key="agent:main:telegram:direct:7", at=START + 1)
    dead.start("exec", "b")
    dead.raw(b'{"half')
    drain(tmp_path, recorder(tmp_path))
    assert first.exists()
    assert not dead.path.exists()
    assert waiting(tmp_path).garbage == 1
    alive.rotate()
    alive.start("exec", "c")
    drain(tmp_path, recorder(tmp_path))
    assert not first.exists()
    assert alive.path.exists()
    # A process that was thought dead goes on.
    dead.raw(b"")
    dead.start("exec", "d")
    drain(tmp_path, recorder(tmp_path))
    assert calls(tmp_path) == ["a", "b", "c", "d"]


def test_files_of_several_processes_are_put_in_the_order_of_time(tmp_path: Path) -> None:
    one = Writer(tmp_path, pid=GONE, word="a")
    two = Writer(tmp_path, pid=GONE + 1, word="b", at=START + 1)
    for at in range(400):
        writer = (one, two)[at % 3 == 0]
        writer.at = START + 10 * at
        writer.start("exec", f"{at:03d}")
    drain(tmp_path, recorder(tmp_path))
    assert calls(tmp_path) == [f"{at:03d}" for at in range(400)]
    assert waiting(tmp_path).bytes == 0


def test_time_never_goes_back_within_a_process(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.start("exec", "a")
    writer.at -= 5_000
    writer.start("exec", "b")
    drain(tmp_path, recorder(tmp_path))
    times = [e["ts"] for e in queued(tmp_path)]
    assert times == sorted(times)


def test_while_another_drains_nothing_is_done(tmp_path: Path) -> None:
    Writer(tmp_path).start("exec", "a")
    with FileLock(str(tmp_path / "spool" / ".lock"), is_singleton=False):
        assert drain(tmp_path, recorder(tmp_path)) == 0
    assert drain(tmp_path, recorder(tmp_path)) == 2


def test_what_a_plugin_had_to_drop_is_known(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.start("exec", "a", dropped=7)
    writer.start("exec", "b", dropped=2)
    assert waiting(tmp_path).oldest_ms == START + 1
    drain(tmp_path, recorder(tmp_path))
    assert (waiting(tmp_path).dropped, waiting(tmp_path).records) == (9, 0)


def test_a_queue_that_cannot_be_written_loses_nothing(tmp_path: Path) -> None:
    Writer(tmp_path).start("exec", "a")
    (tmp_path / "queue").write_text("a file")
    with pytest.raises(LedgerError, match="cannot be queued"):
        drain(tmp_path, recorder(tmp_path))
    (tmp_path / "queue").unlink()
    assert drain(tmp_path, recorder(tmp_path)) == 2


def test_a_lost_state_doubles_nothing(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.start("exec", "a")
    capture = recorder(tmp_path)
    drain(tmp_path, capture)
    (tmp_path / "spool" / ".drained.json").unlink()
    writer.start("exec", "b")
    assert drain(tmp_path, capture) == 1
    assert told(queued(tmp_path)) == [("-", "session.started"), ("a", "tool.started"), ("b", "tool.started")]


@pytest.mark.parametrize("step", ["queue", "state", "offset"])
def test_a_crash_between_two_steps_repeats_the_same_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    writer = Writer(tmp_path)
    writer.prompt("Please write the release notes for this week")
    writer.start("exec", "a")
    writer.end("exec", "a")
    capture = recorder(tmp_path, caseSplitting={"by": "task"})
    place, name = {
        "queue": (capture.queue, "put"),
        "state": (capture.states, "keep"),
        "offset": (sys.modules["sherpa.capture.spool"], "_keep"),
    }[step]
    real = getattr(place, name)

    def die(*given: object) -> None:
        if step == "queue":
            real(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(place, name, die)
    with pytest.raises(KeyboardInterrupt):
        drain(tmp_path, capture)
    monkeypatch.undo()
    drain(tmp_path, capture)
    writer.write("agent_end", success=True)
    with ProceduralMemory(tmp_path) as memory:
        drain(tmp_path, capture)
        capture.queue.flush(memory.ingest_batch)
        (case,) = [row[0] for row in memory.store.case_rows() if ":task:" in row[0]]
        types = [e.type for e in memory.store.case_events(case)]
    assert types == ["task.started", "message.received", "tool.started", "tool.succeeded", "run.ended"]


WRITES = """
import sys
sys.path.insert(0, sys.argv[4])
from pathlib import Path
from tests.sherpa.capture.spooling import Writer
first = int(sys.argv[2])
writer = Writer(Path(sys.argv[1]), word=f"w{first}", key=sys.argv[3], at=1_800_000_000_000 + 10 * first)
for at in range(first, first + 300):
    writer.start("exec", f"{at:06d}")
    print(at, flush=True)
    if at % 50 == 49:
        writer.rotate()
"""
DRAINS = """
import sys
from pathlib import Path
from sherpa import ProceduralMemory
from sherpa.capture.recorder import Recorder
from sherpa.capture.spool import drain
root = Path(sys.argv[1])
print("ready", flush=True)
with ProceduralMemory(root) as memory:
    capture = Recorder(root)
    while True:
        drain(root, capture)
        capture.queue.flush(memory.ingest_batch)
"""


def run(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )


@pytest.mark.parametrize("rounds", [5, pytest.param(25, marks=pytest.mark.full)])
def test_kills_of_writers_and_drains_lose_and_double_nothing(tmp_path: Path, rounds: int) -> None:
    rng = random.Random(11)
    acknowledged: list[str] = []
    for round_ in range(rounds):
        drains = [run(DRAINS, str(tmp_path)) for _ in range(2)]
        writes = run(WRITES, str(tmp_path), str(round_ * 300), KEY, str(PROJECT))
        assert writes.stdout is not None
        lines = [writes.stdout.readline()]
        for child in drains:
            assert child.stdout is not None
            child.stdout.readline()
        time.sleep(rng.uniform(0, 0.4))
        order = [writes, *drains]
        rng.shuffle(order)
        for child in order:
            child.send_signal(signal.SIGKILL)
            time.sleep(rng.uniform(0, 0.05))
        lines += writes.stdout.readlines()
        for child in order:
            child.communicate()
        acknowledged += [f"{int(line):06d}" for line in lines if line.endswith("\n")]
    capture = Recorder(tmp_path)
    with ProceduralMemory(tmp_path) as memory:
        drain(tmp_path, capture)
        capture.queue.flush(memory.ingest_batch)
        events = memory.store.case_events(f"session:{KEY}")
    kept = [e.meta["toolCallId"] for e in events if e.type == "tool.started"]
    assert len(kept) == len(set(kept))
    # A call that was written and not yet acknowledged when its writer was killed may be there, too.
    assert set(acknowledged) <= set(kept)
    assert kept == sorted(kept)
    assert len([e for e in events if e.type == "session.started"]) == 1
    assert waiting(tmp_path).records == 0
    assert [path for path in (tmp_path / "spool").iterdir() if path.suffix in (".jsonl", ".done")] == []
