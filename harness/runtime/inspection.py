"""A finished or running run, looked at from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from harness.runtime.errors import RunStoreError
from harness.runtime.ir import canonical
from harness.runtime.metrics import run_metrics
from harness.runtime.store import RunStore
from sherpa.files import write_whole

_HASHES = ("output_sha", "evidence_sha", "plan_sha", "outputs_sha", "payload_sha", "spec_sha", "response_sha")


def export_trace(store: RunStore, run_id: str, path: Path) -> dict[str, Any]:
    """Write projection, replay, events and measures of a run as one JSON file; returns them."""
    trace = {
        "run_id": run_id,
        "projection": store.projection(run_id),
        "replay_projection": store.replay_projection(run_id),
        "events": [msgspec.to_builtins(event) for event in store.events(run_id)],
        "metrics": run_metrics(store.events(run_id)),
    }
    write_whole(path, msgspec.json.format(canonical(trace), indent=1))
    return trace


def verify(store: RunStore, run_id: str) -> list[str]:
    """What is wrong with a run's record: projections that differ, blobs that are missing or damaged."""
    problems = []
    if store.projection(run_id) != store.replay_projection(run_id):
        problems.append("the tables are not what a replay of the events gives")
    for event in store.events(run_id):
        for name in _HASHES:
            sha = event.payload.get(name)
            if sha:
                try:
                    store.blobs.get(sha)
                except RunStoreError as error:
                    problems.append(f"event {event.seq}: {name}: {error}")
    return problems
