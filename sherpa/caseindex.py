"""Past cases by what they hold: an index over all of them, and the few that changed since it was made.

Answers are those of a scan (`sherpa.queries`, `sherpa.lifts`), case for case; only the time differs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from sherpa.branches import Occurrence, PastCase, Tally, scan_occurrences, scan_tally
from sherpa.collation import collation_order
from sherpa.eventlog import EventLog, Int32, Int64
from sherpa.suffixes import SuffixIndex, first_of_each
from sherpa.terminal import OUTCOME_CODE, OUTCOMES

_LONG = 4
"""So many events of what followed make no difference to the score any more."""


@dataclass(frozen=True, eq=False)
class CaseIndex:
    """A `CaseFinder` that knows where each state occurs.

    Attributes
    ----------
    suffixes : SuffixIndex
    case_ids : sequence of str
        In code-point order.
    rank : int32 array (cases,)
        Place of each case in the order of its id (`sherpa.collation`).
    changed : dict
        Cases as they are now that were different or not there when the index was made.
    numbers : dict
        Number of each of these in `case_ids`, -1 if it is not there; filled when it is needed.
    """

    suffixes: SuffixIndex
    case_ids: Sequence[str]
    rank: Int32
    changed: dict[str, PastCase] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict, repr=False)

    @classmethod
    def build(cls, log: EventLog, order: int) -> CaseIndex | None:
        """The index of a log whose cases are in code-point order; None if states of that order are too long for it."""
        suffixes = SuffixIndex.build(log, order)
        if suffixes is None:
            return None
        rank = np.empty(len(log), np.int32)
        rank[collation_order(log.case_ids)] = np.arange(len(log), dtype=np.int32)
        return cls(suffixes, log.case_ids, rank)

    def occurrences(
        self, state: Sequence[str], longest: int, outcome: str | None, without: str, limit: int
    ) -> Iterator[Occurrence]:
        """See `CaseFinder.occurrences`."""
        index = self.suffixes
        done = self._left_out(without)
        wanted = range(len(OUTCOMES)) if outcome is None else (OUTCOME_CODE[outcome],)
        for k in range(longest, 0, -1):
            places = index.places(state[-k:])
            cases = index.case_of[places]
            fresh = first_of_each(cases) & ~done[cases]
            places, cases = places[fresh], cases[fresh]
            # A case is told by the longest state it holds, also if it ends there and tells nothing.
            done[cases] = True
            left = index.offsets[cases + 1] - 1 - places
            for code in wanted:
                for length in range(1, _LONG + 1):
                    chosen = (left == length if length < _LONG else left >= _LONG) & (index.outcomes[cases] == code)
                    yield from self._told(places[chosen], cases[chosen], k, limit)
        recent = (case for case in self.changed.values() if case.case_id != without)
        yield from scan_occurrences(recent, state, longest, outcome)

    def _told(self, places: Int64, cases: Int32, k: int, limit: int) -> Iterator[Occurrence]:
        """Of cases that score alike those that come first."""
        rank = self.rank[cases]
        rows = np.arange(len(cases)) if len(cases) <= limit else np.argpartition(rank, limit - 1)[:limit]
        index = self.suffixes
        for place, case in zip(places[rows].tolist(), cases[rows].tolist(), strict=True):
            rest = index.codes[place + 1 : index.offsets[case + 1]].tolist()
            yield Occurrence(
                self.case_ids[case], OUTCOMES[index.outcomes[case]], k, tuple(index.types[code] for code in rest)
            )

    def tally(self, state: Sequence[str], without: str | None) -> Tally:
        """See `CaseFinder.tally`."""
        index = self.suffixes
        places = index.places(state)
        cases = index.case_of[places]
        going_on = places + 1 < index.offsets[cases + 1]
        if self.changed or without is not None:
            going_on &= ~self._left_out(without)[cases] if self.changed else cases != self._number(without)
        places, cases = places[going_on], cases[going_on]
        following = index.codes[places + 1]
        first = first_of_each(cases)
        ends = index.outcomes[cases]
        all_ends = np.bincount(ends[first], minlength=len(OUTCOMES))
        kinds = following.astype(np.int64) * len(OUTCOMES) + ends
        if not first.all():
            # A case that takes a branch several times counts once in it; most cases pass a state once.
            several = ~first
            several[:-1] |= several[1:]
            _, kept = np.unique(cases[several].astype(np.int64) * len(index.types) + following[several], True)
            kinds = np.concatenate((kinds[~several], kinds[several][kept]))
        by_type = np.bincount(kinds, minlength=len(index.types) * len(OUTCOMES)).reshape(-1, len(OUTCOMES))
        found = scan_tally((c for c in self.changed.values() if c.case_id != without), state)
        found.add_all(all_ends.tolist())
        for code in np.flatnonzero(by_type.any(axis=1)).tolist():
            found.add(index.types[code], by_type[code].tolist())
        return found

    def _left_out(self, without: str | None) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Marks of the cases that the index must not tell of."""
        marks = np.zeros(len(self.case_ids), bool)
        if len(self.numbers) < len(self.changed):
            self.numbers.update((name, self._number(name)) for name in self.changed if name not in self.numbers)
        marks[[n for n in (*self.numbers.values(), self._number(without)) if n >= 0]] = True
        return marks

    def _number(self, case_id: str | None) -> int:
        if case_id is None:
            return -1
        at = bisect_left(self.case_ids, case_id)
        return at if at < len(self.case_ids) and self.case_ids[at] == case_id else -1
