"""Synthetic workflows from a known Markov process, and the best accuracy that any predictor can reach on them.

A case draws its workflow from a weighted mixture, then its events from that workflow; a predictor sees only the
events. The best one weighs the workflows by Bayes' rule and ranks the next types by their posterior predictive
probability; no ranking is right more often (Bayes decision rule under 0-1 loss). Accuracies are shares from 0 to 1.

    python -m experiments.synthetic --seed 7 --cases 60 --output FILE
"""

from __future__ import annotations

import argparse
import json
import math
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from sherpa.errors import ConfigError, SherpaError
from sherpa.event import Outcome
from sherpa.files import write_whole
from sherpa.instants import NANOS_PER_MS, format_instant, parse_instant
from sherpa.terminal import OUTCOMES, UNKNOWN, declared_outcome

State = tuple[str, ...]
Row = Mapping[str | None, float]
Belief = tuple[float, ...]
START = parse_instant("2026-01-05T08:00:00Z")


@dataclass(frozen=True)
class Attributes:
    """What every event of a type has in common."""

    source: str
    actor: str = "agent"
    outcome: Outcome = "success"


@dataclass(frozen=True)
class WorkflowProcess:
    """A Markov chain over event types, of order two where it matters.

    `transitions` maps a state to {next type, or None for the end: probability}. A state is the last one or two types,
    and ``()`` before the first event; the longest state that is there wins. ConfigError if a row is no probability
    distribution, a case could be empty, or a type lacks a row of its own or attributes.
    """

    name: str
    workflow_class: str
    transitions: Mapping[State, Row]
    attributes: Mapping[str, Attributes]

    def __post_init__(self) -> None:
        for state, row in self.transitions.items():
            _check_distribution(row.values(), f"{self.name}: row {state}")
        if None in self.transitions.get((), {None: 1.0}):
            raise ConfigError(f"{self.name}: the row () must be there and may not end the case")
        for event_type in {t for row in self.transitions.values() for t in row if t is not None}:
            if (event_type,) not in self.transitions or event_type not in self.attributes:
                raise ConfigError(f"{self.name}: type {event_type!r} needs a row of its own and attributes")

    def row(self, history: State) -> Row:
        """Distribution of what follows these types, which must be possible in this process."""
        return self.transitions.get(history[-2:]) or self.transitions[history[-1:]]


@dataclass(frozen=True)
class Mixture:
    """Workflows and the probability of each; ConfigError if the weights are no distribution over them."""

    processes: tuple[WorkflowProcess, ...]
    weights: Belief

    def __post_init__(self) -> None:
        _check_distribution(self.weights, "weights of the mixture")
        if len(self.processes) != len(self.weights):
            raise ConfigError(f"{len(self.processes)} processes have {len(self.weights)} weights")


@dataclass(frozen=True)
class IdealAccuracy:
    """Expected hits over expected steps (None without steps), expected evaluated steps per case, and the probability
    that a case is longer than it was followed (its later steps are left out)."""

    accuracy: float | None
    steps: float
    truncated: float


def _check_distribution(values: Collection[float], what: str) -> None:
    if any(not 0 <= p <= 1 for p in values) or abs(math.fsum(values) - 1) > 1e-9:
        raise ConfigError(f"{what}: probabilities must lie in 0..1 and sum to 1, not {list(values)}")


def next_types(mixture: Mixture, belief: Belief, history: State) -> dict[str, float]:
    """P(the case goes on, with t) = Σ_c belief_c · P_c(t | history), by type t; `belief` is the posterior of each c."""
    joint: dict[str, float] = {}
    for process, weight in zip(mixture.processes, belief, strict=True):
        for event_type, p in process.row(history).items() if weight > 0 else ():
            if event_type is not None and p > 0:
                joint[event_type] = joint.get(event_type, 0.0) + weight * p
    return joint


