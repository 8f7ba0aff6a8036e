"""Child plans: asked for, checked, recorded. A plan that is in the log is never asked for again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from harness.runtime.accounts import Account
from harness.runtime.authority import missing_powers
from harness.runtime.criteria import plan_findings
from harness.runtime.errors import ChannelError, LeaseLost, PlanError
from harness.runtime.ir import Budgets, Plan, canonical, read_record
from harness.runtime.planner import signature
from harness.runtime.redaction import scrub
from harness.runtime.review import ReviewGate
from harness.runtime.run import Frame, Halt, Run
from harness.runtime.validation import errors, leaves, validate_plan


class Authoring:
    """Makes child plans of one run."""

    def __init__(self, run: Run) -> None:
        self._run = run

    # -- getting a plan ----------------------------------------------------------------------------------------

    def child(
        self,
        frame: Frame,
        key: str,
        goal: str,
        hints: Mapping[str, Any],
        *,
        fraction: float = 0.5,
        fanout_cap: int | None = None,
    ) -> Frame:
        """The frame of the child plan below a node.

        Raises
        ------
        Halt
            If there is no plan, it may not be run, or it was verified to be wrong before.
        """
        run = self._run
        record = run.state.node(key)
        self.check_depth(frame, key)
        if record.child is None:
            budgets = run.state.accounts.share(frame.accounts, fraction, None)
            if fanout_cap is not None:
                budgets = msgspec.structs.replace(budgets, max_fanout=min(fanout_cap, budgets.max_fanout))
            plan, sign = self._authored(frame, key, goal, hints, budgets)
            self.record(frame, key, plan, goal, budgets, sign)
        return self.open(frame, key)

    def check_depth(self, frame: Frame, key: str) -> None:
        """Raises Halt if a plan below a node would lie too deep."""
        if frame.depth + 1 > frame.max_depth:
            error = f"max_depth ({frame.max_depth}) is reached at {key}"
            raise self._run.end_badly(key, "budget_exhausted", error)

    def _authored(
        self, frame: Frame, key: str, goal: str, hints: Mapping[str, Any], budgets: Budgets
    ) -> tuple[Plan, str]:
        run = self._run
        held = frame.confinement.effective
        # What is left of a budget differs from run to run; the limits of the run are what a plan is made for.
        sign = signature(goal, hints, held, run.problem.budgets)
        entry = run.cache.get(sign) if run.policies.cache else None
        if entry is not None and entry["status_class"] == "solved":
            run.log("cache_hit", {"signature": sign, "plan_sha": entry["plan_sha"]}, key)
            return read_record(run.store.blobs.get_json(entry["plan_sha"]), Plan), sign
        session = f"planner::{run.run_id}"
        try:
            asker = run.asking.on_behalf(key)
            plan = run.planner.author_plan(goal, hints, held, budgets, session=session, ask=asker)
        except (LeaseLost, KeyboardInterrupt):
            raise
        except (PlanError, ChannelError) as error:
            raise run.end_badly(key, "escalated", f"no plan: {error}") from error
        except Exception as error:
            raise run.end_badly(key, "escalated", f"no plan: {type(error).__name__}: {error}") from error
        if entry is not None and entry["plan_sha"] == run.store.blobs.put_json(_bare(plan)):
            known = f"this plan was verified to be wrong before (evidence {entry['evidence_sha']})"
            raise run.end_badly(key, "escalated", known)
        return plan, sign

    # -- the gate ----------------------------------------------------------------------------------------------

    def record(self, frame: Frame, key: str, plan: Plan, goal: str, budgets: Budgets, sign: str | None = None) -> None:
        """Check a plan and write it into the log.

        Raises
        ------
        Halt
            If it asks for more than is held; then it is not recorded.
        """
        run = self._run
        if plan.authority is not None:
            for authority in frame.confinement.authorities:
                missing = missing_powers(authority, plan.authority)
                if missing:
                    error = f"plan {plan.reference} is refused: it asks for {', '.join(missing)}"
                    raise run.end_badly(key, "escalated", error)
        share = budgets
        if plan.budgets is not None:
            names = Budgets.__struct_fields__
            share = Budgets(**{name: min(getattr(budgets, name), getattr(plan.budgets, name)) for name in names})
        payload = {
            "child_plan": plan.reference,
            "goal": run.hide(goal),
            "plan_sha": run.store.blobs.put_json(plan),
            "bare_sha": run.store.blobs.put_json(_bare(plan)),
            "parent_node": key,
            "budgets": msgspec.to_builtins(share),
            "signature": sign,
        }
        run.log("plan_recorded", payload, key)

    def open(self, frame: Frame, key: str) -> Frame:
        """The frame of a recorded child plan, reviewed.

        Raises
        ------
        Halt
            If the review blocks it.
        """
        run = self._run
        child = run.state.node(key).child
        assert child is not None
        plan = read_record(run.store.blobs.get_json(child["plan_sha"]), Plan)
        share = read_record(child["budgets"], Budgets)
        # The limits of shape are those a plan was written under; what it may use comes out of the share.
        limits = msgspec.structs.replace(frame.accounts[-1].budgets, max_fanout=share.max_fanout)
        author = f"planner::{run.run_id}"
        self.review(frame, plan, f"plan:{plan.reference}:{key}", limits, author, key)
        return Frame(
            plan,
            f"{key}/{plan.reference}",
            frame.depth + 1,
            key,
            frame.confinement.narrowed(plan.authority),
            (*frame.accounts, Account(key, share)),
        )

    def review(self, frame: Frame, plan: Plan, subject: str, budgets: Budgets, author: str, key: str | None) -> None:
        """Review a plan once; the log keeps the verdict.

        Raises
        ------
        Halt
            If it blocks, or if a model must review and could not.
        """
        run = self._run
        if run.policies.review_required == "off":
            return
        if subject not in run.state.reviews:
            found = plan_findings(plan, subject, frame.confinement.authorities, budgets)
            gate = ReviewGate(run.store, run.asking.on_behalf(key or ""), max_rounds=self.rounds)
            content = scrub(canonical(plan).decode(), run.secrets)
            report = gate.review(
                run.run_id,
                run.problem,
                subject,
                content,
                author=author,
                found=found,
                secrets=sorted(run.secrets),
                node_key=key,
            )
            run.note("decision", f"review of {subject}: {report.verdict}", key)
            if report.channel_error:
                run.note("blocker", f"review of {subject} is incomplete: {report.channel_error}", key)
        verdict, channel_error = run.state.reviews[subject]
        error = None
        if verdict == "blocked_escalated":
            error = f"plan {plan.reference} is refused by its review: {self._why(subject)}"
        elif verdict == "escalated_review_incomplete" and run.policies.review_required == "model":
            error = f"plan {plan.reference} could not be reviewed: {channel_error}"
        if error is not None:
            raise Halt("escalated", error) if key is None else run.end_badly(key, "escalated", error)

    @property
    def rounds(self) -> int:
        """Rounds of the model that the policy asks for."""
        return 1 if self._run.policies.review_required == "model" else 0

    def _why(self, subject: str) -> str:
        run = self._run
        with run.store.lock:
            rows: Sequence[tuple[str, str]] = run.store.db.execute(
                "SELECT criterion, evidence_ref FROM findings WHERE run_id = ? AND subject = ? AND blocking",
                (run.run_id, subject),
            ).fetchall()
        return "; ".join(f"{criterion} ({evidence})" for criterion, evidence in rows)

    # -- afterwards --------------------------------------------------------------------------------------------

    def outcome(self, key: str, plan: Plan, *, reclassified: bool, parent_state: str) -> None:
        """Log, once, what a plan declared about its steps."""
        if self._run.state.node(key).outcome:
            return
        found = leaves(plan)
        payload = {
            "children_declared": len(found) or len(plan.root),
            "children_ambiguous": sum(not leaf.atomic_claim for leaf in found),
            "reclassified": reclassified,
            "parent_state": parent_state,
        }
        self._run.log("decompose_outcome", payload, key)

    def remember(self, key: str) -> None:
        """Keep a plan that ran to its end, for the same question in another run."""
        run = self._run
        child = run.state.node(key).child
        if run.policies.cache and child is not None and child.get("signature"):
            entry = {"status_class": "solved", "inconclusive": False, "plan_sha": child["plan_sha"]}
            run.cache.put(child["signature"], entry)

    def disprove(self, evidence: Any) -> None:
        """The result was verified to be wrong: whoever planned the whole of it is not to be asked for it again."""
        run = self._run
        sha = run.store.blobs.put_json(evidence)
        for key, record in run.state.nodes.items():
            child = record.child
            if run.policies.cache and child is not None and child.get("signature") and "/" not in key:
                run.cache.put_failed(child["signature"], child["bare_sha"], sha)


def _bare(plan: Plan) -> Plan:
    """A plan without its notes: who wrote it does not change what it does."""
    return msgspec.structs.replace(plan, notes={})


def check_root(plan: Plan, budgets: Budgets) -> None:
    """Raises PlanError if the root plan cannot be run."""
    wrong = errors(validate_plan(plan, budgets))
    if wrong:
        told = "; ".join(f"{problem.path}: {problem.code}: {problem.message}" for problem in wrong)
        raise PlanError(f"the root plan cannot be run: {told}")
