"""The ledger: durable, in order of arrival, tolerant of damage."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sherpa.errors import LedgerError
from sherpa.event import Event, read_event
from sherpa.ledger import UNSTAMPED, Ledger, LedgerReport

Clock = Callable[[], int]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "events", lock_timeout=0.2)


def event(name: str, **more: Any) -> Event:
    raw = {"eventId": name, "caseId": "a", "source": "s", "type": "t", "ts": "2026-01-01T00:00:00Z", **more}
    return read_event(raw, clock=lambda: 0, new_id=lambda: "new")


def ids(ledger: Ledger, **options: Any) -> list[str]:
    return [e.event_id for e in ledger.read(**options)]


def test_events_are_read_back_as_they_were_stored(ledger: Ledger) -> None:
    stored = ledger.append([event("one", labels=["x"], meta={"deep": [1, {"a": None}]}), event("two")]).events
    assert tuple(ledger.read()) == stored
    assert [e.seq for e in stored] == [1, 2]


def test_one_segment_per_day_in_utc(ledger: Ledger) -> None:
    ledger.append([event("b", ts="2026-01-02T00:30:00+02:00"), event("c", ts="2026-01-02T00:30:00Z")])
    assert [p.name for p in ledger.segments()] == ["2026-01-01.jsonl", "2026-01-02.jsonl"]


def test_numbers_go_on_across_segments_and_processes(ledger: Ledger) -> None:
    ledger.append([event("late", ts="2026-03-01T00:00:00Z"), event("early", ts="2025-01-01T00:00:00Z")])
    again = Ledger(ledger.folder)
    assert again.append([event("third")]).events[0].seq == 3


def test_reading_an_absent_folder_gives_nothing(tmp_path: Path) -> None:
    assert list(Ledger(tmp_path / "none").read()) == []
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("known", [None, lambda wanted: {"one"} & set(wanted)])
def test_a_repeated_id_is_ignored_on_append(ledger: Ledger, known: Any) -> None:
    ledger.append([event("one")])
    result = ledger.append([event("one", type="other"), event("two"), event("two")], known=known)
    assert ([e.event_id for e in result.events], result.duplicates) == (["two"], 2)
    assert [(e.event_id, e.type) for e in ledger.read()] == [("one", "t"), ("two", "t")]


def test_ids_of_other_processes_are_seen(ledger: Ledger) -> None:
    other = Ledger(ledger.folder)
    ledger.append([event("one")])
    other.append([event("two")])
    assert ledger.append([event("two"), event("three")]).duplicates == 1


def test_a_repeated_id_on_disk_is_ignored_on_read(ledger: Ledger) -> None:
    ledger.append([event("one")])
    segment = ledger.segments()[0]
    segment.write_bytes(segment.read_bytes() * 3)
    report = LedgerReport()
    assert ids(ledger, report=report) == ["one"]
    assert (report.events, report.duplicates, report.malformed) == (1, 2, [])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "truncated"),
        (b"\xff\xfe", "invalid"),
        (b"[]", "Expected `object`"),
        (b'{"eventId": "x"}', "ts"),
        (b'{"eventId": "x", "caseId": "a", "source": "s", "type": "t", "ts": "never"}', "never"),
        (b'{"eventId": "x", "caseId": "a", "source": "s", "type": "", "ts": "2026-01-01T00:00:00Z"}', "type"),
    ],
)
def test_a_malformed_line_is_skipped_and_named(ledger: Ledger, line: bytes, reason: str) -> None:
    ledger.append([event("one"), event("two")])
    segment = ledger.segments()[0]
    first, second = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(first + b"\n" + line + b"\n" + second)
    report = LedgerReport()
    assert ids(ledger, report=report) == ["one", "two"]
    (bad,) = report.malformed
    assert (bad.file, bad.line) == (str(segment), 3)
    assert reason.lower() in bad.reason.lower()
    # Reading from the middle counts lines from the start of the file all the same.
    report = LedgerReport()
    assert ids(ledger, report=report, since={segment.name: len(first)}) == ["two"]
    assert report.malformed[0].line == 3


def test_lines_of_the_original_are_read(ledger: Ledger) -> None:
    ledger.append([event("ours")])
    segment = ledger.segments()[0]
    theirs = (
        b'{"eventId":"theirs","schemaVersion":1,"agentId":"main","caseId":"a","ts":"2026-01-01T00:00:00Z",'
        b'"source":"s","type":"t","actor":"agent","outcome":"unknown","labels":[],"entities":[],"projection":null,'
        b'"metrics":{},"meta":{},"extra":1}\n'
    )
    segment.write_bytes(theirs + segment.read_bytes())
    first, second = ledger.read()
    # No number was stamped: the place in the file takes its part, before everything that was stamped.
    assert (first.event_id, first.ts, first.seq) == ("theirs", "2026-01-01T00:00:00.000Z", UNSTAMPED)
    assert second.event_id == "ours"
    assert ledger.append([event("next")]).events[0].seq == 2


def test_a_reader_does_not_see_a_line_that_is_being_written(ledger: Ledger) -> None:
    ledger.append([event("one"), event("two")])
    segment = ledger.segments()[0]
    size = segment.stat().st_size
    segment.write_bytes(segment.read_bytes()[:-5])
    report = LedgerReport()
    assert ids(ledger, report=report) == ["one"]
    assert report.malformed == []
    assert ledger.positions()[segment.name] < size - 5


def test_a_whole_last_line_without_newline_is_kept(ledger: Ledger) -> None:
    ledger.append([event("one")])
    segment = ledger.segments()[0]
    segment.write_bytes(segment.read_bytes()[:-1])
    ledger.append([event("two")])
    assert ids(ledger) == ["one", "two"]


def test_reading_in_pieces_equals_reading_at_once(ledger: Ledger) -> None:
    ledger.append([event("a"), event("b", ts="2026-02-01T00:00:00Z")])
    middle = ledger.positions()
    ledger.append([event("c"), event("d", ts="2026-03-01T00:00:00Z")])
    assert set(ids(ledger, since=middle)) == {"c", "d"}
    assert set(ids(ledger, upto=middle)) == {"a", "b"}


def test_another_writer_is_waited_for_and_then_named(ledger: Ledger) -> None:
    other = Ledger(ledger.folder)
    with other.writing(), pytest.raises(LedgerError, match="another process is writing"):
        ledger.append([event("one")])
    ledger.append([event("one")])


def test_the_lock_is_re_entrant(ledger: Ledger) -> None:
    with ledger.writing(), ledger.writing():
        ledger.append([event("one")])
    assert ids(ledger) == ["one"]


def test_a_full_disk_leaves_whole_lines(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.append([event("one")])
    before = ledger.segments()[0].read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(LedgerError, match="No space left on device"):
            ledger.append([event("two")])
    assert ledger.segments()[0].read_bytes() == before
    assert ledger.append([event("two")]).events[0].seq == 2


def test_every_append_is_synced_before_it_returns(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fsync

    def watched(handle: int) -> None:
        synced.append(os.fstat(handle).st_size)
        real(handle)

    monkeypatch.setattr(os, "fsync", watched)
    ledger.append([event("one")])
    assert ledger.segments()[0].stat().st_size in synced


def test_a_torn_tail_that_another_process_replaces_by_a_line_of_the_same_length_is_seen(ledger: Ledger) -> None:
    ledger.append([event("one"), event("two")])
    segment = ledger.segments()[0]
    whole = segment.read_bytes()
    torn = whole[:-1] + b" "
    segment.write_bytes(torn)
    assert ledger.positions()[segment.name] < len(whole)
    segment.write_bytes(whole)
    assert ledger.positions()[segment.name] == len(whole)
    assert ids(ledger) == ["one", "two"]
