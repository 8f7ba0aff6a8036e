"""A dataset for people to annotate, made of real sessions: cases in train, dev and test, annotations left open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from sherpa.answers import json_document
from sherpa.errors import DatasetError
from sherpa.files import write_whole
from sherpa.instants import format_instant
from sherpa.sources.openclaw.events import Mapping
from sherpa.sources.openclaw.sessions import Installation

SplitBy = Literal["time", "host"]
SPLITS = ("train", "dev", "test")
FRACTIONS = (0.6, 0.2, 0.2)
Watch = Callable[[int], None]


def from_sessions(
    installation: Installation,
    mapping: Mapping,
    folder: Path,
    *,
    by: SplitBy = "time",
    fractions: Sequence[float] = FRACTIONS,
    shortest: int = 3,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Write ``train.json``, ``dev.json``, ``test.json`` and ``suite.json``.

    Parameters
    ----------
    by : str
        ``time``: the latest cases are the test; ``host``: whole installations go to one split each, so that the test
        asks about hosts that were never seen.
    fractions : three numbers
        Shares of train, dev and test; they sum to 1.
    shortest : int
        Cases with fewer events are left out.

    Returns
    -------
    dict
        Cases and events of each split, and what was left out.

    Raises
    ------
    DatasetError
        If the shares are no shares, or there are fewer usable cases (or hosts) than splits.
    """
    if len(fractions) != 3 or min(fractions) < 0 or abs(sum(fractions) - 1) > 1e-9:
        raise DatasetError(f"fractions {', '.join(map(str, fractions))} must be three shares that sum to 1")
    cases: list[tuple[int, str, dict[str, Any]]] = []
    short = 0
    for session in installation.sessions:
        events: dict[str, list[dict[str, Any]]] = {}
        begins: dict[str, int] = {}
        for event in mapping.events(session, session.steps(watch)):
            begins.setdefault(event.case_id, event.instant)
            events.setdefault(event.case_id, []).append(
                {
                    "ts": format_instant(event.instant),
                    "source": "openclaw",
                    "type": event.type,
                    "actor": event.actor,
                    "outcome": event.outcome,
                    "labels": list(event.labels),
                }
            )
        labels = [f"agent:{session.agent}", *([f"session-kind:{session.about.kind}"] if session.about.kind else [])]
        for case_id, rows in events.items():
            if len(rows) < shortest:
                short += 1
                continue
            cases.append((begins[case_id], session.host, _case(case_id, labels, session.host, rows)))
    cases.sort(key=lambda item: (item[0], item[2]["caseId"]))
    parts = _by_time(cases, fractions) if by == "time" else _by_host(cases, fractions)
    if any(not part for part in parts):
        what = "cases" if by == "time" else "hosts"
        raise DatasetError(f"there are too few {what} for train, dev and test", file=installation.found.root)
    for name, part in zip(SPLITS, parts, strict=True):
        write_whole(folder / f"{name}.json", json_document(_document(name, part, by)))
    suite = {"name": "openclaw-sessions", "datasets": [{"path": f"./{name}.json", "name": name} for name in SPLITS]}
    write_whole(folder / "suite.json", json_document(suite))
    return {
        "output": str(folder),
        "splitBy": by,
        "splits": {
            name: {"cases": len(part), "events": sum(len(c["events"]) for c in part)}
            for name, part in zip(SPLITS, parts, strict=True)
        },
        "leftOut": {"shorterThan": shortest, "cases": short},
        "skipped": [{"path": path, "reason": reason} for path, reason in installation.skipped],
    }


def _case(case_id: str, labels: list[str], host: str, events: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "caseId": case_id,
        "labels": [*labels, *([f"host:{host}"] if host not in ("", ".") else [])],
        "annotations": {
            "workflowClass": None,
            "taskBoundaries": [],
            "blockers": [],
            "notes": [],
            "expectations": {"nextByStep": [], "terminalOutcome": None},
        },
        "events": events,
    }


def _document(name: str, cases: list[dict[str, Any]], by: SplitBy) -> dict[str, Any]:
    return {
        "name": f"openclaw-sessions-{name}",
        "description": f"Sessions of OpenClaw, split by {by}; annotations are open.",
        "schemaVersion": 1,
        "split": name,
        "notes": ["Texts, arguments and results are left out; see the annotation guide for what to fill in."],
        "cases": cases,
    }


Cases = list[tuple[int, str, dict[str, Any]]]


def _by_time(cases: Cases, fractions: Sequence[float]) -> list[list[dict[str, Any]]]:
    first = round(len(cases) * fractions[0])
    second = first + round(len(cases) * fractions[1])
    plain = [case for _, _, case in cases]
    return [plain[:first], plain[first:second], plain[second:]]


def _by_host(cases: Cases, fractions: Sequence[float]) -> list[list[dict[str, Any]]]:
    """Hosts by size; each goes to the split that is furthest below its share."""
    hosts: dict[str, list[dict[str, Any]]] = {}
    for _, host, case in cases:
        hosts.setdefault(host, []).append(case)
    parts: list[list[dict[str, Any]]] = [[], [], []]
    for host in sorted(hosts, key=lambda h: (-len(hosts[h]), h)):
        missing = [share * len(cases) - len(part) for share, part in zip(fractions, parts, strict=True)]
        # A split that has nothing yet comes before one that could do with more.
        at = max(range(3), key=lambda i: (fractions[i] > 0 and not parts[i] and len(hosts) <= 3, missing[i], -i))
        parts[at] += hosts[host]
    return parts
