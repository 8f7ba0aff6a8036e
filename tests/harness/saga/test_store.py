"""The log is the truth: snapshots, torn lines, locks, logs of the original (checks 92 to 97, 99, 100, 102, 104)."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from harness.saga.confine import check_writable_place, clean_path, read_artifact, write_artifact
from harness.saga.errors import ConflictError, PathError, SagaError, StateCorruptedError, UnknownSagaError
from harness.saga.fold import fold
from harness.saga.model import SagaState, check_saga_id, progress_of
from harness.saga.redact import MASK, redact
from harness.saga.store import RunStore

STAGES = [
    {"id": f"stage-{n:02d}", "title": f"T{n}", "goal": "g", "doneCriteria": [{"kind": "file-exists", "path": "a"}]}
    for n in (1, 2, 3)
]


@pytest.fixture
def store(tmp_path: Path, clock: Callable[[], int]) -> RunStore:
    return RunStore(tmp_path, clock=clock)


@pytest.fixture
def saga(store: RunStore) -> str:
    """A saga in its second stage, after one failure."""
    turn = store.create("saga-1", {"profile": "research", "goal": "Find out.", "clarificationLimit": 2})
    turn.emit("plan_produced", stageCount=3, stages=STAGES, summary="s", version=1)
    turn.emit("worker_mode_queued", stageId="stage-01", modeRevision=1, cause="plan")
    turn.emit("eval_completed", stageId="stage-01", passed=True, score=None)
    turn.emit("worker_mode_queued", stageId="stage-02", modeRevision=2, cause="advance")
    turn.emit(
        "recovery_attempt", stageId="stage-02", attempt=1, method="fix-attempt", layer=0, rootCause="x", issues=["no"]
    )
    turn.commit()
    return "saga-1"


def append(store: RunStore, saga: str, *events: tuple[str, dict[str, object]]) -> None:
    with store.turn(saga) as (turn, _):
        for kind, payload in events:
            turn.emit(kind, **payload)
        turn.commit()


def same_without_snapshot(store: RunStore, saga: str) -> SagaState:
    """The state, which must be the same from the log alone."""
    with_snapshot = store.load(saga)
    assert with_snapshot.problems == []
    (store.folder(saga) / "state.json").unlink()
    from_log = store.load(saga)
    assert from_log.state == with_snapshot.state
    return from_log.state


def test_092_cancelled_stays_cancelled(store: RunStore, saga: str) -> None:
    append(store, saga, ("saga_cancelled", {"reason": "no longer needed"}))
    state = same_without_snapshot(store, saga)
    assert state.termination is not None
    assert (state.termination.reason, state.termination.details) == ("aborted_by_user", "no longer needed")


def test_093_counters_survive(store: RunStore, saga: str) -> None:
    state = same_without_snapshot(store, saga)
    assert state.recovery_attempts == {"stage-02": 1}
    assert state.kind == "eval_needs_fix_attempt"


def test_094_completed_stays_completed(store: RunStore, saga: str) -> None:
    append(store, saga, ("saga_terminated", {"reason": "completed", "details": "All 3 stages passed"}))
    state = same_without_snapshot(store, saga)
    assert state.termination is not None
    assert state.termination.reason == "completed"


def test_095_half_a_line_is_left_out_and_reported(store: RunStore, saga: str) -> None:
    before = store.load(saga).state
    log = store.folder(saga) / "events.jsonl"
    with open(log, "ab") as file:
        file.write(b'{"v":2,"seq":7,"ts":"2026-01-01T00:00:00.000Z","sagaId":"saga-1","type":"eval_comp')
    (store.folder(saga) / "state.json").unlink()
    found = store.load(saga)
    assert found.state == before
    assert any("half a line" in problem for problem in found.problems)
    append(store, saga, ("worker_mode_queued", {"stageId": "stage-02", "modeRevision": 3, "cause": "fix"}))
    found = store.load(saga)
    assert found.state.mode_revision == 3
    assert any("events.torn-1.txt" in problem for problem in found.problems)
    assert [event["seq"] for event in store.events(saga)] == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"sagaId": "saga-2"}', b"\xff\xfe"])
def test_096_a_corrupt_snapshot_is_made_anew(store: RunStore, saga: str, damage: bytes) -> None:
    before = store.load(saga).state
    (store.folder(saga) / "state.json").write_bytes(damage)
    found = store.load(saga)
    assert found.state == before
    assert any("state.json cannot be read" in problem for problem in found.problems)


def test_097_the_log_ahead_of_the_snapshot(store: RunStore, saga: str) -> None:
    snapshot = (store.folder(saga) / "state.json").read_bytes()
    append(store, saga, ("eval_completed", {"stageId": "stage-02", "passed": True, "score": None}))
    after = store.load(saga).state
    (store.folder(saga) / "state.json").write_bytes(snapshot)
    found = store.load(saga)
    assert found.folded == 1
    assert found.state == after
    assert found.state.cursor == 2


def test_099_every_prefix_folds_to_the_state_of_its_time(store: RunStore) -> None:
    turn = store.create("saga-2", {"profile": "ops", "goal": "g", "clarificationLimit": 2})
    seen = [turn.state]
    for kind, payload in (
        ("clarification_asked", {"round": 0, "questions": ["Which?"]}),
        ("clarification_answered", {"round": 1, "question": "Which?", "answer": "All."}),
        ("plan_requested", {}),
        ("plan_produced", {"stageCount": 3, "stages": STAGES, "summary": "", "version": 1}),
        ("worker_mode_queued", {"stageId": "stage-01", "modeRevision": 1, "cause": "plan"}),
        ("eval_deep_required", {"stageId": "stage-01", "digest": "d"}),
        ("deep_eval_completed", {"stageId": "stage-01", "passed": True, "score": 4.5, "escalate": False}),
        ("eval_completed", {"stageId": "stage-01", "passed": True, "score": 4.5}),
        ("human_escalated", {"stageId": "stage-02", "reason": "r", "source": "verdict"}),
        ("human_input_received", {"stageId": "stage-02", "text": "go on"}),
        ("budget_checkpoint", {"stageId": "stage-02", "tokens": 10, "wallMs": 5}),
        ("something_new", {"a": 1}),
    ):
        turn.emit(kind, **payload)
        seen.append(turn.state)
    turn.commit()
    lines = (store.folder("saga-2") / "events.jsonl").read_bytes().splitlines()
    assert len(lines) == len(seen)
    for at, state in enumerate(seen, start=1):
        assert fold(msgspec.json.decode(line) for line in lines[:at]) == state
        assert state.last_seq == at


V1 = [
    {"type": "saga_created", "profile": "research", "goal": "Look."},
    {"type": "plan_produced", "stageCount": 3, "stages": STAGES, "summary": "s"},
    {"type": "worker_mode_queued", "stageId": "stage-01", "modeRevision": 1},
    {"type": "eval_deep_required", "stageId": "stage-01"},
    {"type": "deep_eval_completed", "stageId": "stage-01", "passed": True, "score": 4, "escalate": False},
    {"type": "eval_completed", "stageId": "stage-01", "passed": True, "score": 4},
    {"type": "worker_mode_queued", "stageId": "stage-02", "modeRevision": 2},
    {"type": "stage_advanced", "fromStageId": "stage-01", "toStageId": "stage-02"},
    {"type": "eval_completed", "stageId": "stage-02", "passed": True, "score": None},
    {"type": "eval_completed", "stageId": "stage-02", "passed": True, "score": None},
    {"type": "worker_mode_queued", "stageId": "stage-03", "modeRevision": 3},
    {"type": "recovery_attempt", "stageId": "stage-03", "attempt": 1, "method": "fix-attempt", "issues": ["x"]},
]


def v1_log(folder: Path, events: list[dict[str, object]]) -> None:
    folder.mkdir(parents=True)
    stamped = [{**event, "sagaId": "old", "ts": "2026-01-01T00:00:00.000Z"} for event in events]
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in stamped))


def test_100_a_log_of_the_original(store: RunStore) -> None:
    v1_log(store.root / "runs" / "old", V1)
    state = store.load("old").state
    assert (state.cursor, state.mode_revision, state.last_seq) == (2, 3, 12)
    assert state.clarification_limit == 2
    assert state.recovery_attempts == {"stage-03": 1}
    assert state.kind == "eval_needs_fix_attempt"
    append(store, "old", ("worker_mode_queued", {"stageId": "stage-03", "modeRevision": 4, "cause": "fix"}))
    assert same_without_snapshot(store, "old").mode_revision == 4
    assert store.events("old")[-1]["seq"] == 13


def test_100_either_event_of_a_passed_deep_stage_moves_once(store: RunStore) -> None:
    for name, events in (("a", V1[:5]), ("b", V1[:6]), ("c", [*V1[:4], V1[5]])):
        v1_log(store.root / "runs" / name, events)
        assert store.load(name).state.cursor == 1


def test_100_a_snapshot_of_the_original_counts_more_than_its_log(store: RunStore) -> None:
    folder = store.root / "runs" / "old"
    v1_log(folder, V1)
    state = msgspec.to_builtins(store.load("old").state)
    old = {k: state[k] for k in ("sagaId", "profile", "goal", "plan", "stages", "cursor", "modeRevision")}
    old |= {"transition": {"kind": "awaiting_human", "reason": "which one?"}, "recoveryAttempts": {"stage-03": 1}}
    (folder / "state.json").write_text(json.dumps(old))
    assert store.load("old").state.kind == "awaiting_human"
    append(store, "old", ("human_input_received", {"stageId": "stage-03", "text": "the second"}))
    state = same_without_snapshot(store, "old")
    assert state.human_notes == ("the second",)
    assert state.cursor == 2


def test_a_log_that_lost_events_is_reported(store: RunStore, saga: str) -> None:
    log = store.folder(saga) / "events.jsonl"
    before = store.load(saga).state
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:3]))
    found = store.load(saga)
    assert found.state == before
    assert any("lost events" in problem for problem in found.problems)
    append(store, saga, ("worker_mode_queued", {"stageId": "stage-02", "modeRevision": 9, "cause": "fix"}))
    assert same_without_snapshot(store, saga).mode_revision == 9


def test_a_broken_line_in_the_middle_is_reported(store: RunStore, saga: str) -> None:
    log = store.folder(saga) / "events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:5], b"garbage\n", *lines[5:]]))
    (store.folder(saga) / "state.json").unlink()
    found = store.load(saga)
    assert any("events.jsonl:6" in problem for problem in found.problems)
    assert found.state.recovery_attempts == {"stage-02": 1}


def test_nothing_readable_is_an_error(store: RunStore, saga: str) -> None:
    (store.folder(saga) / "state.json").write_text("{")
    (store.folder(saga) / "events.jsonl").write_text("{\n")
    with pytest.raises(StateCorruptedError):
        store.load(saga)


def test_one_writer_at_a_time(store: RunStore, saga: str) -> None:
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with store.turn(saga):
            entered.set()
            leave.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    entered.wait(10)
    with pytest.raises(ConflictError, match="another call"), store.turn(saga):
        pass
    leave.set()
    holder.join()
    append(store, saga, ("cleanup", {"message": "m"}))


def test_a_thousand_events_resume_in_a_tenth_of_a_second(store: RunStore, saga: str) -> None:
    with store.turn(saga) as (turn, _):
        for n in range(1_000):
            turn.emit("worker_mode_queued", stageId="stage-02", modeRevision=n, cause="fix")
            turn.emit(
                "artifacts_submitted", stageId="stage-02", items=[{"path": f"a{n % 50}", "sha256": "0", "bytes": n}]
            )
        turn.commit()

    def took() -> float:
        best = 1.0
        for _ in range(3):
            begin = time.perf_counter()
            assert store.load(saga).state.mode_revision == 999
            best = min(best, time.perf_counter() - begin)
        return best

    assert took() < 0.1
    (store.folder(saga) / "state.json").unlink()
    assert took() < 0.1


def test_a_kept_snapshot_is_never_ahead_of_the_log(store: RunStore, saga: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flushed to the disk first, and an append that fails leaves everything as it was."""
    order: list[str] = []
    fsync, rename = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (order.append("fsync"), fsync(fd))[1])
    monkeypatch.setattr(os, "replace", lambda a, b, **k: (order.append("replace"), rename(a, b, **k))[1])
    append(store, saga, ("cleanup", {"message": "m"}))
    assert order == ["fsync", "fsync", "replace", "fsync"]
    before = store.load(saga).state

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SagaError, match="No space left"):
        append(store, saga, ("cleanup", {"message": "m"}))
    monkeypatch.undo()
    assert store.load(saga).state == before


