"""Event logs from CSV, XES and data frames."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from sherpa.errors import SourceError
from sherpa.eventlog import EventLog
from sherpa.instants import NO_INSTANT
from sherpa.sources import csv as csv_module
from sherpa.sources.compressed import bare_stem, bare_suffix
from sherpa.sources.csv import read_csv
from sherpa.sources.fields import FieldNames, outcome_code
from sherpa.sources.xes import XesReport, read_xes
from sherpa.terminal import FAILURE, SUCCESS, UNKNOWN

NEW_YEAR = 1_767_225_600 * 10**9  # 2026-01-01T00:00Z
HOUR = 3_600 * 10**9


def cases(log: EventLog) -> list[tuple[str, list[str]]]:
    return [(case.case_id, list(case.types)) for case in log]


def save(folder: Path, content: str | bytes, name: str = "log.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(path: Path, fields: FieldNames | None = None, *, delimiter: str = ",") -> SourceError:
    """The error with which a CSV file is refused; it always names the file."""
    with pytest.raises(SourceError) as caught:
        read_csv(path, fields, delimiter=delimiter)
    assert str(path) in str(caught.value)
    return caught.value


# -- CSV: columns ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [
        "caseId,type,ts",
        "case_id,activity,timestamp",
        "case:concept:name,concept:name,time:timestamp",
        "Case ID,Activity,Complete Timestamp",
        "case,event_type,time",
    ],
)
def test_csv_finds_the_usual_column_names(tmp_path: Path, header: str) -> None:
    log = read_csv(save(tmp_path, f"{header}\nc1,a,2026-01-01T00:00:00Z\n"))
    assert cases(log) == [("c1", ["a"])]
    assert log.instants.tolist() == [NEW_YEAR]


def test_csv_takes_the_columns_that_are_named(tmp_path: Path) -> None:
    path = save(tmp_path, "caseId,type,order,step,when,result,who\nx,y,o1,s1,2026-01-01T00:00:00Z,done,user\n")
    fields = FieldNames(case="order", type="step", timestamp="when", outcome="result", actor="who")
    log = read_csv(path, fields)
    assert cases(log) == [("o1", ["s1"])]
    assert log.instants.tolist() == [NEW_YEAR]
    assert log.outcomes.tolist() == [SUCCESS]
    assert log.response_vocabulary == ("s1",)


def test_csv_without_a_case_column_lists_the_columns_and_the_option(tmp_path: Path) -> None:
    error = refusal(save(tmp_path, "number,activity\n1,a\n"))
    assert error.field == "case"
    assert "'number', 'activity'" in str(error)
    assert "--case-field" in str(error)


def test_csv_without_a_type_column_names_the_type(tmp_path: Path) -> None:
    error = refusal(save(tmp_path, "case,what\n1,a\n"))
    assert error.field == "type"
    assert "--type-field" in str(error)


@pytest.mark.parametrize("field", ["case", "type", "timestamp", "outcome", "actor"])
def test_csv_lacking_a_column_that_was_named_lists_the_columns(tmp_path: Path, field: str) -> None:
    error = refusal(save(tmp_path, "case,type\nc1,a\n"), FieldNames(**{field: "Nope"}))
    assert error.field == field
    assert "'Nope'; the columns are 'case', 'type'" in str(error)


# -- CSV: values -----------------------------------------------------------------------------------------------


def test_csv_values_and_column_names_are_trimmed(tmp_path: Path) -> None:
    path = save(tmp_path, " case , type ,ts\n c1 ,  a  , 2026-01-01T00:00:00Z \nc1,\tb\t,\n")
    log = read_csv(path)
    assert cases(log) == [("c1", ["a", "b"])]
    assert log.instants.tolist() == [NEW_YEAR, NO_INSTANT]


@pytest.mark.parametrize("name", ["NA", "nan", "null", "None", "N/A", "", "1.0", "007", "true"])
def test_csv_takes_no_word_for_a_missing_value_or_a_number(tmp_path: Path, name: str) -> None:
    case = name or "-"
    log = read_csv(save(tmp_path, f"case,type\n{case},{case}\n"))
    assert cases(log) == [(case, [case])]


def test_csv_keeps_characters_outside_ascii(tmp_path: Path) -> None:
    log = read_csv(save(tmp_path, "case,type\nFälle-東,prüfen ✓\n"))
    assert cases(log) == [("Fälle-東", ["prüfen ✓"])]


def test_csv_understands_quotes(tmp_path: Path) -> None:
    log = read_csv(save(tmp_path, 'case,type\n"c,1","say ""hi"""\n"c,1","two\nlines"\n'))
    assert cases(log) == [("c,1", ['say "hi"', "two\nlines"])]


