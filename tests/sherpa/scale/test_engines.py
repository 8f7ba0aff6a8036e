"""One contract for all engines: the table of the kernel, whatever holds the events and however they are dealt out."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sherpa.counting import NO_MAX, NO_MIN, CountTable
from sherpa.errors import ConfigError, SourceError
from sherpa.instants import NO_INSTANT
from sherpa.scale import libraries
from sherpa.scale.cases import Cases, Job, counting
from sherpa.scale.engines import ENGINES, Engine, LocalEngine, bytes_of, engine_of
from sherpa.scale.on_duckdb import DuckDBEngine, _whole_cases
from sherpa.scale.source import Source
from tests.sherpa.scale.logs import NOON, TYPES, counted, drawn, event, in_files, rows_of

# Ray leaves sockets of its own to the end of the process.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
HEAVY = ("ray", "spark")


def made(name: str) -> Engine:
    """An engine that cuts even small sources into parts."""
    if name == "ray":
        pytest.importorskip("ray")
        from sherpa.scale.on_ray import RayEngine

        return RayEngine(shards=3)
    if name == "spark":
        pytest.importorskip("pyspark")
        from sherpa.scale.on_spark import SparkEngine, java

        if not java():
            pytest.skip("Spark needs Java; none is installed")
        return SparkEngine(shards=9)
    if name == "duckdb":
        pytest.importorskip("duckdb")
        engine = DuckDBEngine()
        engine.events, engine.batch = 7, 4
        return engine
    return engine_of(name)


@pytest.fixture(params=[pytest.param(n, marks=pytest.mark.full) if n in HEAVY else n for n in ENGINES])
def engine(request: pytest.FixtureRequest) -> Engine:
    return made(request.param)


@pytest.mark.parametrize("seed", [1, 2])
def test_random_logs_over_several_files(engine: Engine, tmp_path: Path, seed: int) -> None:
    events = drawn(seed, events=400, cases=25)
    assert engine.count(in_files(tmp_path, events, files=3), 4).equals(counted(events))


def test_nothing(engine: Engine, tmp_path: Path) -> None:
    table = engine.count(in_files(tmp_path, []), 3)
    assert len(table) == 0
    assert table.max_order == 3


def test_one_case(engine: Engine, tmp_path: Path) -> None:
    events = drawn(3, events=60, cases=1)
    assert engine.count(in_files(tmp_path, events, files=2), 4).equals(counted(events))


def test_a_single_event_makes_no_edge(engine: Engine, tmp_path: Path) -> None:
    assert len(engine.count(in_files(tmp_path, [event(1, "c", "a", NOON)]), 2)) == 0


def test_an_alphabet_too_wide_for_one_word(engine: Engine, tmp_path: Path) -> None:
    events = drawn(4, events=3_000, cases=40, types=[f"type-{i}" for i in range(2_000)])
    assert engine.count(in_files(tmp_path, events, files=2), 6).equals(counted(events, 6))


def test_equal_times_are_ordered_by_number_and_then_by_place(engine: Engine, tmp_path: Path) -> None:
    events = [
        event(1, "c", "a", NOON, seq=2),
        event(2, "c", "b", NOON, seq=1),
        event(3, "c", "x", NOON, seq=2),
        event(4, "c", "y", NOON, seq=2),
    ]
    table = engine.count(in_files(tmp_path, events, files=4), 1)
    assert sorted(rows_of(table)) == [("a", "=>", "x"), ("b", "=>", "a"), ("x", "=>", "y")]


def test_unknown_times_come_first_and_have_no_duration(engine: Engine, tmp_path: Path) -> None:
    columns = {
        "case_id": ["c"] * 4,
        "type": ["late", "a", "b", "early"],
        "instant": pa.array([NOON + 3_000_000_000, None, None, NOON], pa.int64()),
    }
    pq.write_table(pa.table(columns), tmp_path / "0.parquet")
    table = engine.count(Source.of([tmp_path / "0.parquet"]), 1)
    untimed = (1, 0, 0, 0, 0, 1, 0, 0, NO_MIN, NO_MAX)
    assert rows_of(table) == {
        ("a", "=>", "b"): untimed,
        ("b", "=>", "early"): untimed,
        ("early", "=>", "late"): (1, 0, 0, 0, 0, 1, 1, 3_000, 3_000, 3_000),
    }
    assert sorted(table.last_seen.tolist()) == [NO_INSTANT, NOON, NOON + 3_000_000_000]


def test_an_event_that_stands_twice_counts_once_the_first_by_place(engine: Engine, tmp_path: Path) -> None:
    events = [
        event(1, "c", "a", NOON),
        event(2, "c", "b", NOON + 10**9),
        event(3, "c", "odd", NOON - 10**9, event_id="e2"),
        event(4, "c", "c", NOON + 2 * 10**9),
        event(5, "other", "b", NOON, event_id="e2"),
        event(6, "other", "c", NOON + 1),
    ]
    table = engine.count(in_files(tmp_path, events, files=2), 1)
    assert {edge: row[0] for edge, row in rows_of(table).items()} == {("a", "=>", "b"): 1, ("b", "=>", "c"): 2}


@pytest.mark.parametrize(
    ("columns", "field", "problem"),
    [
        ({"case_id": ["c", "c"], "type": ["a", None], "instant": [1, 2]}, "type", "lacks"),
        ({"case_id": ["c", None], "type": ["a", "b"], "instant": [1, 2]}, "case_id", "lacks"),
        ({"case_id": ["c", "c"], "type": ["a", ""], "instant": [1, 2]}, "type", "empty"),
        ({"case_id": ["c", "c"], "type": ["a", "b"], "instant": [1, 2], "outcome": ["success", "ok"]}, "outcome", "ok"),
    ],
    ids=["no type", "no case", "empty type", "odd outcome"],
)
def test_rows_that_are_no_events_are_refused(
    engine: Engine, tmp_path: Path, columns: dict[str, Sequence[Any]], field: str, problem: str
) -> None:
    pq.write_table(pa.table(columns), tmp_path / "0.parquet")
    with pytest.raises(SourceError, match=problem) as error:
        engine.count(Source.of([tmp_path / "0.parquet"]), 1)
    assert error.value.field == field


def test_an_order_below_one_is_refused(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="max_order"):
        engine.count(in_files(tmp_path, []), 0)


stamps = st.integers(0, 5).map(lambda at: NOON + at * 700_000_000)
logs = st.lists(
    st.tuples(
        st.sampled_from(["x", "y", "é"]),
        st.sampled_from(TYPES),
        stamps,
        st.sampled_from(["user", "agent"]),
        st.sampled_from(["success", "failure", "unknown"]),
        st.integers(0, 3),
    ),
    max_size=30,
)


@pytest.mark.parametrize("name", ["local", "duckdb"])
@settings(max_examples=40)
@given(log=logs, files=st.integers(1, 3), order=st.integers(1, 5))
def test_any_log(name: str, log: list[tuple[Any, ...]], files: int, order: int) -> None:
    events = [
        event(at, case, kind, instant, actor=actor, outcome=outcome, seq=seq)
        for at, (case, kind, instant, actor, outcome, seq) in enumerate(log)
    ]
    with tempfile.TemporaryDirectory() as folder:
        assert made(name).count(in_files(Path(folder), events, files), order).equals(counted(events, order))


def test_parts_cut_no_case(tmp_path: Path) -> None:
    rows = pa.table({"case_id": list("aabbbbbbcdd"), "type": ["t"] * 11, "instant": range(11)})
    parts = list(_whole_cases(iter(rows.to_batches(max_chunksize=2)), 3, details=False))
    assert ["".join(part["case_id"].to_pylist()) for part in parts] == ["aabbbbbb", "cdd"]


def test_duckdb_spills_and_gives_the_same(tmp_path: Path) -> None:
    """Less memory than the columns take."""
    pytest.importorskip("duckdb")
    rng = np.random.default_rng(5)
    size, cases = 1_000_000, 50_000
    columns = {
        "case_id": pa.array([f"a case with a rather long name, number {c}" for c in rng.integers(0, cases, size)]),
        "type": pa.DictionaryArray.from_arrays(rng.integers(0, 9, size).astype(np.int32), pa.array(list("abcdefghi"))),
        "instant": rng.permutation(size) * 10**6,
        "event_id": pa.array([f"00000000-0000-0000-0000-{i:012d}" for i in range(size)]),
    }
    for at in range(4):
        part = {name: column[at * size // 4 : (at + 1) * size // 4] for name, column in columns.items()}
        pq.write_table(pa.table(part), tmp_path / f"{at}.parquet")
    source = Source.of(sorted(tmp_path.glob("*.parquet")))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    engine = DuckDBEngine(scratch=scratch, threads=1)
    engine.limit, engine.events = 60 * 10**6, 200_000
    spilled, job = [], counting(3)

    def watched(cases: Cases) -> CountTable:
        spilled.append(sum(path.stat().st_size for path in scratch.rglob("*") if path.is_file()))
        return job.work(cases)

    table = engine.fold(source, Job(watched, job.merge))
    assert len(spilled) > 3
    assert max(spilled) > 10**6
    assert table.equals(LocalEngine().count(source, 3))
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(("text", "size"), [("2GB", 2 * 10**9), ("512 MiB", 512 * 2**20), ("1.5kb", 1500)])
def test_amounts_of_memory(text: str, size: int) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["2", "GB", "-1GB", "2GBs", "٣GB"])
def test_no_amounts_of_memory(text: str) -> None:
    with pytest.raises(ConfigError, match="memory"):
        bytes_of(text)


def test_an_engine_that_is_unknown() -> None:
    with pytest.raises(ConfigError, match=r"flink.*local, duckdb, ray, spark"):
        engine_of("flink")


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [("duckdb", "duckdb", "scale"), ("ray", "ray", "ray"), ("spark", "pyspark.sql", "spark")],
)
def test_a_library_that_is_not_there_is_named_with_its_extra(
    name: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def importing(wanted: str) -> object:
        if wanted == module:
            package = module.split(".")[0]
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
        return import_module(wanted)

    monkeypatch.setattr(libraries, "import_module", importing)
    with pytest.raises(ConfigError, match=rf"sherpa-procedural-memory\[{extra}\]"):
        engine_of(name)


def test_spark_without_java_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    from sherpa.scale import on_spark

    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(on_spark, "needed", lambda *_: type("sql", (), {"SparkSession": _NoSession}))
    with pytest.raises(ConfigError, match="Java"):
        on_spark._session()


class _NoSession:
    @staticmethod
    def getActiveSession() -> None:
        return None


def test_engines_are_found_by_name() -> None:
    lacking = [n for n, m in (("duckdb", "duckdb"), ("ray", "ray"), ("spark", "pyspark")) if find_spec(m) is None]
    assert engine_of("local").name == "local"
    if "duckdb" not in lacking:
        assert engine_of("duckdb").name == "duckdb"
