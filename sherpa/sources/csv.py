"""Event logs from CSV, plain or gzipped, read in blocks."""

from __future__ import annotations

import csv
import io
import warnings
from pathlib import Path

import pandas as pd

from sherpa.errors import SourceError
from sherpa.eventlog import EventLog
from sherpa.sources.compressed import open_bytes
from sherpa.sources.fields import FieldNames
from sherpa.sources.frame import CodedRows, parse_instants

BLOCK_ROWS = 200_000


def read_csv(path: Path, fields: FieldNames | None = None, *, delimiter: str = ",", parity: bool = False) -> EventLog:
    """Read an event log with a header row.

    Values are trimmed; nothing is taken for a missing value, so a case may be called ``NA``. Cases come in the order
    of their first row, events of a case by time; equal or missing times keep the order of the file.

    Raises
    ------
    SourceError
        Names the file, and the row and field where there is one.
    """
    if len(delimiter) != 1:
        raise SourceError(f"--csv-delimiter is {delimiter!r}; it must be one character", file=path)
    rows = CodedRows()
    seen = 0
    names: dict[str, str] | None = None
    try:
        with open_bytes(path) as file, warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            blocks = pd.read_csv(
                file,
                sep=delimiter,
                dtype=str,
                na_filter=False,
                index_col=False,
                encoding="utf-8-sig",
                skipinitialspace=True,
                chunksize=BLOCK_ROWS,
            )
            for block in blocks:
                block = block.fillna("").rename(columns=lambda c: str(c).strip())
                if names is None:
                    names = (fields or FieldNames()).resolve(list(block.columns), str(path))
                _add_block(rows, block, names, path, seen)
                seen += len(block)
    except pd.errors.EmptyDataError:
        raise SourceError("is empty; a header row is needed", file=path) from None
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        raise _broken_row(error, path, delimiter) from None
    except UnicodeDecodeError as error:
        raise SourceError(f"is not UTF-8 ({error.reason} at byte {error.start})", file=path) from None
    if seen == 0:
        raise SourceError("holds no events", file=path)
    return rows.build(parity=parity)


def _add_block(rows: CodedRows, block: pd.DataFrame, names: dict[str, str], path: Path, before: int) -> None:
    text = {field: block[column].str.strip() for field, column in names.items()}
    for field in ("case", "type"):
        empty = (text[field] == "").to_numpy()
        if empty.any():
            row = before + int(empty.argmax()) + 1
            case = text["case"].iloc[int(empty.argmax())] or None
            raise SourceError(
                f"row {row} has no {field}", file=path, case=case if field == "type" else None, field=names[field]
            )
    instants = None
    if "timestamp" in text:
        instants, bad = parse_instants(text["timestamp"])
        if bad is not None:
            raise SourceError(
                f"row {before + bad + 1}: {text['timestamp'].iloc[bad]!r} is not an ISO 8601 date-time",
                file=path,
                case=text["case"].iloc[bad],
                field=names["timestamp"],
            )
    rows.add(text["case"], text["type"], instants, text.get("outcome"), text.get("actor"))


def _broken_row(error: Exception, path: Path, delimiter: str) -> SourceError:
    """Which row has too many fields; the file is read once more for it, because pandas does not always say."""
    with open_bytes(path) as file:
        reader = csv.reader(io.TextIOWrapper(file, encoding="utf-8-sig", newline=""), delimiter=delimiter)
        try:
            width = len(next(reader, []))
            for row in reader:
                if len(row) > width:
                    problem = f"has {len(row)} fields where the header has {width}"
                    return SourceError(problem, file=path, line=reader.line_num)
        except csv.Error as broken:
            return SourceError(f"cannot be parsed as CSV: {broken}", file=path, line=reader.line_num)
    return SourceError(f"cannot be parsed as CSV: {' '.join(str(error).split())}", file=path)
