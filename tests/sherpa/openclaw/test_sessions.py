"""Sessions from files, archives and stores of every generation."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from sherpa.sources.openclaw import Installation, ReadOptions
from sherpa.sources.openclaw.inspect import inspect
from tests.sherpa.openclaw.transcripts import Script, events_of, make_store, packed, session_of, shown, write

UUID = "07070789-57d6-d198-e6f3-3ac090ddda66"


def work(session: str = UUID, *, second: int = 0, turns: int = 2, header: bool = True) -> Script:
    """A session of a few turns."""
    script = Script(session, second=second, header=header)
    for turn in range(turns):
        script.user(f"turn {turn}")
        script.calls((f"c{turn}", "exec", {"command": "git pull"}))
        script.result(f"c{turn}", "exec", {"status": "completed", "exitCode": turn % 2})
        script.reply()
    return script


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    return tmp_path / "agents" / "main" / "sessions"


def test_checkpoints_backups_and_trajectories_add_nothing(sessions: Path, tmp_path: Path) -> None:
    text = work().text()
    write(sessions, f"{UUID}.jsonl", text)
    alone = events_of(tmp_path)
    for name in (
        f"{UUID}.checkpoint.1111.jsonl",
        f"{UUID}.jsonl.bak-1-1782530279123",
        f"{UUID}.jsonl.bak.2026-01-01T00-00-00Z",
        f"{UUID}.jsonl.corrupt-2026-deadbeef.jsonl",
        f"{UUID}.jsonl.backup",
        f"{UUID}.trajectory.jsonl",
        f"{UUID}.jsonl.repair-1-2.tmp",
    ):
        write(sessions, name, text)
    assert events_of(tmp_path) == alone
    with Installation(tmp_path) as installation:
        reasons = dict(installation.skipped)
        report = inspect(installation)
    assert len(reasons) == 7
    assert (
        reasons[f"agents/main/sessions/{UUID}.checkpoint.1111.jsonl"] == f"checkpoint of session {UUID}, which is read"
    )
    assert report["totals"]["kinds"] == {
        "archived-copy": 2,
        "checkpoint": 1,
        "corrupt": 1,
        "primary": 1,
        "repair-copy": 1,
    }
    assert report["totals"]["counts"]["toolCalls"] == 2


def test_of_copies_without_an_original_the_best_is_read(sessions: Path, tmp_path: Path) -> None:
    lines = work(turns=3).lines()

    def put(name: str, number: int) -> None:
        write(sessions, name, "".join(line + "\n" for line in lines[:number]))

    put(f"{UUID}.jsonl.corrupt-1-x.jsonl", 13)
    assert len(events_of(tmp_path)) == 13
    put(f"{UUID}.checkpoint.aaaa.jsonl", 5)
    put(f"{UUID}.checkpoint.bbbb.jsonl", 9)
    assert len(events_of(tmp_path)) == 9
    put(f"{UUID}.jsonl.bak-7-1782530279123", 11)
    put(f"{UUID}.jsonl.bak-9-1782530270000", 12)
    assert len(events_of(tmp_path)) == 11
    with Installation(tmp_path) as installation:
        assert len(installation.skipped) == 4


def test_windows_of_one_session_in_order_of_time(sessions: Path, tmp_path: Path) -> None:
    """The live tail has no header; names and file times say nothing about the order."""
    first, second = work(second=0), work(second=5000)
    third = work(second=9000, header=False)
    write(sessions, f"{UUID}.jsonl", third.text())
    write(sessions, f"{UUID}.jsonl.reset.2026-03-03T00-00-00Z", first.text())
    write(sessions, f"{UUID}.jsonl.reset.2026-03-01T00-00-00Z", second.text())
    for at, path in enumerate(sorted(sessions.iterdir())):
        os.utime(path, (at, at))
    found = events_of(tmp_path)
    types = [t for _, _, t, _ in found]
    assert len(found) == len({e for _, e, _, _ in found}) == 1 + 3 * 8 + 2
    assert [at for at, t in enumerate(types) if t == "session.reset"] == [9, 18]
    assert {c for c, _, _, _ in found} == {f"session:{UUID}"}


def test_a_deleted_session_has_ended_and_can_be_left_out(sessions: Path, tmp_path: Path) -> None:
    write(sessions, f"{UUID}.jsonl.deleted.2026-03-03T00-00-00Z", work().text())
    write(sessions, "other.jsonl", work("other").text())
    found = events_of(tmp_path)
    assert [e for e in found if e[2] == "session.ended"] == [
        (f"session:{UUID}", f"oc:{UUID}:session:ended", "session.ended", "unknown")
    ]
    assert {c for c, _, _, _ in events_of(tmp_path, archives=False)} == {"session:other"}


def test_compressed_archives(sessions: Path, tmp_path: Path) -> None:
    write(sessions, f"{UUID}.jsonl.reset.2026-03-03T00-00-00Z", work().text())
    plain = events_of(tmp_path)
    (sessions / f"{UUID}.jsonl.reset.2026-03-03T00-00-00Z").unlink()
    data = packed(work().text())
    path = write(sessions, f"{UUID}.jsonl.reset.2026-03-03T00-00-00Z.zst", data)
    assert events_of(tmp_path) == plain
    path.unlink()
    write(sessions, "cold/0123abcd.jsonl.zst", data)
    assert [e for e in events_of(tmp_path) if e[2] != "session.ended"] == plain[:-1]


def test_a_damaged_archive_gives_what_is_left_of_it(sessions: Path, tmp_path: Path) -> None:
    text = work(turns=4000).text()
    data = packed(text)
    write(sessions, f"{UUID}.jsonl.deleted.1.zst", data[: len(data) // 2])
    write(sessions, "empty.jsonl.deleted.1.zst", b"\x28\xb5\x2f\xfd")
    with Installation(tmp_path) as installation:
        report = inspect(installation)
    assert report["totals"]["losses"] == {"undecodable": 2}
    assert 0 < report["totals"]["counts"]["entries"] < 16_000


def test_without_a_decoder_archives_are_counted_as_lost(
    sessions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    write(sessions, f"{UUID}.jsonl.deleted.1.zst", packed(work().text()))
    write(sessions, "other.jsonl", work("other").text())
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with Installation(tmp_path) as installation:
        report = inspect(installation)
    assert report["totals"]["losses"] == {"undecodable": 1}
    assert report["totals"]["counts"]["toolCalls"] == 2


def test_identity_is_that_of_the_header(sessions: Path, tmp_path: Path) -> None:
    write(sessions, f"{UUID}-topic-42.jsonl", work().text())
    write(sessions, "boot-2026-01-02_x-ab.jsonl", work("real-id").text())
    with Installation(tmp_path) as installation:
        assert [s.session for s in installation.sessions] == [f"{UUID}-topic-42", "real-id"]


def test_the_agent_is_that_of_the_path(tmp_path: Path) -> None:
    write(tmp_path, "agents/helper/sessions/chat.jsonl", work("chat").text())
    write(tmp_path, "agents/main/sessions/chat.jsonl", work("chat", second=7).text())
    write(tmp_path, f"agents/helper/sessions/{UUID}.jsonl", work().text())
    with Installation(tmp_path) as installation:
        assert {(s.agent, s.name) for s in installation.sessions} == {
            ("helper", "helper:chat"),
            ("main", "chat"),
            ("helper", UUID),
        }


def index(**entry: Any) -> str:
    return json.dumps({"agent:main:cron:12-ab": {"sessionId": UUID, "sessionFile": "C:\\elsewhere\\x.jsonl", **entry}})


def test_the_index_adds_what_it_knows_and_is_never_needed(sessions: Path, tmp_path: Path) -> None:
    write(sessions, f"{UUID}.jsonl", work().text())
    plain = events_of(tmp_path)
    for broken in ("<<<<<<< HEAD\n{}", "[]", '{"x": 1}', index(sessionId=7)):
        write(sessions, "sessions.json", broken)
        assert events_of(tmp_path) == plain
    write(sessions, "sessions.json", index(status="failed", spawnedBy="agent:main:main"))
    found = events_of(tmp_path)
    assert found[:-1] == plain
    assert found[-1][2:] == ("session.ended", "failure")
    with Installation(tmp_path) as installation:
        [session] = installation.sessions
        assert (session.about.kind, session.about.status) == ("cron", "failed")


def test_a_spawned_session_is_linked_to_the_one_that_spawned_it(sessions: Path, tmp_path: Path) -> None:
    parent = work("11111111-57d6-d198-e6f3-3ac090ddda66")
    parent.calls(("s", "sessions_spawn", {"task": "look it up"}))
    parent.result("s", "sessions_spawn", {"status": "accepted", "childSessionKey": "agent:main:subagent:9"})
    write(sessions, "parent.jsonl", parent.text())
    write(sessions, f"{UUID}.jsonl", work(second=100).text())
    entries = {
        "agent:main:main": {"sessionId": "11111111-57d6-d198-e6f3-3ac090ddda66"},
        "agent:main:subagent:9": {"sessionId": UUID, "spawnedBy": "agent:main:main"},
    }
    write(sessions, "sessions.json", json.dumps(entries))
    with Installation(tmp_path) as installation:
        first, second = installation.sessions
        assert second.parent == first.session
        steps = list(first.steps())
        assert first.children == ("agent:main:subagent:9",)
    assert shown(steps[-1]) == "sessions_spawn.running"
    assert steps[-1].meta["childSessionKey"] == "agent:main:subagent:9"


# -- stores ------------------------------------------------------------------------------------------------------


def test_a_store_gives_the_events_of_the_transcript_it_holds(tmp_path: Path) -> None:
    scripts = [work("one"), work("two", second=60)]
    for script in scripts:
        write(tmp_path / "jsonl/agents/main/sessions", f"{script.session}.jsonl", script.text())
    expected = events_of(tmp_path / "jsonl")
    lines = {s.session: s.lines() for s in scripts}
    plain = make_store(tmp_path / "plain/agents/main/agent/openclaw-agent.sqlite", lines)
    zipped = make_store(tmp_path / "packed/agents/main/agent/openclaw-agent.sqlite", lines, version=23, pack=True)
    for path in (tmp_path / "plain", plain, tmp_path / "packed", zipped):
        assert events_of(path) == expected


def test_the_times_of_the_store_stand_in_for_missing_ones(tmp_path: Path) -> None:
    script = work("one")
    for row in script.rows:
        row.pop("timestamp")
        row.get("message", {}).pop("timestamp", None)
    make_store(tmp_path / "openclaw-agent.sqlite", {"one": script.lines()})
    with Installation(tmp_path) as installation:
        [session] = installation.sessions
        instants = [s.instant for s in session.steps()]
        assert session.counts.untimed == 9
    assert instants[0] == 1_772_323_200_000_000_000
    assert instants == sorted(instants)


def test_a_newer_schema_is_read_with_a_warning(tmp_path: Path) -> None:
    columns = "session_id TEXT, seq INTEGER, event_json TEXT, created_at INTEGER, novelty TEXT DEFAULT NULL"
    path = tmp_path / "openclaw-agent.sqlite"
    db = sqlite3.connect(path)
    db.execute(f"CREATE TABLE transcript_events ({columns})")
    db.execute("PRAGMA user_version = 99")
    rows = [("one", at, line, None) for at, line in enumerate(work("one").lines())]
    db.executemany("INSERT INTO transcript_events (session_id, seq, event_json, created_at) VALUES (?, ?, ?, ?)", rows)
    db.commit()
    db.close()
    with Installation(path) as installation:
        assert [len(list(s.steps())) for s in installation.sessions] == [9]
        assert "schema 99 is newer" in installation.warnings[0]


def test_leftovers_beside_a_store_add_only_what_it_lacks(tmp_path: Path) -> None:
    script = work(turns=4)
    agent = tmp_path / "agents/main"
    make_store(agent / "agent/openclaw-agent.sqlite", {UUID: script.lines()})
    alone = events_of(tmp_path)
    half = "".join(line + "\n" for line in script.lines()[:9])
    write(agent, f"sessions/{UUID}.jsonl", half)
    write(agent, f"agent/session-sqlite-import-archive/{UUID}.jsonl.imported-1782530279", half)
    found = events_of(tmp_path)
    assert found == alone
    with Installation(tmp_path) as installation:
        assert [reason for _, reason in installation.skipped] == [f"imported of session {UUID}, which is read"]
    write(agent, "sessions/older.jsonl", work("older").text())
    assert len(events_of(tmp_path)) == len(alone) + 9


def test_imported_transcripts_are_read_when_the_store_is_gone(tmp_path: Path) -> None:
    agent = tmp_path / "agents/main"
    write(agent, f"agent/session-sqlite-import-archive/{UUID}.jsonl.imported-1782530279", work().text())
    write(agent, "agent/openclaw-agent.sqlite", b"not a database")
    assert len(events_of(tmp_path)) == 9
    with Installation(tmp_path) as installation:
        assert "cannot be read as a store" in dict(installation.skipped)["agents/main/agent/openclaw-agent.sqlite"]


def test_a_store_without_transcripts_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "agents/main/agent/openclaw-agent.sqlite"
    path.parent.mkdir(parents=True)
    sqlite3.connect(path).executescript("CREATE TABLE auth_profile_store (x); PRAGMA user_version = 1")
    write(tmp_path, "agents/main/sessions/a.jsonl", work("a").text())
    with Installation(tmp_path) as installation:
        assert [s.session for s in installation.sessions] == ["a"]
        assert ("agents/main/agent/openclaw-agent.sqlite", "store without transcripts") in installation.skipped


@pytest.mark.parametrize("encoding", ["identity", "zstd"])
def test_archives_inside_a_store(tmp_path: Path, encoding: str) -> None:
    path = make_store(tmp_path / "openclaw-agent.sqlite", {"live": work("live").lines()}, version=23)
    db = sqlite3.connect(path)
    db.execute(
        "CREATE TABLE session_transcript_archives (session_id TEXT, generation TEXT, session_key TEXT, reason TEXT, "
        "encoding TEXT, archive_blob BLOB, archive_name TEXT, created_at INTEGER)"
    )
    text = work("gone", second=50).text()
    blob = packed(text) if encoding == "zstd" else text.encode()
    row = ("gone", "1", "agent:main:x", "deleted", encoding, blob, "gone.jsonl.deleted.1", 1)
    db.execute("INSERT INTO session_transcript_archives VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    db.execute(
        "CREATE TABLE session_transcript_cold_archives "
        "(session_id TEXT, archive_name TEXT, storage TEXT, archive_blob BLOB)"
    )
    cold = [("cold", "c.jsonl.zst", "sqlite", packed(work("cold", second=90).text())), ("file", "f.zst", "file", None)]
    db.executemany("INSERT INTO session_transcript_cold_archives VALUES (?, ?, ?, ?)", cold)
    db.commit()
    db.close()
    found = events_of(path)
    assert {c for c, _, _, _ in found} == {"session:live", "session:gone", "session:cold"}
    assert len(found) == 9 + 10 + 9


def test_windows_of_a_store_say_how_a_session_ended(tmp_path: Path) -> None:
    path = make_store(tmp_path / "openclaw-agent.sqlite", {"one": work("one").lines()}, version=23)
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE session_windows (session_id TEXT, session_key TEXT, status TEXT, ended_at INTEGER)")
    db.execute("INSERT INTO session_windows VALUES ('one', 'agent:main:telegram:direct:7', 'timeout', 5)")
    db.commit()
    db.close()
    with Installation(path) as installation:
        [session] = installation.sessions
        assert (session.about.kind, session.about.outcome) == ("direct", "failure")
    assert events_of(path)[-1][2:] == ("session.ended", "failure")


def test_a_row_that_cannot_be_read_is_counted(tmp_path: Path) -> None:
    lines = work("one").lines()
    lines[3] = "undefined"
    path = make_store(tmp_path / "openclaw-agent.sqlite", {"one": lines}, version=23, pack=True)
    db = sqlite3.connect(path)
    db.execute("UPDATE transcript_events SET event_zstd = ? WHERE seq = 5", (b"no frame",))
    db.commit()
    db.close()
    with Installation(path) as installation:
        report = inspect(installation)
    assert report["totals"]["losses"] == {"malformed": 1, "undecodable": 1}
    assert report["files"][0]["lossLines"] == {"malformed": [3], "undecodable": [5]}


def fingerprint(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        path.relative_to(folder).as_posix(): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_live_store_is_read_without_a_trace(tmp_path: Path) -> None:
    """Rows that are only in the log of a writer count; no file is made, touched or locked."""
    path = make_store(tmp_path / "s/openclaw-agent.sqlite", {"one": work("one").lines()[:5]})
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("PRAGMA wal_autocheckpoint = 0")
    rows = [("one", at, line, None) for at, line in enumerate(work("one").lines())][5:]
    writer.executemany("INSERT INTO transcript_events VALUES (?, ?, ?, ?)", rows)
    writer.execute("BEGIN IMMEDIATE")
    before = fingerprint(tmp_path)
    assert any(name.endswith("-wal") for name in before)
    assert len(events_of(tmp_path)) == 9
    assert fingerprint(tmp_path) == before
    writer.execute("INSERT INTO transcript_events VALUES ('one', 99, '{}', 1)")
    writer.execute("COMMIT")
    writer.close()


def test_a_store_at_rest_is_read_without_a_trace(tmp_path: Path) -> None:
    path = make_store(tmp_path / "s/openclaw-agent.sqlite", {"one": work("one").lines()})
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("INSERT INTO transcript_events VALUES ('two', 0, '{}', 1)")
    db.commit()
    db.close()
    before = fingerprint(tmp_path)
    os.chmod(path.parent, 0o500)
    try:
        assert len(events_of(path)) == 10
    finally:
        os.chmod(path.parent, 0o700)
    assert fingerprint(tmp_path) == before


# -- the tree ----------------------------------------------------------------------------------------------------


def test_rows_off_the_path_can_be_marked_or_left_out(sessions: Path, tmp_path: Path) -> None:
    script = work("one", turns=1)
    fork = script.rows[-1]["id"]
    script.user("never mind")
    script.user("something else", parentId=fork)
    write(sessions, "one.jsonl", script.text())
    assert len(events_of(tmp_path)) == 7
    kept = events_of(tmp_path, active_only=True)
    assert len(kept) == 6
    with Installation(tmp_path, ReadOptions(label_abandoned=True)) as installation:
        [session] = installation.sessions
        marked = [s.row for s in session.steps() if "branch:abandoned" in s.labels]
        assert marked == [script.rows[-2]["id"]]
        assert session.counts.abandoned == 1
    with Installation(tmp_path) as installation:
        alone = session_of(installation.parts[0], installation)
        assert not [s for s in alone.steps() if s.labels and "branch:abandoned" in s.labels]
        assert alone.counts.abandoned == 1


def test_the_order_of_sessions_is_fixed(tmp_path: Path) -> None:
    for at, name in enumerate(["z", "a", "m"]):
        write(tmp_path, f"agents/main/sessions/{name}.jsonl", work(name, second=100 * at).text())
    write(tmp_path, "agents/main/sessions/empty.jsonl", "")
    write(tmp_path, "agents/main/sessions/untimed.jsonl", '{"type":"message","id":"x","message":{"role":"user"}}\n')
    with Installation(tmp_path) as installation:
        assert [s.session for s in installation.sessions] == ["z", "a", "m", "untimed"]
        assert installation.skipped == [("agents/main/sessions/empty.jsonl", "empty")]
