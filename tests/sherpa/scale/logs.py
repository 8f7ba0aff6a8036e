"""Events for tests of scale, and their Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sherpa import EventLog
from sherpa.counting import CountTable, count
from sherpa.event import Event
from sherpa.instants import format_instant
from sherpa.scale.parquet import write_events
from sherpa.scale.source import Source

NOON = 1_767_268_800 * 10**9
TYPES = ("a", "b.failed", "task.completed", "task.ended", "message.user.ask", "session.started", "run.ended", "ü -> x")


def event(number: int, case: str, kind: str, instant: int, **more: Any) -> Event:
    """An event as the ledger holds it."""
    return Event(
        event_id=more.pop("event_id", f"e{number}"),
        case_id=case,
        ts=format_instant(instant),
        source="test",
        type=kind,
        seq=more.pop("seq", number),
        **more,
    )


def drawn(seed: int, events: int, cases: int, types: Sequence[str] = TYPES, ties: int = 5) -> list[Event]:
    """Random events in the order of arrival; one in `ties` has the time of another of its case, some come late."""
    rng = np.random.default_rng(seed)
    drawn_events = []
    for number in range(1, events + 1):
        late = int(rng.integers(0, 3 * ties))
        instant = NOON + (number - late) // ties * 1_500_000_000 + int(rng.integers(0, 2)) * 300_001
        drawn_events.append(
            event(
                number,
                f"case-{rng.integers(cases)}",
                types[int(rng.integers(len(types)))],
                instant,
                actor=("agent", "user")[int(rng.integers(4) == 0)],
                agent_id=("main", "other")[int(rng.integers(2))],
                outcome=("unknown", "success", "failure")[int(rng.integers(3))],
                labels=(("workflow:w", "plain"), ("workflow:v", "workflow:w"), ("workflow:w", "workflow:w"), ())[
                    int(rng.integers(4))
                ],
            )
        )
    return drawn_events


def in_files(folder: Path, events: Sequence[Event], files: int = 1) -> Source:
    """The events in so many Parquet files, in order."""
    bounds = np.linspace(0, len(events), files + 1).astype(int).tolist()
    paths = []
    for at in range(files):
        part = events[bounds[at] : bounds[at + 1]]
        paths.append(folder / f"{at:03d}.parquet")
        write_events(paths[-1], [(part, np.array([e.instant for e in part], np.int64))] if part else [])
    return Source.of(paths)


def counted(events: Sequence[Event], max_order: int = 4) -> CountTable:
    """What the kernel counts when it is given the events one by one."""
    return count(EventLog.from_ledger(events), max_order)


def rows_of(table: CountTable) -> dict[tuple[str, ...], tuple[int, ...]]:
    """Oldest first, then what follows → support, success, failure, terminal ones, timed, total, min, max."""
    names = table.vocabulary
    return {
        (*(names[c] for c in context[:order][::-1]), "=>", names[following]): (*sums, low, high)
        for order, context, following, sums, low, high in zip(
            table.order.tolist(),
            table.context.tolist(),
            table.next.tolist(),
            table.sums.tolist(),
            table.min_ms.tolist(),
            table.max_ms.tolist(),
            strict=True,
        )
    }