def updated(mixture: Mixture, belief: Belief, history: State, event_type: str) -> Belief:
    """Belief after one more event, ∝ belief_c · P_c(event_type | history); ConfigError if no process can do this."""
    each = zip(mixture.processes, belief, strict=True)
    joint = [weight * process.row(history).get(event_type, 0.0) if weight > 0 else 0.0 for process, weight in each]
    total = math.fsum(joint)
    if total == 0:
        raise ConfigError(f"no process of the mixture goes from {history} to {event_type!r}")
    return tuple(p / total for p in joint)


def _best(joint: Mapping[str, float], k: int) -> list[str]:
    return sorted(joint, key=lambda t: (-joint[t], t))[:k]


def ideal_accuracy(mixture: Mixture, k: int, max_length: int = 80) -> IdealAccuracy:
    """Top-k accuracy of the Bayes-optimal predictor, computed and not sampled.

    Every prefix x of at least one event adds P(x) · Σ of its k largest P(goes on, with t | x) to the hits, and
    P(x) · P(goes on | x) to the steps. Prefixes with the same last two types and the same belief (to 12 digits) have
    the same future and are added up. Cases are followed for `max_length` events. ConfigError if it or `k` is below 1.
    """
    if k < 1 or max_length < 1:
        raise ConfigError(f"k is {k} and max_length is {max_length}; both must be at least 1")
    layer: dict[tuple[State, Belief], float] = {((), mixture.weights): 1.0}
    hits = steps = 0.0
    for length in range(max_length):
        following: dict[tuple[State, Belief], float] = {}
        for (history, belief), mass in layer.items():
            joint = next_types(mixture, belief, history)
            if length > 0:
                steps += mass * math.fsum(joint.values())
                hits += mass * math.fsum(joint[t] for t in _best(joint, k))
            for event_type, p in joint.items():
                later = tuple(round(b, 12) for b in updated(mixture, belief, history, event_type))
                key = ((*history, event_type)[-2:], later)
                following[key] = following.get(key, 0.0) + mass * p
        layer = following
    left = math.fsum(m * math.fsum(next_types(mixture, b, h).values()) for (h, b), m in layer.items())
    return IdealAccuracy(hits / steps if steps else None, steps, left)


def _steps(dataset: Mapping[str, Any], mixture: Mixture) -> Iterator[list[tuple[str, dict[str, float]]]]:
    """By case, what came after each prefix of at least one event, with `next_types` of that prefix."""
    for case in dataset["cases"]:
        belief, steps = mixture.weights, []
        history: State = ()
        for event in case["events"]:
            steps.append((event["type"], next_types(mixture, belief, history)))
            belief = updated(mixture, belief, history, event["type"])
            history = (*history, event["type"])[-2:]
        yield steps[1:]


def oracle_hits(dataset: Mapping[str, Any], mixture: Mixture, k: int) -> list[tuple[int, int]]:
    """(hits, steps) of the Bayes-optimal predictor, by case; ConfigError if one cannot come from the mixture."""
    return [(sum(t in _best(p, k) for t, p in steps), len(steps)) for steps in _steps(dataset, mixture)]


def bayes_accuracy(dataset: Mapping[str, Any], mixture: Mixture, k: int) -> float | None:
    """Highest top-k accuracy to expect from the prefixes x of a dataset, whatever came after them: the mean of Σ of the
    k largest P(t | x, the case goes on). None without steps; ConfigError as in `oracle_hits`."""
    rows = [joint for steps in _steps(dataset, mixture) for _, joint in steps]
    shares = [math.fsum(joint[t] for t in _best(joint, k)) / math.fsum(joint.values()) for joint in rows]
    return math.fsum(shares) / len(shares) if shares else None


def _draw(rng: np.random.Generator, row: Row) -> str | None:
    # Only rng.random is used, so the bytes do not depend on how NumPy implements a derived distribution.
    edges = list(accumulate(row.values()))
    return list(row)[bisect_right(edges, rng.random() * edges[-1])]


def _minutes(rng: np.random.Generator, low: int, high: int) -> int:
    return int((low + rng.random() * (high - low)) * 60_000) * NANOS_PER_MS


