"""Replay of real sessions: what would the memory have said at each step, knowing only what came before it?

Evaluation is prequential (predict, then learn): events of all sessions are taken in order of time, each is predicted
from the counts of everything before it, and only then counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from baselines.started_finished import OPENING
from experiments import metrics
from experiments.arm_report import bins_json
from experiments.intervals import cluster_bootstrap
from experiments.leakage import is_trivial
from sherpa.config import EngineConfig
from sherpa.instants import NO_INSTANT, format_milliseconds
from sherpa.online import OnlineCounts
from sherpa.queries import branch_risks, candidates, match_state, support_confidence
from sherpa.sources.openclaw.collect import SessionLog

THRESHOLD = 0.75
COOLDOWN = 120 * 10**9
PROMPT = "message.user.inbound"
_SLICES = 10
_EXAMPLES = 10
_BUCKETS = ((1, "1"), (4, "2-4"), (9, "5-9"), (49, "10-49"))
Float = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]
Watch = Callable[[int], None]


@dataclass(frozen=True)
class SimulateOptions:
    """How a replay is evaluated.

    Attributes
    ----------
    top_k : int
    threshold : float
        Published confidence from which advice is given.
    rebuild_every : int
        Events after which what was seen becomes known; 1 means at once.
    seed : int
        Of the resampling for intervals.
    """

    top_k: int = 3
    threshold: float = THRESHOLD
    rebuild_every: int = 1
    seed: int = 0


@dataclass
class _Steps:
    """One row per predicted event."""

    event: list[int] = field(default_factory=list)
    case: list[int] = field(default_factory=list)
    rank: list[int] = field(default_factory=list)
    trivial: list[bool] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    support: list[int] = field(default_factory=list)
    probability: list[float] = field(default_factory=list)
    confidence: list[float] = field(default_factory=list)
    majority: list[bool] = field(default_factory=list)
    last: list[bool] = field(default_factory=list)


@dataclass
class _Advice:
    """What would have been said at the prompts of users."""

    prompts: int = 0
    fired: int = 0
    cooled: int = 0
    right: int = 0
    judged: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list)
    said_at: dict[int, int] = field(default_factory=dict)
    waiting: dict[int, str | None] = field(default_factory=dict)


class _Simulation:
    """The state of a replay."""

    def __init__(self, data: SessionLog, config: EngineConfig, options: SimulateOptions) -> None:
        self.data, self.config, self.options = data, config, options
        self.log = data.log
        self.counts = OnlineCounts(
            config.max_order, config.state_strategy, allow_raw_fallback=config.allow_raw_fallback
        )
        self.steps = _Steps()
        self.advice = _Advice()
        self.done = 0
        self.rebuilds = 0
        self._queue: list[tuple[int, int]] = []

    def run(self, watch: Watch | None) -> bool:
        """Replay every event; False if it was interrupted."""
        log = self.log
        case_of = log.case_of
        order = np.argsort(log.instants, kind="stable")
        try:
            for event, case in zip(order.tolist(), case_of[order].tolist(), strict=True):
                self._event(event, case)
                self.done += 1
                if watch is not None and self.done % 256 == 0:
                    watch(256)
        except KeyboardInterrupt:
            return False
        return True

    def _event(self, event: int, case: int) -> None:
        log = self.log
        start = int(log.offsets[case])
        if event > start:
            self._predict(event, case, start)
        self._queue.append((event, case))
        if len(self._queue) >= self.options.rebuild_every:
            self._learn()
        if log.vocabulary[log.codes[event]] == PROMPT:
            self._advise(event, case, start)

    def _learn(self) -> None:
        log = self.log
        self.rebuilds += 1
        for event, case in self._queue:
            response = int(log.responses[event])
            view = log[case].prefix(event - int(log.offsets[case]) + 1)
            self.counts.observe(
                case,
                view.recent(1)[0],
                outcome=int(log.outcomes[event]),
                instant=int(log.instants[event]),
                response=log.response_vocabulary[response] if response >= 0 else None,
            )
            if event + 1 == log.offsets[case + 1]:
                self.counts.close(case)
        self._queue = []

    def _predict(self, event: int, case: int, start: int) -> None:
        log, steps = self.log, self.steps
        target = log.vocabulary[log.codes[event]]
        last = log.vocabulary[log.codes[event - 1]]
        prefix = log[case].prefix(event - start)
        match = match_state(self.counts, prefix.recent(self.config.default_order), self.config)
        ranked = candidates(match, self.config) if match else []
        place = next((at for at, c in enumerate(ranked, start=1) if c.event == target), 0)
        steps.event.append(event)
        steps.case.append(case)
        steps.rank.append(place)
        steps.trivial.append(is_trivial(last, target) or _ends_call(last, target))
        steps.order.append(match.order if match else 0)
        steps.support.append(match.branches.total if match else 0)
        steps.probability.append(ranked[0].probability if ranked else 0.0)
        steps.confidence.append(support_confidence(match.branches.total) if match else 0.0)
        steps.majority.append(self.counts.most_frequent(()) == target)
        steps.last.append(self.counts.most_frequent((last,)) == target)
        self._judge(case, target)

    def _advise(self, event: int, case: int, start: int) -> None:
        """The gate of the plugin: a prompt of the user, enough confidence, something to say, and no advice just now."""
        advice, log = self.advice, self.log
        advice.prompts += 1
        prefix = log[case].prefix(event - start + 1)
        match = match_state(self.counts, prefix.recent(self.config.default_order), self.config)
        if match is None:
            return
        confidence = support_confidence(match.branches.total)
        ranked = candidates(match, self.config)
        if confidence < self.options.threshold or not (ranked or branch_risks(match.branches)):
            return
        now = int(log.instants[event])
        said = advice.said_at.get(case)
        if said is not None and now - said < COOLDOWN:
            advice.cooled += 1
            return
        advice.said_at[case] = now
        advice.fired += 1
        top = ranked[0].event if ranked else None
        advice.waiting[case] = top
        if len(advice.examples) < _EXAMPLES:
            advice.examples.append(
                {
                    "caseId": log.case_ids[case],
                    "eventIndex": event - start,
                    "eventType": log.vocabulary[log.codes[event]],
                    "topCandidate": top,
                    "confidence": confidence,
                }
            )

    def _judge(self, case: int, target: str) -> None:
        if case in self.advice.waiting:
            self.advice.judged += 1
            self.advice.right += self.advice.waiting.pop(case) == target


def _ends_call(last: str, target: str) -> bool:
    """Whether the target is any end of the call that has just started."""
    stem, _, phase = last.rpartition(".")
    return phase in OPENING and bool(stem) and target.startswith(f"{stem}.")


def simulate(
    data: SessionLog,
    config: EngineConfig,
    options: SimulateOptions | None = None,
    *,
    skipped: list[tuple[str, str]] | None = None,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Replay the sessions and report what the memory would have said.

    Nothing is written: the counts live in memory and are gone afterwards.

    Parameters
    ----------
    skipped : list of (str, str)
        What was not read, and why; goes into the report.
    watch : callable, optional
        Called with the number of events done since the last call.

    Returns
    -------
    dict
        The record (camelCase), the same for the same input.
    """
    options = options or SimulateOptions()
    run = _Simulation(data, config, options)
    finished = run.run(watch)
    return _record(run, options, interrupted=data.interrupted or not finished, skipped=skipped or [])


