"""The protocol: the same cases, prefixes and table for every predictor."""

from __future__ import annotations

from itertools import count

import numpy as np
import pandas as pd
import pytest

from baselines import ProceduralMemoryPredictor, Ranking
from baselines.global_majority import GlobalMajority
from baselines.testing import plain_log, random_log
from experiments import Dataset, Fold, Predictions, Split, make_split, run
from experiments.dataset import CaseAnnotations, DatasetCase
from experiments.protocol import predict, steps
from sherpa.config import STRATEGIES, EngineConfig
from sherpa.eventlog import EventLog

TOP = 3
UNTIMED = sorted(set(Predictions("", "", False, 1, plain_log([]), []).columns) - {"latency_us"})


def dataset(log: EventLog, name: str = "toy") -> Dataset:
    return Dataset(name, f"{name}.json", "json", log, "0" * 64)


def memory(strategy="raw", *, fallback=True, **options):
    options = {"default_order": 2, "min_support": 1, "state_strategy": strategy, **options}
    return lambda: ProceduralMemoryPredictor(EngineConfig(**options), fallback=fallback)


class Counted:
    """A factory that remembers what it made."""

    def __init__(self, factory):
        self.factory, self.made = factory, []

    def __call__(self):
        self.made.append(self.factory())
        return self.made[-1]


class WithoutForget:
    """A predictor that can only learn."""

    name, calibrated = "without-forget", False

    def __init__(self, factory):
        self.inner = factory()

    @property
    def states(self):
        return self.inner.states

    def learn(self, cases):
        self.inner.learn(cases)

    def rank(self, prefix):
        return self.inner.rank(prefix)


class Says:
    """Always the same answer."""

    calibrated, states = False, 0

    def __init__(self, name, ranking):
        self.name, self.ranking = name, ranking

    def learn(self, cases):
        """Nothing to learn."""

    def forget(self, cases):
        """Nothing to forget."""

    def rank(self, prefix):
        return self.ranking


def says(name, *events):
    return lambda: Says(name, Ranking(events=events, probabilities=tuple(1 / len(events) for _ in events)))


def untimed(table: Predictions) -> dict[str, list]:
    return {name: table.columns[name] for name in UNTIMED}


def refitted(log: EventLog, split: Split, factory, *, online: bool = False) -> Predictions:
    """The table as a fresh predictor for every fold fills it; online it is fresh for every step."""
    table = Predictions("toy", "", False, TOP, log, [None] * len(log))
    for fold in split:
        tested = set(fold.test.tolist())
        learned = [i for i in range(len(log)) if i not in tested] if fold.train is None else fold.train.tolist()

        def fit(factory=factory, learned=learned):
            made = factory()
            for index in learned:
                made.learn(log[index])
            return made

        fresh = fit()
        for index in fold.test.tolist():
            case = log[index]
            for length in range(1, len(case)):
                prefix = case.prefix(length)
                if online:
                    fresh = fit()
                    fresh.learn(prefix)
                table.add(fold.name, prefix, case.types[length], fresh.rank(prefix), fresh.states, 0.0)
    return table


# -- steps -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("types", "expected"),
    [("", []), ("a", []), ("ab", [("a", "b")]), ("aba", [("a", "b"), ("ab", "a")])],
)
def test_a_step_is_a_prefix_of_at_least_one_event_and_the_next_type(types, expected):
    case = plain_log([types])[0]
    assert [("".join(prefix.types), target) for prefix, target in steps(case)] == expected


# -- forgetting and refitting ----------------------------------------------------------------------------------


@pytest.mark.parametrize("factory", [*(memory(s) for s in STRATEGIES), GlobalMajority], ids=[*STRATEGIES, "majority"])
def test_leave_one_case_out_by_forgetting_equals_refitting_for_every_case(factory):
    log = random_log(21, cases=14)
    split = make_split("leave-one-case-out", log)
    counted = Counted(factory)
    table = predict(dataset(log), split, counted, top=TOP)
    assert untimed(table) == untimed(refitted(log, split, factory))
    assert table.refitted == 0
    assert len(counted.made) == 1


def test_after_the_run_the_predictor_holds_all_cases():
    log = random_log(22)
    counted = Counted(memory())
    predict(dataset(log), make_split("leave-one-case-out", log), counted, online=True)
    everything = memory()()
    everything.learn(log)
    (held,) = counted.made
    assert held.states == everything.states
    assert [held.rank(p) for p, _ in steps(log[0])] == [everything.rank(p) for p, _ in steps(log[0])]


