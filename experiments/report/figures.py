"""Figures of a record. Lines and marks differ in shape, so that they are told apart without colour."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1)), (0, (7, 2)))
_MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
_WIDTH = 7.2


@dataclass(frozen=True)
class Figure:
    """A figure as SVG text, with what it shows in words (`alt`) for those who do not see it."""

    name: str
    title: str
    caption: str
    alt: str
    svg: str


@contextmanager
def axes(name: str, height: float) -> Iterator[tuple[Axes, Callable[[], str], Callable[[], bytes]]]:
    """Axes to draw on, and what gives the drawing as SVG and as PNG; the same drawing gives the same bytes."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    settings: dict[Any, Any] = {
        "svg.hashsalt": name,
        "svg.fonttype": "path",
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.3,
    }
    with mpl.rc_context(settings):
        canvas = Canvas(figsize=(_WIDTH, height), layout="constrained")
        FigureCanvasAgg(canvas)

        def svg() -> str:
            out = io.StringIO()
            canvas.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
            text = out.getvalue()
            text = text[text.index("<svg") :]
            # The page sets the size; ids are made unique, because several figures share one page.
            text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
            text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
            text = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{name}-", text)
            return re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)

        def png() -> bytes:
            out = io.BytesIO()
            canvas.savefig(out, format="png", dpi=150, metadata={"Software": None})
            return out.getvalue()

        yield canvas.add_subplot(), svg, png


def _arms(entry: dict[str, Any]) -> list[dict[str, Any]]:
    return [*entry["sherpa"]["strategies"], *entry["baselines"]["baselines"]]


def draw_figures(record: dict[str, Any], *, png: bool = False) -> list[tuple[Figure, bytes | None]]:
    """Every figure of a record that has something to show; with `png` also as bitmap."""
    found: list[tuple[Figure, bytes | None]] = []
    for number, entry in enumerate(record["datasets"], start=1):
        for draw in (_forest, _accuracy, _reliability, _risk_coverage, _learning, _backoff):
            made = draw(record, entry, f"d{number}", png)
            if made is not None:
                found.append(made)
    made = _pooled(record, png)
    return [*found, made] if made is not None else found


Made = tuple[Figure, bytes | None] | None


def _finish(
    name: str, title: str, caption: str, alt: str, svg: Callable[[], str], bitmap: Callable[[], bytes], png: bool
) -> Made:
    return Figure(name, title, caption, alt, svg()), bitmap() if png else None


