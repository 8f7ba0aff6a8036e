"""Sessions into a memory, once and as they grow."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sherpa.memory import ProceduralMemory
from sherpa.sources.openclaw import Mapping, ReadOptions, load_taxonomy
from sherpa.sources.openclaw.importer import Follower, follow, import_sessions
from tests.sherpa.openclaw.transcripts import Script, events_of, make_store, write

TAXONOMY = load_taxonomy()
NAME = "07070789-57d6-d198-e6f3-3ac090ddda66"


def session(turns: int = 3) -> Script:
    script = Script(NAME)
    for turn in range(turns):
        script.user(f"turn {turn}")
        script.calls((f"c{turn}", "exec", {"command": "git pull"}))
        script.result(f"c{turn}", "exec")
        script.reply()
    return script


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[ProceduralMemory]:
    with ProceduralMemory(tmp_path / "memory") as memory:
        yield memory


def stored(memory: ProceduralMemory) -> list[str]:
    """Types of the events of the session, in order."""
    return [e.type for e in memory.store.case_events(f"session:{NAME}", None)]


def types(path: Path) -> list[str]:
    return [t for _, _, t, _ in events_of(path)]


def test_running_it_again_adds_nothing(memory: ProceduralMemory, tmp_path: Path) -> None:
    path = write(tmp_path, "s/agents/main/sessions/x.jsonl", session().text())
    done = import_sessions(memory, tmp_path / "s", Mapping(), ReadOptions(), TAXONOMY)
    assert (done.sessions, done.events, done.stored, done.present) == (1, 13, 13, 0)
    assert stored(memory) == types(path)
    again = import_sessions(memory, tmp_path / "s", Mapping(), ReadOptions(), TAXONOMY)
    assert (again.stored, again.present) == (0, 13)
    path.rename(path.with_name(f"{NAME}.jsonl.reset.2026-03-03T00-00-00Z"))
    moved = import_sessions(memory, tmp_path / "s", Mapping(), ReadOptions(), TAXONOMY)
    assert (moved.stored, moved.present) == (1, 13)
    assert stored(memory)[-1] == "session.ended"


def test_the_memory_predicts_what_it_imported(memory: ProceduralMemory, tmp_path: Path) -> None:
    write(tmp_path, "s/x.jsonl", session(5).text())
    import_sessions(memory, tmp_path / "s", Mapping(), ReadOptions(), TAXONOMY)
    answer = memory.workflow_next(f"session:{NAME}")
    assert answer.candidates[0].event == "message.user.inbound"


def test_a_growing_transcript_is_followed_line_by_line(memory: ProceduralMemory, tmp_path: Path) -> None:
    data = session().text().encode()
    path = write(tmp_path, "s/x.jsonl", b"")
    follower = Follower(memory, tmp_path / "s", Mapping(), ReadOptions(), TAXONOMY)
    step = 300
    for end in range(0, len(data) + step, step):
        path.write_bytes(data[:end])
        follower.look()
        whole = data[:end].count(b"\n")
        assert len(stored(memory)) == whole
    assert stored(memory) == types(path)
    assert follower.look() is None


def test_each_look_reads_only_what_is_new(
    memory: ProceduralMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sherpa.sources.openclaw.replay as replay

    fed: list[str] = []
    feed = replay.Replay.feed

    def counting(self: replay.Replay, row: object, line: bytes, **more: object) -> object:
        fed.append(json.loads(line)["id"])
        return feed(self, row, line, **more)

    monkeypatch.setattr(replay.Replay, "feed", counting)
    lines = session().lines()
    path = write(tmp_path, "s/x.jsonl", "".join(f"{line}\n" for line in lines[:5]))
    follower = Follower(memory, tmp_path / "s", Mapping(), ReadOptions(), TAXONOMY)
    follower.look()
    fed.clear()
    with path.open("a") as file:
        file.write("".join(f"{line}\n" for line in lines[5:8]))
    found = follower.look()
    assert len(fed) == 3
    assert found is not None
    assert (found.sessions, found.events, found.stored) == (1, 3, 3)


def test_a_transcript_that_is_rotated_while_it_is_followed(memory: ProceduralMemory, tmp_path: Path) -> None:
    lines = [f"{line}\n" for line in session().lines()]
    path = write(tmp_path, f"s/{NAME}.jsonl", "".join(lines[:5]))
    follower = Follower(memory, tmp_path / "s", Mapping(), ReadOptions(), TAXONOMY)
    follower.look()
    path.rename(path.with_name(f"{NAME}.jsonl.reset.2026-03-03T00-00-00Z"))
    write(tmp_path, f"s/{NAME}.jsonl", "".join(lines[5:9]))
    follower.look()
    assert len(stored(memory)) == 10
    assert "session.reset" in stored(memory)


@pytest.mark.parametrize("rest", ["", "shorter"])
def test_a_transcript_that_shrank_takes_nothing_away(memory: ProceduralMemory, tmp_path: Path, rest: str) -> None:
    script = session()
    path = write(tmp_path, f"s/{NAME}.jsonl", script.text())
    follower = Follower(memory, tmp_path / "s", Mapping(), ReadOptions(), TAXONOMY)
    follower.look()
    before = stored(memory)
    path.write_text("" if not rest else "".join(f"{line}\n" for line in script.lines()[:3]))
    follower.look()
    assert stored(memory) == before
    script.user("more")
    path.write_text(script.text())
    follower.look()
    assert stored(memory) == [*before, "message.user.inbound"]


def test_a_store_that_is_being_written_is_followed(memory: ProceduralMemory, tmp_path: Path) -> None:
    lines = session().lines()
    path = make_store(tmp_path / "s/openclaw-agent.sqlite", {NAME: lines[:5]})
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    follower = Follower(memory, tmp_path / "s", Mapping(), ReadOptions(), TAXONOMY)
    follower.look()
    assert len(stored(memory)) == 5
    for seq in range(5, len(lines)):
        writer.execute("INSERT INTO transcript_events VALUES (?, ?, ?, 1)", (NAME, seq, lines[seq]))
        follower.look()
        assert len(stored(memory)) == seq + 1
    writer.close()


def test_a_store_whose_rows_were_rewritten_is_read_again(memory: ProceduralMemory, tmp_path: Path) -> None:
    lines = session().lines()
    path = make_store(tmp_path / "s/openclaw-agent.sqlite", {NAME: lines[:5]})
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("CREATE TABLE transcript_rewrite_watermarks (session_id TEXT, generation TEXT)")
    db.execute("INSERT INTO transcript_rewrite_watermarks VALUES (?, 'a')", (NAME,))
    follower = Follower(memory, tmp_path / "s", Mapping(), ReadOptions(), TAXONOMY)
    follower.look()
    db.execute("DELETE FROM transcript_events WHERE seq > 2")
    db.executemany("INSERT INTO transcript_events VALUES (?, ?, ?, 1)", [(NAME, seq, lines[seq + 2]) for seq in (3, 4)])
    db.execute("UPDATE transcript_rewrite_watermarks SET generation = 'b'")
    db.close()
    follower.look()
    whole = types(write(tmp_path, "whole.jsonl", "\n".join(lines[:7]) + "\n"))
    # The rewritten store has lost the result of the call; what was stored of it stays.
    assert sorted(stored(memory)) == sorted([*whole, "tool.exec.unresolved"])


def test_following_waits_between_looks_and_for_things_to_come(memory: ProceduralMemory, tmp_path: Path) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        write(tmp_path, "s/x.jsonl", session(len(slept)).text())

    follower = Follower(memory, tmp_path / "s", Mapping(), ReadOptions(), TAXONOMY)
    ticks = iter(range(100))
    timer: Callable[[], float] = lambda: float(next(ticks))  # noqa: E731
    found = list(follow(follower, interval=2, rounds=3, sleep=sleep, timer=timer))
    assert [f.stored for f in found] == [5, 4]
    # A look of a second is followed by five seconds of rest.
    assert slept == [5, 5]
