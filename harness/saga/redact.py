"""Secrets do not enter diagnostics and events: keys and values that look like tokens are masked."""

from __future__ import annotations

import re
from typing import Any

MASK = "[redacted]"
_KEY = re.compile(
    r"(?i)(?:pass(?:word|wd|phrase)?|secret|token|api[-_]?key|access[-_]?key|auth(?:orization)?|cookie|credential)s?$"
)
_COUNT = re.compile(r"(?i)^(?:max|per|total|used|num|n|stage|prompt|input|output)?[-_]?(?:stage)?[-_]?tokens$")
_VALUES = (
    re.compile(r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}"),
    re.compile(r"\bgh[opsur]_[A-Za-z0-9]{20,}"),
    re.compile(r"\bgithub_pat_[A-Za-z0-9_]{20,}"),
    re.compile(r"\bxox[abprs]-[A-Za-z0-9-]{10,}"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    re.compile(r"\bAIza[A-Za-z0-9_-]{35}"),
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,600}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)"),
)
_SCHEME = re.compile(r"(?i)\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{12,}")
_IN_URL = re.compile(r"(://[^/\s:@]+):[^/\s@]+@")
_ASSIGNED = re.compile(
    r"""(?ix)\b((?:[a-z]+[-_])?(?:password|passwd|passphrase|secret|token|api[-_]?key|access[-_]?key)["']?\s*[:=]\s*)
    (["']?)[^\s"',;]{6,}\2"""
)


def redact_text(text: str) -> str:
    """The text with what looks like a secret masked.

    >>> redact_text("curl -H 'Authorization: Bearer abcdefghijklmnop' failed")
    "curl -H 'Authorization: Bearer [redacted]' failed"
    """
    for pattern in _VALUES:
        text = pattern.sub(MASK, text)
    text = _SCHEME.sub(rf"\1 {MASK}", text)
    text = _IN_URL.sub(rf"\1:{MASK}@", text)
    return _ASSIGNED.sub(rf"\1{MASK}", text)


def redact(value: Any) -> Any:
    """The same for a JSON value; a key that names a secret masks what it holds."""
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict):
        return {
            key: MASK if _names_secret(key) and item not in (None, "", 0) else redact(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [redact(item) for item in value]
    return value


def _names_secret(key: object) -> bool:
    return isinstance(key, str) and _KEY.search(key) is not None and _COUNT.match(key) is None
