"""A browser, and a page of a report in it; each module says which file the page shows (`page_file`)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.saga.checks.browser import FLAGS

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")  # Playwright holds the thread's event loop: tests elsewhere need it
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("Chromium is absent (Debian package chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture(params=[1280, 390], ids=["wide", "phone"])
def page(request: pytest.FixtureRequest, browser: Any, page_file: Path) -> Iterator[Any]:
    opened = browser.new_page(viewport={"width": request.param, "height": 900})
    opened.problems = []
    opened.requests = []
    opened.on("console", lambda m: opened.problems.append(m.text) if m.type in ("error", "warning") else None)
    opened.on("pageerror", lambda e: opened.problems.append(str(e)))
    opened.on("request", lambda r: opened.requests.append(r.url))
    opened.goto(page_file.as_uri())
    yield opened
    opened.close()
