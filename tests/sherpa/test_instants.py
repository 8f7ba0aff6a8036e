"""Text of any offset and precision against nanoseconds since 1970."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sherpa.instants import day_of, format_instant, parse_instant

SECOND = 10**9
NEW_YEAR = 1_767_225_600 * SECOND  # 2026-01-01T00:00Z
FIRST = (date(1678, 1, 1) - date(1970, 1, 1)).days * 86_400 * SECOND
LAST = (date(2262, 1, 1) - date(1970, 1, 1)).days * 86_400 * SECOND - 1


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00Z",
        "2026-01-01t00:00:00z",
        "2026-01-01 00:00:00Z",
        "  2026-01-01T00:00:00Z\n",
        "2026-01-01T00:00:00-00:00",
        "2026-01-01T02:00:00+02:00",
        "2026-01-01T02:00:00+0200",
        "2026-01-01T02:00:00+02",
        "2025-12-31T18:30:00-05:30",
        "2026-01-01T05:45+05:45",
        "2025-12-31T10:00:00-14:00",
    ],
)
def test_every_spelling_of_an_instant_is_the_same_number(text: str) -> None:
    assert parse_instant(text) == NEW_YEAR


@pytest.mark.parametrize("digits", range(13))
def test_digits_to_the_nanosecond_count_and_finer_ones_are_cut(digits: int) -> None:
    fraction = "987654321987"[:digits]
    text = f"2026-01-01T00:00:00{'.' if digits else ''}{fraction}Z"
    assert parse_instant(text) - NEW_YEAR == int(f"{fraction:0<9}"[:9])


def test_a_comma_may_stand_before_the_fraction() -> None:
    assert parse_instant("2026-01-01T00:00:00,5Z") == NEW_YEAR + SECOND // 2


def test_a_fraction_before_1970_counts_forward() -> None:
    assert parse_instant("1969-12-31T23:59:59.25Z") == -750_000_000


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2016-12-31T23:59:60Z", 1_483_228_800),  # 2017-01-01T00:00Z
        ("2017-01-01T01:59:60+02:00", 1_483_228_800),
        ("2025-12-31T24:00Z", 1_767_225_600),
        ("2025-12-31T24:00:00.000Z", 1_767_225_600),
        ("2024-02-29T00:00:00Z", 1_709_164_800),  # 19,782 days
    ],
)
def test_leap_seconds_and_midnight_as_24_roll_over(text: str, seconds: int) -> None:
    assert parse_instant(text) == seconds * SECOND


@pytest.mark.parametrize("text", ["2026-01-01T00:00:00", "2026-01-01T00:00", "2026-01-01 00:00:00.000", "2026-01-01"])
def test_a_time_without_offset_is_utc_only_on_request(text: str) -> None:
    with pytest.raises(ValueError, match="has no offset"):
        parse_instant(text)
    assert parse_instant(text, assume_utc=True) == NEW_YEAR


def test_an_offset_that_is_there_holds_even_if_utc_is_assumed() -> None:
    assert parse_instant("2026-01-01T02:00:00+02:00", assume_utc=True) == NEW_YEAR


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "1767225600",
        "2026-1-1T00:00:00Z",
        "2026-01-01T00Z",
        "2026-01-01T00:00:00.Z",
        "2026-01-01T00:00:00Z tomorrow",
        "2026-01-01T00:00:00+2",
        "2026-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-00-10T00:00:00Z",
        "2026-04-31T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "2026-01-01T25:00:00Z",
        "2026-01-01T23:60:00Z",
        "2026-01-01T23:59:61Z",
        "2026-01-01T24:00:01Z",
        "2026-01-01T24:01:00Z",
        "2026-01-01T24:00:00.5Z",
        "2026-01-01T00:00:00+25:00",
        "2026-01-01T00:00:00+01:60",
        "\uff12\uff10\uff12\uff16-01-01T00:00:00Z",
    ],
)
def test_what_is_no_date_time_is_refused_and_quoted(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        parse_instant(text)


@pytest.mark.parametrize("text", ["1677-01-01T00:00:00Z", "2263-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_years_that_do_not_fit_64_bits_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="1678 to 2261"):
        parse_instant(text)


@pytest.mark.parametrize(
    ("text", "nanos"), [("1678-01-01T00:00:00.000Z", FIRST), ("2261-12-31T23:59:59.999999999Z", LAST)]
)
def test_the_first_and_the_last_instant_of_the_promised_years(text: str, nanos: int) -> None:
    assert parse_instant(text) == nanos
    assert format_instant(nanos) == text


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (1, "1970-01-01T00:00:00.000000001Z"),
        (1_000, "1970-01-01T00:00:00.000001Z"),
        (1_230_000, "1970-01-01T00:00:00.001230Z"),
        (120_000_000, "1970-01-01T00:00:00.120Z"),
        (NEW_YEAR + 3_723 * SECOND, "2026-01-01T01:02:03.000Z"),
    ],
)
def test_text_has_the_fewest_of_3_6_or_9_digits_that_lose_nothing(nanos: int, text: str) -> None:
    assert format_instant(nanos) == text


@given(st.integers(FIRST, LAST))
def test_text_of_an_instant_reads_back_as_that_instant(nanos: int) -> None:
    text = format_instant(nanos)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.(\d{3}|\d{6}|\d{9})Z", text)
    assert parse_instant(text) == nanos


@given(
    st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)),
    st.integers(-14 * 60, 14 * 60).map(lambda m: timezone(timedelta(minutes=m))),
)
def test_reading_agrees_with_the_calendar_of_the_standard_library(local: datetime, zone: timezone) -> None:
    moment = local.replace(tzinfo=zone)
    microseconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert parse_instant(moment.isoformat()) == microseconds * 1_000


@pytest.mark.parametrize(
    ("nanos", "day"),
    [(NEW_YEAR, "2026-01-01"), (NEW_YEAR - 1, "2025-12-31"), (-1, "1969-12-31"), (LAST, "2261-12-31")],
)
def test_the_day_of_an_instant_is_the_utc_day(nanos: int, day: str) -> None:
    assert day_of(nanos) == day
