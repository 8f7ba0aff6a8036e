"""The graph of a memory, counted by an engine: the same rows as the ordinary rebuild.

From the memory's own ledger every table is made. From other events (``--input``) everything but the table ``events``:
they stay where they are, and questions about cases of the memory are answered from their counts.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sherpa.branches import Branch
from sherpa.bulk import Batch, Columns
from sherpa.config import EngineConfig
from sherpa.counting import NO_MAX, NO_MIN, CountTable
from sherpa.derive import DERIVED, _write_metrics, write_workflows
from sherpa.errors import ConfigError, StoreError
from sherpa.event import Event
from sherpa.fewcount import Edge, EdgeKey
from sherpa.instants import NO_INSTANT, format_instant
from sherpa.ledger import BadLine
from sherpa.projection.states import STATE_SEPARATOR, join_state
from sherpa.scale.cases import Derived, deriving
from sherpa.scale.engines import Engine
from sherpa.scale.parquet import COUNTED, write_events
from sherpa.scale.source import Source, open_source
from sherpa.store import Row, insert, without_indexes
from sherpa.terminal import OUTCOMES

if TYPE_CHECKING:
    from sherpa.memory import ProceduralMemory

_AT_ONCE = 20_000
STORED = tuple(table for table in DERIVED if table != "events")
"""Tables that are filled from events which are not in the memory's ledger."""


@dataclass(frozen=True)
class Counted:
    """What was read and stored.

    Attributes
    ----------
    events, cases, edges : int
    duplicates : int
        Events left out because their case holds their id already.
    malformed : tuple of BadLine
        Lines that cannot be read.
    """

    events: int
    cases: int
    edges: int
    duplicates: int
    malformed: tuple[BadLine, ...]


def rebuild(memory: ProceduralMemory, engine: Engine) -> None:
    """Derive every table from the memory's own ledger; the counts by the engine.

    Raises
    ------
    ConfigError
        If the memory does not count raw states.
    """
    _check(memory.config)
    with memory.ledger.writing(), _scratch(memory, None) as folder:

        def from_batches(db: sqlite3.Connection, batches: Iterator[Batch]) -> None:
            for table in DERIVED:
                db.execute(f"DELETE FROM {table}")
            path = folder / "events.parquet"
            path.unlink(missing_ok=True)
            with without_indexes(db, "events"):
                write_events(path, _stored(db, batches), COUNTED)
            _write(db, engine.fold(Source.of([path]), deriving(memory.config.max_order)), memory.config)

        try:
            memory._replace(lambda db, upto, report: from_batches(db, memory.ledger.batches(report, upto)))
        except sqlite3.IntegrityError:  # an id stands twice: only the first is read
            memory._replace(lambda db, upto, report: from_batches(db, _batched(memory.ledger.read(None, report, upto))))


def rebuild_from(memory: ProceduralMemory, engine: Engine, path: Path, *, scratch: Path | None = None) -> Counted:
    """Replace the graph by that of events elsewhere; the table ``events`` stays empty.

    Parameters
    ----------
    memory : ProceduralMemory
        Its own ledger must be empty, or what it counted would be lost.
    engine : Engine
    path : Path
        Parquet files or ledgers in JSONL (`sherpa.scale.source.open_source`).
    scratch : Path, optional
        Folder for the columns of JSONL; on a cluster every node must see it. That of the memory by default.

    Raises
    ------
    ConfigError
        If the memory does not count raw states.
    StoreError
        If its ledger holds events.
    SourceError
        If the input cannot be read.
    """
    _check(memory.config)
    with memory.ledger.writing(), _scratch(memory, scratch) as folder:
        if memory.ledger.segments():
            raise StoreError(
                f"{memory.root}: the graph of this folder is that of its own events; name a new folder with --root to "
                "count others"
            )
        source, reading = open_source(path, folder, engine=engine.name)
        derived = engine.fold(source, deriving(memory.config.max_order))

        def store(db: sqlite3.Connection, *_: object) -> None:
            for table in DERIVED:
                db.execute(f"DELETE FROM {table}")
            _write(db, derived, memory.config)

        memory._replace(store)
    bad = () if reading is None else reading.malformed
    return Counted(derived.events, derived.cases.num_rows, len(derived.table), derived.duplicates, bad)


