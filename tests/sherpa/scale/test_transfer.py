"""A ledger goes to Parquet and comes back exactly."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from sherpa import EngineConfig, ProceduralMemory
from sherpa.cli import scale
from sherpa.cli.main import options
from sherpa.errors import SourceError
from sherpa.event import Event, EventContext, Projection
from sherpa.instants import format_instant
from sherpa.ledger import LedgerReport
from sherpa.scale import parquet
from sherpa.scale.parquet import SCHEMA, read_events, write_events
from sherpa.scale.transfer import export_ledger, import_ledger
from tests.sherpa.scale.logs import NOON, event

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
projections = st.builds(
    Projection,
    version=names,
    source=st.sampled_from(["llm", "manual", "imported"]),
    confidence=st.none() | st.floats(0, 1),
    task_class=st.none() | texts,
    entity_roles=st.lists(texts, max_size=2).map(tuple),
)
contexts = st.builds(EventContext, text=st.none() | texts, preceding=st.none() | texts)
instants = st.integers(-(2**63) + 1, 2**63 - 1)
events = st.builds(
    Event,
    event_id=names,
    agent_id=names,
    case_id=names,
    ts=instants.map(format_instant),
    source=names,
    type=names,
    actor=names,
    outcome=st.sampled_from(["success", "failure", "unknown"]),
    labels=st.lists(texts, max_size=3).map(tuple),
    entities=st.lists(texts, max_size=3).map(tuple),
    projection=st.just(msgspec.UNSET) | projections,
    metrics=st.dictionaries(texts, st.floats(allow_nan=False, allow_infinity=False), max_size=3),
    meta=st.dictionaries(texts, values, max_size=3),
    context=st.just(msgspec.UNSET) | contexts,
    seq=st.just(msgspec.UNSET) | st.integers(-(2**63), 2**63 - 1),
)


def batches(events: list[Event], size: int = 3) -> list[tuple[list[Event], np.ndarray[Any, Any]]]:
    parts = [events[at : at + size] for at in range(0, len(events), size)]
    return [(part, np.array([e.instant for e in part], np.int64)) for part in parts]


@settings(max_examples=150)
@given(given_events=st.lists(events, max_size=8))
def test_every_event_comes_back_to_the_byte(given_events: list[Event]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.parquet"
        assert write_events(path, batches(given_events)) == len(given_events)
        found = [e for part in read_events(path) for e in part]
    assert list(map(msgspec.json.encode, found)) == list(map(msgspec.json.encode, given_events))
    assert found == given_events


def test_instants_are_int64_nanoseconds_and_objects_are_text(tmp_path: Path) -> None:
    one = event(1, "c", "a", NOON + 1, meta={"b": [1], "a": None}, labels=("x",))
    write_events(tmp_path / "one.parquet", batches([one]))
    table = pq.read_table(tmp_path / "one.parquet")
    assert table.schema.names == SCHEMA.names
    assert table["instant"].type == pa.int64()
    row = table.to_pylist()[0]
    assert (row["instant"], row["meta"], row["labels"], row["projection"]) == (
        NOON + 1,
        '{"b":[1],"a":null}',
        '["x"]',
        None,
    )
    assert pq.ParquetFile(tmp_path / "one.parquet").metadata.row_group(0).column(0).compression == "ZSTD"


def test_rows_are_held_a_group_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "ROWS_PER_GROUP", 10)
    read = []

    def stream() -> Any:
        for at in range(25):
            yield [event(at, "c", "a", NOON + at)], np.array([NOON + at])
            read.append(at)

    assert write_events(tmp_path / "x.parquet", stream()) == 25
    metadata = pq.ParquetFile(tmp_path / "x.parquet").metadata
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [10, 10, 5]
    assert [len(part) for part in read_events(tmp_path / "x.parquet")] == [25]


def test_nothing_is_left_of_a_file_that_could_not_be_finished(tmp_path: Path) -> None:
    def broken() -> Any:
        yield from batches([event(1, "c", "a", NOON)])
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        write_events(tmp_path / "x.parquet", broken())
    assert list(tmp_path.iterdir()) == []


ROW = {
    "event_id": "e", "schema_version": 1, "agent_id": "main", "case_id": "c", "instant": NOON, "source": "s",
    "type": "a", "actor": "agent", "outcome": "unknown", "labels": "[]", "entities": "[]", "projection": None,
    "metrics": "{}", "meta": "{}", "context": None, "seq": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"case_id": ""}, "row 2 is empty"),
        ({"type": None}, "row 2 is missing"),
        ({"outcome": "ok"}, "row 2 is none of"),
        ({"schema_version": 2}, "row 2 is not 1"),
        ({"labels": "[1]"}, "row 2"),
        ({"metrics": '{"n":"x"}'}, "row 2"),
        ({"meta": "[]"}, "row 2"),
        ({"projection": '{"version":"1","source":"guess"}'}, "row 2"),
        ({"context": '{"text":"' + "x" * 501 + '"}'}, "row 2"),
        ({"instant": -(2**63)}, "row 2 is unknown"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_is_no_event_is_refused_with_its_row_and_field(
    change: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    rows = [ROW, {**ROW, "event_id": "f", "seq": 2, **change}]
    schema = pa.schema([field.with_nullable(True) for field in SCHEMA])
    path = tmp_path / "x.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema), path)
    with pytest.raises(SourceError, match=problem) as error:
        list(read_events(path))
    assert error.value.field == next(iter(change))
    with ProceduralMemory(tmp_path / "root") as memory:
        with pytest.raises(SourceError):
            import_ledger(memory, path)
        assert memory.status()["events"] == 0
        assert list(memory.ledger.folder.glob("*.jsonl*")) == []
        assert list(memory.ledger.folder.glob(".*.tmp")) == []


def test_files_that_are_no_ledgers_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.parquet").write_text("not Parquet")
    pq.write_table(pa.table({"case_id": ["c"]}), tmp_path / "short.parquet")
    odd = {name: pa.array([0]) for name in SCHEMA.names} | {"instant": pa.array(["soon"])}
    pq.write_table(pa.table(odd), tmp_path / "odd.parquet")
    for name, problem in (("text", "cannot be read"), ("short", "lacks the columns"), ("odd", "another type")):
        with pytest.raises(SourceError, match=problem):
            list(read_events(tmp_path / f"{name}.parquet"))


def ledger(root: Path, clock: Any = None) -> ProceduralMemory:
    """Three days, gaps in the numbers, texts of all kinds."""
    memory = ProceduralMemory(root, EngineConfig(default_order=2, max_order=3))
    for at in range(30):
        memory.ingest(
            {
                "eventId": f"e{at}",
                "caseId": f"c{at % 4}",
                "source": "s",
                "type": "ab"[at % 2],
                "ts": f"2026-01-0{1 + at // 10}T00:00:{at:02d}.{'000000001' if at % 3 else '5'}Z",
                "labels": ["workflow:w", "é"],
                "meta": {"z": at, "a": {"deep": [None, 1.5, "\u2028"]}},
                "metrics": {"n": at},
            }
        )
    memory.forget("c2")
    return memory


def bytes_of(memory: ProceduralMemory) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in memory.ledger.segments()}


def test_an_empty_memory_gets_the_ledger_back_byte_for_byte(tmp_path: Path) -> None:
    with ledger(tmp_path / "one") as memory, ProceduralMemory(tmp_path / "two", memory.config) as other:
        report = export_ledger(memory.ledger, tmp_path / "out", LedgerReport())
        assert (report["files"], report["events"]) == (3, 23)
        assert import_ledger(other, tmp_path / "out") == {"restored": True, "added": 23, "skipped": 0, "forgotten": 0}
        assert bytes_of(other) == bytes_of(memory)
        memory.rebuild()
        for table in ("events", "cases", "state_edges", "workflows"):
            assert other.store.rows(table) == memory.store.rows(table)
        last = max(e.seq for e in memory.ledger.read() if isinstance(e.seq, int))
        assert other.ingest({"caseId": "c", "source": "s", "type": "a", "ts": "2026-01-09T00:00:00Z"}).seq == last + 1


def test_beside_other_events_they_are_added_once(tmp_path: Path) -> None:
    with ledger(tmp_path / "one") as memory, ProceduralMemory(tmp_path / "two") as other:
        export_ledger(memory.ledger, tmp_path / "out", LedgerReport())
        other.ingest({"eventId": "e0", "caseId": "c0", "source": "s", "type": "a", "ts": "2026-01-01T00:00:00.500Z"})
        first = import_ledger(other, tmp_path / "out")
        assert first == {"restored": False, "added": 22, "skipped": 1, "forgotten": 0}
        assert import_ledger(other, tmp_path / "out")["skipped"] == 23
        assert other.status()["events"] == 23


def test_numbers_that_do_not_rise_are_given_anew(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_events(out / "a.parquet", batches([event(1, "c", "a", NOON, seq=7), event(2, "c", "b", NOON, seq=7)]))
    with ProceduralMemory(tmp_path / "root") as memory:
        assert import_ledger(memory, out) == {"restored": False, "added": 2, "skipped": 0, "forgotten": 0}
        assert [e.seq for e in memory.ledger.read()] == [1, 2]


@pytest.mark.parametrize("also", [False, True], ids=["empty", "beside others"])
def test_a_forgotten_case_stays_away(also: bool, tmp_path: Path) -> None:
    with ledger(tmp_path / "one") as memory, ProceduralMemory(tmp_path / "two") as other:
        export_ledger(memory.ledger, tmp_path / "out", LedgerReport())
        gone = sum(e.case_id == "c1" for e in memory.ledger.read())
        other.ingest({"caseId": "c1", "source": "s", "type": "a"})
        other.forget("c1")
        if also:
            other.ingest({"caseId": "mine", "source": "s", "type": "a"})
        assert import_ledger(other, tmp_path / "out") == {
            "restored": not also, "added": 23 - gone, "skipped": 0, "forgotten": gone,
        }  # fmt: skip
        assert gone == 8
        assert other.store.case_types("c1") == ()


def test_an_export_does_not_mix_with_another(tmp_path: Path) -> None:
    with ledger(tmp_path / "one") as memory:
        export_ledger(memory.ledger, tmp_path / "out", LedgerReport())
        with pytest.raises(SourceError, match="new folder"):
            export_ledger(memory.ledger, tmp_path / "out", LedgerReport())


# -- commands ----------------------------------------------------------------------------------------------------


def app() -> typer.Typer:
    """The global options, and the commands under test."""
    program = typer.Typer()
    program.callback()(options)
    scale.register(program)
    return program


def test_commands_there_and_back(tmp_path: Path) -> None:
    with ledger(tmp_path / "one") as memory:
        expected = bytes_of(memory)
    out, run = str(tmp_path / "out"), CliRunner()
    result = run.invoke(app(), ["--root", str(tmp_path / "one"), "ledger-export", "--output", out, "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert (report["events"], report["files"], report["malformed"]) == (23, 3, 0)
    result = run.invoke(app(), ["--root", str(tmp_path / "two"), "ledger-import", out, "--json"])
    assert json.loads(result.stdout) == {"restored": True, "added": 23, "skipped": 0, "forgotten": 0}
    with ProceduralMemory(tmp_path / "two") as other:
        assert bytes_of(other) == expected
    again = run.invoke(app(), ["--root", str(tmp_path / "one"), "ledger-export", "--output", out])
    assert again.exit_code == 2
    assert "new folder" in again.stderr
    wrong = run.invoke(app(), ["--root", str(tmp_path / "one"), "ledger-export", "--output", out, "--format", "orc"])
    assert wrong.exit_code == 2
    assert run.invoke(app(), ["ledger-import", str(tmp_path / "nowhere")]).exit_code == 2
