"""Random logs and events for property tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from sherpa.event import Projection
from sherpa.eventlog import EventLog
from sherpa.instants import NO_INSTANT
from sherpa.logbuilder import LogBuilder

BASE = 1_767_225_600 * 10**9
TYPES = ("task.started", "tool.failed", "message.user.stop", "a", "b", "task.completed", "task.ended", "x -> y")
CLASSES = ("code-fix", "research", "general-task")
OPERATIONS = ("tool-run", "file-edit", "message-received", None)


@st.composite
def projections(draw: st.DrawFn) -> Projection | None:
    """Sometimes a projection."""
    if draw(st.booleans()):
        return None
    return Projection(
        version="draft-v1",
        source="manual",
        task_class=draw(st.sampled_from((*CLASSES, None))),
        operation=draw(st.sampled_from(OPERATIONS)),
        artifact_class=draw(st.sampled_from(("docs", "service", None))),
    )


@st.composite
def logs(draw: st.DrawFn, max_cases: int = 6, max_events: int = 9, min_cases: int = 0) -> EventLog:
    """A log of small cases with outcomes, users, projections, ties and missing times."""
    builder = LogBuilder()
    for case in range(draw(st.integers(min_cases, max_cases))):
        for _ in range(draw(st.integers(0, max_events))):
            instant = draw(st.one_of(st.just(NO_INSTANT), st.integers(0, 10**12).map(lambda x: BASE + x)))
            builder.add(
                draw(st.sampled_from(TYPES)),
                instant,
                draw(st.integers(0, 2)),
                draw(st.sampled_from(("agent", "user"))),
                draw(projections()),
            )
        builder.end_case(f"case-{case}")
    return builder.build()


@st.composite
def wide_logs(draw: st.DrawFn) -> EventLog:
    """A log over an alphabet of up to 1,000 symbols, drawn by a seeded generator."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    alphabet = draw(st.sampled_from((1, 2, 3, 17, 60, 255, 256, 1000)))
    lengths = rng.integers(0, 40, draw(st.integers(0, 12)))
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    size = int(offsets[-1])
    return EventLog.from_codes(
        rng.integers(0, alphabet, size),
        offsets,
        [f"symbol-{i}" for i in range(alphabet)],
        instants=np.where(rng.random(size) < 0.1, NO_INSTANT, BASE + rng.integers(0, 10**13, size)),
        outcomes=rng.integers(0, 3, size),
        responses=rng.integers(-1, 2, size),
        response_vocabulary=("stop", "go"),
    )
