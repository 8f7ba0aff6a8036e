"""Walks plans. After a crash the same walk is made again: what the log says is done is taken from the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from harness.runtime.authoring import Authoring
from harness.runtime.authority import missing_powers
from harness.runtime.errors import PlanError
from harness.runtime.expr import compile_expression, fill, plain
from harness.runtime.ir import (
    AskUser,
    Branch,
    Decompose,
    Fail,
    InvokeCapability,
    InvokePlan,
    Node,
    Parallel,
    Plan,
    Return,
    While,
    read_record,
)
from harness.runtime.leafwork import Leaves
from harness.runtime.run import Frame, Halt, Returned, Run
from harness.runtime.runstate import DONE_BADLY, NodeRecord
from harness.runtime.scope import Scope, Stored, prior_results
from harness.runtime.validation import UNFILLED, walk

_WORST = ("failed", "budget_exhausted", "escalated", "cancelled", "paused", "blocked")
"""Which end of a branch decides how a fan-out ends, if several end badly."""


class Driver:
    """Runs the plans of one run.

    Parameters
    ----------
    run : Run
    library : sequence of Plan
        For invoke_plan; plans of the problem (``metadata.plans``) come before them.
    """

    def __init__(self, run: Run, library: Sequence[Plan] = ()) -> None:
        self._run = run
        self.authoring = Authoring(run)
        self._leaves = Leaves(run, self._reclassified)
        own = run.problem.metadata.get("plans", [])
        self._library = [*(read_record(raw, Plan) for raw in own), *library]

    def body(self, frame: Frame, nodes: Sequence[Node], epochs: tuple[int, ...], scope: Scope) -> None:
        """Run nodes in order.

        Raises
        ------
        Halt
            If the run ends here.
        Returned
            If a return node was reached.
        """
        for node in nodes:
            self._run.checkpoint(frame)
            match node:
                case InvokeCapability():
                    self._leaves.perform(frame, node, epochs, scope)
                case Branch():
                    self._branch(frame, node, epochs, scope)
                case While():
                    self._loop(frame, node, epochs, scope)
                case Parallel():
                    self._fan_out(frame, node, epochs, scope)
                case Decompose():
                    self._decompose(frame, node, epochs, scope)
                case InvokePlan():
                    self._invoke(frame, node, epochs, scope)
                case AskUser():
                    self._ask(frame, node, epochs, scope)
                case Return():
                    self._return(frame, node, epochs, scope)
                case Fail():
                    key, _ = self._begin(frame, node, epochs, scope)
                    raise self._run.end_badly(key, "failed", node.reason)

    def _begin(self, frame: Frame, node: Node, epochs: Sequence[int], scope: Scope) -> tuple[str, NodeRecord]:
        """Key and record of a node that is there; one that ended badly ends the run in the same way again."""
        key = frame.key(node, epochs)
        record = self._run.create(frame, key)
        if record.state in DONE_BADLY:
            raise Halt(str(record.state), record.error or f"{key} is {record.state}")
        self._run.recall(key, scope, node.id)
        return key, record

    def _done(self, key: str, record: NodeRecord, **more: Any) -> None:
        if record.state != "completed":
            self._run.move(key, "completed", **more)

    # -- control -----------------------------------------------------------------------------------------------

    def _branch(self, frame: Frame, node: Branch, epochs: tuple[int, ...], scope: Scope) -> None:
        key, record = self._begin(frame, node, epochs, scope)
        for case in node.cases:
            # Scope is what it was the first time, so the same case is chosen again after a crash.
            if case.when is None or compile_expression(case.when).evaluate(scope):
                self.body(frame, case.body, epochs, scope)
                break
        self._done(key, record)

    def _loop(self, frame: Frame, node: While, epochs: tuple[int, ...], scope: Scope) -> None:
        run = self._run
        key, record = self._begin(frame, node, epochs, scope)
        guard = compile_expression(node.guard)
        turn = 0
        while True:
            # The loop's own name tells the guard how often it went round.
            scope[node.id] = {"iterations": turn}
            if turn >= record.iterations:
                if record.loop_reason is not None:
                    break
                holds = bool(guard.evaluate(scope))
                if not holds or turn == node.max_iterations:
                    done = {"iterations": turn, "done": True, "reason": "limit" if holds else "guard"}
                    run.log("node_progress", done, key)
                    break
                run.log("node_progress", {"iterations": turn + 1}, key)
            turn += 1
            self.body(frame, node.body, (*epochs, turn), scope)
            if turn > record.iterations_done:
                run.log("loop_iteration_done", {"iteration": turn}, key)
            # The log keeps them; this walk does not come by again, and a long loop must not fill memory.
            run.state.forget(frame.key(inner, (*epochs, turn)) for _, inner in walk(node.body))
        self._done(key, record)

    def _fan_out(self, frame: Frame, node: Parallel, epochs: tuple[int, ...], scope: Scope) -> None:
        """Run all branches, whatever becomes of the others; then the worst end counts."""
        key, record = self._begin(frame, node, epochs, scope)
        scopes = [dict(scope) for _ in node.branches]
        ends: list[BaseException | None] = [None] * len(node.branches)

        def branch(at: int) -> None:
            try:
                self.body(frame, node.branches[at], epochs, scopes[at])
            except BaseException as error:
                ends[at] = error

        _all(branch, len(node.branches), self._run.policies.parallelism)
        for own in scopes:
            scope.update({name: value for name, value in own.items() if scope.get(name) is not value})
        for end in ends:
            if end is not None and not isinstance(end, Halt | Returned):
                raise end
        halts = [end for end in ends if isinstance(end, Halt)]
        if halts:
            worst = min(halts, key=lambda halt: _WORST.index(halt.status))
            same = [halt.error for halt in halts if halt.status == worst.status]
            raise Halt(worst.status, "; ".join(same))
        self._done(key, record)
        for end in ends:
            if end is not None:
                raise end

    # -- plans below plans -------------------------------------------------------------------------------------

    def _decompose(self, frame: Frame, node: Decompose, epochs: tuple[int, ...], scope: Scope) -> None:
        run = self._run
        key, record = self._begin(frame, node, epochs, scope)
        if record.state != "completed":
            run.messages(key, scope, node.id)
            hints = {name: value if name in UNFILLED else fill(value, scope) for name, value in node.hints.items()}
            hints["prior_results"] = prior_results(scope)
            child = self.authoring.child(
                frame, key, node.subgoal, hints, fraction=node.budget_fraction, fanout_cap=node.fanout_cap
            )
            sha = self._child(child, scope, scope["inputs"])
            self.authoring.remember(key)
            self.authoring.outcome(key, child.plan, reclassified=False, parent_state="completed")
            self._done(key, record, outputs_sha=sha)
        self._bind(node, record, scope)

    def _invoke(self, frame: Frame, node: InvokePlan, epochs: tuple[int, ...], scope: Scope) -> None:
        run = self._run
        key, record = self._begin(frame, node, epochs, scope)
        if record.state != "completed":
            run.messages(key, scope, node.id)
            if record.child is None:
                plan = self._stored(node)
                self.authoring.check_depth(frame, key)
                wanted = plan.authority
                missing = [] if wanted is None else missing_powers(frame.confinement.effective, wanted)
                if missing:
                    raise run.end_badly(key, "escalated", f"{plan.reference} asks for {', '.join(missing)}")
                share = run.state.accounts.share(frame.accounts, 1.0, None)
                self.authoring.record(frame, key, plan, f"plan {plan.reference}", share)
            child = self.authoring.open(frame, key)
            values = {
                name: plain(compile_expression(source).evaluate(scope)) for name, source in node.input_map.items()
            }
            sha = self._child(child, scope, values)
            self._done(key, record, outputs_sha=sha)
        self._bind(node, record, scope)

    def _stored(self, node: InvokePlan) -> Plan:
        version = node.plan_version
        found = [plan for plan in self._library if plan.id == node.plan_id and version in (None, plan.version)]
        if not found:
            wanted = node.plan_id if version is None else f"{node.plan_id}@{version}"
            raise PlanError(f"{node.id}: no plan {wanted} is stored")
        return max(found, key=lambda plan: plan.version)

    def _reclassified(
        self, frame: Frame, node: InvokeCapability, key: str, scope: Scope, reasons: Sequence[str]
    ) -> str:
        """A step that is none: a child plan takes its place, and its outputs are the result."""
        goal = f"achieve {node.capability} without a direct call"
        step = {"id": node.id, "capability": node.capability, "inputs": node.inputs}
        hints = {"requested_capability": node.capability, "original_step": step, "reasons": list(reasons)}
        hints |= {name: value for name, value in self._run.problem.metadata.items() if name == "plan_library"}
        child = self.authoring.child(frame, key, goal, hints)
        sha = self._child(child, scope, scope["inputs"])
        self.authoring.outcome(key, child.plan, reclassified=True, parent_state="skipped")
        return sha

    def _child(self, child: Frame, scope: Scope, inputs: Any) -> str:
        """Run a child plan to its end; returns the hash of its outputs."""
        inner: Scope = {"inputs": inputs, "parent": scope}
        try:
            self.body(child, child.plan.root, (), inner)
        except Returned as end:
            if end.frame is not child:
                raise
            return end.sha
        return self._run.store.blobs.put_json({})

    def _bind(self, node: Node, record: NodeRecord, scope: Scope) -> None:
        assert record.output_sha is not None
        scope[node.id] = Stored(self._run.store.blobs, record.output_sha, ("result", "outputs"))

    # -- people and ends ---------------------------------------------------------------------------------------

    def _ask(self, frame: Frame, node: AskUser, epochs: tuple[int, ...], scope: Scope) -> None:
        run = self._run
        key, record = self._begin(frame, node, epochs, scope)
        if record.state != "completed":
            if not run.problem.attended or frame.depth > 0:
                raise run.end_badly(key, "escalated", f"ask_user outside attended root: {node.question}")
            answers = [_answer(payload) for payload in run.messages(key, scope, node.id)]
            usable = [answer for answer in answers if not node.options or answer in node.options]
            if not usable:
                if record.state != "blocked":
                    run.move(key, "blocked")
                choice = f" (one of {', '.join(node.options)})" if node.options else ""
                raise Halt("blocked", f"awaiting input at {key}: {run.hide(node.question)}{choice}")
            self._done(key, record, outputs_sha=run.store.blobs.put_json(usable[-1]))
        assert record.output_sha is not None
        scope[node.id] = Stored(run.store.blobs, record.output_sha, ("answer", "result"))

    def _return(self, frame: Frame, node: Return, epochs: tuple[int, ...], scope: Scope) -> None:
        run = self._run
        key, record = self._begin(frame, node, epochs, scope)
        if record.state != "completed":
            outputs = fill(node.outputs, scope)
            sha = run.store.blobs.put_json(outputs)
            told = {"return_outputs": run.hide(outputs), "outputs_sha": sha}
            self._done(key, record, **told, **({"root_return": True} if frame.depth == 0 else {}))
            if frame.depth > 0:
                run.note("result", f"{frame.plan.reference} returned", key)
        assert record.output_sha is not None
        raise Returned(frame, record.output_sha)


def _answer(payload: Any) -> Any:
    """An answer is the message itself, or its field ``answer``."""
    return payload["answer"] if isinstance(payload, dict) and "answer" in payload else payload


def _all(work: Callable[[int], None], count: int, workers: int) -> None:
    if workers < 2 or count < 2:
        for at in range(count):
            work(at)
        return
    with ThreadPoolExecutor(max_workers=min(workers, count)) as pool:
        list(pool.map(work, range(count)))
