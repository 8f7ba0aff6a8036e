"""Decisions on H1 to H3 from hand-made sums."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from experiments.claims import PENDING, REJECTED, SUPPORTED, Claim, Contrasts, Sums, contrasts, h1, h2, h3, settle
from experiments.plan import Plan, load_plan

PLAN = msgspec.structs.replace(load_plan(None)[0], resamples=2000)


def study(rates: dict[str, float], *, cases: int = 60, steps: int = 10, plan: Plan = PLAN, seed: int = 0) -> Contrasts:
    """Every arm hits at its rate (default 0.5), independently in every case."""
    rng = np.random.default_rng(seed)
    hits = {}
    for name in plan.arms:
        sums = rng.binomial(steps, rates.get(name, 0.5), cases).astype(float)
        hits[name] = {"top-k": sums, "top-1": sums}
    found = contrasts(Sums(tuple(map(str, range(cases))), np.full(cases, float(steps)), hits), plan, rng)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("rate", "cases", "decision"),
    [(0.8, 60, SUPPORTED), (0.8, 19, PENDING), (0.5, 60, PENDING), (0.3, 60, REJECTED), (0.3, 10, REJECTED)],
)
def test_h1_follows_the_interval_and_the_number_of_clusters(rate: float, cases: int, decision: str) -> None:
    assert h1(study({"sherpa-raw": rate}, cases=cases)).decision == decision


def test_h1_is_rejected_where_only_a_negligible_effect_is_left() -> None:
    exact = study({}, cases=4000, steps=20)
    assert h1(exact).decision == REJECTED
    assert exact.interval("sherpa-raw", "global-majority", "top-k").high < 0.02


@pytest.mark.parametrize(
    ("rate", "projects", "differs", "decision", "improves"),
    [
        (0.50, True, True, SUPPORTED, False),
        (0.60, True, True, SUPPORTED, True),
        (0.40, True, True, REJECTED, False),
        (0.60, False, True, PENDING, True),
        (0.60, True, False, PENDING, True),
    ],
)
def test_h2_asks_for_non_inferiority_and_for_something_to_test(
    rate: float, projects: bool, differs: bool, decision: str, improves: bool
) -> None:
    claim = h2(study({"sherpa-family-procedure": rate}, cases=2000, seed=3), projects=projects, differs=differs)
    assert (claim.decision, claim.improves) == (decision, improves)
    assert (claim.p is None) == (not (projects and differs))


def test_h3_needs_to_beat_every_rival() -> None:
    everyone = study({"sherpa-raw": 0.7})
    assert h3(everyone, PENDING).decision == SUPPORTED
    one_equal = study({"sherpa-raw": 0.7, "raw-ngram": 0.7})
    claim = h3(one_equal, PENDING)
    assert claim.decision == PENDING
    assert "raw-ngram" in claim.evidence
    one_better = h3(study({"sherpa-raw": 0.7, "repeat-last": 0.9}), PENDING)
    assert one_better.decision == REJECTED
    assert one_better.evidence.startswith("beaten by repeat-last")
    assert one_better.p == 1.0


def test_a_claim_that_holm_does_not_let_pass_is_pending() -> None:
    claims = [
        Claim(name, SUPPORTED, 0.1, None, p, "", "", PENDING, [])
        for name, p in (("H1", 0.03), ("H2", 0.01), ("H3", 0.04))
    ]
    settle(claims, None, PLAN)
    # Adjusted: H2 0.03; H1 2 · 0.03 = 0.06; H3 0.06.
    assert [c.p_holm for c in claims] == pytest.approx([0.06, 0.03, 0.06])
    assert [c.decision for c in claims] == [PENDING, SUPPORTED, PENDING]
    assert all(c.next_action for c in claims)


def test_a_pending_claim_says_how_many_cases_would_decide() -> None:
    c = study({"sherpa-raw": 0.56}, cases=25, seed=5)
    (claim,) = settle([h1(c)], c, PLAN)
    assert claim.decision == PENDING
    assert claim.cases_needed is not None
    assert claim.cases_needed >= 25
    assert claim.power is not None
    assert claim.power[-1][1] >= 0.8


def test_one_cluster_decides_nothing() -> None:
    hits = {name: {"top-k": np.ones(1), "top-1": np.ones(1)} for name in PLAN.arms}
    assert contrasts(Sums(("a",), np.ones(1), hits), PLAN, np.random.default_rng(0)) is None
