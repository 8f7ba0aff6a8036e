"""What the log says about a run: twice, as tables kept up to date with each event, and as a replay of the events."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

from harness.runtime.events import USAGE_FIELDS, RunEvent
from harness.runtime.ir import canonical


def project(db: sqlite3.Connection, event: RunEvent) -> None:
    """Bring the tables up to date with one event, inside the transaction that appends it."""
    run, key, payload = event.run_id, event.node_key, event.payload
    match event.kind:
        case "run_started":
            db.execute(
                "INSERT INTO runs(run_id, status, problem_sha, parent_run_id, created_ts) VALUES (?, ?, ?, ?, ?)",
                (run, payload["status"], payload.get("problem_sha"), payload.get("parent_run_id"), event.ts),
            )
            db.execute("INSERT INTO usage(run_id) VALUES (?)", (run,))
        case "plan_recorded":
            if payload.get("child_plan") is None:
                db.execute("UPDATE runs SET plan_sha = ? WHERE run_id = ?", (payload.get("plan_sha"), run))
        case "run_terminal" | "run_paused":
            db.execute(
                "UPDATE runs SET status = ?, error = ?, control = NULL WHERE run_id = ?",
                (payload["status"], payload.get("error"), run),
            )
        case "run_resumed":
            db.execute("UPDATE runs SET status = 'running', error = NULL, control = NULL WHERE run_id = ?", (run,))
        case "control_requested":
            db.execute("UPDATE runs SET control = ? WHERE run_id = ?", (payload["action"], run))
        case "node_created":
            db.execute(
                "INSERT OR IGNORE INTO nodes(run_id, node_key, state, depth, parent_key, updated_ts) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (run, key, payload["state"], payload.get("depth"), payload.get("parent_key"), event.ts),
            )
        case "node_state_changed":
            db.execute(
                "UPDATE nodes SET state = ?, owner_session = COALESCE(?, owner_session), updated_ts = ? "
                "WHERE run_id = ? AND node_key = ?",
                (payload["new"], payload.get("owner_session"), event.ts, run, key),
            )
        case "message_enqueued":
            db.execute(
                "INSERT INTO messages(id, run_id, to_node_key, sender, payload, payload_sha) VALUES (?, ?, ?, ?, ?, ?)",
                (
                    payload["id"],
                    run,
                    key,
                    payload["sender"],
                    canonical(payload["payload"]).decode(),
                    payload["payload_sha"],
                ),
            )
        case "message_delivered":
            db.execute("UPDATE messages SET delivered = 1 WHERE id = ?", (payload["id"],))
        case "usage_checkpoint":
            for name in USAGE_FIELDS:
                if name in payload:
                    db.execute(f"UPDATE usage SET {name} = {name} + ? WHERE run_id = ?", (payload[name], run))
        case "finding_raised":
            names = ("finding_id", "subject", "criterion", "evidence_ref", "blocking", "disposition", "rationale")
            db.execute(
                "INSERT OR IGNORE INTO findings VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (run, *(payload[name] for name in names), event.ts),
            )
        case "finding_disposition":
            db.execute(
                "UPDATE findings SET disposition = ? WHERE run_id = ? AND finding_id = ?",
                (payload["disposition"], run, payload["finding_id"]),
            )
        case _:
            pass


def tables_of(db: sqlite3.Connection, run_id: str) -> dict[str, Any] | None:
    """The projection of a run as the tables have it; None if there is no such run."""
    row = db.execute("SELECT status, error, parent_run_id FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    if row is None:
        return None
    nodes = db.execute(
        "SELECT node_key, state, owner_session, depth, parent_key FROM nodes WHERE run_id = ?", (run_id,)
    ).fetchall()
    usage = db.execute(f"SELECT {', '.join(USAGE_FIELDS)} FROM usage WHERE run_id = ?", (run_id,)).fetchone()
    pending = db.execute("SELECT count(*) FROM messages WHERE run_id = ? AND NOT delivered", (run_id,)).fetchone()
    found = db.execute("SELECT finding_id FROM findings WHERE run_id = ? ORDER BY finding_id", (run_id,)).fetchall()
    return {
        "status": row[0],
        "error": row[1],
        "parent_run_id": row[2],
        "nodes": {
            key: {"state": state, "owner_session": owner, "depth": depth, "parent_key": parent}
            for key, state, owner, depth, parent in nodes
        },
        "usage": dict(zip(USAGE_FIELDS, usage, strict=True)),
        "messages_pending": pending[0],
        "findings": [name for (name,) in found],
    }


def replay(events: Iterable[RunEvent]) -> dict[str, Any]:
    """The projection of a run from its events alone.

    Parameters
    ----------
    events : iterable of RunEvent
        All events of one run, in order.
    """
    status: str | None = None
    error: str | None = None
    parent: str | None = None
    nodes: dict[str, dict[str, Any]] = {}
    usage: dict[str, float] = {"tokens": 0, "cost_usd": 0.0, "nodes": 0, "attempts": 0, "wall_seconds": 0.0}
    waiting: set[int] = set()
    findings: set[str] = set()
    for event in events:
        payload, key = event.payload, event.node_key or ""
        match event.kind:
            case "node_state_changed":
                node = nodes.get(key)
                if node is not None:
                    node["state"] = payload["new"]
                    owner = payload.get("owner_session")
                    node["owner_session"] = node["owner_session"] if owner is None else owner
            case "node_created":
                fresh = {"state": payload["state"], "owner_session": None}
                place = {"depth": payload.get("depth"), "parent_key": payload.get("parent_key")}
                nodes.setdefault(key, fresh | place)
            case "usage_checkpoint":
                for name in USAGE_FIELDS:
                    if name in payload:
                        usage[name] += payload[name]
            case "run_started":
                status, parent = payload["status"], payload.get("parent_run_id")
            case "run_terminal" | "run_paused":
                status, error = payload["status"], payload.get("error")
            case "run_resumed":
                status, error = "running", None
            case "message_enqueued":
                waiting.add(payload["id"])
            case "message_delivered":
                waiting.discard(payload["id"])
            case "finding_raised":
                findings.add(payload["finding_id"])
            case _:
                pass
    return {
        "status": status,
        "error": error,
        "parent_run_id": parent,
        "nodes": nodes,
        "usage": usage,
        "messages_pending": len(waiting),
        "findings": sorted(findings),
    }
