"""A folder with everything: the record, its views, and figures on request."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from experiments.report.figures import draw_figures
from experiments.report.html import to_html
from experiments.report.markdown import to_markdown
from sherpa.answers import json_document
from sherpa.files import write_whole

if TYPE_CHECKING:
    import pandas as pd


def write_report(
    record: dict[str, Any], folder: Path, *, figures: tuple[Literal["svg", "png"], ...] = ()
) -> dict[str, Path]:
    """Write ``record.json``, ``report.md``, ``report.html`` and the figures; returns what was written by kind."""
    paths = {"record": folder / "record.json", "markdown": folder / "report.md", "html": folder / "report.html"}
    write_whole(paths["record"], json_document(record))
    write_whole(paths["markdown"], to_markdown(record).encode())
    write_whole(paths["html"], to_html(record).encode())
    for figure, bitmap in draw_figures(record, png="png" in figures) if figures else []:
        if "svg" in figures:
            write_whole(folder / "figures" / f"{figure.name}.svg", figure.svg.encode())
        if bitmap is not None:
            write_whole(folder / "figures" / f"{figure.name}.png", bitmap)
    return paths


def write_predictions(table: pd.DataFrame, path: Path) -> None:
    """Every single prediction as gzipped CSV: all figures can be computed again from it."""
    write_whole(path, gzip.compress(table.to_csv(index=False).encode(), mtime=0))
