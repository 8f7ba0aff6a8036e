"""The kernel against a reference in dictionaries, and the monoid laws."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sherpa.counting import NO_MAX, NO_MIN, SUMS, CountTable, count, count_support, empty_table, merge, subtract
from sherpa.eventlog import EventLog, concatenate
from sherpa.instants import NO_INSTANT
from tests.property.strategies import logs, wide_logs

Edge = tuple[tuple[str, ...], str]


def reference(log: EventLog, max_order: int) -> dict[Edge, list[tuple[int, ...]]]:
    """Every observation of every edge: (outcome of next, terminal outcome, duration or -1, instant of next)."""
    seen: dict[Edge, list[tuple[int, ...]]] = defaultdict(list)
    for case in log:
        types, ended = case.types, int(log.terminal[case.index])
        for i in range(len(types) - 1):
            a, b = int(log.instants[case.start + i]), int(log.instants[case.start + i + 1])
            duration = -1 if NO_INSTANT in (a, b) else max(0, b // 10**6 - a // 10**6)
            for k in range(1, min(max_order, i + 1) + 1):
                edge = (types[i - k + 1 : i + 1], types[i + 1])
                seen[edge].append((int(log.outcomes[case.start + i + 1]), ended, duration, b))
    return seen


def rows(table: CountTable) -> dict[Edge, tuple[list[int], int, int, int]]:
    """The same edges read off a table."""
    names = table.vocabulary
    return {
        (tuple(names[c] for c in reversed(table.context[i, : table.order[i]])), names[table.next[i]]): (
            table.sums[i].tolist(),
            int(table.min_ms[i]),
            int(table.max_ms[i]),
            int(table.last_seen[i]),
        )
        for i in range(len(table))
    }


@given(wide_logs(), st.integers(1, 8))
def test_the_kernel_counts_what_dictionaries_count(log: EventLog, max_order: int) -> None:
    expected = {}
    for edge, seen in reference(log, max_order).items():
        outcomes, ends = [s[0] for s in seen], [s[1] for s in seen]
        times = [s[2] for s in seen if s[2] >= 0]
        sums = [len(seen), outcomes.count(1), outcomes.count(2), ends.count(1), ends.count(2), ends.count(0)]
        latest = max(s[3] for s in seen)
        expected[edge] = (
            [*sums, len(times), sum(times)],
            min(times, default=NO_MIN),
            max(times, default=NO_MAX),
            latest,
        )
    assert rows(count(log, max_order)) == expected


def responses_of(table: CountTable) -> dict[tuple[Edge, str], int]:
    keys = list(rows(table))
    return {
        (keys[e], table.response_vocabulary[k]): n
        for e, k, n in zip(
            table.response_edge.tolist(), table.response_key.tolist(), table.response_count.tolist(), strict=True
        )
    }


@given(wide_logs(), st.integers(1, 4))
def test_responses_are_the_first_user_event_after_the_next_event(log: EventLog, max_order: int) -> None:
    expected: dict[tuple[Edge, str], int] = defaultdict(int)
    for case in log:
        types, users = case.types, log.responses[case.start : case.stop].tolist()
        for i in range(len(types) - 1):
            later = [r for r in users[i + 2 :] if r >= 0]
            for k in range(1, min(max_order, i + 1) + 1):
                if later:
                    expected[(types[i - k + 1 : i + 1], types[i + 1]), log.response_vocabulary[later[0]]] += 1
    assert responses_of(count(log, max_order)) == expected


@given(wide_logs(), st.integers(1, 5))
def test_the_root_counts_how_often_each_type_follows_any_event(log: EventLog, max_order: int) -> None:
    table = count(log, max_order, include_root=True)
    expected: dict[str, int] = defaultdict(int)
    for case in log:
        for event in case.types[1:]:
            expected[event] += 1
    root = {edge[1]: sums[0] for edge, (sums, *_) in rows(table).items() if edge[0] == ()}
    assert root == expected
    assert rows(count(log, max_order)) == {e: v for e, v in rows(table).items() if e[0]}


@pytest.mark.parametrize("strategy", ["raw", "procedure", "family-procedure"])
@given(st.lists(logs(), min_size=3, max_size=3))
def test_merging_is_commutative_and_associative_and_equals_counting_at_once(strategy, parts) -> None:
    a, b, c = (count(part, 4, strategy=strategy) for part in parts)
    assert merge(a, b).equals(merge(b, a))
    assert merge(merge(a, b), c).equals(merge(a, merge(b, c)))
    assert merge(a, b, c).equals(count(concatenate(parts), 4, strategy=strategy))
    assert merge(a, empty_table(4)).equals(a)


@given(logs(), logs())
def test_subtracting_undoes_merging(left: EventLog, right: EventLog) -> None:
    a, b = count(left, 3), count(right, 3)
    both = merge(a, b)
    assert subtract(both, b, remaining=left).equals(a)
    alone = subtract(both, b)
    assert rows(alone).keys() == rows(a).keys()
    for edge, (sums, low, high, last) in rows(alone).items():
        assert sums == rows(a)[edge][0]
        at = list(rows(alone)).index(edge)
        if alone.extremes_known[at]:
            assert (low, high, last) == rows(a)[edge][1:]


@given(logs(min_cases=1))
def test_subtracting_what_is_not_there_is_refused(log: EventLog) -> None:
    table = count(log, 2)
    if len(table):
        with pytest.raises(ValueError, match="does not hold"):
            subtract(table, merge(table, table))


def test_sums_name_the_columns() -> None:
    log = EventLog.from_codes([0, 1, 0], [0, 3], ["a", "b"], outcomes=[0, 2, 1], instants=[0, 5_000_000, 9_000_000])
    table = count(log, 1)
    assert [table.vocabulary[n] for n in table.next] == ["b", "a"]
    # a→b: next fails, the case succeeds (its last known outcome), 5 ms; b→a: next succeeds, 4 ms.
    assert dict(zip(SUMS, table.sums[0].tolist(), strict=True)) == {
        "support": 1,
        "success": 0,
        "failure": 1,
        "terminal_success": 1,
        "terminal_failure": 0,
        "terminal_unknown": 0,
        "timed": 1,
        "total_ms": 5,
    }
    assert table.column("total_ms").tolist() == [5, 4]


def test_orders_of_different_length_do_not_merge() -> None:
    with pytest.raises(ValueError, match="one maximum order"):
        merge(empty_table(2), empty_table(3))


def test_an_order_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        count(EventLog.from_codes([], [0], []), 0)


@given(log=st.one_of(logs(), wide_logs()), max_order=st.integers(1, 5))
def test_support_alone_is_that_of_the_whole_table(log: EventLog, max_order: int) -> None:
    table, alone = count(log, max_order), count_support(log, max_order)
    assert alone.vocabulary == table.vocabulary
    for name in ("order", "context", "next", "support"):
        assert np.array_equal(getattr(alone, name), getattr(table, name)), name


@pytest.mark.parametrize("symbols", [2, 3000])
@pytest.mark.parametrize("max_order", [1, 5, 10])
def test_any_alphabet_and_order_is_counted_alike(symbols: int, max_order: int) -> None:
    """Windows that fit into one word and windows that do not; the references are dictionaries."""
    rng = np.random.default_rng(symbols)
    lengths = rng.integers(0, 9, 120)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    names = [f"t{i}" for i in range(symbols)]
    log = EventLog.from_codes(rng.integers(0, symbols, offsets[-1]), offsets, names)
    expected: dict[tuple[tuple[str, ...], str], int] = {}
    for case in range(len(log)):
        types = [names[c] for c in log.codes[offsets[case] : offsets[case + 1]]]
        for at in range(1, len(types)):
            for order in range(1, min(max_order, at) + 1):
                key = (tuple(types[at - order : at]), types[at])
                expected[key] = expected.get(key, 0) + 1
    for table in (count(log, max_order), count_support(log, max_order)):
        found = {
            (tuple(table.vocabulary[c] for c in context[order - 1 :: -1]), table.vocabulary[following]): support
            for order, context, following, support in zip(
                table.order.tolist(), table.context.tolist(), table.next.tolist(), table.support.tolist(), strict=True
            )
        }
        assert found == expected
