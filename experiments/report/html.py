"""A record as one self-contained HTML page: figures inline, nothing loaded from anywhere."""

from __future__ import annotations

from typing import Any

from experiments.report import markdown as words
from experiments.report.figures import draw_figures
from sherpa.reports.pages import environment


def to_html(record: dict[str, Any]) -> str:
    """The whole record as one page; every text is escaped, figures are our own SVG."""
    from markupsafe import Markup

    figures = [figure for figure, _ in draw_figures(record)]
    datasets = [
        {
            "name": entry["dataset"]["name"],
            "about": words.describe(entry),
            "decisions": [words.decision_row(c) for c in entry["claims"]],
            "evidence": [(c["id"], f"{c['evidence']}. {c['nextAction']}") for c in entry["claims"]],
            "predictors": [words.predictor_row(a) for a in words.arms(entry)],
            "leakage": words.leakage_rows(entry),
            "annotations": words.annotation_rows(entry),
            "misses": words.miss_rows(record, entry),
            "figures": [(f, Markup(f.svg)) for f in figures if f.name.startswith(f"d{number}-")],
        }
        for number, entry in enumerate(record["datasets"], start=1)
    ]
    page = (
        environment("experiments.report")
        .get_template("report.html.j2")
        .render(
            record=record,
            words=words,
            datasets=datasets,
            pooled=[words.pooled_row(p) for p in record["pooled"]],
            pooled_figures=[(f, Markup(f.svg)) for f in figures if f.name == "pooled-forest"],
            provenance=words.provenance_rows(record),
        )
    )
    return page + "\n"
