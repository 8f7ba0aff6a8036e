"""browser: a page as a browser shows it. Without a page provider nothing is checked, and that is no pass.

The provider made here starts Debian's Chromium on files among the artefacts and on servers of this machine only; every
other host is unknown to it.
"""

from __future__ import annotations

import http.client
import os
import shutil
import subprocess
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from harness.saga.checks.base import (
    CheckContext,
    PageFacts,
    PageProvider,
    Unreadable,
    Verdict,
    errored,
    failed,
    located,
    passed,
    read_file,
)
from harness.saga.checks.selectors import Selector
from harness.saga.model import Criterion
from harness.saga.values import as_number, as_text

DEFAULT_SECONDS = 20
MAX_SECONDS = 120
LOOPBACK = ("localhost", "127.0.0.1", "::1")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
_ONLY_HERE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1, EXCLUDE ::1"


def check_browser(criterion: Criterion, context: CheckContext) -> Verdict:
    """The page meets every expectation that is named; at least it loads and shows something."""
    if context.pages is None:
        return Verdict("unavailable", "not checked: no browser is available, so this cannot pass")
    try:
        url = _address(criterion.get("url"), context)
        selector = Selector(str(criterion["selector"])) if criterion.get("selector") else None
    except (Unreadable, ValueError) as error:
        return errored(str(error))
    given = as_number(criterion.get("timeoutSec"))
    seconds = min(MAX_SECONDS, given if given is not None and given > 0 else DEFAULT_SECONDS)
    try:
        page = context.pages(url, seconds)
    except (OSError, ValueError) as error:
        return failed(f"{criterion.get('url')} does not load: {error}")
    status = criterion.get("expectStatus")
    if status is not None and page.status != as_number(status):
        return failed(f"expectStatus failed: HTTP status {page.status}, expected {status}", status=page.status)
    if status is None and page.status is not None and page.status >= 400:
        return failed(f"HTTP status {page.status}", status=page.status)
    text = as_text(criterion.get("expectText"))
    if text is not None and " ".join(text.split()) not in " ".join(page.text.split()):
        return failed(f"expectText failed: {text[:80]!r} is not on the page", shown=page.text.strip()[:200])
    if selector is not None and not selector.matches(page.html):
        return failed(f"selector failed: nothing on the page matches {criterion['selector']!r}")
    if text is None and selector is None and status is None and not page.text.strip():
        return failed("the page is empty")
    return passed(f"{criterion.get('url')} meets every expectation", status=page.status)


def _address(url: Any, context: CheckContext) -> str:
    """The URL, if it is a server of this machine or a file among the artefacts."""
    text = as_text(url)
    if text is None:
        raise Unreadable("the criterion names no url")
    parts = urlsplit(text)
    if parts.scheme in ("http", "https"):
        if parts.hostname not in LOOPBACK or parts.username is not None:
            raise Unreadable(f"refused by policy: {parts.hostname} is not this machine")
        return text
    if parts.scheme == "file":
        folder = f"{context.artifacts.resolve()}/"
        if not parts.path.startswith(folder):
            raise Unreadable("refused by policy: the file is not among the artifacts")
        text = parts.path.removeprefix(folder)
    elif parts.scheme:
        raise Unreadable(f"refused by policy: {parts.scheme} URLs are not opened")
    name = located(text)
    read_file(context, name)
    return f"file://{quote(str(context.artifacts.resolve() / name))}"


def chromium_pages(program: str | None = None) -> PageProvider | None:
    """A page provider over Chromium; None if it is not installed."""
    found = program or shutil.which("chromium")
    if found is None:
        return None

    def load(url: str, seconds: float) -> PageFacts:
        return _load(found, url, seconds)

    return load


def _load(program: str, url: str, seconds: float) -> PageFacts:
    status = _status(url, seconds) if url.startswith("http") else None
    with tempfile.TemporaryDirectory(prefix="saga-page-", ignore_cleanup_errors=True) as profile:
        command = [
            program,
            *FLAGS,
            _ONLY_HERE,
            f"--user-data-dir={profile}",
            "--virtual-time-budget=2000",
            "--dump-dom",
            url,
        ]
        environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": profile, "LANG": "C.UTF-8"}
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd=Path(profile),
            start_new_session=True,
        ) as process:
            try:
                out, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                raise OSError(f"no page after {seconds} s") from None
            finally:
                _end(process)
    if process.returncode:
        raise OSError(f"the browser ended with {process.returncode}")
    document = out.decode("utf-8", "replace")
    return PageFacts(status, visible_text(document), document)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the browser and all its helpers, which live in its session."""
    import signal
    from contextlib import suppress

    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _status(url: str, seconds: float) -> int:
    """The status that a server of this machine answers with; redirects are not followed."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=seconds)
    try:
        connection.request("GET", f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}")
        return connection.getresponse().status
    except http.client.HTTPException as error:
        raise OSError(f"no answer that is HTTP: {error}") from None
    finally:
        connection.close()


class _Text(HTMLParser):
    """What a reader sees: everything but scripts, styles and the head."""

    _HIDDEN = ("script", "style", "template", "noscript", "head")

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in self._HIDDEN

    def handle_endtag(self, tag: str) -> None:
        if tag in self._HIDDEN and self._hidden:
            self._hidden -= 1

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.parts.append(data)


def visible_text(document: str) -> str:
    """Text of a document without markup, scripts and styles."""
    reader = _Text()
    reader.feed(document)
    reader.close()
    return " ".join(reader.parts)
