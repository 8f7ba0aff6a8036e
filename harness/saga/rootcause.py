"""Why something failed: pure functions over results, issues and what the worker says of the network.

A number is no status code unless something around it says HTTP, and nothing is read out of the size or the name of a
file. A terminal cause ends the saga, so each pattern asks for more than one word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from harness.saga.checks.base import CheckResult
from harness.saga.checks.browser import LOOPBACK
from harness.saga.model import RootCauseKind, TerminationReason

Strategy = Literal["fix-attempt", "awaiting_human", "terminal"]
_STATUS = r"(?:HTTP(?:/\d(?:\.\d)?)?(?:\s+(?:status|error|code))*\s*[:=]?\s*|\bstatus(?:[ _-]?code)?\s*[:=]?\s*)"
_DENIED = re.compile(
    rf"\b{_STATUS}(?:401|403|404|451)\b|\b(?:401|403)\s+(?:Unauthorized|Forbidden)\b|\b404\s+Not\s+Found\b"
    r"|\blogin required\b|\bunauthorized\b|\bforbidden\b|\baccess denied\b",
    re.IGNORECASE,
)
_RATE = re.compile(rf"\brate[- ]limit|\btoo many requests\b|{_STATUS}429\b", re.IGNORECASE)
_TRANSIENT = re.compile(
    r"\btime(?:d)?[- ]?out\b|\bconnection (?:was )?reset\b|\bECONNRESET\b|\bETIMEDOUT\b", re.IGNORECASE
)
_CAPABILITY = re.compile(
    r"\bcontext (?:window|length|size)(?: (?:limit|was|is|has been))* (?:exceeded|overflow\w*|too small)"
    r"|\bexceed\w*(?: \w+){0,3} (?:context (?:window|length|size)|token limit|maximum output|output limit)"
    r"|\b(?:token limit|maximum output(?: length| tokens)?)(?: (?:was|is|has been))* (?:exceeded|reached|hit)"
    r"|\b(?:hit|hits|reached|over|beyond|above) (?:the |its )?(?:\w+ )?(?:token limit|maximum output)"
    r"|\b(?:input|prompt|context|output)(?: (?:is|was|are|were|far|much))* too long"
    r"|\b(?:model|agent|worker|evaluator|assistant) (?:cannot|can ?not|can't|is unable to)"
    r" (?:process|handle|complete)\b",
    re.IGNORECASE,
)
_PLAN = re.compile(r"\bplan\w*\b.*\b(?:reject|fail|unable)|\b(?:reject|fail|unable)\w*\b.*\bplan", re.IGNORECASE | re.S)
_SOURCES = frozenset({401, 403, 404, 451})
_BLOCKED = re.compile(r"[#>*_`\s]*BLOCKED[*_\s]*[:：]\s*(?P<why>.*)")


@dataclass(frozen=True)
class RootCause:
    """Why a stage failed, and what to do about it.

    Attributes
    ----------
    reason : str or None
        Of the termination, if the cause is terminal.
    """

    kind: RootCauseKind
    strategy: Strategy
    message: str
    reason: TerminationReason | None = None


def source_unavailable(results: Sequence[CheckResult]) -> str | None:
    """What shows that a source refuses itself; None if nothing does.

    Only what programs printed, what lines of logs say and what servers elsewhere answered counts.
    """
    for result in results:
        if not result.passed:
            said = _said(result)
            if _DENIED.search(said) and not _RATE.search(said):
                return said
    return None


def _said(result: CheckResult) -> str:
    """What the world answered in a check, without the words of the criterion itself."""
    kind, evidence = result.criterion.get("kind"), result.evidence
    if kind in ("command", "log-scan"):
        return str(evidence.get("output", ""))
    if kind == "browser":
        host = urlsplit(str(result.criterion.get("url") or "")).hostname
        # A page of this machine is the worker's own: that it is not there yet is no source that refuses itself.
        if host is not None and host not in LOOPBACK and evidence.get("status") is not None:
            return f"HTTP {evidence['status']}"
    return ""


def capability_exceeded(issues: Sequence[str]) -> str | None:
    """The issue that says that the task is too large for the model; None if none does."""
    return next((issue for issue in issues if _CAPABILITY.search(issue)), None)


def is_plan_rejection(error: str) -> bool:
    """Whether an error says that planning failed."""
    return _PLAN.search(error) is not None


def blocked(text: str) -> str | None:
    """Why a worker says that a stage is impossible: what follows ``BLOCKED:`` at the beginning of an artefact."""
    found = _BLOCKED.match(text.lstrip("\ufeff"))
    return None if found is None else (found["why"].strip() or "no reason was given")


def root_cause(
    results: Sequence[CheckResult], issues: Sequence[str], diagnostics: Mapping[str, Any] | None
) -> RootCause:
    """Why a stage failed; the first rule that fits.

    Parameters
    ----------
    results : sequence of CheckResult
        Of the hard checks.
    issues : sequence of str
        What failed, in words: details of checks or issues of the evaluator.
    diagnostics : mapping, optional
        What the worker says: ``searchedTerms``, ``urlsAttempted``, ``errorsCaught``, ``notes``.
    """
    said = diagnostics or {}
    errors = [str(entry) for entry in _list(said.get("errorsCaught"))]
    transient = next((entry for entry in errors if _TRANSIENT.search(entry) or _RATE.search(entry)), None)
    limited = next((_said(result) for result in results if not result.passed and _RATE.search(_said(result))), None)
    if transient is not None or limited is not None:
        return RootCause("network_transient", "fix-attempt", f"the network failed for a while: {transient or limited}")
    denied = source_unavailable(results)
    if denied is not None:
        return RootCause("source_unavailable", "terminal", f"a source refuses itself: {denied}", "source_unavailable")
    too_large = capability_exceeded([*issues, *errors])
    if too_large is not None:
        text = f"more than the model can do: {too_large}"
        return RootCause("model_capability_exceeded", "terminal", text, "model_capability_exceeded")
    statuses = [entry.get("status") for entry in _list(said.get("urlsAttempted")) if isinstance(entry, dict)]
    short = any(_falls_short(result) for result in results)
    if short and statuses and all(_is_failure(status) for status in statuses):
        terms = ", ".join(str(term) for term in _list(said.get("searchedTerms"))) or "none named"
        text = f"the information may not be available: every address failed; searched for: {terms}"
        return RootCause("information_unavailable", "awaiting_human", text)
    if statuses and not short and all(_code(status) in _SOURCES for status in statuses):
        text = f"every address refused: {', '.join(str(status) for status in statuses[:5])}"
        return RootCause("source_unavailable", "terminal", text, "source_unavailable")
    return RootCause("quality_insufficient", "fix-attempt", "; ".join(issues) or "the stage did not pass")


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _falls_short(result: CheckResult) -> bool:
    size, threshold = result.evidence.get("bytes"), result.evidence.get("threshold")
    return not result.passed and isinstance(size, int) and isinstance(threshold, int) and size < threshold


def _code(status: Any) -> int | None:
    found = re.match(r"\s*(?:HTTP\s*)?(\d{3})\b", str(status), re.IGNORECASE)
    return None if found is None or isinstance(status, bool) else int(found[1])


def _is_failure(status: Any) -> bool:
    code = _code(status)
    if code is not None:
        return 400 <= code <= 599
    return str(status or "").strip().lower() in ("", "none", "empty", "no results", "no result")
