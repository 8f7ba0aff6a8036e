"""A saga on a terminal while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from harness.saga.history import history
from harness.saga.store import RunStore

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_MARKS = {"done": "✅", "current": "🔄", "open": "⬜"}
_LATEST = 8


def follow(
    store: RunStore,
    saga_id: str,
    seen: Callable[[dict[str, Any]], None],
    *,
    once: bool = False,
    interval: float = 1.0,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Tell of a saga whenever it has changed, until it ends.

    Parameters
    ----------
    seen : callable
        Takes the history (`harness.saga.history.history`).
    once : bool
        Tell once, and stop.

    Returns
    -------
    dict
        The last history.
    """
    last = -1
    while True:
        state = store.load(saga_id).state
        if state.last_seq != last:
            last = state.last_seq
            record = history(store, saga_id)
            seen(record)
        if once or state.termination is not None:
            return record
        sleep(interval)


def watch(store: RunStore, saga_id: str, console: Console, *, once: bool = False, interval: float = 1.0) -> None:
    """Follow a saga on a console: a picture that is redrawn on a terminal, lines elsewhere."""
    if once or not console.is_terminal:
        told = 0

        def lines(record: dict[str, Any]) -> None:
            nonlocal told
            if once:
                console.print(frame(record))
                return
            for entry in record["timeline"]:
                if entry["seq"] > told:
                    console.print(line(entry), markup=False, soft_wrap=True)
                    told = entry["seq"]

        follow(store, saga_id, lines, once=once, interval=interval)
        return
    from rich.live import Live

    with Live(console=console, auto_refresh=False) as live:
        follow(store, saga_id, lambda record: live.update(frame(record), refresh=True), interval=interval)


def line(entry: dict[str, Any]) -> str:
    """One entry of the timeline as text."""
    stage = f" {entry['stage']}" if entry["stage"] else ""
    return f"{entry['ts']}{stage}: {entry['text']}"


def frame(record: dict[str, Any]) -> RenderableType:
    """A history as a picture: stages with attempts and checks, and what happened last."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    stages = Table(title=Text(f"Saga {record['sagaId']}: {record['status']}"), title_justify="left", box=None)
    for name in ("", "stage", "attempts", "checks", "evaluation"):
        stages.add_column(Text(name, style="dim"))
    for stage in record["stages"]:
        evaluations = stage["evaluations"]
        verdict = "" if not evaluations else "passed" if evaluations[-1]["passed"] else "did not pass"
        failed = [check for check in stage["checks"] if not check["passed"]]
        checks = f"{len(stage['checks']) - len(failed)}/{len(stage['checks'])}" if stage["checks"] else ""
        stages.add_row(_MARKS[stage["mark"]], Text(stage["title"]), str(stage["attempts"]), Text(checks), Text(verdict))
        for check in failed:
            stages.add_row("", Text(f"✗ {check['kind']}: {check['detail']}", style="red"), "", "", "")
    latest = [Text(line(entry), style="dim") for entry in record["timeline"][-_LATEST:]]
    return Group(stages, Text(""), *latest)