@pytest.mark.parametrize(
    "path",
    ["../x", "a/../../x", "/etc/passwd", "C:/x", "C:x", "a\\b", "", "  ", ".", "a\0b", "nul", "con.txt", ".superseded",
     "b/../x", "a/" * 20 + "x", "x" * 300, "a\nb", "\ud83d"],
)  # fmt: skip
def test_102_paths_that_lead_out_are_refused(path: str) -> None:
    with pytest.raises(PathError):
        clean_path(path)


def test_102_links_are_refused(tmp_path: Path) -> None:
    root, outside = tmp_path / "artifacts", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("s")
    (root / "folder").symlink_to(outside)
    (root / "file").symlink_to(outside / "secret")
    os.mkfifo(root / "pipe")
    for path in ("folder/x", "file", "pipe"):
        with pytest.raises(PathError):
            check_writable_place(root, path)
        with pytest.raises(PathError):
            write_artifact(root, path, b"x")
    for path in ("folder/secret", "file", "pipe"):
        with pytest.raises(PathError):
            read_artifact(root, path, most=100)
    assert sorted(p.name for p in outside.iterdir()) == ["secret"]
    assert (outside / "secret").read_text() == "s"
    write_artifact(root, "a/b.md", "ä".encode())
    assert read_artifact(root, "a/b.md", most=100) == "ä".encode()


