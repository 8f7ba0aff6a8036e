"""What the index answers is what a scan answers: for every state, mode and limit, while cases come, grow and go."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sherpa import EngineConfig, ProceduralMemory
from sherpa.branches import CaseFinder, Scan
from sherpa.caseindex import CaseIndex
from sherpa.collation import collation_key, collation_order
from sherpa.finding import FILE, Finding
from sherpa.lifts import branch_lifts
from sherpa.queries import workflow_recall
from sherpa.suffixes import SuffixIndex

CONFIG = EngineConfig(default_order=3, max_order=3)
TYPES = "abc"
case_names = st.sampled_from(["x1", "X1", "é", "a b", "10", "9", "z", "zz"])
kinds = st.sampled_from(TYPES)
outcomes = st.sampled_from(["success", "failure", "unknown"])
batches = st.lists(st.lists(st.tuples(case_names, kinds, outcomes), min_size=1, max_size=20), min_size=1, max_size=4)
states = st.lists(st.sampled_from([*TYPES, "never"]), min_size=1, max_size=3)


def ingest(memory: ProceduralMemory, batch: list[tuple[str, str, str]], at: int) -> None:
    memory.ingest_batch(
        [
            {"caseId": c, "source": "s", "type": k, "outcome": o, "ts": f"2026-01-01T00:{at:02d}:{n:02d}Z"}
            for n, (c, k, o) in enumerate(batch)
        ]
    )


def agree(index: CaseFinder, scan: CaseFinder, state: list[str], without: str) -> None:
    for mode in ("any", "successful", "failed"):
        for limit in (1, 2, 50):
            one = workflow_recall(index, without, state, CONFIG, mode=mode, limit=limit)
            other = workflow_recall(scan, without, state, CONFIG, mode=mode, limit=limit)
            assert one == other, (mode, limit)
    one_tally, other_tally = index.tally(state, without), scan.tally(state, without)
    assert one_tally.outcomes == other_tally.outcomes
    assert one_tally.following == other_tally.following
    assert branch_lifts(one_tally, min_cases=1) == branch_lifts(other_tally, min_cases=1)


@settings(max_examples=80)
@given(given_batches=batches, state=states, asked=case_names, forgotten=st.booleans())
def test_index_and_scan_agree(given_batches: Any, state: list[str], asked: str, forgotten: bool) -> None:
    with tempfile.TemporaryDirectory() as root, ProceduralMemory(root, CONFIG) as memory:
        finding = Finding(memory.store, worth=0)
        for at, batch in enumerate(given_batches):
            ingest(memory, batch, at)
            if forgotten and at == 1:
                memory.forget(batch[0][0])
            with memory.store.snapshot():
                finder = finding.finder(3)
                assert isinstance(finder, CaseIndex)
                agree(finder, Scan(memory.store), state, asked)
                again = Finding(memory.store, worth=0).finder(3)
                agree(again, Scan(memory.store), state, asked)


def many(memory: ProceduralMemory, cases: int, start: int = 0) -> None:
    memory.ingest_batch(
        [
            {"caseId": f"c{start + n}", "source": "s", "type": TYPES[(n + k) % 3], "ts": f"2026-01-02T00:00:{k:02d}Z"}
            for n in range(cases)
            for k in range(3)
        ]
    )


def test_the_file_is_used_again_and_not_when_the_graph_is_another(tmp_path: Path, monkeypatch: Any) -> None:
    with ProceduralMemory(tmp_path, CONFIG) as memory:
        many(memory, 10)
        with memory.store.snapshot():
            Finding(memory.store, worth=1).finder(3)
        assert (tmp_path / FILE).exists()
        many(memory, 2, start=10)

        def never(*_: Any) -> None:
            raise AssertionError("made again")

        with monkeypatch.context() as patch, memory.store.snapshot():
            patch.setattr(CaseIndex, "build", never)
            finder = Finding(memory.store, worth=1).finder(3)
            assert isinstance(finder, CaseIndex)
            assert sorted(finder.changed) == ["c10", "c11"]
        memory.rebuild()
        with memory.store.snapshot():
            fresh = Finding(memory.store, worth=1).finder(3)
            assert isinstance(fresh, CaseIndex)
            assert not fresh.changed
            other = Finding(memory.store, worth=1).finder(2)
            assert isinstance(other, CaseIndex)
            assert len(other.suffixes.orders) == 2


def test_many_changes_make_it_anew(tmp_path: Path) -> None:
    with ProceduralMemory(tmp_path, CONFIG) as memory:
        many(memory, 10)
        finding = Finding(memory.store, worth=1)
        with memory.store.snapshot():
            finding.finder(3)
        many(memory, 301, start=10)
        with memory.store.snapshot():
            finder = finding.finder(3)
            assert isinstance(finder, CaseIndex)
            assert (len(finder.case_ids), len(finder.changed)) == (311, 0)


@pytest.mark.parametrize("damage", [b"", b"sherpa case index 1\n{broken\n", None])
def test_a_damaged_file_is_made_again(damage: bytes | None, tmp_path: Path) -> None:
    with ProceduralMemory(tmp_path, CONFIG) as memory:
        many(memory, 10)
        with memory.store.snapshot():
            Finding(memory.store, worth=1).finder(3)
            whole = (tmp_path / FILE).read_bytes()
            (tmp_path / FILE).write_bytes(whole[:-200] if damage is None else damage)
            agree(Finding(memory.store, worth=1).finder(3), Scan(memory.store), ["a"], "c1")
        assert (tmp_path / FILE).read_bytes() == whole


def test_a_forgotten_case_leaves_no_byte_in_the_file(tmp_path: Path) -> None:
    with ProceduralMemory(tmp_path, CONFIG) as memory:
        many(memory, 3)
        memory.ingest({"caseId": "a-secret-name", "source": "s", "type": "a"})
        with memory.store.snapshot():
            Finding(memory.store, worth=1).finder(3)
        assert b"a-secret-name" in (tmp_path / FILE).read_bytes()
        memory.forget("a-secret-name")
        assert not (tmp_path / FILE).exists()


def test_states_that_do_not_fit_into_a_word_are_scanned(tmp_path: Path) -> None:
    config = EngineConfig(default_order=16, max_order=16)
    with ProceduralMemory(tmp_path, config) as memory:
        memory.ingest_batch([{"caseId": "c", "source": "s", "type": f"t{n}"} for n in range(40)])
        assert SuffixIndex.build(memory.store.case_log(), 16) is None
        with memory.store.snapshot():
            assert isinstance(Finding(memory.store, worth=1).finder(16), Scan)


@given(st.lists(st.text(st.sampled_from("aAbB1 _-~\t\x00éß|9"), max_size=4), max_size=12))
def test_collation_order_is_that_of_the_keys(texts: list[str]) -> None:
    assert [texts[at] for at in collation_order(texts)] == sorted(texts, key=collation_key)
