"""VariableOrderMarkovModel: counts that learn and forget."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from operator import add
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sherpa.branches import NO_BRANCHES, Branch, Branches
from sherpa.config import Strategy
from sherpa.counting import SUMS, CountTable, count, empty_table, merge, subtract
from sherpa.eventlog import Case, EventLog, Int64, concatenate, each_case
from sherpa.instants import NANOS_PER_MS, NO_INSTANT
from sherpa.projection.states import levels
from sherpa.terminal import FAILURE, SUCCESS

State = tuple[str, ...]
_BULK_EVENTS = 512
_MIN_OVERLAY = 4096


class _Index:
    """Finds the rows of a context in a `CountTable` without an object per context.

    The contexts form a trie by their most recent event: node n of order k is (parent node, token), coded as one
    integer, and the nodes of an order are sorted by that code. A lookup is one binary search per order.
    """

    def __init__(self, table: CountTable) -> None:
        self._code = {token: i for i, token in enumerate(table.vocabulary)}
        self._width = len(table.vocabulary) + 1
        self._keys: list[npt.NDArray[np.int64]] = []
        self._starts: list[list[int]] = []
        bounds = np.searchsorted(table.order, np.arange(table.max_order + 2)).tolist()
        self.root: tuple[int, int] = (bounds[0], bounds[1])
        for order in range(1, table.max_order + 1):
            low, high = bounds[order], bounds[order + 1]
            context = table.context[low:high, :order].astype(np.int64)
            changed = np.ones(len(context), dtype=bool)
            changed[1:] = (context[1:] != context[:-1]).any(axis=1)
            heads = np.flatnonzero(changed)
            parent = np.zeros(len(heads), dtype=np.int64)
            for depth in range(order - 1):
                code = parent * self._width + context[heads, depth]
                parent = np.searchsorted(self._keys[depth], code)
            self._keys.append(parent * self._width + context[heads, order - 1])
            self._starts.append([*(heads + low).tolist(), high])

    def rows(self, state: State) -> tuple[int, int] | None:
        """First and last row (exclusive) of the edges out of `state` (oldest first), or None."""
        node = 0
        for keys, token in zip(self._keys, reversed(state), strict=False):
            code = self._code.get(token)
            if code is None:
                return None
            key = node * self._width + code
            node = int(keys.searchsorted(key))
            if node == len(keys) or keys[node] != key:
                return None
        starts = self._starts[len(state) - 1]
        return starts[node], starts[node + 1]


class _Change(NamedTuple):
    """What learned and forgotten cases add to one edge of the base table."""

    base_support: int
    sums: list[int]
    responses: dict[str, int]


class VariableOrderMarkovModel:
    """A variable-order Markov model over event types: n-gram counts of orders 1 to `max_order`.

    `learn` and `forget` are exact inverses. Large logs go through the kernel; a single case changes a small overlay
    of dictionaries, so learning or forgetting it costs its own events and nothing more. The overlay is folded into
    the table when it has grown to half of its size.

    Parameters
    ----------
    max_order : int
        Longest context in events.
    strategy : str
        ``raw``, ``procedure`` or ``family-procedure``.
    allow_raw_fallback : bool
        Whether projected strategies count raw windows too.

    Examples
    --------
    >>> from sherpa.eventlog import EventLog
    >>> log = EventLog.from_codes([0, 1, 0, 2], [0, 2, 4], ["ask", "answer", "wait"])
    >>> model = VariableOrderMarkovModel(max_order=2).learn(log)
    >>> [(b.event, b.support) for b in model.branches(1, ("ask",))]
    [('answer', 1), ('wait', 1)]
    >>> [b.event for b in model.forget(log[0]).branches(1, ("ask",))]
    ['wait']
    """

    def __init__(self, max_order: int = 5, strategy: Strategy = "raw", *, allow_raw_fallback: bool = True) -> None:
        self.max_order = max_order
        self.strategy: Strategy = strategy
        self.allow_raw_fallback = allow_raw_fallback
        self._base = empty_table(max_order)
        self._index = _Index(self._base)
        self._base_branches: dict[State, Branches] = {}
        self._base_supports: dict[State, dict[str, int]] = {}
        self._overlay: dict[State, dict[str, _Change]] = {}
        self._overlay_edges = 0
        self._edge_delta = 0
        self._once_twice = np.zeros((max_order + 1, 2), dtype=np.int64)
        self._pending: dict[bytes, tuple[int, Case]] = {}
        self._sole: tuple[Case, int, int, Int64] | None = None
        self._learned: Counter[bytes] = Counter()
        self._unhashed: list[EventLog | Case] = []

    # -- learning ----------------------------------------------------------------------------------------------

    def learn(self, cases: EventLog | Case | Iterable[Case]) -> VariableOrderMarkovModel:
        """Count the cases; returns self."""
        if isinstance(cases, EventLog) and cases.events > _BULK_EVENTS:
            self._set_base(merge(self.table(), self._count(cases)))
            self._unhashed.append(cases)
            return self
        for case in each_case(cases):
            self._unhashed.append(case)
            self._change(case, +1)
        return self

    def forget(self, cases: EventLog | Case | Iterable[Case]) -> VariableOrderMarkovModel:
        """Take the cases out again, as if they had never been learned; returns self.

        Raises
        ------
        ValueError
            If a case was not learned as it is; the model keeps what it had before that case.
        """
        # Counts alone cannot tell whether this very case was learned. Its fingerprint can; fingerprints are made when
        # something is forgotten for the first time, so that models which never forget do not pay for them.
        self._learned.update(_fingerprint(case) for part in self._unhashed for case in each_case(part))
        self._unhashed = []
        for case in each_case(cases):
            key = _fingerprint(case)
            if self._learned[key] == 0:
                raise ValueError(f"case {case.case_id!r} cannot be forgotten: it was not learned as it is")
            self._learned[key] -= 1
            self._change(case, -1, key)
        return self

    def _count(self, log: EventLog) -> CountTable:
        return count(
            log,
            self.max_order,
            strategy=self.strategy,
            allow_raw_fallback=self.allow_raw_fallback,
            include_root=True,
        )

    def _change(self, case: Case, sign: int, fingerprint: bytes | None = None) -> None:
        if self._sole is not None and self._sole[:2] == (case, -sign):
            # The only change so far, taken back: leaving cases out one by one costs each of them once.
            self._overlay, self._overlay_edges, self._pending = {}, 0, {}
            self._edge_delta, self._once_twice, self._sole = 0, self._sole[3], None
            return
        before = None if self._overlay or self._pending else (case, sign, self._edge_delta, self._once_twice.copy())
        edges = _case_edges(case, self.max_order, levels(self.strategy, self.allow_raw_fallback))
        planned = []
        for (state, event), (sums, responses) in edges.items():
            held = self._overlay.get(state, {}).get(event)
            base_support = self._base_support(state, event) if held is None else held.base_support
            support = base_support + (0 if held is None else held.sums[0])
            planned.append((state, event, held, base_support, support, sums, responses))
        for state, event, held, base_support, support, sums, responses in planned:
            if held is None:
                held = _Change(base_support, [sign * v for v in sums], {k: sign * v for k, v in responses.items()})
                self._overlay.setdefault(state, {})[event] = held
                self._overlay_edges += 1
            else:
                for column, value in enumerate(sums):
                    held.sums[column] += sign * value
                for key, value in responses.items():
                    total = held.responses.get(key, 0) + sign * value
                    if total:
                        held.responses[key] = total
                    else:
                        del held.responses[key]
            after = base_support + held.sums[0]
            if state:
                self._edge_delta += (after > 0) - (support > 0)
            for column, times in enumerate((1, 2)):
                self._once_twice[len(state), column] += (after == times) - (support == times)
            if not any(held.sums) and not held.responses:
                del self._overlay[state][event]
                self._overlay_edges -= 1
                if not self._overlay[state]:
                    del self._overlay[state]
        self._note(case, sign, fingerprint or _fingerprint(case))
        self._sole = before
        if self._overlay_edges > max(_MIN_OVERLAY, len(self._base) // 2):
            self._set_base(self.table())

    def _note(self, case: Case, sign: int, key: bytes) -> None:
        """Remember what the overlay stands for; opposite changes of one case cancel."""
        times = self._pending.get(key, (0, case))[0] + sign
        if times:
            self._pending[key] = (times, case)
        else:
            del self._pending[key]

    def _set_base(self, table: CountTable) -> None:
        self._base = table
        self._index = _Index(table)
        self._base_branches, self._base_supports = {}, {}
        self._overlay = {}
        self._overlay_edges = self._edge_delta = 0
        self._pending = {}
        self._sole = None
        for column, times in enumerate((1, 2)):
            seen = np.bincount(table.order[table.support == times], minlength=self.max_order + 1)
            self._once_twice[:, column] = seen

    # -- reading -----------------------------------------------------------------------------------------------

    @property
    def edges(self) -> int:
        """Number of edges of orders 1 and above."""
        low, high = self._index.root
        return len(self._base) - (high - low) + self._edge_delta

    def seen_once_and_twice(self, order: int) -> tuple[int, int]:
        """How many edges of an order were seen exactly once, and exactly twice: what discounts are estimated from."""
        once, twice = self._once_twice[order].tolist()
        return once, twice

    def branches(self, order: int, state: State) -> Branches:
        """The edges out of `state` (tokens, oldest first). Order 0 asks how often each type follows any event."""
        if order != len(state):
            raise ValueError(f"a state of {len(state)} tokens has order {len(state)}, not {order}")
        if order > self.max_order:
            return NO_BRANCHES
        base = self._base_branches.get(state)
        if base is None:
            base = self._base_branches[state] = self._read_base(state)
        changes = self._overlay.get(state)
        return base if changes is None else _apply(base, changes)

    def _read_base(self, state: State) -> Branches:
        found = self._index.rows(state) if state else self._index.root
        if found is None or found[0] == found[1]:
            return NO_BRANCHES
        low, high = found
        table = self._base
        first, last = np.searchsorted(table.response_edge, (low, high)).tolist()
        responses: dict[int, dict[str, int]] = {}
        for row, key, times in zip(
            table.response_edge[first:last].tolist(),
            table.response_key[first:last].tolist(),
            table.response_count[first:last].tolist(),
            strict=True,
        ):
            responses.setdefault(row, {})[table.response_vocabulary[key]] = times
        return Branches.ordered(
            Branch.of(table.vocabulary[event], sums, responses.get(low + offset, {}))
            for offset, (event, sums) in enumerate(
                zip(table.next[low:high].tolist(), table.sums[low:high].tolist(), strict=True)
            )
        )

    def _base_support(self, state: State, event: str) -> int:
        supports = self._base_supports.get(state)
        if supports is None:
            base = self._base_branches.get(state)
            if base is None:
                base = self._base_branches[state] = self._read_base(state)
            supports = self._base_supports[state] = {row.event: row.support for row in base.rows}
        return supports.get(event, 0)

    def table(self) -> CountTable:
        """All counts as one table, root included.

        After cases were forgotten, an extreme (shortest or longest duration, latest time) that they held is unknown;
        see `CountTable.extremes_known`.
        """
        table = self._base
        added = [case.as_log() for times, case in self._pending.values() for _ in range(times)]
        removed = [case.as_log() for times, case in self._pending.values() for _ in range(-times)]
        if added:
            table = merge(table, self._count(concatenate(added)))
        if removed:
            table = subtract(table, self._count(concatenate(removed)))
        return table


def _fingerprint(case: Case) -> bytes:
    return hashlib.blake2b(case.fingerprint(), digest_size=16).digest()


def _apply(base: Branches, changes: dict[str, _Change]) -> Branches:
    rows = []
    seen = set()
    for row in base.rows:
        change = changes.get(row.event)
        if change is None:
            rows.append(row)
            continue
        seen.add(row.event)
        if row.support + change.sums[0] == 0:
            continue
        responses = row.responses
        if change.responses:
            both = dict(responses)
            for key, value in change.responses.items():
                both[key] = both.get(key, 0) + value
            responses = {k: v for k, v in both.items() if v}
        rows.append(Branch.of(row.event, list(map(add, row.sums, change.sums)), responses))
    rows.extend(
        Branch.of(event, change.sums, dict(change.responses))
        for event, change in changes.items()
        if event not in seen and change.sums[0]
    )
    return Branches.ordered(rows)


Edges = dict[tuple[State, str], tuple[list[int], dict[str, int]]]


def _case_edges(case: Case, max_order: int, level_fields: tuple[tuple[str, ...], ...]) -> Edges:
    """The edges of one case, counted one by one: the kernel's rules for a handful of events."""
    log, low, high = case.log, case.start, case.stop
    names = ["raw" if not f else "procedure" if len(f) == 1 else "family-procedure" for f in level_fields]
    views = [case.tokens(name) for name in names]
    types = case.types
    outcomes = log.outcomes[low:high].tolist()
    instants = log.instants[low:high].tolist()
    responses = log.responses[low:high].tolist()
    terminal = case.terminal
    ended = (int(terminal == SUCCESS), int(terminal == FAILURE), int(terminal not in (SUCCESS, FAILURE)))
    upcoming: list[str | None] = [None] * (len(types) + 2)
    for i in range(len(types) - 1, -1, -1):
        upcoming[i] = log.response_vocabulary[responses[i]] if responses[i] >= 0 else upcoming[i + 1]
    edges: Edges = {}
    for i in range(len(types) - 1):
        timed = instants[i] != NO_INSTANT and instants[i + 1] != NO_INSTANT
        duration = max(0, instants[i + 1] // NANOS_PER_MS - instants[i] // NANOS_PER_MS) if timed else 0
        following = outcomes[i + 1]
        row = (1, int(following == SUCCESS), int(following == FAILURE), *ended, int(timed), duration)
        response = upcoming[i + 2]
        for order in range(min(max_order, i + 1) + 1):
            states = {view[i - order + 1 : i + 1] for view in views} if order else {()}
            for state in states:
                sums, answers = edges.setdefault((state, types[i + 1]), ([0] * len(SUMS), {}))
                for column, value in enumerate(row):
                    sums[column] += value
                if response is not None:
                    answers[response] = answers.get(response, 0) + 1
    return edges
