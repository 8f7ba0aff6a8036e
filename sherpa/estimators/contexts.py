"""The contexts of a log and what followed them, in columns, with the begin and the end of a case as symbols."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import xor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sherpa.eventlog import EventLog

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]
NOT_KNOWN = -1
_UNKNOWN_TYPE = 0x5EED_0F_A11_7E5


class Targets(NamedTuple):
    """Every symbol that is to be predicted, and the stream it stands in.

    Attributes
    ----------
    stream : int array
        For each case: begin, its events, end. Codes of the vocabulary; END is `width` − 2, BEGIN `width` − 1; a type
        outside the vocabulary is −1.
    place : int array (targets,)
        Where in the stream each target stands: every event but the begins.
    depth : int array (targets,)
        Symbols of the same case before it, the begin counted.
    case : int array (targets,)
        Index of the case.
    seen : int array (targets,)
        Fingerprint of the set of types that the case held before the target.
    """

    stream: Int
    place: Int
    depth: Int
    case: Int
    seen: Int


def targets(log: EventLog, vocabulary: tuple[str, ...]) -> Targets:
    """The events and ends of all cases as targets, coded by a vocabulary."""
    code_of = {name: code for code, name in enumerate(vocabulary)}
    recode = np.array([code_of.get(name, NOT_KNOWN) for name in log.vocabulary], dtype=np.int64)
    lengths = np.diff(log.offsets) + 2
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    stream = np.empty(int(offsets[-1]), dtype=np.int64)
    stream[offsets[:-1]] = len(vocabulary) + 1
    stream[offsets[1:] - 1] = len(vocabulary)
    inside = np.ones(len(stream), dtype=bool)
    inside[offsets[:-1]] = inside[offsets[1:] - 1] = False
    stream[inside] = recode[log.codes] if len(recode) else log.codes
    case = np.repeat(np.arange(len(log)), lengths)
    depth = np.arange(len(stream)) - offsets[case]
    place = np.flatnonzero(depth > 0)
    return Targets(stream, place, depth[place], case[place], _seen(log, stream, case, vocabulary)[place - 1])


def _seen(log: EventLog, stream: Int, case: Int, vocabulary: tuple[str, ...]) -> Int:
    """Fingerprint of the set of types in the case, up to and with each place of a stream.

    A set is the exclusive or of the fingerprints of its members, each taken when it occurs first.
    """
    prints = np.array([fingerprint(name) for name in vocabulary] + [_UNKNOWN_TYPE], dtype=np.int64)
    event = np.flatnonzero((stream != len(vocabulary)) & (stream != len(vocabulary) + 1))
    _, first = np.unique(case[event] * np.int64(len(vocabulary) + 1) + stream[event], return_index=True)
    gained = np.zeros(len(stream), dtype=np.int64)
    gained[event[first]] = prints[stream[event[first]]]
    running = np.bitwise_xor.accumulate(gained) if len(gained) else gained
    # A case begins with its begin, which gains nothing: what stood there came from the cases before.
    before = running[np.concatenate(([0], np.flatnonzero(np.diff(case)) + 1))] if len(case) else running
    own: Int = running ^ np.repeat(before, np.bincount(case, minlength=len(log))) if len(case) else running
    return own


@lru_cache(maxsize=1 << 16)
def fingerprint(name: str) -> int:
    """A number for a type, the same in every run."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little", signed=True)


