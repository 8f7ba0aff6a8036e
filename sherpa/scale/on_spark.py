"""Spark: the same shards as on Ray, through ``mapInArrow`` and ``applyInArrow``.

Tasks read parts of the files and deal their rows to shards (`mapInArrow`); what belongs to a shard comes together in
one group and is counted there (`applyInArrow`); tables, pickled, meet in a tree of groups. What goes from task to task
are whole Arrow streams in one cell each: Spark would take rows apart and put them together again, which costs more than
counting them.
"""

from __future__ import annotations

import os
import pickle
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from sherpa.errors import ConfigError, SherpaError
from sherpa.scale.cases import Job
from sherpa.scale.engines import Engine
from sherpa.scale.libraries import needed
from sherpa.scale.shards import dealt, gathered, shards_for
from sherpa.scale.source import Source

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = needed("pyarrow", "spark")

T = TypeVar("T")
R = TypeVar("R")
WIDTH = 8
"""Tables that one task merges."""
_PIECES = "shard int, piece binary"
_REFUSED = b"refused:"
"""Before an error in place of a piece; no Arrow stream begins like that."""
_RESULT = "shard int, result binary"


class SparkEngine(Engine):
    """Counts on Spark.

    The session that is running or that ``spark-submit`` configures; else one on this machine. The files of a source
    must be readable under the same paths on every node, and this package be installed there. A shard fits into the
    memory of one Python worker.

    Parameters
    ----------
    shards : int, optional
        As many as there are million events by default, up to `sherpa.scale.shards.MOST`.
    """

    name = "spark"

    def __init__(self, *, shards: int | None = None) -> None:
        self._spark = _session()
        self.shards = shards

    def fold(self, source: Source, job: Job[R]) -> R:
        units = source.units()
        if not units:
            return job.merge([])
        shards = self.shards or shards_for(source.events)

        # Spark looks at the annotations, which it cannot see through `partial`.
        def worked(rows: pa.Table) -> pa.Table:
            return _worked(rows, job)

        def merged(rows: pa.Table) -> pa.Table:
            return _merged(rows, job)

        with _quiet():
            parallel = self._spark.sparkContext.parallelize([(pickle.dumps(u),) for u in units], len(units))
            parts = self._spark.createDataFrame(parallel, "unit binary")
            pieces = parts.mapInArrow(partial(_dealt, shards=shards, details=job.details), _PIECES)
            results = pieces.repartition(shards, "shard").groupBy("shard").applyInArrow(worked, _RESULT)
            left = shards
            while left > 1:
                left = -(-left // WIDTH)
                grouped = results.selectExpr(f"cast(shard div {WIDTH} as int) as shard", "result").groupBy("shard")
                results = grouped.applyInArrow(merged, _RESULT)
            found = results.collect()
        if not found:
            return job.merge([])
        result: R = _opened(found[0]["result"])
        return result


def _dealt(batches: Iterator[pa.RecordBatch], *, shards: int, details: bool) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for unit in batch.column("unit").to_pylist():
            try:
                pieces = enumerate(dealt(pickle.loads(unit).read(details=details), shards))
                packed = {shard: _streamed(piece) for shard, piece in pieces if len(piece)}
            except SherpaError as error:
                packed = {0: _REFUSED + pickle.dumps(error)}
            columns = [pa.array(packed.keys(), pa.int32()), pa.array(packed.values(), pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, names=["shard", "piece"])


def _streamed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(rows)
    streamed: bytes = sink.getvalue().to_pybytes()
    return streamed


def _read(piece: pa.Buffer) -> pa.Table:
    if piece[: len(_REFUSED)].to_pybytes() == _REFUSED:
        raise pickle.loads(piece[len(_REFUSED) :])
    return pa.ipc.open_stream(piece).read_all()


def _worked(rows: pa.Table, job: Job[R]) -> pa.Table:
    def result() -> R:
        cases = gathered([_read(piece.as_buffer()) for piece in rows["piece"]])
        return job.merge([]) if cases is None else job.work(cases)

    return _packed(rows, result)


def _merged(rows: pa.Table, job: Job[R]) -> pa.Table:
    return _packed(rows, lambda: job.merge([_opened(packed) for packed in rows["result"].to_pylist()]))


def _packed(rows: pa.Table, work: Callable[[], Any]) -> pa.Table:
    """A row with what the work gives; an error that a user can act on travels as a result."""
    try:
        result = work()
    except SherpaError as error:
        result = error
    shard = rows["shard"][0].as_py()
    return pa.table({"shard": pa.array([shard], pa.int32()), "result": pa.array([pickle.dumps(result)], pa.binary())})


def _opened(packed: bytes) -> Any:
    result = pickle.loads(packed)
    if isinstance(result, SherpaError):
        raise result
    return result


def spread_on_spark(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """One partition per item; results in their order."""
    if not items:
        return []
    packed = _session().sparkContext.parallelize(items, len(items)).map(partial(_called, function)).collect()
    return [_opened(result) for result in packed]


def _called(function: Callable[[T], R], item: T) -> bytes:
    try:
        return pickle.dumps(function(item))
    except SherpaError as error:
        return pickle.dumps(error)


@contextmanager
def _quiet() -> Iterator[None]:
    """Spark warns of versions of pandas newer than itself; no frame of pandas is made here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
        yield


def _session() -> Any:
    """The running session, or a new one.

    Raises
    ------
    ConfigError
        If Spark or Java is not there.
    """
    sql = needed("pyspark.sql", "spark")
    active = sql.SparkSession.getActiveSession()
    if active is not None:
        return active
    if not java():
        raise ConfigError("Spark needs Java 17 or newer: install it, or name its folder in JAVA_HOME")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = sql.SparkSession.builder.appName("sherpa").config("spark.ui.showConsoleProgress", "false")
    with _quiet():
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def java() -> bool:
    """Whether Java is there."""
    home = os.environ.get("JAVA_HOME")
    return bool(home and shutil.which("java", path=os.path.join(home, "bin"))) or shutil.which("java") is not None
