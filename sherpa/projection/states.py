"""Tokens, state keys and the variants in which a window of events can be seen."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from sherpa.config import Strategy

STATE_SEPARATOR = " -> "
_ARROW = re.compile(r"(\\*)->")
_ESCAPED_ARROW = re.compile(r"\\(\\*)->")
_FACET_END = re.compile(r"[\\,\]]")
_FACET = re.compile(r" (\\*)\[(?=(?:family|procedure)=)")


class Facets(NamedTuple):
    """What a token of one event may show."""

    type: str
    procedure: str | None = None
    family: str | None = None


class StateVariant(NamedTuple):
    """One way to see a window of events.

    `tokens` is oldest first; `facet_fields` lists the facets that at least one event of the window has.
    """

    tokens: tuple[str, ...]
    facet_fields: tuple[str, ...]
    specificity: int

    @property
    def mode(self) -> str:
        return "projected" if self.facet_fields else "raw"

    @property
    def description(self) -> str:
        return f"projected state ({' + '.join(self.facet_fields)})" if self.facet_fields else "raw suffix"

    @property
    def key(self) -> str:
        return join_state(self.tokens)


def token_text(event_type: str, family: str | None = None, procedure: str | None = None) -> str:
    """The token of one event: its type, followed by the facets it has.

    A type that itself looks like a token with facets is escaped, so that different events never share a token.
    """
    text = _FACET.sub(r" \\\1[", event_type) if "=" in event_type else event_type
    facets = [f"{name}={_escaped(value)}" for name, value in (("family", family), ("procedure", procedure)) if value]
    return f"{text} [{','.join(facets)}]" if facets else text


def _escaped(value: str) -> str:
    """A facet is free text in a dataset; a comma in it must not look like the start of the next facet."""
    return _FACET_END.sub(r"\\\g<0>", value)


def join_state(tokens: Sequence[str]) -> str:
    """The state key of a window, oldest token first. An arrow inside a token is escaped: keys are unambiguous.

    >>> join_state(["a", "b->c"])
    'a -> b\\\\->c'
    """
    return STATE_SEPARATOR.join(_ARROW.sub(r"\\\1->", t) if "->" in t else t for t in tokens)


def split_state(key: str) -> tuple[str, ...]:
    """Inverse of `join_state`."""
    return tuple(_ESCAPED_ARROW.sub(r"\1->", part) for part in key.split(STATE_SEPARATOR))


def levels(strategy: Strategy, allow_raw_fallback: bool) -> tuple[tuple[str, ...], ...]:
    """Facet sets of a strategy, most specific first."""
    projected: tuple[tuple[str, ...], ...]
    if strategy == "raw":
        return ((),)
    projected = (("procedure",),) if strategy == "procedure" else (("family", "procedure"), ("procedure",))
    return (*projected, ()) if allow_raw_fallback else projected


def state_variants(window: Sequence[Facets], strategy: Strategy, allow_raw_fallback: bool = True) -> list[StateVariant]:
    """The variants of a window, most specific first, each key once."""
    variants: list[StateVariant] = []
    for level in levels(strategy, allow_raw_fallback):
        family, procedure = "family" in level, "procedure" in level
        tokens = tuple(
            token_text(e.type, e.family if family else None, e.procedure if procedure else None) for e in window
        )
        if any(v.tokens == tokens for v in variants):
            continue
        fields = tuple(
            name
            for name, wanted in (("family", family), ("procedure", procedure))
            if wanted and any(getattr(e, name) for e in window)
        )
        extra = sum(len(t) - len(e.type) for t, e in zip(tokens, window, strict=True))
        variants.append(StateVariant(tokens, fields, extra))
    return variants