def _record(
    run: _Simulation, options: SimulateOptions, *, interrupted: bool, skipped: list[tuple[str, str]]
) -> dict[str, Any]:
    data, log, steps, advice = run.data, run.log, run.steps, run.advice
    rank = np.array(steps.rank, dtype=np.int64)
    trivial = np.array(steps.trivial, dtype=bool)
    case = np.array(steps.case, dtype=np.int64)
    session = data.session_of[case] if len(case) else case
    order = np.array(steps.order, dtype=np.int64)
    support = np.array(steps.support, dtype=np.int64)
    probability, confidence = np.array(steps.probability), np.array(steps.confidence)
    hit, top = rank == 1, (rank > 0) & (rank <= options.top_k)
    majority, last = np.array(steps.majority, dtype=bool), np.array(steps.last, dtype=bool)
    everything = np.ones(len(rank), dtype=bool)
    # One generator per table: tables do not depend on each other.
    columns = {"top1": hit, "topK": top, "globalMajority": majority, "lastTransition": last}
    accuracy = {
        "all": _accuracy(columns, everything, session, np.random.default_rng([options.seed, 0])),
        "nonTrivial": _accuracy(columns, ~trivial, session, np.random.default_rng([options.seed, 1])),
    }
    matched = order > 0
    spoken = matched & (confidence >= options.threshold)
    return {
        "interrupted": interrupted,
        "sessionsProcessed": len(data.sessions),
        "totalEvents": run.done,
        "casesDetected": len(log),
        "protocol": {
            "order": "prequential: predict, then learn; events of all sessions by time",
            "rebuildEvery": options.rebuild_every,
            "topK": options.top_k,
            "defaultOrder": run.config.default_order,
            "minSupport": run.config.min_support,
            "strategy": run.config.state_strategy,
            "estimator": run.config.estimator,
            "seed": options.seed,
        },
        "rebuildsPerformed": run.rebuilds,
        "predictionAttempts": int(matched.sum()),
        "predictionHits": int(hit.sum()),
        "predictionAccuracy": accuracy,
        "stateCoverage": metrics.mean(matched),
        "matchedOrders": _by_order(order, hit, trivial),
        "supports": _by_support(support, hit, trivial),
        "advisoryFireCount": advice.fired,
        "advisoryFireRate": advice.fired / advice.prompts if advice.prompts else None,
        "advisory": {
            "threshold": options.threshold,
            "cooldownSeconds": COOLDOWN // 10**9,
            "prompts": advice.prompts,
            "fired": advice.fired,
            "heldBackByCooldown": advice.cooled,
            "judged": advice.judged,
            "topCandidateRight": advice.right / advice.judged if advice.judged else None,
            "shareOfStepsAboveThreshold": metrics.mean(spoken),
            "accuracyAboveThreshold": metrics.mean(hit[spoken]),
        },
        "advisoryExamples": advice.examples,
        "calibration": _calibration(probability[matched], confidence[matched], hit[matched]),
        "drift": _drift(log.instants[np.array(steps.event, dtype=np.int64)], hit, trivial),
        "agents": _by_agent(data, session, hit, trivial),
        "tools": _by_tool(data, steps, hit, trivial),
        "toolFamilyCounts": _families(data),
        "finalGraphStats": {"events": run.counts.events, "cases": len(log), "states": run.counts.edges},
        "counts": data.counts.to_json(),
        "losses": {kind: int(n) for kind, n in sorted(data.losses.counts.items())},
        "sessionsWithoutToolEvidence": sum(not s.tool_evidence for s in data.sessions),
        "links": [{"session": s.name, "parent": s.parent} for s in data.sessions if s.parent is not None],
        "skipped": [{"path": path, "reason": reason} for path, reason in skipped],
    }


