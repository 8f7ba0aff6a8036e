"""Reads the configuration of OpenClaw, which may be JSON5: comments, trailing commas, bare keys, single quotes."""

from __future__ import annotations

import json
import re
from typing import Any

_TOKEN = re.compile(
    r"""
    (?P<space>\s+ | //[^\n]* | /\*.*?\*/)
  | (?P<double>"(?:[^"\\]|\\.)*")
  | (?P<single>'(?:[^'\\]|\\.)*')
  | (?P<number>[+-]?(?:0[xX][0-9a-fA-F]+ | (?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))
  | (?P<word>[A-Za-z_$][\w$]*)
  | (?P<mark>[{}\[\]:,])
    """,
    re.X | re.S,
)
_PLAIN = frozenset({"true", "false", "null"})


def loads(text: str) -> Any:
    """The value of a JSON5 text; JSON is a part of it.

    Raises
    ------
    ValueError

    Examples
    --------
    >>> loads("{a: 'it\\\\'s', b: [1, .5,], /* so */ }")
    {'a': "it's", 'b': [1, 0.5]}
    """
    tokens = list(_tokens(text))
    parts: list[str] = []
    for at, (kind, token) in enumerate(tokens):
        before, after = parts[-1] if parts else "", tokens[at + 1][1] if at + 1 < len(tokens) else ""
        if token == "," and after in ("}", "]") and before not in ("{", "[", ","):
            continue
        if kind == "word" and after != ":" and token in _PLAIN:
            parts.append(token)
        elif kind == "word" and after != ":":
            raise ValueError(f"unexpected {token}")
        elif kind == "word":
            parts.append(json.dumps(token))
        elif kind == "single":
            parts.append(_requoted(token))
        elif kind == "double":
            parts.append(token.replace("\\\n", ""))
        else:
            parts.append(_number(token) if kind == "number" else token)
    return json.loads(" ".join(parts), strict=False)


def is_plain(text: str) -> bool:
    """Whether a text is JSON as it stands: nothing gets lost when it is written anew."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _tokens(text: str) -> list[tuple[str, str]]:
    found, at = [], 0
    text = text.lstrip("\ufeff")
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            line = text.count("\n", 0, at) + 1
            raise ValueError(f"line {line}: unexpected {text[at]!r}")
        at = match.end()
        if match.lastgroup != "space":
            found.append((str(match.lastgroup), match[0]))
    return found


def _requoted(token: str) -> str:
    inner = re.sub(r"\\'", "'", token[1:-1].replace("\\\n", ""))
    return '"' + re.sub(r'(\\.)|(")', lambda m: m[1] or '\\"', inner, flags=re.S) + '"'


def _number(token: str) -> str:
    bare = token.lstrip("+")
    if "x" in bare.lower():
        return str(int(bare, 16))
    sign, digits = ("-", bare[1:]) if bare.startswith("-") else ("", bare)
    return sign + re.sub(r"\.(?=[eE]|$)", ".0", re.sub(r"^\.", "0.", digits))
