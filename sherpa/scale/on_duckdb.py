"""DuckDB: cases are put in order on disk where memory does not suffice, and counted as they stream by.

DuckDB reads the Parquet files, codes types and other names once (as enumerations), sorts by case, instant and number
within its memory limit, and spills what does not fit. Whole cases leave it some hundred thousand events at a time; the
kernel counts them and the tables are merged in a tree. Docs: ``docs/research/scale.md`` says why the counts themselves
are not written in SQL.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from sherpa.errors import SourceError
from sherpa.instants import NO_INSTANT
from sherpa.scale.cases import Job, cases_of, in_a_tree
from sherpa.scale.engines import Engine
from sherpa.scale.libraries import needed
from sherpa.scale.source import DETAILS, Source, uniform

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
else:
    pa, pc = needed("pyarrow", "scale"), needed("pyarrow.compute", "scale")

R = TypeVar("R")
SHARE = 0.25
"""Of the memory that is given, what is DuckDB's limit; it takes some hundred megabytes beyond it."""
BYTES_PER_EVENT = 2_500
"""Memory for each event of those that are counted at once: their columns, the kernel's work on them, the merge of their
tables, and what allocators keep."""
WIDTH = 4
"""Tables that are merged at once; more are faster and take more memory."""
_LEAST_LIMIT = 256 * 2**20
_MOST_EVENTS = 2_000_000
_LEAST_EVENTS = 20_000
_BATCH = 1 << 17
_NAMES = ("type", "actor", "outcome", "agent_id")


class DuckDBEngine(Engine):
    """Counts what is larger than memory.

    Parameters
    ----------
    memory : int
        Bytes. DuckDB's limit is a part of it (`SHARE`), and how many events are counted at once follows from it. The
        edges of the result, and one row per case where those are wanted, come on top.
    scratch : Path, optional
        Folder in which to spill.
    threads : int, optional
        Threads of DuckDB; as many as there are cores by default.
    """

    name = "duckdb"

    def __init__(self, *, memory: int = 2 * 10**9, scratch: Path | None = None, threads: int | None = None) -> None:
        self._duckdb = needed("duckdb", "scale")
        self.limit = max(_LEAST_LIMIT, int(memory * SHARE))
        self.events = min(_MOST_EVENTS, max(_LEAST_EVENTS, memory // BYTES_PER_EVENT))
        self.batch = _BATCH
        self.scratch = scratch
        self.threads = threads

    def fold(self, source: Source, job: Job[R]) -> R:
        if not source.events:
            return job.merge([])
        with tempfile.TemporaryDirectory(prefix="sherpa-", dir=self.scratch) as folder:
            settings: dict[str, Any] = {
                "memory_limit": f"{self.limit}B",
                "temp_directory": folder,
                "preserve_insertion_order": False,
            }
            if self.threads is not None:
                settings["threads"] = self.threads
            with self._duckdb.connect(config=settings) as db:
                try:
                    parts = _whole_cases(self._batches(db, source, job.details), self.events, details=job.details)
                    return in_a_tree((job.work(cases_of(rows, in_order=True)) for rows in parts), job.merge, WIDTH)
                except self._duckdb.Error as error:
                    problem = str(error).splitlines()[0]
                    raise SourceError(f"DuckDB cannot read it: {problem}", file=source.files[0]) from None

    def _batches(self, db: Any, source: Source, details: bool) -> Iterator[pa.RecordBatch]:
        """Rows as `cases_of` takes them, case by case, in order."""
        bases = np.concatenate(([0], np.cumsum(source.rows)[:-1]))
        db.execute("CREATE TEMP TABLE files (name VARCHAR, base BIGINT)")
        db.executemany("INSERT INTO files VALUES (?, ?)", list(zip(source.files, bases.tolist(), strict=True)))
        db.execute("SET VARIABLE names = (SELECT list(name) FROM files)")
        read = "read_parquet(getvariable('names'), filename = true, file_row_number = true, union_by_name = true)"
        selected = []
        for name in _NAMES:
            if name in source.columns and (details or name not in DETAILS):
                db.execute(
                    f"CREATE TYPE {name}_names AS ENUM "
                    f"(SELECT DISTINCT {name}::VARCHAR AS name FROM {read} WHERE {name} IS NOT NULL ORDER BY name)"
                )
                selected.append(f"{name}::VARCHAR::{name}_names AS {name}")
        if "labels" in source.columns and details:
            selected.append("CASE WHEN contains(labels, 'workflow:') THEN labels::VARCHAR END AS labels")
        if "event_id" in source.columns:
            selected.append("CASE WHEN event_id IS NOT NULL THEN hash(event_id::VARCHAR) END AS event_id")
        instant = f"coalesce(instant::BIGINT, CAST({NO_INSTANT} AS BIGINT))"
        seq = "coalesce(seq::BIGINT, 0)" if "seq" in source.columns else "0::BIGINT"
        # A case is found by a number first: texts are compared only where two cases share it.
        result = db.sql(
            f"SELECT case_id::VARCHAR AS case_id, {instant} AS instant, {seq} AS seq, "
            f"base + file_row_number AS place, {', '.join(selected)} "
            f"FROM {read} AS rows JOIN files ON rows.filename = files.name "
            "ORDER BY hash(case_id), case_id, instant, seq, place"
        )
        yield from result.to_arrow_reader(self.batch)


def _whole_cases(batches: Iterator[pa.RecordBatch], events: int, *, details: bool) -> Iterator[pa.Table]:
    """Tables of about so many rows that cut no case apart."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        rest = batch
        if size >= events:
            last = held[-1].column("case_id")[-1]
            cut = pc.index(pc.not_equal(batch.column("case_id"), last), True).as_py()
            if cut >= 0:
                yield uniform(pa.Table.from_batches([*held, batch.slice(0, cut)]), details=details)
                held, size, rest = [], 0, batch.slice(cut)
        held.append(rest)
        size += rest.num_rows
    if size:
        yield uniform(pa.Table.from_batches(held), details=details)
