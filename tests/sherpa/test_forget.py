"""A case that is forgotten is gone: from the ledger, the graph, exports, and every answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from sherpa import ProceduralMemory
from sherpa.capture.recorder import Recorder
from sherpa.capture.scope import Session
from sherpa.cli.main import app
from sherpa.configuration import configure
from sherpa.derive import DERIVED
from sherpa.errors import StoreError
from tests.conftest import PROJECT

SECRET = 'session:Zoë "9"'
NAMES = st.sampled_from(["start", "work", "task.completed", "task.failed"])


def events(case: str, names: list[str], *, first: int = 0, day: int = 1) -> list[dict[str, Any]]:
    return [
        {
            "eventId": f"{case}#{at}",
            "caseId": case,
            "source": "test",
            "type": name,
            "ts": f"2026-01-{day:02d}T00:{first:02d}:{at:02d}.000Z",
            "labels": ["workflow:release"],
            "actor": "user" if at % 3 == 2 else "agent",
        }
        for at, name in enumerate(names)
    ]


def tables(memory: ProceduralMemory) -> dict[str, Any]:
    # Sequence numbers keep the places of what is gone.
    found = {table: memory.store.rows(table) for table in DERIVED}
    found["events"] = [row[:-2] for row in found["events"]]
    return found


def bytes_of(root: Path) -> bytes:
    return b"\n".join(path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file())


@given(
    st.lists(st.lists(NAMES, min_size=1, max_size=5), min_size=1, max_size=5),
    st.lists(NAMES, min_size=1, max_size=5),
    st.integers(0, 5),
)
@settings(max_examples=40)
def test_the_graph_is_that_of_a_memory_that_never_knew_it(
    tmp_path_factory: pytest.TempPathFactory, others: list[list[str]], gone: list[str], minute: int
) -> None:
    folder = tmp_path_factory.mktemp("forget")
    rest = [event for at, names in enumerate(others) for event in events(f"case-{at}", names, first=at, day=1 + at % 2)]
    with ProceduralMemory(folder / "a") as memory, ProceduralMemory(folder / "b") as never:
        memory.ingest_batch([*rest, *events(SECRET, gone, first=minute)])
        never.ingest_batch(rest)
        memory.forget(SECRET)
        assert tables(memory) == tables(never)
        memory.rebuild()
        assert tables(memory) == tables(never)


def test_no_byte_of_it_is_left(tmp_path: Path) -> None:
    secret = [e | {"meta": {"note": "xyzzy-7"}, "type": f"plugh.{e['type']}"} for e in events(SECRET, ["a", "b"])]
    with ProceduralMemory(tmp_path) as memory:
        memory.ingest_batch([*events("other", ["a", "b", "c"]), *secret])
        memory.export()
        found = memory.forget(SECRET)
        assert found["removedEvents"] == 2
        assert len(found["removedExports"]) == 1
        memory.gc()
        memory.export()
        for report in (memory.taxonomy_report(), memory.analytics_report(), memory.status()):
            assert "plugh" not in json.dumps(report)
    everything = bytes_of(tmp_path)
    for text in (SECRET, json.dumps(SECRET), "Zoë", "Zo\\u00eb", "xyzzy-7", "plugh", '"9\\"'):
        assert text.encode() not in everything, text
    assert b"other" in everything


def test_it_does_not_come_back_with_a_snapshot(tmp_path: Path) -> None:
    with ProceduralMemory(tmp_path / "a") as memory:
        memory.ingest_batch([*events("other", ["a"]), *events(SECRET, ["a", "b"])])
        kept = tmp_path / "kept.json"
        kept.write_bytes(Path(memory.export()["exportPath"]).read_bytes())
        memory.forget(SECRET)
        found = memory.import_snapshot(kept)
        assert (found["added"], found["skipped"], found["forgotten"]) == (0, 1, 2)
        assert memory.store.case_types(SECRET) == ()


def test_what_waits_to_be_stored_goes_too(tmp_path: Path) -> None:
    configuration = configure({"caseSplitting": {"by": "task"}, "ledger": {"redactRawText": False}})
    recorder = Recorder(tmp_path, configuration, clock=lambda: 1_800_000_000 * 10**9)
    session = Session("agent:main:x:direct:plugh")
    recorder.message(session, "Please look after the xyzzy of this house")
    with ProceduralMemory(tmp_path) as memory:
        recorder.queue.flush(memory.ingest_batch)
        (case,) = [row[0] for row in memory.store.case_rows()]
        recorder.tool(session, "started", "exec")
        assert len(recorder.queue) == 1
        assert memory.forget(case)["removedEvents"] == 3
        assert len(recorder.queue) == 0
        memory.gc()
    everything = bytes_of(tmp_path)
    for text in ("plugh", "xyzzy", case):
        assert text.encode() not in everything, text


def test_it_may_begin_anew(tmp_path: Path) -> None:
    with ProceduralMemory(tmp_path) as memory:
        memory.ingest_batch(events(SECRET, ["a", "b"]))
        memory.forget(SECRET)
        memory.ingest_batch(events(SECRET, ["c"]))
    with ProceduralMemory(tmp_path) as memory:
        assert memory.store.case_types(SECRET) == ("c",)


def test_an_unknown_case_is_an_error(tmp_path: Path) -> None:
    with ProceduralMemory(tmp_path) as memory, pytest.raises(StoreError, match="no case 'nobody' is known"):
        memory.forget("nobody")
    result = CliRunner().invoke(app, ["--root", str(tmp_path), "forget", "--case", "nobody"])
    assert result.exit_code == 2


def test_a_broken_line_of_it_goes_too(tmp_path: Path) -> None:
    with ProceduralMemory(tmp_path) as memory:
        memory.ingest_batch([*events("other", ["a"]), *events(SECRET, ["a"])])
    segment = tmp_path / "events" / "2026-01-01.jsonl"
    broken = b'{"eventId":"x","caseId":' + json.dumps(SECRET, ensure_ascii=False).encode() + b',"type":\n'
    segment.write_bytes(segment.read_bytes() + broken + b'{"caseId":"other","half\n')
    with ProceduralMemory(tmp_path) as memory:
        memory.forget(SECRET)
        lines = segment.read_bytes().splitlines()
        assert len(lines) == 2
        assert lines[1] == b'{"caseId":"other","half'


KILLED = """
import os, signal, sys
import sherpa.ledger as ledger
from sherpa import ProceduralMemory
from sherpa.capture.recorder import Recorder
from sherpa.capture.scope import Session
at, done = int(sys.argv[2]), 0
def die(function):
    def wrapped(*arguments, **given):
        global done
        done += 1
        if done == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **given)
    return wrapped
