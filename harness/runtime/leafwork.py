"""A leaf from the first lease to the last: attempts, admission, the call, and what a crash may have left of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from harness.runtime.capabilities import run_capability
from harness.runtime.errors import LeaseLost
from harness.runtime.expr import fill
from harness.runtime.ir import InvokeCapability
from harness.runtime.redaction import scrub
from harness.runtime.run import Frame, Halt, Run
from harness.runtime.runstate import DONE_BADLY, NodeRecord
from harness.runtime.scope import Scope, Stored

_POLL = 0.05
Reclassify = Callable[[Frame, InvokeCapability, str, Scope, Sequence[str]], str]
"""Hands a step to a planner: (frame, node, key, scope, reasons) → hash of the child's outputs."""


class Leaves:
    """Runs leaves of one run.

    Parameters
    ----------
    run : Run
    reclassify : callable
        What to do with a step that turned out not to be one.
    """

    def __init__(self, run: Run, reclassify: Reclassify) -> None:
        self._run, self._reclassify = run, reclassify

    def perform(self, frame: Frame, node: InvokeCapability, epochs: Sequence[int], scope: Scope) -> None:
        """Run a leaf, or take over what the log says it has done; its result is in the scope afterwards.

        Raises
        ------
        Halt
            If it ends the run.
        """
        run, key = self._run, frame.key(node, epochs)
        record = run.create(frame, key)
        if record.state in DONE_BADLY:
            raise Halt(str(record.state), record.error or f"{key} is {record.state}")
        run.recall(key, scope, node.id)
        if record.state != "completed":
            self._advance(frame, node, key, record, scope)
        assert record.output_sha is not None
        scope[node.id] = Stored(run.store.blobs, record.output_sha)

    def _advance(self, frame: Frame, node: InvokeCapability, key: str, record: NodeRecord, scope: Scope) -> None:
        run = self._run
        if record.state == "skipped" or (
            record.admission is not None and record.admission["decision"] == "reclassify_decompose"
        ):
            self._hand_over(frame, node, key, record, scope)
            return
        if record.state == "running":
            self._recover(key, record)
            if record.finished_ok:
                self._finish(key, record)
                return
            if record.finished_ok is False:
                raise self._give_up(key, record, record.tool_error or "the call failed")
            if record.admission is not None and record.admission["decision"] == "escalate":
                raise self._escalated(key, record, record.admission["reasons"])
        if record.resolution is not None and record.resolution["decision"] == "done":
            # An operator has found the effect: the evidence stands for the result that was lost.
            result = {"resolved": "done", "evidence": record.resolution["evidence"]}
            if record.attempt_open:
                run.log("attempt_finished", {"ok": True, "error": None}, key)
            self._charge(key, record)
            run.move(key, "completed", leaf=True, outputs_sha=run.store.blobs.put_json(result))
            return
        self._check_attempts(frame, node, key, record)
        if not run.state.accounts.reserve(frame.accounts):
            raise Halt("budget_exhausted", "max_nodes is reached")
        try:
            self._attempt(frame, node, key, record, scope)
        finally:
            run.state.accounts.release(frame.accounts)

    # -- what a crash left -------------------------------------------------------------------------------------

    def _recover(self, key: str, record: NodeRecord) -> None:
        """A node that runs, while nobody runs it."""
        self._run.log("orphan_recovered", {"former_owner": record.owner}, key)
        self._lease(key)

    def _check_attempts(self, frame: Frame, node: InvokeCapability, key: str, record: NodeRecord) -> None:
        """May it be begun (again)?"""
        run = self._run
        known = node.capability in run.registry.names()
        repeatable = known and run.registry.get(node.capability).spec.idempotent
        if record.attempts >= frame.max_attempts + record.redos:
            error = f"max_attempts_per_node ({frame.max_attempts}) is reached at {key}"
            halt = run.end_badly(key, "budget_exhausted", error)
            self._release(key)
            raise halt
        if record.in_doubt and record.resolution is None:
            run.log("in_doubt_detected", {"capability": node.capability, "idempotent": repeatable}, key)
            if not repeatable:
                error = (
                    f"{key} is in doubt: {node.capability} was begun and never ended, and may not simply be repeated. "
                    "Find out whether it took effect and resolve it as done or redo"
                )
                halt = run.end_badly(key, "escalated", error)
                self._release(key)
                raise halt
        if record.state == "running":
            run.move(key, "pending")

    # -- an attempt --------------------------------------------------------------------------------------------

    def _lease(self, key: str) -> None:
        run = self._run
        leases, until = run.store.leases, time.monotonic() + run.policies.lease_wait
        while leases.acquire(run.run_id, key, run.session, ttl=run.policies.lease_ttl) is None:
            while (holder := leases.holder(run.run_id, key)) not in (None, run.session):
                if time.monotonic() >= until:
                    raise Halt("blocked", f"node {key} is leased by {holder}")
                time.sleep(_POLL)
        run.held.add(key)

    def _release(self, key: str) -> None:
        self._run.held.discard(key)
        self._run.store.leases.release(self._run.run_id, key, self._run.session)

    def _attempt(self, frame: Frame, node: InvokeCapability, key: str, record: NodeRecord, scope: Scope) -> None:
        run = self._run
        if key not in run.held:
            self._lease(key)
        run.move(key, "running", owner=run.session)
        run.log("attempt_started", {"session": run.session}, key)
        run.messages(key, scope, node.id)
        context = run.context(frame, key)
        try:
            inputs = fill(node.inputs, scope)
            verdict = run.admission.check(node.capability, inputs, context, atomic_claimed=node.atomic_claim)
            if verdict.decision == "admitted":
                run_capability(run.registry.get(node.capability), inputs, context)
        except LeaseLost:
            raise
        except Exception as error:
            raise self._give_up(key, record, f"{type(error).__name__}: {error}") from error
        if verdict.decision == "escalate":
            raise self._escalated(key, record, verdict.reasons)
        if verdict.decision == "reclassify_decompose":
            self._hand_over(frame, node, key, record, scope)
            return
        self._finish(key, record)

    def _charge(self, key: str, record: NodeRecord) -> None:
        if not record.charged:
            run = self._run
            run.store.add_usage(run.run_id, key, attempts=1, nodes=1, wall_seconds=run.active_seconds(take=True))

    def _finish(self, key: str, record: NodeRecord) -> None:
        """What follows a call that ended well; each part is done once, whenever it was interrupted."""
        run = self._run
        if record.attempt_open:
            run.log("attempt_finished", {"ok": True, "error": None}, key)
        self._charge(key, record)
        run.move(key, "completed", leaf=True)
        self._release(key)

    def _give_up(self, key: str, record: NodeRecord, error: str) -> Halt:
        run = self._run
        if record.attempt_open:
            run.log("attempt_finished", {"ok": False, "error": scrub(error, run.secrets)[:500]}, key)
        self._charge(key, record)
        halt = run.end_badly(key, "failed", error)
        self._release(key)
        return halt

    def _escalated(self, key: str, record: NodeRecord, reasons: Sequence[str]) -> Halt:
        run = self._run
        error = "; ".join(reasons)
        if record.attempt_open:
            run.log("attempt_finished", {"ok": False, "error": scrub(error, run.secrets)[:500]}, key)
        halt = run.end_badly(key, "escalated", error)
        self._release(key)
        return halt

    def _hand_over(self, frame: Frame, node: InvokeCapability, key: str, record: NodeRecord, scope: Scope) -> None:
        """The step is none: a planner writes how it can be done, and the child's outputs are its result."""
        run = self._run
        reasons: Sequence[str] = (record.admission or {}).get("reasons", ())
        if record.attempt_open:
            run.log("attempt_finished", {"ok": False, "error": "reclassified: it is not one step"}, key)
        if record.state != "skipped":
            run.move(key, "skipped")
            self._release(key)
        record.output_sha = self._reclassify(frame, node, key, scope, reasons)
