"""Events in Parquet files and back, in batches, exactly.

One row per event. Instants are int64 nanoseconds since the epoch, so ``ts`` needs no column; what is a list or an
object in the ledger is JSON text, written as the ledger writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from sherpa.errors import SourceError
from sherpa.event import OUTCOMES, Event, EventContext, Projection
from sherpa.files import writing_whole
from sherpa.instants import NO_INSTANT, format_instant
from sherpa.scale.libraries import needed

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from sherpa.bulk import Batch
    from sherpa.eventlog import Int64
else:
    pa, pc, pq = needed("pyarrow", "scale"), needed("pyarrow.compute", "scale"), needed("pyarrow.parquet", "scale")

SCHEMA = pa.schema(
    [
        pa.field("event_id", pa.string(), nullable=False),
        pa.field("schema_version", pa.int8(), nullable=False),
        pa.field("agent_id", pa.string(), nullable=False),
        pa.field("case_id", pa.string(), nullable=False),
        pa.field("instant", pa.int64(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("actor", pa.string(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("labels", pa.string(), nullable=False),
        pa.field("entities", pa.string(), nullable=False),
        pa.field("projection", pa.string()),
        pa.field("metrics", pa.string(), nullable=False),
        pa.field("meta", pa.string(), nullable=False),
        pa.field("context", pa.string()),
        pa.field("seq", pa.int64()),
    ]
)
"""Columns of a ledger in Parquet."""
COUNTED = ("event_id", "agent_id", "case_id", "instant", "type", "actor", "outcome", "labels", "seq")
"""Those of them that counts, cases and workflows are made of."""
ROWS_PER_GROUP = 1 << 17
_ROWS_PER_READ = 1 << 14
_NAMES = ("event_id", "agent_id", "case_id", "source", "type", "actor")
_REPEATED = [name for name in SCHEMA.names if name not in ("event_id", "instant", "seq", "metrics", "meta")]

_encode = msgspec.json.Encoder().encode
_READERS: dict[str, Callable[[str], Any]] = {
    "labels": msgspec.json.Decoder(tuple[str, ...]).decode,
    "entities": msgspec.json.Decoder(tuple[str, ...]).decode,
    "projection": msgspec.json.Decoder(Projection).decode,
    "metrics": msgspec.json.Decoder(dict[str, float]).decode,
    "meta": msgspec.json.Decoder(dict[str, Any]).decode,
    "context": msgspec.json.Decoder(EventContext).decode,
}
"""How the columns of JSON are read."""
_OF_NOTHING = {"labels": "[]", "entities": "[]", "metrics": "{}", "meta": "{}"}


def write_events(path: Path, batches: Iterable[Batch], columns: Sequence[str] = SCHEMA.names) -> int:
    """Write one file, whole or not at all; gives the number of events.

    Parameters
    ----------
    path : Path
    batches : iterable
        Events and their instants, as `Ledger.batches` gives them; one batch at a time is held, and a row group.
    columns : sequence of str
        Those of `SCHEMA` to write.

    Raises
    ------
    SourceError
        If the file cannot be written.
    """
    schema = pa.schema([SCHEMA.field(name) for name in columns])
    written, waiting = 0, 0
    held: list[pa.Table] = []
    repeated = [name for name in columns if name in _REPEATED]
    with (
        writing_whole(path) as file,
        pq.ParquetWriter(file, schema, compression="zstd", use_dictionary=repeated) as writer,
    ):
        for events, instants in batches:
            table = table_of(events, instants, columns)
            held.append(table)
            waiting += len(table)
            written += len(table)
            if waiting >= ROWS_PER_GROUP:
                writer.write_table(pa.concat_tables(held), row_group_size=waiting)
                held, waiting = [], 0
        if waiting:
            writer.write_table(pa.concat_tables(held), row_group_size=waiting)
    return written


def table_of(events: Sequence[Event], instants: Int64, columns: Sequence[str]) -> pa.Table:
    """Events, and their instants, as rows of the named columns of `SCHEMA`."""
    arrays = []
    for name in columns:
        field = SCHEMA.field(name)
        if name == "instant":
            arrays.append(pa.array(instants))
        else:
            arrays.append(pa.array([_cell(name, getattr(e, name)) for e in events], field.type))
    return pa.Table.from_arrays(arrays, schema=pa.schema([SCHEMA.field(name) for name in columns]))


def _cell(name: str, value: Any) -> Any:
    if value is UNSET:
        return None
    if name in _READERS:
        return _OF_NOTHING[name] if not value and name in _OF_NOTHING else _encode(value).decode()
    return value


def read_events(path: Path) -> Iterator[list[Event]]:
    """The events of one file in the order of its rows, some thousands at a time; inverse of `write_events`.

    Raises
    ------
    SourceError
        If the file is no Parquet file, lacks a column, or a row is no event; names file, row and field.
    """
    file = opened(path)
    lacking = [name for name in SCHEMA.names if name not in file.schema_arrow.names]
    if lacking:
        raise SourceError(f"is no ledger in Parquet: it lacks the columns {', '.join(lacking)}", file=path)
    first = 0
    for batch in file.iter_batches(batch_size=_ROWS_PER_READ, columns=SCHEMA.names):
        try:
            table = pa.Table.from_batches([batch]).select(SCHEMA.names).cast(_OPEN)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SourceError(f"a column is of another type than a ledger's: {error}", file=path) from None
        _check(table, path, first)
        yield _events(table, path, first)
        first += len(table)


_OPEN = pa.schema([field.with_nullable(True) for field in SCHEMA])
"""What is read may lack anything; `_check` says what."""


def opened(path: Path, *, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
    """An open Parquet file; columns of text that are named come as dictionaries.

    Raises
    ------
    SourceError
        If it cannot be read as one.
    """
    try:
        return pq.ParquetFile(path, read_dictionary=list(dictionaries))
    except (pa.ArrowInvalid, OSError) as error:
        raise SourceError(f"cannot be read as Parquet: {str(error).splitlines()[0]}", file=path) from None


def _check(table: pa.Table, path: Path, first: int) -> None:
    for field in SCHEMA:
        column = table[field.name]
        if not field.nullable and column.null_count:
            _refuse(path, first, pc.is_null(column), field.name, "is missing")
    for name in _NAMES:
        _refuse(path, first, pc.equal(table[name], ""), name, "is empty")
    _refuse(path, first, pc.not_equal(table["schema_version"], 1), "schema_version", "is not 1")
    known = pc.is_in(table["outcome"], value_set=pa.array(OUTCOMES))
    _refuse(path, first, pc.invert(known), "outcome", f"is none of {', '.join(OUTCOMES)}")
    _refuse(path, first, pc.equal(table["instant"], NO_INSTANT), "instant", "is unknown; an event has a time")


def _refuse(path: Path, first: int, wrong: pa.ChunkedArray, field: str, problem: str) -> None:
    at = pc.index(wrong, True).as_py()
    if at >= 0:
        raise SourceError(f"row {first + at + 1} {problem}", file=path, field=field)


def _events(table: pa.Table, path: Path, first: int) -> list[Event]:
    columns = {name: table[name].to_pylist() for name in SCHEMA.names}
    for name, read in _READERS.items():
        parsed: list[Any] = []
        for at, text in enumerate(columns[name]):
            try:
                parsed.append(UNSET if text is None else read(text))
            except msgspec.MsgspecError as error:
                raise SourceError(f"row {first + at + 1}: {error}", file=path, field=name) from None
        columns[name] = parsed
    columns["ts"] = list(map(format_instant, columns.pop("instant")))
    columns["seq"] = [UNSET if seq is None else seq for seq in columns["seq"]]
    names = tuple(columns)
    return [Event(**dict(zip(names, values, strict=True))) for values in zip(*columns.values(), strict=True)]