def _make_case(number: int, process: WorkflowProcess, rng: np.random.Generator, instant: int) -> dict[str, Any]:
    types: list[str] = []
    events: list[dict[str, Any]] = []
    while (event_type := _draw(rng, process.row(tuple(types)))) is not None:
        each = process.attributes[event_type]
        event = {"ts": format_instant(instant), "source": each.source, "type": event_type, "actor": each.actor}
        events.append({**event, "outcome": each.outcome, "labels": [], "entities": []})
        types.append(event_type)
        instant += _minutes(rng, 1, 14)
    declared = (code for t in reversed(types) if (code := declared_outcome(t)) is not None)
    expected: dict[str, Any] = {"nextByStep": [], "terminalOutcome": OUTCOMES[next(declared, UNKNOWN)]}
    empty: dict[str, Any] = {"taskBoundaries": [], "blockers": [], "notes": []}
    said = {"workflowClass": process.workflow_class, **empty, "expectations": expected}
    return {"caseId": f"case-{number:04d}", "labels": ["synthetic"], "annotations": said, "events": events}


def generate(mixture: Mixture, cases: int, rng: np.random.Generator, start: int) -> dict[str, Any]:
    """A dataset of this many cases, the first at `start` (nanoseconds since the epoch, cut to milliseconds).

    Cases start 2.5 to 10 hours apart and events are 1 to 14 minutes apart, so most cases end before the next starts.
    """
    made = []
    instant = start // NANOS_PER_MS * NANOS_PER_MS
    shares: Row = {str(at): weight for at, weight in enumerate(mixture.weights)}
    for number in range(1, cases + 1):
        made.append(_make_case(number, mixture.processes[int(_draw(rng, shares) or 0)], rng, instant))
        instant += _minutes(rng, 150, 600)
    about = "Workflows drawn from a known Markov process, so that the best possible accuracy is known."
    head = {"name": "synthetic-workflows", "description": about, "schemaVersion": 1, "ontologyVersion": "draft-v1"}
    return {**head, "notes": [], "cases": made}


