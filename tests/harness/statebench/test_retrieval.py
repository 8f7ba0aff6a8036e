"""Which cards answer a query."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.statebench.build import build
from harness.statebench.lexical import BM25
from harness.statebench.retrieval import Corpus, Learning, Learnings, Settings
from harness.statebench.trajectories import Trajectory
from tests.conftest import PROJECT
from tests.harness.statebench.made import call, run, runs

RETURNS = runs(
    ("I want to return a broken kettle", call("get_order"), call("process_return", reason="defective")),
    ("I want to return a broken toaster", call("get_order"), call("process_return", reason="defective")),
    ("I want to return a broken lamp", call("get_customer"), call("process_exchange")),
    ("Cancel the shipment of a carpet", call("cancel_order", confirm=True)),
    (
        "Which fee has a late return",
        call("get_policies", {"topic": "late_return", "rules": ["8 %"]}, topic="late_return"),
    ),
)
FLIGHTS = [run("Move my flight to Monday", call("update_booking", confirm=True), domain="travel")]


def learnings(of: Sequence[Trajectory] = (*RETURNS, *FLIGHTS)) -> Learnings:
    return Learnings(build(of))


def shown(query: str, top_k: int = 3, domain: str | None = "support", of: Learnings | None = None) -> list[str]:
    corpus = (of or learnings()).corpus(domain)
    assert corpus is not None
    return [card.id for card in corpus.retrieve(query, top_k)]


def test_the_most_alike_run_comes_first() -> None:
    assert shown("broken kettle return")[0] == "support/run/000"
    assert shown("cancel the carpet shipment")[0] == "support/run/003"


def test_an_answer_covers_different_paths() -> None:
    # Kettle and toaster are one procedure: the second card is of another one, though its request is less alike.
    first, second = shown("return a broken kettle", 2)
    assert first == "support/run/000"
    assert second != "support/run/001"


def test_a_card_is_not_shown_twice_if_two_runs_are_equal() -> None:
    twice = runs(*[("return a broken kettle", call("get_order"))] * 3, ("return a broken lamp", call("get_cart")))
    assert shown("return a broken kettle", of=learnings(twice)) == ["support/run/000", "support/run/003"]


@pytest.mark.parametrize("top_k", [1, 2, 3])
def test_an_answer_is_no_longer_than_asked(top_k: int) -> None:
    assert len(shown("return a broken lamp kettle toaster", top_k)) == top_k


def test_the_same_query_gives_the_same_texts() -> None:
    memory, again = learnings(), learnings()
    query = "return a broken toaster"
    assert memory.retrieve(query, domain="support") == memory.retrieve(query, domain="support")
    assert again.retrieve(query, domain="support") == memory.retrieve(query, domain="support")


@pytest.mark.parametrize(
    "query", ["", "hello", "please could you help me", "kettle", "prove a theorem of topology", "9"]
)
def test_a_query_about_something_else_gets_nothing(query: str) -> None:
    assert shown(query) == []


def test_cards_of_another_domain_are_not_shown() -> None:
    assert shown("return a broken kettle", domain="travel") == []
    assert shown("Move my flight to Monday", domain="travel") == ["travel/run/000"]
    assert learnings().retrieve("return a broken kettle", domain="banking") == []
    assert shown("Move my flight to Monday", domain=None)[0] == "travel/run/000"


def test_a_policy_that_is_asked_for_takes_one_slot() -> None:
    assert shown("policy for a late return")[-1] == "support/policy/late_return/0"
    assert "support/policy/late_return/0" not in shown("a late return of a kettle")


def test_a_step_that_is_named_brings_its_procedure() -> None:
    many = [run(f"return item number {at}", call("process_return", reason="x"), place=at) for at in range(6)]
    assert "support/procedure/process_return" in shown("process_return of an item", of=learnings(many))
    assert "support/procedure/process_return" not in shown("return of an item number", of=learnings(many))


def test_the_run_that_is_held_out_is_gone_from_the_statistics_too() -> None:
    documents = [["a", "b"], ["a", "c"], ["b", "c", "c"], ["d"]]
    for out in range(4):
        rest = BM25([document for at, document in enumerate(documents) if at != out])
        moved = {at if at < out else at + 1: score for at, score in rest.scores(["a", "c", "d"]).items()}
        assert BM25(documents).scores(["a", "c", "d"], without=out) == pytest.approx(moved)


def test_bm25_by_hand() -> None:
    # Three documents of 2, 2 and 4 words: mean 8/3. The word is in one, twice; idf = ln(1 + 2.5/1.5).
    index = BM25([["x", "x"], ["y", "z"], ["y", "y", "y", "z"]])
    norm = 1.5 * (1 - 0.75 + 0.75 * 2 / (8 / 3))
    assert index.scores(["x"]) == pytest.approx({0: 0.98082925 * 2 * 2.5 / (2 + norm)})


def test_a_choice_by_hand() -> None:
    # Paths: two equal, one of other tools. Scores are made equal, so each has a third of the mass.
    def card(name: str, *path: str) -> Learning:
        return Learning(name, "trajectory", "d", name, ("alpha", "beta"), path, frozenset(), frozenset())

    cards = [card("p", "a", "b"), card("q", "a", "b"), card("r", "c")]
    corpus = Corpus(cards, Settings(relevance=0.0, topics=0.0))
    # First p (worth 2/3, as q, but before it), then r (adds 1/3) and not q (adds nothing).
    assert [found.id for found in corpus.retrieve("alpha beta", 3)] == ["p", "r", "q"]


@given(st.text(max_size=80), st.integers(-2, 6))
def test_no_query_breaks_it(query: str, top_k: int) -> None:
    texts = _SHARED.retrieve(query, top_k, domain="support")
    assert len(texts) <= max(0, top_k)
    assert len(set(texts)) == len(texts)


_SHARED = learnings()


def test_threads_get_what_one_thread_gets() -> None:
    queries = [f"return a broken {thing} {number}" for number in range(50) for thing in ("kettle", "lamp", "toaster")]
    expected = [learnings().retrieve(query, domain="support") for query in queries]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda query: _SHARED.retrieve(query, domain="support"), queries)) == expected


def test_nothing_but_the_standard_library_is_imported(tmp_path: Path) -> None:
    path = tmp_path / "learnings.json"
    path.write_text(json.dumps(build(RETURNS)))
    program = (
        "import sys\n"
        "from harness.statebench.adapter import SherpaMemory, SherpaMemoryTools\n"
        "import harness.statebench.preflight\n"
        f"SherpaMemory.learnings_path = {str(path)!r}\n"
        "assert len(SherpaMemory().retrieve_learnings('return a broken kettle', top_k=3)) == 3\n"
        "own = {'harness'}\n"
        "loaded = {name.split('.')[0] for name in sys.modules} - own\n"
        "print(sorted(loaded - set(sys.stdlib_module_names) - {'__main__'}))\n"
    )
    # -S: no site-packages at all, so that a third-party import cannot succeed.
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    assert done.stderr == ""
    assert done.stdout.strip() == "[]"
