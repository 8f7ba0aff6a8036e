"""Independent review against criteria that are frozen before it begins.

Deterministic findings come first. A model, under another session than the author's, may add findings; one blocks only
if it names a frozen criterion and brings evidence, and evidence that can be carried out again is carried out again.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from harness.runtime.capabilities import Asker
from harness.runtime.channel import ChannelResponse
from harness.runtime.errors import (
    BlobCorrupt,
    BlobMissing,
    ChannelError,
    ExpressionError,
    ReviewError,
    SeparationOfDutyError,
)
from harness.runtime.events import DISPOSITIONS
from harness.runtime.expr import compile_expression
from harness.runtime.ir import ProblemSpec, canonical
from harness.runtime.redaction import scrub
from harness.runtime.store import RunStore

SCHEMA, SKIPPED, BUDGET = "outputs_conform_to_schema", "no_acceptance_check_skipped", "budgets_respected"
GENERIC = (SCHEMA, SKIPPED, BUDGET)
UNAVAILABLE, UNPARSEABLE = "review_channel_unavailable", "review_output_unparseable"
LONGEST_CRITERION = 200
Verdict = Literal["pass_with_risk", "blocked_escalated", "escalated_review_incomplete"]
_FILE = re.compile(r"([0-9a-f]{64}):(\d+)-(\d+)")


class Finding(Struct, frozen=True, kw_only=True):
    """Something a review found."""

    criterion: str
    subject: str
    evidence_ref: str
    blocking: bool
    disposition: str = "open"
    rationale: str = ""

    @property
    def finding_id(self) -> str:
        """From what it says, so that the same finding is kept once."""
        told = canonical([self.criterion, self.subject, self.evidence_ref])
        return "find_" + hashlib.sha256(told).hexdigest()[:20]


class ReviewReport(Struct, frozen=True, kw_only=True):
    """What a review came to. There is no verdict that says clean."""

    verdict: Verdict
    findings: tuple[Finding, ...]
    residual_risks: tuple[str, ...]
    rounds: int
    tokens: int
    ledger_sha: str
    channel_error: str | None = None


class Ledger(Struct, frozen=True):
    """The criteria of a review, frozen."""

    concerns: tuple[tuple[str, str], ...]

    @property
    def ids(self) -> frozenset[str]:
        """Names of the criteria."""
        return frozenset(name for name, _ in self.concerns)

    @property
    def sha(self) -> str:
        """Hash of the sorted names."""
        return hashlib.sha256(canonical(sorted(self.ids))).hexdigest()[:16]

    @property
    def text(self) -> str:
        """As the reviewer reads it."""
        return "\n".join([f"ledger {self.sha}", *(f"- {name}: {said}" for name, said in self.concerns)])


def freeze(problem: ProblemSpec) -> Ledger:
    """One criterion per acceptance check, and three that always hold."""
    contract = [(f"acceptance:{check.id}", f"{check.kind} check {check.id} passes") for check in problem.acceptance]
    generic = [
        (SCHEMA, "the outputs fit the output schema"),
        (SKIPPED, "every acceptance check was carried out"),
        (BUDGET, "usage stays within the budgets"),
    ]
    return Ledger(tuple(contract + generic))


class Evidence(Struct, frozen=True, kw_only=True):
    """What findings can be checked against.

    Attributes
    ----------
    checks : mapping of str to bool or None
        Acceptance check → whether it passed.
    scope : mapping
        Names for ``expr:`` evidence.
    """

    checks: Mapping[str, bool | None] = {}
    scope: Mapping[str, Any] = {}


class ReviewGate:
    """Carries reviews out and keeps their findings.

    Parameters
    ----------
    store : RunStore
    ask : callable
        The model.
    max_rounds : int
        Of the model; 0 leaves it out.
    time_limit : float
        Seconds; `token_limit` likewise bounds the model's part.
    """

    def __init__(
        self,
        store: RunStore,
        ask: Asker,
        *,
        max_rounds: int = 2,
        time_limit: float = 120.0,
        token_limit: int = 20_000,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._ask, self._timer = store, ask, timer
        self._max_rounds, self._time_limit, self._token_limit = max_rounds, time_limit, token_limit

    def review(
        self,
        run_id: str,
        problem: ProblemSpec,
        subject: str,
        content: str,
        *,
        author: str,
        found: Sequence[Finding] = (),
        evidence: Evidence | None = None,
        reviewer: str | None = None,
        secrets: Sequence[str] = (),
        node_key: str | None = None,
    ) -> ReviewReport:
        """Review a subject.

        Parameters
        ----------
        content : str
            What the reviewer reads.
        author : str
            Session of who made it.
        found : sequence of Finding
            What was found without a model.
        evidence : Evidence, optional
            For evidence that names a check, a file or an expression.

        Raises
        ------
        SeparationOfDutyError
            If author and reviewer are one.
        """
        reviewer = f"reviewer::{author}" if reviewer is None else reviewer
        if reviewer == author:
            raise SeparationOfDutyError(f"{author} cannot review its own work; name another session")
        ledger = freeze(problem)
        findings: list[Finding] = list(dict.fromkeys(found))
        for finding in findings:
            self._raise(run_id, finding, node_key, secrets)
        tokens, rounds, channel_error = 0, 0, None
        begin = self._timer()
        new: list[Finding] = []
        while rounds < self._max_rounds and self._timer() - begin < self._time_limit and tokens < self._token_limit:
            try:
                answer = self._round(ledger, subject, content, reviewer, node_key)
            except ChannelError as error:
                channel_error = f"{type(error).__name__}: {error}"
                break
            rounds += 1
            tokens += answer.tokens
            new = [self._checked(finding, ledger, evidence or Evidence()) for finding in _parse(answer.text, subject)]
            for finding in new:
                self._raise(run_id, finding, node_key, secrets)
            findings += new
            last = rounds >= self._max_rounds or not any(finding.blocking for finding in new)
            report = self._report(findings, rounds, tokens, ledger, None)
            self._log(run_id, problem, subject, reviewer, report, len(new), node_key, last=last)
            if last:
                return report
        if channel_error is not None:
            deferred = Finding(
                criterion=UNAVAILABLE,
                subject=subject,
                evidence_ref=channel_error[:LONGEST_CRITERION],
                blocking=False,
                disposition="deferred",
                rationale="the reviewer could not be asked",
            )
            self._raise(run_id, deferred, node_key, secrets)
            findings.append(deferred)
        report = self._report(findings, rounds, tokens, ledger, channel_error)
        self._log(
            run_id, problem, subject, reviewer, report, len(new) if rounds else len(findings), node_key, last=True
        )
        return report

    def _round(
        self, ledger: Ledger, subject: str, content: str, reviewer: str, node_key: str | None
    ) -> ChannelResponse:
        system = (
            "You review work that somebody else has done. Judge it only by this ledger:\n"
            f"{ledger.text}\n"
            'Answer with JSON: {"findings": [{"criterion", "subject", "evidence", "blocking"}]}. Evidence is '
            "check:<id>, file:<sha256>:<start>-<end>, expr:<predicate>, or a quotation."
        )
        user = f"Subject {subject}:\n{content}"
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        return self._ask(messages, temperature=0.0, max_tokens=2048, session=reviewer)

    def _checked(self, finding: Finding, ledger: Ledger, evidence: Evidence) -> Finding:
        """A finding as it counts: off the ledger or without evidence that holds, it does not block."""
        reason = None
        if finding.criterion == UNPARSEABLE:
            return finding
        if finding.criterion not in ledger.ids:
            reason = "not a criterion of the frozen ledger; kept as a residual risk"
        elif not finding.evidence_ref.strip():
            reason = "no evidence was given"
        elif self._holds(finding.evidence_ref, evidence) is False:
            reason = "the evidence was carried out again and does not hold"
        if reason is None:
            return finding
        return msgspec.structs.replace(finding, blocking=False, disposition="invalid", rationale=reason)

    def _holds(self, told: str, evidence: Evidence) -> bool | None:
        """Whether evidence holds when it is carried out again; None if it is only a text."""
        kind, _, rest = told.partition(":")
        if kind == "check":
            # Only a check that did not pass speaks against the work.
            return rest in evidence.checks and evidence.checks[rest] is not True
        if kind == "file":
            match = _FILE.fullmatch(rest)
            try:
                return match is not None and int(match[2]) < int(match[3]) <= len(self._store.blobs.get(match[1]))
            except (BlobMissing, BlobCorrupt):
                return False
        if kind == "expr":
            try:
                return bool(compile_expression(rest).evaluate(evidence.scope))
            except ExpressionError:
                return False
        return None

    def _report(
        self, findings: list[Finding], rounds: int, tokens: int, ledger: Ledger, channel_error: str | None
    ) -> ReviewReport:
        blocked = any(finding.blocking and finding.disposition == "open" for finding in findings)
        verdict: Verdict = "pass_with_risk"
        if blocked:
            verdict = "blocked_escalated"
        elif channel_error is not None:
            verdict = "escalated_review_incomplete"
        risks = [f"{f.criterion}: {f.rationale or f.evidence_ref}" for f in findings if not f.blocking]
        return ReviewReport(
            verdict=verdict,
            findings=tuple(findings),
            residual_risks=tuple(risks),
            rounds=rounds,
            tokens=tokens,
            ledger_sha=ledger.sha,
            channel_error=channel_error,
        )

    def _raise(self, run_id: str, finding: Finding, node_key: str | None, secrets: Sequence[str]) -> None:
        with self._store.transaction() as db:
            key = (run_id, finding.finding_id)
            if db.execute("SELECT 1 FROM findings WHERE run_id = ? AND finding_id = ?", key).fetchone():
                return
            told = {
                name: scrub(value, secrets) if isinstance(value, str) else value for name, value in _fields(finding)
            }
            payload = {"finding_id": finding.finding_id} | told
            self._store.append(run_id, "finding_raised", payload, node_key=node_key)

    def _log(
        self,
        run_id: str,
        problem: ProblemSpec,
        subject: str,
        reviewer: str,
        report: ReviewReport,
        count: int,
        node_key: str | None,
        *,
        last: bool,
    ) -> None:
        payload: dict[str, Any] = {
            "problem_id": problem.id,
            "subject": subject,
            "round": report.rounds,
            "n_findings": count,
            "tokens": report.tokens,
            "reviewer_session": reviewer,
            "ledger_sha": report.ledger_sha,
            "mode": "model" if self._max_rounds else "deterministic",
        }
        if last:
            payload |= {"verdict": report.verdict, "channel_error": report.channel_error}
        self._store.append(run_id, "review_round", payload, node_key=node_key)


def _fields(finding: Finding) -> list[tuple[str, Any]]:
    return list(msgspec.structs.asdict(finding).items())


def _parse(text: str, subject: str) -> list[Finding]:
    """The findings of an answer; one that cannot be read says so itself."""
    begin, end = text.find("{"), text.rfind("}")
    try:
        raw = msgspec.json.decode(text[begin : end + 1].encode())["findings"]
        return [
            Finding(
                criterion=str(item["criterion"])[:LONGEST_CRITERION],
                subject=subject,
                evidence_ref=str(item.get("evidence") or ""),
                blocking=item.get("blocking") is True,
            )
            for item in raw
        ]
    except (msgspec.DecodeError, UnicodeError, LookupError, TypeError, AttributeError):
        said = "the reviewer's answer is no findings"
        return [
            Finding(
                criterion=UNPARSEABLE,
                subject=subject,
                evidence_ref=f"{len(text)} characters",
                blocking=False,
                disposition="invalid",
                rationale=said,
            )
        ]


def set_disposition(store: RunStore, run_id: str, finding_id: str, disposition: str, rationale: str = "") -> bool:
    """Say what became of a finding; False if there is no such finding.

    Raises
    ------
    ReviewError
        If the disposition is unknown.
    """
    if disposition not in DISPOSITIONS:
        raise ReviewError(f"{disposition!r} is no disposition; they are {', '.join(sorted(DISPOSITIONS))}")
    with store.transaction() as db:
        key = (run_id, finding_id)
        if not db.execute("SELECT 1 FROM findings WHERE run_id = ? AND finding_id = ?", key).fetchone():
            return False
        payload = {"finding_id": finding_id, "disposition": disposition, "rationale": rationale}
        store.append(run_id, "finding_disposition", payload)
        return True