_USER = ("request.received", "approval.granted", "approval.denied", "changes.requested")
_SYSTEM = ("alert.raised", "tests.passed", "tests.failed", "web.failed")
_FAILURE = (".failed", ".denied", ".raised")
_OPEN = (".requested", ".asked", ".started", ".ended", ".run")
# One "last types: probability next, …" per line or bar; "end" ends the case.
_ENDINGS = "task.completed: .8 end, .2 message.sent | message.sent: 1 end | task.failed: 1 end | task.ended: 1 end"
_ROWS = {
    "code-fix": """: 1 request.received | request.received: .7 repo.inspected, .3 task.started
task.started: 1 repo.inspected | repo.inspected: .6 tests.run, .25 file.read, .15 patch.applied
file.read: .7 patch.applied, .3 tests.run | patch.applied: .9 tests.run, .1 review.requested
repo.inspected tests.run: .85 tests.failed, .15 tests.passed | tests.run: .6 tests.failed, .4 tests.passed
patch.applied tests.run: .3 tests.failed, .7 tests.passed | tests.passed: .55 review.requested, .45 ci.run
tests.failed: .65 patch.applied, .3 file.read, .05 task.failed | ci.run: .75 tests.passed, .25 tests.failed
ci.run tests.failed: .7 patch.reverted, .3 patch.applied | ci.run tests.passed: .8 task.completed, .2 review.requested
patch.reverted: .5 task.failed, .5 repo.inspected | review.requested: .75 approval.granted, .25 changes.requested
changes.requested: .85 patch.applied, .15 task.failed | approval.granted: .9 task.completed, .1 ci.run""",
    "docs-change": """: 1 request.received | request.received: .5 docs.read, .3 repo.inspected, .2 task.started
task.started: .7 docs.read, .3 repo.inspected | docs.read: .8 docs.edited, .2 repo.inspected
repo.inspected: .6 docs.read, .4 docs.edited | docs.read repo.inspected: 1 docs.edited
docs.edited: .55 links.checked, .45 review.requested | links.checked: .7 review.requested, .3 docs.edited
links.checked docs.edited: .2 links.checked, .8 review.requested | approval.granted: 1 task.completed
review.requested: .7 approval.granted, .3 changes.requested | changes.requested: .9 docs.edited, .1 task.ended""",
    "incident-response": """: .7 alert.raised, .3 request.received | service.restarted: 1 health.checked
alert.raised: .6 logs.inspected, .4 dashboard.checked | request.received: .7 logs.inspected, .3 task.started
task.started: .8 logs.inspected, .2 dashboard.checked | dashboard.checked: .7 logs.inspected, .3 approval.requested
logs.inspected dashboard.checked: .75 approval.requested, .25 service.restarted | deploy.reverted: 1 health.checked
logs.inspected: .4 service.restarted, .3 dashboard.checked, .3 approval.requested
health.checked logs.inspected: .8 approval.requested, .2 task.failed
health.checked: .6 task.completed, .4 logs.inspected | approval.denied: .6 task.failed, .4 logs.inspected
approval.requested: .8 approval.granted, .2 approval.denied
approval.granted: .65 deploy.reverted, .35 service.restarted""",
    "research": """: 1 request.received | request.received: .25 question.asked, .55 web.searched, .2 memory.searched
question.asked: .8 web.searched, .2 memory.searched | memory.searched: .6 web.searched, .4 summary.written
web.searched: .85 web.fetched, .15 web.failed | web.failed: .8 web.searched, .2 task.failed
web.fetched web.failed: .5 web.searched, .5 summary.written | approval.granted: 1 task.completed
web.fetched: .6 notes.written, .25 web.searched, .15 web.failed | notes.written: .55 summary.written, .45 web.searched
summary.written: .7 task.completed, .3 review.requested | review.requested: .6 approval.granted, .4 changes.requested
changes.requested: .5 web.searched, .5 summary.written""",
}


def _attributes(name: str) -> Attributes:
    outcome: Outcome = "failure" if name.endswith(_FAILURE) else "unknown" if name.endswith(_OPEN) else "success"
    actor = "user" if name in _USER else "system" if name in _SYSTEM else "agent"
    return Attributes(name.partition(".")[0], actor, outcome)


def _process(name: str, text: str) -> WorkflowProcess:
    transitions: dict[State, Row] = {}
    for line in f"{text} | {_ENDINGS}".replace("\n", " | ").split(" | "):
        state, _, cells = line.partition(":")
        pairs = (cell.split() for cell in cells.split(","))
        transitions[tuple(state.split())] = {None if t == "end" else t: float(p) for p, t in pairs}
    types = {t for row in transitions.values() for t in row if t is not None}
    return WorkflowProcess(name, name, transitions, {t: _attributes(t) for t in sorted(types)})


WORKFLOWS = Mixture(tuple(_process(name, text) for name, text in _ROWS.items()), (0.35, 0.2, 0.2, 0.25))


def encode(dataset: Mapping[str, Any]) -> bytes:
    """JSON with two spaces of indent and a newline at the end."""
    return (json.dumps(dataset, indent=2, ensure_ascii=False) + "\n").encode()


def main(arguments: Sequence[str] | None = None) -> None:
    """Write a dataset; exit code 2 with a message if it cannot be written."""
    parser = argparse.ArgumentParser(prog="python -m experiments.synthetic", description="Synthetic workflows.")
    parser.add_argument("--seed", type=int, default=7, help="seed of the generator")
    parser.add_argument("--cases", type=int, default=60, help="number of cases")
    parser.add_argument("--output", type=Path, required=True, help="JSON file to write")
    options = parser.parse_args(arguments)
    try:
        dataset = generate(WORKFLOWS, options.cases, np.random.default_rng(options.seed), START)
        write_whole(options.output, encode(dataset))
    except SherpaError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
