"""A small part of CSS selectors: tag, #id, .class, [attribute], [attribute=value], and descendants by a space."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_SIMPLE = re.compile(
    r"""(?P<tag>[A-Za-z][\w-]*|\*)|\#(?P<id>[\w-]+)|\.(?P<cls>[\w-]+)|\[(?P<name>[\w-]+)(?:=["']?(?P<value>[^"'\]]*)["']?)?\]"""
)
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"]
)
Element = tuple[str, dict[str, str]]


class Selector:
    """A selector.

    Raises
    ------
    ValueError
        If it uses more than is understood here.
    """

    def __init__(self, text: str) -> None:
        self._steps = [self._compound(part) for part in text.split()]
        if not self._steps:
            raise ValueError("the selector is empty")

    def matches(self, document: str) -> bool:
        """Whether any element of an HTML document matches."""
        reader = _Finder(self)
        reader.feed(document)
        reader.close()
        return reader.found

    def holds(self, ancestors: list[Element], element: Element) -> bool:
        """Whether an element with these ancestors, outermost first, matches."""
        if not self._fits(self._steps[-1], element):
            return False
        left = len(self._steps) - 1
        for ancestor in reversed(ancestors):
            if left and self._fits(self._steps[left - 1], ancestor):
                left -= 1
        return left == 0

    @staticmethod
    def _compound(text: str) -> list[tuple[str, str, str | None]]:
        tests: list[tuple[str, str, str | None]] = []
        at = 0
        while at < len(text):
            found = _SIMPLE.match(text, at)
            if found is None:
                raise ValueError(f"selector {text!r} is not understood; use tag, #id, .class, [name=value] and spaces")
            if found["tag"]:
                tests.append(("tag", found["tag"].lower(), None))
            elif found["id"]:
                tests.append(("attribute", "id", found["id"]))
            elif found["cls"]:
                tests.append(("class", found["cls"], None))
            else:
                tests.append(("attribute", found["name"].lower(), found["value"]))
            at = found.end()
        return tests

    @staticmethod
    def _fits(tests: list[tuple[str, str, str | None]], element: Element) -> bool:
        tag, attributes = element
        for kind, name, value in tests:
            if kind == "tag" and name not in ("*", tag):
                return False
            if kind == "class" and name not in attributes.get("class", "").split():
                return False
            if kind == "attribute" and (name not in attributes or (value is not None and attributes[name] != value)):
                return False
        return True


class _Finder(HTMLParser):
    def __init__(self, selector: Selector) -> None:
        super().__init__()
        self._selector = selector
        self._open: list[Element] = []
        self.found = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = (tag, {name: value or "" for name, value in attrs})
        self.found = self.found or self._selector.holds(self._open, element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        for at in range(len(self._open) - 1, -1, -1):
            if self._open[at][0] == tag:
                del self._open[at:]
                return
