"""What is counted: events in Parquet files, in one order; and how ledgers in JSONL become that."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sherpa.errors import SourceError
from sherpa.ledger import BadLine, Ledger, LedgerReport
from sherpa.scale.libraries import needed
from sherpa.scale.parquet import COUNTED, opened, write_events
from sherpa.scale.spread import spread

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = needed("pyarrow", "scale")

ROWS_PER_UNIT = 1_000_000
DETAILS = ("agent_id", "labels")
"""Columns that counts do without."""
_SEGMENT = re.compile(r"\d{4}-\d{2}-\d{2}\.jsonl")
_DEFAULTS = {"agent_id": "main", "actor": "agent", "outcome": "unknown"}
_REQUIRED = ("case_id", "type", "instant")
_TEXTS = ("case_id", "type", "actor", "outcome", "agent_id", "labels", "event_id")
_DICTIONARIES = ("type", "actor", "outcome", "agent_id", "labels")


@dataclass(frozen=True)
class Source:
    """Events in Parquet files.

    The place of an event is its row number over all files in their order; between events of one case with equal
    instants and sequence numbers it decides.

    Attributes
    ----------
    files : tuple of str
    rows : tuple of int
        Rows of each file.
    columns : frozenset of str
        Those of `sherpa.scale.parquet.COUNTED` that the files hold. ``case_id``, ``type`` and ``instant`` (int64,
        nanoseconds, null if unknown) must be there; what else is missing has the default of an event, and without
        ``event_id`` no event is taken for the same as another.
    """

    files: tuple[str, ...]
    rows: tuple[int, ...]
    columns: frozenset[str]

    @property
    def events(self) -> int:
        """Number of rows."""
        return sum(self.rows)

    @classmethod
    def of(cls, files: Sequence[Path]) -> Source:
        """The source of some files.

        Raises
        ------
        SourceError
            If one of them cannot be read, lacks a column, or two of them hold different ones.
        """
        rows, columns = [], None
        for path in files:
            file = opened(path)
            names = frozenset(COUNTED) & frozenset(file.schema_arrow.names)
            lacking = [name for name in _REQUIRED if name not in names]
            if lacking:
                raise SourceError(f"lacks the columns {', '.join(lacking)}", file=path)
            for name in ("instant", "seq"):
                if name in names and not pa.types.is_integer(file.schema_arrow.field(name).type):
                    raise SourceError("is no integer; instants are nanoseconds since 1970", file=path, field=name)
            if columns not in (None, names):
                odd = ", ".join(sorted(names ^ (columns or names)))
                raise SourceError(f"differs from the files before it in the columns {odd}", file=path)
            columns = names
            rows.append(file.metadata.num_rows)
        return cls(tuple(map(str, files)), tuple(rows), columns or frozenset(COUNTED))

    def units(self, most: int = ROWS_PER_UNIT) -> list[Unit]:
        """Parts of about `most` rows that can be read by themselves, in order."""
        units, place = [], 0
        for name in self.files:
            metadata = opened(Path(name)).metadata
            groups: list[int] = []
            size = 0
            for group in range(metadata.num_row_groups):
                groups.append(group)
                size += metadata.row_group(group).num_rows
                if size >= most or group == metadata.num_row_groups - 1:
                    units.append(Unit(name, tuple(groups), place, self.columns))
                    place, groups, size = place + size, [], 0
        return units


@dataclass(frozen=True)
class Unit:
    """Some row groups of one file; `place` is that of the first of its rows."""

    file: str
    groups: tuple[int, ...]
    place: int
    columns: frozenset[str]

    def read(self, *, details: bool) -> pa.Table:
        """Its rows with all columns that are counted, whatever the file holds.

        Returns
        -------
        pa.Table
            ``case_id, type, actor, outcome, event_id`` and, with `details`, ``agent_id, labels``: text, dictionary or
            null; ``instant, seq, place``: int64.

        Raises
        ------
        SourceError
        """
        wanted = [n for n in (*_TEXTS, "instant", "seq") if details or n not in DETAILS]
        held = [name for name in wanted if name in self.columns]
        try:
            file = opened(Path(self.file), dictionaries=[name for name in held if name in _DICTIONARIES])
            rows = file.read_row_groups(list(self.groups), columns=held)
        except (pa.ArrowInvalid, OSError) as error:
            raise SourceError(f"cannot be read as Parquet: {str(error).splitlines()[0]}", file=self.file) from None
        return uniform(rows, self.place, details=details)


def uniform(rows: pa.Table, place: int = 0, *, details: bool) -> pa.Table:
    """Rows with every column that is counted; what is missing has the default of an event.

    Places, where the rows have none, are numbered from `place` on.
    """
    size = len(rows)
    columns: dict[str, Any] = {}
    for name in _TEXTS:
        if name in DETAILS and not details:
            continue
        if name in rows.column_names:
            columns[name] = rows[name]
        elif name in _DEFAULTS:
            columns[name] = pa.DictionaryArray.from_arrays(np.zeros(size, np.int32), pa.array([_DEFAULTS[name]]))
        else:
            columns[name] = pa.nulls(size, pa.string())
    columns["instant"] = rows["instant"]
    columns["seq"] = rows["seq"] if "seq" in rows.column_names else pa.array(np.zeros(size, np.int64))
    numbered = "place" in rows.column_names
    columns["place"] = rows["place"] if numbered else pa.array(np.arange(place, place + size, dtype=np.int64))
    return pa.table(columns)


@dataclass(frozen=True)
class Reading:
    """What came of reading ledgers in JSONL."""

    events: int
    malformed: tuple[BadLine, ...]


def open_source(path: Path, scratch: Path, *, engine: str = "local") -> tuple[Source, Reading | None]:
    """The events below a folder, or of one file.

    Parameters
    ----------
    path : Path
        A file, or a folder with Parquet files or with segments of ledgers (``YYYY-MM-DD.jsonl``) at any depth, or with
        other JSONL files in itself; they are read in the order of their paths.
    scratch : Path
        Where the columns of JSONL files are written as Parquet; every worker must see it.
    engine : str
        By which JSONL files are read, one task each; see `sherpa.scale.spread`.

    Returns
    -------
    (Source, Reading or None)
        What was read of JSONL, None for Parquet.

    Raises
    ------
    SourceError
        If there is nothing to read, or both kinds are there.
    """
    parquet = [path] if path.suffix == ".parquet" and path.is_file() else sorted(path.rglob("*.parquet"))
    lines = _segments(path)
    if not parquet and not lines:
        raise SourceError("holds neither .parquet nor .jsonl files" if path.exists() else "does not exist", file=path)
    if parquet and lines:
        raise SourceError("holds both .parquet and .jsonl files; which is meant? name a folder of one kind", file=path)
    if parquet:
        return Source.of(parquet), None
    tasks = [(str(p), str(scratch / f"{at:08d}.parquet")) for at, p in enumerate(lines)]
    read = spread(_columns_of_lines, tasks, engine)
    bad = tuple(line for _, malformed in read for line in malformed)
    return Source.of([Path(target) for _, target in tasks]), Reading(sum(events for events, _ in read), bad)


def _segments(path: Path) -> list[Path]:
    """Segments at any depth, or else the JSONL files of the folder itself: what waits in queues is no ledger."""
    if path.is_file():
        return [path] if path.suffix == ".jsonl" else []
    files = [p for p in path.rglob("*.jsonl") if p.is_file() and _SEGMENT.fullmatch(p.name)]
    return sorted(files or (p for p in path.glob("*.jsonl") if not p.name.startswith(".")))


def _columns_of_lines(task: tuple[str, str]) -> tuple[int, list[BadLine]]:
    """Write the columns of one JSONL file as Parquet."""
    segment, target = Path(task[0]), Path(task[1])
    ledger, report = Ledger(segment.parent), LedgerReport()
    upto = {segment.name: ledger.positions()[segment.name]}
    return write_events(target, ledger.batches(report, upto), COUNTED), report.malformed
