"""The nine kinds of hard checks, all of which really look (acceptance checks 36 to 42, 45 to 48, 50, 51, 54)."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from harness.saga.checks import TRAITS, CheckContext, partition, run_checks
from harness.saga.model import KINDS
from tests.harness.saga.checking import check, write


def test_036_sizes_are_bytes(root: Path) -> None:
    write(root, "a.md", "字" * 800)
    found = check(root, "file-size-gt", path="a.md", minBytes=2000)
    assert found.passed
    assert found.evidence["bytes"] == 2400


@pytest.mark.parametrize("kind", ["file-size-gt", "file-exists"])
def test_037_three_quarters_are_enough(root: Path, kind: str) -> None:
    write(root, "a.md", "x" * 1499)
    found = check(root, kind, path="a.md", minBytes=2000)
    assert not found.passed
    assert "1499 bytes; expected 2000 bytes, threshold 1500" in found.detail
    write(root, "a.md", "x" * 1500)
    assert check(root, kind, path="a.md", minBytes=2000).passed
    write(root, "a.md", "x" * 1000)
    assert check(root, kind, path="a.md", minBytes=2000, minBytesTolerance=0.5).passed


def test_038_strict_is_strict(root: Path) -> None:
    write(root, "a.md", "x" * 1999)
    assert not check(root, "file-size-gt", path="a.md", minBytes=2000, strict=True).passed
    write(root, "a.md", "x" * 2000)
    assert check(root, "file-size-gt", path="a.md", minBytes=2000, strict=True).passed


@pytest.mark.parametrize("kind", ["file-exists", "file-size-gt", "log-scan", "file-schema", "metrics"])
@pytest.mark.parametrize("path", ["", None, ".", "../a.md", "/etc/passwd"])
def test_039_a_path_that_is_none_fails(root: Path, kind: str, path: str | None) -> None:
    write(root, "a.md", "x")
    rest = {"minBytes": 1, "schema": {"type": "object"}, "metric": "a", "op": ">", "value": 0}
    assert not check(root, kind, path=path, **rest).passed


def test_040_a_folder_fails(root: Path) -> None:
    write(root, "folder/a.md", "x")
    assert not check(root, "file-exists", path="folder").passed
    assert not check(root, "file-size-gt", path="folder", minBytes=1).passed


def test_041_an_empty_file_fails(root: Path) -> None:
    write(root, "a.md", "")
    found = check(root, "file-exists", path="a.md")
    assert not found.passed
    assert "empty" in found.detail


@pytest.mark.parametrize("size", [0, None, "nan", float("nan"), -1, True])
def test_042_a_missing_file_fails_whatever_its_size(root: Path, size: Any) -> None:
    for kind in ("file-exists", "file-size-gt"):
        found = check(root, kind, path="a.md", minBytes=size)
        assert not found.passed
        assert "file not found: a.md" in found.detail
    write(root, "b.md", "x")
    assert not check(root, "file-size-gt", path="b.md", minBytes=size).passed


SCHEMA = {
    "type": "object",
    "required": ["id", "score"],
    "properties": {
        "id": {"type": "string", "pattern": "^r\\d+$"},
        "score": {"type": "integer", "minimum": 1, "maximum": 5},
    },
    "additionalProperties": False,
}


def test_045_a_bad_record_is_named(root: Path) -> None:
    write(root, "r.jsonl", '{"id": "r1", "score": 3}\n{"id": "r2", "score": 9}\n{"id": "r3", "score": 5}\n')
    found = check(root, "file-schema", path="r.jsonl", schema=SCHEMA)
    assert not found.passed
    assert "record 2: /score" in found.detail
    write(root, "r.jsonl", '{"id": "r1", "score": 3}\nno json\n')
    assert "record 2" in check(root, "file-schema", path="r.jsonl", schema=SCHEMA).detail
    write(root, "r.jsonl", '{"id": "r1", "score": 3}\n\n{"id": "r2", "score": 1}\n')
    assert check(root, "file-schema", path="r.jsonl", schema=SCHEMA).passed


def test_045_the_first_five_violations(root: Path) -> None:
    write(root, "r.json", json.dumps([{"id": n, "score": 0, "x": 1} for n in range(9)]))
    found = check(root, "file-schema", path="r.json", schema=SCHEMA)
    assert "9 of 9 records" in found.detail
    assert found.detail.count("record ") == 5


@pytest.mark.parametrize(
    ("name", "content"), [("r.jsonl", "\n\n"), ("r.json", "[]"), ("r.csv", "id,score\n"), ("r.csv", "")]
)
def test_046_no_records_fail(root: Path, name: str, content: str) -> None:
    write(root, name, content)
    found = check(root, "file-schema", path=name, schema=SCHEMA)
    assert not found.passed
    assert "no records" in found.detail


def test_047_cells_have_types(root: Path) -> None:
    write(root, "r.csv", 'id,score\nr1,3\n"r2",5\n')
    assert check(root, "file-schema", path="r.csv", schema=SCHEMA).passed
    for row, place in (
        ("r1,high", "/score"),
        ("r1,2.5", "/score"),
        ("r1,", "/score"),
        ("x,3", "/id"),
        ("r1,3,4", "cells"),
    ):
        write(root, "r.csv", f"id,score\nr0,1\n{row}\n")
        found = check(root, "file-schema", path="r.csv", schema=SCHEMA)
        assert not found.passed
        assert "record 2" in found.detail
        assert place in found.detail


def test_047_a_schema_in_a_file_and_one_that_is_not_understood(root: Path) -> None:
    write(root, "r.json", '{"id": "r1", "score": 1}')
    write(root, "s.json", json.dumps(SCHEMA))
    assert check(root, "file-schema", path="r.json", schemaPath="s.json").passed
    for schema in ({"anyOf": []}, {"type": "text"}, {"pattern": "("}, {"properties": []}, 5, {"minimum": "x"}):
        assert check(root, "file-schema", path="r.json", schema=schema).status == "error"
    assert not check(root, "file-schema", path="r.json").passed


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"enum": ["a", 1]}, ["a", 1, 1.0], ["b", True]),
        ({"const": {"a": [1]}}, [{"a": [1]}], [{"a": [2]}, {}]),
        ({"type": ["string", "null"]}, ["x", None], [1]),
        ({"type": "integer"}, [1, 2.0], [1.5, True, "1"]),
        ({"items": {"type": "string"}, "minItems": 1, "maxItems": 2}, [["a"], 5], [[], ["a", 1], ["a", "b", "c"]]),
        ({"minLength": 2, "maxLength": 3}, ["ab", 5], ["a", "abcd"]),
        ({"exclusiveMinimum": 0, "exclusiveMaximum": 1}, [0.5, "x"], [0, 1]),
        ({"additionalProperties": {"type": "number"}, "properties": {"n": True}}, [{"n": "x", "m": 1}], [{"m": "x"}]),
        (False, [], [1]),
    ],
)
def test_the_schema_subset(root: Path, schema: Any, good: list[Any], bad: list[Any]) -> None:
    for value, fits in [*((v, True) for v in good), *((v, False) for v in bad)]:
        write(root, "v.jsonl", json.dumps(value) + "\n")
        assert check(root, "file-schema", path="v.jsonl", schema=schema).passed == fits, value


def test_048_items_that_are_done(root: Path) -> None:
    items = [{"n": n, "status": s} for n, s in enumerate(["done", "todo", "Completed", True, None])]
    for name, content in (
        ("progress.json", json.dumps(items)),
        ("progress.json", json.dumps({"items": items})),
        ("progress.jsonl", "\n".join(json.dumps(item) for item in items)),
    ):
        write(root, name, content)
        found = check(root, "progress-items", count=4)
        assert not found.passed
        assert "3/4" in found.detail
        assert check(root, "progress-items", count=3).passed
        (root / name).unlink()
    assert not check(root, "progress-items", count=1).passed
    write(root, "p.json", json.dumps([{"state": "shipped"}]))
    assert check(root, "progress-items", path="p.json", count=1, field="state", doneValues=["shipped"]).passed
    assert not check(root, "progress-items", path="p.json", count=0).passed


def test_050_matches_are_counted(root: Path) -> None:
    write(root, "run.log", "start\nERROR one\nok\nERROR two\n")
    found = check(root, "log-scan", path="run.log", pattern="ERROR", maxCount=1)
    assert not found.passed
    assert "2 lines match" in found.detail
    for fields, passes in (
        ({"pattern": "FATAL", "mode": "absent"}, True),
        ({"pattern": "ERROR", "mode": "absent"}, False),
        ({"pattern": "ERROR", "minCount": 2}, True),
        ({"pattern": "ERROR", "minCount": 3}, False),
        ({"pattern": "ERROR", "maxCount": "some"}, False),
        ({"pattern": "("}, False),
        ({"pattern": "x" * 600}, False),
        ({"pattern": "ok", "mode": "maybe"}, False),
        ({}, True),
    ):
        assert check(root, "log-scan", path="run.log", **fields).passed == passes, fields
    write(root, "empty.log", "\n")
    assert not check(root, "log-scan", path="empty.log").passed
    assert not check(root, "log-scan", path="no.log", pattern="x", mode="absent").passed


def test_050_no_pattern_is_slow(root: Path) -> None:
    write(root, "run.log", "a" * 50_000 + "!\n")
    begin = time.monotonic()
    assert not check(root, "log-scan", path="run.log", pattern="(a+)+$").passed
    assert time.monotonic() - begin < 2


@pytest.mark.parametrize(
    ("content", "passes"),
    [
        ('{"test": {"f1": 0.91}}', True),
        ('{"test": {"f1": "0.91"}}', True),
        ('{"test.f1": 0.95}', True),
        ('{"test": {"f1": 0.89}}', False),
        ('{"test": {"f1": NaN}}', False),
        ('{"test": {"f1": Infinity}}', False),
        ('{"test": {"f1": 1e999}}', False),
        ('{"test": {"f1": true}}', False),
        ('{"test": {}}', False),
        ("", False),
    ],
)
def test_051_numbers_compare(root: Path, content: str, passes: bool) -> None:
    write(root, "m.json", content)
    assert check(root, "metrics", path="m.json", metric="test.f1", op=">=", value=0.9).passed == passes


def test_051_columns_and_aggregates(root: Path) -> None:
    write(root, "m.csv", "epoch,loss\n1,0.9\n2,0.3\n3,0.6\n")
    for fields, passes in (
        ({"op": "<=", "value": 0.6}, True),
        ({"op": "<", "value": 0.6}, False),
        ({"aggregate": "min", "op": "==", "value": 0.3}, True),
        ({"aggregate": "max", "op": "!=", "value": 0.9}, False),
        ({"aggregate": "mean", "op": "<", "value": 0.61}, True),
        ({"aggregate": "median", "op": "<", "value": 9}, False),
        ({"op": "about", "value": 9}, False),
        ({"op": "<", "value": "nan"}, False),
    ):
        assert check(root, "metrics", path="m.csv", metric="loss", **fields).passed == passes, fields
    write(root, "m.csv", "epoch,loss\n1,0.9\n2,nan\n3,0.1\n")
    found = check(root, "metrics", path="m.csv", metric="loss", op="<", value=1)
    assert not found.passed
    assert "record 2" in found.detail


def test_054_traits_and_order(root: Path) -> None:
    kinds = ["file-exists", "command", "file-schema", "command", "free-form"]
    reading, writing = partition([{"kind": kind} for kind in kinds])
    assert [c["kind"] for c in reading] == ["file-exists", "file-schema", "free-form"]
    assert [c["kind"] for c in writing] == ["command", "command"]
    assert partition([{"kind": "browser"}, {"kind": "peer-vote"}]) == ([{"kind": "browser"}], [{"kind": "peer-vote"}])
    assert set(TRAITS) == set(KINDS)
    assert not TRAITS["browser"].concurrent
    write(root, "a.md", "x")
    results = run_checks([{"kind": k, "path": "a.md"} for k in [*kinds, "peer-vote"]], CheckContext(root))
    assert [r.criterion["kind"] for r in results] == [*kinds, "peer-vote"]
    assert [r.status for r in results] == ["pass", "fail", "error", "fail", "deferred", "deferred"]
