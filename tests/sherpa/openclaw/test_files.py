"""Names and places of transcripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from sherpa.errors import SourceError
from sherpa.sources.openclaw.files import Kind, find_files, read_name, state_dirs
from tests.sherpa.openclaw.transcripts import write

UUID = "07070789-57d6-d198-e6f3-3ac090ddda66"


@pytest.mark.parametrize(
    ("name", "kind", "session", "stamp"),
    [
        (f"{UUID}.jsonl", Kind.PRIMARY, UUID, ""),
        (f"{UUID}-topic-42.jsonl", Kind.PRIMARY, f"{UUID}-topic-42", ""),
        (f"{UUID}.jsonl.reset.2026-06-26T19-40-06.882Z", Kind.RESET, UUID, "2026-06-26T19-40-06.882Z"),
        (f"{UUID}.jsonl.deleted.1782530279", Kind.DELETED, UUID, "1782530279"),
        (f"{UUID}.jsonl.bak.2026-01-02T03-04-05Z", Kind.ARCHIVED_COPY, UUID, "2026-01-02T03-04-05Z"),
        (f"{UUID}.jsonl.bak-4711-1782530279123", Kind.REPAIR_COPY, UUID, "1782530279123"),
        (f"{UUID}.jsonl.corrupt-2026-01-02-deadbeef.jsonl", Kind.CORRUPT, UUID, "2026-01-02-deadbeef"),
        (f"{UUID}.checkpoint.1222d4e8-ebb4.jsonl", Kind.CHECKPOINT, UUID, "1222d4e8-ebb4"),
        (f"{UUID}.jsonl.imported-1782530279", Kind.IMPORTED, UUID, "1782530279"),
        (f"{UUID}.jsonl.backup", Kind.ARCHIVED_COPY, UUID, "backup"),
        (f"{UUID}.trajectory.jsonl", Kind.TRAJECTORY, UUID, ""),
        ("boot-2026-01-02_03-04-05-a1b2.jsonl", Kind.PRIMARY, "boot-2026-01-02_03-04-05-a1b2", ""),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_names(name: str, kind: Kind, session: str, stamp: str, packed: bool) -> None:
    found = read_name(name + ".zst" * packed)
    assert found is not None
    assert (found.kind, found.session, found.stamp, found.packed) == (kind, session, stamp, packed)


@pytest.mark.parametrize(
    "name",
    [
        f"{UUID}.trajectory-path.json",
        f"{UUID}.jsonl.repair-12-1782530279123.tmp",
        f"{UUID}.jsonl.lock",
        "sessions.json.bak.1",
        "sessions.json.telegram-messages.json",
        ".usage-cost-cache.json",
        "openclaw-agent.sqlite-wal",
        "openclaw-agent.sqlite.write-lock.sqlite",
        "openclaw-agent.generation-3.sqlite",
    ],
)
def test_side_files_are_no_transcripts(name: str) -> None:
    found = read_name(name)
    assert found is not None
    assert found.kind is Kind.SIDE


def test_the_folder_tells_cold_and_imported_transcripts() -> None:
    cold, imported = read_name("ab12.jsonl.zst", "cold"), read_name("x.jsonl", "session-sqlite-import-archive")
    assert cold is not None
    assert imported is not None
    assert (cold.kind, imported.kind) == (Kind.COLD, Kind.IMPORTED)
    assert read_name("notes.txt") is None


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory with two agents and a lot that is not theirs."""
    root = tmp_path / ".openclaw"
    for name in (
        "agents/main/sessions/a.jsonl",
        "agents/main/sessions/sessions.json",
        "agents/main/sessions/a.trajectory.jsonl",
        "agents/main/sessions/cold/ff.jsonl.zst",
        "agents/main/agent/openclaw-agent.sqlite",
        "agents/main/agent/auth-profiles.json",
        "agents/main/agent/session-sqlite-import-archive/b.jsonl.imported-1",
        "agents/helper/sessions/c.jsonl.reset.2026-01-01T00-00-00Z",
        "cron/runs/job.jsonl",
        "transcripts/2026-01-01/meeting.jsonl",
        "workspace/data/rows.jsonl",
    ):
        write(root, name, "{}\n")
    return root


EVERYTHING = {
    ("main", "agents/main/sessions/a.jsonl"),
    ("main", "agents/main/sessions/cold/ff.jsonl.zst"),
    ("main", "agents/main/agent/openclaw-agent.sqlite"),
    ("main", "agents/main/agent/session-sqlite-import-archive/b.jsonl.imported-1"),
    ("helper", "agents/helper/sessions/c.jsonl.reset.2026-01-01T00-00-00Z"),
}


def test_a_state_directory(state: Path) -> None:
    found = find_files(state)
    assert {(f.agent, f.shown) for f in found.files} == EVERYTHING
    assert [f.shown for f in found.indexes] == ["agents/main/sessions/sessions.json"]
    assert found.skipped == [("agents/main/sessions/a.trajectory.jsonl", "trajectory: records runs, not the session")]


def test_an_agent_a_sessions_folder_a_store_and_a_file(state: Path) -> None:
    agent = find_files(state / "agents" / "main")
    assert {(f.agent, f"agents/main/{f.shown}") for f in agent.files} == {e for e in EVERYTHING if e[0] == "main"}
    sessions = find_files(state / "agents/helper/sessions")
    assert [(f.agent, f.shown) for f in sessions.files] == [("helper", "c.jsonl.reset.2026-01-01T00-00-00Z")]
    store = find_files(state / "agents/main/agent/openclaw-agent.sqlite")
    assert [(f.agent, f.name.kind) for f in store.files] == [("main", Kind.DATABASE)]
    file = find_files(state / "agents/main/sessions/a.jsonl")
    assert [(f.agent, f.name.kind) for f in file.files] == [("main", Kind.PRIMARY)]


def test_a_folder_of_installations_tells_the_hosts_apart(state: Path) -> None:
    found = find_files(state.parent)
    assert {f.host for f in found.files} == {".openclaw"}
    assert len(found.files) == len(EVERYTHING)


def test_the_local_installation(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="OPENCLAW_STATE_DIR"):
        find_files(environment={"HOME": str(tmp_path)})
    write(tmp_path, ".clawdbot/agents/main/sessions/old.jsonl", "{}\n")
    write(tmp_path, ".openclaw/agents/main/sessions/new.jsonl", "{}\n")
    assert state_dirs({"HOME": str(tmp_path)}) == [tmp_path / ".openclaw", tmp_path / ".clawdbot"]
    found = find_files(environment={"HOME": str(tmp_path)})
    assert [f.name.session for f in found.files] == ["new", "old"]
    named = {"HOME": str(tmp_path), "OPENCLAW_STATE_DIR": str(tmp_path / ".clawdbot")}
    assert [f.name.session for f in find_files(environment=named).files] == ["old"]


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such file"):
        find_files(tmp_path / "gone")
    with pytest.raises(SourceError, match="holds no OpenClaw transcripts"):
        find_files(tmp_path)
    with pytest.raises(SourceError, match="records runs"):
        find_files(write(tmp_path, "x.trajectory.jsonl", "{}\n"))
    with pytest.raises(SourceError, match="is not a transcript"):
        find_files(write(tmp_path, "notes.txt", "hello"))


def test_a_copy_is_read_when_it_is_named(tmp_path: Path) -> None:
    found = find_files(write(tmp_path, "x.jsonl.bak-1-2", "{}\n"))
    assert [(f.name.kind, f.name.session) for f in found.files] == [(Kind.PRIMARY, "x")]
