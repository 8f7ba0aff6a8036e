"""Taxonomy rules of the user: what an event is called, how it ended, what labels it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from sherpa.configuration import TaxonomyMatch, TaxonomyRule

if TYPE_CHECKING:
    from sherpa.event import Outcome

_LONGEST = 20_000
"""Characters of a content that a pattern looks at."""


@dataclass(frozen=True)
class Captured:
    """An event before it is stored, with what rules may ask for.

    Attributes
    ----------
    kind : str
        ``message``, ``tool``, ``session`` or ``task``.
    type, source, actor, outcome, labels
        As in the event.
    tool_name, tool_family, phase, channel, content : str, optional
        The content is only looked at; it is not stored with the event.
    meta : dict
    """

    kind: str
    type: str
    source: str
    actor: str = "agent"
    outcome: Outcome = "unknown"
    labels: tuple[str, ...] = ()
    tool_name: str | None = None
    tool_family: str | None = None
    phase: str | None = None
    channel: str | None = None
    content: str | None = None
    meta: dict[str, Any] = field(default_factory=dict)


def apply_rules(event: Captured, rules: Sequence[TaxonomyRule]) -> Captured:
    """The event after all rules that match, in their order; a later rule sees what an earlier one wrote."""
    for rule in rules:
        if _holds(rule.match, event):
            labels = event.labels + tuple(label for label in rule.set.labels if label not in event.labels)
            event = replace(
                event, type=rule.set.type or event.type, outcome=rule.set.outcome or event.outcome, labels=labels
            )
    return event


def _holds(match: TaxonomyMatch, event: Captured) -> bool:
    for name in msgspec.structs.fields(TaxonomyMatch):
        wanted = getattr(match, name.name)
        if wanted is None or name.name == "content_pattern":
            continue
        if wanted != getattr(event, name.name):
            return False
    return match.content_pattern is None or _found(match.content_pattern, event.content)


@lru_cache(maxsize=512)
def _pattern(text: str) -> Any:
    """The pattern, compiled; None if it is none. RE2 takes time linear in the text, whatever the pattern."""
    import re2

    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error:
        return None


def _found(pattern: str, content: str | None) -> bool:
    if content is None:
        return False
    compiled = _pattern(pattern)
    # A pattern that is none matches nothing, as published; `config validate` names it.
    return compiled is not None and compiled.search(content[:_LONGEST]) is not None


def broken_patterns(rules: Sequence[TaxonomyRule]) -> list[str]:
    """Patterns of rules that cannot be compiled, by the place of their rule."""
    return [
        f"taxonomy.rules[{at}].match.contentPattern: {rule.match.content_pattern!r} is no pattern"
        for at, rule in enumerate(rules)
        if rule.match.content_pattern is not None and _pattern(rule.match.content_pattern) is None
    ]