def test_csv_skips_blank_lines(tmp_path: Path) -> None:
    log = read_csv(save(tmp_path, "case,type\n\nc1,a\n\n\nc1,b\n\n"))
    assert cases(log) == [("c1", ["a", "b"])]


@pytest.mark.parametrize(
    "content",
    [b"\xef\xbb\xbfcase,type\nc1,a\n", b"case,type\r\nc1,a\r\n", b"case,type\nc1,a"],
    ids=["byte order mark", "Windows line ends", "no line end"],
)
def test_csv_from_other_programs_reads_the_same(tmp_path: Path, content: bytes) -> None:
    assert cases(read_csv(save(tmp_path, content))) == [("c1", ["a"])]


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_csv_with_another_delimiter(tmp_path: Path, delimiter: str) -> None:
    content = "case,type,outcome\nc1,a,failed\n".replace(",", delimiter)
    log = read_csv(save(tmp_path, content), delimiter=delimiter)
    assert cases(log) == [("c1", ["a"])]
    assert log.outcomes.tolist() == [FAILURE]


@pytest.mark.parametrize("delimiter", ["", "::"])
def test_csv_delimiter_is_one_character(tmp_path: Path, delimiter: str) -> None:
    assert "one character" in str(refusal(save(tmp_path, "case,type\nc1,a\n"), delimiter=delimiter))


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("success completed complete done passed pass Success  DONE", SUCCESS),
        ("failure failed error blocked cancelled canceled FAILED Error", FAILURE),
        ("unknown ok fail succeeded completing failures", UNKNOWN),
    ],
)
def test_outcome_words(words: str, code: int) -> None:
    assert {outcome_code(f" {word}\t") for word in words.split()} == {code}


def test_a_missing_outcome_is_unknown() -> None:
    assert [outcome_code(None), outcome_code(""), outcome_code("  ")] == [UNKNOWN] * 3


def test_csv_outcomes_end_cases(tmp_path: Path) -> None:
    log = read_csv(save(tmp_path, "case,type,outcome\nc1,a,Done\nc2,a,blocked\nc3,a,maybe\nc4,a,\n"))
    assert [case.outcome for case in log] == ["success", "failure", "unknown", "unknown"]


def test_csv_rows_of_the_user_are_responses(tmp_path: Path) -> None:
    path = save(tmp_path, "case,type,actor\nc,a,agent\nc,message.user.stop,user\nc,b,\nc,poke, user \n")
    log = read_csv(path)
    shown = [log.response_vocabulary[r] if r >= 0 else None for r in log.responses.tolist()]
    assert shown == [None, "stop", None, "poke"]


def test_csv_passes_parity_on_to_the_log(tmp_path: Path) -> None:
    path = save(tmp_path, "case,type,outcome\nc,session.started,\nc,session.ended,success\n")
    assert [read_csv(path)[0].outcome, read_csv(path, parity=True)[0].outcome] == ["unknown", "success"]


# -- CSV: times and order --------------------------------------------------------------------------------------


