"""The record of `benchmarks.speed` as a page with tables and log-log plots."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

PAGE, PLOT = "speed.md", "speed.svg"


def write_page(folder: Path, record: dict[str, Any]) -> str:
    """Write page and plot; gives the page."""
    lines = [
        "# Speed",
        "",
        f"Made by `make bench` in {record['minutes']} minutes on two cores. Medians with ranges.",
        "",
    ]
    lines += ["## What was aimed at", "", "| figure | found | wanted | reached |", "|---|---:|---:|---|"]
    for section in record["sections"].values():
        for goal in section["goals"]:
            sign = "≤" if goal["most"] else "≥"
            lines.append(
                f"| {goal['name']} | {goal['found']:.3g} | {sign} {goal['wanted']:g} | "
                f"{'yes' if goal['reached'] else '**no**'} |"
            )
    lines += ["", "## Everything that was measured", "", "| what | size | median | range | growth exponent |",
              "|---|---:|---:|---:|---:|"]  # fmt: skip
    for section in record["sections"].values():
        for series in section["series"]:
            for size, times in series["seconds"].items():
                exponent = series["exponent"]
                lines.append(
                    f"| {series['name']} | {int(size):,} | {_time(median(times))} | {_time(min(times))} to "
                    f"{_time(max(times))} | {'' if exponent is None else f'{exponent:.2f}'} |"
                )
    notes = {k: v for s in record["sections"].values() for k, v in s["notes"].items()}
    lines += ["", "## Notes", ""]
    lines += [f"- {key}: {_shown(value)}" for key, value in notes.items()]
    lines += [
        f"- The original, as published: {key}: {_shown(v)}" for key, v in record["original, as published"].items()
    ]
    _plot(folder / PLOT, record)
    lines += ["", f"![seconds over sizes, both logarithmic]({PLOT})", ""]
    text = "\n".join(lines)
    (folder / PAGE).write_text(text, encoding="utf-8")
    return text


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {number:.0f}" for key, number in value.items())
    return " to ".join(f"{v:,}" for v in value) if isinstance(value, list) else str(value)


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.2f} ms"


def _plot(path: Path, record: dict[str, Any]) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "sherpa"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 6))
    for section in record["sections"].values():
        for series in section["series"]:
            sizes = sorted(int(size) for size in series["seconds"])
            medians = [median(series["seconds"][str(size)]) for size in sizes]
            axes.loglog(sizes, medians, marker="o", label=series["name"])
    axes.set_xlabel("events")
    axes.set_ylabel("seconds")
    axes.grid(visible=True, which="both", alpha=0.2)
    axes.legend(fontsize=7, loc="upper left")
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
