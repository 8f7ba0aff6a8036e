"""The blended estimators hold the contract, and the single question agrees with the question about a whole log."""

from __future__ import annotations

import numpy as np
import pytest

from baselines.blended import Blended
from baselines.testing import check_predictor, random_log
from sherpa.estimators.registry import ESTIMATORS
from sherpa.eventlog import EventLog


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("order", [1, 3, 5])
def test_the_contract(name: str, order: int) -> None:
    check_predictor(lambda: Blended(name, order))


def test_the_contract_of_a_learned_rival() -> None:
    check_predictor(lambda: Blended("logistic-regression", 3))


@pytest.mark.full
def test_the_contract_of_a_rival_that_learns_slowly() -> None:
    check_predictor(lambda: Blended("gradient-boosting", 3))


def test_the_recurrent_rival_with_little_to_learn() -> None:
    pytest.importorskip("jax", reason="jax is not installed (extra learned)")
    predictor = Blended("recurrent")
    prefix = random_log(1)[0].prefix(1)
    assert predictor.rank(prefix).events == ()
    predictor.learn(random_log(1)[0])
    ranking = predictor.rank(prefix)
    assert sum(ranking.probabilities) + ranking.unseen <= 1 + 1e-9
    predictor.forget(random_log(1)[0])
    assert predictor.rank(prefix).events == ()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_one_prefix_and_all_at_once(name: str) -> None:
    log, other = random_log(1, cases=30), random_log(2, cases=10)
    predictor = Blended(name)
    predictor.learn(log)
    rows = predictor.model.predict_proba(other, first=0)
    at = 0
    for case in other:
        for length in range(len(case) + 1):
            ranking = predictor.rank(case.prefix(length))
            found = dict(zip(ranking.events, ranking.probabilities, strict=True))
            expected = dict(zip(predictor.model.vocabulary, rows[at].tolist(), strict=False))
            assert found == pytest.approx(expected, abs=1e-12)
            assert ranking.unseen == pytest.approx(rows[at, -1], abs=1e-12)
            at += 1
    assert at == len(rows)
    assert rows.sum(axis=1) == pytest.approx(np.ones(at), abs=1e-12)


def test_cases_count_in_order_of_time() -> None:
    def log(names: list[str], second: int) -> EventLog:
        return EventLog.from_codes(
            [0, 1], [0, 2], names, case_ids=[f"c{second}"], instants=[second * 10**9, second * 10**9 + 1]
        )

    early, late = [log(["a", "b"], n) for n in range(60)], [log(["a", "c"], 10**6 + n) for n in range(60)]
    forward, backward = Blended("mixture"), Blended("mixture")
    for part in (*early, *late):
        forward.learn(part)
    for part in (*late, *early):
        backward.learn(part)
    prefix = early[0][0].prefix(1)
    assert forward.rank(prefix) == backward.rank(prefix)
    assert forward.rank(prefix).events[0] == "c"
