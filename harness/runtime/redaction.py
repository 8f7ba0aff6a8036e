"""What does not go into the log: values that look secret, and long texts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

HIDDEN = "[hidden]"
LONGEST = 120
_WORDS = re.compile(r"secret|token|password|api_?key|credential", re.IGNORECASE)
_SHORTEST_SECRET = 4
"""Shorter values would be found by chance everywhere."""


def redact(value: Any, *, secrets: Collection[str] = (), key: str = "") -> Any:
    """A value as the log may hold it, at any depth.

    Values under keys that name a secret, and texts that mention one, are hidden; long texts give their length only.

    Parameters
    ----------
    secrets : collection of str
        Known values, from `secrets_of`; they are hidden wherever they appear.
    """
    if key and _WORDS.search(key):
        return HIDDEN
    if isinstance(value, str):
        if _WORDS.search(value):
            return HIDDEN
        return scrub(value, secrets) if len(value) <= LONGEST else f"[{len(value)} characters]"
    if isinstance(value, Mapping):
        return {
            scrub(str(name), secrets)[:LONGEST]: redact(item, secrets=secrets, key=str(name))
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [redact(item, secrets=secrets) for item in value]
    return value


def scrub(text: str, secrets: Collection[str]) -> str:
    """A text, for example an error message, without the known secret values."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text


def secrets_of(value: Any, *, under: bool = False) -> frozenset[str]:
    """Texts that lie under keys that name a secret."""
    return frozenset(_secrets(value, under))


def _secrets(value: Any, under: bool) -> Iterator[str]:
    if isinstance(value, str):
        if under and len(value) >= _SHORTEST_SECRET:
            yield value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _secrets(item, under or bool(_WORDS.search(str(name))))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _secrets(item, under)
