"""Bad input gets one clear line (file, case, field) and exit code 2, and the rest of a suite still runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sherpa.cli.main import app

Run = Callable[..., Result]

GOOD = """{"cases": [
  {"caseId": "a", "events": [{"type": "x"}, {"type": "y"}]},
  {"caseId": "b", "events": [{"type": "x"}, {"type": "y"}]},
  {"caseId": "c", "events": [{"type": "x"}, {"type": "y"}]}
]}"""

XES = """<log><trace><string key="concept:name" value="t1"/>
<event><string key="concept:name" value="x"/></event>
<event><string key="concept:name" value="y"/></evnt>
</trace></log>"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return lambda *arguments, **more: CliRunner().invoke(app, list(arguments), **more)


def one_line(result: Result) -> str:
    """The only line on stderr; nothing on stdout."""
    assert result.exit_code == 2, (result.stdout, result.stderr, result.exception)
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, lines
    return lines[0]


CASES = [
    ("truncated.json", GOOD[:60], ("truncated.json:2", "broken JSON", "truncated")),
    ("noise.json", '{"cases": [}', ("noise.json:1", "broken JSON")),
    (
        "type.json",
        '{"cases": [{"caseId": "a", "events": [{"type": "x"}, {"type": 5}]}]}',
        ("type.json", "case 'a'", "field events[1].type", "Expected `str`, got `int`"),
    ),
    (
        "outcome.json",
        '{"cases": [{"caseId": "a", "events": [{"type": "x", "outcome": "great"}]}]}',
        ("outcome.json", "case 'a'", "field events[0].outcome", "'great'"),
    ),
    ("noid.json", '{"cases": [{"events": [{"type": "x"}]}]}', ("noid.json", "case '#1'", "caseId")),
    ("cases.json", '{"cases": 7}', ("cases.json", "field cases", "must be a list")),
    ("scalar.json", "42", ("scalar.json", "must be an object with cases")),
    ("empty.json", '{"cases": []}', ("empty.json", "holds no cases")),
    ("nothing.json", "", ("nothing.json", "broken JSON")),
    (
        "zero.json",
        '{"cases": [{"caseId": "z", "events": []}]}',
        ("zero.json", "case 'z'", "field events", "has no events"),
    ),
    (
        "step.json",
        '{"cases": [{"caseId": "a", "events": [{"type": "x"}], '
        '"annotations": {"blockers": [{"step": 4, "type": "t"}]}}]}',
        ("step.json", "case 'a'", "field annotations.blockers", "step 4", "1 events"),
    ),
    (
        "time.json",
        '{"cases": [{"caseId": "a", "events": [{"type": "x", "ts": "yesterday"}]}]}',
        ("time.json", "case 'a'", "field events[0].ts", "'yesterday'"),
    ),
    ("line.jsonl", '{"caseId": "a", "type": "x"}\n{"caseId": "a", "ty\n', ("line.jsonl:2", "broken JSON")),
    ("line2.jsonl", '{"caseId": "a", "type": "x"}\n{"type": "x"}\n', ("line2.jsonl:2", "field caseId")),
    ("columns.csv", "who,what\n1,x\n", ("columns.csv", "field case", "'who', 'what'", "--case-field")),
    ("empty.csv", "", ("empty.csv", "empty")),
    ("header.csv", "case,activity\n", ("header.csv", "holds no events")),
    ("wide.csv", "case,activity\n1,x\n1,y,z\n", ("wide.csv:3", "3 fields", "header has 2")),
    ("hole.csv", "case,activity\n1,x\n1,\n", ("hole.csv", "case '1'", "field activity", "row 2")),
    (
        "time.csv",
        "case,activity,timestamp\n1,x,2026-01-01\n1,y,soon\n",
        ("time.csv", "case '1'", "field timestamp", "row 2", "'soon'"),
    ),
    ("tag.xes", XES, ("tag.xes:3", "broken XML", "mismatched tag")),
    ("root.xes", "<html/>", ("root.xes", "<html>, not <log>")),
    ("zip.csv.gz", "\x1f\x8bnot really", ("zip.csv.gz", "damaged")),
    ("what.txt", "hello", ("what.txt", "format", "--format")),
]


@pytest.mark.parametrize(("name", "text", "parts"), CASES, ids=[c[0] for c in CASES])
def test_a_malformed_dataset(run: Run, tmp_path: Path, name: str, text: str, parts: tuple[str, ...]) -> None:
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    line = one_line(run("validate", "--dataset", name))
    for part in parts:
        assert part in line


def test_a_folder_instead_of_a_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "logs.csv").mkdir()
    assert "logs.csv: is a folder" in one_line(run("validate", "--dataset", "logs.csv"))


def test_a_missing_file(run: Run) -> None:
    assert "no.json: there is no such file" in one_line(run("validate", "--dataset", "no.json"))
    assert "no.json: there is no such file" in one_line(run("validate-suite", "--input", "no.json"))


