"""What a host calls around an agent's turn: a line for the prompt, and a veto before a saga's tool is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.saga.coordinator import Coordinator
from harness.saga.errors import SagaError
from harness.saga.model import REWORKING


def before_prompt(coordinator: Coordinator, session: str) -> str | None:
    """What to put before the next prompt of a session; None if no live saga of it waits for the agent."""
    saga_id = coordinator.sessions.active(session)
    if saga_id is None:
        return None
    try:
        state = coordinator.store.load(saga_id).state
    except SagaError:
        return None
    stage, transition = state.current, state.transition
    if stage is None or transition is None:
        return None
    where = f"Saga {saga_id}, stage {state.cursor + 1}/{len(state.stages)}: {stage.title}"
    if transition.kind == "worker_mode_injected":
        return f"{where}. Work on it and hand it over with saga_advance(workerFinished=true, artifacts=[…])."
    if transition.kind in REWORKING:
        listed = "".join(f"\n- {issue}" for issue in transition.issues)
        return f"{where}. Revision needed:{listed}"
    if transition.kind == "eval_deep_pending":
        return f"{where}. A verdict is due: send saga_advance(evalResult=…); saga_advance alone shows the prompt again."
    return None


def before_tool(coordinator: Coordinator, session: str, tool: str, arguments: Mapping[str, Any]) -> str | None:
    """Why a call of a saga's tool must not be made; None if it may."""
    if tool == "saga_start":
        active = coordinator.sessions.active(session)
        if active is not None:
            return f"this session works on saga {active}; finish or cancel it first"
    if tool == "saga_advance" and not arguments.get("sagaId"):
        return "saga_advance needs the sagaId that saga_start gave"
    return None
