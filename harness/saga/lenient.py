"""The tolerant reader for stage blocks that are no YAML: line by line, what a model most likely meant.

It knows one shape only: keys with values, and one list of criteria. Whatever it cannot place is reported.
"""

from __future__ import annotations

import re
from typing import Any

from harness.saga.strictyaml import YamlError, load, merge, plain_scalar

_KEY = re.compile(r"""(?P<quote>["'`]?)(?P<key>[A-Za-z_][\w-]*)(?P=quote)\s*:(?P<gap>\s|$)?(?P<value>.*)""", re.DOTALL)
_DASH = re.compile(r"(?P<indent>\s*)(?:-(?P<gap>\s*)|(?:[*•]|\d+[.)])\s+)(?P<rest>.*)")
_LONGEST = 2_000
"""Characters of a text that goes on over several lines."""
_BLOCK = re.compile(r"[|>][+-]?\d?")
_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "：": ":", "\u00a0": " ", "\t": "  "})


def read_block(
    text: str, lists: frozenset[str], outer: frozenset[str], known: frozenset[str], notices: list[str]
) -> dict[str, Any]:
    """Keys and criteria of a stage block.

    Parameters
    ----------
    lists : set of str
        Keys under which criteria stand, lower case.
    outer : set of str
        Keys of a stage; others that are known belong to the criterion before them, even if they are not indented.
    known : set of str
        Keys that are also taken where the space after the colon is missing, lower case.
    notices : list of str
        Lines that were not understood are added here.
    """
    lines = [line.translate(_QUOTES).rstrip() for line in text.split("\n")]
    found: dict[str, Any] = {}
    criteria: list[Any] | None = None
    list_key, item, item_indent, at = "done", None, 0, 0
    while at < len(lines):
        line, at = lines[at], at + 1
        bare = strip_comment(line).strip()
        if not bare or bare == "---":
            continue
        indent = len(line) - len(line.lstrip())
        dash = _DASH.fullmatch(strip_comment(line))
        if dash and (dash["gap"] != "" or not dash["rest"] or _pair(dash["rest"], known)):
            if isinstance(item, dict) and indent > item_indent and _open_key(item) is not None:
                key = str(_open_key(item))
                item[key] = [*(item[key] or []), read_item(dash["rest"], known, notices)]
                continue
            criteria = [] if criteria is None else criteria
            item, item_indent = read_item(dash["rest"], known, notices), indent
            criteria.append(item)
            continue
        pair = _pair(bare, known)
        if pair is None:
            if isinstance(item, str) and indent > item_indent and criteria is not None and len(item) < _LONGEST:
                criteria[-1] = item = f"{item} {bare}"
            else:
                notices.append(f"not understood, left out: {bare[:80]!r}")
            continue
        key, raw = pair
        belongs = indent > item_indent or (indent == item_indent and key.lower() in known and key.lower() not in outer)
        inside = criteria is not None and isinstance(item, dict) and belongs
        value, at = _block_value(raw, lines, at, indent, key, notices)
        if inside and isinstance(item, dict):
            merge(item, key, value, notices)
        elif key.lower() in lists and value in (None, "", []):
            criteria, list_key, item = criteria or [], key, None
        elif key.lower() in lists:
            criteria = [*(criteria or []), *(value if isinstance(value, list) else [value])]
            list_key, item = key, None
        elif criteria and item is not None and not isinstance(item, dict) and indent > item_indent:
            criteria[-1] = item = {"desc": item, key: value}
        else:
            merge(found, key, value, notices)
            item = None
    if criteria is not None:
        found[list_key] = criteria
    return found


def strip_comment(line: str) -> str:
    """The line without a ``# comment`` that stands outside quotes.

    >>> strip_comment('command: "echo # no"  # yes')
    'command: "echo # no"'
    """
    quote = ""
    for at, char in enumerate(line):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'" and (at == 0 or line[at - 1] in " :,[{-("):
            quote = char
        elif char == "#" and (at == 0 or line[at - 1] in " \t"):
            return line[:at].rstrip()
    return line