def test_a_named_column_that_is_absent(run: Run, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("case,activity\n1,x\n")
    line = one_line(run("validate", "--dataset", "log.csv", "--case-field", "Customer"))
    assert "log.csv, field case: there is no column 'Customer'; the columns are 'case', 'activity'" in line


@pytest.mark.parametrize("command", [("validate", "--dataset", "good.json"), ("validate-suite", "--input", "good")])
def test_an_unknown_split(run: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "good.json").write_text(GOOD)
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "good.json").write_text(GOOD)
    line = one_line(run(*command, "--split", "random"))
    assert "'random' is unknown; choose one of leave-one-case-out, k-fold, temporal" in line


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--split", "temporal"), "case 'a', field timestamp: a temporal split needs the time of every event"),
        (("--split", "holdout"), "--train"),
        (("--split", "leave-one-group-out"), "at least two groups"),
        (("--split", "k-fold", "--folds", "9"), "9 folds cannot be made from 3 cases"),
    ],
)
def test_a_split_that_cannot_be_made(run: Run, tmp_path: Path, arguments: tuple[str, ...], part: str) -> None:
    (tmp_path / "good.json").write_text(GOOD)
    assert part in one_line(run("validate", "--dataset", "good.json", *arguments))


def test_the_other_datasets_of_a_suite_still_run(run: Run, tmp_path: Path) -> None:
    for name, text, _ in CASES:
        if name != "what.txt":
            (tmp_path / name).write_bytes(text.encode("latin-1"))
    (tmp_path / "good.json").write_text(GOOD)
    (tmp_path / "good.csv").write_text("case,activity\n1,x\n1,y\n2,x\n2,y\n3,x\n3,y\n")
    result = run("validate-suite", "--input", ".", "--json")
    assert result.exit_code == 2
    report = json.loads(result.stdout)
    assert sorted(d["dataset"]["name"] for d in report["datasets"]) == ["good", "good"]
    assert [d["nextTop1Accuracy"] for d in report["datasets"]] == [1, 1]
    assert len(report["errors"]) == len(CASES) - 1
    assert len(result.stderr.splitlines()) == len(CASES) - 1


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('{"datasets": []}', ("field datasets",)),
        ('{"datasets": [{"path": "good.json", "minTop2": 1}]}', ("datasets[0]", "minTop2")),
        ('{"datasets": [{"path": "good.json", "minTop1": 7}]}', ("datasets[0].minTop1",)),
        ('{"datasets": [', ("broken JSON",)),
        ("[]", ("object",)),
    ],
)
def test_a_malformed_suite(run: Run, tmp_path: Path, text: str, parts: tuple[str, ...]) -> None:
    (tmp_path / "suite.json").write_text(text)
    line = one_line(run("validate-suite", "--input", "suite.json"))
    for part in ("suite.json", *parts):
        assert part in line


def test_an_empty_folder(run: Run, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    assert "none: the folder holds no" in one_line(run("validate-suite", "--input", "none"))


@pytest.mark.parametrize(
    ("command", "text", "parts"),
    [
        ("ingest", '{"caseId": "a"', ("standard input", "broken JSON")),
        ("ingest", "[]", ("one JSON object", "ingest-batch")),
        ("ingest-batch", "{}", ("array of events",)),
        ("ingest", '{"caseId": "", "source": "s", "type": "x"}', ("event", "$.caseId")),
        ("ingest", '{"caseId": "a", "source": "s"}', ("event", "type")),
        ("ingest", '{"caseId": "a", "source": "s", "type": "x", "outcome": 3}', ("$.outcome",)),
        ("ingest", '{"caseId": "a", "source": "s", "type": "x", "ts": "2026-01-01T00:00:00"}', ("ts", "no offset")),
        ("ingest-batch", '[{"caseId": "a", "source": "s", "type": "x"}, {"caseId": "a"}]', ("event 2", "source")),
    ],
)
def test_a_malformed_event_stores_nothing(
    run: Run, tmp_path: Path, command: str, text: str, parts: tuple[str, ...]
) -> None:
    line = one_line(run(command, input=text))
    for part in parts:
        assert part in line
    assert list((tmp_path / ".sherpa" / "events").glob("*.jsonl")) == []


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--default-order", "7", "status"), "defaultOrder 7 exceeds maxOrder 5"),
        (("--min-order", "4", "status"), "minOrder 4 exceeds defaultOrder 3"),
        (("--max-order", "99", "status"), "maxOrder is 99"),
    ],
)
def test_options_that_contradict_each_other(run: Run, arguments: tuple[str, ...], part: str) -> None:
    assert part in one_line(run(*arguments))


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--strategy", "magic", "status"), "--strategy"),
        (("workflow-recall", "--case-id", "a", "--mode", "best"), "--mode"),
        (("validate", "--dataset", "x.json", "--format", "yaml"), "--format"),
        (("workflow-next",), "--case-id"),
        (("no-such-command",), "no-such-command"),
    ],
)
def test_wrong_usage_exits_with_2(run: Run, arguments: tuple[str, ...], part: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert part in result.stderr


def test_a_root_that_is_a_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("hello")
    assert "file: is a file; --root names a folder" in one_line(run("--root", "file", "status"))


def test_a_database_that_is_none(run: Run, tmp_path: Path) -> None:
    (tmp_path / ".sherpa").mkdir()
    (tmp_path / ".sherpa" / "graph.db").write_text("this is not a database, and long enough to be looked at" * 20)
    assert "graph.db: cannot be used as a graph" in one_line(run("status"))
