"""A run from its root plan to its end: the walk, the acceptance checks, the final review, the terminal event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.runtime.acceptance import CheckResult, run_check
from harness.runtime.accounts import Account
from harness.runtime.authoring import check_root
from harness.runtime.confinement import Confinement
from harness.runtime.criteria import output_findings
from harness.runtime.driver import Driver
from harness.runtime.errors import LeaseLost
from harness.runtime.ir import Plan, canonical, root_plan
from harness.runtime.redaction import scrub
from harness.runtime.review import Evidence, ReviewGate
from harness.runtime.run import Frame, Halt, Returned, Run
from harness.runtime.scope import Scope
from sherpa.files import write_whole

OUTPUTS_FILE = "sherpa_outputs.json"
_EXCERPT = 4_000


class Finish:
    """Drives one run to a terminal event.

    Parameters
    ----------
    run : Run
    library : sequence of Plan
    """

    def __init__(self, run: Run, library: Sequence[Plan]) -> None:
        self._run, self._library = run, library

    def drive(self) -> None:
        """Run until the log has a terminal event.

        Whatever is raised on the way becomes one, except an interruption, which leaves a log that can be resumed, and
        the loss of the lease, after which this worker has nothing more to say.
        """
        try:
            status, error = self._walked()
        except Halt as halt:
            status, error = halt.status, halt.error
        except LeaseLost:
            raise
        except Exception as failure:
            status, error = "failed", f"{type(failure).__name__}: {failure}"
        self._end(status, error)

    def _end(self, status: str, error: str | None) -> None:
        run = self._run
        told = None if error is None else scrub(error, run.secrets)[:2000]
        left = run.active_seconds(take=True)
        if left:
            run.store.add_usage(run.run_id, wall_seconds=left)
        if status == "paused":
            run.log("run_paused", {"status": status, "error": told})
            return
        run.note("result", f"{status}" + (f": {told}" if told else ""))
        run.log("run_terminal", {"status": status, "error": told})

    def _walked(self) -> tuple[str, str | None]:
        run = self._run
        plan = root_plan(run.problem)
        check_root(plan, run.problem.budgets)
        pins = {name: (place[0], place[1], place[2]) for name, place in (run.state.fingerprint or {})["pins"].items()}
        confinement = Confinement(run.workspace, [run.problem.authority], pins)
        key = plan.reference
        frame = Frame(plan, key, 0, None, confinement.narrowed(plan.authority), (Account("", run.problem.budgets),))
        driver = Driver(run, self._library)
        driver.authoring.review(frame, plan, f"plan:{key}", run.problem.budgets, f"author::{run.run_id}", None)
        driver.authoring.outcome(key, plan, reclassified=False, parent_state="running")
        scope: Scope = {"inputs": run.problem.inputs, "parent": {}}
        try:
            driver.body(frame, plan.root, (), scope)
        except Returned as end:
            run.checkpoint(frame)
            return self._judged(driver, frame, end.sha)
        return "failed", "the root plan ended without a return"

    def _judged(self, driver: Driver, frame: Frame, sha: str) -> tuple[str, str | None]:
        """Acceptance checks and the final review."""
        run, problem = self._run, self._run.problem
        outputs = run.store.blobs.get_json(sha)
        write_whole(run.workspace / OUTPUTS_FILE, canonical(outputs))
        subject = f"output:{problem.id}"
        if subject not in run.state.reviews:
            results = [run_check(check, outputs, problem, frame.confinement) for check in problem.acceptance]
            self._review(driver, subject, outputs, sha, results)
            if any(result.ok is False for result in results):
                driver.authoring.disprove({result.id: result.detail for result in results})
        verdict, channel_error = run.state.reviews[subject]
        if verdict == "blocked_escalated":
            return "escalated", f"final review blocked: {self._blocking(subject)}"
        if verdict == "escalated_review_incomplete" and run.policies.review_required == "model":
            return "escalated", f"final review incomplete: {channel_error}"
        return "completed", None

    def _review(self, driver: Driver, subject: str, outputs: Any, sha: str, results: Sequence[CheckResult]) -> None:
        run = self._run
        usage = run.store.projection(run.run_id)["usage"]
        found = output_findings(run.problem, subject, outputs, results, usage)
        gate = ReviewGate(run.store, run.asking.on_behalf(""), max_rounds=driver.authoring.rounds)
        checks = {result.id: result.ok for result in results}
        told = [f"outputs {sha}:", canonical(outputs).decode()[:_EXCERPT]]
        told += [f"check {result.id}: {result.ok} {result.detail[:200]}" for result in results]
        report = gate.review(
            run.run_id,
            run.problem,
            subject,
            scrub("\n".join(told), run.secrets),
            author=f"worker::{run.run_id}",
            found=found,
            evidence=Evidence(checks=checks, scope={"outputs": outputs}),
            secrets=sorted(run.secrets),
        )
        run.note("decision", f"review of {subject}: {report.verdict}")
        if report.channel_error:
            run.note("blocker", f"review of {subject} is incomplete: {report.channel_error}")

    def _blocking(self, subject: str) -> str:
        run = self._run
        with run.store.lock:
            rows = run.store.db.execute(
                "SELECT criterion, evidence_ref FROM findings WHERE run_id = ? AND subject = ? AND blocking",
                (run.run_id, subject),
            ).fetchall()
        return "; ".join(f"{criterion} ({evidence})" for criterion, evidence in rows)