def _rows_with_intervals(ax: Axes, rows: Sequence[tuple[str, float, float, float]], marks: Sequence[str]) -> None:
    for at, (_, estimate, low, high) in enumerate(rows):
        ax.plot([100 * low, 100 * high], [at, at], color="0.25", linewidth=1.6)
        ax.plot(100 * estimate, at, marks[at], color="black", markersize=6)
    ax.set_yticks(range(len(rows)), [row[0] for row in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)


def _forest(record: dict[str, Any], entry: dict[str, Any], prefix: str, png: bool) -> Made:
    metric = record["plan"]["metric"]
    rows = []
    for claim in entry["claims"]:
        for c in claim["contrasts"]:
            if c["metric"] in (metric, "success") and claim["id"] in ("H1", "H2", "H3"):
                rows.append((f"{claim['id']}: vs {c['control']}", c["estimate"], c["ci"]["low"], c["ci"]["high"]))
    if not rows:
        return None
    name = f"{prefix}-forest"
    with axes(name, 0.34 * len(rows) + 1.0) as (ax, svg, bitmap):
        _rows_with_intervals(ax, rows, ["o" if r[2] > 0 else "x" if r[3] < 0 else "s" for r in rows])
        ax.axvline(0, color="black", linewidth=0.8)
        ax.set_xlabel("difference in accuracy, percentage points (right: better than the control)")
        title = f"Contrasts on {entry['dataset']['name']}"
        alt = "; ".join(f"{r[0]} {100 * r[1]:+.1f} ({100 * r[2]:+.1f} to {100 * r[3]:+.1f})" for r in rows)
        caption = "Circles: the interval lies above 0; crosses: below; squares: it holds 0."
        return _finish(name, title, caption, alt, svg, bitmap, png)


def _accuracy(record: dict[str, Any], entry: dict[str, Any], prefix: str, png: bool) -> Made:
    key = record["plan"]["metric"]
    rows = [
        (
            a["predictor"],
            a["intervals"][key]["estimate"],
            a["intervals"][key]["ci"]["low"],
            a["intervals"][key]["ci"]["high"],
        )
        for a in _arms(entry)
        if a["intervals"]
    ]
    if not rows:
        return None
    name = f"{prefix}-accuracy"
    with axes(name, 0.34 * len(rows) + 1.0) as (ax, svg, bitmap):
        _rows_with_intervals(ax, rows, ["o" if r[0].startswith("sherpa") else "s" for r in rows])
        ax.set_xlabel(f"{_metric(record)} accuracy, %")
        alt = "; ".join(f"{r[0]} {100 * r[1]:.1f} % ({100 * r[2]:.1f} to {100 * r[3]:.1f})" for r in rows)
        title = f"Accuracy on {entry['dataset']['name']}"
        return _finish(name, title, "Circles: Sherpa; squares: rivals.", alt, svg, bitmap, png)


def _metric(record: dict[str, Any]) -> str:
    return "top-1" if record["plan"]["metric"] == "top-1" else f"top-{record['plan']['topK']}"


def _shown(record: dict[str, Any], entry: dict[str, Any]) -> list[dict[str, Any]]:
    """The strategy under H3 and the two plainest rivals."""
    wanted = (record["plan"]["H3"]["treatment"], "raw-ngram", "global-majority")
    by_name = {a["predictor"]: a for a in _arms(entry)}
    return [by_name[name] for name in wanted if name in by_name]


def _reliability(record: dict[str, Any], entry: dict[str, Any], prefix: str, png: bool) -> Made:
    arms = [a for a in _shown(record, entry) if a["reliability"]]
    if not arms:
        return None
    name = f"{prefix}-reliability"
    with axes(name, 4.2) as (ax, svg, bitmap):
        ax.plot([0, 100], [0, 100], color="0.6", linewidth=0.8)
        for at, a in enumerate(arms):
            x, y = ([100 * b[k] for b in a["reliability"]] for k in ("confidence", "accuracy"))
            ax.plot(x, y, color=str(0.15 * at), linestyle=_STYLES[at], marker=_MARKS[at], label=a["predictor"])
        ax.set_xlabel("probability of the first rank, %")
        ax.set_ylabel("how often it came, %")
        ax.legend(frameon=False)
        alt = "; ".join(
            f"{a['predictor']}: "
            + ", ".join(f"{100 * b['confidence']:.0f}→{100 * b['accuracy']:.0f}" for b in a["reliability"])
            for a in arms
        )
        caption = (
            "Bins of equal mass. On the diagonal a probability means what it says. These predictors do not claim to be "
            "calibrated: their probability is a share of the support."
        )
        return _finish(name, f"Reliability on {entry['dataset']['name']}", caption, alt, svg, bitmap, png)


def _risk_coverage(record: dict[str, Any], entry: dict[str, Any], prefix: str, png: bool) -> Made:
    arms = [a for a in _shown(record, entry) if a["riskCoverage"]["points"]]
    if not arms:
        return None
    name = f"{prefix}-risk-coverage"
    with axes(name, 3.6) as (ax, svg, bitmap):
        for at, a in enumerate(arms):
            x, y = ([100 * p[k] for p in a["riskCoverage"]["points"]] for k in ("coverage", "error"))
            label = f"{a['predictor']} (area {a['riskCoverage']['area']:.3f})"
            ax.plot(x, y, color=str(0.15 * at), linestyle=_STYLES[at], marker=_MARKS[at], markersize=3, label=label)
        ax.set_xlabel("most confident share of steps, %")
        ax.set_ylabel("top-1 error, %")
        ax.set_ylim(bottom=0)
        ax.legend(frameon=False)
        alt = "; ".join(f"{a['predictor']}: area {a['riskCoverage']['area']:.3f}" for a in arms)
        title = f"Risk and coverage on {entry['dataset']['name']}"
        return _finish(name, title, "Error if only the most confident predictions were used.", alt, svg, bitmap, png)


def _learning(record: dict[str, Any], entry: dict[str, Any], prefix: str, png: bool) -> Made:
    rows = entry["learningCurve"]
    if not rows:
        return None
    name = f"{prefix}-learning"
    names = list(dict.fromkeys(r["predictor"] for r in rows))
    with axes(name, 3.4) as (ax, svg, bitmap):
        for at, arm in enumerate(names):
            part = [r for r in rows if r["predictor"] == arm and r["accuracy"] is not None]
            ax.plot(
                [r["trainingCases"] for r in part],
                [100 * r["accuracy"] for r in part],
                color=str(0.15 * at),
                linestyle=_STYLES[at],
                marker=_MARKS[at],
                label=arm,
            )
        ax.set_xscale("log")
        ax.set_xlabel("training cases")
        ax.set_ylabel(f"{_metric(record)} accuracy, %")
        ax.legend(frameon=False)
        alt = "; ".join(
            f"{r['predictor']} with {r['trainingCases']} cases {100 * (r['accuracy'] or 0):.1f} %" for r in rows
        )
        title = f"Learning curve on {entry['dataset']['name']}"
        return _finish(
            name,
            title,
            "A fifth of the cases is tested; growing parts of the rest are learned.",
            alt,
            svg,
            bitmap,
            png,
        )


def _backoff(record: dict[str, Any], entry: dict[str, Any], prefix: str, png: bool) -> Made:
    arms = [a for a in _shown(record, entry) if a["research"]["matchedOrders"]]
    if not arms:
        return None
    name = f"{prefix}-backoff"
    orders = sorted({int(k) for a in arms for k in a["research"]["matchedOrders"]})
    with axes(name, 3.2) as (ax, svg, bitmap):
        width = 0.8 / len(arms)
        for at, a in enumerate(arms):
            total = sum(a["research"]["matchedOrders"].values())
            shares = [100 * a["research"]["matchedOrders"].get(str(k), 0) / total for k in orders]
            hatch = ("", "///", "...")[at % 3]
            places = [k + at * width for k in range(len(orders))]
            ax.bar(
                places,
                shares,
                width,
                color=str(0.45 + 0.2 * at),
                edgecolor="black",
                hatch=hatch,
                label=a["predictor"],
            )
        ax.set_xticks([k + 0.4 - width / 2 for k in range(len(orders))], [str(k) for k in orders])
        ax.set_xlabel("length of the matched history, events (0: overall frequency or nothing)")
        ax.set_ylabel("share of steps, %")
        ax.legend(frameon=False)
        alt = "; ".join(f"{a['predictor']}: {a['research']['matchedOrders']}" for a in arms)
        return _finish(
            name,
            f"Back-off on {entry['dataset']['name']}",
            "How much history predictions rest on.",
            alt,
            svg,
            bitmap,
            png,
        )


def _pooled(record: dict[str, Any], png: bool) -> Made:
    rows = [
        (f"{p['id']}: {p['treatment']} vs {p['control']}", p["estimate"], p["ci"]["low"], p["ci"]["high"])
        for p in record["pooled"]
        if p["ci"]
    ]
    if not rows:
        return None
    with axes("pooled-forest", 0.34 * len(rows) + 1.0) as (ax, svg, bitmap):
        _rows_with_intervals(ax, rows, ["o" if r[2] > 0 else "x" if r[3] < 0 else "s" for r in rows])
        ax.axvline(0, color="black", linewidth=0.8)
        ax.set_xlabel("difference in accuracy, percentage points")
        alt = "; ".join(f"{r[0]} {100 * r[1]:+.1f} ({100 * r[2]:+.1f} to {100 * r[3]:+.1f})" for r in rows)
        caption = "Random effects over datasets, interval of Hartung, Knapp, Sidik and Jonkman."
        return _finish("pooled-forest", "Pooled over datasets", caption, alt, svg, bitmap, png)