def timed(*rows: tuple[str, str, str]) -> str:
    """Rows of case, type, and the time on New Year's Day 2026 or nothing."""
    lines = [f"{case},{name},{f'2026-01-01T{time}Z' if time else ''}" for case, name, time in rows]
    return "\n".join(["case,type,ts", *lines, ""])


def test_csv_cases_come_by_first_row_and_events_by_time(tmp_path: Path) -> None:
    content = timed(("z", "z2", "02:00"), ("a", "a1", "01:00"), ("z", "z1", "01:00"), ("a", "a0", "00:00"))
    assert cases(read_csv(save(tmp_path, content))) == [("z", ["z1", "z2"]), ("a", ["a0", "a1"])]


def test_csv_equal_times_keep_the_order_of_the_file(tmp_path: Path) -> None:
    names = [f"t{i}" for i in (5, 3, 11, 1, 9, 2, 10, 4)]
    content = timed(("c", "late", "05:00"), *(("c", name, "04:00") for name in names))
    assert cases(read_csv(save(tmp_path, content))) == [("c", [*names, "late"])]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("b", "02:00"), ("?", ""), ("a", "01:00")], ["a", "b", "?"]),
        ([("?", ""), ("b", "02:00"), ("a", "01:00")], ["?", "a", "b"]),
        ([("a", "01:00"), ("?", ""), ("b", "02:00")], ["a", "?", "b"]),
        ([("?1", ""), ("?2", ""), ("a", "01:00")], ["?1", "?2", "a"]),
        ([("b", ""), ("a", "")], ["b", "a"]),
    ],
)
def test_csv_a_row_without_a_time_stays_behind_the_row_before_it(
    tmp_path: Path, rows: list[tuple[str, str]], expected: list[str]
) -> None:
    content = timed(("other", "x", "23:00"), *(("c", name, time) for name, time in rows))
    log = read_csv(save(tmp_path, content))
    assert cases(log)[1] == ("c", expected)
    unknown = [i for i, name in enumerate(log[1].types) if log.instants[log[1].start + i] == NO_INSTANT]
    assert unknown == [i for i, name in enumerate(expected) if (name, "") in rows]


def test_csv_without_times_keeps_the_order_of_the_file(tmp_path: Path) -> None:
    log = read_csv(save(tmp_path, "case,type\nc,b\nd,x\nc,a\n"))
    assert cases(log) == [("c", ["b", "a"]), ("d", ["x"])]
    assert set(log.instants.tolist()) == {NO_INSTANT}


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("2026-01-01T02:00:00+02:00", NEW_YEAR),
        ("2025-12-31 19:00:00-05:00", NEW_YEAR),
        ("2026-01-01", NEW_YEAR),
        ("2026-01-01 01:00", NEW_YEAR + HOUR),
        ("2026-01-01T00:00:00.5Z", NEW_YEAR + 500_000_000),
        ("2026-01-01T00:00:00.123456789Z", NEW_YEAR + 123_456_789),
        ("2026-01-01T00:00:00.123456789987Z", NEW_YEAR + 123_456_789),
    ],
)
def test_csv_times_of_any_offset_and_precision_are_instants_and_utc_by_default(
    tmp_path: Path, text: str, nanos: int
) -> None:
    # The first row fixes neither the precision nor the offset of the others.
    log = read_csv(save(tmp_path, f"case,type,ts\nc0,a,2020-01-01T00:00:00Z\nc1,a,{text}\n"))
    assert int(log.instants[1]) == nanos


@pytest.mark.parametrize(
    "time",
    [
        "soon",
        "2026-02-30T00:00:00Z",
        "2026-01-01T25:00:00Z",
        "9999-12-31T00:00:00Z",
        "1500-01-01T00:00:00Z",
        "01/02/2026",
        "now",
        "today",
        "None",
    ],
)
def test_csv_a_bad_time_names_its_row_case_and_column(tmp_path: Path, time: str) -> None:
    error = refusal(
        save(tmp_path, f"case,type,When\nc1,a,2026-01-01T00:00:00Z\nc2,b,{time}\n"), FieldNames(timestamp="When")
    )
    assert (error.case, error.field) == ("c2", "When")
    assert f"row 2: {time!r}" in str(error)