def next_target(types: Sequence[str], vocabulary: tuple[str, ...]) -> Targets:
    """What comes after a prefix (all its types, oldest first), as one target."""
    code_of = {name: code for code, name in enumerate(vocabulary)}
    codes = [code_of.get(name, NOT_KNOWN) for name in types]
    stream = np.array([len(vocabulary) + 1, *codes, NOT_KNOWN], dtype=np.int64)
    members = {name if name in code_of else None for name in types}
    seen = reduce(xor, (_UNKNOWN_TYPE if name is None else fingerprint(name) for name in members), 0)
    place = np.array([len(stream) - 1])
    return Targets(stream, place, place.copy(), np.zeros(1, np.int64), np.array([seen], dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Level:
    """The contexts of one order.

    Attributes
    ----------
    keys : int array (contexts,)
        Rising; (context of the order below) · width + oldest symbol.
    parent : int array (contexts,)
        The same context without its oldest symbol, in the order below.
    edges : int array (edges,)
        Rising; context · width + symbol, for every symbol that followed a context.
    context, symbol : int arrays (edges,)
        The two parts of `edges`.
    bounds : int array (contexts + 1,)
        Context c has the edges ``bounds[c]:bounds[c + 1]``.
    count, whole : int arrays (edges,)
        How often; and how often where the context begins with the case, so that no longer context exists.
    edge, target : int arrays (occurrences,)
        Edge of each occurrence, and which of the targets it is.
    begins : bool array (occurrences,)
        Whether the context of an occurrence begins with the case.
    """

    keys: Int
    parent: Int
    edges: Int
    context: Int
    symbol: Int
    bounds: Int
    count: Int
    whole: Int
    edge: Int
    target: Int
    begins: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        """Number of contexts."""
        return len(self.keys)


@dataclass(frozen=True, eq=False)
class Weighted:
    """The counts of a level, each occurrence weighted by its case (float arrays over edges).

    Attributes
    ----------
    count, whole
        As in `Level`.
    heaviest
        The largest weight among the occurrences.
    """

    count: Float
    whole: Float
    heaviest: Float


class Contexts:
    """All contexts of a log up to an order, as a trie by the most recent symbol.

    The structure is found once; models that weight cases differently, or look less far back, share it.

    Parameters
    ----------
    log : EventLog
    max_order : int
        Symbols of context, the begin of the case counted.
    merge : mapping of str to str, optional
        Types that count as one in contexts, by the name of their class; what is predicted stays apart.

    Attributes
    ----------
    derived : dict
        What models made of these contexts, so that the next one need not make it again.
    """

    def __init__(self, log: EventLog, max_order: int, merge: Mapping[str, str] | None = None) -> None:
        # A type that occurs in no case was not learned, whatever the vocabulary of a larger log says.
        self.vocabulary = log.occurring
        self.width = len(self.vocabulary) + 2
        self.max_order = max_order
        self._class = _classes(self.vocabulary, merge or {})
        self._targets = targets(log, self.vocabulary)
        self._symbol = self._targets.stream[self._targets.place]
        node = np.zeros(len(self._symbol), dtype=np.int64)
        rows = np.arange(len(self._symbol))
        self.levels = [self._level(np.zeros(1, np.int64), np.zeros(1, np.int64), node, rows, 0)]
        self.derived: dict[Any, Any] = {}
        for order in range(1, max_order + 1):
            deep = self._targets.depth[rows] >= order
            rows, node = rows[deep], node[deep]
            oldest = self._class[self._targets.stream[self._targets.place[rows] - order]]
            keys, node = np.unique(node * self.width + oldest, return_inverse=True)
            self.levels.append(self._level(keys, keys // self.width, node, rows, order))
        self._sets: Int | None = None
        self._by_set: dict[int, Level] = {}

    def _level(self, keys: Int, parent: Int, node: Int, rows: Int, order: int) -> Level:
        edges, edge = np.unique(node * self.width + self._symbol[rows], return_inverse=True)
        context = edges // self.width
        begins = self._targets.depth[rows] == order
        return Level(
            keys=keys,
            parent=parent,
            edges=edges,
            context=context,
            symbol=edges % self.width,
            bounds=np.searchsorted(context, np.arange(len(keys) + 1)),
            count=np.bincount(edge, minlength=len(edges)),
            whole=np.bincount(edge[begins], minlength=len(edges)),
            edge=edge,
            target=rows,
            begins=begins,
        )

    @property
    def sets(self) -> Int:
        """Fingerprints of all sets of types that a prefix held, rising."""
        if self._sets is None:
            self._sets = np.unique(self._targets.seen)
        return self._sets

    def set_level(self, order: int) -> Level:
        """Contexts of an order, each told apart by the set of types that the case held so far.

        Its keys are (context of that order) · (number of sets) + place in `sets`.
        """
        if order not in self._by_set:
            below = self.levels[order]
            rows = below.target
            node = below.context[below.edge] * len(self.sets) + np.searchsorted(self.sets, self._targets.seen[rows])
            keys, node = np.unique(node, return_inverse=True)
            self._by_set[order] = self._level(keys, keys // max(1, len(self.sets)), node, rows, order)
        return self._by_set[order]

    def chain(self, order: int, by_set: bool) -> list[Level]:
        """The levels that a model blends, shortest context first."""
        suffixes = self.levels[: order + 1]
        return [*suffixes, self.set_level(order)] if by_set else suffixes

    def weighted(self, level: Level, weights: Float | None) -> Weighted:
        """The counts of a level, with a weight for each case; None weights all alike."""
        if weights is None:
            count = level.count.astype(float)
            return Weighted(count, level.whole.astype(float), np.minimum(count, 1.0))
        size = len(level.edges)
        weight = weights[self._targets.case[level.target]]
        heaviest = np.zeros(size)
        np.maximum.at(heaviest, level.edge, weight)
        begins = level.begins
        return Weighted(
            np.bincount(level.edge, weights=weight, minlength=size).astype(float),
            np.bincount(level.edge[begins], weights=weight[begins], minlength=size).astype(float),
            heaviest,
        )

    def find(self, asked: Targets, order: int, by_set: bool = False) -> list[Int]:
        """For each level of a chain the context of every target, `NOT_KNOWN` where it was never seen.

        A context is known only if all shorter ones are.
        """
        node = np.zeros(len(asked.place), dtype=np.int64)
        found = [node]
        for depth in range(1, order + 1):
            oldest = self._class[asked.stream[np.maximum(asked.place - depth, 0)]]
            known = (asked.depth >= depth) & (node != NOT_KNOWN) & (oldest != NOT_KNOWN)
            node = np.where(known, _position(self.levels[depth].keys, node * self.width + oldest), NOT_KNOWN)
            found.append(node)
        if by_set:
            held = _position(self.sets, asked.seen)
            known = (node != NOT_KNOWN) & (held != NOT_KNOWN)
            key = node * len(self.sets) + held
            found.append(np.where(known, _position(self.set_level(order).keys, key), NOT_KNOWN))
        return found

    def find_edge(self, level: Level, node: Int, symbols: Int) -> Int:
        """The edge of a level from the context of every target to the target, `NOT_KNOWN` where there is none."""
        return np.where(node != NOT_KNOWN, _position(level.edges, node * self.width + symbols), NOT_KNOWN)


def _classes(vocabulary: tuple[str, ...], merge: Mapping[str, str]) -> Int:
    """The code by which each code counts in contexts: the smallest of its class; the last entry is for `NOT_KNOWN`."""
    first: dict[str, int] = {}
    codes = [first.setdefault(merge.get(name, name), code) for code, name in enumerate(vocabulary)]
    return np.array([*codes, len(vocabulary), len(vocabulary) + 1, NOT_KNOWN], dtype=np.int64)


def _position(rising: Int, wanted: Int) -> Int:
    """Where each wanted value stands in a rising array, `NOT_KNOWN` where it does not."""
    if not len(rising):
        return np.full(len(wanted), NOT_KNOWN)
    at = np.minimum(np.searchsorted(rising, wanted), len(rising) - 1)
    return np.where(rising[at] == wanted, at, NOT_KNOWN)
