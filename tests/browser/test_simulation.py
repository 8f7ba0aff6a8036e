"""The page of a replay in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sherpa.cli.main import app
from tests.sherpa.openclaw.transcripts import Script, write


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replay")
    for number in range(8):
        script = Script(f"s{number}", second=100 * number)
        for turn in range(3):
            script.user("please pull the changes")
            script.calls((f"c{turn}", "a_tool_with_a_very_long_name_that_needs_room__and_even_more", {"x": 1}))
            script.result(f"c{turn}", "exec", {"status": "error"} if number % 3 == 0 else None)
            script.reply()
        write(folder, f"agents/main/sessions/{script.session}.jsonl", script.text())
    result = CliRunner().invoke(app, ["simulate", "--sessions-dir", str(folder), "--output", str(folder / "out")])
    assert result.exit_code == 0, result.stderr
    return folder / "out" / "simulate.html"


def test_nothing_is_loaded_nothing_fails_and_everything_fits(page: Any, page_file: Path) -> None:
    page.wait_for_timeout(200)
    assert page.problems == []
    assert [url for url in page.requests if not url.startswith("data:")] == [page_file.as_uri()]
    width = page.viewport_size["width"]
    boxes = [figure.bounding_box() for figure in page.locator("figure svg").all()]
    assert len(boxes) == 3
    assert all(box["width"] > 250 and box["x"] + box["width"] <= width for box in boxes)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_it_can_be_read_without_eyes_or_colours(page: Any) -> None:
    labels = [e.get_attribute("aria-label") for e in page.locator("figure [role=img]").all()]
    assert all(label and len(label) > 40 for label in labels)
    assert page.locator("table caption").count() == page.locator("table").count() >= 8
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    assert page.title() == "Replay of 8 sessions"
