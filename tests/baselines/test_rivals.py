"""Rankings of the rivals, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import pytest

from baselines.registry import BASELINES, FLOORS, PUBLISHED, RIVALS, baseline
from baselines.semantic_rag_lite import words
from baselines.started_finished import closes
from baselines.testing import plain_log
from sherpa.eventlog import CaseInfo, EventLog


def told(*cases: tuple[str, CaseInfo]) -> EventLog:
    """A log of cases, each given as its types and what people annotated about it."""
    return replace(plain_log([types.split() for types, _ in cases]), info=tuple(info for _, info in cases))


def of_class(types, name=None, risks=()):
    return types, CaseInfo(workflow_class=name, risks=tuple(risks))


def trained(name, log, **options):
    predictor = baseline(name, **options)()
    predictor.learn(log)
    return predictor


def after(predictor, types, name=None):
    return predictor.rank(told(of_class(types, name))[0])


def shares(ranking):
    return dict(zip(ranking.events, ranking.probabilities, strict=True))


# -- all of them -----------------------------------------------------------------------------------------------


def test_every_rival_is_called_what_it_is_asked_for_by():
    assert [baseline(name)().name for name in BASELINES] == list(BASELINES)
    assert RIVALS == PUBLISHED + FLOORS
    assert set(BASELINES) - set(RIVALS) == {"interpolated-discounting"}
    with pytest.raises(KeyError):
        baseline("crystal-ball")


TIED = ("B.x", "b.x", "a2", "a10", "a-b", "a_b")


@pytest.mark.parametrize("name", PUBLISHED)
def test_ties_are_listed_in_collation_order(name):
    """Each of them once after the same event. Signs come before digits, digits before letters and are not read as
    numbers, lower case before upper; by code point B.x would come first and a_b after a10."""
    predictor = trained(name, plain_log([("s1", event) for event in TIED]))
    assert after(predictor, "s1").events == ("a_b", "a-b", "a10", "a2", "b.x", "B.x")


@pytest.mark.parametrize("name", [n for n in PUBLISHED if n != "global-majority"])
def test_without_anything_that_matches_the_overall_frequency_answers_or_nothing_does(name):
    """At position 2 or later: c3 twice, a1 and b2 once."""
    log = plain_log([("b2", "c3", "a1"), ("b2", "c3", "b2")])
    ranking = after(trained(name, log), "zz")
    assert (ranking.events, ranking.supports, ranking.support) == (("c3", "a1", "b2"), (2, 1, 1), 4)
    assert (ranking.probabilities, ranking.matched_order, ranking.mode) == ((0.5, 0.25, 0.25), 0, "fallback")
    silent = after(trained(name, log, fallback=False), "zz")
    assert (silent.events, silent.matched_order, silent.mode) == ((), None, "none")


# -- global-majority -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("types", ["", "a", "c c", "zz"])
def test_global_majority_counts_all_but_first_events_and_ignores_the_state(types):
    """b is second, second and third; c third and second; a is only ever first."""
    ranking = after(trained("global-majority", plain_log(["abc", "ab", "ccb"])), types)
    assert (ranking.events, ranking.supports) == (("b", "c"), (3, 2))
    assert ranking.probabilities == (3 / 5, 2 / 5)


# -- raw-ngram -------------------------------------------------------------------------------------------------

SUFFIXES = plain_log(["abcd", "xbce", "ybce"])


@pytest.mark.parametrize(
    ("types", "events", "supports", "order", "depth"),
    [
        ("z a b c", ("d",), (1,), 3, 0),  # a b c was seen once; that it beats b c with three is the rule
        ("q b c", ("e", "d"), (2, 1), 2, 1),
        ("q q c", ("e", "d"), (2, 1), 1, 2),
        ("b c", ("e", "d"), (2, 1), 2, 0),
        ("c q", ("b", "c", "e", "d"), (3, 3, 2, 1), 0, 2),
        ("d", ("b", "c", "e", "d"), (3, 3, 2, 1), 0, 1),  # nothing ever followed d
        ("", ("b", "c", "e", "d"), (3, 3, 2, 1), 0, 0),
    ],
)
def test_raw_ngram_uses_the_longest_suffix_that_was_ever_seen(types, events, supports, order, depth):
    ranking = after(trained("raw-ngram", SUFFIXES), types)
    assert (ranking.events, ranking.supports) == (events, supports)
    assert ranking.probabilities == tuple(n / sum(supports) for n in supports)
    assert (ranking.matched_order, ranking.backoff_depth) == (order, depth)


def test_raw_ngram_sees_no_more_than_its_order():
    ranking = after(trained("raw-ngram", SUFFIXES, order=1), "a b c")
    assert (ranking.events, ranking.supports, ranking.matched_order) == (("e", "d"), (2, 1), 1)


# -- those that see a class ------------------------------------------------------------------------------------

CLASSES = told(
    of_class("s fix done", "bug", ["loop", "stop"]),
    of_class("s fix done", "bug", ["Stop", "loop", "abandon"]),
    of_class("s write done", "doc", ["wait", "wait"]),
    of_class("s idle"),
    of_class("s idle"),
    of_class("s idle"),
    of_class("s", "lone"),
)


@pytest.mark.parametrize(
    ("types", "name", "events", "supports"),
    [
        ("s", "bug", ("fix",), (2,)),
        ("s", "doc", ("write",), (1,)),
        ("zz", "doc", ("done", "write"), (1, 1)),  # order 0 of the class
        ("fix", "doc", ("done", "write"), (1, 1)),  # only other classes have seen fix
        ("s", "lone", (), ()),  # a case shares the class, but it has no step
        ("s", "new", ("idle", "fix", "write"), (3, 2, 1)),
        ("s", None, ("idle", "fix", "write"), (3, 2, 1)),
        ("zz", None, ("done", "idle", "fix", "write"), (3, 3, 2, 1)),
    ],
)
def test_workflow_class_ngram_learns_from_the_same_class_or_else_from_all(types, name, events, supports):
    ranking = after(trained("workflow-class-ngram", CLASSES, annotations=True), types, name)
    assert (ranking.events, ranking.supports) == (events, supports)


def test_a_class_whose_last_case_is_forgotten_has_no_cases():
    predictor = trained("workflow-class-ngram", CLASSES, annotations=True)
    predictor.forget(CLASSES[2])
    ranking = after(predictor, "s", "doc")
    assert (ranking.events, ranking.supports) == (("idle", "fix"), (3, 2))
    assert "wait" not in ranking.risks


@pytest.mark.parametrize("types", ["s", "s fix", "zz"])
def test_risks_of_a_class_come_by_frequency_and_then_by_name_whatever_the_step(types):
    """bug: loop twice, the others once; lower case comes before upper."""
    predictor = trained("workflow-class-ngram", CLASSES, annotations=True)
    assert after(predictor, types, "bug").risks == ("loop", "abandon", "stop", "Stop")
    assert after(predictor, types, "doc").risks == ("wait",)
    assert after(predictor, types, "lone").risks == ()


@pytest.mark.parametrize(
    ("types", "name", "events", "supports", "order"),
    [
        ("s", "bug", ("fix",), (2,), 1),
        ("fix s", "doc", ("write",), (1,), 1),  # only the last event counts
        ("write", "bug", ("done", "fix"), (2, 2), 0),  # bug never saw write: the whole class
        ("s", None, ("idle",), (3,), 1),  # cases without a class are a class of their own
        ("s", "unknown", ("idle",), (3,), 1),  # and share it with those that are called so
        ("fix", None, ("idle",), (3,), 0),
        ("s", "new", ("done", "idle", "fix", "write"), (3, 3, 2, 1), 0),
        ("s", "lone", ("done", "idle", "fix", "write"), (3, 3, 2, 1), 0),
        ("", "bug", ("done", "fix"), (2, 2), 0),
    ],
)
def test_lesson_prior_asks_class_and_last_event_then_the_class_then_all(types, name, events, supports, order):
    ranking = after(trained("textual-lesson-prior", CLASSES, annotations=True), types, name)
    assert (ranking.events, ranking.supports, ranking.matched_order) == (events, supports, order)


def test_a_lesson_prior_without_fallback_does_not_ask_the_class():
    predictor = trained("textual-lesson-prior", CLASSES, annotations=True, fallback=False)
    assert after(predictor, "write", "bug").events == ()
    assert after(predictor, "s", "bug").events == ("fix",)


@pytest.mark.parametrize("name", ["workflow-class-ngram", "textual-lesson-prior"])
@pytest.mark.parametrize("workflow_class", ["bug", "doc", "new", None])
def test_without_annotations_the_class_is_not_seen(name, workflow_class):
    ranking = after(trained(name, CLASSES), "s", workflow_class)
    assert (ranking.events, ranking.supports, ranking.risks) == (("idle", "fix", "write"), (3, 2, 1), ())


# -- semantic-rag-lite -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Read/File:a", {"read", "file:a"}),
        ("x y zz", {"zz"}),
        ("tool.started tool.started", {"tool.started"}),
        ("snake_case-and-10", {"snake_case-and-10"}),
        ("Über 4 café", {"ber", "caf"}),
        ("", set()),
    ],
)
def test_words_are_lower_case_pieces_of_two_characters_and_more(text, expected):
    assert words([text]) == expected


# {read} → test, {read test} → done, {plan} → read, {plan read} → ship
PREFIXES = plain_log([("read", "test", "done"), ("plan", "read", "ship")])


@pytest.mark.parametrize(
    ("types", "scores"),
    [
        ("read", {"test": 1, "done": 1 / sqrt(2), "ship": 1 / sqrt(2)}),
        ("read read", {"test": 1, "done": 1 / sqrt(2), "ship": 1 / sqrt(2)}),  # sets: a word counts once
        ("plan read", {"ship": 2 / sqrt(4), "read": 1 / sqrt(2), "test": 1 / sqrt(2), "done": 1 / sqrt(4)}),
        ("test", {"done": 1 / sqrt(2)}),
        ("test zz", {"done": 1 / sqrt(4)}),
    ],
)
def test_rag_adds_the_overlap_of_each_prefix_to_its_next_event(types, scores):
    ranking = after(trained("semantic-rag-lite", PREFIXES), types)
    total = sum(scores.values())
    assert ranking.events == tuple(scores)
    assert shares(ranking) == pytest.approx({event: score / total for event, score in scores.items()})


def test_rag_sums_over_prefixes_with_the_same_next_event():
    """{read plan} against {read}, twice: 1/√2 each, and {plan read}: 1, all → done; {plan}: 1/√2 → read."""
    log = plain_log([("read", "done"), ("plan", "read", "done"), ("read", "done")])
    ranking = after(trained("semantic-rag-lite", log), "read plan")
    done, read = 2 / sqrt(2) + 1, 1 / sqrt(2)
    assert shares(ranking) == pytest.approx({"done": done / (done + read), "read": read / (done + read)})


ABOUT = told(
    ("read test", CaseInfo("bug", texts=("alpha",))),
    ("read done", CaseInfo("doc", texts=("beta",))),
    ("open shut", CaseInfo(event_texts=(("open", "gamma"), ("shut",)))),
)


def test_rag_reads_texts_about_the_case_only_where_it_may():
    """{alpha zz} and {alpha read} share one word of two each: 1/√4, and nothing with the other case."""
    asked = told(("zz", CaseInfo(texts=("alpha",))))[0]
    assert shares(trained("semantic-rag-lite", ABOUT, annotations=True).rank(asked)) == {"test": 1.0}
    ranking = trained("semantic-rag-lite", ABOUT).rank(asked)
    assert (ranking.events, ranking.mode) == (("done", "shut", "test"), "fallback")


def test_rag_reads_texts_of_the_events_of_the_prefix_and_of_no_later_ones():
    asked = told(("zz read", CaseInfo(event_texts=(("zz", "gamma"), ("read", "read")))))[0]
    predictor = trained("semantic-rag-lite", ABOUT)
    assert shares(predictor.rank(asked.prefix(1))) == {"shut": 1.0}
    # {zz gamma read} and {read}, twice: 1/√3; and {open gamma}: 1/√6
    near, far = 1 / sqrt(3), 1 / sqrt(6)
    total = 2 * near + far
    assert shares(predictor.rank(asked)) == pytest.approx(
        {"done": near / total, "test": near / total, "shut": far / total}
    )


def named(*cases: tuple[str, str]) -> EventLog:
    return replace(plain_log([types.split() for _, types in cases]), case_ids=tuple(i for i, _ in cases))


def test_rag_takes_the_case_id_for_a_word_where_it_may_see_the_case():
    """{job-1 zz} and {job-1 read} share one word of two each; {job-2 read} has none of them."""
    log = named(("job-1", "read test"), ("job-2", "read done"))
    assert trained("semantic-rag-lite", log, annotations=True).rank(named(("job-1", "zz"))[0]).events == ("test",)
    assert trained("semantic-rag-lite", log).rank(named(("job-1", "zz"))[0]).mode == "fallback"


def test_rag_forgets_the_case_that_it_is_told_to_and_not_one_with_the_same_events():
    """What is left after job-1: {job-2 read} → test, all of it shared: 1; {job-3 read} → done, half of it: 1/2."""
    log = named(("job-1", "read test"), ("job-2", "read test"), ("job-3", "read done"))
    predictor = trained("semantic-rag-lite", log, annotations=True)
    predictor.forget(log[0])
    ranking = predictor.rank(log[1].prefix(1))
    assert shares(ranking) == pytest.approx({"test": 2 / 3, "done": 1 / 3})


# -- floors ----------------------------------------------------------------------------------------------------


def test_repeat_last_says_the_last_event_again_learned_or_not():
    predictor = trained("repeat-last", plain_log(["ab", "ab"]))
    for types in ("a", "b a", "zz"):
        assert shares(after(predictor, types)) == {types.split()[-1]: 1.0}
    assert after(predictor, "").events == ()


PAIRS = plain_log(
    [
        ("tool.started", "tool.failed", "tool.started", "tool.failed", "tool.started", "tool.succeeded"),
        ("go", "web.requested", "web.granted"),
    ]
)
OVERALL = ("tool.failed", "tool.started", "tool.succeeded", "web.granted", "web.requested")


def test_started_finished_names_the_ends_that_were_seen_and_then_the_usual_ones():
    """tool.failed was seen twice and tool.succeeded once; ends of other things have no place."""
    ranking = after(trained("started-finished", PAIRS), "tool.started")
    assert ranking.events[:2] == ("tool.failed", "tool.succeeded")
    assert ranking.probabilities[:2] == (2 / 3, 1 / 3)
    assert (ranking.supports[:2], ranking.support) == ((2, 1), 3)
    assert set(ranking.events[2:]) >= {"tool.completed", "tool.ended"}
    assert all(event.startswith("tool.") for event in ranking.events)
    assert set(ranking.probabilities[2:]) == {0.0}


def test_started_finished_hopes_for_success_of_what_it_does_not_know():
    ranking = after(trained("started-finished", PAIRS), "deploy.started")
    assert (ranking.events[0], ranking.probabilities[0], ranking.support) == ("deploy.succeeded", 1.0, 0)
    assert all(event.startswith("deploy.") for event in ranking.events)


@pytest.mark.parametrize("types", ["go", "tool.failed", "started", "tool.restarted", ""])
def test_started_finished_falls_back_after_anything_that_does_not_open(types):
    """tool.failed and tool.started twice each (the first of a case does not count), the others once."""
    ranking = after(trained("started-finished", PAIRS), types)
    assert (ranking.events, ranking.supports, ranking.matched_order) == (OVERALL, (2, 2, 1, 1, 1), 0)
    assert after(trained("started-finished", PAIRS, fallback=False), types).events == ()


@pytest.mark.parametrize(
    ("last", "target", "expected"),
    [
        ("tool.started", "tool.failed", True),
        ("access.requested", "access.denied", True),
        ("a.b.started", "a.b.ended", True),
        ("tool.started", "web.failed", False),
        ("tool.started", "tool.started", False),
        ("tool.failed", "tool.succeeded", False),
        ("a.b.started", "b.ended", False),
        ("started", "failed", False),
    ],
)
def test_what_closes_what(last, target, expected):
    assert closes(last, target) is expected
