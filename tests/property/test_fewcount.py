"""A few cases counted in a loop give the edges that the kernel gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sherpa.counting import NO_MAX, NO_MIN, count
from sherpa.eventlog import EventLog
from sherpa.fewcount import count_few
from sherpa.instants import NO_INSTANT
from sherpa.projection.states import join_state
from tests.property.strategies import logs, wide_logs


@given(log=st.one_of(logs(), wide_logs()), max_order=st.integers(1, 5))
def test_the_loop_counts_what_the_kernel_counts(log: EventLog, max_order: int) -> None:
    table = count(log, max_order)
    expected = {}
    for row in range(len(table)):
        order = int(table.order[row])
        context = [table.vocabulary[c] for c in table.context[row, order - 1 :: -1].tolist()]
        extremes = (table.min_ms[row], table.max_ms[row], table.last_seen[row])
        missing = (NO_MIN, NO_MAX, NO_INSTANT)
        responses = {
            table.response_vocabulary[key]: times
            for edge, key, times in zip(
                table.response_edge, table.response_key, table.response_count.tolist(), strict=True
            )
            if edge == row
        }
        expected[order, join_state(context), table.vocabulary[table.next[row]]] = (
            table.sums[row].tolist(),
            responses,
            *(None if value == none else int(value) for value, none in zip(extremes, missing, strict=True)),
        )
    found = count_few(log, max_order)
    assert {key: (e.sums, e.responses, e.min_ms, e.max_ms, e.last) for key, e in found.items()} == expected