def _accuracy(
    columns: dict[str, Bool], chosen: Bool, session: npt.NDArray[np.int64], rng: np.random.Generator
) -> dict[str, Any]:
    """Accuracies with 95 % intervals; the session is the unit that is resampled."""
    steps = int(chosen.sum())
    names, clusters = np.unique(session[chosen], return_inverse=True)
    found: dict[str, Any] = {"steps": steps, "sessions": len(names)}
    spans: dict[str, Any] = {}
    if steps:
        values = np.column_stack([columns[name][chosen].astype(float) for name in columns])
        values = np.column_stack([values, values[:, 0] - values[:, 2], values[:, 0] - values[:, 3]])
        sums = np.column_stack([np.bincount(clusters, weights=column) for column in values.T])
        sizes = np.bincount(clusters).astype(float)
        bootstrap = cluster_bootstrap(sums, sizes, rng=rng) if len(names) > 1 else None
        for at, name in enumerate([*columns, "gainOverGlobalMajority", "gainOverLastTransition"]):
            found[name] = float(values[:, at].mean())
            if bootstrap is not None:
                spans[name] = bootstrap.interval(at).to_json()
            else:
                spans[name] = None
    else:
        for name in [*columns, "gainOverGlobalMajority", "gainOverLastTransition"]:
            found[name] = spans[name] = None
    return {**found, "ci": spans}


