"""The event log and what follows it. Acceptance checks 55 to 69."""

from __future__ import annotations

import multiprocessing
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.runtime.blobs import BlobStore
from harness.runtime.cache import SolutionCache
from harness.runtime.errors import BlobCorrupt, BlobMissing, LeaseLost, RunStoreError, UnknownRunError
from harness.runtime.retrieval import index_chunk, make_chunk, search
from harness.runtime.sessions import is_dead, new_session
from harness.runtime.store import RunStore

Opener = Callable[[], RunStore]


@pytest.fixture
def opener(tmp_path: Path) -> Iterator[Opener]:
    opened: list[RunStore] = []

    def open_one() -> RunStore:
        opened.append(RunStore(tmp_path / "sherpa.db", BlobStore(tmp_path / "blobs")))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(opener: Opener) -> RunStore:
    made = opener()
    started(made, "r")
    return made


def started(store: RunStore, run: str, parent: str | None = None) -> None:
    store.append(run, "run_started", {"status": "running", "problem_sha": "0", "parent_run_id": parent})


FINDING: dict[str, Any] = {
    "finding_id": "find_1", "subject": "output:p", "criterion": "c", "evidence_ref": "e", "blocking": True,
    "disposition": "open", "rationale": "",
}  # fmt: skip


def test_055_numbers_rise_and_payloads_come_back(store: RunStore) -> None:
    first = store.append("r", "journal_appended", {"kind": "intent", "text": "ü", "n": [1, {"x": None}]})
    second = store.append("r", "journal_appended", {"z": 1, "a": 2})
    assert second == first + 1
    events = list(store.events("r", since_seq=first - 1))
    assert events[0].payload == {"kind": "intent", "text": "ü", "n": [1, {"x": None}]}
    assert [e.seq for e in store.events("r", kinds=["journal_appended"], limit=1)] == [first]
    assert store.db.execute("SELECT payload FROM events WHERE seq = ?", (second,)).fetchone() == ('{"a":2,"z":1}',)
    with pytest.raises(RunStoreError, match="no kind"):
        store.append("r", "made_up")
    with pytest.raises(RunStoreError, match="no JSON"):
        store.append("r", "journal_appended", {"x": object()})
    assert store.head() == second


def test_056_the_cause_survives(store: RunStore, opener: Opener) -> None:
    cause = store.append("r", "journal_appended", {})
    caused = store.append("r", "journal_appended", {}, causal_seq=1)
    after = store.append("r", "journal_appended", {})
    again = {e.seq: e.causal_seq for e in opener().events("r")}
    assert again == {1: None, cause: 1, caused: 1, after: caused}


@pytest.mark.parametrize(
    "statement", ["UPDATE events SET kind = 'x'", "DELETE FROM events", "DELETE FROM events WHERE seq = 1"]
)
def test_057_the_log_cannot_be_changed(store: RunStore, statement: str) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        store.db.execute(statement)
    assert store.head() == 1


WRITES = st.lists(st.sampled_from(["journal", "node", "cas", "usage", "message", "take", "lease"]), max_size=20)


@settings(max_examples=20)
@given(WRITES)
def test_057_any_writers_leave_the_prefix_alone(tmp_path_factory: pytest.TempPathFactory, writes: list[str]) -> None:
    folder = tmp_path_factory.mktemp("ws")
    store = RunStore(folder / "sherpa.db", BlobStore(folder / "blobs"))
    started(store, "r")
    seen: list[Any] = []
    for write in writes:
        match write:
            case "journal":
                store.append("r", "journal_appended", {})
            case "node":
                store.create_node("r", "n", depth=0, parent_key=None)
            case "cas":
                store.cas_node_state("r", "n", "pending", "running", owner="s")
            case "usage":
                store.add_usage("r", tokens=1)
            case "message":
                store.enqueue("r", "n", "hello")
            case "take":
                store.take_messages("r", "n")
            case _:
                store.leases.acquire("r", "n", "s")
        now = list(store.events())
        assert now[: len(seen)] == seen
        seen = now
    assert store.projection("r") == store.replay_projection("r")
    store.close()