with ProceduralMemory(sys.argv[1]) as memory:
    ledger.os.replace = die(os.replace)
    ledger.os.fsync = die(os.fsync)
    memory.store.transaction = die(memory.store.transaction)
    memory.forget(sys.argv[3])
"""


def test_a_removal_that_is_killed_is_finished_by_the_next_opening(tmp_path: Path) -> None:
    names = ["start", "work", "task.completed"]
    killed = 0
    for at in range(1, 40):
        root = tmp_path / str(at)
        with ProceduralMemory(root) as memory:
            for day in (1, 2, 3):
                memory.ingest_batch([*events(f"other-{day}", names, day=day)])
            memory.ingest_batch(
                [e | {"ts": f"2026-01-0{1 + n}T00:00:30.000Z"} for n, e in enumerate(events(SECRET, names))]
            )
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(root), str(at), SECRET],
            env={**os.environ, "PYTHONPATH": str(PROJECT)},
            check=False,
        )
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
        killed += 1
        begun = (root / "events" / "forgotten.tombstones").exists() and memory.ledger.tombstones.all()
        with ProceduralMemory(root) as memory:
            types = memory.store.case_types(SECRET)
            assert types in ((), tuple(names))
            # Once the tombstone stands, the case is gone for good.
            assert not (begun and types)
            for day in (1, 2, 3):
                assert memory.store.case_types(f"other-{day}") == tuple(names)
            kept = tables(memory)
            memory.rebuild()
            assert tables(memory) == kept
    assert killed >= 8