@pytest.mark.parametrize(
    "time", ["2025-12-31T24:00:00Z", "2025-12-31T23:59:60Z", "2026-01-01t00:00:00z", '"2026-01-01T00:00:00,0Z"']
)
def test_csv_reads_the_rarer_spellings_of_a_time_as_other_sources_do(tmp_path: Path, time: str) -> None:
    assert read_csv(save(tmp_path, f"case,type,ts\nc,a,{time}\n")).instants.tolist() == [NEW_YEAR]


# -- CSV: what is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "row", "column", "case"),
    [
        ("c1,a\n,b\n", 2, "case", None),
        ("c1,a\n  ,b\n", 2, "case", None),
        ("c1,\n", 1, "type", "c1"),
        ("\nc1,a\n\nc2, \n", 2, "type", "c2"),
    ],
)
def test_csv_a_row_without_case_or_type_is_numbered(
    tmp_path: Path, rows: str, row: int, column: str, case: str | None
) -> None:
    error = refusal(save(tmp_path, f"case,type\n{rows}"))
    assert f"row {row} has no {column}" in str(error)
    assert (error.field, error.case) == (column, case)


@pytest.mark.parametrize(
    ("rows", "line"),
    [("c1,a,x,y\nc1,b,x\n", 2), ("c1,a,x\nc1,b,x,y\n", 3), ("c1,a,x\nc1,b,x,y,z\nc1,c,x\n", 3)],
    ids=["first row", "second row", "two too many"],
)
def test_csv_a_row_with_too_many_fields_names_its_line(tmp_path: Path, rows: str, line: int) -> None:
    error = refusal(save(tmp_path, f"case,type,note\n{rows}"))
    assert error.line == line
    assert "fields where the header has 3" in str(error)


def test_csv_a_row_that_ends_before_its_type_is_refused(tmp_path: Path) -> None:
    error = refusal(save(tmp_path, "case,type\nc1,a\nc2\n"))
    assert error.case == "c2"


@pytest.mark.parametrize("content", ["", "\n\n"], ids=["nothing", "blank lines"])
def test_csv_an_empty_file_is_refused(tmp_path: Path, content: str) -> None:
    assert "header" in str(refusal(save(tmp_path, content)))


def test_csv_a_header_alone_holds_no_events(tmp_path: Path) -> None:
    assert "no events" in str(refusal(save(tmp_path, "case,type\n")))


def test_csv_a_header_alone_still_has_to_name_the_case(tmp_path: Path) -> None:
    assert refusal(save(tmp_path, "number,what\n")).field == "case"


def test_csv_other_encodings_are_refused(tmp_path: Path) -> None:
    assert "UTF-8" in str(refusal(save(tmp_path, "case,type\nc1,pr\u00fcfen\n".encode("latin-1"))))


def test_csv_an_unclosed_quote_is_refused(tmp_path: Path) -> None:
    assert "CSV" in str(refusal(save(tmp_path, 'case,type\nc1,"a\nc1,b\n')))


def test_csv_a_missing_file_and_a_folder_are_told_apart(tmp_path: Path) -> None:
    assert "no such file" in str(refusal(tmp_path / "absent.csv"))
    assert "folder" in str(refusal(tmp_path))


# -- CSV: large and compressed ---------------------------------------------------------------------------------


def test_csv_blocks_are_one_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_module, "BLOCK_ROWS", 2)
    content = timed(
        ("c", "c3", "03:00"), ("d", "d1", "01:00"), ("d", "d2", ""), ("c", "c2", "02:00"), ("e", "c2", "00:00")
    )
    log = read_csv(save(tmp_path, content))
    assert cases(log) == [("c", ["c2", "c3"]), ("d", ["d1", "d2"]), ("e", ["c2"])]
    assert sorted(log.vocabulary) == ["c2", "c3", "d1", "d2"]


