"""The contexts of a log and what followed them, in columns, with the begin and the end of a case as symbols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sherpa.eventlog import EventLog

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]
NOT_KNOWN = -1


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
    """

    stream: Int
    place: Int
    depth: Int
    case: Int


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
    return Targets(stream, place, depth[place], case[place])


def next_target(types: Sequence[str], vocabulary: tuple[str, ...], order: int) -> Targets:
    """What comes after a prefix (its types, oldest first), as one target; only the last `order` of them matter."""
    code_of = {name: code for code, name in enumerate(vocabulary)}
    recent = [code_of.get(name, NOT_KNOWN) for name in types[max(0, len(types) - order) :]]
    depth = len(types) + 1
    begin = [len(vocabulary) + 1] if depth <= order else []
    stream = np.array([*begin, *recent, NOT_KNOWN], dtype=np.int64)
    return Targets(stream, np.array([len(stream) - 1]), np.array([min(depth, len(stream) - 1)]), np.zeros(1, np.int64))


@dataclass(frozen=True, eq=False)
class Level:
    """The contexts of one order.

    Attributes
    ----------
    keys : int array (contexts,)
        Rising; (context of the order below) · width + oldest symbol.
    parent : int array (contexts,)
        The same context without its oldest symbol, in the order below.
    context, symbol : int arrays (edges,)
        Every context with every symbol that followed it; by context, then symbol.
    count : int array (edges,)
        How often.
    weight : float array (edges,)
        The same, each occurrence weighted by its case.
    heaviest : float array (edges,)
        The largest weight among the occurrences.
    whole, whole_weight : int array, float array (edges,)
        Those of the occurrences whose context begins with the case, so that no longer context exists.
    """

    keys: Int
    parent: Int
    context: Int
    symbol: Int
    count: Int
    weight: Float
    heaviest: Float
    whole: Int
    whole_weight: Float

    def __len__(self) -> int:
        """Number of contexts."""
        return len(self.keys)


class Contexts:
    """All contexts of a log up to an order, as a trie by the most recent symbol.

    Parameters
    ----------
    log : EventLog
    max_order : int
        Symbols of context, the begin of the case counted.
    weights : float array (cases,), optional
        Weight of each case; 1 by default.
    """

    def __init__(self, log: EventLog, max_order: int, weights: Float | None = None) -> None:
        # A type that occurs in no case was not learned, whatever the vocabulary of a larger log says.
        self.vocabulary = tuple(log.vocabulary[code] for code in np.unique(log.codes).tolist())
        self.width = len(self.vocabulary) + 2
        self.max_order = max_order
        found = targets(log, self.vocabulary)
        weight = np.ones(len(found.place)) if weights is None else np.asarray(weights, dtype=float)[found.case]
        symbol = found.stream[found.place]
        node = np.zeros(len(symbol), dtype=np.int64)
        keys, parent = np.zeros(1, np.int64), np.zeros(1, np.int64)
        self.levels: list[Level] = []
        rows = np.arange(len(symbol))
        for order in range(max_order + 1):
            if order:
                deep = found.depth[rows] >= order
                rows, node = rows[deep], node[deep]
                oldest = found.stream[found.place[rows] - order]
                keys, node = np.unique(node * self.width + oldest, return_inverse=True)
                parent = keys // self.width
            whole = found.depth[rows] == order
            self.levels.append(self._level(keys, parent, node, symbol[rows], weight[rows], whole))

    def _level(
        self, keys: Int, parent: Int, node: Int, symbol: Int, weight: Float, whole: npt.NDArray[np.bool_]
    ) -> Level:
        edges, edge = np.unique(node * self.width + symbol, return_inverse=True)
        size = len(edges)
        heaviest = np.zeros(size)
        np.maximum.at(heaviest, edge, weight)
        return Level(
            keys=keys,
            parent=parent,
            context=edges // self.width,
            symbol=edges % self.width,
            count=np.bincount(edge, minlength=size),
            weight=np.bincount(edge, weights=weight, minlength=size).astype(float),
            heaviest=heaviest,
            whole=np.bincount(edge[whole], minlength=size),
            whole_weight=np.bincount(edge[whole], weights=weight[whole], minlength=size).astype(float),
        )

    def contexts_of(self, asked: Targets) -> list[Int]:
        """For each order the context of every target, `NOT_KNOWN` where it was never seen."""
        node = np.zeros(len(asked.place), dtype=np.int64)
        found = [node]
        for order in range(1, self.max_order + 1):
            keys = self.levels[order].keys
            deep = (asked.depth >= order) & (node != NOT_KNOWN)
            oldest = asked.stream[np.maximum(asked.place - order, 0)]
            deep &= oldest != NOT_KNOWN
            key = node * self.width + oldest
            at = np.minimum(np.searchsorted(keys, key), max(len(keys) - 1, 0))
            known = deep & (keys[at] == key) if len(keys) else np.zeros(len(deep), bool)
            node = np.where(known, at, NOT_KNOWN)
            found.append(node)
        return found
