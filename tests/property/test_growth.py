"""A graph that grew event by event, in any order, is row for row the one that is made at once."""

from __future__ import annotations

import tempfile
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sherpa import EngineConfig, ProceduralMemory
from sherpa.derive import DERIVED

CONFIG = EngineConfig(default_order=2, max_order=3)
steps = st.fixed_dictionaries(
    {
        "caseId": st.sampled_from(["x", "y"]),
        "source": st.just("s"),
        "type": st.sampled_from(["a", "b -> c", "task.completed", "x.failed", "session.started", "message.user.ask"]),
        # Mostly forward, sometimes late, sometimes at the same time.
        "late": st.sampled_from([0, 0, 0, 1, 5]),
    },
    optional={
        "outcome": st.sampled_from(["success", "failure", "unknown"]),
        "actor": st.sampled_from(["agent", "agent", "user"]),
        "labels": st.lists(st.sampled_from(["workflow:w", "plain"]), max_size=1),
        "agentId": st.sampled_from(["main", "other"]),
    },
)


@settings(max_examples=120)
@given(given_steps=st.lists(steps, max_size=14), size=st.integers(1, 4))
def test_growing_and_rebuilding_agree(given_steps: list[dict[str, Any]], size: int) -> None:
    events = [
        {key: value for key, value in step.items() if key != "late"}
        | {"eventId": f"e{at}", "ts": f"2026-01-01T00:00:{max(0, 2 * at - step['late']):02d}.25Z"}
        for at, step in enumerate(given_steps)
    ]
    with tempfile.TemporaryDirectory() as root, ProceduralMemory(root, CONFIG) as memory:
        for at in range(0, len(events), size):
            memory.ingest_batch(events[at : at + size])
        grown = {table: sorted(memory.store.rows(table)) for table in DERIVED}
        memory.rebuild()
        assert grown == {table: sorted(memory.store.rows(table)) for table in DERIVED}


def test_an_event_that_goes_on_counts_nothing_again(tmp_path: Any, monkeypatch: Any) -> None:
    with ProceduralMemory(tmp_path, CONFIG) as memory:
        memory.ingest({"caseId": "c", "source": "s", "type": "a", "ts": "2026-01-01T00:00:00Z"})

        def never(*_: Any) -> None:
            raise AssertionError("the case was read whole")

        monkeypatch.setattr(memory.store, "case_events", never)
        memory.ingest({"caseId": "c", "source": "s", "type": "b", "ts": "2026-01-01T00:00:01Z"})
        assert memory.store.count_rows("state_edges") == 1
