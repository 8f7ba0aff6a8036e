"""Learning cards: what a run looked like and what the policies said, in words that claim nothing that was not seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from harness.statebench.lexical import PER_TOKEN, tokens
from harness.statebench.policies import Rule, read_policies
from harness.statebench.procedures import Followers, Procedure, read_procedures
from harness.statebench.redaction import Redactor
from harness.statebench.trajectories import POLICY_TOOL, SOFT_FAILURES, Call, Trajectory

CardKind = Literal["trajectory", "policy", "procedure", "domain-playbook", "sequence-recipe"]
"""The last two are those of the original, made for comparison only."""
BUDGET = 150
"""Tokens that a card may have: three of them stay within 450."""
_OPENING, _REASON, _STEPS = 200, 90, 14


@dataclass(frozen=True)
class Card:
    """One thing that can be retrieved.

    Attributes
    ----------
    id : str
    kind : str
    domain : str
    text : str
        What the agent reads.
    words : str
        What a query is compared with.
    path : tuple of str
        Tools in the order of their use, repeats in a row once; of a trajectory only.
    topics : tuple of str
        Policies that were read.
    support : int
        Runs it was seen in.
    provenance : tuple of (int, str)
        Places of these runs in their domain, and the field that was read.
    """

    id: str
    kind: CardKind
    domain: str
    text: str
    words: str
    path: tuple[str, ...]
    topics: tuple[str, ...]
    support: int
    provenance: tuple[tuple[int, str], ...]

    def to_json(self) -> dict[str, Any]:
        """As the artefact holds it."""
        return {
            "id": self.id,
            "kind": self.kind,
            "domain": self.domain,
            "text": self.text,
            "words": self.words,
            "path": list(self.path),
            "topics": list(self.topics),
            "support": self.support,
            "tokens": tokens(self.text),
            "provenance": [{"run": run, "field": field} for run, field in self.provenance],
        }


def make_cards(runs: Sequence[Trajectory], redactor: Redactor) -> Iterator[Card]:
    """Cards of all runs: policies of a domain first, then its procedures, then its runs.

    Parameters
    ----------
    runs : sequence of Trajectory
        Sorted by domain.
    redactor : Redactor
        Holds the values of all runs.
    """
    for domain, group in groupby(runs, key=lambda run: run.domain):
        members = list(group)
        for topic, rules in read_policies(members).items():
            yield from _policy_cards(domain, topic, rules, redactor)
        for procedure in read_procedures(members):
            yield _procedure_card(domain, procedure, len(members))
        for run in members:
            yield _trajectory_card(run, redactor)


def shorten(text: str, length: int) -> str:
    """The text in one line, cut between words."""
    text = " ".join(text.split())
    if len(text) <= length:
        return text
    cut = text.rfind(" ", 0, length)
    return text[: cut if cut > 0 else length - 1].rstrip(" ,;:.-") + "…"


def _fit(parts: Iterable[str]) -> str:
    """As many parts as the budget allows, the first ones first; one that does not fit is left out whole."""
    text = ""
    for part in parts:
        longer = f"{text}\n{part}" if text else part
        if tokens(longer) <= BUDGET:
            text = longer
    return text


def _trajectory_card(run: Trajectory, redactor: Redactor) -> Card:
    opening = redactor.redact(run.opening)
    parts = [
        f'Observed {run.domain} run; its result was not checked. Request: "{shorten(opening, _OPENING)}"',
        f"Tool path: {_path(run.calls)}.",
        *_remarks(run, redactor),
    ]
    return Card(
        id=f"{run.domain}/run/{run.place:03d}",
        kind="trajectory",
        domain=run.domain,
        text=_fit(parts),
        words=" ".join([opening, *(f"{tool} {redactor.redact(reason)}" for tool, reason in sorted(run.written))]),
        path=run.sequence,
        topics=tuple(sorted(run.topics)),
        support=1,
        provenance=((run.place, "conversation"),),
    )


def _path(calls: Iterable[Call]) -> str:
    steps = [(token, len(list(group))) for token, group in groupby(call.token for call in calls)]
    shown = [token if times == 1 else f"{token} x{times}" for token, times in steps[:_STEPS]]
    more = f" … ({len(steps) - _STEPS} more)" if len(steps) > _STEPS else ""
    return " > ".join(shown) + more if shown else "no tool was used"


def _remarks(run: Trajectory, redactor: Redactor) -> Iterator[str]:
    """What is worth knowing beside the path, the most useful first."""
    refused = dict.fromkeys((call.token, _reason(call)) for call in run.calls if call.kind in SOFT_FAILURES)
    for token, reason in list(refused)[:2]:
        said = redactor.redact(reason)
        yield f"Refused there: {token}" + (f' ("{shorten(said, _REASON)}").' if said else ".")
    if run.written:
        done = sorted(run.written)
        named = [f"{tool} ({redactor.redact(reason)})" if reason else tool for tool, reason in done]
        yield f"Changed: {', '.join(named)}."
    elif run.calls:
        yield "Nothing was changed."
    if run.topics:
        yield f"Policies read: {', '.join(sorted(run.topics))}."
    repeated = sum(call.repeated for call in run.calls)
    if repeated:
        yield f"{repeated} identical {'call was' if repeated == 1 else 'calls were'} made again there."


def _reason(call: Call) -> str:
    result = call.result if isinstance(call.result, dict) else {}
    found = next((result[name] for name in ("reason", "error", "message") if isinstance(result.get(name), str)), "")
    return str(found)


def _policy_cards(domain: str, topic: str, rules: Sequence[Rule], redactor: Redactor) -> Iterator[Card]:
    """A policy in as few cards as the budget allows; a line is never cut unless it alone is too long."""
    head = f"Policy '{topic}' of {domain}, as {POLICY_TOOL} gave it:"
    room = BUDGET * PER_TOKEN - len(head) - 1
    page: list[tuple[Rule, str]] = []
    number = 0
    for rule in rules:
        line = shorten(redactor.redact(rule.line(), amounts=False), room)
        if page and sum(len(text) + 1 for _, text in page) + len(line) > room:
            yield _policy_card(domain, topic, head, page, number)
            page, number = [], number + 1
        page.append((rule, line))
    if page:
        yield _policy_card(domain, topic, head, page, number)


def _policy_card(domain: str, topic: str, head: str, page: Sequence[tuple[Rule, str]], number: int) -> Card:
    body = "\n".join(line for _, line in page)
    places = sorted({place for rule, _ in page for place in rule.runs})
    return Card(
        id=f"{domain}/policy/{topic}/{number}",
        kind="policy",
        domain=domain,
        text=f"{head}\n{body}",
        words=f"{topic} policy {body}",
        path=(),
        topics=(topic,),
        support=len(places),
        provenance=tuple((place, f"{POLICY_TOOL}.result") for place in places),
    )


def _procedure_card(domain: str, procedure: Procedure, runs: int) -> Card:
    step = procedure.step
    head = f"Observed step {step} of {domain}: {procedure.times} calls in {len(procedure.runs)} of {runs} runs"
    head += f", refused {_times(procedure.refused)} ({100 * procedure.refused / procedure.times:.0f} %)."
    parts = [head, *_neighbours(procedure)]
    return Card(
        id=f"{domain}/procedure/{step}",
        kind="procedure",
        domain=domain,
        text=_fit(parts),
        words=f"{step} {' '.join(name for name, _ in (*procedure.before.steps[:3], *procedure.after.steps[:3]))}",
        path=(),
        topics=(),
        support=len(procedure.runs),
        provenance=tuple((place, "tool_calls") for place in procedure.runs),
    )


def _neighbours(procedure: Procedure) -> Iterator[str]:
    if procedure.before.total:
        yield f"Before it: {_often(procedure.before)}."
    if procedure.after.total:
        yield f"After it: {_often(procedure.after)}."
    if procedure.after_refusal.total:
        yield f"After a refusal: {_often(procedure.after_refusal)}."
    if procedure.refused_runs:
        yield f"In {procedure.recovered} of {procedure.refused_runs} runs with a refusal it went through later."


def _often(followers: Followers, most: int = 3) -> str:
    shown = (f"{name.removeprefix('tool.')} {times}" for name, times in followers.steps[:most])
    return f"{', '.join(shown)} (of {followers.total})"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
