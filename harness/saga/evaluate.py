"""The deep evaluator: a prompt rendered from the profile, and a verdict that is computed from its checklist.

What the agent claims is believed only as far as its checklist goes: a failed item fails the stage, a missing one too,
and evidence must be found in the artefacts, word for word.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from harness.saga.profiles import Checklist, Profile

PASS, REWORK, ESCALATE = "PASS", "FAIL-REWORK", "FAIL-ESCALATE"
MIN_EVIDENCE = 12
"""Characters of a quote below which it would be found anywhere."""
_RANK = {PASS: 0, REWORK: 1, ESCALATE: 2}


class EvalVerdict(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What the evaluation came to.

    Attributes
    ----------
    score : float or None
        Weighted mean of the soft items, 1 to 5; None if one of them has no score.
    claimed_score : float or None
        What the evaluator said it was.
    warnings : tuple of str
        Where the submitted verdict contradicts itself.
    """

    passed: bool
    issues: tuple[str, ...] = ()
    score: float | None = None
    escalate: bool = False
    checklist: tuple[dict[str, Any], ...] = ()
    claimed_score: float | None = None
    warnings: tuple[str, ...] = ()
    evaluator_session: str | None = None


def read_verdict(raw: object) -> dict[str, Any]:
    """A submitted verdict as a record: an object, or text with a JSON object in it. Never raises.

    >>> read_verdict("no braces")["passed"]
    False
    """
    if isinstance(raw, str):
        begin, end = raw.find("{"), raw.rfind("}")
        if begin < 0 or end < begin:
            return _unread("the evaluator's answer was not JSON")
        try:
            raw = json.loads(raw[begin : end + 1])
        except (ValueError, RecursionError) as error:
            return _unread(f"the evaluator's answer could not be parsed: {error}"[:200])
    if not isinstance(raw, Mapping):
        return _unread("the evaluator's answer was no JSON object")
    issues = raw.get("issues")
    return {
        **raw,
        "passed": raw.get("passed") is True or str(raw.get("passed")).lower() == "true",
        "escalate": raw.get("escalate") is True or str(raw.get("escalate")).lower() == "true",
        "score": _number(raw.get("score")),
        "issues": [str(issue) for issue in issues] if isinstance(issues, list | tuple) else [],
    }


def _unread(issue: str) -> dict[str, Any]:
    return {"passed": False, "escalate": False, "score": None, "issues": [issue]}


def judge(raw: object, checklist: Checklist, *, required: bool, texts: Sequence[str]) -> EvalVerdict:
    """The verdict that a submitted one amounts to.

    Parameters
    ----------
    raw
        What the evaluator sent.
    checklist : Checklist
        Of the profile.
    required : bool
        Whether a verdict without a checklist, and an item without evidence, fail.
    texts : sequence of str
        The artefacts; evidence must stand in one of them.
    """
    claimed = read_verdict(raw)
    issues, warnings = list(claimed["issues"]), []
    session = claimed.get("evaluatorSession")
    entries = _entries(claimed.get("checklist"))
    passed, escalate, score = bool(claimed["passed"]), bool(claimed["escalate"]), claimed["score"]
    if entries:
        found, problems = _hard(entries, checklist, required, [_plain(text) for text in texts])
        issues += [problem for problem in problems if problem not in issues]
        if found == PASS and not passed and not escalate:
            warnings.append("every hard item passes, but the verdict does not; the verdict was kept")
        if escalate and found != ESCALATE:
            warnings.append("the verdict escalates, but no hard item does; the verdict was kept")
        if passed and found != PASS:
            warnings.append("the verdict passes, but a hard item does not; the stage does not pass")
        passed = passed and found == PASS
        escalate = escalate or found == ESCALATE
        score = _score(entries, checklist, warnings)
    elif required and passed:
        passed = False
        issues.append("the verdict has no checklist; every hard item must be judged, with evidence")
    passed = passed and not escalate
    if not passed and not issues:
        issues.append("the evaluator gave no reason")
    return EvalVerdict(
        passed=passed,
        escalate=escalate,
        issues=tuple(issues),
        score=score,
        checklist=tuple(entries.values()),
        claimed_score=claimed["score"],
        warnings=tuple(warnings),
        evaluator_session=session if isinstance(session, str) else None,
    )


