"""Checks that start programs: commands within limits, pages in a browser (acceptance checks 43, 44 and 49)."""

from __future__ import annotations

import http.server
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.saga.checks.base import CheckResult, PageFacts
from harness.saga.checks.browser import chromium_pages
from tests.harness.saga.checking import check, write

PYTHON = Path(sys.executable).name


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


def test_a_check_that_breaks_has_failed(root: Path) -> None:
    write(root, "x", "x")

    def pages(url: str, seconds: float) -> PageFacts:
        raise RuntimeError("boom")

    found = check(root, "browser", url="x", pages=pages)
    assert (found.status, found.passed) == ("error", False)
    assert "boom" in found.detail
