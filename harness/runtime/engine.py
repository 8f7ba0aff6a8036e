"""The runtime from outside: run, resume, ask, tell, stop."""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import msgspec
from msgspec import Struct

from harness.runtime.admission import Admission
from harness.runtime.asking import Asking
from harness.runtime.blobs import BlobStore
from harness.runtime.cache import SolutionCache
from harness.runtime.capabilities import Registry
from harness.runtime.channel import Channel, make_channel
from harness.runtime.confinement import BLOBS, DATABASE, pin
from harness.runtime.errors import LeaseLost, PlanError, RunStoreError
from harness.runtime.events import FINAL
from harness.runtime.finish import Finish
from harness.runtime.inspection import export_trace, verify
from harness.runtime.ir import Plan, ProblemSpec, digest, read_problem, read_record
from harness.runtime.leases import RUN_LEASE
from harness.runtime.metrics import run_metrics
from harness.runtime.planner import Planner, StubPlanner
from harness.runtime.redaction import redact, secrets_of
from harness.runtime.run import Policies, Run
from harness.runtime.runstate import RunState
from harness.runtime.sessions import new_session
from harness.runtime.store import RunStore
from harness.runtime.textwork import builtin

KILL_VARIABLE = "SHERPA_KILL_AFTER_EVENTS"


class RunResult(Struct, frozen=True, kw_only=True, rename="camel"):
    """How a run stands."""

    run_id: str
    status: str
    outputs: dict[str, Any]
    error: str | None
    metrics: dict[str, Any]
    workspace: str


@lru_cache(maxsize=1)
def code_fingerprint() -> str:
    """Hash of the sources of this package."""
    package = files("harness.runtime")
    sources = {
        entry.name: entry.read_text(encoding="utf-8") for entry in package.iterdir() if entry.name.endswith(".py")
    }
    return digest(sources)


