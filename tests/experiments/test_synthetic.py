"""The synthetic process against hand calculations, and the bundled validation fixtures against their own rules."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from experiments.dataset import load_dataset
from experiments.synthetic import (
    START,
    WORKFLOWS,
    Attributes,
    Mixture,
    WorkflowProcess,
    bayes_accuracy,
    encode,
    generate,
    ideal_accuracy,
    main,
    oracle_hits,
)
from sherpa.errors import ConfigError
from sherpa.event import Outcome
from sherpa.instants import parse_instant
from sherpa.projection.ontology import OPERATIONS, TASK_CLASSES
from sherpa.terminal import OUTCOMES

FIXTURES = Path(__file__).parents[2] / "fixtures" / "validation"
BLOCKERS = {"timeout", "environment", "approval", "browser-failure", "tool-failure", "task-failure", "stale-task"}
INTENTS = {"investigate", "remediate", "update", "research", "review", "request", "complete", "fail", "end"}
ARTIFACTS = {"service", "docs", "web", "knowledge", "codebase", "approval", "automation", "config", "tooling"}


def process(name, transitions):
    types = {t for row in transitions.values() for t in row if t is not None}
    return WorkflowProcess(name, "general-task", transitions, {t: Attributes("toy") for t in types})


def chain(share):
    """Start with a, then b with this probability and else c, then end."""
    return process(f"chain-{share}", {(): {"a": 1.0}, ("a",): {"b": share, "c": 1 - share}, **ENDS})


ENDS = {("b",): {None: 1.0}, ("c",): {None: 1.0}}
FIRST = {(): {"a": 1.0}, ("a",): {"b": 0.9, "c": 0.1}, ("b",): {"d": 0.5, None: 0.5}, ("c",): {"d": 1.0}}
SECOND = {(): {"a": 1.0}, ("a",): {"c": 0.7, "b": 0.3}, ("b",): {"e": 1.0}, ("c",): {"d": 0.2, "e": 0.8}}
STOP = {("d",): {None: 1.0}, ("e",): {None: 1.0}}
TOY = Mixture((process("first", {**FIRST, **STOP}), process("second", {**SECOND, **STOP})), (0.6, 0.4))


# -- the process -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workflow", WORKFLOWS.processes, ids=lambda p: p.name)
def test_probabilities_sum_to_one(workflow):
    for state, row in workflow.transitions.items():
        assert math.fsum(row.values()) == pytest.approx(1, abs=1e-12), state
        assert all(0 < p <= 1 for p in row.values()), state
    assert math.fsum(WORKFLOWS.weights) == pytest.approx(1, abs=1e-12)


def test_what_follows_a_failed_test_depends_on_what_ran():
    code_fix = WORKFLOWS.processes[0]
    assert code_fix.row(("tests.run", "tests.failed"))["patch.applied"] == 0.65
    assert code_fix.row(("ci.run", "tests.failed"))["patch.reverted"] == 0.7
    assert code_fix.row(("x", "repo.inspected", "tests.run")) == {"tests.failed": 0.85, "tests.passed": 0.15}


@pytest.mark.parametrize(
    ("transitions", "problem"),
    [
        ({(): {"a": 0.9}, ("a",): {None: 1.0}}, "sum to 1"),
        ({(): {"a": 1.5, "b": -0.5}, ("a",): {None: 1.0}, ("b",): {None: 1.0}}, r"0\.\.1"),
        ({(): {"a": 0.5, None: 0.5}, ("a",): {None: 1.0}}, "may not end"),
        ({("a",): {None: 1.0}}, "must be there"),
        ({(): {"a": 1.0}}, "row of its own"),
        ({(): {"a": 1.0}, ("z", "a"): {None: 1.0}}, "row of its own"),
    ],
)
def test_a_process_that_is_none_is_refused(transitions, problem):
    with pytest.raises(ConfigError, match=problem):
        process("broken", transitions)


def test_weights_that_are_no_distribution_are_refused():
    with pytest.raises(ConfigError, match="sum to 1"):
        Mixture((chain(0.5), chain(0.2)), (0.5, 0.2))
    with pytest.raises(ConfigError, match="2 processes"):
        Mixture((chain(0.5), chain(0.2)), (1.0,))


# -- the ideal -------------------------------------------------------------------------------------------------


def test_ideal_of_one_step_by_hand():
    """After a: P(b) = 0.6·0.9 + 0.4·0.2 = 0.62 and P(c) = 0.38."""
    mixture = Mixture((chain(0.9), chain(0.2)), (0.6, 0.4))
    ideal = ideal_accuracy(mixture, 1)
    assert ideal.accuracy == pytest.approx(0.62)
    assert ideal.steps == pytest.approx(1)
    assert ideal.truncated == 0
    assert ideal_accuracy(mixture, 2).accuracy == pytest.approx(1)


def test_ideal_of_a_mixture_by_hand():
    """Joint probabilities of the two processes, weight times path:

    a      0.6 and 0.4        next b 0.54 + 0.12 = 0.66, c 0.06 + 0.28 = 0.34; one step, hit 0.66
    a b    0.54 and 0.12      next d 0.27, e 0.12, end 0.27; 0.39 steps, hit 0.27
    a c    0.06 and 0.28      next d 0.06 + 0.056 = 0.116, e 0.224; 0.34 steps, hit 0.224

    The weights alone would name d after a c (0.6·1 + 0.4·0.2 > 0.4·0.8); the posterior names e. The end, as likely as
    d after a b, is no step. Steps are 1.73, hits 1.154 of the first and all 1.73 of the first two.
    """
    ideal = ideal_accuracy(TOY, 1)
    assert ideal.steps == pytest.approx(1.73)
    assert ideal.accuracy == pytest.approx(1.154 / 1.73)
    assert ideal_accuracy(TOY, 2).accuracy == pytest.approx(1)


def test_truncated_mass_by_hand():
    """A loop that goes on with 0.9: a case has more than n events with probability 0.9^(n-1) after the first."""
    loop = Mixture((process("loop", {(): {"a": 1.0}, ("a",): {"a": 0.9, None: 0.1}}),), (1.0,))
    ideal = ideal_accuracy(loop, 1, max_length=5)
    assert ideal.truncated == pytest.approx(0.9**5)
    assert ideal.steps == pytest.approx(sum(0.9**n for n in range(1, 5)))
    assert ideal.accuracy == pytest.approx(1)


def test_without_a_second_event_there_is_no_accuracy():
    single = Mixture((process("single", {(): {"a": 1.0}, ("a",): {None: 1.0}}),), (1.0,))
    assert ideal_accuracy(single, 1).accuracy is None
    dataset = generate(single, 3, np.random.default_rng(0), START)
    assert oracle_hits(dataset, single, 1) == [(0, 0)] * 3
    assert bayes_accuracy(dataset, single, 1) is None


@pytest.mark.parametrize(("k", "max_length"), [(0, 10), (1, 0)])
def test_k_and_length_start_at_one(k, max_length):
    with pytest.raises(ConfigError, match="at least 1"):
        ideal_accuracy(WORKFLOWS, k, max_length)


def brute_force(mixture, k, max_length):
    """Hits and steps, one prefix at a time: joint probabilities of prefix and process, nothing merged or scaled."""

    def walk(prefix, joint):
        row = {}
        for c, weight in joint.items():
            for t, p in mixture.processes[c].row(prefix).items():
                if t is not None:
                    row.setdefault(t, {})[c] = weight * p
        totals = sorted((sum(by.values()) for by in row.values()), reverse=True)
        hits, steps = (sum(totals[:k]), sum(totals)) if prefix else (0.0, 0.0)
        if len(prefix) + 1 < max_length:
            for t, by in row.items():
                more = walk((*prefix, t), by)
                hits, steps = hits + more[0], steps + more[1]
        return hits, steps

    return walk((), dict(enumerate(mixture.weights)))


@pytest.mark.parametrize("k", [1, 3])
def test_merging_prefixes_changes_nothing(k):
    hits, steps = brute_force(WORKFLOWS, k, 9)
    ideal = ideal_accuracy(WORKFLOWS, k, max_length=9)
    assert ideal.steps == pytest.approx(steps, rel=1e-9)
    assert ideal.accuracy == pytest.approx(hits / steps, rel=1e-9)


def test_the_workflows_leave_something_to_learn():
    ideal = ideal_accuracy(WORKFLOWS, 1)
    assert ideal.truncated < 1e-5
    assert 0.5 < ideal.accuracy < 0.9
    assert ideal.accuracy < ideal_accuracy(WORKFLOWS, 3).accuracy < 1


@pytest.mark.parametrize("k", [1, 3])
def test_oracle_comes_within_three_standard_errors_of_the_ideal(k):
    """Steps of one case depend on each other, so the error of the ratio Σh/Σn is √Σ(h − R·n)² / Σn over cases."""
    dataset = generate(WORKFLOWS, 5000, np.random.default_rng(20260105), START)
    hits, steps = np.array(oracle_hits(dataset, WORKFLOWS, k), dtype=float).T
    ratio = hits.sum() / steps.sum()
    error = math.sqrt(((hits - ratio * steps) ** 2).sum()) / steps.sum()
    ideal = ideal_accuracy(WORKFLOWS, k).accuracy
    assert 0 < error < 0.005
    assert abs(ratio - ideal) < 3 * error
    assert abs(bayes_accuracy(dataset, WORKFLOWS, k) - ideal) < 3 * error


def cases_of(*cases):
    return {"cases": [{"events": [{"type": t} for t in types]} for types in cases]}


def test_oracle_hits_by_hand():
    """The toy names b after a, d after a b and e after a c; an empty case and a single event have no steps."""
    dataset = cases_of("abd", "ace", "acd", "a", "")
    assert oracle_hits(dataset, TOY, 1) == [(2, 2), (1, 2), (0, 2), (0, 0), (0, 0)]
    assert oracle_hits(dataset, TOY, 2) == [(2, 2), (2, 2), (2, 2), (0, 0), (0, 0)]


def test_bayes_accuracy_by_hand():
    """From the table of the toy: b after a 0.66 of 1, d after a b 0.27 of 0.39, e after a c 0.224 of 0.34.

    What came in fact does not matter: a c d is as good as a c e.
    """
    assert bayes_accuracy(cases_of("abd"), TOY, 1) == pytest.approx((0.66 + 0.27 / 0.39) / 2)
    expected = (3 * 0.66 + 0.27 / 0.39 + 2 * 0.224 / 0.34) / 6
    assert bayes_accuracy(cases_of("abd", "ace", "acd", "a", ""), TOY, 1) == pytest.approx(expected)
    assert bayes_accuracy(cases_of("abd", "ace"), TOY, 2) == pytest.approx(1)


@pytest.mark.parametrize("accuracy", [oracle_hits, bayes_accuracy])
def test_a_case_from_elsewhere_is_refused(accuracy):
    with pytest.raises(ConfigError, match=r"task\.completed"):
        accuracy(cases_of(["request.received", "task.completed"]), WORKFLOWS, 1)


# -- generation ------------------------------------------------------------------------------------------------


def test_same_seed_same_bytes():
    first, second, other = (encode(generate(WORKFLOWS, 20, np.random.default_rng(s), START)) for s in (3, 3, 4))
    assert first == second
    assert first != other


def test_more_cases_leave_the_first_ones_as_they_are():
    few, many = (generate(WORKFLOWS, n, np.random.default_rng(3), START)["cases"] for n in (5, 20))
    assert many[:5] == few


def test_draws_follow_the_probabilities():
    """Share of incident-response among n cases: standard error √(0.2·0.8/n)."""
    cases = generate(WORKFLOWS, 4000, np.random.default_rng(11), START)["cases"]
    found = sum(c["annotations"]["workflowClass"] == "incident-response" for c in cases) / 4000
    assert abs(found - 0.2) < 3 * math.sqrt(0.2 * 0.8 / 4000)


def test_times_rise_and_most_cases_end_before_the_next_begins():
    cases = generate(WORKFLOWS, 200, np.random.default_rng(5), START + 123)["cases"]
    stamps = [[event["ts"] for event in case["events"]] for case in cases]
    assert stamps[0][0] == "2026-01-05T08:00:00.000Z"
    assert all(re.fullmatch(r"[\d-]{10}T[\d:]{8}\.\d{3}Z", ts) for case in stamps for ts in case)
    assert all(parse_instant(a) < parse_instant(b) for case in stamps for a, b in pairwise(case))
    assert all(a[0] < b[0] for a, b in pairwise(stamps))
    assert sum(a[-1] < b[0] for a, b in pairwise(stamps)) > 0.9 * len(cases)


def test_the_committed_file_is_what_the_command_writes(tmp_path):
    target = tmp_path / "again.json"
    main(["--seed", "7", "--cases", "60", "--output", str(target)])
    assert target.read_bytes() == (FIXTURES / "synthetic-workflows.json").read_bytes()


def test_a_place_that_cannot_be_written_is_an_error(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--cases", "1", "--output", str(tmp_path)])
    assert stopped.value.code == 2
    assert "cannot be written" in capsys.readouterr().err


# -- the fixtures ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def realish():
    return load_dataset(FIXTURES / "openclaw-realish.json")


@pytest.mark.parametrize("name", ["synthetic-workflows.json", "openclaw-realish.json"])
def test_annotated_outcomes_are_those_of_the_events(name):
    dataset = load_dataset(FIXTURES / name)
    annotated = [case.annotations.expectations.terminal_outcome for case in dataset.cases]
    assert annotated == [OUTCOMES[code] for code in dataset.log.terminal]
    assert {"success", "failure"} <= set(annotated)


def test_realish_cases_have_the_promised_shape(realish):
    assert 8 <= len(realish.cases) <= 10
    assert all(5 <= len(case.events) <= 9 for case in realish.cases)
    classes = Counter(case.annotations.workflow_class for case in realish.cases)
    assert set(classes) <= set(TASK_CLASSES)
    assert min(classes.values()) >= 2
    assert all(event.ts for case in realish.cases for event in case.events)
    assert len({event.event_id for case in realish.cases for event in case.events}) == realish.log.events


def test_realish_steps_lie_within_their_case(realish):
    for case in realish.cases:
        size, said = len(case.events), case.annotations
        steps = [e.step for e in said.expectations.next_by_step]
        assert steps == sorted(set(steps)), case.case_id
        assert all(1 <= step <= size for step in [*steps, *(b.step for b in said.blockers)]), case.case_id
        assert all(1 <= t.start_step <= t.end_step <= size for t in said.task_boundaries), case.case_id


def test_realish_expectations_name_types_that_exist(realish):
    types = set(realish.log.vocabulary)
    said = [e for case in realish.cases for e in case.annotations.expectations.next_by_step]
    assert {t for e in said for t in (*(e.expected_next or ()), *(e.expected_risks or ()))} <= types
    assert any(e.expected_risks for e in said)


def test_realish_silence_is_explained_and_also_within_a_case(realish):
    silent = [
        (e, len(case.events))
        for case in realish.cases
        for e in case.annotations.expectations.next_by_step
        if e.expected_next == ()
    ]
    assert all(e.note for e, _ in silent)
    assert any(e.step < size for e, size in silent)
    assert any(e.step == size for e, size in silent)


def test_realish_words_are_in_the_vocabularies(realish):
    assert {b.type for case in realish.cases for b in case.annotations.blockers} == BLOCKERS
    for case in realish.cases:
        for event in case.events:
            assert event.actor in {"user", "agent", "system"}
            assert event.outcome in get_args(Outcome)
    projections = [e.projection for case in realish.cases for e in case.events if e.projection is not None]
    assert {(p.version, p.source) for p in projections} == {("draft-v1", "manual")}
    assert {p.task_class for p in projections} <= set(TASK_CLASSES)
    assert {p.operation for p in projections} <= set(OPERATIONS)
    assert {p.intent for p in projections} <= INTENTS
    assert {p.artifact_class for p in projections} <= ARTIFACTS
    assert {p.blocker_type for p in projections} <= {None, *BLOCKERS}


def test_realish_has_cases_with_and_without_projections(realish):
    with_projection = [any(e.projection is not None for e in case.events) for case in realish.cases]
    assert 0 < sum(with_projection) < len(with_projection)
    for case in realish.cases:
        classes = {e.projection.task_class for e in case.events if e.projection is not None}
        assert classes <= {case.annotations.workflow_class}


def test_simple_csv_by_hand():
    log = load_dataset(FIXTURES / "simple.csv").log
    assert log.case_ids == ("ticket-1", "ticket-2", "ticket-3")
    assert [len(case) for case in log] == [4, 5, 4]
    assert log[1].types == ("ticket.opened", "ticket.assigned", "reply.failed", "reply.sent", "ticket.closed")


def test_simple_xes_by_hand():
    dataset = load_dataset(FIXTURES / "simple.xes")
    assert dataset.log.case_ids == ("return-1", "return-2", "return-3")
    assert [len(case) for case in dataset.log] == [3, 4, 3]
    assert dataset.log[2].types == ("Register return", "Inspect parcel", "Reject")
    assert dataset.log.instants[0] == parse_instant("2026-03-09T07:00:00Z")
    assert not any(dataset.skipped.values())


def test_the_suite_lists_every_dataset_without_thresholds():
    suite = json.loads((FIXTURES / "suite.json").read_text())
    assert suite["name"] == "bundled-validation"
    assert all(set(entry) == {"path", "name"} for entry in suite["datasets"])
    paths = {(FIXTURES / entry["path"]).resolve() for entry in suite["datasets"]}
    assert paths == {p.resolve() for p in FIXTURES.iterdir() if p.suffix in {".json", ".csv", ".xes"}} - {
        (FIXTURES / "suite.json").resolve()
    }
