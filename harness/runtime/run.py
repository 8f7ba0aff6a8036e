"""What the parts of the kernel share while they work on one run: halting, frames, checkpoints, small writes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.runtime.accounts import Account
from harness.runtime.admission import Admission
from harness.runtime.asking import Asking
from harness.runtime.cache import SolutionCache
from harness.runtime.capabilities import Context, Registry
from harness.runtime.confinement import Confinement
from harness.runtime.context import journal
from harness.runtime.errors import LeaseLost
from harness.runtime.ir import Node, Plan, ProblemSpec
from harness.runtime.planner import Planner
from harness.runtime.redaction import redact, scrub
from harness.runtime.runstate import NodeRecord, RunState
from harness.runtime.scope import Scope
from harness.runtime.store import RunStore


class Halt(Exception):
    """The run, or this branch of it, ends here."""

    def __init__(self, status: str, error: str) -> None:
        super().__init__(error)
        self.status, self.error = status, error


class Returned(Exception):
    """A return node was reached; it ends the plan of its frame."""

    def __init__(self, frame: Frame, sha: str) -> None:
        super().__init__(sha)
        self.frame, self.sha = frame, sha


@dataclass(eq=False)
class Frame:
    """One plan that is being run.

    Attributes
    ----------
    prefix : str
        Of the keys of its nodes: the key of the node above, ``/``, plan and version.
    depth : int
        0 for the root plan.
    accounts : list of Account
        Outermost first; all of them are charged.
    """

    plan: Plan
    prefix: str
    depth: int
    parent_key: str | None
    confinement: Confinement
    accounts: tuple[Account, ...]

    def key(self, node: Node, epochs: Sequence[int]) -> str:
        """Key of a node: unique for every place and every pass of every loop around it."""
        return f"{self.prefix}.{node.id}" + ("@" + ".".join(map(str, epochs)) if epochs else "")

    @property
    def max_depth(self) -> int:
        """How deep plans below may lie."""
        return self.accounts[-1].budgets.max_depth

    @property
    def max_attempts(self) -> int:
        """How often a leaf may be begun."""
        return self.accounts[-1].budgets.max_attempts_per_node


@dataclass
class Policies:
    """What may be chosen about how runs are worked on.

    Attributes
    ----------
    review_required : str
        ``model``: an independent model must have reviewed, or the run escalates. ``deterministic``: no model is
        asked, and the log says so. ``off``: plans are not reviewed; outputs still must pass their checks.
    parallelism : int
        Branches of a fan-out that run at the same time.
    lease_ttl, lease_wait : float
        Seconds a lease holds without a sign of life, and seconds to wait for one that another worker holds.
    cache : bool
        Whether solved and disproved plans are remembered between runs.
    reclassify : bool
        Whether a step whose probe fails is handed to a planner.
    """

    review_required: str = "deterministic"
    parallelism: int = 4
    lease_ttl: float = 120.0
    lease_wait: float = 2.0
    cache: bool = True
    reclassify: bool = True


@dataclass
class Run:
    """One run under work: its log, its state, and everything it is worked with."""

    store: RunStore
    workspace: Path
    run_id: str
    problem: ProblemSpec
    state: RunState
    session: str
    registry: Registry
    planner: Planner
    admission: Admission
    asking: Asking
    cache: SolutionCache
    policies: Policies
    secrets: frozenset[str]
    timer: Callable[[], float] = time.monotonic
    lost: threading.Event = field(default_factory=threading.Event)
    held: set[str] = field(default_factory=set)
    _mark: float = 0.0
    _wall: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._mark = self.timer()

    # -- writing -----------------------------------------------------------------------------------------------

    def log(self, kind: str, payload: dict[str, Any], key: str | None = None) -> int:
        """Append an event."""
        return self.store.append(self.run_id, kind, payload, node_key=key)

    def note(self, kind: str, text: str, key: str | None = None, refs: Sequence[str] = ()) -> None:
        """Append to the journal, without secrets."""
        journal(self.store, self.run_id, kind, scrub(text, self.secrets)[:1000], node_key=key, refs=refs)

    def hide(self, value: Any) -> Any:
        """A value as the log may hold it."""
        return redact(value, secrets=self.secrets)

    def create(self, frame: Frame, key: str) -> NodeRecord:
        """The record of a node, which is there from now on."""
        record = self.state.node(key)
        if record.state is None:
            self.store.create_node(self.run_id, key, depth=frame.depth, parent_key=frame.parent_key)
        return record

    def move(self, key: str, new: str, *, owner: str | None = None, **more: Any) -> None:
        """Change the state of a node from what this worker knows it to be.

        Raises
        ------
        LeaseLost
            If it is not in that state any more: somebody else works on it.
        """
        expected = self.state.node(key).state or "pending"
        if not self.store.cas_node_state(self.run_id, key, expected, new, owner=owner, more=more):
            raise LeaseLost(f"node {key} is no longer {expected}; another worker has changed it")

    def end_badly(self, key: str, state: str, error: str) -> Halt:
        """A node ends, and the run with it."""
        told = scrub(error, self.secrets)[:1000]
        self.move(key, state, error=told)
        return Halt(state, told)

    # -- checkpoints -------------------------------------------------------------------------------------------

    def active_seconds(self, *, take: bool) -> float:
        """Active seconds that are not charged yet; with `take` they are the caller's to charge."""
        with self._wall:
            now = self.timer()
            passed = now - self._mark
            if take:
                self._mark = now
        return max(0.0, round(passed, 6))

    def checkpoint(self, frame: Frame) -> None:
        """Between any two nodes: does anyone want the run stopped, is the lease ours, is there budget left?

        Raises
        ------
        Halt
            If not.
        LeaseLost
            If another worker has taken over.
        """
        if self.lost.is_set():
            raise LeaseLost(f"run {self.run_id}: the lease was lost")
        control = self.store.run_row(self.run_id)[2]
        if control == "cancel":
            raise Halt("cancelled", "cancelled on request")
        if control == "pause":
            raise Halt("paused", "paused on request")
        limit = self.state.accounts.exceeded(frame.accounts, self.active_seconds(take=False))
        if limit is not None:
            raise Halt("budget_exhausted", f"{limit} is exceeded")

    def messages(self, key: str, scope: Scope, node_id: str) -> list[Any]:
        """Deliver what waits for a node, and show it all it was sent: ``<id>_msgs``, the last one ``<id>_msg``."""
        for message in self.store.take_messages(self.run_id, key):
            text = f"message from {message.sender}"
            self.note("decision", text, key, refs=[f"message:{message.id}"])
        return self.recall(key, scope, node_id)

    def recall(self, key: str, scope: Scope, node_id: str) -> list[Any]:
        """Show a node what it was sent."""
        delivered = self.state.node(key).messages
        if not delivered:
            return []
        payloads = [self.store.blobs.get_json(payload["payload_sha"]) for payload in delivered]
        scope[f"{node_id}_msgs"], scope[f"{node_id}_msg"] = payloads, payloads[-1]
        return payloads

    def context(self, frame: Frame, key: str) -> Context:
        """What a capability of a node works with."""
        asker = self.asking.on_behalf(key)
        return Context(self.store, self.run_id, key, frame.confinement, asker, self.secrets, on_effect=self._alive)

    def _alive(self) -> None:
        """The last look before an effect: a worker that lost its lease has none."""
        if self.lost.is_set():
            raise LeaseLost(f"run {self.run_id}: the lease was lost")
        self.store.leases.check(self.run_id)
