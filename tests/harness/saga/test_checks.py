"""The nine kinds of hard checks, all of which really look (acceptance checks 36 to 51, 54)."""

from __future__ import annotations

import http.server
import json
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.saga.checks import TRAITS, CheckContext, CheckResult, partition, run_checks
from harness.saga.checks.base import PageFacts
from harness.saga.checks.browser import chromium_pages
from harness.saga.model import KINDS

PYTHON = Path(sys.executable).name


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "artifacts"
    folder.mkdir()
    return folder


def check(root: Path, kind: str, **fields: Any) -> CheckResult:
    options = {name: fields.pop(name) for name in ("commands", "programs", "pages") if name in fields}
    (result,) = run_checks([{"kind": kind, **fields}], CheckContext(root, **options))
    assert result.passed == (result.status in ("pass", "deferred"))
    assert result.criterion["kind"] == kind
    return result


def write(root: Path, name: str, content: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(content, encoding="utf-8")


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


def command(root: Path, *arguments: str, **fields: Any) -> CheckResult:
    argv = [PYTHON, "-c", *arguments]
    return check(root, "command", argv=argv, commands=True, programs=[PYTHON], **fields)


def test_043_exit_codes_decide(root: Path) -> None:
    assert command(root, "pass").passed
    found = command(root, "print('so far'); raise SystemExit(1)")
    assert not found.passed
    assert "exit code 1" in found.detail
    assert "so far" in found.detail
    assert command(root, "raise SystemExit(3)", expectExit=3).passed
    assert command(root, "print('7 passed')", stdoutPattern=r"\d+ passed").passed
    assert not command(root, "print('none')", stdoutPattern=r"\d+ passed").passed


def test_043_time_is_limited(root: Path) -> None:
    begin = time.monotonic()
    found = command(root, "import time; time.sleep(60)", timeoutSec=0.5)
    assert not found.passed
    assert "timeout" in found.detail
    assert time.monotonic() - begin < 10


def test_043_what_it_leaves_behind_ends_with_it(root: Path) -> None:
    script = (
        "import subprocess, sys; subprocess.Popen([sys.executable, '-c', "
        "\"import time; time.sleep(3); open('late', 'w')\"])"
    )
    begin = time.monotonic()
    assert command(root, script).passed
    assert time.monotonic() - begin < 2.5
    time.sleep(3.5)
    assert not (root / "late").exists()


def test_043_refused_unless_everything_allows_it(root: Path) -> None:
    off = check(root, "command", command="true", programs=["true"])
    unlisted = check(root, "command", command="true", commands=True, programs=["false"])
    by_path = check(root, "command", command="/bin/true", commands=True, programs=["true"])
    for found in (off, unlisted, by_path):
        assert not found.passed
        assert "refused by policy" in found.detail
    for broken in ("", "echo 'open", None):
        assert not check(root, "command", command=broken, commands=True, programs=["echo"]).passed


def test_043_output_and_environment_are_limited(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET", "s3cr3t")
    found = command(root, "import os; print(sorted(os.environ))")
    assert found.passed
    shown = command(root, "import os; print(sorted(os.environ)); raise SystemExit(1)")
    assert "MY_SECRET" not in shown.detail
    noisy = command(root, "import sys\nfor _ in range(3000): sys.stdout.write('x' * 10000)\nraise SystemExit(1)")
    assert "exit code 1" in noisy.detail
    assert len(noisy.detail) < 1_000
    large = command(root, "open('big', 'wb').write(b'x' * (80 << 20))")
    assert not large.passed
    assert (root / "big").stat().st_size <= 64 << 20


def test_043_the_folder_is_pinned(root: Path, tmp_path: Path) -> None:
    write(root, "inner/a.txt", "x")
    assert command(root, "open('a.txt')", cwd="inner").passed
    (root / "link").symlink_to(tmp_path)
    for cwd in ("..", "/tmp", "link", "nowhere"):
        assert not command(root, "pass", cwd=cwd).passed


def test_044_no_shell(root: Path) -> None:
    text = "echo one; touch made && touch made2 | cat > made3 $(touch made4) `touch made5`"
    assert check(root, "command", command=text, commands=True, programs=["echo", "touch"]).passed
    assert list(root.iterdir()) == []


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


def test_049_without_a_browser_nothing_passes(root: Path) -> None:
    write(root, "index.html", "<p>hello</p>")
    found = check(root, "browser", url="index.html")
    assert (found.status, found.passed) == ("unavailable", False)
    assert "not checked" in found.detail


def test_049_expectations_of_a_page(root: Path) -> None:
    write(root, "index.html", "x")

    def pages(url: str, seconds: float) -> PageFacts:
        return PageFacts(None, "Hello  world", '<div id="a"><p class="b c">x</p></div>')

    for fields, passes in (
        ({"expectText": "Hello world"}, True),
        ({"expectText": "Goodbye"}, False),
        ({"selector": "#a p.b"}, True),
        ({"selector": "p #a"}, False),
        ({"selector": "p > b"}, False),
        ({"expectStatus": 200}, False),
        ({}, True),
    ):
        assert check(root, "browser", url="index.html", pages=pages, **fields).passed == passes, fields
    for url in (
        "https://example.org",
        "http://user@localhost/",
        "file:///etc/passwd",
        "../x",
        "javascript:1",
        "",
        None,
    ):
        assert not check(root, "browser", url=url, pages=pages).passed


@pytest.fixture
def server() -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/" else 404)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<title>t</title><p id=out></p><script>out.textContent = 'made by ' + 'script'</script>")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}/"
        running.shutdown()
        thread.join()


@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is absent (Debian package chromium)")
def test_049_a_real_browser(root: Path, server: str) -> None:
    write(root, "site/index.html", "<h1>Status</h1><ul id=list></ul><script>list.innerHTML = '<li>three</li>'</script>")
    pages = chromium_pages()
    assert check(root, "browser", url="site/index.html", expectText="three", selector="#list li", pages=pages).passed
    assert not check(root, "browser", url="site/index.html", expectText="innerHTML", pages=pages).passed
    assert check(root, "browser", url=server, expectText="made by script", expectStatus=200, pages=pages).passed
    assert not check(root, "browser", url=f"{server}gone", pages=pages).passed


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


def test_a_check_that_breaks_has_failed(root: Path) -> None:
    write(root, "x", "x")

    def pages(url: str, seconds: float) -> PageFacts:
        raise RuntimeError("boom")

    found = check(root, "browser", url="x", pages=pages)
    assert (found.status, found.passed) == ("error", False)
    assert "boom" in found.detail
