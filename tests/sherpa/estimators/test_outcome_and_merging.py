"""How cases will end, and which types mean the same."""

from __future__ import annotations

import numpy as np
import pytest

from sherpa.estimators.merging import learn_merge
from sherpa.estimators.outcome import OutcomeModel
from sherpa.eventlog import EventLog

GOOD, BAD, OPEN = 1, 2, 0


def log_of(*cases: tuple[str, int]) -> EventLog:
    names = sorted({x for case, _ in cases for x in case})
    sizes = [len(case) for case, _ in cases]
    outcomes = [0] * sum(sizes)
    for end, (_, outcome) in zip(np.cumsum(sizes).tolist(), cases, strict=True):
        outcomes[end - 1] = outcome
    return EventLog.from_codes(
        [names.index(x) for case, _ in cases for x in case], np.cumsum([0, *sizes]), names, outcomes=outcomes
    )


def test_outcomes_back_off_from_the_longest_context() -> None:
    """Of three cases two ended well: base 2.5/4. Every context of the prefix a has N = 3 and S = 2; strength 5.

    Order 0: (2 + 5·0.625)/8 = 0.640625; order 1 (a): (2 + 5·0.640625)/8; order 2 (begin, a): once more. Order 3 and
    the set do not exist for a prefix of one event.
    """
    log = log_of(("ab", GOOD), ("ab", GOOD), ("ac", BAD))
    model = OutcomeModel(3).fit(log)
    assert (model.base, model.strength) == (0.625, 5.0)
    p = 0.625
    for _ in range(3):
        p = (2 + 5 * p) / 8
    found = model.predict(log)
    assert found[0] == pytest.approx(p)
    # After c: order 0 as before, then N = 1 and S = 0 three times (c; a c; begin a c), and once more with the set.
    q = (2 + 5 * 0.625) / 8
    for _ in range(4):
        q = 5 * q / 6
    assert found[5] == pytest.approx(q)


def test_a_case_counts_once_where_it_loops() -> None:
    looped = log_of(("aaaaaaab", BAD), ("ac", GOOD))
    model = OutcomeModel(1).fit(looped)
    # Context a: two cases, one of which ended well, however often the other passed it.
    p0 = (1 + 5 * 0.5) / 7
    assert model.predict(log_of(("xa", OPEN)))[1] == pytest.approx((1 + 5 * p0) / 7)


def test_cases_with_an_unknown_end_teach_nothing() -> None:
    known = log_of(("ab", GOOD), ("ac", BAD))
    more = log_of(("ab", GOOD), ("ac", BAD), ("ab", OPEN), ("ab", OPEN))
    assert OutcomeModel().fit(more).predict(known) == pytest.approx(OutcomeModel().fit(known).predict(known))
    assert OutcomeModel().fit(log_of(("ab", OPEN))).predict(known) == pytest.approx(np.full(4, 0.5))


def test_the_strength_is_chosen_on_the_last_cases() -> None:
    sure = log_of(*[("ab", GOOD), ("ac", BAD)] * 50)
    rng = np.random.default_rng(1)
    noise = log_of(*[("ab" if rng.random() < 0.5 else "ac", GOOD if rng.random() < 0.5 else BAD) for _ in range(100)])
    assert OutcomeModel().fit(sure).strength == 1.0
    assert OutcomeModel().fit(noise).strength > 1.0
    assert OutcomeModel().fit(sure).predict(sure)[1] > 0.95


def test_types_that_cannot_be_told_apart_are_merged() -> None:
    rng = np.random.default_rng(3)
    cases = []
    for _ in range(300):
        first = rng.choice(list("xyz"))
        following = rng.choice(["p", "q"]) if first in "xy" else rng.choice(["p", "q"], p=[0.95, 0.05])
        cases.append((f"{first}{following}", OPEN))
    # p and q are followed by the end alike.
    assert learn_merge(log_of(*cases)) == {"x": "x", "y": "x", "p": "p", "q": "p"}


def test_types_whose_cases_end_differently_stay_apart() -> None:
    rng = np.random.default_rng(4)
    cases = [(f"{a}{rng.choice(['p', 'q'])}r", GOOD if a == "x" else BAD) for a in "xy" * 100]
    merged = learn_merge(log_of(*cases))
    assert merged.get("x", "x") != merged.get("y", "y")
    # p and q stand in good and bad cases alike.
    assert merged.get("p") == merged.get("q") == "p"


def test_rare_types_stay_alone() -> None:
    assert learn_merge(log_of(*[("xp", OPEN)] * 4, *[("yp", OPEN)] * 100)) == {}
    assert learn_merge(log_of(("a", OPEN))) == {}
