"""The four questions, as pure functions of counts. All constants are the published ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from sherpa.answers import (
    Candidate,
    MatchEvidence,
    OutcomeNote,
    RecalledPath,
    WorkflowNext,
    WorkflowOutcomes,
    WorkflowRecall,
    WorkflowState,
)
from sherpa.branches import Branch, Branches, CaseFinder, EdgeSource
from sherpa.collation import collation_key
from sherpa.config import EngineConfig
from sherpa.lifts import branch_lifts
from sherpa.projection.states import Facets, StateVariant, state_variants, token_text
from sherpa.rounding import round_half_up

if TYPE_CHECKING:
    from sherpa.estimators.live import Outlook

RecallMode = Literal["successful", "failed", "any"]
END = "(end of case)"
"""How the end of a case is called among next events."""
CONTINUATION_LIMIT = 8


class StateMatch(msgspec.Struct, frozen=True):
    """The longest suffix with enough support, and what followed it."""

    variant: StateVariant
    branches: Branches
    types: tuple[str, ...]

    @property
    def order(self) -> int:
        return len(self.types)

    def evidence(self) -> MatchEvidence:
        return MatchEvidence(
            mode=self.variant.mode,
            description=self.variant.description,
            matched_order=self.order,
            facet_fields=self.variant.facet_fields,
            state=self.variant.tokens,
            state_key=self.variant.key,
        )


# -- matching --------------------------------------------------------------------------------------------------


def match_state(source: EdgeSource, recent: Sequence[Facets], config: EngineConfig) -> StateMatch | None:
    """The longest suffix of `recent` (oldest first) with summed support of at least ``min_support``, or None.

    Orders are tried from ``default_order`` down to ``min_order``. Where several variants of the same order count,
    the best by `variant_rank` is taken. There is no blending: the longest match wins outright.
    """
    if config.state_strategy == "raw":
        return _match_raw(source, tuple(e.type for e in recent), config)
    for order in range(min(config.default_order, len(recent)), config.min_order - 1, -1):
        window = recent[-order:]
        found = []
        for variant in state_variants(window, config.state_strategy, config.allow_raw_fallback):
            branches = source.branches(order, variant.tokens)
            if branches.rows and branches.total >= config.min_support:
                found.append(StateMatch(variant, branches, tuple(e.type for e in window)))
        if found:
            return min(found, key=variant_rank)
    return None


_raw_token = lru_cache(maxsize=1 << 14)(token_text)


def _match_raw(source: EdgeSource, types: tuple[str, ...], config: EngineConfig) -> StateMatch | None:
    tokens = tuple(map(_raw_token, types))
    for order in range(min(config.default_order, len(types)), config.min_order - 1, -1):
        window = types[-order:]
        branches = source.branches(order, tokens[-order:])
        if branches.rows and branches.total >= config.min_support:
            added = 0 if tokens == types else sum(map(len, tokens[-order:])) - sum(map(len, window))
            return StateMatch(StateVariant(tokens[-order:], (), added), branches, window)
    return None


def variant_rank(match: StateMatch) -> tuple[Any, ...]:
    """Sort key among variants of one order, best first.

    Dominance times evidence, (largest row / total) · log10(total + 1); then total, number of facets, characters
    that the tokens add, number of rows, key.
    """
    total = match.branches.total
    dominance = match.branches.rows[0].support / total * math.log10(total + 1)
    variant = match.variant
    return (
        -dominance,
        -total,
        -len(variant.facet_fields),
        -variant.specificity,
        -len(match.branches),
        collation_key(variant.key),
    )


def support_confidence(support: int) -> float:
    """Published confidence of a state: 0 without support, else min(0.99, 0.45 + log10(support + 1) / 3), 2 digits.

    It depends on the support alone; it is not a probability of being right.
    """
    return round_half_up(min(0.99, 0.45 + math.log10(support + 1) / 3), 2) if support else 0.0


# -- state, next, outcomes -------------------------------------------------------------------------------------


def workflow_state(
    source: EdgeSource,
    case_id: str,
    recent: Sequence[Facets],
    config: EngineConfig,
    *,
    workflow: str | None = None,
    recent_events: Sequence[Any] = (),
) -> WorkflowState:
    """Where the case is: the matched state, its support and the published confidence.

    Parameters
    ----------
    recent : sequence of Facets
        The last events of the case, oldest first.
    workflow : str, optional
        First label ``workflow:…`` among the recent events.
    recent_events : sequence
        The same events in full, for the answer.
    """
    match = match_state(source, recent, config)
    if match is not None:
        types, support = match.types, match.branches.total
    else:
        types = tuple(e.type for e in recent)
        raw = state_variants([Facets(t) for t in types], "raw")[0].tokens
        # Below min_support the state is not matched, yet what was seen of it is told.
        support = source.branches(len(types), raw).total if types else 0
    return WorkflowState(
        case_id=case_id,
        state=types,
        matched_workflow=workflow,
        matched_order=len(types),
        confidence=support_confidence(support),
        support=support,
        matched_by=match.evidence() if match else None,
        recent_events=tuple(recent_events),
    )


def workflow_next(
    source: EdgeSource, case_id: str, recent: Sequence[Facets], config: EngineConfig, limit: int = 5
) -> WorkflowNext:
    """What usually comes next, best candidate first."""
    match = match_state(source, recent, config)
    state = match.types if match else tuple(e.type for e in recent)
    return WorkflowNext(
        case_id=case_id,
        state=state,
        match=match.evidence() if match else None,
        candidates=tuple(candidates(match, config)[:limit]) if match else (),
    )


def workflow_outlook(
    source: EdgeSource,
    case_id: str,
    recent: Sequence[Facets],
    config: EngineConfig,
    outlook: Outlook,
    limit: int = 5,
) -> WorkflowNext:
    """What usually comes next, by a blended estimator: candidates by probability, with the evidence of the match.

    Support, rates and times of a candidate are those of its branch of the matched state; where it has none there, its
    support is 0. The score is the probability: what is likely and what is desirable are not mixed.
    """
    match = match_state(source, recent, config)
    branches = {b.event: b for b in match.branches} if match else {}
    told = match.variant.description if match else "no state"
    order = match.order if match else 0
    total = match.branches.total if match else 0
    found = []
    for event, probability in [e for e in outlook.events if e[0] != END][:limit]:
        branch = branches.get(event)
        evidence = (
            _candidate(branch, _merit(branch, total, _order_bonus(order, config)), order, told)
            if branch
            else _NO_EVIDENCE
        )
        reason = f"{config.estimator} over all orders; {evidence.support} observations after the matched state"
        found.append(
            msgspec.structs.replace(
                evidence,
                event=event,
                probability=round_half_up(probability, 4),
                score=round_half_up(probability, 4),
                matched_order=order,
                reason=reason,
            )
        )
    confidence = outlook.calibrated_confidence
    return WorkflowNext(
        case_id=case_id,
        state=match.types if match else tuple(e.type for e in recent),
        match=match.evidence() if match else None,
        candidates=tuple(found),
        estimator=config.estimator,
        end_probability=round_half_up(dict(outlook.events).get(END, 0.0), 4),
        unseen_probability=round_half_up(outlook.unseen, 4),
        calibrated_confidence=None if confidence is None else round_half_up(confidence, 4),
        prediction_set=outlook.prediction_set,
    )


_NO_EVIDENCE = Candidate(
    event="",
    probability=0.0,
    support=0,
    success_rate=None,
    failure_rate=None,
    mean_time_to_next_ms=None,
    user_response_dist={},
    matched_order=0,
    score=0.0,
    reason="",
)


def candidates(match: StateMatch, config: EngineConfig) -> list[Candidate]:
    """All branches of a match as candidates, by score, probability, success rate and support.

    With p = support / total, s and f the success and failure rates of known terminal outcomes (2 digits):
    quality = 0.55 + 0.25·(s or 0.5) + 0.10·support/(support + 2) + 0.10·order/max(1, default_order) − 0.25·(f or 0),
    score = p · max(0, quality), 3 digits.
    """
    description = match.variant.description
    return [_candidate(branch, merit, match.order, description) for branch, merit in ranked_branches(match, config)]


def _candidate(branch: Branch, merit: Merit, order: int, description: str) -> Candidate:
    return Candidate(
        event=branch.event,
        probability=merit.probability,
        support=branch.support,
        success_rate=merit.success_rate,
        failure_rate=merit.failure_rate,
        mean_time_to_next_ms=round_half_up(branch.total_ms / branch.timed, 0) if branch.timed else None,
        user_response_dist=dict(branch.responses),
        matched_order=order,
        score=merit.score,
        reason=f"Matched {order}-event {description} with {branch.support} prior observations",
    )


class Merit(NamedTuple):
    """What a branch is ranked by; see `candidates`."""

    score: float
    probability: float
    success_rate: float | None
    failure_rate: float | None


def ranked_branches(match: StateMatch, config: EngineConfig) -> list[tuple[Branch, Merit]]:
    """The branches of a match in the order of `candidates`."""
    total = match.branches.total
    by_order = _order_bonus(match.order, config)
    rows = [(branch, _merit(branch, total, by_order)) for branch in match.branches]
    rows.sort(key=_place)
    return rows


def _order_bonus(order: int, config: EngineConfig) -> float:
    return 0.10 * (order / max(1, config.default_order))


def _place(row: tuple[Branch, Merit]) -> tuple[float, float, float, int]:
    branch, (score, probability, success_rate, _) = row
    return -score, -probability, 1 if success_rate is None else -success_rate, -branch.support


def _merit(branch: Branch, total: int, by_order: float) -> Merit:
    support, good = branch.support, branch.terminal_success
    known = good + branch.terminal_failure
    s = round_half_up(good / known, 2) if known else None
    f = round_half_up(branch.terminal_failure / known, 2) if known else None
    share = support / total
    quality = (
        0.55
        + 0.25 * (0.5 if s is None else s)
        + 0.10 * (support / (support + 2))
        + by_order
        - 0.25 * (0.0 if f is None else f)
    )
    return Merit(round_half_up(share * max(0.0, quality), 3), round_half_up(share, 2), s, f)


def workflow_outcomes(
    source: EdgeSource,
    case_id: str,
    recent: Sequence[Facets],
    config: EngineConfig,
    limit: int = 3,
    *,
    cases: CaseFinder | None = None,
) -> WorkflowOutcomes:
    """Which branches fail or stall more often than the state they leave.

    Parameters
    ----------
    cases : CaseFinder, optional
        Past cases; with them the answer also says which branches are raised with an interval (`branch_lifts`).
    """
    match = match_state(source, recent, config)
    state = match.types if match else tuple(e.type for e in recent)
    notes = outcome_notes(match.branches, match.order, config.default_order)[:limit] if match else []
    if cases is None:
        return WorkflowOutcomes(case_id=case_id, state=state, outcomes=tuple(notes))
    lifts = branch_lifts(cases.tally(state, case_id)) if match else []
    return WorkflowOutcomes(case_id=case_id, state=state, outcomes=tuple(notes), lifts=tuple(lifts[:limit]))


def branch_risks(branches: Branches) -> list[tuple[Branch, str, float]]:
    """(branch, kind, relative rate) of every branch above the rate of its state.

    The base rates are Σ terminal failures (unknowns) / max(1, total support). A branch is flagged ``failure`` if its
    own rate is strictly above the base, ``stall`` likewise for unknown ends; the relative rate has 2 digits, and is
    99 for a base of 0.
    """
    denominator = max(1, branches.total)
    failures = stalls = 0
    for branch in branches.rows:
        failures += branch.terminal_failure
        stalls += branch.terminal_unknown
    base_failure, base_stall = failures / denominator, stalls / denominator
    flagged = []
    for branch in branches:
        for kind, seen, base in (
            ("failure", branch.terminal_failure, base_failure),
            ("stall", branch.terminal_unknown, base_stall),
        ):
            rate = seen / branch.support
            if seen > 0 and rate > base:
                flagged.append((branch, kind, round_half_up(rate / base, 2) if base > 0 else 99.0))
    return flagged


def outcome_notes(branches: Branches, order: int, default_order: int) -> list[OutcomeNote]:
    """Flagged branches as notes, by score, relative risk, probability and support.

    score = p · relative risk · confidence (`outcome_confidence`), 3 digits.
    """
    notes = []
    for branch, kind, relative in branch_risks(branches):
        probability = round_half_up(branch.support / branches.total, 2)
        confidence = outcome_confidence(branch.support, order, default_order)
        notes.append(
            OutcomeNote(
                branch=branch.event,
                kind=kind,
                probability=probability,
                relative_risk=relative,
                support=branch.support,
                matched_order=order,
                confidence=confidence,
                score=round_half_up(probability * relative * confidence, 3),
                suggested_intervention=_intervention(branch.event, kind),
            )
        )
    notes.sort(key=lambda n: (-n.score, -n.relative_risk, -n.probability, -n.support))
    return notes


_NEGATIVE_RESPONSES = ("correction", "escalation", "abandonment")


def response_risks(match: StateMatch, config: EngineConfig, limit: int = 3) -> list[OutcomeNote]:
    """Branches that users answer with corrections, escalations or silence: the original's later rule.

    Kept for parity. Of the `2·limit` best supported branches, those whose share of negative user responses exceeds
    0.34 are told; relative risk is 1 + share, score = p · share · confidence.
    """
    order, total = match.order, match.branches.total
    rows = [b for b in match.branches if b.support >= config.min_support]
    rows.sort(key=lambda b: (-b.support, -round_half_up(b.support / total, 2), collation_key(b.event)))
    notes = []
    for branch in rows[: 2 * limit]:
        correction, escalation, abandonment = (branch.responses.get(key, 0) for key in _NEGATIVE_RESPONSES)
        negative = correction + escalation + abandonment
        share = negative / sum(branch.responses.values()) if negative else 0.0
        if share <= 0.34:
            continue
        probability = round_half_up(branch.support / total, 2)
        confidence = outcome_confidence(branch.support, order, config.default_order)
        kind = "stall" if abandonment >= max(correction, escalation) else "failure"
        notes.append(
            OutcomeNote(
                branch=branch.event,
                kind=kind,
                probability=probability,
                relative_risk=round_half_up(1 + share, 2),
                support=branch.support,
                matched_order=order,
                confidence=confidence,
                score=round_half_up(probability * share * confidence, 3),
                suggested_intervention=_intervention(branch.event, kind),
            )
        )
    notes.sort(key=lambda n: (-n.score, -n.relative_risk, -n.support))
    return notes[:limit]


def outcome_confidence(support: int, order: int, default_order: int) -> float:
    """min(0.99, 0.35 + 0.35·support/(support + 2) + 0.30·order/max(1, default_order)), 2 digits."""
    confidence = 0.35 + 0.35 * (support / (support + 2)) + 0.30 * (order / max(1, default_order))
    return round_half_up(min(0.99, confidence), 2)


def _intervention(branch: str, kind: str) -> str:
    if "attachment" in branch:
        return "check that the attachment is there and readable before going on"
    if "approval" in branch:
        return "confirm who approves and what they need first"
    if kind == "stall":
        return f"set a checkpoint and fallback path before entering {branch}"
    return f"validate the inputs before entering {branch}"


# -- recall ----------------------------------------------------------------------------------------------------

_OUTCOME_BONUS = {"success": 1.0, "failure": 0.75, "unknown": 0.5}
_OUTCOME_WEIGHT = {"success": 1.0, "failure": 0.85, "unknown": 0.65}
_MODE_OUTCOME = {"successful": "success", "failed": "failure"}


def workflow_recall(
    cases: CaseFinder,
    case_id: str,
    state: Sequence[str],
    config: EngineConfig,
    *,
    mode: RecallMode = "successful",
    limit: int = 3,
) -> WorkflowRecall:
    """How similar cases went on.

    For each other case the longest suffix of `state` (types) that occurs in it, at its first occurrence; a case that
    ends there tells nothing. With c events to follow: overlap = k / len(state), distance = 1 − overlap,
    confidence = 0.45·overlap + 0.30·min(1, c/3) + 0.25·o, score = overlap · min(1, c/4) · w, where o is 1, 0.75, 0.5
    and w is 1, 0.85, 0.65 for success, failure, unknown.
    """
    paths: list[RecalledPath] = []
    state = tuple(state)
    if state:
        longest = min(config.default_order, len(state))
        wanted = _MODE_OUTCOME.get(mode)
        found = cases.occurrences(state, longest, wanted, case_id, limit)
        paths = [_recalled(past.case_id, past.outcome, past.order, len(state), past.rest) for past in found]
    paths.sort(
        key=lambda p: (-p.score, -p.confidence, -p.matched_order, p.distance, collation_key(p.case_id)),
    )
    return WorkflowRecall(case_id=case_id, state=state, mode=mode, paths=tuple(paths[:limit]))


def _recalled(case_id: str, outcome: str, k: int, length: int, rest: tuple[str, ...]) -> RecalledPath:
    overlap = k / length
    confidence = 0.45 * overlap + 0.30 * min(1, len(rest) / 3) + 0.25 * _OUTCOME_BONUS[outcome]
    return RecalledPath(
        case_id=case_id,
        distance=round_half_up(1 - overlap, 2),
        outcome=outcome,
        matched_order=k,
        confidence=round_half_up(confidence, 2),
        score=round_half_up(overlap * min(1, len(rest) / 4) * _OUTCOME_WEIGHT[outcome], 3),
        continuation=rest[:CONTINUATION_LIMIT],
    )