class Engine:
    """Runs problems in a workspace.

    Parameters
    ----------
    workspace : Path
        Holds the log, the blobs, and the files that relative grants mean.
    channel_policy : str
        ``recorded`` or ``live``.
    recordings : mapping, optional
        Tapes by session; without them every request to a model is refused.
    registry : Registry, optional
        The built-in capabilities if it is not given.
    planner : Planner, optional
        One that takes plans from the hints if it is not given.
    plans : sequence of Plan
        Stored plans, for invoke_plan.
    policies : Policies, optional
    fault_injection : bool
        Whether ``SHERPA_KILL_AFTER_EVENTS`` may make this process kill itself.
    clock, timer : callable
        Seconds since the epoch, and seconds for durations.
    """

    def __init__(
        self,
        workspace: Path,
        channel_policy: str = "recorded",
        recordings: Mapping[str, Sequence[Any]] | None = None,
        registry: Registry | None = None,
        planner: Planner | None = None,
        db_path: Path | None = None,
        fault_injection: bool = False,
        *,
        plans: Sequence[Plan] = (),
        policies: Policies | None = None,
        providers: Callable[[], Sequence[Channel]] | None = None,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self.workspace = Path(os.path.realpath(workspace))
        self.workspace.mkdir(parents=True, exist_ok=True)
        self.policies = policies or Policies()
        if self.policies.review_required not in ("model", "deterministic", "off"):
            raise PlanError(f"review_required is model, deterministic or off, not {self.policies.review_required!r}")
        kill = int(os.environ.get(KILL_VARIABLE, "0") or "0") if fault_injection else 0
        self.channel = make_channel(channel_policy, recordings, providers)
        blobs = BlobStore(self.workspace / BLOBS)
        path = db_path or self.workspace / DATABASE
        self.store = RunStore(path, blobs, clock=clock, kill_after=kill or None)
        self.registry = builtin() if registry is None or not registry.names() else registry
        self.planner = planner or StubPlanner()
        self._plans, self._timer = tuple(plans), timer
        self.cache = SolutionCache(self.store)

    def close(self) -> None:
        """Close the log."""
        self.store.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- running -----------------------------------------------------------------------------------------------

    def run(
        self, problem: ProblemSpec | dict[str, Any] | str | Path, run_id: str | None = None, parent: str | None = None
    ) -> RunResult:
        """Run a problem until it ends, blocks or is stopped.

        Raises
        ------
        PlanError
            If the problem is malformed.
        RunStoreError
            If there is a run of this id; it is resumed, not run again.
        """
        spec = read_problem(problem)
        run_id = run_id or f"run_{uuid4().hex[:16]}"
        if "/" in run_id or not run_id.isprintable() or not run_id.strip():
            raise PlanError(f"{run_id!r} cannot be the id of a run")
        sha = self.store.blobs.put_json(spec)
        told = redact(msgspec.to_builtins(spec), secrets=_secrets(spec))
        with self.store.transaction() as db:
            if db.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchone():
                raise RunStoreError(f"there is a run {run_id!r} already; resume it, or give another id")
            started = {"status": "running", "problem_sha": sha, "parent_run_id": parent}
            self.store.append(run_id, "run_started", started)
            self.store.append(run_id, "plan_recorded", {"problem": told, "spec_sha": sha, "plan_sha": None})
        return self._work(run_id, spec, first=True)

    def resume(self, run_id: str, *, force: bool = False) -> RunResult:
        """Go on with a run; one that has ended gives its result and nothing is written.

        Parameters
        ----------
        force : bool
            Go on although capabilities, planner or code are not those the run was begun with.

        Raises
        ------
        UnknownRunError
            If there is no such run.
        RunStoreError
            If it was begun with something else.
        """
        status = self.store.run_row(run_id)[0]
        if status in FINAL:
            return self.result(run_id)
        state = RunState.of(self.store.events(run_id))
        spec = read_record(self.store.blobs.get_json(state.problem_sha), ProblemSpec)
        if state.fingerprint is not None and not force:
            now = self._fingerprint()
            other = sorted(name for name, value in now.items() if state.fingerprint.get(name) != value)
            if other:
                raise RunStoreError(f"run {run_id} was begun with another {', '.join(other)}; resume it with force")
        return self._work(run_id, spec, first=False)

    def _work(self, run_id: str, spec: ProblemSpec, *, first: bool) -> RunResult:
        session = new_session(run_id)
        fence = self._take(run_id, session)
        if fence is None:
            holder = self.store.leases.holder(run_id, RUN_LEASE)
            found = self.result(run_id)
            if found.status in FINAL:
                return found
            return msgspec.structs.replace(found, status="blocked", error=f"the run is leased by {holder}")
        self.store.leases.guard(run_id, session, fence)
        # Read only now: whoever held the lease before may have written until then.
        state = RunState.of(self.store.events(run_id))
        self.store.listen(run_id, state.apply)
        try:
            if state.terminal is not None and state.terminal[0] in FINAL:
                return self.result(run_id)
            run = self._assembled(run_id, spec, state, session)
            with self._beating(run):
                self._enter(run, first=first)
                Finish(run, self._plans).drive()
        except LeaseLost as error:
            return msgspec.structs.replace(self.result(run_id), error=str(error))
        finally:
            self.store.listen(run_id, None)
            self.store.leases.unguard(run_id)
            self.store.leases.release(run_id, RUN_LEASE, session)
        return self.result(run_id)

    def _take(self, run_id: str, session: str) -> int | None:
        """The lease of a run: at once, or as soon as its holder gives it up, within the time to wait."""
        leases, until = self.store.leases, time.monotonic() + self.policies.lease_wait
        while True:
            fence = leases.acquire(run_id, RUN_LEASE, session, ttl=self.policies.lease_ttl)
            if fence is not None:
                return fence
            while leases.holder(run_id, RUN_LEASE) is not None:
                if time.monotonic() >= until:
                    return None
                time.sleep(0.01)

    def _assembled(self, run_id: str, spec: ProblemSpec, state: RunState, session: str) -> Run:
        return Run(
            self.store,
            self.workspace,
            run_id,
            spec,
            state,
            session,
            self.registry,
            self.planner,
            Admission(self.registry, reclassify=self.policies.reclassify),
            Asking(self.store, run_id, state, self.channel),
            self.cache,
            self.policies,
            _secrets(spec),
            self._timer,
        )

    def _enter(self, run: Run, *, first: bool) -> None:
        """What is logged before work begins: a crash that was found, the resumption, the surroundings."""
        state = run.state
        if not first:
            unfinished = sorted(key for key, record in state.nodes.items() if record.attempt_open)
            if unfinished:
                run.log("crash_detected", {"unfinished": unfinished})
            run.log("run_resumed", {"from": state.terminal[0] if state.terminal else "running"})
        if state.fingerprint is None:
            pins = pin(run.problem.authority, self.workspace)
            run.log("env_fingerprint", {**self._fingerprint(), "pins": pins})

    def _fingerprint(self) -> dict[str, str]:
        return {
            "registry": self.registry.fingerprint(),
            "planner": f"{type(self.planner).__module__}.{type(self.planner).__qualname__}",
            "code": code_fingerprint(),
            "python": ".".join(platform.python_version_tuple()[:2]),
        }

    @contextmanager
    def _beating(self, run: Run) -> Iterator[None]:
        """Renew the leases while work is done; tell the work if they are lost."""
        stop = threading.Event()
        ttl = self.policies.lease_ttl

        def beat() -> None:
            while not stop.wait(ttl / 3):
                try:
                    kept = self.store.leases.renew(run.run_id, RUN_LEASE, run.session, ttl=ttl)
                    for key in list(run.held):
                        self.store.leases.renew(run.run_id, key, run.session, ttl=ttl)
                except Exception:
                    kept = False
                if not kept:
                    run.lost.set()
                    return

        thread = threading.Thread(target=beat, daemon=True, name=f"leases of {run.run_id}")
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            for key in list(run.held):
                self.store.leases.release(run.run_id, key, run.session)

    # -- asking and telling ------------------------------------------------------------------------------------

    def status(self, run_id: str) -> dict[str, Any]:
        """The projection of a run."""
        return self.store.projection(run_id)

    def result(self, run_id: str) -> RunResult:
        """How a run stands, from the log."""
        status, error, _ = self.store.run_row(run_id)
        outputs: dict[str, Any] = {}
        for event in self.store.events(run_id, kinds=["node_state_changed"]):
            if event.payload.get("root_return"):
                outputs = self.store.blobs.get_json(event.payload["outputs_sha"])
        return RunResult(
            run_id=run_id,
            status=status,
            outputs=outputs,
            error=error,
            metrics=run_metrics(self.store.events(run_id)),
            workspace=str(self.workspace),
        )

    def deliver_message(self, run_id: str, node_key: str, payload: Any, sender: str = "user") -> int:
        """Leave a message for a node of a run that has not ended; it reads it when it begins.

        Raises
        ------
        RunStoreError
            If the run has ended.
        """
        status = self.store.run_row(run_id)[0]
        if status in FINAL:
            raise RunStoreError(f"run {run_id} is {status}; nobody will read a message")
        return self.store.enqueue(run_id, node_key, payload, sender)

    def pause(self, run_id: str) -> None:
        """Stop a run at its next checkpoint; a resume goes on there."""
        self._control(run_id, "pause")

    def cancel(self, run_id: str) -> None:
        """End a run at its next checkpoint, or at once if nobody works on it."""
        self._control(run_id, "cancel")

    def _control(self, run_id: str, action: Literal["pause", "cancel"]) -> None:
        with self.store.transaction():
            status = self.store.run_row(run_id)[0]
            if status in FINAL:
                raise RunStoreError(f"run {run_id} is {status}; it cannot be stopped any more")
            if self.store.leases.holder(run_id, RUN_LEASE) is not None:
                self.store.append(run_id, "control_requested", {"action": action})
            elif action == "cancel":
                self.store.append(run_id, "run_terminal", {"status": "cancelled", "error": "cancelled on request"})
            elif status == "running":
                self.store.append(run_id, "run_paused", {"status": "paused", "error": "paused on request"})

    def resolve_in_doubt(self, run_id: str, node_key: str, decision: str, evidence: Any = None) -> None:
        """Say what is known about a call of which nobody knows whether it took effect; then the run can be resumed.

        Parameters
        ----------
        decision : str
            ``done``: it took effect, and `evidence` stands for its result; ``redo``: it did not.

        Raises
        ------
        RunStoreError
            If the decision is neither, or the node is not in doubt.
        """
        if decision not in ("done", "redo"):
            raise RunStoreError(f"the decision is done or redo, not {decision!r}")
        record = RunState.of(self.store.events(run_id)).nodes.get(node_key)
        if record is None or not record.in_doubt or record.state not in ("escalated", "running"):
            raise RunStoreError(f"{node_key} of run {run_id} is not in doubt")
        with self.store.transaction():
            told = redact(evidence)
            self.store.append(run_id, "in_doubt_resolved", {"decision": decision, "evidence": told}, node_key=node_key)
            self.store.cas_node_state(run_id, node_key, record.state, "pending")
            self.store.append(run_id, "run_resumed", {"from": "in_doubt"})

    def export_trace(self, run_id: str, path: Path) -> dict[str, Any]:
        """Write everything about a run as one JSON file; returns it."""
        return export_trace(self.store, run_id, path)

    def verify(self, run_id: str) -> list[str]:
        """What is wrong with a run's record: projections that differ, blobs that are missing or damaged."""
        return verify(self.store, run_id)


def _secrets(spec: ProblemSpec) -> frozenset[str]:
    return secrets_of(msgspec.to_builtins(spec))
