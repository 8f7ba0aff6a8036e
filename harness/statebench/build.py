"""The artefact: cards of the training runs, without labels, names or values of customers."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.statebench.cards import make_cards
from harness.statebench.events import run_events
from harness.statebench.parity import parity_cards
from harness.statebench.redaction import Redactor
from harness.statebench.trajectories import Trajectory, read_trajectories
from sherpa.errors import SherpaError
from sherpa.files import write_whole
from sherpa.memory import ProceduralMemory

SCHEMA_VERSION = 2
"""1 is the original's, whose cards carry task ids."""


class LeakError(SherpaError):
    """A value of a customer survived masking."""


def read_runs(folder: Path, max_per_domain: int | None = None) -> list[Trajectory]:
    """Runs of a folder; of each domain the first ones only, if a number is given."""
    return [run for run in read_trajectories(folder) if max_per_domain is None or run.place < max_per_domain]


def build(runs: Sequence[Trajectory], *, parity: bool = False) -> dict[str, Any]:
    """The artefact of these runs. The same runs give the same artefact.

    Parameters
    ----------
    runs : sequence of Trajectory
        Sorted by domain.
    parity : bool
        Make the original's three kinds of cards instead, for comparison.

    Raises
    ------
    LeakError
        If the scanner finds a value of a customer in a card.
    """
    redactor = Redactor().collect(runs)
    learnings: list[dict[str, Any]] = []
    for card in (parity_cards if parity else make_cards)(runs, redactor):
        for field, text in (("text", card.text), ("words", card.words)):
            leaks = redactor.leaks(text)
            if leaks:
                found = ", ".join(f"{sort} {value!r}" for sort, value in leaks[:3])
                raise LeakError(f"card {card.id}, {field}: {found} survived masking")
        learnings.append(card.to_json())
    kinds = Counter(card["kind"] for card in learnings)
    domains = Counter(run.domain for run in runs)
    return {
        "schemaVersion": SCHEMA_VERSION,
        "benchmark": "STATE-Bench",
        "labelFree": True,
        "source": {"domains": dict(domains), "digest": _digest(runs)},
        "counts": {
            "runs": len(runs),
            "calls": sum(len(run.calls) for run in runs),
            "cards": dict(sorted(kinds.items())),
            "maskedValues": len(redactor.values),
        },
        "learnings": learnings,
    }


def write_store(runs: Sequence[Trajectory], root: Path) -> int:
    """Keep the runs as a memory under a folder; returns the events added. What is there already is not added again."""
    with ProceduralMemory(root) as memory:
        return len(memory.ingest_batch([event for run in runs for event in run_events(run)]).events)


def write_artefact(artefact: dict[str, Any], path: Path) -> None:
    """Write it whole."""
    write_whole(path, msgspec.json.format(msgspec.json.encode(artefact), indent=1) + b"\n")


def _digest(runs: Sequence[Trajectory]) -> str:
    """SHA-256 of what was learned from: conversations only, so that labels beside them change nothing."""
    digest = hashlib.sha256()
    for run in runs:
        calls = [[call.tool, call.arguments, call.result, call.turn] for call in run.calls]
        said = [run.domain, run.place, run.system, run.user, run.answers, calls]
        digest.update(msgspec.json.encode(said, order="sorted"))
    return digest.hexdigest()