def _check(config: EngineConfig) -> None:
    if config.state_strategy != "raw" or config.parity or config.require_projection:
        wrong = (
            f"the strategy {config.state_strategy}"
            if config.state_strategy != "raw"
            else "parity with the original"
            if config.parity
            else "required projections"
        )
        raise ConfigError(f"engines count raw states; {wrong} is for `sherpa rebuild` without --engine and --input")


@contextmanager
def _scratch(memory: ProceduralMemory, folder: Path | None) -> Iterator[Path]:
    parent = folder or memory.root / "tmp"
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="scale-", dir=parent) as made:
        yield Path(made)


def _batched(events: Iterable[Event]) -> Iterator[Batch]:
    events = iter(events)
    while part := list(islice(events, _AT_ONCE)):
        yield part, np.array([event.instant for event in part], np.int64)


def _stored(db: sqlite3.Connection, batches: Iterable[Batch]) -> Iterator[Batch]:
    """The batches, after their rows have been written."""
    for events, instants in batches:
        insert(db, "events", Columns().add(events, instants))
        yield events, instants


# -- rows --------------------------------------------------------------------------------------------------------


def _write(db: sqlite3.Connection, derived: Derived, config: EngineConfig) -> None:
    for batch in derived.cases.to_batches(max_chunksize=_AT_ONCE):
        insert(db, "cases", _case_rows(batch.to_pydict()))
    write_workflows(db, derived.workflows, {})
    # The rows of a state lie together; of the orders only the default one has metrics.
    table = derived.table
    for start in range(0, len(table), _AT_ONCE):
        insert(db, "state_edges", (edge.row(key) for key, edge in edges_of(table, start, start + _AT_ONCE)))
    here = np.flatnonzero(table.order == config.default_order)
    if len(here):
        first, last = int(here[0]), int(here[-1]) + 1
        context = table.context[first:last]
        new = np.concatenate(([True], (context[1:] != context[:-1]).any(axis=1)))
        bounds = [*(np.flatnonzero(new) + first).tolist(), last]
        for at in range(0, len(bounds) - 1, _AT_ONCE):
            _write_metrics(db, _states(table, bounds[at : at + _AT_ONCE + 1]))


def _case_rows(columns: dict[str, list[Any]]) -> Iterator[Row]:
    return zip(
        columns["case_id"],
        columns["agent_id"],
        columns["events"],
        map(format_instant, columns["first"]),
        map(format_instant, columns["last"]),
        map(OUTCOMES.__getitem__, columns["outcome"]),
        columns["last"],
        strict=True,
    )


def edges_of(table: CountTable, start: int, stop: int) -> Iterator[tuple[EdgeKey, Edge]]:
    """Some rows of a table as the rows of ``state_edges`` hold them.

    Parameters
    ----------
    table : CountTable
    start, stop : int
        Row numbers.
    """
    names = [join_state((name,)) for name in table.vocabulary]
    low, high = np.searchsorted(table.response_edge, [start, stop]).tolist()
    responses: dict[int, dict[str, int]] = {}
    for edge, key, times in zip(
        table.response_edge[low:high].tolist(),
        table.response_key[low:high].tolist(),
        table.response_count[low:high].tolist(),
        strict=True,
    ):
        responses.setdefault(edge, {})[table.response_vocabulary[key]] = times
    rows = slice(start, stop)
    columns = (
        table.order[rows],
        table.context[rows],
        table.next[rows],
        table.sums[rows],
        table.min_ms[rows],
        table.max_ms[rows],
        table.last_seen[rows],
    )
    for at, (order, context, following, sums, least, most, last) in enumerate(
        zip(*(column.tolist() for column in columns), strict=True), start
    ):
        state = STATE_SEPARATOR.join([names[c] for c in context[order - 1 :: -1]])
        yield (
            (order, state, table.vocabulary[following]),
            Edge(
                sums,
                responses.get(at, {}),
                None if least == NO_MIN else least,
                None if most == NO_MAX else most,
                None if last == NO_INSTANT else last,
            ),
        )


def _states(table: CountTable, bounds: list[int]) -> Iterator[tuple[str, list[tuple[Branch, str | None]]]]:
    """Each state between the bounds, with its branches."""
    edges = edges_of(table, bounds[0], bounds[-1])
    for start, stop in pairwise(bounds):
        rows = list(islice(edges, stop - start))
        yield (
            rows[0][0][1],
            [
                (Branch.of(key[2], edge.sums, edge.responses), None if edge.last is None else format_instant(edge.last))
                for key, edge in rows
            ],
        )
