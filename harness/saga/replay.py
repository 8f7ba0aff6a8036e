"""The log folded from its beginning, beside the snapshot: are they the same?"""

from __future__ import annotations

from typing import Any

import msgspec

from harness.saga.fold import fold
from harness.saga.model import SagaState
from harness.saga.store import RunStore


def replayed(store: RunStore, saga_id: str) -> dict[str, Any]:
    """What the log says, what the snapshot says, and in which fields they differ."""
    loaded = store.load(saga_id)
    events = store.events(saga_id)
    folded = fold(events)
    differing = _differences(folded, loaded.state)
    return {
        "sagaId": saga_id,
        "events": len(events),
        "identical": not differing,
        "differences": differing,
        "problems": loaded.problems,
        "state": None if folded is None else msgspec.to_builtins(folded),
    }


def _differences(left: SagaState | None, right: SagaState) -> list[str]:
    if left is None:
        return ["the log holds no event"]
    return [name for name in left.__struct_fields__ if getattr(left, name) != getattr(right, name)]
