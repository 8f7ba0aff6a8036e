"""Real transcripts and a real store, against an independent count and what is known to have happened."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from sherpa.sources.openclaw import Installation
from sherpa.sources.openclaw.database import opened
from sherpa.sources.openclaw.inspect import inspect
from tests.sherpa.openclaw.transcripts import events_of, make_store, packed, shown, tools, write

FIELDS = {
    "lines": "lines",
    "entries": "entries",
    "user": "user",
    "assistant": "assistant",
    "tool_calls": "toolCalls",
    "tool_results": "toolResults",
    "is_error_true": "flaggedErrors",
    "contract_failures": "failures",
    "nonzero_exit_completed": "nonzeroExit",
    "running_results": "running",
    "synthetic_results": "syntheticResults",
    "unresolved_calls": "unresolved",
    "orphan_results": "orphanResults",
    "compactions": "compactions",
    "injected_assistant": "injected",
    "tools": "tools",
}


@pytest.fixture(scope="module")
def traces(data: Path) -> Path:
    return data / "openclaw-traces"


def test_every_file_has_the_counts_of_the_independent_count(traces: Path) -> None:
    expected = json.loads((traces / "EXPECTED.json").read_text())
    with Installation(traces) as installation:
        report = inspect(installation)
    found = {file["path"]: file for file in report["files"]}
    assert found.keys() == expected.keys()
    assert len(found) == 142
    for path, counts in expected.items():
        got = {name: found[path]["counts"][ours] for name, ours in FIELDS.items()}
        assert got == {name: counts[name] for name in FIELDS}, path
        assert counts["header_id"] in (None, found[path]["sessionId"])
        assert found[path]["header"] == (counts["header_id"] is not None)
        assert not found[path]["losses"]


def test_together_the_files_hold_what_they_hold_without_their_copies(traces: Path) -> None:
    expected = json.loads((traces / "EXPECTED.json").read_text())
    originals = [counts for path, counts in expected.items() if ".checkpoint." not in path]
    with Installation(traces) as installation:
        totals = inspect(installation)["totals"]
    assert totals["kinds"]["checkpoint"] == len(expected) - len(originals) == 3
    for name in ("entries", "tool_calls", "tool_results", "contract_failures", "injected_assistant"):
        assert totals["counts"][FIELDS[name]] == sum(counts[name] for counts in originals), name


def fingerprint(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_file_times_and_the_order_of_the_folder_do_not_matter(traces: Path, tmp_path: Path) -> None:
    rng = random.Random(5)
    files = [path for path in traces.rglob("*") if path.is_file()]
    rng.shuffle(files)
    for path in files:
        copy = write(tmp_path / "copy", path.relative_to(traces).as_posix(), path.read_bytes())
        at = rng.randrange(2**30)
        os.utime(copy, (at, at))
    before = fingerprint(tmp_path / "copy")
    assert events_of(tmp_path / "copy") == events_of(traces)
    assert fingerprint(tmp_path / "copy") == before


SCENARIOS = {
    "s1-fix": [
        "read.started",
        "read.succeeded",
        "exec:python3.started",
        "exec:python3.succeeded",
        "edit.started",
        "edit.succeeded",
        "exec:python3.started",
        "exec:python3.succeeded",
    ],
    "s2-fixfail": [
        "read.started",
        "read.succeeded",
        "edit.started",
        "edit.failed",
        "exec:false.started",
        "exec:false.succeeded",
    ],
    "s3-docs": [
        "exec:ls.started",
        "exec:ls.succeeded",
        "read.started",
        "read.succeeded",
        "write.started",
        "write.succeeded",
    ],
    "s4-missing": ["read.started", "read.failed", "exec:ls.started", "exec:ls.succeeded"],
    "s5-slow": [
        "exec:sleep.started",
        "exec:sleep.running",
        "process:list.started",
        "process:list.succeeded",
        "process:poll.started",
        "process:poll.running",
    ],
    "s6-chat": [],
    "s7-parallel": [
        "exec:echo.started",
        "exec:echo.started",
        "read.started",
        "exec:echo.succeeded",
        "exec:echo.succeeded",
        "read.succeeded",
    ],
}


@pytest.fixture(scope="module")
def store(data: Path) -> Path:
    return data / "openclaw-sqlite" / "openclaw-agent.sqlite"


def test_the_real_store_gives_what_happened(store: Path) -> None:
    with Installation(store) as installation:
        assert not installation.warnings
        for session in installation.sessions:
            steps = list(session.steps())
            assert tools(steps) == SCENARIOS[session.session]
            around = [shown(s) for s in steps if s.tool is None]
            assert around == ["session.started", "message.user.inbound", "message.assistant.reply"]
            assert session.about.key == f"agent:main:explicit:{session.session}"
            assert session.about.kind == "explicit"
            assert session.version == 4
            if session.session in ("s1-fix", "s2-fixfail"):
                assert session.counts.nonzero_exit == 1
        assert {s.session for s in installation.sessions} == SCENARIOS.keys()


@pytest.mark.parametrize("form", ["jsonl", "plain rows", "packed rows"])
def test_the_same_content_in_another_form_gives_the_same_events(store: Path, tmp_path: Path, form: str) -> None:
    lines: dict[str, list[str]] = {}
    with opened(store) as database:
        for session, _ in database.sessions():
            lines[session] = [(text or b"").decode() for _, text, _ in database.rows(session)]
    assert sum(map(len, lines.values())) == 92
    if form == "jsonl":
        for session, rows in lines.items():
            write(tmp_path, f"agents/main/sessions/{session}.jsonl", "".join(f"{row}\n" for row in rows))
    else:
        make_store(
            tmp_path / "agents/main/agent/openclaw-agent.sqlite",
            lines,
            version=22 if form == "plain rows" else 23,
            pack=form == "packed rows",
        )

    assert events_of(tmp_path) == events_of(store)


def test_a_store_with_compressed_rows_of_its_own(store: Path, tmp_path: Path) -> None:
    """Rows of the real store, packed as OpenClaw packs long ones, in a copy of its file."""
    copy = tmp_path / "openclaw-agent.sqlite"
    shutil.copyfile(store, copy)
    copy.chmod(0o600)
    db = sqlite3.connect(copy)
    # The constraint of the table calls a function that older builds of SQLite lack.
    db.create_function("octet_length", 1, lambda text: len(text.encode()) if text is not None else None)
    db.execute("PRAGMA ignore_check_constraints = ON")
    rows = db.execute("SELECT session_id, seq, event_json FROM transcript_events WHERE length(event_json) > 500")
    changes = [(packed(text), len(text.encode()), "{}", session, seq) for session, seq, text in rows.fetchall()]
    db.executemany(
        "UPDATE transcript_events SET event_json = NULL, event_zstd = ?, event_utf8_bytes = ?, navigation_json = ? "
        "WHERE session_id = ? AND seq = ?",
        changes,
    )
    db.commit()
    db.close()
    assert len(changes) > 20
    assert events_of(copy) == events_of(store)