def scripted(store: RunStore) -> None:
    """One of each kind of event that changes a projection."""
    store.create_node("r", "a", depth=0, parent_key=None)
    store.create_node("r", "a/b", depth=1, parent_key="a")
    store.cas_node_state("r", "a", "pending", "running", owner="s1")
    store.cas_node_state("r", "a", "running", "completed")
    store.add_usage("r", tokens=3, cost_usd=0.1, wall_seconds=0.25)
    store.add_usage("r", nodes=1, attempts=2, cost_usd=0.2)
    store.enqueue("r", "a", {"text": "one"})
    store.enqueue("r", "a/b", "two")
    store.take_messages("r", "a")
    store.append("r", "finding_raised", FINDING)
    store.append("r", "finding_disposition", {"finding_id": "find_1", "disposition": "fixed"})
    store.append("r", "run_paused", {"status": "paused", "error": "asked to"})


def test_058_the_projection_is_that_of_the_replay(store: RunStore) -> None:
    scripted(store)
    expected = {
        "status": "paused",
        "error": "asked to",
        "parent_run_id": None,
        "nodes": {
            "a": {"state": "completed", "owner_session": "s1", "depth": 0, "parent_key": None},
            "a/b": {"state": "pending", "owner_session": None, "depth": 1, "parent_key": "a"},
        },
        "usage": {"tokens": 3, "cost_usd": 0.1 + 0.2, "nodes": 1, "attempts": 2, "wall_seconds": 0.25},
        "messages_pending": 1,
        "findings": ["find_1"],
    }
    assert store.projection("r") == expected
    assert store.replay_projection("r") == expected
    store.append("r", "run_resumed", {})
    store.append("r", "run_terminal", {"status": "failed", "error": "why"})
    for found in (store.projection("r"), store.replay_projection("r")):
        assert (found["status"], found["error"]) == ("failed", "why")
    with pytest.raises(UnknownRunError):
        store.projection("nobody")


def test_058_the_tables_can_be_made_anew(store: RunStore) -> None:
    scripted(store)
    before = store.projection("r")
    store.rebuild()
    assert store.projection("r") == before


def test_059_a_stale_expectation_changes_nothing(store: RunStore) -> None:
    store.create_node("r", "a", depth=0, parent_key=None)
    assert store.cas_node_state("r", "a", "pending", "running", owner="s1")
    head = store.head()
    assert not store.cas_node_state("r", "a", "pending", "failed")
    assert not store.cas_node_state("r", "nobody", "pending", "failed")
    assert (store.node_state("r", "a"), store.head()) == ("running", head)
    assert store.cas_node_state("r", "a", "running", "completed")
    assert store.projection("r")["nodes"]["a"]["owner_session"] == "s1"
    with pytest.raises(RunStoreError, match="no state"):
        store.cas_node_state("r", "a", "completed", "excellent")


def test_060_leases(store: RunStore) -> None:
    leases = store.leases
    assert leases.acquire("r", "n", "one", ttl=10, now=100) == 1
    assert leases.acquire("r", "n", "two", ttl=10, now=105) is None
    assert leases.acquire("r", "n", "one", ttl=10, now=106) == 1
    assert leases.renew("r", "n", "one", ttl=10, now=108)
    assert not leases.renew("r", "n", "two", ttl=10, now=108)
    assert not leases.renew("r", "unknown", "one", ttl=10, now=108)
    assert leases.expired(now=117) == []
    assert leases.acquire("r", "n", "two", ttl=10, now=117) is None
    assert leases.expired(now=118) == [("r", "n", "one")]
    assert leases.acquire("r", "n", "two", ttl=10, now=118) == 2
    assert not leases.release("r", "n", "one")
    assert leases.release("r", "n", "two")
    assert leases.acquire("r", "n", "one", ttl=10, now=118) == 3
    kinds = [e.kind for e in store.events("r") if e.kind.startswith("lease")]
    assert kinds.count("lease_denied") == 2
    assert kinds.count("lease_released") == 1


