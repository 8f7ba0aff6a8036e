"""The report of the bench: one JSON record, and Markdown and HTML views of it."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment

from harness.runtime.bench.gates import decide, registration, upper_m
from harness.runtime.bench.measure import measured, run_matrix
from harness.runtime.engine import code_fingerprint
from harness.runtime.ir import canonical
from harness.runtime.metrics import aggregate
from sherpa.files import write_whole

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Runtime bench</title>
<style>body{font:16px/1.5 sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem}table{border-collapse:collapse}
td,th{border:1px solid #999;padding:.3rem .6rem;text-align:left}td.n{text-align:right}</style></head><body>
<h1>Runtime bench: {{ r.decision }}</h1>
<table><thead><tr><th scope="col">gate</th><th scope="col">threshold</th><th scope="col">observed</th>
<th scope="col">interval</th><th scope="col">numbers</th><th scope="col">verdict</th></tr></thead><tbody>
{% for g in r.gates %}<tr><th scope="row">{{ g.id }}<br><small>{{ g.what }}</small></th>
<td class="n">{{ g.rule }} {{ number(g.threshold) }}</td><td class="n">{{ number(g.observed) }}</td>
<td>{{ interval(g.ci) }}</td><td>{{ raw(g.raw) }}</td><td>{{ g.verdict }}</td></tr>
{% endfor %}</tbody></table>
<p>Negative control (plans that leave more open than they settle): m at most {{ number(r.control.upper) }}; the gate
{{ "refuses it, as it must" if r.control.refused else "does NOT refuse it" }}.</p>
<p>Registration {{ r.provenance.registration }}, code {{ r.provenance.code }}, Python {{ r.provenance.python }},
{{ number(r.seconds) }} seconds.</p></body></html>
"""


def number(value: float | None) -> str:
    """A figure; n/a for what was not measured."""
    return "n/a" if value is None else f"{value:.4g}"


def interval(ci: dict[str, Any] | None) -> str:
    """An interval with its method."""
    return "n/a" if ci is None else f"[{ci['low']:.4g}, {ci['high']:.4g}] {ci['method']}"


def raw(numbers: dict[str, Any]) -> str:
    """The numbers behind a gate, long lists left out."""
    shown = {key: value for key, value in numbers.items() if not isinstance(value, list) or 0 < len(value) <= 6}
    return ", ".join(
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in shown.items()
    )


def bench(
    output: Path, *, matrix: dict[str, Any] | None = None, say: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Run the registered matrix, write raw artefacts and the report, and decide.

    Parameters
    ----------
    output : Path
        Gets ``runs/`` (workspaces and traces), ``records.json``, ``report.json``, ``report.md`` and ``report.html``.
    matrix : dict, optional
        A smaller one; the report then says that it is not the registered one.

    Returns
    -------
    dict
        The report.
    """
    registered, sha = registration()
    begin = time.monotonic()
    found = run_matrix(output / "runs", matrix or registered["matrix"], say)
    decision, gates = decide(measured(found["records"], found["sweeps"]), registered["gates"])
    control = upper_m([record["metrics"]["branching"] for record in found["control"]])
    refused = control.observed is not None and control.observed >= 1
    if not refused:
        # A gate that lets the control pass says nothing about the rest.
        decision = "NO-GO"
    report = {
        "decision": decision,
        "gates": [msgspec.to_builtins(gate) for gate in gates],
        "control": {"upper": control.observed, "raw": control.raw, "refused": refused},
        "totals": aggregate([record["metrics"] for record in found["records"]]),
        "sweeps": found["sweeps"],
        "provenance": {
            "registration": sha,
            "registeredMatrix": matrix is None or matrix == registered["matrix"],
            "code": code_fingerprint(),
            "python": platform.python_version(),
            "cachePolicy": "a fresh workspace for every run",
        },
        "seconds": round(time.monotonic() - begin, 1),
    }
    write_whole(output / "records.json", msgspec.json.format(canonical(found), indent=1))
    write_whole(output / "report.json", msgspec.json.format(canonical(report), indent=1))
    write_whole(output / "report.md", markdown(report).encode())
    write_whole(output / "report.html", html(report).encode())
    return report


def markdown(report: dict[str, Any]) -> str:
    """The report as a table."""
    lines = [
        f"# Runtime bench: {report['decision']}",
        "",
        "| gate | threshold | observed | interval | numbers | verdict |",
        "|---|---|---|---|---|---|",
    ]
    for gate in report["gates"]:
        cells = [
            f"{gate['id']}: {gate['what']}",
            f"{gate['rule']} {number(gate['threshold'])}",
            number(gate["observed"]),
        ]
        cells += [interval(gate["ci"]), raw(gate["raw"]), gate["verdict"]]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    control = report["control"]
    told = "refused, as it must be" if control["refused"] else "NOT refused"
    lines += ["", f"Negative control: m at most {number(control['upper'])}, {told}.", ""]
    return "\n".join(lines)


def html(report: dict[str, Any]) -> str:
    """The report as a page."""
    page = Environment(autoescape=True).from_string(_PAGE)
    return page.render(r=report, number=number, interval=interval, raw=raw)
