"""Training runs of STATE-Bench, and finding a text among others."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harness.statebench.lexical import BM25, words
from harness.statebench.trajectories import Trajectory, read_trajectories
from sherpa.errors import SourceError


def write(folder: Path, name: str, messages: list[dict[str, Any]], **more: Any) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"conversation": messages, **more}))


def call(tool: str, result: Any, **arguments: Any) -> dict[str, Any]:
    return {"name": tool, "arguments": arguments, "result": result}


RUN: list[dict[str, Any]] = [
    {"role": "system", "content": "You help customer cust_1."},
    {"role": "user", "content": "Cancel my order, please."},
    {
        "role": "assistant",
        "content": "One moment.",
        "tool_calls": [
            call("get_policies", {"topic": "cancel", "rules": {}}, topic="cancel"),
            call("cancel_order", {"status": "preview"}, order_id="ORD-1", confirm=False),
            call("cancel_order", {"status": "rejected"}, order_id="ORD-1", confirm=True),
            call("cancel_order", {"status": "cancelled"}, order_id="ORD-1", confirm=True, reason="changed mind"),
        ],
    },
    {"role": "user", "content": "[TASK_DONE]"},
]


def read_one(folder: Path) -> Trajectory:
    [found] = read_trajectories(folder)
    return found


def test_a_run(tmp_path: Path) -> None:
    write(tmp_path, "support/7-secret_name.json", RUN)
    run = read_one(tmp_path)
    assert (run.domain, run.place, run.opening) == ("support", 0, "Cancel my order, please.")
    assert run.user == ("Cancel my order, please.",)
    assert [c.kind for c in run.calls] == ["ok", "preview", "rejected", "ok"]
    assert run.sequence == ("get_policies", "cancel_order.preview", "cancel_order.confirm")
    assert run.topics == {"cancel"}
    assert run.written == {("cancel_order", "changed mind")}
    assert not run.clean
    assert "secret" not in repr(run)


@pytest.mark.parametrize(
    ("tool", "result", "kind"),
    [
        ("get_order", {"error": "no such order"}, "error"),
        ("get_order", {"errors": []}, "error"),
        ("validate_promo", {"valid": False}, "negative"),
        ("check_compatibility", {"compatible": False}, "negative"),
        ("search_flights", {"flights": [], "message": "none"}, "empty"),
        ("search_flights", {"flights": [{}], "warnings": []}, "ok"),
        ("get_cart", {"items": []}, "ok"),
        ("get_order", "a text", "ok"),
    ],
)
def test_what_a_result_says_of_itself(tmp_path: Path, tool: str, result: Any, kind: str) -> None:
    messages = [{"role": "assistant", "content": "", "tool_calls": [call(tool, result)]}]
    write(tmp_path, "d/1.json", messages)
    assert [c.kind for c in read_one(tmp_path).calls] == [kind]


def test_the_same_call_again_is_seen_whatever_the_order_of_its_arguments(tmp_path: Path) -> None:
    calls = [call("get", {}, a=1, b=2), call("get", {}, b=2, a=1), call("get", {}, a=1)]
    write(tmp_path, "d/1.json", [{"role": "assistant", "tool_calls": calls}])
    run = read_one(tmp_path)
    assert [c.repeated for c in run.calls] == [False, True, False]
    assert not run.clean


def test_labels_in_a_file_are_not_looked_at(tmp_path: Path) -> None:
    write(tmp_path, "a/d/1.json", RUN, task_type="x", state_requirements=["y"], success=True)
    write(tmp_path, "b/d/1.json", RUN)
    assert read_one(tmp_path / "a") == read_one(tmp_path / "b")


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "broken JSON"), ("[]", "is not a run"), ('{"conversation": [1]}', "must be an object")],
)
def test_what_is_no_run(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "1.json").write_text(text)
    with pytest.raises(SourceError, match=said):
        list(read_trajectories(tmp_path))
    with pytest.raises(SourceError, match="holds no domains"):
        list(read_trajectories(tmp_path / "d"))


def test_the_training_runs(data: Path) -> None:
    """Counts of an independent reading. It has 504 empty searches where three lists of support are empty, not two."""
    runs = list(read_trajectories(data / "statebench-train"))
    assert Counter(run.domain for run in runs) == {"travel": 100, "customer_support": 100, "shopping_assistant": 100}
    kinds = Counter(c.kind for run in runs for c in run.calls)
    assert sum(kinds.values()) == 2842
    assert (kinds["preview"], kinds["rejected"], kinds["error"], kinds["negative"]) == (348, 85, 31, 11)
    empty = Counter(run.domain for run in runs for c in run.calls if c.kind == "empty")
    assert empty == {"travel": 456, "customer_support": 3, "shopping_assistant": 46}
    assert sum(any(c.repeated for c in run.calls) for run in runs) == 102
    assert sum(any(c.kind in ("error", "rejected") for c in run.calls) for run in runs) == 27
    assert sum(run.clean for run in runs) == 189
    by_domain = {d: sum(bool(r.topics) for r in runs if r.domain == d) for d in Counter(r.domain for r in runs)}
    assert by_domain == {"travel": 51, "customer_support": 98, "shopping_assistant": 28}
    assert {d: len({r.sequence for r in runs if r.domain == d}) for d in by_domain}["travel"] > 80


def test_bm25() -> None:
    """Two documents of 2 and 4 words, mean 3. The word b: in one of two, idf = ln(1 + 1.5/1.5) = ln 2.

    In the second document (4 words, b twice): 2·2.5/(2 + 1.5·(0.25 + 0.75·4/3)) = 5/3.875.
    """
    index = BM25([["a", "c"], ["b", "b", "c", "d"]])
    scores = index.scores(["b", "x"])
    assert scores == pytest.approx({1: math.log(2) * 5 / 3.875})
    assert index.rank(["c"]) == [0, 1]
    assert index.rank(["x"]) == []
    assert BM25([]).rank(["a"]) == []


def test_the_asked_document_can_be_left_out() -> None:
    documents = [["a", "b"], ["a", "c"], ["a", "d", "d"]]
    left_out = BM25(documents).scores(["a", "d"], without=1)
    assert left_out == pytest.approx(
        {(0 if at == 0 else 2): score for at, score in BM25([documents[0], documents[2]]).scores(["a", "d"]).items()}
    )


def test_words() -> None:
    assert words("Cancel order ORD-7, it's late!") == ["cancel", "order", "ord", "7", "it", "s", "late"]