def test_060_a_dead_holder_is_replaced_and_a_live_one_is_not(store: RunStore) -> None:
    context = multiprocessing.get_context("spawn")
    pipe, other = context.Pipe()
    process = context.Process(target=_tell_session, args=(other,))
    process.start()
    session = pipe.recv()
    assert store.leases.acquire("r", "n", session)
    assert store.leases.acquire("r", "n", new_session("r")) is None
    pipe.send("end")
    process.join()
    assert is_dead(session)
    assert store.leases.acquire("r", "n", new_session("r")) == 2
    assert not is_dead(new_session("r"))
    assert not is_dead("somebody")
    assert not is_dead(None)


def _tell_session(pipe: Any) -> None:
    pipe.send(new_session("r"))
    pipe.recv()


def test_060_a_worker_that_lost_its_lease_cannot_write(store: RunStore, opener: Opener) -> None:
    fence = store.leases.acquire("r", "", "one", ttl=10, now=100)
    assert fence is not None
    store.leases.guard("r", "one", fence)
    store.append("r", "journal_appended", {})
    assert opener().leases.acquire("r", "", "two", ttl=10, now=110) == fence + 1
    head = store.head()
    with pytest.raises(LeaseLost):
        store.append("r", "journal_appended", {})
    assert store.head() == head
    store.leases.unguard("r")
    store.append("r", "journal_appended", {})


