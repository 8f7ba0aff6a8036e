"""Blended estimators against calculations by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sherpa.estimators.blended import BlendedModel, Recency, Settings, after, classes_of
from sherpa.estimators.contexts import NOT_KNOWN, Contexts, next_target, targets
from sherpa.estimators.mixture import Mixture, best_weights, experts, fixed_share, trial
from sherpa.estimators.selection import AutoModel, choose
from sherpa.estimators.smoothing import discounts
from sherpa.eventlog import EventLog
from tests.property.strategies import logs

DAY = 86_400 * 10**9


def log_of(*cases: str, step: int | None = None) -> EventLog:
    """Cases of one-letter types; with `step` one event a case and a day apart."""
    names = sorted(set("".join(cases)))
    sizes = [len(case) for case in cases]
    instants = None
    if step is not None:
        instants = [step * DAY * at for at, size in enumerate(sizes) for _ in range(size)]
    return EventLog.from_codes(
        [names.index(x) for case in cases for x in case], np.cumsum([0, *sizes]), names, instants=instants
    )


TWO = log_of("ab", "ac")


def after_a(model: BlendedModel | Mixture) -> dict[str, float]:
    """The distribution after the prefix of one event a."""
    row = model.ask(next_target(("a",), model.vocabulary))[0]
    return dict(zip([*model.vocabulary, "END", "UNSEEN"], row.tolist(), strict=True))


def test_kneser_ney() -> None:
    """Order 1: B→a twice; a→b, a→c, b→END, c→END once: n₁ = 4, n₂ = 1, Y = 2/3, D₁ = 1 − 2·2/3·1/4 = 2/3.

    Order 0 counts contexts: a, b and c follow one each, END two: n₁ = 3, n₂ = 1, Y = 3/5, D₁ = 0.6, D₂ = 2, kept at
    1.9. Its total is 5, what it leaves (3·0.6 + 1.9)/5 = 0.74, over five classes 0.148 each: a, b and c have
    0.4/5 + 0.148 = 0.228, END 0.1/5 + 0.148 = 0.168. After a, b has (1 − 2/3)/2 and 2/3 is left.
    """
    assert after_a(BlendedModel(Settings("kneser-ney", 1)).fit(TWO)) == pytest.approx(
        {
            "a": 2 / 3 * 0.228,
            "b": 1 / 6 + 2 / 3 * 0.228,
            "c": 1 / 6 + 2 / 3 * 0.228,
            "END": 2 / 3 * 0.168,
            "UNSEEN": 2 / 3 * 0.148,
        },
        abs=1e-15,
    )


def test_witten_bell() -> None:
    """Order 0: a 2, b 1, c 1, END 2 of 6, four distinct: b has 1/10 + 4/10·1/5 = 0.18. After a: 1/4 + 1/2·0.18."""
    found = after_a(BlendedModel(Settings("witten-bell", 1)).fit(TWO))
    assert found["b"] == pytest.approx(0.34, abs=1e-15)
    assert found["a"] == pytest.approx(0.5 * (0.2 + 0.08), abs=1e-15)
    assert found["UNSEEN"] == pytest.approx(0.5 * 0.08, abs=1e-15)


def test_method_c_with_exclusion() -> None:
    """Order 0 leaves its 4/10 to the one type never seen. After a, b and c have 1/4 each and are excluded below; the
    other half goes to a (0.2), END (0.2) and the type never seen (0.4) in these proportions."""
    assert after_a(BlendedModel(Settings("ppm-c", 1)).fit(TWO)) == pytest.approx(
        {"a": 0.125, "b": 0.25, "c": 0.25, "END": 0.125, "UNSEEN": 0.25}, abs=1e-15
    )


def test_sets_tell_apart_what_order_hides() -> None:
    """x then y, y then x: after y, what comes depends on whether x was there. Witten–Bell over the last event, then
    the last event and the set: after (y | x, y) only p was seen, once: 1/2 + 1/2·p(p | y)."""
    log = log_of("xyp", "yxp", "yq")
    with_set = BlendedModel(Settings("witten-bell", 1, by_set=True)).fit(log)
    without = BlendedModel(Settings("witten-bell", 1)).fit(log)
    at_p = log.vocabulary.index("p")
    for prefix in (("x", "y"), ("y",)):
        plain = without.ask(next_target(prefix, without.vocabulary))[0, at_p]
        told = with_set.ask(next_target(prefix, with_set.vocabulary))[0, at_p]
        # After y alone (case 2 and 3) x and q were seen once each: nothing of p, two distinct, 2/(2 + 2) left.
        assert told == pytest.approx(0.5 + 0.5 * plain if prefix == ("x", "y") else 0.5 * plain, abs=1e-15)


def test_discounts_from_counts_of_counts() -> None:
    """n₁ = 4, n₂ = 3, n₃ = 2, n₄ = 1: Y = 4/10; D₁ = 1 − 0.8·3/4, D₂ = 2 − 1.2·2/3, D₃ = 3 − 1.6·1/2."""
    counts = np.array([1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 9])
    assert discounts(counts) == pytest.approx([0, 0.4, 1.2, 2.2])
    # Without counts of two, Y is a half; nothing is discounted away or left whole.
    assert discounts(np.array([1, 1, 1])) == pytest.approx([0, 0.95, 1.9, 2.85])
    assert discounts(np.array([5, 6])) == pytest.approx([0, 0.95, 1.9, 2.85])


def test_what_fades() -> None:
    assert Recency(cases=2).weights(log_of("a", "a", "a")) == pytest.approx([0.5, 0.5**0.5, 1])
    assert Recency(days=3).weights(log_of("a", "a", "a", step=3)) == pytest.approx([0.25, 0.5, 1])
    assert Recency(cases=1, days=3).weights(log_of("a", "a", step=3)) == pytest.approx([0.25, 1])
    # A case without a time counts in full.
    assert Recency(days=1).weights(log_of("a", "a")) == pytest.approx([1, 1])
    assert Recency().weights(TWO) is None


def test_fading_follows_a_change() -> None:
    log = log_of(*["ab"] * 50, *["ac"] * 20)
    lasting = after_a(BlendedModel(Settings("kneser-ney", 2)).fit(log))
    fading = after_a(BlendedModel(Settings("kneser-ney", 2, Recency(cases=10))).fit(log))
    assert lasting["b"] > lasting["c"]
    assert fading["c"] > 2 * fading["b"]


def test_ancient_cases_fade_to_nothing_without_harm() -> None:
    log = log_of("xy", *["ab"] * 5000)
    model = BlendedModel(Settings("kneser-ney", 2, Recency(cases=1))).fit(log)
    row = model.ask(next_target(("x",), model.vocabulary))[0]
    assert row.sum() == pytest.approx(1, abs=1e-12)
    assert (row > 0).all()


def test_prefixes_and_classes_of_a_log() -> None:
    log = log_of("ab", "c")
    model = BlendedModel(Settings("kneser-ney", 2)).fit(TWO)
    asked = after(targets(log, model.vocabulary), 1)
    # After a comes b; after ab, and after c, the end.
    assert classes_of(asked, model.vocabulary).tolist() == [1, 3, 3]
    assert len(model.predict_proba(log)) == 3
    assert len(model.predict_proba(log, first=0)) == 5


def test_a_type_that_was_not_learned() -> None:
    model = BlendedModel(Settings("kneser-ney", 3)).fit(TWO)
    asked = after(targets(log_of("azb"), model.vocabulary), 0)
    assert classes_of(asked, model.vocabulary).tolist() == [0, 4, 1, 3]
    rows = model.ask(asked)
    assert rows.sum(axis=1) == pytest.approx(np.ones(4), abs=1e-12)
    # After a type never seen nothing is known but how frequent things are.
    assert rows[2] == pytest.approx(rows[3]) or np.allclose(
        rows[2], model.ask(next_target(("q",), model.vocabulary))[0]
    )


def test_a_vocabulary_of_another_log_adds_no_types() -> None:
    whole = log_of("ab", "ac", "xyz")
    assert BlendedModel().fit(whole.subset([0, 1])).vocabulary == ("a", "b", "c")


def test_nothing_learned_says_nothing() -> None:
    empty = EventLog.from_codes([], [0], ())
    for model in (BlendedModel(), Mixture(), AutoModel()):
        model.fit(empty)
        assert model.ask(next_target(("a",), model.vocabulary))[0] == pytest.approx([0.5, 0.5])


@given(logs(max_cases=8, max_events=8, min_cases=1), logs(max_cases=4, max_events=8), st.integers(1, 5))
@settings(max_examples=60)
def test_every_distribution_sums_to_one(log: EventLog, other: EventLog, order: int) -> None:
    models = [
        BlendedModel(Settings(s, order, by_set=b)) for s in ("kneser-ney", "witten-bell", "ppm-c") for b in (0, 1)
    ]
    for model in (*models, Mixture(experts(order)), Mixture(experts(order), "fixed-share"), AutoModel(orders=(order,))):
        model.fit(log)
        rows = model.predict_proba(other, first=0)
        assert rows.sum(axis=1) == pytest.approx(np.ones(len(rows)), abs=1e-12)
        assert (rows > 0).all()
        at = 0
        for case in other:
            for length in range(len(case) + 1):
                alone = model.ask(next_target(case.prefix(length).types, model.vocabulary))[0]
                assert alone == pytest.approx(rows[at], abs=1e-12)
                at += 1


@given(logs(max_cases=8, max_events=8, min_cases=1), logs(max_cases=4, max_events=8, min_cases=1))
@settings(max_examples=60)
def test_the_probability_of_a_target_alone(log: EventLog, other: EventLog) -> None:
    every = (*experts(4), Settings("witten-bell", 2), Settings("ppm-c", 2))
    columns = trial(log, other, every, first=0)
    for at, each in enumerate(every):
        model = BlendedModel(each).fit(log)
        rows = model.predict_proba(other, first=0)
        wanted = classes_of(after(targets(other, model.vocabulary), 0), model.vocabulary)
        assert columns[:, at] == pytest.approx(rows[np.arange(len(wanted)), wanted], abs=1e-12)


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(*["abcab", "bca", "cab"] * 5)
    model = BlendedModel(Settings("kneser-ney", 3, by_set=True)).fit(log)
    whole = model.predict_proba(log)
    monkeypatch.setattr("sherpa.estimators.blended._BLOCK", 20)
    assert (model.predict_proba(log) == whole).all()


def test_contexts_are_found_from_the_most_recent_symbol() -> None:
    contexts = Contexts(TWO, 3)
    asked = next_target(("a", "b"), contexts.vocabulary)
    assert [n != NOT_KNOWN for n in np.array(contexts.find(asked, 3))[:, 0]] == [True] * 4
    stranger = next_target(("c", "b"), contexts.vocabulary)
    assert [n != NOT_KNOWN for n in np.array(contexts.find(stranger, 3))[:, 0]] == [True, True, False, False]


# -- mixtures ----------------------------------------------------------------------------------------------------


def test_the_best_weights() -> None:
    """Two models, each certain of one of two outcomes: the best weights are the shares of the outcomes."""
    given = np.array([[1.0, 1e-12]] * 3 + [[1e-12, 1.0]])
    assert best_weights(given) == pytest.approx([0.75, 0.25], abs=1e-3)
    better = np.array([[0.6, 0.3]] * 5)
    assert best_weights(better)[0] > 0.99
    assert best_weights(np.empty((0, 3))) == pytest.approx([1 / 3] * 3)


def test_the_best_weights_are_those_that_lose_least() -> None:
    rng = np.random.default_rng(3)
    given = rng.dirichlet([1, 1, 1], 400)
    best = -np.log(given @ best_weights(given)).mean()
    for _ in range(200):
        assert best <= -np.log(given @ rng.dirichlet([1, 1, 1])).mean() + 1e-6


def test_fixed_share() -> None:
    """From equal weights, 0.8 and 0.2 for what came give 0.8 and 0.2; a tenth of each is passed on: 0.74, 0.26."""
    assert fixed_share(np.array([[0.8, 0.2]]), 0.1) == pytest.approx([0.74, 0.26])
    assert fixed_share(np.array([[0.8, 0.2]] * 50 + [[0.2, 0.8]] * 50), 0.01)[1] > 0.9
    assert fixed_share(np.array([[0.5]]), 0.1) == pytest.approx([1])


def test_a_mixture_is_the_mean_of_its_models() -> None:
    log = log_of(*["abc", "abd", "acd"] * 10)
    mixture = Mixture(experts(3), "equal").fit(log)
    rows = [BlendedModel(s).fit(log).predict_proba(log) for s in experts(3)]
    assert mixture.predict_proba(log) == pytest.approx(np.mean(rows, axis=0), abs=1e-12)


def test_weights_come_from_the_last_cases() -> None:
    """Work changes after the first 100 cases: what fades gets the weight."""
    log = log_of(*["ab"] * 100, *["ac"] * 100)
    steady = log_of(*["ab", "ac"] * 100)
    changed = Mixture(experts(2, (20.0,))).fit(log).weights
    assert changed[1] > 0.9
    assert Mixture(experts(2, (20.0,))).fit(steady).weights[1] < 0.5


# -- selection ---------------------------------------------------------------------------------------------------


def test_the_order_that_the_work_needs_is_chosen() -> None:
    """The third event repeats the first: order 1 cannot know it, order 2 does (the begin is no help)."""
    rng = np.random.default_rng(1)
    cases = []
    for _ in range(400):
        first = rng.choice(list("ab"))
        cases.append(f"{rng.choice(list('xy'))}{first}m{first}")
    choice = choose(log_of(*cases), orders=(1, 2))
    assert "(2" in choice.chosen.name
    bits = {t.name: t.bits for t in choice.trials}
    assert bits["kneser-ney(1)"] > bits["kneser-ney(2)"] + 0.1
    assert (choice.cases, choice.held_out) == (320, 80)
    assert choice.chosen.bits == min(bits.values())


def test_selection_sees_nothing_but_what_it_is_given() -> None:
    rng = np.random.default_rng(2)
    cases = ["".join(rng.choice(list("abc"), 5)) for _ in range(60)]
    log = log_of(*cases, "xyz")
    alone = choose(log.subset(range(60)))
    again = choose(log_of(*cases))
    assert alone.to_json() == again.to_json()


def test_few_cases_leave_no_choice() -> None:
    choice = choose(log_of("ab", "ac"))
    assert choice.to_json()["chosen"] == "mixture(5)"
    assert choice.to_json()["trials"][0]["bits"] is None
    model = AutoModel().fit(log_of("ab", "ac"))
    assert model.weights == pytest.approx([1 / 7] * 7)


def test_the_choice_is_kept_with_the_model() -> None:
    rng = np.random.default_rng(5)
    log = log_of(*["".join(rng.choice(list("abc"), 6)) for _ in range(80)])
    model = AutoModel().fit(log)
    assert model.choice is not None
    assert model.settings == model.choice.chosen.settings
    assert model.weights == pytest.approx(model.choice.chosen.weights)
    assert replace(model.choice) == model.choice
