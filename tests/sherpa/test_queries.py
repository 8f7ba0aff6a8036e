"""The published formulas, by hand."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from sherpa.branches import NO_BRANCHES, Branch, Branches, PastCase, Scan
from sherpa.config import EngineConfig
from sherpa.projection.states import Facets, StateVariant
from sherpa.queries import (
    StateMatch,
    branch_risks,
    candidates,
    match_state,
    outcome_notes,
    support_confidence,
    variant_rank,
    workflow_next,
    workflow_recall,
    workflow_state,
)

CONFIG = EngineConfig(min_support=1)


def branch(event: str, support: int, *, ok: int = 0, bad: int = 0, ms: int = 0, timed: int | None = None) -> Branch:
    """An edge whose terminal outcomes are `ok` successes, `bad` failures, else unknown."""
    known = support if timed is None else timed
    return Branch(event, support, 0, 0, ok, bad, support - ok - bad, known, ms, {})


class Edges:
    """An edge source that holds what it is given."""

    def __init__(self, **states: Iterable[Branch]) -> None:
        self.states = {tuple(key.split("_")): Branches.ordered(rows) for key, rows in states.items()}

    def branches(self, order: int, state: tuple[str, ...]) -> Branches:
        assert order == len(state)
        return self.states.get(state, NO_BRANCHES)


@pytest.mark.parametrize(
    ("support", "confidence"),
    [
        *[(0, 0), (1, 0.55), (2, 0.61), (3, 0.65), (4, 0.68), (5, 0.71), (6, 0.73), (7, 0.75), (8, 0.77), (9, 0.78)],
        *[(10, 0.80), (20, 0.89), (41, 0.99), (10_000, 0.99)],
    ],
)
def test_confidence_is_the_published_function_of_support(support: int, confidence: float) -> None:
    assert support_confidence(support) == confidence


def recent(*types: str) -> list[Facets]:
    return [Facets(t) for t in types]


def test_the_longest_suffix_with_enough_support_wins() -> None:
    edges = Edges(a_b_c=[branch("x", 1)], b_c=[branch("y", 2), branch("z", 1)], c=[branch("w", 9)])
    for min_support, order in ((1, 3), (2, 2), (3, 2), (4, 1), (9, 1)):
        match = match_state(edges, recent("q", "a", "b", "c"), EngineConfig(min_support=min_support))
        assert match is not None
        assert match.order == order
    assert match_state(edges, recent("a", "b", "c"), EngineConfig(min_support=10)) is None
    assert match_state(edges, recent("a", "b", "c"), EngineConfig(min_support=3, min_order=3)) is None
    assert match_state(edges, [], CONFIG) is None


def test_a_state_below_the_support_is_told_but_not_matched() -> None:
    edges = Edges(a=[branch("x", 1)])
    answer = workflow_state(edges, "case", recent("a"), EngineConfig(min_support=2), workflow="workflow:w")
    assert (answer.support, answer.confidence, answer.matched_by) == (1, 0.55, None)
    assert (answer.state, answer.matched_order, answer.matched_workflow) == (("a",), 1, "workflow:w")


def test_candidates_are_scored_by_the_published_formula() -> None:
    edges = Edges(b_c=[branch("x", 3, ok=2, bad=1, ms=1000), branch("y", 1)])
    answer = workflow_next(edges, "case", recent("b", "c"), CONFIG)
    first, second = answer.candidates
    # x: p = 3/4, s = 0.67, f = 0.33; 0.55 + 0.25·0.67 + 0.10·3/5 + 0.10·2/3 − 0.25·0.33 = 0.76166…; · 0.75 = 0.57125
    assert (first.event, first.probability, first.success_rate, first.failure_rate) == ("x", 0.75, 0.67, 0.33)
    assert (first.score, first.mean_time_to_next_ms) == (0.571, 333)
    # y: p = 1/4, outcomes unknown: 0.55 + 0.125 + 0.10·1/3 + 0.10·2/3 = 0.775; · 0.25 = 0.19375
    assert (second.success_rate, second.failure_rate, second.score) == (None, None, 0.194)
    assert first.reason == "Matched 2-event raw suffix with 3 prior observations"


def test_a_failing_branch_can_rank_below_a_rarer_one() -> None:
    edges = Edges(c=[branch("often", 6, bad=6), branch("rare", 5, ok=5)])
    names = [c.event for c in workflow_next(edges, "case", recent("c"), CONFIG).candidates]
    # often: 6/11 · (0.55 + 0.10·6/8 + 0.10/3 − 0.25) = 0.2227
    # rare: 5/11 · (0.55 + 0.25 + 0.10·5/7 + 0.10/3) = 0.4112
    assert names == ["rare", "often"]


def test_quality_never_makes_a_score_negative() -> None:
    config = EngineConfig(min_support=1, default_order=5, max_order=5)
    (row,) = workflow_next(Edges(c=[branch("x", 1, bad=1)]), "case", recent("c"), config).candidates
    # 0.55 + 0 + 0.10/3 + 0.10/5 − 0.25 = 0.3533
    assert row.score == 0.353


def test_ties_go_to_the_byte_order_of_the_name() -> None:
    edges = Edges(c=[branch("b", 1), branch("a", 1), branch("B", 1), branch("é", 1)])
    assert [c.event for c in workflow_next(edges, "case", recent("c"), CONFIG).candidates] == ["B", "a", "b", "é"]


def test_times_that_nobody_knows_are_not_zero() -> None:
    (row,) = workflow_next(Edges(c=[branch("x", 2, timed=0)]), "case", recent("c"), CONFIG).candidates
    assert row.mean_time_to_next_ms is None


def test_limits_cut_the_answer() -> None:
    edges = Edges(c=[branch(f"t{i}", 9 - i) for i in range(8)])
    assert len(workflow_next(edges, "case", recent("c"), CONFIG, limit=2).candidates) == 2
    assert len(workflow_next(edges, "case", recent("c"), CONFIG).candidates) == 5


# -- outcomes --------------------------------------------------------------------------------------------------


def test_branches_above_the_base_rate_are_flagged() -> None:
    # Ten observations: 3 fail, 2 have no known end. Base rates 0.3 and 0.2.
    state = Branches.ordered([branch("ship", 4, ok=1, bad=3), branch("wait", 4, ok=2), branch("stop", 2, ok=2)])
    flagged = [(b.event, kind, relative) for b, kind, relative in branch_risks(state)]
    # ship: 3/4 / 0.3 = 2.5; wait: 2/4 / 0.2 = 2.5.
    assert flagged == [("ship", "failure", 2.5), ("wait", "stall", 2.5)]
    ship, wait = outcome_notes(state, 2, 3)
    # confidence 0.35 + 0.35·4/6 + 0.30·2/3 = 0.78333; score 0.4 · 2.5 · 0.78 = 0.78.
    assert (ship.branch, ship.probability, ship.confidence, ship.score) == ("ship", 0.4, 0.78, 0.78)
    assert wait.branch == "wait"


def test_a_branch_at_the_base_rate_is_not_flagged() -> None:
    assert branch_risks(Branches.ordered([branch("x", 2, bad=1, ok=1), branch("y", 4, bad=2, ok=2)])) == []
    assert branch_risks(NO_BRANCHES) == []


def test_one_branch_can_fail_and_stall() -> None:
    state = Branches.ordered([branch("x", 2, bad=1), branch("y", 6, ok=6)])
    # Base rates 1/8 both; x: 0.5 / 0.125 = 4.
    assert [(b.event, kind, relative) for b, kind, relative in branch_risks(state)] == [
        ("x", "failure", 4.0),
        ("x", "stall", 4.0),
    ]


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("upload.attachment", "attachment"),
        ("approval.requested", "approves"),
        ("deploy", "inputs before entering deploy"),
    ],
)
def test_interventions_follow_the_name_of_the_branch(name: str, word: str) -> None:
    state = Branches.ordered([branch(name, 1, bad=1), branch("other", 3, ok=3)])
    assert word in outcome_notes(state, 1, 3)[0].suggested_intervention


def test_a_stall_asks_for_a_checkpoint() -> None:
    state = Branches.ordered([branch("deploy", 1), branch("other", 3, ok=3)])
    assert "checkpoint" in outcome_notes(state, 1, 3)[0].suggested_intervention


# -- variants --------------------------------------------------------------------------------------------------


def variant(rows: list[Branch], *fields: str, specificity: int = 0, token: str = "a") -> StateMatch:
    return StateMatch(StateVariant((token,), fields, specificity), Branches.ordered(rows), ("a",))


def test_variants_are_ranked_by_dominance_times_evidence_first() -> None:
    sharp = variant([branch("x", 4)])  # 1 · log10(5) = 0.699
    broad = variant([branch("x", 6), branch("y", 3)])  # 2/3 · log10(10) = 0.667
    assert min([broad, sharp], key=variant_rank) is sharp


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (variant([branch("x", 2)], "procedure"), variant([branch("x", 2)])),
        (variant([branch("x", 2)], "procedure", specificity=9), variant([branch("x", 2)], "family", specificity=3)),
        (variant([branch("x", 2)], token="A_"), variant([branch("x", 2)], token="A-")),
    ],
)
def test_ties_go_to_facets_then_characters_then_the_key(better: StateMatch, worse: StateMatch) -> None:
    assert min([worse, better], key=variant_rank) is better


def test_candidates_name_the_variant() -> None:
    match = variant([branch("x", 2)], "family", "procedure")
    assert candidates(match, CONFIG)[0].reason == (
        "Matched 1-event projected state (family + procedure) with 2 prior observations"
    )


# -- recall ----------------------------------------------------------------------------------------------------


class Held:
    """A case source that holds what it is given, in order."""

    def __init__(self, *cases: tuple[str, str, str]) -> None:
        self.cases = [PastCase(name, outcome, tuple(types)) for name, outcome, types in cases]

    def cases_with(self, event_type: str) -> list[PastCase]:
        return [c for c in self.cases if event_type in c.types]


def Cases(*cases: tuple[str, str, str]) -> Scan:
    return Scan(Held(*cases))


def test_recall_scores_overlap_continuation_and_outcome() -> None:
    cases = Cases(("full", "success", "abcdefg"), ("half", "failure", "xbcy"), ("end", "success", "abc"))
    answer = workflow_recall(cases, "now", "abc", CONFIG, mode="any")
    full, half = answer.paths
    # full: overlap 1, four events to follow; 0.45 + 0.30 + 0.25 = 1; score 1 · 1 · 1.
    assert (full.case_id, full.distance, full.confidence, full.score) == ("full", 0, 1, 1)
    assert full.continuation == ("d", "e", "f", "g")
    # half: overlap 2/3, one event; 0.3 + 0.1 + 0.1875 = 0.5875 → 0.59; 2/3 · 1/4 · 0.85 = 0.14167.
    assert (half.matched_order, half.distance, half.confidence, half.score) == (2, 0.33, 0.59, 0.142)


@pytest.mark.parametrize(("mode", "names"), [("successful", ["s"]), ("failed", ["f"]), ("any", ["s", "f", "u"])])
def test_recall_filters_by_outcome(mode, names: list[str]) -> None:
    cases = Cases(("s", "success", "abcd"), ("f", "failure", "abcd"), ("u", "unknown", "abcd"))
    assert [p.case_id for p in workflow_recall(cases, "now", "ab", CONFIG, mode=mode).paths] == names


def test_recall_takes_the_first_occurrence_of_the_longest_suffix() -> None:
    (path,) = workflow_recall(Cases(("c", "success", "bxabyabz")), "now", "ab", CONFIG).paths
    assert (path.matched_order, path.continuation) == (2, ("y", "a", "b", "z"))


def test_recall_skips_the_case_itself_and_cases_that_end_there() -> None:
    cases = Cases(("now", "success", "abcd"), ("end", "success", "xab"))
    assert workflow_recall(cases, "now", "ab", CONFIG, mode="any").paths == ()
    assert workflow_recall(cases, "now", "", CONFIG, mode="any").paths == ()


def test_recall_does_not_look_beyond_the_default_order() -> None:
    config = EngineConfig(default_order=1, min_support=1)
    (path,) = workflow_recall(Cases(("c", "success", "abab" + "x" * 20)), "now", "ab", config).paths
    assert path.matched_order == 1
    assert len(path.continuation) == 8
