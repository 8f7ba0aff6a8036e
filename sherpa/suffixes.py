"""Where every state of a log occurs: for each order the places of each state, in order.

An inverted index over suffixes. It answers in the time of the places it finds what a scan answers in the time of the
whole log; `sherpa.caseindex` keeps it beside the graph and up to date.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sherpa.counttable import WORD_BITS
from sherpa.eventlog import EventLog, Int8, Int32, Int64

NOWHERE: Int64 = np.empty(0, np.int64)
NO_CASE = -1


@dataclass(frozen=True, eq=False)
class Places:
    """The states of one order and where they occur.

    Attributes
    ----------
    words : int64 array (states,)
        States packed, most recent type first; rising.
    starts : int64 array (states + 1,)
        State s occurs at ``at[starts[s]:starts[s + 1]]``.
    at : int64 array (occurrences,)
        Position of the last event of the state; rising within a state.
    """

    words: Int64
    starts: Int64
    at: Int64


@dataclass(frozen=True, eq=False)
class SuffixIndex:
    """Cases as columns, and the places of their states.

    Attributes
    ----------
    types : tuple of str
    codes : int32 array (events,)
    offsets : int64 array (cases + 1,)
    case_of : int32 array (events,)
    outcomes : int8 array (cases,)
        Terminal outcome of each case as a code.
    bits : int
        Bits of one type in a word.
    orders : tuple of Places
        Of the states of 1, 2 … types.
    """

    types: tuple[str, ...]
    codes: Int32
    offsets: Int64
    case_of: Int32
    outcomes: Int8
    bits: int
    orders: tuple[Places, ...]

    @classmethod
    def build(cls, log: EventLog, order: int) -> SuffixIndex | None:
        """The index of a log for states of up to `order` types; None if such a state does not fit into a word."""
        bits = max(1, len(log.vocabulary).bit_length())
        place_bits = max(1, (log.events - 1).bit_length())
        if order * bits + place_bits > WORD_BITS:
            return None
        words = _suffix_words(log, order, bits)
        orders = []
        for k in range(1, order + 1):
            short = words >> ((order - k) * bits)
            whole = np.flatnonzero(short & ((1 << bits) - 1))
            orders.append(_places(short[whole], whole, place_bits))
        case_of = np.repeat(np.arange(len(log), dtype=np.int32), np.diff(log.offsets))
        return cls(log.vocabulary, log.codes, log.offsets, case_of, log.terminal, bits, tuple(orders))

    def places(self, state: Sequence[str]) -> Int64:
        """Positions of the last events of a state, wherever it occurs, rising."""
        if not 0 < len(state) <= len(self.orders):
            return NOWHERE
        code_of = self._code_of
        word = 0
        for name in reversed(state):
            code = code_of.get(name)
            if code is None:
                return NOWHERE
            word = word << self.bits | (code + 1)
        found = self.orders[len(state) - 1]
        at = int(np.searchsorted(found.words, word))
        if at == len(found.words) or found.words[at] != word:
            return NOWHERE
        return found.at[found.starts[at] : found.starts[at + 1]]

    @property
    def _code_of(self) -> dict[str, int]:
        held: dict[str, int] | None = self.__dict__.get("_codes")
        if held is None:
            held = {name: code for code, name in enumerate(self.types)}
            object.__setattr__(self, "_codes", held)
        return held


def _suffix_words(log: EventLog, order: int, bits: int) -> Int64:
    """Every event with those before it in its case, packed, most recent first; 0 before the beginning."""
    tokens = log.codes.astype(np.int64) + 1
    words = tokens << ((order - 1) * bits)
    for back in range(1, min(order, log.events)):
        words[back:] |= tokens[:-back] << ((order - 1 - back) * bits)
    begins, lengths = log.offsets[:-1], np.diff(log.offsets)
    for depth in range(order - 1):
        short = begins[lengths > depth] + depth
        words[short] &= ~((1 << ((order - 1 - depth) * bits)) - 1)
    return words


def _places(words: Int64, at: Int64, place_bits: int) -> Places:
    packed = np.sort(words << place_bits | at)
    places = packed & ((1 << place_bits) - 1)
    packed >>= place_bits
    new = np.ones(len(packed), bool)
    np.not_equal(packed[1:], packed[:-1], out=new[1:])
    starts = np.flatnonzero(new)
    return Places(packed[starts], np.append(starts, len(packed)), places)


def first_of_each(values: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Marks the first of equal neighbours."""
    first = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=first[1:])
    return first
