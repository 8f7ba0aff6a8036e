"""Views of a record: Markdown, one HTML page, figures as files."""

from experiments.report.figures import Figure, draw_figures
from experiments.report.files import write_predictions, write_report
from experiments.report.html import to_html
from experiments.report.markdown import to_markdown

__all__ = ["Figure", "draw_figures", "to_html", "to_markdown", "write_predictions", "write_report"]