def test_csv_rows_are_numbered_through_all_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_module, "BLOCK_ROWS", 2)
    assert "row 4 has no type" in str(refusal(save(tmp_path, "case,type\nc,a\nc,b\nc,c\nc,\n")))
    assert "row 3: 'x'" in str(refusal(save(tmp_path, "case,type,ts\nc,a,\nc,b,\nc,c,x\n")))


@pytest.mark.parametrize("name", ["log.csv.gz", "log.csv"])
def test_csv_gzip_is_told_by_content_and_not_by_name(tmp_path: Path, name: str) -> None:
    log = read_csv(save(tmp_path, gzip.compress(b"\xef\xbb\xbfcase,type\nc1,a\n"), name))
    assert cases(log) == [("c1", ["a"])]


@pytest.mark.parametrize("reader", [read_csv, read_xes])
def test_damaged_gzip_is_refused(tmp_path: Path, reader: Callable[[Path], object]) -> None:
    names = [f"e{i * i}" for i in range(500)]
    rows = {
        read_csv: "\n".join(["case,type", *(f"c,{name}" for name in names)]),
        read_xes: f"<log>{trace('c', *map(event, names))}</log>",
    }
    packed = gzip.compress(rows[reader].encode())
    wrong_checksum = packed[:-8] + bytes(b ^ 0xFF for b in packed[-8:-4]) + packed[-4:]
    for number, damaged in enumerate((packed[: len(packed) // 2], packed[:3], wrong_checksum)):
        path = save(tmp_path, damaged, f"{number}.gz")
        with pytest.raises(SourceError, match="damaged") as caught:
            reader(path)
        assert caught.value.file == str(path)


@pytest.mark.parametrize(
    ("name", "suffix", "stem"),
    [
        ("a.csv", ".csv", "a"),
        ("a.XES.GZ", ".xes", "a"),
        ("a.b.csv.gz", ".csv", "a.b"),
        ("a.gz", "", "a"),
        ("a", "", "a"),
    ],
)
def test_format_and_name_of_a_file_that_may_be_packed(name: str, suffix: str, stem: str) -> None:
    assert (bare_suffix(Path(name)), bare_stem(Path(name))) == (suffix, stem)


# -- XES -------------------------------------------------------------------------------------------------------


def attribute(key: str, value: str, kind: str = "string") -> str:
    return f'<{kind} key="{key}" value="{value}"/>'


def event(name: str | None, *more: str) -> str:
    return f"<event>{'' if name is None else attribute('concept:name', name)}{''.join(more)}</event>"


def trace(name: str | None, *events: str) -> str:
    return f"<trace>{'' if name is None else attribute('concept:name', name)}{''.join(events)}</trace>"


def xes(folder: Path, *traces: str, root: str = "<log>") -> Path:
    closing = f"</{root[1:].split()[0].rstrip('>')}>"
    return save(folder, f'<?xml version="1.0" encoding="UTF-8"?>\n{root}\n{"".join(traces)}\n{closing}\n', "log.xes")


def at(time: str) -> str:
    return attribute("time:timestamp", time, "date")


def xes_refusal(path: Path) -> SourceError:
    with pytest.raises(SourceError) as caught:
        read_xes(path)
    assert str(path) in str(caught.value)
    return caught.value


@pytest.mark.parametrize("root", ["<log>", '<log xes.version="1.0" xmlns="http://www.xes-standard.org/">'])
def test_xes_reads_traces_with_and_without_a_namespace(tmp_path: Path, root: str) -> None:
    path = xes(tmp_path, trace("one", event("a"), event("b")), trace("two", event("a")), root=root)
    log, report = read_xes(path)
    assert cases(log) == [("one", ["a", "b"]), ("two", ["a"])]
    assert report == XesReport(unnamed_events=0, empty_traces=0)
    assert set(log.instants.tolist()) == {NO_INSTANT}


def test_xes_attributes_of_attributes_and_of_the_log_are_ignored(tmp_path: Path) -> None:
    inner = '<string key="note" value="n"><string key="concept:name" value="inner"/></string>'
    listed = f'<list key="l"><values>{attribute("concept:name", "listed")}</values></list>'
    globals_ = f'<global scope="event">{attribute("concept:name", "__INVALID__")}</global>'
    path = xes(
        tmp_path,
        globals_,
        attribute("concept:name", "the log"),
        f"<trace>{attribute('concept:name', 'outer')}{inner}{listed}{event('a', inner, listed)}</trace>",
    )
    assert cases(read_xes(path)[0]) == [("outer", ["a"])]


def test_xes_names_may_be_numbers_of_any_kind(tmp_path: Path) -> None:
    rows = [f"<event>{attribute('concept:name', v, k)}</event>" for k, v in (("int", "7"), ("boolean", "true"))]
    path = xes(tmp_path, f"<trace>{attribute('concept:name', '12', 'int')}{''.join(rows)}</trace>")
    assert cases(read_xes(path)[0]) == [("12", ["7", "true"])]


def test_xes_unnamed_events_and_empty_traces_are_skipped_and_counted(tmp_path: Path) -> None:
    path = xes(
        tmp_path,
        trace("one", event(None), event("a"), event("  "), event(None, at("2026-01-01T00:00:00Z"))),
        trace("bare"),
        trace("two", event("b")),
        trace("hollow", event(None)),
    )
    log, report = read_xes(path)
    assert cases(log) == [("one", ["a"]), ("two", ["b"])]
    assert report == XesReport(unnamed_events=4, empty_traces=2)


def test_xes_a_trace_without_a_name_is_called_by_its_place(tmp_path: Path) -> None:
    path = xes(tmp_path, trace("one", event("a")), trace(None, event("b")), trace("", event("c")))
    assert [case_id for case_id, _ in cases(read_xes(path)[0])] == ["one", "trace-2", "trace-3"]


def test_xes_offsets_in_dates_are_honoured_and_order_events(tmp_path: Path) -> None:
    path = xes(
        tmp_path,
        trace(
            "one",
            event("second", at("2026-01-01T01:00:00.000+00:00")),
            event("third", at("2026-01-01T01:30:00.000-01:00")),
            event("first", at("2026-01-01T02:00:00.000+02:00")),
        ),
    )
    log, _ = read_xes(path)
    assert cases(log) == [("one", ["first", "second", "third"])]
    assert [t - NEW_YEAR for t in log.instants.tolist()] == [0, HOUR, HOUR * 5 // 2]


def test_xes_equal_times_keep_their_order_and_missing_times_their_place(tmp_path: Path) -> None:
    late, early = at("2026-01-01T02:00:00Z"), at("2026-01-01T01:00:00")
    path = xes(
        tmp_path, trace("one", event("c", late), event("?"), event("b", late), event("a2", early), event("a1", early))
    )
    log, _ = read_xes(path)
    assert cases(log) == [("one", ["a2", "a1", "c", "?", "b"])]


@pytest.mark.parametrize(
    ("attributes", "code"),
    [
        ([], UNKNOWN),
        ([attribute("outcome", "Failed")], FAILURE),
        ([attribute("outcome", "Failed"), attribute("lifecycle:transition", "complete")], FAILURE),
        ([attribute("lifecycle:transition", "complete")], SUCCESS),
        ([attribute("lifecycle:transition", "start")], UNKNOWN),
    ],
)
def test_xes_outcome_is_the_attribute_else_the_transition(tmp_path: Path, attributes: list[str], code: int) -> None:
    log, _ = read_xes(xes(tmp_path, trace("one", event("a", *attributes))))
    assert log.outcomes.tolist() == [code]


def test_xes_outcome_is_the_type_if_nothing_else_says_it(tmp_path: Path) -> None:
    log, _ = read_xes(xes(tmp_path, trace("one", event("done"), event("blocked"), event("a"))))
    assert log.outcomes.tolist() == [SUCCESS, FAILURE, UNKNOWN]


def test_xes_the_resource_is_the_actor(tmp_path: Path) -> None:
    path = xes(
        tmp_path,
        trace("one", event("a", attribute("org:resource", "user")), event("b", attribute("org:resource", "Sara"))),
    )
    log, _ = read_xes(path)
    assert log.responses.tolist() == [0, -1]
    assert log.response_vocabulary == ("a",)


def test_xes_takes_the_attributes_that_are_named(tmp_path: Path) -> None:
    row = "".join(
        (
            attribute("step", "s"),
            attribute("when", "2026-01-01T00:00:00Z"),
            attribute("result", "error"),
            attribute("who", "user"),
        )
    )
    path = xes(tmp_path, f"<trace>{attribute('number', 'n1')}<event>{row}</event></trace>")
    fields = FieldNames(case="number", type="step", timestamp="when", outcome="result", actor="who")
    log, _ = read_xes(path, fields)
    assert cases(log) == [("n1", ["s"])]
    assert (log.instants.tolist(), log.outcomes.tolist(), log.responses.tolist()) == ([NEW_YEAR], [FAILURE], [0])


def test_xes_a_bad_date_names_its_case_and_attribute(tmp_path: Path) -> None:
    error = xes_refusal(xes(tmp_path, trace("one", event("a")), trace("two", event("b", at("Tuesday")))))
    assert (error.case, error.field) == ("two", "time:timestamp")
    assert "'Tuesday'" in str(error)


def test_xes_a_broken_tag_names_its_line(tmp_path: Path) -> None:
    lines = ["<log>", trace("one", event("a")), "<trace>", "<event></trace>", "</log>"]
    error = xes_refusal(save(tmp_path, "\n".join(lines), "log.xes"))
    assert error.line == 4
    assert re.search("broken XML", str(error))


@pytest.mark.parametrize("content", ["", "plain text", "<log><trace>"], ids=["empty", "text", "cut off"])
def test_xes_what_is_no_xml_is_refused(tmp_path: Path, content: str) -> None:
    assert xes_refusal(save(tmp_path, content, "log.xes")).line == 1


def test_xes_another_kind_of_document_is_refused_by_its_name(tmp_path: Path) -> None:
    error = xes_refusal(xes(tmp_path, trace("one", event("a")), root="<pnml>"))
    assert "<pnml>" in str(error)


@pytest.mark.parametrize("traces", [(), (trace("one"),), (trace("one", event(None)),)])
def test_xes_without_events_is_refused(tmp_path: Path, traces: tuple[str, ...]) -> None:
    assert "no events" in str(xes_refusal(xes(tmp_path, *traces)))


def test_xes_gzip_reads_the_same(tmp_path: Path) -> None:
    plain = xes(tmp_path, trace("one", event("a", at("2026-01-01T00:00:00Z"))))
    log, _ = read_xes(save(tmp_path, gzip.compress(plain.read_bytes()), "log.xes.gz"))
    assert cases(log) == [("one", ["a"])]
    assert log.instants.tolist() == [NEW_YEAR]


def test_xes_a_missing_file_and_a_folder_are_told_apart(tmp_path: Path) -> None:
    assert "no such file" in str(xes_refusal(tmp_path / "absent.xes"))
    assert "folder" in str(xes_refusal(tmp_path))


# -- data frames -----------------------------------------------------------------------------------------------


def test_a_frame_is_grouped_by_case_and_sorted_by_time() -> None:
    frame = pd.DataFrame(
        {
            "case_id": ["z", "a", "z", "z"],
            "activity": ["z2", "a1", "z1", "z3"],
            "timestamp": [pd.Timestamp(2026, 1, 1, hour) for hour in (2, 0, 1, 2)],
        }
    )
    log = EventLog.from_frame(frame)
    assert cases(log) == [("z", ["z1", "z2", "z3"]), ("a", ["a1"])]
    assert [t - NEW_YEAR for t in log.instants.tolist()] == [HOUR, 2 * HOUR, 2 * HOUR, 0]


def test_a_frame_with_columns_of_other_names_and_kinds() -> None:
    frame = pd.DataFrame({"order": [7, 7, 8], "step": ["a", "b", "a"], "result": ["done", "error", "?"]})
    log = EventLog.from_frame(frame, case="order", activity="step", timestamp=None, outcome="result")
    assert cases(log) == [("7", ["a", "b"]), ("8", ["a"])]
    assert log.outcomes.tolist() == [SUCCESS, FAILURE, UNKNOWN]
    assert set(log.instants.tolist()) == {NO_INSTANT}


@pytest.mark.parametrize("outcomes", [["done", None, "error"], ["error", float("nan"), "done"], [None, None, None]])
def test_an_outcome_that_a_frame_misses_is_unknown(outcomes: list[object]) -> None:
    frame = pd.DataFrame({"case_id": ["a", "b", "c"], "activity": ["x", "x", "x"], "result": outcomes})
    log = EventLog.from_frame(frame, timestamp=None, outcome="result")
    assert int(log.outcomes[1]) == UNKNOWN


@pytest.mark.parametrize(
    "times",
    [
        ["2026-01-01T01:00:00+01:00", None, "2026-01-01T01:00:00Z"],
        [pd.Timestamp("2026-01-01"), pd.NaT, pd.Timestamp("2026-01-01 01:00")],
        [pd.Timestamp("2026-01-01 02:00", tz="Europe/Helsinki"), None, pd.Timestamp("2026-01-01T01:00Z")],
    ],
    ids=["text", "naive", "zones"],
)
def test_times_of_a_frame_may_be_text_or_timestamps_and_may_be_missing(times: list[object]) -> None:
    frame = pd.DataFrame({"case_id": ["c"] * 3, "activity": ["a", "b", "c"], "timestamp": times})
    assert EventLog.from_frame(frame).instants.tolist() == [NEW_YEAR, NO_INSTANT, NEW_YEAR + HOUR]


def test_rows_of_a_frame_count_and_its_index_does_not() -> None:
    frame = pd.DataFrame({"case_id": ["c", "c"], "activity": ["a", "b"]}, index=[9, 9])
    assert cases(EventLog.from_frame(frame, timestamp=None)) == [("c", ["a", "b"])]


def test_a_column_that_the_frame_lacks_is_named_with_those_it_has() -> None:
    frame = pd.DataFrame({"case_id": ["c"], "activity": ["a"]})
    with pytest.raises(KeyError, match=r"'timestamp'.*'case_id', 'activity'"):
        EventLog.from_frame(frame)


@pytest.mark.parametrize("column", ["case_id", "activity"])
def test_a_frame_may_miss_no_case_and_no_activity(column: str) -> None:
    frame = pd.DataFrame({"case_id": ["c", "c"], "activity": ["a", "b"]})
    frame.loc[1, column] = None
    with pytest.raises(ValueError, match=f"'{column}' is empty in row 2"):
        EventLog.from_frame(frame, timestamp=None)


@pytest.mark.parametrize("time", ["soon", "9999-12-31"])
def test_a_bad_time_in_a_frame_names_its_row(time: str) -> None:
    frame = pd.DataFrame({"case_id": ["c", "c"], "activity": ["a", "b"], "timestamp": ["2026-01-01", time]})
    with pytest.raises(ValueError, match=f"row 2: '{time}'"):
        EventLog.from_frame(frame)


def test_a_frame_without_rows_is_a_log_without_cases() -> None:
    frame = pd.DataFrame({"case_id": [], "activity": []}, dtype=str)
    log = EventLog.from_frame(frame, timestamp=None)
    assert (len(log), log.events) == (0, 0)