@pytest.mark.parametrize(("folds", "refits"), [(50, 0), (10, 10)], ids=["two of a hundred", "ten of a hundred"])
def test_small_folds_are_forgotten_and_large_ones_refitted_with_the_same_result(folds, refits):
    log = random_log(23, cases=100)
    split = make_split("k-fold", log, folds=folds, rng=np.random.default_rng(3))
    table = predict(dataset(log), split, memory(), top=TOP)
    assert table.refitted == refits
    assert untimed(table) == untimed(refitted(log, split, memory()))


def test_a_fold_with_its_own_training_cases_learns_from_those_alone():
    log = random_log(24)
    split = Split("temporal", [Fold("temporal", np.array([5, 7]), np.array([0, 2, 3]))])
    table = predict(dataset(log), split, memory(), top=TOP)
    assert untimed(table) == untimed(refitted(log, split, memory()))
    assert table.refitted == 1


def test_a_predictor_without_forget_is_refitted_for_every_case_and_counted():
    log = random_log(25)
    split = make_split("leave-one-case-out", log)
    counted = Counted(lambda: WithoutForget(memory()))
    table = predict(dataset(log), split, counted, top=TOP)
    assert table.refitted == len(log)
    assert untimed(table) == untimed(refitted(log, split, memory()))


# -- online ----------------------------------------------------------------------------------------------------

REPEATS = plain_log(["abab", "zz"])
"""x = a b a b: nothing in z z helps with it, but after a b a its own past says b."""


@pytest.mark.parametrize(("online", "ranks"), [(False, [0, 0, 0, 0]), (True, [0, 0, 1, 0])])
def test_online_learns_the_earlier_steps_of_the_tested_case(online, ranks):
    split = make_split("leave-one-case-out", REPEATS)
    table = predict(dataset(REPEATS), split, memory(fallback=False), online=online)
    assert table.columns["rank_of_target"] == ranks


@pytest.mark.parametrize("split", ["leave-one-case-out", "k-fold"])
@pytest.mark.parametrize("factory", [*(memory(s) for s in STRATEGIES), GlobalMajority], ids=[*STRATEGIES, "majority"])
def test_online_equals_learning_the_others_and_the_prefix_afresh_at_every_step(split, factory):
    log = random_log(27, cases=9)
    made = make_split(split, log, folds=3)
    table = predict(dataset(log), made, factory, top=TOP, online=True)
    assert untimed(table) == untimed(refitted(log, made, factory, online=True))


def test_online_works_for_a_predictor_without_forget():
    split = make_split("leave-one-case-out", REPEATS)
    table = predict(dataset(REPEATS), split, lambda: WithoutForget(memory(fallback=False)), online=True)
    assert table.columns["rank_of_target"] == [0, 0, 1, 0]


# -- the table -------------------------------------------------------------------------------------------------


def test_a_row_holds_what_was_said_and_what_came():
    log = plain_log([("a", "b", "c")])
    table = Predictions("toy", "p", False, 2, log, ["red"])
    ranking = Ranking(
        events=("x", "c", "y"),
        probabilities=(0.5, 0.25, 0.125),
        matched_order=2,
        backoff_depth=1,
        support=8,
        supports=(4, 2, 1),
        mode="raw",
        success=0.75,
        risks=("r", "s", "t"),
    )
    table.add("fold", log[0].prefix(2), "c", ranking, 7, 1.5)
    assert {name: values[0] for name, values in table.columns.items()} == {
        "fold": "fold",
        "case": 0,
        "step": 2,
        "target": "c",
        "last": "b",
        "rank_of_target": 2,
        "top_k": ("x", "c"),
        "p_target": 0.25,
        "p_top1": 0.5,
        "p_squared": 0.25 + 0.0625 + 0.015625,
        "matched_order": 2,
        "support": 8,
        "supports": (4, 2),
        "mode": "raw",
        "backoff_depth": 1,
        "success": 0.75,
        "risks": ("r", "s"),
        "states": 7,
        "latency_us": 1.5,
    }
    assert len(table) == 1


def test_a_target_beyond_the_top_k_still_has_its_rank():
    log = plain_log([("a", "d")])
    table = predict(dataset(log), Split("holdout", [Fold("f", np.array([0]))]), says("p", *"bcd"), top=2)
    assert table.columns["rank_of_target"] == [3]
    assert table.columns["top_k"] == [("b", "c")]
    assert table.columns["p_target"] == [1 / 3]


