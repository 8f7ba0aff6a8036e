"""A record as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def percent(value: float | None) -> str:
    """A share as a percentage, a dash where it is not measured."""
    return "–" if value is None else f"{100 * value:.1f} %"


def points(value: float | None) -> str:
    """A difference of shares in percentage points."""
    return "–" if value is None else f"{100 * value:+.1f}"


def span(ci: dict[str, Any] | None, form: Any = points) -> str:
    """An interval."""
    return "–" if ci is None else f"{form(ci['low'])} to {form(ci['high'])}"


def to_markdown(record: dict[str, Any]) -> str:
    """The whole record as one Markdown document."""
    lines = ["# Research gate", "", mode_sentence(record), ""]
    for entry in record["datasets"]:
        lines += [f"## {entry['dataset']['name']}", "", describe(entry), ""]
        lines += table(DECISION_HEAD, [decision_row(c) for c in entry["claims"]])
        lines += [f"- **{c['id']}** {c['evidence']}. {c['nextAction']}" for c in entry["claims"]]
        lines += ["", "### Predictors", ""]
        lines += table(PREDICTOR_HEAD, [predictor_row(a) for a in arms(entry)])
        lines += ["### Leakage", ""]
        lines += table(("what", "value"), leakage_rows(entry))
        annotated = annotation_rows(entry)
        if annotated:
            lines += ["### Annotations", ""]
            lines += table(ANNOTATION_HEAD, annotated)
        misses = miss_rows(record, entry)
        if misses:
            lines += ["### Misses", ""]
            lines += table(MISS_HEAD, misses)
    if record["pooled"]:
        lines += ["## Pooled over datasets", ""]
        lines += table(POOLED_HEAD, [pooled_row(p) for p in record["pooled"]])
    lines += ["## Provenance", ""]
    lines += table(("what", "value"), provenance_rows(record))
    return "\n".join(lines).rstrip() + "\n"


def mode_sentence(record: dict[str, Any]) -> str:
    """Whether the run confirms, and why not."""
    reasons = f": {'; '.join(record['reasons'])}" if record["reasons"] else ""
    parity = " Parity mode: the original's protocol and information." if record["parity"] else ""
    return f"This run is **{record['mode']}**{reasons}. Plan: {record['plan']['name']}.{parity}"


def describe(entry: dict[str, Any]) -> str:
    """The dataset and the protocol in a sentence."""
    p = entry["protocol"]
    return (
        f"{entry['cases']} cases, {entry['datasetEvents']} events; split {p['split']}, {p['testedCases']} tested, "
        f"{p['droppedCases']} dropped; independent unit: {p['cluster']}."
    )


def arms(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """All predictors of a dataset, strategies first."""
    return [*entry["sherpa"]["strategies"], *entry["baselines"]["baselines"]]


DECISION_HEAD = (
    "",
    "claim",
    "decision",
    "estimate",
    "interval",
    "clusters",
    "p (Holm)",
    "cases needed",
    "point rule",
)


def decision_row(c: dict[str, Any]) -> tuple[str, ...]:
    return (
        c["id"],
        c["claim"],
        c["decision"] + (" (improves)" if c["improves"] and c["decision"] == "supported" else ""),
        points(c["estimate"]),
        span(c["ci"]),
        "–" if c["clusters"] is None else str(c["clusters"]),
        "–" if c["pHolm"] is None else f"{c['pHolm']:.4f}",
        "–" if c["casesNeeded"] is None else str(c["casesNeeded"]),
        c["decisionPointRule"],
    )


PREDICTOR_HEAD = (
    "predictor",
    "top-1",
    "interval",
    "top-K",
    "interval",
    "MRR",
    "coverage",
    "non-trivial top-1",
    "states",
)


def predictor_row(a: dict[str, Any]) -> tuple[str, ...]:
    found = a["intervals"] or {"top-1": {"ci": None}, "top-k": {"ci": None}}
    return (
        a["predictor"],
        percent(a["nextTop1Accuracy"]),
        span(found["top-1"]["ci"], percent),
        percent(a["nextTopKAccuracy"]),
        span(found["top-k"]["ci"], percent),
        "–" if a["meanReciprocalRank"] is None else f"{a['meanReciprocalRank']:.3f}",
        percent(a["coverage"]),
        percent(a["nonTrivial"]["nextTop1Accuracy"]),
        str(a["research"]["support"]["maxGraphStates"]),
    )


def leakage_rows(entry: dict[str, Any]) -> list[tuple[str, ...]]:
    found = entry["leakage"]
    return [
        ("test steps whose whole prefix and target were learned", percent(found["identicalPrefixShare"])),
        ("test cases that were learned verbatim", percent(found["duplicateCaseShare"])),
        ("test cases whose id was learned", str(found["sharedCaseIds"])),
        ("case ids that are also event types", str(found["caseIdsInVocabulary"])),
    ]


ANNOTATION_HEAD = (
    "predictor",
    "expected next, top-1",
    "top-K",
    "risk precision",
    "risk recall",
    "false alarms",
    "advice precision",
    "advice recall",
    "silence kept",
    "harm",
)


def annotation_rows(entry: dict[str, Any]) -> list[tuple[str, ...]]:
    """Every arm against the annotations; nothing for data without them."""
    rows = []
    for a in arms(entry):
        said, risks = a["research"]["annotations"], a["research"]["risks"] or {}
        if said is None:
            continue
        values = [said["expectedNext"]["top1"], said["expectedNext"]["topK"]]
        values += [risks.get(name) for name in ("precision", "recall", "falseAlarmRate")]
        values += [said["advice"][name] for name in ("precision", "recall", "silencePrecision", "harmRate")]
        rows.append((a["predictor"], *(percent(value) for value in values)))
    return rows


MISS_HEAD = ("case", "step", "expected", "predicted", "its rank", "matched history", "support")


def miss_rows(record: dict[str, Any], entry: dict[str, Any], limit: int = 25) -> list[tuple[str, ...]]:
    """Misses of the strategy under H3."""
    name = record["plan"]["H3"]["treatment"]
    for a in arms(entry):
        if a["predictor"] == name:
            return [
                (
                    m["caseId"],
                    str(m["step"]),
                    m["expected"],
                    ", ".join(m["predicted"]) or "nothing",
                    "unseen" if e["rankOfTarget"] is None else str(e["rankOfTarget"]),
                    f"{e['matchedOrder']} ({e['mode']})",
                    str(e["support"]),
                )
                for m, e in zip(a["misses"][:limit], a["missEvidence"], strict=False)
            ]
    return []


POOLED_HEAD = ("", "treatment", "control", "estimate", "interval", "between datasets (I²)", "datasets")


def pooled_row(p: dict[str, Any]) -> tuple[str, ...]:
    i2 = percent(p["i2"])
    return (p["id"], p["treatment"], p["control"], points(p["estimate"]), span(p["ci"]), i2, str(len(p["datasets"])))


def provenance_rows(record: dict[str, Any]) -> list[tuple[str, ...]]:
    p = record["provenance"]
    rows: list[tuple[str, ...]] = [
        ("command", " ".join(p["command"])),
        ("sherpa", f"{p['sherpa']}, revision {p['gitRevision'] or 'unknown'}"),
        ("python", f"{p['python']} on {p['platform']}"),
        ("libraries", ", ".join(f"{k} {v}" for k, v in p["libraries"].items())),
        ("plan", f"{record['plan']['name']}, sha256 {p['planSha256']}"),
        ("seeds", ", ".join(f"{k} {v}" for k, v in p["seeds"].items())),
        ("started", p["startedAt"]),
        ("took", f"{p['wallSeconds']:.1f} s"),
        ("peak memory", "–" if p["peakMemoryMib"] is None else f"{p['peakMemoryMib']:.0f} MiB"),
    ]
    rows += [
        (f"data: {e['dataset']['name']}", f"{e['dataset']['path']}, sha256 {e['dataset']['sha256']}")
        for e in record["datasets"]
    ]
    return rows


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table and an empty line."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(c.replace("|", "\\|").replace("\n", " ") for c in cells) + " |"

    return [line(head), "|" + "---|" * len(head), *(line(row) for row in rows), ""]
