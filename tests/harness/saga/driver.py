"""An agent that only looks at saga_status to know what to do next; it can be killed anywhere and started again."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.saga.coordinator import Coordinator
from harness.saga.model import SagaState
from tests.harness.saga.scripted import TEXT, file, plan, verdict

PLAN = plan([file("a.md", minBytes=60)], [file("b.md"), file("memory-entry.md")], evaluator="deep")


def step(coordinator: Coordinator, saga_id: str) -> dict[str, Any]:
    """The call that an agent would make now. The first stage fails four times, the second one asks a person once."""
    state = coordinator.store.load(saga_id).state
    return coordinator.advance(saga_id, _parameters(state))


def _parameters(state: SagaState) -> dict[str, Any]:
    if state.plan is None:
        return {"planYaml": PLAN}
    if state.kind == "eval_deep_pending":
        asks = state.cursor == 1 and not state.human_notes
        return {"evalResult": verdict("ops", H1="FAIL-ESCALATE") if asks else verdict("ops")}
    if state.kind == "awaiting_human":
        return {"humanInput": "the device is reachable again"}
    if state.kind in (None, "plan_required", "eval_passed", "rework_full"):
        return {}
    if state.cursor == 0:
        tries = state.recovery_attempts.get("stage-01", 0)
        content = TEXT if tries >= 4 else f"short {tries}"
        return {"workerFinished": True, "artifacts": [{"path": "a.md", "content": content}]}
    artifacts = [{"path": path, "content": f"{path}\n{TEXT}"} for path in ("b.md", "memory-entry.md")]
    return {"workerFinished": True, "artifacts": artifacts}


def run(root: Path) -> SagaState:
    """Begin a saga, or go on with the one that is there, to its end."""
    coordinator = Coordinator(root, clock=time.time_ns, rng=random.Random(7))
    ids = coordinator.store.ids()
    saga_id = ids[0] if ids else coordinator.start({"goal": "Repair the printer.", "profile": "ops"})["sagaId"]
    for _ in range(60):
        if step(coordinator, saga_id)["nextAction"] == "terminated":
            break
    return coordinator.store.load(saga_id).state


def killed_at(number: int, *, after: bool) -> None:
    """Let the process die at its n-th operation on the disk, before or after it."""
    count = 0

    def deadly(operation: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            if count == number and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            mine = count
            try:
                return operation(*args, **kwargs)
            finally:
                if mine == number and after:
                    os.kill(os.getpid(), signal.SIGKILL)

        return wrapped

    for name in ("fsync", "replace", "rename", "truncate", "mkdir"):
        setattr(os, name, deadly(getattr(os, name)))


def without_waiting() -> None:
    """What a killed process wrote is with the system already: only a power cut needs the disk to have it, too."""
    vars(os)["fsync"] = lambda handle: None


def sweep(base: Path, stride: int) -> int:
    """Kill at every operation, or every few, in turn; returns how many there are about.

    Forks, so nothing here may have threads.
    """
    number = 1 - stride
    while True:
        number += stride
        root = base / str(number)
        child = os.fork()
        if child == 0:
            without_waiting()
            killed_at(number, after=number // stride % 2 == 0)
            run(root)
            os._exit(0)
        _, code = os.waitpid(child, 0)
        survived = os.WIFEXITED(code)
        assert survived or os.WTERMSIG(code) == signal.SIGKILL, code
        child = os.fork()
        if child == 0:
            without_waiting()
            check(root)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0, f"not carried on after operation {number}"
        if survived:
            return number - 1


def check(root: Path) -> None:
    """The saga goes on to its end, and nothing was skipped, repeated or lost on the way."""
    # A run that died before its first event is no saga: nobody was told its id.
    state = run(root)
    coordinator = Coordinator(root)
    assert len(coordinator.store.ids()) == 1
    assert state.termination is not None
    assert state.termination.reason == "completed", state.termination
    events = coordinator.store.events(state.saga_id)
    assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
    assert [e["stageId"] for e in events if e["type"] == "eval_completed"] == ["stage-01", "stage-02"]
    methods = [e["method"] for e in events if e["type"] == "recovery_attempt"]
    assert methods == ["fix-attempt", "fix-attempt", "microcompact-retry", "full-rework"], methods
    assert [e["type"] for e in events].count("human_input_received") == 1
    folder = coordinator.store.folder(state.saga_id)
    assert (folder / "artifacts" / "a.md").read_text() == TEXT
    assert (folder / "artifacts" / "b.md").read_text() == f"b.md\n{TEXT}"
    entries = "".join(path.read_text() for path in (root / "memory").glob("*.md"))
    assert entries.count("<!-- saga ") == 1
    (folder / "state.json").unlink()
    assert coordinator.store.load(state.saga_id).state == state


if __name__ == "__main__":
    print(sweep(Path(sys.argv[1]), int(sys.argv[2])))
