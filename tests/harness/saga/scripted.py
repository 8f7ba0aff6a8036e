"""A scripted agent: plans, artefacts and verdicts as an agent would send them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.saga.coordinator import Coordinator
from harness.saga.model import SagaState
from harness.saga.options import SagaOptions
from harness.saga.parse import ParsedPlan, parse_plan
from harness.saga.profiles import profile_of

TEXT = "Every statement in this file was checked twice, and what could not be checked is said to be unknown.\n"


def plan(*stages: list[dict[str, Any]], evaluator: str | None = "auto") -> str:
    """A plan with these criteria per stage."""
    parts = ["## Summary\nStep by step."]
    for number, criteria in enumerate(stages, start=1):
        mode = f"evaluator: {evaluator}\n" if evaluator else ""
        block = f"done: {json.dumps(criteria)}\n{mode}"
        parts.append(f"## Stage {number}: Part {number}\nGoal: Make part {number}.\n\n```yaml\n{block}```")
    return "\n\n".join(parts)


def file(path: str, **fields: Any) -> dict[str, Any]:
    """A criterion that a file is there."""
    return {"kind": "file-exists", "path": path, **fields}


def files(count: int) -> list[list[dict[str, Any]]]:
    """One file per stage: a1.md, a2.md …"""
    return [[file(f"a{n}.md")] for n in range(1, count + 1)]


def verdict(profile: str = "generic", **changes: Any) -> dict[str, Any]:
    """A verdict that passes, with evidence out of `TEXT`; `H2="FAIL-REWORK"` and the like change items."""
    checklist = profile_of(profile).evaluator.checklist
    hard = [
        {"id": i.id, "status": changes.pop(i.id, "PASS"), "evidence": "was checked twice", "notes": f"note on {i.id}"}
        for i in checklist.hard
    ]
    soft = [{"id": item.id, "score": 4} for item in checklist.soft]
    return {"passed": True, "score": 4, "issues": [], "escalate": False, "checklist": [*hard, *soft], **changes}


class Agent:
    """One saga, and the calls that an agent makes on it."""

    def __init__(
        self, root: Path, clock: Callable[[], int], *, options: SagaOptions | None = None, **changes: Any
    ) -> None:
        self.root = root
        self.changes = changes
        self.coordinator = Coordinator(
            root,
            options,
            clock=clock,
            rng=random.Random(5),
            dependencies=lambda usual: replace(usual, **changes),
        )
        self.id = ""

    def start(self, profile: str = "generic", goal: str = "Make it.", **more: Any) -> dict[str, Any]:
        answer = self.coordinator.start({"goal": goal, "profile": profile, **more})
        self.id = answer["sagaId"]
        return answer

    def planned(self, *stages: list[dict[str, Any]], profile: str = "generic", evaluator: str | None = "auto") -> Agent:
        """Start and submit a plan."""
        self.start(profile)
        answer = self.go(planYaml=plan(*stages, evaluator=evaluator))
        assert answer["nextAction"] == "worker_mode_queued", answer
        return self

    def go(self, **parameters: Any) -> dict[str, Any]:
        return self.coordinator.advance(self.id, parameters)

    def finish(self, **contents: str) -> dict[str, Any]:
        """Finish the stage with files; ``a1_md`` stands for ``a1.md``."""
        artifacts = [{"path": name.replace("_", "."), "content": text} for name, text in contents.items()]
        return self.go(workerFinished=True, artifacts=artifacts)

    def fail(self, times: int = 1) -> list[dict[str, Any]]:
        """Finish with nothing, some times."""
        return [self.go(workerFinished=True) for _ in range(times)]

    @property
    def state(self) -> SagaState:
        return self.coordinator.store.load(self.id).state

    @property
    def folder(self) -> Path:
        return self.coordinator.store.folder(self.id)

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        return [e for e in self.coordinator.store.events(self.id) if kind in (None, e["type"])]

    def forget_snapshot(self) -> SagaState:
        """Delete state.json; the state must not change."""
        before = self.state
        (self.folder / "state.json").unlink()
        assert self.state == before
        return before


def planner(*stages: list[dict[str, Any]], seen: list[str] | None = None) -> Callable[[str], ParsedPlan]:
    """A planner that always gives this plan, and tells what it was asked."""

    def give(goal: str) -> ParsedPlan:
        if seen is not None:
            seen.append(goal)
        return parse_plan(plan(*stages))

    return give