def test_silence_is_rank_0_without_a_first_probability():
    log = plain_log([("a", "d")])
    table = predict(dataset(log), Split("holdout", [Fold("f", np.array([0]))]), says("p"))
    row = {name: values[0] for name, values in table.columns.items()}
    assert (row["rank_of_target"], row["p_target"], row["p_top1"], row["matched_order"]) == (0, 0.0, None, -1)


def test_latency_is_in_microseconds_of_ranking_alone():
    """The timer gains 2,500 ns with every look, and is looked at before and after each answer."""
    ticks = count(0, 2_500)
    table = predict(dataset(REPEATS), make_split("leave-one-case-out", REPEATS), memory(), timer=lambda: next(ticks))
    assert table.columns["latency_us"] == [2.5] * 4


def test_progress_is_called_for_every_tested_case():
    log, done = random_log(26), []
    predict(dataset(log), make_split("k-fold", log, folds=2), memory(), progress=done.append)
    assert done == [1] * len(log)


RECORD = [
    "dataset",
    "fold",
    "case_id",
    "group",
    "step",
    "predictor",
    "target",
    "rank_of_target",
    "top_k",
    "p_target",
    "p_top1",
    "matched_order",
    "support",
    "abstained",
    "backoff_depth",
    "latency_us",
]


def test_the_data_frame_has_the_columns_of_the_record_and_a_row_per_predictor_and_step():
    log = plain_log(["abc", "ad"])
    split = make_split("leave-one-case-out", log)
    table = run(dataset(log), split, [says("first", "b", "x"), says("second", "d")], timer=lambda: 0)
    frame = table.to_pandas()
    assert list(frame.columns) == RECORD
    assert len(frame) == len(table) == 6
    assert table.predictors == ("first", "second")
    assert frame["predictor"].tolist() == ["first"] * 3 + ["second"] * 3
    assert frame["case_id"].tolist() == ["case-0", "case-0", "case-1"] * 2
    assert frame["fold"].tolist() == ["case-0", "case-0", "case-1"] * 2
    assert frame["step"].tolist() == [1, 2, 1] * 2
    assert frame["target"].tolist() == ["b", "c", "d"] * 2
    assert frame["rank_of_target"].tolist() == [1, 0, 0, 0, 0, 1]
    assert frame["top_k"].tolist() == [["b", "x"]] * 3 + [["d"]] * 3
    assert frame["p_target"].tolist() == [0.5, 0.0, 0.0, 0.0, 0.0, 1.0]
    assert set(frame["dataset"]) == {"toy"}
    assert frame["group"].isna().all()
    assert not frame["abstained"].any()


def test_the_data_frame_names_the_class_of_each_case():
    log = plain_log(["ab", "ab", "ab"])
    cases = tuple(
        DatasetCase(case_id=i, events=(), annotations=CaseAnnotations(workflow_class=c))
        for i, c in zip(log.case_ids, ["red", None, "blue"], strict=True)
    )
    held = Dataset("toy", "toy.json", "json", log, "0" * 64, cases=cases)
    frame = run(held, make_split("leave-one-case-out", log), [says("p", "b")]).to_pandas()
    assert [None if pd.isna(g) else g for g in frame["group"]] == ["red", None, "blue"]


def test_a_silent_predictor_beside_one_that_speaks_makes_one_data_frame():
    log = plain_log(["ab", "ac"])
    split = make_split("leave-one-case-out", log)
    frame = run(dataset(log), split, [says("silent"), GlobalMajority]).to_pandas()
    assert frame["abstained"].tolist() == [True, True, False, False]
    assert [pd.isna(p) for p in frame["p_top1"]] == [True, True, False, False]
    assert [pd.isna(k) for k in frame["matched_order"]] == [True, True, False, False]


def test_a_split_without_folds_gives_an_empty_table():
    log = plain_log(["ab", "ac"])
    frame = run(dataset(log), Split("temporal", []), [says("first", "a"), says("second", "b")]).to_pandas()
    assert list(frame.columns) == RECORD
    assert len(frame) == 0


def test_two_predictors_of_one_name_are_refused():
    log = plain_log(["ab", "ac"])
    with pytest.raises(ValueError, match="'same'"):
        run(dataset(log), make_split("leave-one-case-out", log), [says("same", "a"), says("same", "b")])
