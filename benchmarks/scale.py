"""``python -m benchmarks.scale``: what events cost on each engine, in time, memory and disk.

    python -m benchmarks.scale duckdb --events 50000000 --memory 2GB
    python -m benchmarks.scale engines --events 5000000
    python -m benchmarks.scale ways --events 10000000
    python -m benchmarks.scale disk --events 1000000
    python -m benchmarks.scale spread

Each measured run is a process of its own; beside it the memory of it and all its children is looked at ten times a
second (resident pages, and the same with shared pages counted once), and the bytes in its scratch folder. One JSON
document per command goes to standard output.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import re
import shutil
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.workload import LENGTH, TYPES, write_ledger
from sherpa import ProceduralMemory
from sherpa.counting import count, merge
from sherpa.ledger import LedgerReport
from sherpa.scale.engines import LocalEngine, bytes_of, engine_of
from sherpa.scale.shards import dealt, gathered
from sherpa.scale.source import Source
from sherpa.scale.spread import seeds, spread
from sherpa.scale.transfer import export_ledger

ORDER = 5
PER_FILE = 2_000_000
_SHARES = (0.55, 0.2, 0.1, 0.08, 0.05, 0.02)
_START_MS, _DAY_MS = 1_767_225_600_000, 86_400_000


# -- input -------------------------------------------------------------------------------------------------------


def generate(folder: Path, events: int, seed: int = 1) -> None:
    """Events of a process of forty types, cases of twenty that overlap in time, a file per day."""
    folder.mkdir(parents=True)
    following = np.stack([np.random.default_rng((seed, i)).choice(TYPES, 6, replace=False) for i in range(TYPES)])
    for part, first in enumerate(range(0, events, PER_FILE)):
        rng = np.random.default_rng((seed, TYPES + part))
        cases = max(1, min(PER_FILE, events - first) // LENGTH)
        codes = np.zeros((cases, LENGTH), np.int32)
        for at in range(1, LENGTH):
            drawn = np.searchsorted(np.cumsum(_SHARES), rng.random(cases)).clip(0, 5)
            codes[:, at] = following[codes[:, at - 1], drawn]
        gaps = rng.integers(1, 60_000, codes.shape)
        ms = (rng.integers(0, _DAY_MS - LENGTH * 60_000, (cases, 1)) + gaps.cumsum(axis=1)).ravel()
        order = np.argsort(ms, kind="stable")
        case, code = np.repeat(np.arange(cases), LENGTH)[order], codes.ravel()[order]
        size = len(order)
        seq = first + 1 + np.arange(size)
        spelled = [f"tool.type-{i}.done" for i in range(TYPES)]
        table = {
            "event_id": pc.binary_join_element_wise(_text((seq * 2_654_435_761) % 2**32), _text(seq), "-"),
            "agent_id": _coded(case % 100, [f"agent-{i}" for i in range(100)]),
            "case_id": pc.binary_join_element_wise(pa.scalar("session"), _text(case + first // LENGTH), ":"),
            "instant": (_START_MS + part * _DAY_MS + ms[order]) * 1_000_000,
            "type": _coded(code, spelled),
            "actor": _coded(rng.choice(2, size, p=[0.95, 0.05]), ["agent", "user"]),
            "outcome": _coded(rng.choice(3, size, p=[0.5, 0.45, 0.05]), ["unknown", "success", "failure"]),
            "labels": _coded(code, [f'["tool:type-{i}","tool-family:tool"]' for i in range(TYPES)]),
            "seq": seq,
        }
        pq.write_table(pa.table(table), folder / f"{part:04d}.parquet", compression="zstd", row_group_size=1 << 17)


def _text(numbers: np.ndarray[Any, Any]) -> Any:
    return pc.cast(pa.array(numbers), pa.string())


def _coded(codes: np.ndarray[Any, Any], names: list[str]) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(names))


@contextmanager
def made(events: int, where: Path | None) -> Iterator[tuple[Source, Path]]:
    """A generated source and a scratch folder beside it; refuses where the disk is short."""
    with tempfile.TemporaryDirectory(prefix="sherpa-scale-", dir=where) as folder:
        free = shutil.disk_usage(folder).free
        if free < events * 400:
            sys.exit(f"{folder}: {free:,} bytes are free; {events * 400:,} may be needed")
        generate(Path(folder) / "events", events)
        scratch = Path(folder) / "scratch"
        scratch.mkdir()
        yield Source.of(sorted((Path(folder) / "events").glob("*.parquet"))), scratch


# -- watching ----------------------------------------------------------------------------------------------------


def _family(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                fields = Path(entry.path, "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [root]
    for pid in found:
        found.extend(children.get(pid, []))
    return found


def _memory(pid: int) -> tuple[int, int]:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0, 0
    sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith("kB")}
    return sizes.get("Rss", 0), sizes.get("Pss", 0)


def _size(folder: Path) -> int:
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.path.getsize(os.path.join(base, name))
            except OSError:
                continue
    return total


def watched(action: Callable[..., Any], *arguments: Any, scratch: Path) -> tuple[Any, dict[str, float]]:
    """Run in a process of its own; its result, seconds of the action and of its processor time, peaks in bytes."""
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_child, args=(theirs, action, arguments))
    process.start()
    theirs.close()
    peaks, done = {"rss": 0, "pss": 0, "spilled": 0}, threading.Event()

    def look() -> None:
        while not done.wait(0.1):
            sizes = [_memory(pid) for pid in _family(process.pid or 0)]
            peaks["rss"] = max(peaks["rss"], sum(rss for rss, _ in sizes))
            peaks["pss"] = max(peaks["pss"], sum(pss for _, pss in sizes))
            peaks["spilled"] = max(peaks["spilled"], _size(scratch))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        result, seconds, processor = ours.recv()
    finally:
        done.set()
        watcher.join()
        process.join()
    return result, {"seconds": round(seconds, 2), "processor": round(processor, 2), **peaks}


def _child(pipe: Connection, action: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    begin = time.perf_counter()
    result = action(*arguments)
    seconds, used = time.perf_counter() - begin, os.times()
    pipe.send((result, seconds, used.user + used.system))


# -- what is measured --------------------------------------------------------------------------------------------


def _on_engine(name: str, source: Source, memory: str, scratch: Path) -> Any:
    return engine_of(name, memory=memory, scratch=scratch).count(source, ORDER)


def _twice(name: str, source: Source, memory: str, scratch: Path) -> Any:
    """The first count starts the engine; the seconds of the second are given beside the table."""
    engine = engine_of(name, memory=memory, scratch=scratch)
    engine.count(source, ORDER)
    begin = time.perf_counter()
    table = engine.count(source, ORDER)
    return table, time.perf_counter() - begin


def _file_by_file(source: Source) -> Any:
    """The kernel alone: no case of the generated events is in two files."""
    parts = [LocalEngine().count(Source.of([Path(name)]), ORDER) for name in source.files]
    return merge(*parts)


def measure_duckdb(events: int, memory: str, where: Path | None) -> dict[str, Any]:
    """One count of what is larger than the memory it is given, against the kernel file by file."""
    with made(events, where) as (source, scratch):
        table, found = watched(_on_engine, "duckdb", source, memory, scratch, scratch=scratch)
        expected, _ = watched(_file_by_file, source, scratch=scratch)
        return {
            "events": source.events,
            "memory": bytes_of(memory),
            "input": sum(os.path.getsize(name) for name in source.files),
            "edges": len(table),
            "identical": table.equals(expected),
            **found,
        }


def measure_engines(events: int, memory: str, where: Path | None) -> dict[str, Any]:
    """Every engine on the same events: time with and without its start, memory, the same table; and merging."""
    record: dict[str, Any] = {}
    with made(events, where) as (source, scratch):
        expected = LocalEngine().count(source, ORDER)
        for name in ("local", "duckdb", "ray", "spark"):
            (table, warm), found = watched(_twice, name, source, memory, scratch, scratch=scratch)
            cold = found.pop("seconds") - warm
            if name in ("ray", "spark"):  # that of the driver alone would mislead
                del found["processor"]
            record[name] = {
                "identical": table.equals(expected), "first": round(cold, 2), "again": round(warm, 2), **found,
            }  # fmt: skip
        record["events"], record["edges"] = source.events, len(expected)
        record["merge"] = _merging(source)
    return record


def _merging(source: Source) -> dict[str, Any]:
    """Seconds of counting shards and of merging their tables, all at once and eight by eight."""
    shards = 16
    rows = pa.concat_tables([u.read(details=False) for u in source.units()], promote_options="permissive")
    cases = [c for piece in dealt(rows, shards) if (c := gathered([piece])) is not None]
    begin = time.perf_counter()
    tables = [count(c.loaded.log, ORDER) for c in cases]
    counted = time.perf_counter()
    merge(*tables)
    once = time.perf_counter()
    merge(*(merge(*tables[at : at + 8]) for at in range(0, len(tables), 8)))
    tree = time.perf_counter()
    return {
        "tables": len(tables),
        "rows": sum(map(len, tables)),
        "counting": round(counted - begin, 2),
        "at once": round(once - counted, 2),
        "eight by eight": round(tree - once, 2),
    }


def measure_ways(events: int, memory: str, where: Path | None) -> dict[str, Any]:
    """Ways to use DuckDB: sort and count by the kernel; deal to files and count those; counts in SQL."""
    with made(events, where) as (source, scratch):
        record: dict[str, Any] = {"events": source.events}
        table, record["sort, kernel"] = watched(_on_engine, "duckdb", source, memory, scratch, scratch=scratch)
        dealt_table, record["deal to files, kernel"] = watched(
            _dealt_to_files, source, memory, scratch, scratch=scratch
        )
        record["deal to files, kernel"]["identical"] = table.equals(dealt_table)
        (edges, total), record["SQL, support only"] = watched(_sql, source, memory, scratch, False, scratch=scratch)
        top = table.order == ORDER
        record["SQL, support only"]["top edges agree"] = (edges, total) == (
            int(top.sum()),
            int(table.support[top].sum()),
        )
        _, record["SQL, more columns"] = watched(_sql, source, memory, scratch, True, scratch=scratch)
    return record


def _connected(memory: str, scratch: Path) -> Any:
    import duckdb

    limit = bytes_of(memory) // 2
    return duckdb.connect(
        config={"memory_limit": f"{limit}B", "temp_directory": str(scratch), "preserve_insertion_order": False}
    )


def _dealt_to_files(source: Source, memory: str, scratch: Path) -> Any:
    files = source.events // 1_000_000 + 1
    names = ", ".join(f"'{name}'" for name in source.files)
    with _connected(memory, scratch) as db:
        db.execute(
            f"COPY (SELECT event_id, case_id, instant, seq, type, actor, outcome, hash(case_id) % {files} AS shard "
            f"FROM read_parquet([{names}])) TO '{scratch}/dealt' "
            "(FORMAT parquet, COMPRESSION zstd, PARTITION_BY (shard))"
        )
    tables = []
    for folder in sorted((scratch / "dealt").iterdir()):
        # The rows of a shard come in no order here; the numbers of the generated events are unique.
        tables.append(LocalEngine().count(Source.of(sorted(folder.glob("*.parquet"))), ORDER))
    shutil.rmtree(scratch / "dealt")
    return merge(*tables)


def _sql(source: Source, memory: str, scratch: Path, more: bool) -> tuple[int, int]:
    """Edges of the top order in SQL: how many there are, and their support. Not all that `count` gives."""
    names = ", ".join(f"'{name}'" for name in source.files)
    lags = ", ".join(f"lag(code, {back}) OVER w AS c{back}" for back in range(1, ORDER))
    window = "PARTITION BY case_id ORDER BY instant, seq"
    extra, sums = "", ""
    if more:
        extra = (
            ", lead(outcome) OVER w AS ended, instant // 1000000 AS here, lead(instant) OVER w // 1000000 AS there, "
            f"last_value(CASE WHEN outcome <> 'unknown' THEN outcome END IGNORE NULLS) OVER ({window} ROWS BETWEEN "
            "UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS terminal, first_value(CASE WHEN actor = 'user' THEN code "
            f"END IGNORE NULLS) OVER ({window} ROWS BETWEEN 2 FOLLOWING AND UNBOUNDED FOLLOWING) AS response"
        )
        sums = (
            ", response, count(*) FILTER (ended = 'success'), count(*) FILTER (ended = 'failure'), "
            "count(*) FILTER (terminal = 'success'), count(*) FILTER (terminal = 'failure'), sum(there - here), "
            "min(there - here), max(there - here), max(there)"
        )
    columns = ", ".join(f"c{back}" for back in range(1, ORDER))
    with _connected(memory, scratch) as db:
        db.execute(f"CREATE TYPE names AS ENUM (SELECT DISTINCT type FROM read_parquet([{names}]))")
        found = db.execute(
            f"SELECT count(*), sum(n) FROM (SELECT next, code, {columns}, count(*) AS n{sums} FROM ("
            f"SELECT code, {lags}, lead(code) OVER w AS next{extra} FROM ("
            f"SELECT *, type::names AS code FROM read_parquet([{names}])) "
            f"WINDOW w AS ({window})) WHERE next IS NOT NULL AND c{ORDER - 1} IS NOT NULL GROUP BY ALL)"
        ).fetchone()
    return int(found[0]), int(found[1])


def _with_random_ids(folder: Path) -> int:
    """Ids as agents make them, which no compression makes shorter; gives the bytes by which the ledger grows."""
    rng, grown = random.Random(1), 0
    for segment in folder.glob("*.jsonl"):
        before = segment.read_bytes()
        after = re.sub(rb'"eventId":"[^"]*"', lambda _: b'"eventId":"%s"' % str(_uuid(rng)).encode(), before)
        after = re.sub(rb'"call_\d+"', lambda _: b'"call_%024x"' % rng.getrandbits(96), after)
        segment.write_bytes(after)
        grown += len(after) - len(before)
    return grown


def _uuid(rng: random.Random) -> uuid.UUID:
    return uuid.UUID(int=rng.getrandbits(128), version=4)


def measure_disk(events: int, where: Path | None) -> dict[str, Any]:
    """Bytes per event of ledger, graph and Parquet, and seconds from one to the other."""
    with tempfile.TemporaryDirectory(prefix="sherpa-scale-", dir=where) as folder:
        root, record = Path(folder) / "root", {"events": events}
        record["ledger"] = write_ledger(root, events)
        record["ledger"] += _with_random_ids(root / "events")
        begin = time.perf_counter()
        with ProceduralMemory(root) as memory:  # opening it rebuilds
            record["rebuild seconds"] = time.perf_counter() - begin
            memory.store.vacuum()
            record["graph"] = memory.store.path.stat().st_size
            begin = time.perf_counter()
            record["parquet"] = export_ledger(memory.ledger, Path(folder) / "out", LedgerReport())["bytes"]
            record["export seconds"] = time.perf_counter() - begin
            record["edges"] = memory.store.count_rows("state_edges")
        with ProceduralMemory(Path(folder) / "other") as other:
            from sherpa.scale.rebuild import rebuild_from

            for name, path in (("jsonl", root / "events"), ("parquet", Path(folder) / "out")):
                begin = time.perf_counter()
                rebuild_from(other, engine_of("duckdb"), path)
                record[f"graph of {name} by duckdb, seconds"] = time.perf_counter() - begin
            other.store.vacuum()
            record["graph without events"] = other.store.path.stat().st_size
    return {name: round(value, 2) for name, value in record.items()}


def _resampled(seed: np.random.SeedSequence) -> float:
    rng = np.random.default_rng(seed)
    sample = rng.random(20_000)
    return float(np.median(rng.choice(sample, (100, len(sample))).mean(axis=1)))


def measure_spread() -> dict[str, Any]:
    """Blocks of a bootstrap here and on Ray."""
    record: dict[str, Any] = {"blocks": 200}
    results = []
    for engine in ("local", "ray"):
        spread(_resampled, seeds(0, 2), engine)
        begin = time.perf_counter()
        results.append(spread(_resampled, seeds(1, 200), engine))
        record[engine] = round(time.perf_counter() - begin, 2)
    record["identical"] = results[0] == results[1]
    return record


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale")
    parser.add_argument("what", choices=("duckdb", "engines", "ways", "disk", "spread"))
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--folder", type=Path, help="where to put what is generated")
    given = parser.parse_args()
    measures: dict[str, Callable[[], dict[str, Any]]] = {
        "duckdb": lambda: measure_duckdb(given.events, given.memory, given.folder),
        "engines": lambda: measure_engines(given.events, given.memory, given.folder),
        "ways": lambda: measure_ways(given.events, given.memory, given.folder),
        "disk": lambda: measure_disk(given.events, given.folder),
        "spread": measure_spread,
    }
    print(json.dumps({given.what: measures[given.what](), "cores": os.cpu_count()}, indent=2))


if __name__ == "__main__":
    main()