def scalar(text: str) -> Any:
    """A value without its matching quotes; a number or flag where nothing is lost."""
    text = text.strip().rstrip(",").strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'`":
        return text[1:-1]
    return plain_scalar(text.lstrip("\"'") if text.count('"') + text.count("'") == 1 else text)


def _open_key(item: dict[str, Any]) -> str | None:
    """The last key of a criterion, if it waits for a list."""
    last = next(reversed(item), None)
    return last if last is not None and (item[last] is None or isinstance(item[last], list)) else None


def _pair(text: str, known: frozenset[str]) -> tuple[str, str] | None:
    found = _KEY.fullmatch(text)
    if found is None or (found["gap"] is None and found["key"].lower() not in known):
        return None
    return found["key"], found["value"].strip()


def read_item(rest: str, known: frozenset[str], notices: list[str]) -> Any:
    """One item of a list: an inline mapping, one or several pairs, or a text."""
    rest = rest.strip()
    if rest.startswith(("{", "[")):
        return flow(rest, known, notices)
    pair = _pair(rest, known)
    if pair is None:
        return scalar(rest) if rest else {}
    key, raw = pair
    # Several pairs on one line, as in "kind: file-exists, path: a.md" or "kind:file-exists path:a.md".
    parts = [part for part in _split(rest) if part]
    if len(parts) < 2 and " " in raw:
        parts = re.split(r" (?=[A-Za-z_][\w-]*:(?!//))", " ".join(rest.split()))
    pairs = [_pair(part, known) for part in parts]
    if len(pairs) > 1 and all(p is not None and p[0].lower() in known for p in pairs):
        mapping: dict[str, Any] = {}
        for found in pairs:
            if found is not None:
                merge(mapping, found[0], scalar(found[1]), notices)
        return mapping
    return {key: flow(raw, known, notices) if raw.startswith(("{", "[")) else scalar(raw)}


def flow(text: str, known: frozenset[str], notices: list[str]) -> Any:
    """An inline list or mapping, by YAML if it is one and else by commas outside brackets and quotes."""
    try:
        return load(text, notices)
    except YamlError:
        pass
    opening, inner = text[0], text[1:].rstrip().rstrip(",")
    if inner.endswith("]" if opening == "[" else "}"):
        inner = inner[:-1]
    parts = [part for part in _split(inner) if part]
    if opening == "[":
        return [flow(p, known, notices) if p[0] in "{[" and len(p) > 1 else scalar(p) for p in parts]
    mapping: dict[str, Any] = {}
    for part in parts:
        pair = _KEY.fullmatch(part)
        if pair is None:
            notices.append(f"not understood, left out: {part[:80]!r}")
            continue
        raw = pair["value"].strip()
        merge(mapping, pair["key"], flow(raw, known, notices) if raw[:1] in ("{", "[") else scalar(raw), notices)
    return mapping


def _split(text: str) -> list[str]:
    """Parts between commas that stand outside quotes and brackets."""
    parts, depth, quote, begin = [], 0, "", 0
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'" and (at == 0 or text[at - 1] in " :,[{"):
            quote = char
        elif char in "[{(":
            depth += 1
        elif char in "]})":
            depth = max(0, depth - 1)
        elif char == "," and not depth:
            parts.append(text[begin:at].strip())
            begin = at + 1
    return [*parts, text[begin:].strip()]


def _block_value(raw: str, lines: list[str], at: int, indent: int, key: str, notices: list[str]) -> tuple[Any, int]:
    """The value of a key: what stands on its line, or the deeper lines that ``|`` and ``>`` announce."""
    if not _BLOCK.fullmatch(raw):
        if raw.startswith(("[", "{")):
            while raw.count("[") + raw.count("{") > raw.count("]") + raw.count("}") and at < len(lines):
                raw, at = f"{raw} {strip_comment(lines[at]).strip()}", at + 1
            return flow(raw, frozenset(), notices), at
        return (scalar(raw) if raw else None), at
    taken = []
    while at < len(lines) and (not lines[at].strip() or len(lines[at]) - len(lines[at].lstrip()) > indent):
        taken.append(lines[at].strip())
        at += 1
    return ("\n" if raw.startswith("|") else " ").join(taken).strip(), at
