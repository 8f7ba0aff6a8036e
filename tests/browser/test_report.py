"""The HTML reports in a real browser: nothing is loaded, nothing fails, everything can be seen, printed and read."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sherpa.cli.main import app
from tests.conftest import PROJECT


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gate")
    data = PROJECT / "fixtures" / "validation"
    arguments = ["research-gate", "--dataset", str(data / "synthetic-workflows.json"), "--output", str(folder)]
    result = CliRunner().invoke(app, [*arguments, "--dataset", str(data / "openclaw-realish.json")])
    assert result.exit_code == 0, result.stderr
    return folder / "report.html"


def test_nothing_is_loaded_and_nothing_fails(page: Any, page_file: Path) -> None:
    page.wait_for_timeout(200)
    assert page.problems == []
    outside = [url for url in page.requests if not url.startswith("data:")]
    assert outside == [page_file.as_uri()]


def test_every_figure_is_seen_and_fits(page: Any) -> None:
    width = page.viewport_size["width"]
    boxes = [figure.bounding_box() for figure in page.locator("figure svg").all()]
    # Six figures for each of two datasets, and one over both.
    assert len(boxes) == 13
    for box in boxes:
        assert box["width"] > 250
        assert box["height"] > 80
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_figures_say_in_words_what_they_show(page: Any) -> None:
    labels = [e.get_attribute("aria-label") for e in page.locator("figure [role=img]").all()]
    assert all(label and len(label) > 40 for label in labels)
    assert page.locator("figure figcaption").count() == len(labels)


def test_headings_and_tables_are_structured(page: Any) -> None:
    assert page.locator("h1").count() == 1
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map(e => Number(e.tagName[1]))")
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    tables = page.locator("table").count()
    assert page.locator("table caption").count() == tables >= 7
    assert page.locator("thead th[scope=col]").count() > 0
    assert page.title().startswith("Research gate: synthetic-workflows")


def test_decisions_are_words_not_colours(page: Any) -> None:
    cells = page.locator("section table").first.locator("tbody tr td:nth-child(3)").all_inner_texts()
    assert len(cells) == 5
    assert all(cell.split(" ")[0] in ("supported", "rejected", "pending") for cell in cells)
    colours = page.evaluate("[...new Set([...document.querySelectorAll('td,th')].map(e => getComputedStyle(e).color))]")
    assert colours == ["rgb(17, 17, 17)"]


def test_ids_are_unique(page: Any) -> None:
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


def test_it_prints(page: Any, tmp_path: Path) -> None:
    target = tmp_path / "report.pdf"
    page.pdf(path=str(target))
    assert target.read_bytes().startswith(b"%PDF")
    assert target.stat().st_size > 50_000
