"""Event logs from data frames, and the coding of columns that CSV shares with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from sherpa.eventlog import USER_MESSAGE, EventLog
from sherpa.instants import NO_INSTANT, parse_instant
from sherpa.sources.fields import outcome_code

_COMMON_TIME = r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?(?:Z|[+-]\d{2}:\d{2})?"
_FIRST_YEAR, _LAST_YEAR = 1679, 2260


def log_from_frame(
    frame: pd.DataFrame, *, case: str, activity: str, timestamp: str | None, outcome: str | None = None
) -> EventLog:
    """See `EventLog.from_frame`."""
    for column in (case, activity, timestamp, outcome):
        if column is not None and column not in frame.columns:
            raise KeyError(f"there is no column {column!r}; the columns are {', '.join(map(repr, frame.columns))}")
    for column in (case, activity):
        missing = frame[column].isna().to_numpy()
        if missing.any():
            raise ValueError(f"column {column!r} is empty in row {int(np.argmax(missing)) + 1}")
    rows = CodedRows()
    instants = None
    if timestamp is not None:
        instants, bad = parse_instants(frame[timestamp])
        if bad is not None:
            raise ValueError(f"column {timestamp!r}, row {bad + 1}: {frame[timestamp].iloc[bad]!r} is not a date-time")
    rows.add(
        frame[case].astype(str),
        frame[activity].astype(str),
        instants,
        None if outcome is None else frame[outcome].fillna("").astype(str),
        None,
    )
    return rows.build()


def parse_instants(column: pd.Series[Any]) -> tuple[npt.NDArray[np.int64], int | None]:
    """(nanoseconds, first row that is neither empty nor a date-time) of a column; times without offset are UTC.

    pandas parses the common forms; what it does not take, or takes too kindly ("now", a bare number), goes through
    `parse_instant`, so that every source reads a time alike.
    """
    instants = np.full(len(column), NO_INSTANT, dtype=np.int64)
    if isinstance(column.dtype, pd.DatetimeTZDtype) or column.dtype.kind == "M":
        _put_parsed(instants, pd.to_datetime(column, utc=True).reset_index(drop=True))
        return instants, None
    text = column.fillna("").astype(str).str.strip().reset_index(drop=True)
    common = text.str.fullmatch(_COMMON_TIME)
    if common.any():
        _put_parsed(instants, pd.to_datetime(text[common], utc=True, format="ISO8601", errors="coerce"))
    left = text[(instants == NO_INSTANT) & (text != "").to_numpy()]
    known: dict[str, int] = {}
    for row, value in left.items():
        if value not in known:
            try:
                known[value] = parse_instant(value, assume_utc=True)
            except ValueError:
                return instants, int(str(row))
        instants[int(str(row))] = known[value]
    return instants, None


def _put_parsed(instants: npt.NDArray[np.int64], parsed: pd.Series[Any]) -> None:
    """Write times that fit into nanoseconds to the rows of their index."""
    fits = parsed[(parsed.dt.year >= _FIRST_YEAR) & (parsed.dt.year <= _LAST_YEAR)]
    nanos = fits.dt.tz_convert(None).to_numpy(dtype="datetime64[ns]").view(np.int64)
    instants[fits.index.to_numpy()] = nanos


class CodedRows:
    """Rows of an event log, coded block by block, so that the text of one block is held at a time."""

    def __init__(self) -> None:
        self._cases: dict[str, int] = {}
        self._types: dict[str, int] = {}
        self._responses: dict[str, int] = {}
        self._blocks: list[tuple[npt.NDArray[Any], ...]] = []

    def add(
        self,
        cases: pd.Series[str],
        types: pd.Series[str],
        instants: npt.NDArray[np.int64] | None,
        outcomes: pd.Series[str] | None,
        actors: pd.Series[str] | None,
    ) -> None:
        """Append a block of rows."""
        size = len(cases)
        type_codes = _code(types, self._types)
        outcome = np.zeros(size, np.int8)
        if outcomes is not None:
            local, words = pd.factorize(outcomes)
            outcome = np.array([outcome_code(w) for w in words], dtype=np.int8)[local]
        response = np.full(size, -1, np.int32)
        if actors is not None:
            user = (actors == "user").to_numpy()
            keys = types[user].str.removeprefix(USER_MESSAGE)
            response[user] = _code(keys, self._responses)
        if instants is None:
            instants = np.full(size, NO_INSTANT, np.int64)
        self._blocks.append((_code(cases, self._cases), type_codes, instants, outcome, response))

    def build(self, *, parity: bool = False) -> EventLog:
        """The log: cases in the order of their first row, events of a case by time."""
        columns = [np.concatenate(parts) for parts in zip(*self._blocks, strict=True)] if self._blocks else []
        case, codes, instants, outcomes, responses = columns or [np.empty(0, np.int64)] * 5
        order = time_order(case, instants)
        sizes = np.bincount(case, minlength=len(self._cases)) if len(case) else np.empty(0, np.int64)
        return EventLog.from_codes(
            codes[order],
            np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
            tuple(self._types),
            case_ids=tuple(self._cases),
            instants=instants[order],
            outcomes=outcomes[order],
            responses=responses[order],
            response_vocabulary=tuple(self._responses),
            parity=parity,
        )


def _code(column: pd.Series[str], known: dict[str, int]) -> npt.NDArray[np.int64]:
    local, names = pd.factorize(column)
    mapping = np.array([known.setdefault(str(n), len(known)) for n in names], dtype=np.int64)
    return mapping[local]


def time_order(case: npt.NDArray[Any], instants: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Row order by case, then time; equal times keep their order; a row without a time follows its neighbour."""
    by_case = np.argsort(case, kind="stable")
    times = instants[by_case]
    first = np.concatenate(([True], np.diff(case[by_case]) != 0)) if len(case) else np.empty(0, bool)
    known = (times != NO_INSTANT) | first
    source = np.maximum.accumulate(np.where(known, np.arange(len(times)), 0)) if len(times) else by_case
    filled = times[source]
    return by_case[np.lexsort((filled, case[by_case]))]


def sort_by_time(instants: Sequence[int]) -> list[int]:
    """`time_order` of the events of one case."""
    order: list[int] = time_order(np.zeros(len(instants), np.int64), np.array(instants, dtype=np.int64)).tolist()
    return order
