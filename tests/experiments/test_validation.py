"""`validate` on a dataset of three cases that can be worked out with pencil and paper."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from experiments.dataset import load_dataset
from experiments.validation import Protocol, Thresholds, parity_protocol, validate
from sherpa.config import EngineConfig
from sherpa.errors import DatasetError, SplitError

CONFIG = EngineConfig(default_order=2, max_order=2, min_support=1)
PROTOCOL = Protocol(top_k=2, max_misses=3)


def risks(step: int, *events: str) -> dict[str, object]:
    return {"expectations": {"nextByStep": [{"step": step, "expectedRisks": list(events)}]}}


def write(folder: Path) -> Path:
    """one = a b c, ends well; two = a b d d, ends badly; three = y a x, end unknown."""

    def events(types: str, end: str) -> list[dict[str, str]]:
        return [{"type": t, "outcome": end if i == len(types) - 1 else "unknown"} for i, t in enumerate(types)]

    document = {
        "name": "three",
        "description": "by hand",
        "cases": [
            {"caseId": "one", "events": events("abc", "success"), "annotations": risks(1, "x")},
            {"caseId": "two", "events": events("abdd", "failure"), "annotations": risks(1)},
            {"caseId": "three", "events": events("yax", "unknown"), "annotations": risks(2, "d")},
        ],
    }
    path = folder / "file.json"
    path.write_text(json.dumps(document))
    return path


# Each case is tested with the counts of the other two. Transitions of order 1, and of order 2 in brackets:
#   one    a→b b→c [ab→c]              3 states
#   two    a→b b→d d→d [ab→d bd→d]     5 states
#   three  y→a a→x [ya→x]              3 states
#
# A candidate scores p · (0.55 + 0.25 s + 0.1 n/(n+2) + 0.1 order/2 − 0.25 f), s = 0.5 if no end is known.
#
#   case  step  prefix  target  answer                                              rank  order  states
#   one   1     a       b       x, b: one each; b led to a failure, x to no known   2     1      5 + 3 = 8
#   one   2     a b     c       d, seen once                                        0     2      8
#   two   1     a       b       b, x: one each; b led to a success                  1     1      3 + 3 = 6
#   two   2     a b     d       c                                                   0     2      6
#   two   3     a b d   d       neither bd nor d was seen: overall a, b (c, x)      0     0      6
#   three 1     y       a       never seen: overall b and d twice, c once           0     0      8 − 1 shared = 7
#   three 2     y a     x       ya was not seen; after a: b, twice                  0     1      7


@pytest.fixture
def report(tmp_path):
    return validate(load_dataset(write(tmp_path)), CONFIG, PROTOCOL)[0]


def test_the_dataset_is_described(tmp_path):
    path = write(tmp_path)
    assert validate(load_dataset(path), CONFIG, PROTOCOL)[0]["dataset"] == {
        "name": "three",
        "description": "by hand",
        "path": str(path),
        "format": "json",
        "split": None,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "skipped": {},
    }


def test_the_protocol_is_described(report):
    assert report["protocol"] == {
        "split": "leave-one-case-out",
        "testedCases": 3,
        "droppedCases": 0,
        "online": False,
        "fallback": True,
        "parity": False,
        "estimator": "longest-suffix",
        "minSupport": 1,
        "refits": 0,
    }
    assert report["stateStrategy"] == "raw"


def test_sizes(report):
    assert (report["cases"], report["datasetEvents"], report["evaluatedSteps"], report["topK"]) == (3, 10, 7, 2)


@pytest.mark.parametrize(
    ("figure", "expected"),
    [
        ("nextTop1Accuracy", 1 / 7),
        ("nextTopKAccuracy", 2 / 7),
        ("missCount", 5),
        ("macroTop1Accuracy", (0 / 2 + 1 / 3 + 0 / 2) / 3),
        ("macroTopKAccuracy", (1 / 2 + 1 / 3 + 0 / 2) / 3),
        ("meanReciprocalRank", (1 / 2 + 1) / 7),
        ("coverage", 1.0),
    ],
)
def test_accuracy(report, figure, expected):
    assert report[figure] == pytest.approx(expected)


def test_accuracy_without_the_step_from_d_to_d(report):
    assert report["nonTrivial"] == {
        "steps": 6,
        "nextTop1Accuracy": pytest.approx(1 / 6),
        "nextTopKAccuracy": pytest.approx(2 / 6),
    }


def test_events_are_listed_by_occurrence_then_worst_first_then_by_name(report):
    rows = [(r["event"], r["occurrences"], r["top1Hits"], r["topKHits"]) for r in report["eventBreakdown"]]
    assert rows == [("d", 2, 0, 0), ("b", 2, 1, 2), ("a", 1, 0, 0), ("c", 1, 0, 0), ("x", 1, 0, 0)]
    assert [(r["top1Accuracy"], r["topKAccuracy"]) for r in report["eventBreakdown"][:2]] == [(0, 0), (0.5, 1)]


def test_the_first_misses_are_listed_in_order(report):
    assert report["misses"] == [
        {"caseId": "one", "step": 2, "expected": "c", "predicted": ["d"]},
        {"caseId": "two", "step": 2, "expected": "d", "predicted": ["c"]},
        {"caseId": "two", "step": 3, "expected": "d", "predicted": ["a", "b"]},
    ]


def test_support_counts_matched_states_alone(report):
    """Candidates returned: 2 1 2 1 - - 1; their observations: 2 1 2 1 - - 2; of the first: 1 1 1 1 - - 2."""
    assert report["research"]["support"] == {
        "matchedSteps": 5,
        "unmatchedSteps": 2,
        "averageCandidateCount": 1.0,  # 7 / 7
        "averageTotalSupport": 1.143,  # 8 / 7
        "averageTopCandidateSupport": 0.857,  # 6 / 7
        "averageMatchedOrder": 1.4,  # (1 + 2 + 1 + 2 + 1) / 5
        "averageGraphStates": 6.857,  # (8 + 8 + 6 + 6 + 6 + 7 + 7) / 7
        "minGraphStates": 6,
        "maxGraphStates": 8,
    }


def test_matches_are_listed_by_occurrence_then_longest_first(report):
    found = report["research"]["matchBreakdown"]
    rows = [(r["mode"], r["matchedOrder"], r["occurrences"], r["share"]) for r in found]
    assert rows == [("raw", 1, 3, 0.429), ("raw", 2, 2, 0.286), ("fallback", 0, 2, 0.286)]


def test_depth_of_backing_off(report):
    """a b d tries bd and d in vain; y tries y; y a tries ya."""
    assert report["research"]["backoffDepths"] == {"0": 4, "1": 2, "2": 1}


def test_risks(report):
    """one, 1: b fails and x stalls more often than a does, x is annotated. two, 1: x stalls, nothing is annotated.

    three, 2: d is annotated, b fails as often as a does, so there is no warning. Five steps have no annotated risk.
    """
    assert report["research"]["risks"] == {
        "evaluatedSteps": 3,
        "expectedRiskCount": 2,
        "predictedRiskCount": 3,
        "truePositiveCount": 1,
        "precision": pytest.approx(1 / 3),
        "recall": pytest.approx(1 / 2),
        "f1": pytest.approx(0.4),
        "falseAlarmRate": pytest.approx(1 / 5),
        "leadTimeSteps": 0.0,
    }


def test_outcome(report):
    """one ends well and is given 0 twice, two ends badly and is given 1 three times; three has no known end."""
    assert report["research"]["outcome"] == {"steps": 5, "auc": 0.0, "brier": 1.0}


def test_a_score_is_no_probability_so_none_is_reported(report):
    assert report["probability"] == {"calibrated": False, "logLossBits": None, "brier": None, "ece": None, "bins": []}


def test_leakage(report):
    """a b starts two cases; nothing longer does."""
    assert report["leakage"] == {
        "identicalPrefixShare": pytest.approx(2 / 7),
        "duplicateCaseShare": 0.0,
        "sharedCaseIds": 0,
        "caseIdsInVocabulary": 0,
    }


def test_without_fallback_there_is_silence_where_nothing_matches(tmp_path):
    report, _ = validate(load_dataset(write(tmp_path)), CONFIG, Protocol(top_k=2, fallback=False))
    assert report["coverage"] == pytest.approx(5 / 7)
    assert ("none", 0, 2) in [
        (r["mode"], r["matchedOrder"], r["occurrences"]) for r in report["research"]["matchBreakdown"]
    ]
    assert {"caseId": "three", "step": 1, "expected": "a", "predicted": []} in report["misses"]


def test_online_learns_the_case_as_it_goes(tmp_path):
    """Nothing changes but two, 2 and 3: its own a b shifts no answer, and d still has no successor.

    States grow with the prefix: one, 2 adds a→b, which two has; two, 3 adds b→d and ab→d to 6; three, 2 adds y→a.
    """
    report, table = validate(load_dataset(write(tmp_path)), CONFIG, Protocol(top_k=2, online=True))
    assert table.columns["states"] == [8, 8, 6, 6, 8, 7, 8]
    assert report["protocol"]["online"] is True


def test_the_original_protocol_is_online_without_fallback():
    found = parity_protocol(Protocol(top_k=5))
    assert (found.online, found.fallback, found.parity, found.top_k) == (True, False, True, 5)


def test_without_annotated_risks_there_is_no_risk_report(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("caseId,type\none,a\none,b\ntwo,a\ntwo,b\n")
    assert validate(load_dataset(path), CONFIG, PROTOCOL)[0]["research"]["risks"] is None


def test_a_split_without_folds_measures_nothing(tmp_path):
    path = tmp_path / "log.csv"
    rows = ["one,a,10", "one,b,12", "two,a,11", "two,b,13"]
    path.write_text("caseId,type,ts\n" + "".join(f"{r}:00:00Z\n" for r in rows).replace(",1", ",2026-01-01T1"))
    report, _ = validate(load_dataset(path), CONFIG, Protocol(split="temporal"))
    assert (report["evaluatedSteps"], report["missCount"], report["protocol"]["droppedCases"]) == (0, 0, 2)
    undefined = ("nextTop1Accuracy", "nextTopKAccuracy", "macroTop1Accuracy", "meanReciprocalRank", "coverage")
    assert [report[name] for name in undefined] == [None] * 5
    assert report["nonTrivial"] == {"steps": 0, "nextTop1Accuracy": None, "nextTopKAccuracy": None}
    assert report["research"]["support"]["averageMatchedOrder"] is None
    assert report["research"]["support"]["maxGraphStates"] is None
    assert report["research"]["outcome"] == {"steps": 0, "auc": None, "brier": None}
    assert report["leakage"]["identicalPrefixShare"] is None
    assert Thresholds(min_top1=0.1).failures(report) != []


@pytest.mark.parametrize("top_k", [0, -1])
def test_top_k_is_at_least_one(tmp_path, top_k):
    with pytest.raises(DatasetError, match="--top-k"):
        validate(load_dataset(write(tmp_path)), CONFIG, Protocol(top_k=top_k))


def test_a_split_that_cannot_be_made_names_the_file(tmp_path):
    path = write(tmp_path)
    with pytest.raises(SplitError) as caught:
        validate(load_dataset(path), CONFIG, Protocol(split="leave-one-group-out"))
    assert caught.value.file == str(path)


@pytest.mark.parametrize(
    ("limits", "missed"),
    [
        (Thresholds(), 0),
        (Thresholds(min_top1=1 / 7, min_topk=2 / 7, max_misses=5), 0),
        (Thresholds(min_top1=0.143), 1),
        (Thresholds(min_topk=0.286), 1),
        (Thresholds(max_misses=4), 1),
        (Thresholds(min_top1=0.5, min_topk=0.5, max_misses=0), 3),
    ],
)
def test_thresholds_are_compared_with_exact_values(report, limits, missed):
    """1/7 = 0.142857… is below 0.143, and 2/7 = 0.285714… below 0.286."""
    assert len(limits.failures(report)) == missed
    assert limits.any is (limits != Thresholds())
