"""The original's cards and score, for comparison only: runs, a playbook per domain, recipes of equal tool sequences.

What differs: no names of tasks, no claim that a run succeeded, values masked as everywhere here, and no hand-written
advice for single tasks.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from harness.statebench.cards import Card, shorten
from harness.statebench.redaction import Redactor
from harness.statebench.trajectories import Trajectory
from sherpa.collation import collation_key

TOOLS, TRANSITIONS, TERMS = 12, 8, 18
RECIPES = 120
_TOKEN = re.compile(r"[a-z0-9_.:-]+")
_QUERY, _CALLS = 500, 8
_STOP = frozenset(
    _TOKEN.findall("the and for you your that this with have from are was not but can could would please need want")
)
_SAME_DOMAIN, _PLAYBOOK, _SUPPORT = 0.25, 0.15, 0.25


def parity_cards(runs: Sequence[Trajectory], redactor: Redactor) -> Iterator[Card]:
    """Cards in the original's order: playbooks and recipes first, then runs. Not held to a budget."""
    domains = {domain: list(group) for domain, group in groupby(runs, key=lambda run: run.domain)}
    for domain, members in domains.items():
        yield _playbook(domain, members, redactor)
    yield from _recipes(domains)
    for run in runs:
        yield _run(run, redactor)


def _ordered(counts: Counter[str], most: int) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], collation_key(item[0])))[:most]


def _playbook(domain: str, runs: Sequence[Trajectory], redactor: Redactor) -> Card:
    tools = Counter(call.tool for run in runs for call in run.calls)
    steps = Counter(f"{a.tool} -> {b.tool}" for run in runs for a, b in pairwise(run.calls))
    terms = Counter(
        token
        for run in runs
        for token in set(_TOKEN.findall(redactor.redact(run.opening).lower()))
        if len(token) > 2 and token not in _STOP and not token.startswith("ord-")
    )
    text = "\n".join(
        [
            f"Playbook of {domain}, from {len(runs)} observed runs.",
            f"Tools: {', '.join(f'{name} ({times})' for name, times in _ordered(tools, TOOLS))}.",
            f"Steps: {', '.join(f'{name} ({times})' for name, times in _ordered(steps, TRANSITIONS))}.",
            f"Terms: {', '.join(name for name, _ in _ordered(terms, TERMS))}.",
        ]
    )
    places = tuple((run.place, "conversation") for run in runs)
    return Card(f"{domain}/playbook", "domain-playbook", domain, text, text, (), (), len(runs), places)


def _recipes(domains: dict[str, list[Trajectory]]) -> Iterator[Card]:
    found: list[tuple[str, tuple[str, ...], list[Trajectory]]] = []
    for domain, members in domains.items():
        same: dict[tuple[str, ...], list[Trajectory]] = {}
        for run in members:
            if run.calls:
                same.setdefault(tuple(call.tool for call in run.calls), []).append(run)
        found += [(domain, path, equal) for path, equal in same.items() if len(equal) >= 2]
    found.sort(key=lambda recipe: (-len(recipe[2]), recipe[0], recipe[1]))
    for number, (domain, path, equal) in enumerate(found[:RECIPES]):
        text = f"Recipe of {domain}, seen in {len(equal)} runs: {' > '.join(path)}."
        places = tuple((run.place, "tool_calls") for run in equal)
        name = f"{domain}/recipe/{number:03d}"
        yield Card(name, "sequence-recipe", domain, text, text, path, (), len(equal), places)


def _run(run: Trajectory, redactor: Redactor) -> Card:
    opening = redactor.redact(run.opening)
    path = [call.tool for call in run.calls]
    calls = "; ".join(
        f"{call.tool}({', '.join(f'{name}={value}' for name, value in sorted(call.arguments.items()))})"
        for call in run.calls[:_CALLS]
    )
    answer = run.answers[-1] if run.answers else ""
    text = "\n".join(
        [
            f"Observed {run.domain} run: {shorten(opening, _QUERY)}",
            f"Tool order: {' > '.join(path) or 'none'}.",
            f"First calls: {redactor.redact(calls)}",
            f"Final answer: {shorten(redactor.redact(answer), _QUERY)}",
            "Check current policies and tool results before following it.",
        ]
    )
    return Card(
        f"{run.domain}/run/{run.place:03d}",
        "trajectory",
        run.domain,
        text,
        f"{run.domain} {shorten(opening, _QUERY)} {' '.join(path)}",
        run.sequence,
        tuple(sorted(run.topics)),
        1,
        ((run.place, "conversation"),),
    )


def tokens_of(text: str) -> frozenset[str]:
    """The original's tokens: a set, single characters left out."""
    return frozenset(token for token in _TOKEN.findall(text.lower()) if len(token) > 1)


def score(query: frozenset[str], card: Card, of_card: frozenset[str], domain: str) -> float | None:
    """The original's score of a card; None if it is not retrieved at all."""
    common = len(query & of_card)
    playbook = card.kind == "domain-playbook"
    if not common and not playbook:
        return None
    value = common / max(1.0, math.sqrt(len(query | of_card)))
    value += _SAME_DOMAIN * (card.domain == domain)
    return value + min(_SUPPORT, math.sqrt(card.support) / 20) + _PLAYBOOK * playbook
