"""The order in which names are listed where the published answers use Unicode root collation.

Punctuation counts and precedes digits, digits precede letters, letters compare without case first and lower before
upper on a tie, accents come after base letters. Digits are not numeric: "a10" sorts before "a2". ASCII follows the
root collation exactly; a letter outside ASCII is compared by its base letter and accents, other characters by code
point after all ASCII letters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache

_PUNCTUATION = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$"
_PRIMARY = {c: i + 64 for i, c in enumerate(_PUNCTUATION + "0123456789abcdefghijklmnopqrstuvwxyz")}
_PRIMARY.update({"\t": 1, "\n": 2, "\x0b": 3, "\x0c": 4, "\r": 5})
# Control characters other than white space are ignorable in the root collation.
_EXPANSIONS = str.maketrans({"ß": "ss", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE"})
_IGNORED = {chr(i) for i in (*range(0x09), *range(0x0E, 0x20), 0x7F)}

_ASCII_PRIMARY = str.maketrans({c: chr(_PRIMARY.get(c.lower(), 0)) for c in map(chr, range(128)) if c not in _IGNORED})
_ASCII_UPPER = str.maketrans({c: "1" if c.isupper() else "0" for c in map(chr, range(128))})
CollationKey = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], str]


@lru_cache(maxsize=65536)
def collation_key(text: str) -> CollationKey:
    """Sort key of `text`; the text itself is the last part, so that the order is total.

    >>> sorted(["b", "A", "a", "a10", "a2", "a_b", "a-b", "a:b", "a.b"], key=collation_key)
    ['a', 'A', 'a_b', 'a-b', 'a:b', 'a.b', 'a10', 'a2', 'b']
    """
    primary: list[int] = []
    accents: list[int] = []
    upper: list[int] = []
    for char in unicodedata.normalize("NFD", text.translate(_EXPANSIONS)):
        if char in _IGNORED:
            continue
        if unicodedata.combining(char):
            accents.append(ord(char))
            continue
        lower = char.lower()
        weight = _PRIMARY.get(lower)
        if weight is None:
            weight = 256 + ord(lower[0])
        primary.append(weight)
        accents.append(0)
        upper.append(1 if char != lower else 0)
    return tuple(primary), tuple(accents), tuple(upper), text


def collation_order(texts: Sequence[str]) -> list[int]:
    """Places of the texts in collation order: ``[texts[i] for i in collation_order(texts)]`` is sorted.

    The same order as by `collation_key`. Plain ASCII needs no accents and no expansions, and is compared as text.
    """
    if all(text.isascii() and _IGNORED.isdisjoint(text) for text in texts):
        keys = [(text.translate(_ASCII_PRIMARY), text.translate(_ASCII_UPPER), text) for text in texts]
        return sorted(range(len(texts)), key=keys.__getitem__)
    return sorted(range(len(texts)), key=lambda at: collation_key(texts[at]))
