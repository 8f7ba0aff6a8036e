"""YAML as data only: no tags, no anchors, bounded in size; scalars keep the text they were written as.

PyYAML reads the structure. A plain scalar becomes a number or a flag only where that loses nothing (``007`` and
``1.10`` stay text), so that a title may be ``2024`` and a command ``true``.
"""

from __future__ import annotations

import json
from typing import Any

MAX_BYTES = 1 << 20
MAX_NODES = 1_000
MAX_DEPTH = 40
_DIGITS = 18
"""A number with more of them stays text: JSON readers would round it."""


class YamlError(Exception):
    """The text is no YAML that is accepted here."""


def load(text: str, notices: list[str]) -> Any:
    """The one document in a text, as dictionaries, lists and scalars.

    Parameters
    ----------
    notices : list of str
        What was taken differently from how it was written is added here: keys that stand twice.

    Raises
    ------
    YamlError
        If it is none, is too large, or uses tags or anchors.
    """
    import yaml

    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise YamlError("the YAML is larger than 1 MiB")
    if text.count("[") + text.count("{") > MAX_NODES:
        # Known before the slow part: each bracket would be a value.
        raise YamlError(f"more than {MAX_NODES} values")
    try:
        loader = yaml.SafeLoader(text)
        try:
            _refuse_beyond_data(text)
            node = loader.get_single_node()
        finally:
            loader.dispose()
        return None if node is None else _value(node, notices, 0)
    except yaml.YAMLError as error:
        raise YamlError(" ".join(str(error).split())[:200]) from None
    except (RecursionError, ValueError, OverflowError, UnicodeError) as error:
        raise YamlError(f"{type(error).__name__}: {error}"[:200]) from None


def _refuse_beyond_data(text: str) -> None:
    """Refuse before anything is built: anchors would let a small text grow without bound."""
    import yaml

    count = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise YamlError("anchors and aliases are not accepted")
        if isinstance(event, yaml.NodeEvent):
            count += 1
            if count > MAX_NODES:
                raise YamlError(f"more than {MAX_NODES} values")
        if getattr(event, "tag", None) is not None:
            raise YamlError("tags are not accepted")


def _value(node: Any, notices: list[str], depth: int) -> Any:
    import yaml

    if depth > MAX_DEPTH:
        raise YamlError(f"nested more than {MAX_DEPTH} deep")
    if isinstance(node, yaml.ScalarNode):
        return plain_scalar(node.value) if node.style is None else node.value
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, notices, depth + 1) for item in node.value]
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            raise YamlError("a key is a list or a mapping")
        key, value = key_node.value, _value(value_node, notices, depth + 1)
        merge(mapping, key, value, notices)
    return mapping


def merge(mapping: dict[str, Any], key: str, value: Any, notices: list[str]) -> None:
    """Put a key into a mapping; if it is there, lists are joined and otherwise the first value stays, with a notice."""
    if key not in mapping:
        mapping[key] = value
    elif isinstance(mapping[key], list) and isinstance(value, list):
        mapping[key] = mapping[key] + value
        notices.append(f"`{key}` stands twice; the two lists were joined")
    else:
        notices.append(f"`{key}` stands twice; the first value was kept, not {json.dumps(value, default=str)[:80]}")


def plain_scalar(text: str) -> Any:
    """What an unquoted scalar is: nothing, a flag, a number, or its text."""
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "false"):
        return text == "true"
    if len(text) <= _DIGITS:
        for kind in (int, float):
            try:
                number = kind(text)
            except ValueError:
                continue
            if str(number) == text and text.lower().lstrip("+-") not in ("nan", "inf"):
                return number
    return text
