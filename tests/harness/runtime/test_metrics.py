"""Measures, intervals and gates. Acceptance checks 122 to 129."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from harness.runtime.bench.gates import Measured, decide, registration, share, total, upper_m
from harness.runtime.events import RunEvent
from harness.runtime.metrics import aggregate, bootstrap_ci, ratio, run_metrics


def event(kind: str, key: str = "n", **payload: Any) -> RunEvent:
    return RunEvent(1, 0.0, "r", key, kind, payload)


def outcome(key: str, declared: int, ambiguous: int) -> RunEvent:
    return event("decompose_outcome", key, children_declared=declared, children_ambiguous=ambiguous)


def checked(key: str, decision: str, claimed: bool) -> RunEvent:
    return event("admission_checked", key, decision=decision, atomic_claimed=claimed)


WORKED = [
    outcome("a", 4, 1),
    outcome("b", 3, 0),
    outcome("c", 3, 2),
    *(checked(f"x{n}", "admitted", True) for n in range(3)),
    checked("c", "reclassify_decompose", True),
    checked("y", "reclassify_decompose", True),
    checked("z", "escalate", False),
    checked("w", "escalate", True),
]


def test_122_the_worked_example() -> None:
    found = run_metrics(WORKED)
    b = found["branching"]
    assert (b["decompositions"], b["children_declared"], b["ambiguous_declared"]) == (3, 10, 3)
    assert (b["reclassified"], b["escalated"], b["escalated_ambiguous"]) == (2, 2, 1)
    assert (b["viable"], b["ambiguous"], b["decompositions_unmeasured"]) == (8, 4, 1)
    assert (b["b_declared"], b["f_declared"], b["b_corrected"]) == (10 / 3, 0.3, 8 / 3)
    assert (b["f_ambiguous"], b["m"]) == (0.5, 4 / 3)
    assert math.isclose(b["m"], b["b_corrected"] * b["f_ambiguous"])
    assert found["admission"]["overclaim_rate"] == 0.5
    assert found["admission"]["claimed_atomic"] == 6


def test_123_nothing_gives_nothing() -> None:
    found = run_metrics([])
    assert [value for name, value in found["branching"].items() if name[:2] in ("b_", "f_", "m")] == [None] * 5
    assert found["admission"]["overclaim_rate"] is None
    assert found["terminal_status"] is None
    assert set(found["usage"].values()) == {None}
    assert ratio(0, 0) is None
    assert ratio(0, 1) == 0


def test_124_a_reclassification_without_an_outcome() -> None:
    b = run_metrics([checked("a", "reclassify_decompose", True)])["branching"]
    assert (b["m"], b["decompositions_unmeasured"]) == (None, 1)


def test_125_the_last_decision_on_a_node_counts() -> None:
    found = run_metrics(
        [checked("a", "reclassify_decompose", True), checked("a", "admitted", True), outcome("d", 1, 0)]
    )
    assert found["branching"]["reclassified"] == 0
    assert found["admission"]["checked"] == 2
    b = run_metrics([outcome("a", 4, 1), outcome("a", 2, 0)])["branching"]
    assert (b["decompositions"], b["children_declared"]) == (1, 2)


def test_126_unreported_is_not_zero() -> None:
    assert run_metrics([event("usage_checkpoint", nodes=1)])["usage"]["tokens"] is None
    assert run_metrics([event("usage_checkpoint", tokens=0)])["usage"]["tokens"] == 0.0
    assert run_metrics([event("usage_checkpoint", tokens=2)] * 3)["usage"]["tokens"] == 6


SKEWED = [0.0] * 20 + [1.0, 2.0, 3.0, 5.0, 8.0, 40.0]


def test_127_the_bootstrap() -> None:
    interval = bootstrap_ci(SKEWED)
    assert interval is not None
    low, high = interval
    mean = math.fsum(SKEWED) / len(SKEWED)
    assert min(SKEWED) < low < mean < high < max(SKEWED)
    rng = random.Random(0)
    means = sorted(math.fsum(SKEWED[rng.randrange(26)] for _ in range(26)) / 26 for _ in range(1000))
    assert interval == (means[25], means[975])
    wide = bootstrap_ci(SKEWED, alpha=0.01)
    assert wide is not None
    assert wide[0] <= low
    assert wide[1] > high
    assert bootstrap_ci(SKEWED, seed=1) != interval
    assert bootstrap_ci([]) is None
    assert bootstrap_ci([3.0]) == (3.0, 3.0)
    assert bootstrap_ci([1.0, 3.0], "median", n_boot=1, alpha=0.5) in [(v, v) for v in (1.0, 2.0, 3.0)]
    with pytest.raises(ValueError, match="mode"):
        bootstrap_ci(SKEWED, "mode")  # type: ignore[arg-type]


def test_127_coverage_on_exponential_data() -> None:
    rng = random.Random(5)
    covered = 0
    for trial in range(200):
        interval = bootstrap_ci([rng.expovariate(1.0) for _ in range(40)], n_boot=300, seed=trial)
        assert interval is not None
        covered += interval[0] <= 1.0 <= interval[1]
    assert covered / 200 >= 0.85


def everything() -> dict[str, Measured]:
    def observed(value: float) -> Measured:
        return Measured(observed=value, ci=None, raw={})

    return {
        "decompositions": observed(50),
        "claimed-atomic": observed(30),
        "held-out-success": observed(0.8),
        "corrected-m": observed(0.999),
        "needle-recall": observed(0.95),
        "crash-resume": observed(1.0),
        "repairs-verified": observed(1.0),
        "defects-named": observed(1.0),
    }


WORSE = {
    "decompositions": 49, "claimed-atomic": 29, "held-out-success": 0.79, "corrected-m": 1.0, "needle-recall": 0.94,
    "crash-resume": 0.999, "repairs-verified": 0.99, "defects-named": 0.99,
}  # fmt: skip
GATES = registration()[0]["gates"]


def test_128_all_pass() -> None:
    decision, results = decide(everything(), GATES)
    assert (decision, {r.verdict for r in results}) == ("GO", {"PASS"})
    assert [r.id for r in results] == list(WORSE)
    assert decide(everything(), [])[0] == "NO-GO"


@pytest.mark.parametrize("name", WORSE)
def test_128_each_one_decides(name: str) -> None:
    worse = everything() | {name: Measured(observed=float(WORSE[name]), ci=None, raw={})}
    decision, results = decide(worse, GATES)
    assert (decision, [r.id for r in results if r.verdict == "FAIL"]) == ("NO-GO", [name])
    gone = everything()
    del gone[name]
    decision, results = decide(gone, GATES)
    assert (decision, [r.id for r in results if r.verdict == "MISSING"]) == ("NO-GO", [name])


def test_129_a_run_that_leaves_more_open_than_it_settles() -> None:
    def runs(ambiguous: int) -> list[dict[str, Any]]:
        return [{"ambiguous": ambiguous + n % 2, "decompositions": 2} for n in range(20)]

    assert (upper_m(runs(0)).observed or 9) < 1
    found = upper_m(runs(2))
    assert found.observed is not None
    assert found.observed > 1
    assert decide(everything() | {"corrected-m": found}, GATES)[0] == "NO-GO"
    none = upper_m([{"ambiguous": 0, "decompositions": 107}, {"ambiguous": 0, "decompositions": 0}])
    assert none.observed is None
    none = upper_m([{"ambiguous": 0, "decompositions": 53}, {"ambiguous": 0, "decompositions": 54}])
    assert none.observed == pytest.approx(0.028, abs=5e-4)


def test_shares_have_exact_intervals() -> None:
    found = share(16, 16)
    assert found.ci is not None
    assert (found.observed, found.ci["high"]) == (1.0, 1.0)
    assert found.ci["low"] == pytest.approx(0.025 ** (1 / 16))
    assert share(0, 0).observed is None
    assert share(0, 4).ci == {
        "low": 0.0,
        "high": pytest.approx(1 - 0.025**0.25),
        "level": 0.95,
        "method": "clopper-pearson",
    }
    assert total([]).observed is None
    counted = total([2] * 30)
    assert (counted.observed, counted.ci and counted.ci["low"]) == (60.0, 60.0)


def test_runs_together() -> None:
    runs = [run_metrics([*WORKED, event("run_terminal", status=status)]) for status in ("completed", "failed")]
    runs.append(run_metrics([event("usage_checkpoint", tokens=4)]))
    found = aggregate(runs)
    assert (found["success_rate"], found["m_max"], found["m_values"]) == (1 / 3, 4 / 3, [4 / 3, 4 / 3])
    assert (found["runs_with_token_measurements"], found["tokens_median"], found["tokens_total"]) == (1, 4, 4)
    assert aggregate([])["success_rate"] is None
