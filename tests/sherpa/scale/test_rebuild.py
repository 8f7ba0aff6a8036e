"""`sherpa rebuild --engine`: the tables of the ordinary rebuild, row for row."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sherpa import EngineConfig, ProceduralMemory
from sherpa.cli.main import app
from sherpa.derive import DERIVED
from sherpa.errors import ConfigError, SourceError, StoreError
from sherpa.ledger import LedgerReport
from sherpa.scale.rebuild import STORED, rebuild, rebuild_from
from sherpa.scale.transfer import export_ledger
from tests.sherpa.scale.logs import NOON, drawn, event
from tests.sherpa.scale.test_engines import HEAVY, made

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
CONFIG = EngineConfig(default_order=2, max_order=4)
engines = pytest.mark.parametrize(
    "name", ["local", "duckdb", *(pytest.param(n, marks=pytest.mark.full) for n in HEAVY)]
)


def filled(root: Path, seed: int = 1, events: int = 300, prefix: str = "") -> ProceduralMemory:
    memory = ProceduralMemory(root, CONFIG)
    drawn_events = drawn(seed, events, cases=20)
    memory.ingest_batch([{**json.loads(_line(e)), "eventId": f"{prefix}{e.event_id}"} for e in drawn_events])
    return memory


def _line(e: Any) -> bytes:
    import msgspec

    return msgspec.json.encode(e)


def tables(memory: ProceduralMemory, names: tuple[str, ...] = DERIVED) -> dict[str, list[Any]]:
    return {name: sorted(memory.store.rows(name), key=repr) for name in names}


@engines
def test_the_own_ledger_gives_every_table(name: str, tmp_path: Path) -> None:
    with filled(tmp_path) as memory:
        memory.rebuild()
        expected, count = tables(memory), int(memory.store.metadata()["rebuildCount"])
        assert all(expected.values())
        rebuild(memory, made(name))
        assert tables(memory) == expected
        assert memory.store.metadata()["rebuildCount"] == str(count + 1)
        assert memory.status()["healthy"]
        memory.ingest({"caseId": "case-1", "source": "s", "type": "b", "ts": "2026-01-02T00:00:00Z"})
        assert list((tmp_path / "tmp").iterdir()) == []


@engines
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_other_ledgers_give_every_table_but_the_events(name: str, kind: str, tmp_path: Path) -> None:
    """Two roots, with cases and numbers in common, against one ledger that holds both."""
    both = tmp_path / "both"
    for at, root in enumerate(("first", "second")):
        with filled(tmp_path / "fleet" / root, seed=at, prefix=f"{root}-") as memory:
            if kind == "parquet":
                export_ledger(memory.ledger, tmp_path / "exported" / root, LedgerReport())
            (both / "events").mkdir(parents=True, exist_ok=True)
            for segment in memory.ledger.segments():
                with open(both / "events" / segment.name, "ab") as file:
                    file.write(segment.read_bytes())
    with ProceduralMemory(both, CONFIG) as memory:
        memory.rebuild()
        expected = tables(memory, STORED)
    with ProceduralMemory(tmp_path / "graph", CONFIG) as memory:
        counted = rebuild_from(memory, made(name), tmp_path / ("fleet" if kind == "jsonl" else "exported"))
        assert tables(memory, STORED) == expected
        assert memory.store.count_rows("events") == 0
        assert (counted.events, counted.cases, counted.duplicates, counted.malformed) == (600, 20, 0, ())
        assert counted.edges == len(expected["state_edges"])
    with ProceduralMemory(tmp_path / "graph") as memory:
        assert tables(memory, STORED) == expected


def test_new_cases_are_advised_from_the_counts_of_others(tmp_path: Path) -> None:
    with filled(tmp_path / "fleet") as memory:
        memory.ingest({"caseId": "here", "source": "s", "type": "a", "ts": "2026-02-01T00:00:00Z"})
        memory.rebuild()
        expected = memory.workflow_next("here").candidates
    with ProceduralMemory(tmp_path / "agent", CONFIG) as memory:
        rebuild_from(memory, made("local"), tmp_path / "fleet" / "events")
        memory.ingest({"caseId": "here too", "source": "s", "type": "a", "ts": "2026-02-01T00:00:00Z"})
        assert memory.workflow_next("here too").candidates == expected
        assert expected


@engines
def test_an_empty_ledger(name: str, tmp_path: Path) -> None:
    with ProceduralMemory(tmp_path, CONFIG) as memory:
        rebuild(memory, made(name))
        assert tables(memory) == {table: [] for table in DERIVED}


@pytest.mark.parametrize("name", ["local", "duckdb"])
def test_an_id_that_stands_twice_is_stored_and_counted_once(name: str, tmp_path: Path) -> None:
    with filled(tmp_path) as memory:
        memory.rebuild()
        expected = tables(memory)
        for segment in memory.ledger.segments():
            segment.write_bytes(segment.read_bytes() * 2)
        rebuild(memory, made(name))
        assert tables(memory) == expected
        assert memory.last_report.duplicates == 300
    with ProceduralMemory(tmp_path / "graph", CONFIG) as other:
        assert rebuild_from(other, made(name), tmp_path / "events").duplicates == 300
        assert tables(other, STORED) == {table: expected[table] for table in STORED}


def test_lines_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    with filled(tmp_path / "fleet") as memory:
        segment = memory.ledger.segments()[0]
        segment.write_bytes(segment.read_bytes() + b"{broken\n[]\n")
        lines = segment.read_bytes().count(b"\n")
        rebuild(memory, made("local"))
        assert [line.line for line in memory.last_report.malformed] == [lines - 1, lines]
    with ProceduralMemory(tmp_path / "graph", CONFIG) as other:
        counted = rebuild_from(other, made("duckdb"), tmp_path / "fleet")
        assert [(Path(line.file).name, line.line) for line in counted.malformed] == [
            (segment.name, lines - 1),
            (segment.name, lines),
        ]


def test_a_memory_with_events_of_its_own_is_not_overwritten(tmp_path: Path) -> None:
    with filled(tmp_path / "one") as memory, filled(tmp_path / "two", seed=2) as other:
        before = tables(memory)
        with pytest.raises(StoreError, match="--root"):
            rebuild_from(memory, made("local"), other.root)
        assert tables(memory) == before


@pytest.mark.parametrize(
    ("change", "word"),
    [({"state_strategy": "procedure"}, "procedure"), ({"parity": True}, "parity")],
)
def test_only_raw_states_are_counted(change: dict[str, Any], word: str, tmp_path: Path) -> None:
    with ProceduralMemory(tmp_path, CONFIG, overrides=change) as memory:
        with pytest.raises(ConfigError, match=word):
            rebuild(memory, made("local"))
        with pytest.raises(ConfigError, match=word):
            rebuild_from(memory, made("local"), tmp_path)


def test_inputs_that_are_none(tmp_path: Path) -> None:
    with ProceduralMemory(tmp_path / "root", CONFIG) as memory:
        for folder, problem in ((tmp_path / "nowhere", "does not exist"), (tmp_path / "root", "holds neither")):
            with pytest.raises(SourceError, match=problem):
                rebuild_from(memory, made("local"), folder)
        mixed = tmp_path / "mixed"
        with filled(tmp_path / "fleet") as other:
            export_ledger(other.ledger, mixed, LedgerReport())
        shutil.copytree(tmp_path / "fleet" / "events", mixed / "events")
        with pytest.raises(SourceError, match="both"):
            rebuild_from(memory, made("local"), mixed)
        assert tables(memory) == {table: [] for table in DERIVED}


def test_what_waits_in_queues_is_not_counted(tmp_path: Path) -> None:
    with filled(tmp_path / "fleet" / "agent"):
        pass
    waiting = tmp_path / "fleet" / "agent" / "queue" / "waiting.jsonl"
    waiting.parent.mkdir(exist_ok=True)
    waiting.write_text('{"eventId":"x","caseId":"c","ts":"2026-01-01T00:00:00.000Z","source":"s","type":"a","seq":1}\n')
    with ProceduralMemory(tmp_path / "graph", CONFIG) as memory:
        assert rebuild_from(memory, made("local"), tmp_path / "fleet").events == 300
        assert rebuild_from(memory, made("local"), waiting).events == 1
        assert rebuild_from(memory, made("local"), waiting.parent).events == 1


# -- command -----------------------------------------------------------------------------------------------------


def sherpa(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.mark.parametrize("arguments", [(), ("--engine", "duckdb"), ("--engine", "local", "--memory", "1GB")])
def test_command_on_the_own_ledger(arguments: tuple[str, ...], tmp_path: Path) -> None:
    with filled(tmp_path) as memory:
        expected = tables(memory)
    result = sherpa("--root", tmp_path, "rebuild", *arguments, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["events"] == 300
    with ProceduralMemory(tmp_path) as memory:
        assert tables(memory) == expected


def test_command_on_an_input_says_what_is_stored(tmp_path: Path) -> None:
    filled(tmp_path / "fleet").close()
    result = sherpa(
        "--root", tmp_path / "g", "--max-order", "4", "rebuild", "--engine", "duckdb", "--input", tmp_path / "fleet",
        "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["events"] == 0
    assert report["cases"] == 20
    assert report["input"] == {
        "path": str(tmp_path / "fleet"),
        "engine": "duckdb",
        "events": 300,
        "cases": 20,
        "duplicates": 0,
        "malformed": 0,
        "stored": list(STORED),
    }
    shown = sherpa("--root", tmp_path / "g", "rebuild", "--input", tmp_path / "fleet")
    assert "events are not copied" in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--engine", "flink"), "flink"),
        (("--engine", "duckdb", "--memory", "much"), "much"),
        (("--input", "nowhere"), "nowhere"),
    ],
)
def test_command_refuses(arguments: tuple[str, ...], problem: str, tmp_path: Path) -> None:
    result = sherpa("--root", tmp_path, "rebuild", *arguments)
    assert result.exit_code == 2
    assert problem in result.stderr


def test_the_order_of_arrival_decides_between_equal_times(tmp_path: Path, clock: Callable[[], int]) -> None:
    with ProceduralMemory(tmp_path, CONFIG, clock=clock) as memory:
        for number, kind in enumerate("abcd"):
            memory.ingest(event(number, "c", kind, NOON))
        expected = tables(memory)
        rebuild(memory, made("duckdb"))
        assert tables(memory) == expected
        assert {row[1] for row in memory.store.rows("state_edges")} >= {"a -> b -> c"}
