"""Sherpa's own strategies as predictors."""

from __future__ import annotations

from baselines.predictor import Ranking
from sherpa.branches import Branches
from sherpa.config import EngineConfig
from sherpa.eventlog import Case, EventLog
from sherpa.model import VariableOrderMarkovModel
from sherpa.projection import Facets
from sherpa.queries import match_state, outcome_notes, ranked_branches, response_risks


class ProceduralMemoryPredictor:
    """Ranks next events as `workflow_next` does, best score first.

    Parameters
    ----------
    config : EngineConfig
    fallback : bool
        Where no state matches, rank by how often each event follows any event (order 0). The published rule stays
        silent there.

    Notes
    -----
    The published score mixes likelihood with how cases ended, and events that were never seen after a state have no
    probability, so the probabilities are not `calibrated`.
    """

    calibrated = False

    def __init__(self, config: EngineConfig, *, fallback: bool = True) -> None:
        self.config = config
        self.fallback = fallback
        self.model = VariableOrderMarkovModel(
            config.max_order, config.state_strategy, allow_raw_fallback=config.allow_raw_fallback
        )
        self._memo: dict[tuple[Facets, ...], Ranking] = {}

    @property
    def name(self) -> str:
        return f"sherpa-{self.config.state_strategy}"

    @property
    def states(self) -> int:
        return self.model.edges

    def learn(self, cases: EventLog | Case) -> None:
        self._memo.clear()
        self.model.learn(cases)

    def forget(self, cases: EventLog | Case) -> None:
        self._memo.clear()
        self.model.forget(cases)

    def rank(self, prefix: Case) -> Ranking:
        recent = tuple(prefix.recent(self.config.default_order))
        known = self._memo.get(recent)
        if known is None:
            known = self._memo[recent] = self._rank(recent)
        return known

    def _rank(self, recent: tuple[Facets, ...]) -> Ranking:
        config = self.config
        tried = min(config.default_order, len(recent))
        match = match_state(self.model, recent, config)
        if match is None:
            depth = max(0, tried - config.min_order + 1)
            return self._order_zero(depth) if self.fallback else Ranking(backoff_depth=depth)
        rows = [branch for branch, _ in ranked_branches(match, config)]
        total = match.branches.total
        if config.parity:
            notes = response_risks(match, config)
        else:
            notes = outcome_notes(match.branches, match.order, config.default_order)
        return Ranking(
            events=tuple(b.event for b in rows),
            probabilities=tuple(b.support / total for b in rows),
            matched_order=match.order,
            backoff_depth=tried - match.order,
            support=total,
            supports=tuple(b.support for b in rows),
            mode=match.variant.mode,
            success=_success(match.branches),
            risks=tuple(dict.fromkeys(n.branch for n in notes)),
        )

    def _order_zero(self, depth: int) -> Ranking:
        branches = self.model.branches(0, ())
        if not branches.rows:
            return Ranking(backoff_depth=depth)
        return Ranking(
            events=tuple(b.event for b in branches),
            probabilities=tuple(b.support / branches.total for b in branches),
            matched_order=0,
            backoff_depth=depth,
            support=branches.total,
            supports=tuple(b.support for b in branches),
            mode="fallback",
            success=_success(branches),
        )


def _success(branches: Branches) -> float | None:
    """Share of observations with a known terminal outcome that succeeded."""
    good = bad = 0
    for branch in branches.rows:
        good += branch.terminal_success
        bad += branch.terminal_failure
    return good / (good + bad) if good + bad else None
