"""interpolated-discounting: all orders blended, with probabilities that are probabilities."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from baselines.predictor import Ranking
from sherpa.collation import collation_key
from sherpa.eventlog import Case, EventLog
from sherpa.model import VariableOrderMarkovModel

BEGIN, END = "\x02begin", "\x03end"
"""Symbols around each case. No event type starts with a control character that names a text's begin or end."""


def framed(cases: EventLog | Case) -> EventLog:
    """The same cases with `BEGIN` before and `END` after their events; types only."""
    log = cases.as_log() if isinstance(cases, Case) else cases
    size = len(log.vocabulary)
    lengths = np.diff(log.offsets)
    offsets = np.concatenate(([0], np.cumsum(lengths + 2)))
    codes = np.full(int(offsets[-1]), size, dtype=np.int32)
    codes[offsets[1:] - 1] = size + 1
    inside = np.ones(len(codes), dtype=bool)
    inside[offsets[:-1]] = inside[offsets[1:] - 1] = False
    codes[inside] = log.codes
    plain = EventLog.from_codes(codes, offsets, (*log.vocabulary, BEGIN, END), case_ids=log.case_ids)
    return replace(plain, terminal=np.zeros(len(log), np.int8))


class InterpolatedDiscounting:
    """Absolute discounting, interpolated from order 0 up to `order` (Ney, Essen & Kneser 1994).

    With N the support of a context, T its number of distinct successors and D the discount of its order,

        p_k(w) = max(c(w) − D, 0)/N + D·T/N · p_{k−1}(w),

    down to a uniform share over the known types, the end of the case and one type never seen. D = n₁/(n₁ + 2·n₂) from
    the numbers of edges of that order that were seen once and twice. A context that was never seen passes on the
    shorter one. Every case begins with a symbol of its own, so the first steps know where they are.

    Parameters
    ----------
    order : int
        Longest context in events, the begin of the case counted.
    """

    name = "interpolated-discounting"
    description = "All orders blended by absolute discounting; probabilities sum to one."
    calibrated = True

    def __init__(self, order: int = 5) -> None:
        self._order = order
        self._model = VariableOrderMarkovModel(order)
        self._memo: dict[tuple[str, ...], Ranking] = {}

    @property
    def states(self) -> int:
        return self._model.edges

    def learn(self, cases: EventLog | Case) -> None:
        self._memo.clear()
        self._model.learn(framed(cases))

    def forget(self, cases: EventLog | Case) -> None:
        self._memo.clear()
        self._model.forget(framed(cases))

    def rank(self, prefix: Case) -> Ranking:
        tokens = prefix.tokens("raw", self._order)
        context = (BEGIN, *tokens) if len(tokens) < self._order else tokens
        known = self._memo.get(context)
        if known is None:
            known = self._memo[context] = self._rank(context)
        return known

    def _rank(self, context: tuple[str, ...]) -> Ranking:
        root = self._model.branches(0, ())
        if not root.rows:
            return Ranking()
        uniform = 1 / (len(root) + (0 if any(b.event == END for b in root) else 1) + 1)
        p = {b.event: uniform for b in root}
        unseen = uniform
        matched = support = 0
        for order in range(len(context) + 1):
            branches = self._model.branches(order, context[len(context) - order :])
            if not branches.rows:
                break
            matched, support = order, branches.total
            discount = self._discount(order)
            left = discount * len(branches) / branches.total
            p = {event: left * share for event, share in p.items()}
            unseen *= left
            for branch in branches:
                p[branch.event] += (branch.support - discount) / branches.total
        supports = {b.event: b.support for b in branches.rows} if branches.rows else {}
        events = sorted((e for e in p if e != END), key=lambda e: (-p[e], collation_key(e)))
        return Ranking(
            events=tuple(events),
            probabilities=tuple(p[e] for e in events),
            matched_order=matched,
            backoff_depth=len(context) - matched,
            support=support,
            supports=tuple(supports.get(e, 0) for e in events),
            unseen=unseen,
            mode="raw" if matched else "fallback",
        )

    def _discount(self, order: int) -> float:
        """n₁/(n₁ + 2·n₂), kept away from 0 and 1 where an order has no edges that were seen once or twice."""
        once, twice = self._model.seen_once_and_twice(order)
        estimate = once / (once + 2 * twice) if once else 0.0
        return min(0.95, max(0.05, estimate))