def test_061_of_two_connections_exactly_one_gets_the_lease(store: RunStore, opener: Opener) -> None:
    others = [opener(), opener()]
    for n in range(100):
        barrier = threading.Barrier(2)
        got: list[int | None] = [None, None]

        def race(
            at: int, key: str = f"n{n}", barrier: threading.Barrier = barrier, got: list[int | None] = got
        ) -> None:
            barrier.wait()
            got[at] = others[at].leases.acquire("r", key, f"session{at}")

        threads = [threading.Thread(target=race, args=(at,)) for at in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(value is not None for value in got) == [False, True]


def test_062_a_message_is_delivered_once(store: RunStore) -> None:
    store.enqueue("r", "a", {"text": "first"})
    store.enqueue("r", "a", "second", sender="planner")
    store.enqueue("r", "b", "other")
    assert store.projection("r")["messages_pending"] == 3
    taken = store.take_messages("r", "a")
    assert [(m.sender, m.payload) for m in taken] == [("user", {"text": "first"}), ("planner", "second")]
    assert store.take_messages("r", "a") == []
    assert store.projection("r")["messages_pending"] == 1 == store.replay_projection("r")["messages_pending"]
    assert [e.kind for e in store.events("r")].count("message_delivered") == 2
    with pytest.raises(UnknownRunError):
        store.enqueue("nobody", "a", "x")


def test_063_usage_is_summed(store: RunStore) -> None:
    store.add_usage("r", tokens=2, nodes=1)
    store.add_usage("r", tokens=5)
    assert store.projection("r")["usage"] == {
        "tokens": 7, "cost_usd": 0.0, "nodes": 1, "attempts": 0, "wall_seconds": 0.0,
    }  # fmt: skip
    with pytest.raises(RunStoreError, match="seconds"):
        store.add_usage("r", seconds=1)


def test_064_running_out_of_budget_is_no_evidence(store: RunStore) -> None:
    cache = SolutionCache(store)
    with pytest.raises(RunStoreError, match="inconclusive"):
        cache.put("s", {"status_class": "failed", "inconclusive": True})
    assert cache.get("s") is None
    cache.put("s", {"status_class": "solved", "inconclusive": True})
    cache.put("t", {"status_class": "failed", "inconclusive": False})
    assert cache.get("s") == {"status_class": "solved", "inconclusive": True}
    assert cache.get("t") == {"status_class": "failed", "inconclusive": False}
    cache.put("u", {"status_class": "failed", "expires_ts": 1.0})
    assert cache.get("u") is None


HOSTILE = [
    "", " ", '"', '""', "'",
    "AND", "OR", "NOT", "a AND", "NEAR(a b)", "a*", "^a", "a:b", "text:x", "-a", "+a", "(", ")",
    "{a}", "a;DROP TABLE x", "%", "_", "\0", "☃", "{text}: a", "a NEAR/2 b", "\\",
]  # fmt: skip


@pytest.mark.parametrize("query", HOSTILE)
def test_065_any_query_is_only_words(store: RunStore, query: str) -> None:
    index_chunk(store, "r", make_chunk("d", 0, "nothing of interest", 0))
    assert isinstance(search(store, query), list)
    assert len(HOSTILE) == 27


def test_065_unusual_words_are_found(store: RunStore) -> None:
    texts = [
        "the code is ZEBRA-77 here",
        "the ratio foo:bar rose",
        "ein Café in Zürich",
        "我们在東京見面",
        "cats AND dogs",
        "dogs OR cats",
    ]
    for n, text in enumerate(texts):
        index_chunk(store, "r", make_chunk("d", n, text, 0))
    for query, expected in [("ZEBRA-77", 0), ("foo:bar", 1), ("café", 2), ("Zürich", 2), ("東京", 3), ("見面", 3)]:
        assert [hit.chunk_id for hit in search(store, query)] == [f"d:{expected}"], query
    assert [hit.chunk_id for hit in search(store, "dogs AND cats")] == ["d:4"]
    assert [hit.chunk_id for hit in search(store, "dogs OR cats")] == ["d:5"]
    assert search(store, "absent") == []


def test_066_a_chunk_that_is_indexed_again_is_found_once(store: RunStore) -> None:
    for text in ("old words", "new words", "new words"):
        index_chunk(store, "r", make_chunk("d", 0, text, 0))
    assert [hit.snippet for hit in search(store, "words")] == ["new words"]
    assert search(store, "old") == []


def test_066_searches_keep_to_a_run_and_a_prefix(store: RunStore) -> None:
    started(store, "other")
    index_chunk(store, "r", make_chunk("a_b", 0, "words", 0))
    index_chunk(store, "r", make_chunk("axb", 0, "words", 0))
    index_chunk(store, "other", make_chunk("a_b", 0, "words", 0))
    assert len(search(store, "words")) == 3
    assert [hit.doc_id for hit in search(store, "words", run_id="r", doc_prefix="a_")] == ["a_b"]
    assert len(search(store, "words", k=1)) == 1


def test_067_blobs(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    sha = blobs.put(b"bytes")
    assert len(sha) == 64
    assert blobs.put(b"bytes") == sha
    assert [p.name for p in (tmp_path / "objects" / sha[:2]).iterdir()] == [sha]
    assert blobs.get(sha) == b"bytes"
    for unknown in ("0" * 64, "short", "../" * 20, sha.upper()):
        with pytest.raises(KeyError):
            blobs.get(unknown)
    with pytest.raises(BlobMissing, match="no blob"):
        blobs.get("0" * 64)
    blobs.path(sha).write_bytes(b"other")
    with pytest.raises(BlobCorrupt):
        BlobStore(tmp_path).get(sha)


def test_068_findings_belong_to_a_run(store: RunStore) -> None:
    started(store, "other")
    store.append("r", "finding_raised", FINDING)
    store.append("r", "finding_raised", FINDING | {"rationale": "again"})
    store.append("other", "finding_raised", FINDING | {"finding_id": "find_2"})
    assert store.projection("r")["findings"] == ["find_1"] == store.replay_projection("r")["findings"]
    assert store.projection("other")["findings"] == ["find_2"]


def test_069_a_reader_sees_what_is_committed(store: RunStore, opener: Opener) -> None:
    reader = opener()
    with store.transaction():
        store.append("r", "journal_appended", {})
        assert reader.head() == 1
    assert reader.head() == 2
    with pytest.raises(RunStoreError, match="no kind"):
        _append_then_fail(store)
    assert store.head() == reader.head() == 2
    store.append("r", "journal_appended", {})
    assert [e.causal_seq for e in reader.events("r")] == [None, 1, 2]


def _append_then_fail(store: RunStore) -> None:
    with store.transaction():
        store.append("r", "journal_appended", {})
        store.append("r", "made_up", {})


def test_069_a_family_of_runs(store: RunStore) -> None:
    started(store, "child", "r")
    started(store, "grandchild", "child")
    started(store, "stranger")
    assert store.descendants("r") == {"r", "child", "grandchild"}