def _row(chosen: Bool, hit: Bool, trivial: Bool) -> dict[str, Any]:
    hard = chosen & ~trivial
    return {
        "steps": int(chosen.sum()),
        "top1": metrics.mean(hit[chosen]),
        "nonTrivialSteps": int(hard.sum()),
        "nonTrivialTop1": metrics.mean(hit[hard]),
    }


def _by_order(order: npt.NDArray[np.int64], hit: Bool, trivial: Bool) -> list[dict[str, Any]]:
    return [{"order": k, **_row(order == k, hit, trivial)} for k in np.unique(order).tolist()]


def _by_support(support: npt.NDArray[np.int64], hit: Bool, trivial: Bool) -> list[dict[str, Any]]:
    rows, low = [], 0
    for high, name in (*_BUCKETS, (2**62, "50+")):
        chosen = (support > low) & (support <= high)
        if chosen.any():
            rows.append({"support": name, **_row(chosen, hit, trivial)})
        low = high
    return rows


def _calibration(probability: Float, confidence: Float, hit: Bool) -> dict[str, Any]:
    bins = metrics.calibration_bins(probability, hit)
    published = metrics.calibration_bins(confidence, hit)
    return {
        "probability": {
            "ece": metrics.expected_calibration_error(bins),
            "auroc": metrics.area_under_curve(probability, hit),
            "bins": bins_json(bins),
        },
        "publishedConfidence": {
            "ece": metrics.expected_calibration_error(published),
            "auroc": metrics.area_under_curve(confidence, hit),
            "bins": bins_json(published),
        },
    }


def _drift(instants: npt.NDArray[np.int64], hit: Bool, trivial: Bool) -> list[dict[str, Any]]:
    """Accuracy in ten slices of equal length, in order of time."""
    rows = []
    bounds = np.linspace(0, len(hit), _SLICES + 1).astype(int).tolist()
    for low, high in pairwise(bounds):
        if low == high:
            continue
        chosen = np.zeros(len(hit), dtype=bool)
        chosen[low:high] = True
        rows.append(
            {"from": _time(int(instants[low])), "to": _time(int(instants[high - 1])), **_row(chosen, hit, trivial)}
        )
    return rows


def _time(instant: int) -> str | None:
    return None if instant == NO_INSTANT else format_milliseconds(instant)


def _by_agent(data: SessionLog, session: npt.NDArray[np.int64], hit: Bool, trivial: Bool) -> list[dict[str, Any]]:
    names = [(s.host, s.agent) for s in data.sessions]
    known = sorted(set(names))
    code = np.array([known.index(name) for name in names], dtype=np.int64)
    agent = code[session] if len(session) else session
    return [
        {
            "host": host,
            "agent": name,
            "sessions": int((code == at).sum()),
            **_row(agent == at, hit, trivial),
        }
        for at, (host, name) in enumerate(known)
    ]


def _by_tool(data: SessionLog, steps: _Steps, hit: Bool, trivial: Bool) -> list[dict[str, Any]]:
    """How well each tool was foreseen, and how its calls ended."""
    event = np.array(steps.event, dtype=np.int64)
    tool = data.tool_of[event] if len(event) else np.zeros(0, np.int32)
    log = data.log
    phases = [t.rpartition(".")[2] for t in log.vocabulary]
    rows = []
    for at, name in enumerate(data.tools):
        own = np.flatnonzero(data.tool_of == at)
        seen = np.bincount(log.codes[own], minlength=len(phases))
        ends: dict[str, int] = {}
        for phase, number in zip(phases, seen.tolist(), strict=True):
            if number:
                ends[phase] = ends.get(phase, 0) + number
        rows.append({"tool": name, "phases": dict(sorted(ends.items())), **_row(tool == at, hit, trivial)})
    return sorted(rows, key=lambda row: (-row["steps"], row["tool"]))


def _families(data: SessionLog) -> dict[str, int]:
    found: dict[str, int] = {}
    for session in data.sessions:
        for name, number in session.counts.tools.items():
            family = session.taxonomy.family(name)
            found[family] = found.get(family, 0) + number
    return dict(sorted(found.items()))
