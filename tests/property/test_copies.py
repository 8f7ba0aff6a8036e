"""Whatever copies, archives and cut tails of a session lie about, its events are those of the whole transcript."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sherpa.openclaw.transcripts import Script, events_of, make_store, packed, write

NAME = "07070789-57d6-d198-e6f3-3ac090ddda66"


def whole() -> Script:
    script = Script(NAME)
    for turn in range(4):
        script.user(f"turn {turn}")
        script.calls((f"a{turn}", "exec", {"command": "git pull"}), (f"b{turn}", "read", {"path": "x"}))
        script.result(f"b{turn}", "read")
        script.result(f"a{turn}", "exec", {"status": "error"} if turn % 2 else {"status": "completed", "exitCode": 0})
        script.reply()
    return script


LINES = [line + "\n" for line in whole().lines()]
COPIES = [
    "{}.checkpoint.{:04d}.jsonl",
    "{}.jsonl.bak-1-{:04d}",
    "{}.jsonl.bak.{:04d}",
    "{}.jsonl.corrupt-{:04d}-x.jsonl",
    "{}.trajectory.jsonl",
]
ARCHIVES = ["{}.jsonl.reset.{:04d}", "{}.jsonl.deleted.{:04d}"]
Event = tuple[str, str, str, str]


def events(folder: Path) -> set[Event]:
    """Events that come from rows; the boundaries of windows depend on how a session was cut."""
    found = events_of(folder)
    assert len({e[1] for e in found}) == len(found)
    return {e for e in found if e[2] not in ("session.reset", "session.ended")}


def tail(lines: list[str], cut: int) -> bytes:
    """Lines, the last of which lost its last bytes."""
    data = "".join(lines).encode()
    return data[: len(data) - cut]


@st.composite
def layouts(draw: st.DrawFn) -> tuple[dict[str, bytes], bool]:
    """Files of one session, and whether nothing of it is missing."""
    files: dict[str, bytes] = {}
    bounds = sorted(draw(st.sets(st.integers(2, len(LINES) - 1), max_size=3)))
    pieces = [LINES[a:b] for a, b in zip([0, *bounds], [*bounds, len(LINES)], strict=True)]
    for at, piece in enumerate(pieces[:-1]):
        name = draw(st.sampled_from(ARCHIVES)).format(NAME, at)
        files[name + ".zst"] = packed("".join(piece))
        if draw(st.booleans()):
            files[name] = files.pop(name + ".zst") if draw(st.booleans()) else "".join(piece).encode()
    cut = draw(st.sampled_from([0, 0, 1, 40, 200]))
    files[f"{NAME}.jsonl"] = tail(pieces[-1], cut)
    for at in range(draw(st.integers(0, 4))):
        number = draw(st.integers(0, len(LINES)))
        files[draw(st.sampled_from(COPIES)).format(NAME, at)] = tail(LINES[:number], draw(st.sampled_from([0, 30])))
    if draw(st.booleans()):
        # An archive that repeats rows which another file holds too.
        overlap = draw(st.integers(1, len(LINES)))
        files[f"{NAME}.jsonl.reset.9999"] = "".join(LINES[:overlap]).encode()
    return files, cut <= 1


@given(layouts(), st.booleans())
@settings(max_examples=150)
def test_layouts(layout: tuple[dict[str, bytes], bool], stored: bool) -> None:
    files, complete = layout
    with tempfile.TemporaryDirectory() as folder:
        primary = Path(folder) / "primary"
        write(primary, f"agents/main/sessions/{NAME}.jsonl", "".join(LINES))
        expected = events(primary)
        mixed = Path(folder) / "mixed"
        for name, data in files.items():
            write(mixed, f"agents/main/sessions/{name}", data)
        if stored:
            make_store(mixed / "agents/main/agent/openclaw-agent.sqlite", {NAME: [line.rstrip() for line in LINES]})
        found = events(mixed)
        if stored or complete:
            assert found == expected
        else:
            assert found <= expected


@given(st.integers(0, len("".join(LINES))))
@settings(max_examples=100)
def test_a_cut_anywhere_gives_a_reported_part(length: int) -> None:
    from sherpa.sources.openclaw import Installation
    from sherpa.sources.openclaw.inspect import inspect

    data = "".join(LINES).encode()
    with tempfile.TemporaryDirectory() as folder:
        whole = write(Path(folder) / "whole", "s.jsonl", data)
        expected = events(whole.parent)
        cut = write(Path(folder) / "cut", "s.jsonl", data[:length])
        found = events(cut.parent) if length else set()
        assert found <= expected
        if not length:
            return
        with Installation(cut) as installation:
            losses = inspect(installation)["totals"]["losses"]
        last = data[:length].rsplit(b"\n", 1)[-1]
        try:
            whole_row = not last or isinstance(json.loads(last), dict)
        except ValueError:
            whole_row = False
        assert losses == ({} if whole_row else {"truncatedTail": 1})
