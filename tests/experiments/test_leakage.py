"""The leakage audit on logs that can be checked by eye."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from baselines.testing import plain_log
from experiments.leakage import audit, is_trivial, prefix_ids, trivial_steps
from experiments.protocol import Predictions
from experiments.splits import Fold, Split, make_split
from sherpa.eventlog import EventLog
from tests.property.strategies import logs

TWINS = plain_log(["abc", "abd", "abc"])
"""The first and the third case are copies; the second shares a b with both."""


def split_of(*folds: tuple[list[int], list[int] | None]) -> Split:
    """Folds of (test, train); None trains on all others."""
    return Split(
        "k-fold",
        [
            Fold(f"fold-{i}", np.array(test), None if train is None else np.array(train))
            for i, (test, train) in enumerate(folds)
        ],
    )


def named(cases: list[str], ids: list[str]) -> EventLog:
    log = plain_log(cases)
    return EventLog.from_codes(log.codes, log.offsets, log.vocabulary, case_ids=ids)


# -- copies of prefixes and cases ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("split", "prefixes", "cases"),
    [
        # ab ab ab are elsewhere, and abc of the first and the third; abd is not.
        (make_split("leave-one-case-out", TWINS), 5 / 6, 2 / 3),
        # The twins are tested together: only ab is learned from the second case; then ab of the second, not abd.
        (split_of(([0, 2], None), ([1], None)), 3 / 6, 0 / 3),
        # The first two together: ab of both and abc of the first are in the third; then ab and abc of the third.
        (split_of(([0, 1], None), ([2], None)), 5 / 6, 2 / 3),
        # Learned from the second alone: ab is known, abc is not.
        (split_of(([0], [1])), 1 / 2, 0 / 1),
        # Learned from its copy.
        (split_of(([0], [2])), 2 / 2, 1 / 1),
        # Both twins tested, their common other case learned.
        (split_of(([0, 2], [1])), 2 / 4, 0 / 2),
    ],
    ids=["leave one out", "2 folds, twins together", "2 folds, twins apart", "other case", "copy", "twins tested"],
)
def test_shares_of_prefixes_and_cases_that_were_learned_verbatim(split, prefixes, cases):
    found = audit(TWINS, split)
    assert found["identicalPrefixShare"] == pytest.approx(prefixes)
    assert found["duplicateCaseShare"] == pytest.approx(cases)


def test_a_temporal_split_is_audited_against_what_ended_before_the_cut():
    """One after the other, cut at the last start: the first two are learned. ab and abc of the third are known."""
    log = plain_log(["abc", "abd", "abc"])
    timed = EventLog.from_codes(log.codes, log.offsets, log.vocabulary, instants=np.arange(9) * 10**9)
    found = audit(timed, make_split("temporal", timed, test_fraction=1 / 3))
    assert (found["identicalPrefixShare"], found["duplicateCaseShare"]) == (1.0, 1.0)


def test_a_prefix_is_compared_from_the_start_of_a_case():
    log = plain_log(["ab", "cab"])
    found = audit(log, make_split("leave-one-case-out", log))
    assert (found["identicalPrefixShare"], found["duplicateCaseShare"]) == (0.0, 0.0)


def test_a_whole_case_inside_a_longer_one_is_no_duplicate():
    log = plain_log(["ab", "abc"])
    found = audit(log, make_split("leave-one-case-out", log))
    assert found["identicalPrefixShare"] == pytest.approx(2 / 3)
    assert found["duplicateCaseShare"] == 0.0


@pytest.mark.parametrize(
    "log", [TWINS, plain_log([]), plain_log(["", ""])], ids=["without folds", "without cases", "without events"]
)
def test_what_was_not_tested_has_no_share(log):
    found = audit(log, Split("temporal", []))
    assert (found["identicalPrefixShare"], found["duplicateCaseShare"]) == (None, None)


def test_cases_of_one_event_have_no_step_but_can_be_copies():
    log = plain_log(["a", "a", "b"])
    found = audit(log, make_split("leave-one-case-out", log))
    assert found["identicalPrefixShare"] is None
    assert found["duplicateCaseShare"] == pytest.approx(2 / 3)


# -- ids -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("split", "shared"),
    [
        (split_of(([2], [0, 1])), 1),
        (split_of(([1], [0, 2])), 0),
        (split_of(([2], None)), 1),
        (split_of(([1], None)), 0),
    ],
    ids=["named train", "named train, other id", "all others", "all others, other id"],
)
def test_tested_cases_whose_id_was_learned_are_counted(split, shared):
    log = named(["ab", "ac", "ad"], ["x", "y", "x"])
    assert audit(log, split)["sharedCaseIds"] == shared


def test_leave_one_case_out_shares_no_ids():
    log = named(["ab", "ac", "ad"], ["x", "y", "x"])
    assert audit(log, make_split("leave-one-case-out", log))["sharedCaseIds"] == 0


def test_case_ids_that_are_types_are_counted():
    log = named(["ab", "cd", "ab"], ["a", "other", "d"])
    assert audit(log, make_split("leave-one-case-out", log))["caseIdsInVocabulary"] == 2


# -- prefixes and trivial steps --------------------------------------------------------------------------------


@given(logs())
def test_prefix_ids_are_equal_iff_the_prefixes_are(log):
    wanted = [case.types[: i + 1] for case in log for i in range(len(case))]
    found = prefix_ids(log).tolist()
    assert len(found) == len(wanted)
    by_id = dict(zip(found, wanted, strict=True))
    assert [by_id[i] for i in found] == wanted
    assert len(set(found)) == len(set(wanted))


@pytest.mark.parametrize(
    ("last", "target", "trivial"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("tool.started", "tool.succeeded", True),
        ("tool.started", "tool.failed", True),
        ("tool.started", "tool.completed", True),
        ("approval.requested", "approval.granted", True),
        ("approval.requested", "approval.denied", True),
        ("a.b.started", "a.b.failed", True),
        ("tool.started", "web.failed", False),
        ("tool.started", "tool.read.failed", False),
        ("tool.started", "tool.resumed", False),
        ("tool.failed", "tool.started", False),
        ("tool.succeeded", "tool.failed", False),
        ("started", "failed", False),
    ],
)
def test_trivial_is_the_same_again_or_the_end_of_what_just_started(last, target, trivial):
    assert is_trivial(last, target) is trivial
    table = Predictions("toy", "p", False, 1, plain_log([]), [])
    table.columns["last"], table.columns["target"] = ["x", last], ["y", target]
    assert trivial_steps(table).tolist() == [False, trivial]


def test_an_empty_table_has_no_trivial_steps():
    found = trivial_steps(Predictions("toy", "p", False, 1, plain_log([]), []))
    assert (found.dtype, len(found)) == (np.dtype(bool), 0)
