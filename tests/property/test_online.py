"""Counts that follow running cases hold what a model holds that learned the same prefixes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sherpa.eventlog import EventLog
from sherpa.model import VariableOrderMarkovModel
from sherpa.online import OnlineCounts
from tests.property.strategies import logs

STRATEGIES = st.sampled_from(["raw", "procedure", "family-procedure"])


@given(logs(), STRATEGIES, st.integers(1, 4), st.randoms(use_true_random=False))
@settings(max_examples=150)
def test_any_interleaving(log: EventLog, strategy: str, max_order: int, rng: object) -> None:
    counts = OnlineCounts(max_order, strategy)
    seen = [0] * len(log)
    waiting = [case for case in range(len(log)) for _ in range(len(log[case]))]
    rng.shuffle(waiting)
    stop = rng.randint(0, len(waiting))
    for case in waiting[:stop]:
        at = int(log.offsets[case]) + seen[case]
        seen[case] += 1
        response = int(log.responses[at])
        counts.observe(
            case,
            log[case].prefix(seen[case]).recent(1)[0],
            outcome=int(log.outcomes[at]),
            instant=int(log.instants[at]),
            response=log.response_vocabulary[response] if response >= 0 else None,
        )
        if seen[case] == len(log[case]) and rng.random() < 0.5:
            counts.close(case)
    model = VariableOrderMarkovModel(max_order, strategy)
    for case in range(len(log)):
        if seen[case]:
            model.learn(log[case].prefix(seen[case]))
    assert counts.edges == model.edges
    assert counts.events == stop
    table = model.table()
    states = {()} | {
        tuple(table.vocabulary[c] for c in reversed(row[:order].tolist()))
        for row, order in zip(table.context, table.order.tolist(), strict=True)
    }
    for state in states:
        expected = model.branches(len(state), state)
        found = counts.branches(len(state), state)
        assert found == expected
        best = counts.most_frequent(state)
        assert best == (expected.rows[0].event if expected.rows else None)
    assert not counts.branches(1, ("never seen",)).rows
