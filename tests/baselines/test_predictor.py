"""Sherpa's strategies keep the contract of a predictor, and the conformance suite sees when one does not."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import pairwise

import pytest

from baselines import Predictor, ProceduralMemoryPredictor, Ranking
from baselines.registry import BASELINES, baseline
from baselines.testing import (
    CHECKS,
    OTHER_TYPES,
    TYPES,
    check_case_is_not_seen,
    check_predictor,
    plain_log,
    prefixes,
    random_log,
    tied_log,
)
from sherpa.collation import collation_key
from sherpa.config import STRATEGIES, EngineConfig
from sherpa.eventlog import Case, EventLog


def memory(strategy="raw", *, fallback=True, min_support=2, **options):
    config = EngineConfig(state_strategy=strategy, min_support=min_support, **options)
    return lambda: ProceduralMemoryPredictor(config, fallback=fallback)


def failing(factory) -> set[str]:
    """The names of the checks that a predictor fails."""
    found = set()
    for check in CHECKS:
        try:
            check(factory)
        except Exception:
            found.add(check.__name__.removeprefix("check_"))
    return found


# -- those that keep the contract ------------------------------------------------------------------------------


@pytest.mark.parametrize("min_support", [1, 2])
@pytest.mark.parametrize("fallback", [True, False], ids=["fallback", "silent"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_procedural_memory_keeps_the_contract(strategy, fallback, min_support):
    check_predictor(memory(strategy, fallback=fallback, min_support=min_support))


def test_procedural_memory_without_raw_states_keeps_the_contract():
    check_predictor(memory("family-procedure", allow_raw_fallback=False))


@pytest.mark.parametrize("annotations", [False, True], ids=["plain", "annotated"])
@pytest.mark.parametrize("fallback", [True, False], ids=["fallback", "silent"])
@pytest.mark.parametrize("name", BASELINES)
def test_rivals_keep_the_contract(name, fallback, annotations):
    check_predictor(baseline(name, fallback=fallback, annotations=annotations), sees_case=annotations)


@pytest.mark.parametrize("name", ["workflow-class-ngram", "semantic-rag-lite", "textual-lesson-prior"])
def test_annotated_rivals_do_see_the_case(name):
    with pytest.raises(AssertionError, match="the case id or annotations are seen"):
        check_case_is_not_seen(baseline(name, annotations=True))


@pytest.mark.parametrize("factory", [*(baseline(name) for name in BASELINES), memory()], ids=[*BASELINES, "memory"])
def test_a_case_with_an_unlearned_event_cannot_be_forgotten_in_part(factory):
    """What `forget` refuses, it leaves alone: no count of the case may be gone."""
    familiar = plain_log([("task.started", "file.read", "task.completed"), ("task.failed", "file.read")])
    strange = plain_log([("task.started", "file.read", "new", "task.completed")])[0]
    predictor, untouched = factory(), factory()
    predictor.learn(familiar)
    untouched.learn(familiar)
    with suppress(ValueError):
        predictor.forget(strange)
    assert [predictor.rank(p) for p in prefixes(familiar)] == [untouched.rank(p) for p in prefixes(familiar)]


def test_a_case_that_ended_otherwise_than_the_learned_one_cannot_be_forgotten():
    """`VariableOrderMarkovModel.forget` promises a ValueError for a case that was not learned as it is.

    No a b c failed among the learned, so that none is left of a → b that failed to be taken back.
    """
    learned = plain_log([("a", "b", "c"), ("a", "c", "b")])
    failed = EventLog.from_codes([0, 1, 2], [0, 3], ("a", "b", "c"), outcomes=[0, 0, 2])
    predictor, untouched = memory(min_support=1)(), memory(min_support=1)()
    predictor.learn(learned)
    untouched.learn(learned)
    with pytest.raises(ValueError, match="was not learned"):
        predictor.forget(failed)
    assert [predictor.rank(p) for p in prefixes(learned)] == [untouched.rank(p) for p in prefixes(learned)]


def test_the_strategies_are_predictors_by_name():
    assert [memory(strategy)().name for strategy in STRATEGIES] == [
        "sherpa-raw",
        "sherpa-procedure",
        "sherpa-family-procedure",
    ]
    assert isinstance(memory()(), Predictor)


def test_the_longest_state_with_enough_support_answers():
    """a b → c twice, x b → d once: after x b the order-2 state has one observation, too few; b alone has three."""
    predictor = memory()()
    predictor.learn(plain_log([("a", "b", "c"), ("a", "b", "c"), ("x", "b", "d")]))
    ranking = predictor.rank(plain_log([("x", "b")])[0])
    assert (ranking.events, ranking.supports, ranking.support) == (("c", "d"), (2, 1), 3)
    assert ranking.probabilities == pytest.approx((2 / 3, 1 / 3))
    assert (ranking.matched_order, ranking.backoff_depth, ranking.mode) == (1, 1, "raw")


@pytest.mark.parametrize(
    ("fallback", "events", "order", "mode"), [(True, ("b", "c"), 0, "fallback"), (False, (), None, "none")]
)
def test_without_a_state_overall_frequency_answers_or_nothing_does(fallback, events, order, mode):
    """b follows something twice, c once; a never does."""
    predictor = memory(fallback=fallback)()
    predictor.learn(plain_log([("a", "b"), ("a", "b", "c")]))
    ranking = predictor.rank(plain_log([("y", "z")])[0])
    assert (ranking.events, ranking.matched_order, ranking.mode) == (events, order, mode)
    assert ranking.backoff_depth == 2


@pytest.mark.parametrize(
    ("outcomes", "success"), [([0, 1, 0, 2, 0, 1], 2 / 3), ([0, 0, 0, 0, 0, 0], None)], ids=["known", "unknown"]
)
def test_success_is_the_share_of_known_ends(outcomes, success):
    """Three cases a → b; how they end is the outcome of their last event."""
    predictor = memory()()
    predictor.learn(EventLog.from_codes([0, 1] * 3, [0, 2, 4, 6], ("a", "b"), outcomes=outcomes))
    assert predictor.rank(plain_log([("a",)])[0]).success == (None if success is None else pytest.approx(success))


# -- those that break it ---------------------------------------------------------------------------------------


class LastEvent:
    """What followed the last event, by count and then by name: small, and right."""

    name = "last-event"
    calibrated = False

    def __init__(self):
        self.pairs: Counter[tuple[str, str]] = Counter()

    @property
    def states(self):
        return len(self.pairs)

    def learn(self, cases):
        for case in self.each(cases):
            self.pairs.update(pairwise(case.types))

    def forget(self, cases):
        for case in self.each(cases):
            gone = Counter(pairwise(case.types))
            if not gone <= self.pairs:
                raise ValueError("was not learned")
            self.pairs -= gone

    @staticmethod
    def each(cases: EventLog | Case):
        return (cases,) if isinstance(cases, Case) else cases

    def counts(self, prefix):
        last = prefix.types[-1] if len(prefix) else None
        return {b: n for (a, b), n in self.pairs.items() if a == last}

    @staticmethod
    def key(event):
        return collation_key(event)

    def rank(self, prefix):
        counts = self.counts(prefix)
        events = sorted(counts, key=lambda e: (-counts[e], self.key(e)))
        return self.answer(events, [counts[e] / sum(counts.values()) for e in events])

    def answer(self, events, probabilities):
        return Ranking(events=tuple(events), probabilities=tuple(probabilities))


class Smoothed(LastEvent):
    """One observation for every learned type, one for the end and one for the unseen: calibrated, and right."""

    calibrated = True

    def __init__(self):
        super().__init__()
        self.types: Counter[str] = Counter()

    def learn(self, cases):
        super().learn(cases)
        for case in self.each(cases):
            self.types.update(case.types)

    def forget(self, cases):
        for case in self.each(cases):
            super().forget(case)
            self.types -= Counter(case.types)

    def rank(self, prefix):
        counts = {e: 1 + self.counts(prefix).get(e, 0) for e in self.types}
        events = sorted(counts, key=lambda e: (-counts[e], collation_key(e)))
        return self.answer(events, [counts[e] / (sum(counts.values()) + 2) for e in events])


class PeeksAhead(LastEvent):
    """Looks up the next event in the log of the prefix."""

    def rank(self, prefix):
        log = prefix.log
        if prefix.stop < log.offsets[prefix.index + 1]:
            return self.answer([log.vocabulary[log.codes[prefix.stop]]], [1.0])
        return super().rank(prefix)


class ReadsLaterTexts(LastEvent):
    """Reads what people said about the next event, which a prefix still carries."""

    def rank(self, prefix):
        later = prefix.info.event_texts[len(prefix) :]
        return self.answer(later[0][:1], [1.0]) if later else super().rank(prefix)


class SeesTheClass(LastEvent):
    def rank(self, prefix):
        name = prefix.info.workflow_class
        return self.answer([name], [1.0]) if name else super().rank(prefix)


class NeverForgets(LastEvent):
    def forget(self, cases):
        """Keeps everything."""


class ForgetsTheLastStepOnly(LastEvent):
    def forget(self, cases):
        for case in self.each(cases):
            super().forget(case.as_log()[0] if len(case) < 2 else plain_log([case.types[-2:]]))


class ForgetsWhatItNeverKnew(LastEvent):
    """Takes back as much as it finds."""

    def forget(self, cases):
        for case in self.each(cases):
            self.pairs -= Counter(pairwise(case.types))


class KeyErrorOnForget(LastEvent):
    def forget(self, cases):
        try:
            super().forget(cases)
        except ValueError:
            raise KeyError("was not learned") from None


class TiesByAge(LastEvent):
    """Leaves ties in the order in which the events were first learned."""

    @staticmethod
    def key(event):
        return 0


class EachOneBreaksTiesItsOwnWay(LastEvent):
    made = 0

    def __init__(self):
        super().__init__()
        type(self).made += 1
        self.sign = 1 if self.made % 2 else -1

    def key(self, event):
        return self.sign * sum(event.encode())


class ChangesItsMind(LastEvent):
    asked = 0

    def key(self, event):
        return (1 if self.asked % 2 else -1) * sum(event.encode())

    def rank(self, prefix):
        self.asked += 1
        return super().rank(prefix)


class SumsToTwo(LastEvent):
    def answer(self, events, probabilities):
        return super().answer(events, [1.0] * len(events))


class BeyondOne(LastEvent):
    def answer(self, events, probabilities):
        return super().answer(events, [1.5 for _ in probabilities])


class NotANumber(LastEvent):
    def rank(self, prefix):
        return self.answer(["task.completed"], [float("nan")])


class RanksTwice(LastEvent):
    def answer(self, events, probabilities):
        return super().answer([*events, *events], [p / 2 for p in (*probabilities, *probabilities)])


class TooFewProbabilities(LastEvent):
    def answer(self, events, probabilities):
        return super().answer(events, probabilities[:-1])


class CalibratedByName(LastEvent):
    """Says that it is calibrated, and gives what it never saw after the last event no place."""

    calibrated = True


class CannotForget(LastEvent):
    def forget(self, cases):
        raise NotImplementedError("cannot forget")


class ReadsCaseIds(LastEvent):
    def rank(self, prefix):
        return self.answer([prefix.case_id], [1.0])


class KnowsTypesByCode(LastEvent):
    def rank(self, prefix):
        return self.answer([f"type-{c}" for c in prefix.log.codes[prefix.start : prefix.stop][-1:]], [1.0])

    def answer(self, events, probabilities):
        return super().answer(events, probabilities[: len(events)])


class NeedsAnEvent(LastEvent):
    def counts(self, prefix):
        return {b: n for (a, b), n in self.pairs.items() if a == prefix.types[-1]}


class NeedsAKnownEvent(LastEvent):
    def counts(self, prefix):
        known = {a for a, _ in self.pairs}
        if len(prefix) and known and prefix.types[-1] not in known:
            raise KeyError(prefix.types[-1])
        return super().counts(prefix)


class NeedsALesson(LastEvent):
    def counts(self, prefix):
        if not self.pairs:
            raise ZeroDivisionError("nothing was learned")
        return super().counts(prefix)


@pytest.mark.parametrize("factory", [LastEvent, Smoothed])
def test_a_right_predictor_passes(factory):
    check_predictor(factory)


@pytest.mark.parametrize(
    ("factory", "expected"),
    [
        (ReadsCaseIds, {"case_is_not_seen"}),
        (SeesTheClass, {"case_is_not_seen"}),
        (ReadsLaterTexts, {"nothing_beyond_the_prefix"}),
        (KnowsTypesByCode, {"codes_do_not_matter"}),
        (NeverForgets, {"forget_undoes_learn"}),
        (ForgetsTheLastStepOnly, {"forget_undoes_learn"}),
        (ForgetsWhatItNeverKnew, {"forgetting_the_unlearned"}),
        (KeyErrorOnForget, {"forgetting_the_unlearned"}),
        (CalibratedByName, {"calibrated_covers_vocabulary"}),
    ],
)
def test_a_broken_predictor_fails_the_check_that_names_its_fault_and_no_other(factory, expected):
    assert failing(factory) == expected


@pytest.mark.parametrize(
    ("factory", "expected"),
    [
        (PeeksAhead, "nothing_beyond_the_prefix"),
        (EachOneBreaksTiesItsOwnWay, "deterministic"),
        (ChangesItsMind, "deterministic"),
        (TiesByAge, "learning_order"),
        (SumsToTwo, "probabilities"),
        (BeyondOne, "probabilities"),
        (NotANumber, "probabilities"),
        (RanksTwice, "probabilities"),
        (TooFewProbabilities, "probabilities"),
        (NeedsAnEvent, "any_prefix_is_answered"),
        (NeedsAKnownEvent, "any_prefix_is_answered"),
        (NeedsALesson, "any_prefix_is_answered"),
        (CannotForget, "forget_undoes_learn"),
    ],
)
def test_a_broken_predictor_fails_the_check_that_names_its_fault(factory, expected):
    with pytest.raises(AssertionError):
        check_predictor(factory)
    assert expected in failing(factory)


def test_a_failure_names_the_predictor_and_the_check():
    with pytest.raises(AssertionError, match=r"last-event: check_probabilities: .* sum to [2-9]"):
        check_predictor(SumsToTwo)


def test_what_a_predictor_raises_is_a_failure():
    with pytest.raises(AssertionError, match="last-event: check_any_prefix_is_answered: ZeroDivisionError"):
        check_predictor(NeedsALesson)


def test_a_predictor_that_may_see_the_case_is_not_asked_to_ignore_it():
    check_predictor(ReadsCaseIds, sees_case=True)
    with pytest.raises(AssertionError, match="case_is_not_seen"):
        check_predictor(ReadsCaseIds)


def test_a_seed_draws_the_same_log_again():
    first, again, other = random_log(1), random_log(1), random_log(2)
    assert [c.fingerprint() for c in first] == [c.fingerprint() for c in again]
    assert [c.types for c in first] != [c.types for c in other]
    assert set(random_log(2, cases=40, types=OTHER_TYPES).codes.tolist()) == set(range(len(OTHER_TYPES)))


def test_prefixes_run_from_the_empty_one_to_the_whole_case():
    assert ["".join(p.types) for p in prefixes(plain_log(["ab", "c"]), plain_log(["d"]))] == [
        "",
        "a",
        "ab",
        "",
        "c",
        "",
        "d",
    ]
    assert len(list(prefixes(plain_log(["ab", "c"]), cases=1))) == 3


def test_the_tied_log_has_nothing_but_ties():
    predictor = LastEvent()
    predictor.learn(tied_log())
    assert set(predictor.pairs.values()) == {1}
    assert len(predictor.pairs) == len(TYPES) ** 2
