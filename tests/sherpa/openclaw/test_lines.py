"""Lines that are not what they should be: none stops the reader, each is counted."""

from __future__ import annotations

import io
import tracemalloc

import pytest

from sherpa.sources.openclaw.lines import LineReader, Losses
from sherpa.sources.openclaw.rows import ROWS, Message, blocks, plain_text

GOOD = b'{"type":"message","id":"a"}\n'


def read(data: bytes, **options: int) -> tuple[list[object], dict[str, int], Losses]:
    losses = Losses()
    rows = [row.id for _, row in LineReader(ROWS, losses, **options).rows(io.BytesIO(data))]
    return rows, {k: n for k, n in losses.counts.items() if n}, losses


@pytest.mark.parametrize(
    ("middle", "kinds", "lost"),
    [
        (b"\n", {"blank": 1}, 0),
        (b"   \t\n", {"blank": 1}, 0),
        (b"\0" * 284 + b"\n", {"nulPadding": 1}, 0),
        (b"undefined\n", {"malformed": 1}, 1),
        (b"[1, 2]\n", {"notAnObject": 1}, 1),
        (b'"text"\n', {"notAnObject": 1}, 1),
        (b"null\n", {"notAnObject": 1}, 1),
        (b'{"type": "mess\n', {"malformed": 1}, 1),
        (b'{"type": oops}\n', {"malformed": 1}, 1),
        (b"\xff\xfe\n", {"malformed": 1}, 1),
    ],
)
def test_a_bad_line_in_the_middle(middle: bytes, kinds: dict[str, int], lost: int) -> None:
    rows, counts, losses = read(GOOD + middle + GOOD)
    assert rows == ["a", "a"]
    assert counts == kinds
    assert losses.rows_lost == lost
    assert losses.places == {kind: [2] for kind in kinds}


@pytest.mark.parametrize("tail", [b'{"type":"mess', b'{"type":"message","id":"b"', b"undef"])
def test_a_tail_that_was_cut_is_told_from_a_bad_line(tail: bytes) -> None:
    rows, counts, losses = read(GOOD + tail)
    assert rows == ["a"]
    assert counts == {"truncatedTail": 1}
    assert losses.rows_lost == 1


def test_a_last_line_without_its_end_counts_if_it_is_whole() -> None:
    assert read(GOOD + b'{"id":"b"}')[:2] == (["a", "b"], {})


def test_padding_behind_the_last_row() -> None:
    assert read(GOOD + b"\0" * 100)[:2] == (["a"], {"nulPadding": 1})
    assert read(GOOD.rstrip() + b"\0\0\n" + GOOD)[:2] == (["a", "a"], {"nulPadding": 1})


def test_byte_order_mark_and_carriage_returns() -> None:
    data = b"\xef\xbb\xbf" + GOOD.replace(b"\n", b"\r\n") + GOOD.replace(b"\n", b"\r\n")
    assert read(data)[:2] == (["a", "a"], {"byteOrderMark": 1, "carriageReturns": 2})


@pytest.mark.parametrize(
    "line",
    [b'{"id":"b","x":"\\ud83e"}\n', b'{"id":"b","cwd":"\xff"}\n', b'{"id":"b","x":NaN}\n', b'{"id":"b","x":"\x01"}\n'],
)
def test_text_that_is_not_quite_json_keeps_the_row(line: bytes) -> None:
    rows, counts, losses = read(GOOD + line)
    assert rows == ["a", "b"]
    assert counts == {"replacedCharacters": 1}
    assert losses.rows_lost == 0


def test_a_lone_surrogate_does_not_reach_the_text() -> None:
    losses = Losses()
    line = b'{"type":"message","message":{"role":"user","content":"a \\ud83e b"}}\n'
    [(_, row)] = LineReader(ROWS, losses).rows(io.BytesIO(line))
    assert isinstance(row.message, Message)
    assert plain_text(blocks(row.message.content)) == "a ? b"


def test_bytes_that_are_no_text_are_replaced_where_they_are_read() -> None:
    [(_, row)] = LineReader(ROWS, Losses()).rows(io.BytesIO(b'{"message":{"content":"a \xff b"}}\n'))
    assert isinstance(row.message, Message)
    assert plain_text(blocks(row.message.content)) == "a \N{REPLACEMENT CHARACTER} b"


def test_a_row_split_by_a_raw_line_break_is_joined() -> None:
    rows, counts, losses = read(GOOD + b'{"id":"b","partialJson":"{\\"a\n\\":1"}\n' + GOOD)
    assert rows == ["a", "b", "a"]
    assert counts == {"rejoined": 1}
    assert losses.rows_lost == 0


def test_several_objects_on_one_line_and_rubbish_behind_one() -> None:
    assert read(b'{"id":"a"}{"id":"b"}\n')[:2] == (["a", "b"], {"trailing": 1})
    assert read(b'{"id":"a"} oops\n' + GOOD)[:2] == (["a", "a"], {"trailing": 1})


def test_a_line_that_is_too_long_is_passed_over() -> None:
    long = b'{"id":"b","x":"' + b"y" * 5000 + b'"}\n'
    assert read(GOOD + long + GOOD, max_line=1000)[:2] == (["a", "a"], {"oversized": 1})
    assert read(GOOD + long + GOOD)[:2] == (["a", "b", "a"], {})
    assert read(GOOD + long.rstrip(), max_line=1000)[:2] == (["a"], {"oversized": 1})


def test_a_line_of_20_mb_takes_no_memory_to_speak_of() -> None:
    data = GOOD + b'{"id":"b","x":"' + b"y" * 20_000_000 + b'"}\n' + GOOD
    stream = io.BytesIO(data)
    tracemalloc.start()
    rows = [row.id for _, row in LineReader(ROWS, Losses()).rows(stream)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows == ["a", "a"]
    assert peak < 60_000_000


def test_many_bad_lines_take_time_in_proportion() -> None:
    rows, counts, losses = read((b'{"broken\n' * 5000) + GOOD)
    assert rows == ["a"]
    assert losses.rows_lost == counts["malformed"] == 5000


def test_deep_nesting_is_a_lost_row() -> None:
    rows, _, losses = read(b'{"id":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n" + GOOD)
    assert rows == ["a"]
    assert losses.rows_lost == 1


def test_a_growing_file_is_read_up_to_its_last_whole_line() -> None:
    losses = Losses()
    reader = LineReader(ROWS, losses)
    rows = list(reader.rows(io.BytesIO(GOOD + b'{"id":"b"'), growing=True))
    assert [row.id for _, row in rows] == ["a"]
    assert reader.bytes == len(GOOD)
    assert losses.rows_lost == 0