def _entries(given: Any) -> dict[str, dict[str, Any]]:
    """Items by id; an id that stands twice counts with its worse half."""
    if isinstance(given, Mapping):
        given = [
            {"id": key, **(v if isinstance(v, Mapping) else {"status": v, "score": v})} for key, v in given.items()
        ]
    entries: dict[str, dict[str, Any]] = {}
    for item in given if isinstance(given, list | tuple) else ():
        if not isinstance(item, Mapping) or not isinstance(item.get("id"), str):
            continue
        entry = {k: item[k] for k in ("id", "status", "score", "evidence", "notes") if item.get(k) is not None}
        entry["id"] = item["id"].strip().upper()
        if isinstance(entry.get("status"), str):
            entry["status"] = _status(entry["status"])
        held = entries.get(entry["id"])
        if held is None or _rank(entry) > _rank(held):
            entries[entry["id"]] = entry
    return entries


def _status(text: str) -> str:
    plain = "-".join(text.upper().replace("_", " ").replace("-", " ").split())
    return {"PASSED": PASS, "FAIL": REWORK, "FAILED": REWORK, "REWORK": REWORK, "ESCALATE": ESCALATE}.get(plain, plain)


def _rank(entry: Mapping[str, Any]) -> int:
    return _RANK.get(str(entry.get("status")), 1)


def _hard(
    entries: Mapping[str, Mapping[str, Any]], checklist: Checklist, required: bool, texts: Sequence[str]
) -> tuple[str, list[str]]:
    worst, problems = PASS, []  # type: str, list[str]
    for item in checklist.hard:
        entry = entries.get(item.id, {})
        status, remark = entry.get("status"), None  # type: Any, str | None
        if status not in _RANK:
            problem = f"missing {item.id}" if status is None else f"{item.id}: status {str(status)[:40]!r} is unknown"
            status, remark = REWORK, problem
        elif status == PASS:
            remark = _evidence_problem(item.id, entry.get("evidence"), required, texts)
            status = PASS if remark is None else REWORK
        else:
            why = entry.get("notes") or entry.get("evidence") or item.title
            remark = f"{item.id} {status}: {why}"
        if remark is not None:
            problems.append(remark)
        worst = max(worst, str(status), key=lambda name: _RANK[name])
    return worst, problems


def _evidence_problem(name: str, evidence: Any, required: bool, texts: Sequence[str]) -> str | None:
    if evidence is None or evidence == "":
        return f"{name}: no evidence is quoted" if required else None
    quote = _plain(str(evidence).strip("\"'“”‘’` "))
    if len(quote) < MIN_EVIDENCE:
        return f"{name}: the evidence is too short; quote at least {MIN_EVIDENCE} characters"
    if not any(quote in text for text in texts):
        return f"{name}: the evidence does not stand in any artifact: {quote[:60]!r}"
    return None


def _plain(text: str) -> str:
    return " ".join(text.split())


def _score(entries: Mapping[str, Mapping[str, Any]], checklist: Checklist, warnings: list[str]) -> float | None:
    scores = {item.id: _number(entries.get(item.id, {}).get("score")) for item in checklist.soft}
    bad = [name for name, score in scores.items() if score is None or not 1 <= score <= 5]
    if bad:
        warnings.append(f"no score from 1 to 5 for {', '.join(bad)}")
        return None
    total = math.fsum(item.weight * (scores[item.id] or 0) for item in checklist.soft)
    return round(total / math.fsum(item.weight for item in checklist.soft), 4)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def template(profile: Profile) -> str:
    """The JSON that the evaluator shall answer with, every item listed."""
    hard = [
        {"id": item.id, "status": f"{PASS} | {REWORK} | {ESCALATE}", "evidence": "<verbatim quote>", "notes": "<why>"}
        for item in profile.evaluator.checklist.hard
    ]
    soft = [{"id": item.id, "score": "<1-5>"} for item in profile.evaluator.checklist.soft]
    shape = {
        "passed": "<true|false>",
        "escalate": "<true|false>",
        "score": "<number>",
        "issues": ["<what to change>"],
        "checklist": [*hard, *soft],
        "evaluatorSession": "<id of your session, if you know it>",
    }
    return json.dumps(shape, indent=2)
