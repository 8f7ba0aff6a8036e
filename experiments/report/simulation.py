"""The record of a replay as one self-contained page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.report.figures import Figure, axes
from experiments.report.markdown import percent
from sherpa.answers import json_document
from sherpa.files import write_whole
from sherpa.reports.pages import environment

ACCURACY_HEAD = ("steps", "number", "sessions", "top-1", "95 % interval", "top-k", "last transition", "most frequent")
_NAMES = {"all": "all", "nonTrivial": "non-trivial"}


def write_simulation(record: dict[str, Any], folder: Path) -> None:
    """Write ``simulate.json`` and ``simulate.html``."""
    write_whole(folder / "simulate.json", json_document(record))
    write_whole(folder / "simulate.html", simulation_page(record).encode())


def simulation_page(record: dict[str, Any]) -> str:
    """The page; every text is escaped, figures are our own SVG."""
    from markupsafe import Markup

    figures = [figure for draw in (_drift, _reliability, _orders) if (figure := draw(record)) is not None]
    page = (
        environment("experiments.report")
        .get_template("simulation.html.j2")
        .render(
            record=record,
            overview=_overview(record),
            accuracy_head=ACCURACY_HEAD,
            accuracy=[_accuracy(_NAMES[key], part) for key, part in record["predictionAccuracy"].items()],
            figures=[(figure, Markup(figure.svg)) for figure in figures],
            slices=[_slice(row, (f"{row['from']} to {row['to']}",)) for row in record["drift"]],
            tools=[_slice(row, (row["tool"], _phases(row["phases"]))) for row in record["tools"]],
            agents=[_slice(row, (f"{row['host']} {row['agent']}", row["sessions"])) for row in record["agents"]],
            orders=[_slice(row, (row["order"],)) for row in record["matchedOrders"]],
            supports=[_slice(row, (row["support"],)) for row in record["supports"]],
            slice_head=("steps", "top-1", "non-trivial steps", "top-1 there"),
            examples=[
                (e["caseId"], e["eventIndex"], e["topCandidate"] or "–", e["confidence"])
                for e in record["advisoryExamples"]
            ],
            counts=[(name, value) for name, value in record["counts"].items() if isinstance(value, int)],
            losses=list(record["losses"].items()),
            skipped=[(s["path"], s["reason"]) for s in record["skipped"]],
        )
    )
    return page + "\n"


def _overview(record: dict[str, Any]) -> list[tuple[str, Any]]:
    advisory, calibration = record["advisory"], record["calibration"]
    return [
        ("sessions", record["sessionsProcessed"]),
        ("cases", record["casesDetected"]),
        ("events", record["totalEvents"]),
        ("state coverage", percent(record["stateCoverage"])),
        (
            f"prompts with advice (confidence of {advisory['threshold']} or more)",
            f"{advisory['fired']} of {advisory['prompts']} ({percent(record['advisoryFireRate'])})",
        ),
        ("held back, because advice was given just before", advisory["heldBackByCooldown"]),
        ("advised step came next", percent(advisory["topCandidateRight"])),
        ("calibration error of the probability", percent(calibration["probability"]["ece"])),
        ("calibration error of the published confidence", percent(calibration["publishedConfidence"]["ece"])),
        ("sessions without tool evidence", record["sessionsWithoutToolEvidence"]),
        ("interrupted", "yes" if record["interrupted"] else "no"),
    ]


def _accuracy(name: str, part: dict[str, Any]) -> tuple[Any, ...]:
    ci = part["ci"]["top1"]
    return (
        name,
        part["steps"],
        part["sessions"],
        percent(part["top1"]),
        "–" if ci is None else f"{percent(ci['low'])} to {percent(ci['high'])}",
        percent(part["topK"]),
        percent(part["lastTransition"]),
        percent(part["globalMajority"]),
    )


def _slice(row: dict[str, Any], names: tuple[Any, ...]) -> tuple[Any, ...]:
    return *names, row["steps"], percent(row["top1"]), row["nonTrivialSteps"], percent(row["nonTrivialTop1"])


def _phases(phases: dict[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in phases.items())


def _drift(record: dict[str, Any]) -> Figure | None:
    rows = record["drift"]
    if len(rows) < 2:
        return None
    with axes("drift", 3.2) as (ax, svg, _):
        at = range(1, len(rows) + 1)
        for key, mark, style, name in (
            ("top1", "o", "-", "all steps"),
            ("nonTrivialTop1", "s", "--", "non-trivial steps"),
        ):
            values = [float("nan") if r[key] is None else 100 * r[key] for r in rows]
            ax.plot(at, values, mark, linestyle=style, color="black", label=name)
        ax.set_xticks(list(at))
        ax.set_xlabel("slice of the replay, in order of time")
        ax.set_ylabel("top-1 accuracy, %")
        ax.set_ylim(0, 100)
        ax.legend(frameon=False)
        alt = "; ".join(
            f"slice {n}: {percent(r['top1'])}, non-trivial {percent(r['nonTrivialTop1'])}"
            for n, r in zip(at, rows, strict=True)
        )
        caption = "Ten slices of equally many steps; a fall at the end means that the work has changed."
        return Figure("drift", "Accuracy over time", caption, alt, svg())


def _reliability(record: dict[str, Any]) -> Figure | None:
    kinds = [
        ("probability", "o", "-", "probability"),
        ("publishedConfidence", "s", "--", "published confidence"),
    ]
    if not record["calibration"]["probability"]["bins"]:
        return None
    with axes("reliability", 3.6) as (ax, svg, _):
        ax.plot([0, 1], [0, 1], color="0.6", linewidth=0.8)
        said = []
        for key, mark, style, name in kinds:
            bins = record["calibration"][key]["bins"]
            ax.plot(
                [b["confidence"] for b in bins],
                [b["accuracy"] for b in bins],
                mark,
                linestyle=style,
                color="black",
                label=name,
            )
            said.append(f"{name}: calibration error {percent(record['calibration'][key]['ece'])}")
        ax.set_xlabel("what was said")
        ax.set_ylabel("how often it was right")
        ax.set_xlim(0, 1)
        ax.set_ylim(0, 1)
        ax.legend(frameon=False)
        caption = "On the diagonal a number means what it says."
        return Figure("reliability", "Reliability", caption, "; ".join(said), svg())


def _orders(record: dict[str, Any]) -> Figure | None:
    rows = record["matchedOrders"]
    if not rows:
        return None
    with axes("orders", 2.8) as (ax, svg, _):
        names = [str(r["order"]) if r["order"] else "none" for r in rows]
        ax.bar(names, [r["steps"] for r in rows], color="0.75", edgecolor="black")
        ax.set_xlabel("events of context that were recognised")
        ax.set_ylabel("steps")
        alt = "; ".join(
            f"{n}: {r['steps']} steps, {percent(r['top1'])} right" for n, r in zip(names, rows, strict=True)
        )
        caption = "How much of the recent past the memory had seen before."
        return Figure("orders", "Matched order", caption, alt, svg())