@pytest.mark.parametrize("saga_id", ["../..", "", "a/b", ".hidden", "x" * 200, "a\0", None, 5, "a b", "é"])
def test_104_ids_that_lead_elsewhere_are_refused(store: RunStore, saga_id: object) -> None:
    with pytest.raises(SagaError):
        check_saga_id(saga_id)
    with pytest.raises(UnknownSagaError):
        store.load("nobody")


def test_035_progress(store: RunStore, saga: str) -> None:
    state = store.load(saga).state
    shown = {}
    for cursor in (0, 2, 3):
        found = progress_of(msgspec.structs.replace(state, cursor=cursor))
        shown[cursor] = (found["completedStages"], len(found["remainingStages"]), found["display"])
    assert shown == {
        0: (0, 2, "0/3 stages done\n🔄 T1\n⬜ T2\n⬜ T3"),
        2: (2, 0, "2/3 stages done\n✅ T1\n✅ T2\n🔄 T3"),
        3: (3, 0, "3/3 stages done\n✅ T1\n✅ T2\n✅ T3"),
    }
    assert progress_of(state)["currentStage"] == {"id": "stage-02", "title": "T2"}
    assert progress_of(msgspec.structs.replace(state, cursor=3))["currentStage"] is None
    assert progress_of(state, "zh")["display"].startswith("进度 1/3")


def test_secrets_do_not_enter_events() -> None:
    found = redact(
        {
            "password": "hunter2hunter2",
            "headers": {"Authorization": "Bearer abc.def.ghi-12345"},
            "notes": "key sk-abcdefghijklmnopqrstu and ghp_abcdefghijklmnopqrstuvwx, url https://bob:pw12345@host/x",
            "text": "api_key=ABCDEF123456",
            "tokens": 1200,
            "plain": "the token budget is 5000 tokens",
        }
    )
    text = json.dumps(found)
    for secret in ("hunter2", "abc.def.ghi", "sk-abc", "ghp_", "pw12345", "ABCDEF123456"):
        assert secret not in text
    assert found["tokens"] == 1200
    assert found["plain"] == "the token budget is 5000 tokens"
    assert text.count(MASK) == 6
