"""Branches: what followed one state, and the contract by which queries see counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from sherpa.event import OUTCOMES


class Branch(NamedTuple):
    """One edge out of a state. Counts are observations; durations are in milliseconds."""

    event: str
    support: int
    success: int
    failure: int
    terminal_success: int
    terminal_failure: int
    terminal_unknown: int
    timed: int
    total_ms: int
    responses: Mapping[str, int]

    @classmethod
    def of(cls, event: str, sums: Sequence[int], responses: Mapping[str, int]) -> Branch:
        """A branch from its eight sums, in the order of the fields."""
        a, b, c, d, e, f, g, h = sums
        return cls(event, a, b, c, d, e, f, g, h, responses)

    @property
    def sums(self) -> tuple[int, ...]:
        """The eight sums in the order of the fields."""
        return (
            self.support,
            self.success,
            self.failure,
            self.terminal_success,
            self.terminal_failure,
            self.terminal_unknown,
            self.timed,
            self.total_ms,
        )

    @property
    def success_ratio(self) -> float | None:
        """Share of cases with a known terminal outcome that succeeded; None if none is known."""
        known = self.terminal_success + self.terminal_failure
        return self.terminal_success / known if known else None

    @property
    def failure_ratio(self) -> float | None:
        """Share of cases with a known terminal outcome that failed; None if none is known."""
        known = self.terminal_success + self.terminal_failure
        return self.terminal_failure / known if known else None


@dataclass(frozen=True)
class Branches:
    """The edges out of a state, by support (descending), then by event (code points)."""

    rows: tuple[Branch, ...] = ()
    total: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", sum(row.support for row in self.rows))

    @classmethod
    def ordered(cls, rows: Iterable[Branch]) -> Branches:
        """Branches from rows in any order."""
        return cls(tuple(sorted(rows, key=lambda b: (-b.support, b.event))))

    def __iter__(self) -> Iterator[Branch]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


NO_BRANCHES = Branches()


class EdgeSource(Protocol):
    """Whoever holds the counts: the model in memory, SQLite, a cluster's result."""

    def branches(self, order: int, state: tuple[str, ...]) -> Branches:
        """The edges out of `state` (tokens, oldest first; ``len(state) == order``)."""
        ...


class PastCase(NamedTuple):
    """A case as recall sees it."""

    case_id: str
    outcome: str
    types: tuple[str, ...]


class CaseSource(Protocol):
    """Whoever holds the sequences of past cases."""

    def cases_with(self, event_type: str) -> Iterable[PastCase]:
        """Cases that contain the type, latest first, equal times by case id (code points)."""
        ...


class Occurrence(NamedTuple):
    """Where a past case was in a state, and what followed.

    Attributes
    ----------
    case_id, outcome : str
    order : int
        Length of the longest suffix of the state that the case holds.
    rest : tuple of str
        Types of the events after its first occurrence; at least one.
    """

    case_id: str
    outcome: str
    order: int
    rest: tuple[str, ...]


@dataclass
class Tally:
    """Cases that passed a state and went on, by outcome: all of them, and by what came next. Each counts once.

    Attributes
    ----------
    outcomes : list of int
        In the order of `sherpa.terminal.OUTCOMES`.
    following : dict
        The same for each type that came next.
    """

    outcomes: list[int] = field(default_factory=lambda: [0] * len(OUTCOMES))
    following: dict[str, list[int]] = field(default_factory=dict)

    def add_all(self, counts: Sequence[int]) -> None:
        """Count cases that passed."""
        self.outcomes = [held + more for held, more in zip(self.outcomes, counts, strict=True)]

    def add(self, event: str, counts: Sequence[int]) -> None:
        """Count cases that went on with an event."""
        held = self.following.get(event, [0] * len(OUTCOMES))
        self.following[event] = [a + b for a, b in zip(held, counts, strict=True)]


class CaseFinder(Protocol):
    """Finds past cases by the states they hold."""

    def occurrences(
        self, state: Sequence[str], longest: int, outcome: str | None, without: str, limit: int
    ) -> Iterable[Occurrence]:
        """Cases that hold a suffix of `state` of up to `longest` types and went on after it.

        Parameters
        ----------
        outcome : str, optional
            Only cases that ended so.
        without : str
            A case that is left out.
        limit : int
            Of cases with the same order, outcome and number of following events (four or more are the same) only so
            many need to be told, those whose ids collate first.
        """
        ...

    def tally(self, state: Sequence[str], without: str | None) -> Tally:
        """Outcomes of the cases that passed `state`."""
        ...


@dataclass(frozen=True)
class Scan:
    """A `CaseFinder` that looks through every case of a source."""

    source: CaseSource

    def occurrences(
        self, state: Sequence[str], longest: int, outcome: str | None, without: str, limit: int
    ) -> Iterable[Occurrence]:
        """See `CaseFinder.occurrences`."""
        cases = (case for case in self.source.cases_with(state[-1]) if case.case_id != without)
        return scan_occurrences(cases, state, longest, outcome)

    def tally(self, state: Sequence[str], without: str | None) -> Tally:
        """See `CaseFinder.tally`."""
        return scan_tally((case for case in self.source.cases_with(state[-1]) if case.case_id != without), state)


def scan_occurrences(
    cases: Iterable[PastCase], state: Sequence[str], longest: int, outcome: str | None
) -> Iterator[Occurrence]:
    """Occurrences in some cases, one by one."""
    wanted = tuple(state)
    for past in cases:
        if outcome is not None and past.outcome != outcome:
            continue
        k, at = _longest_occurrence(past.types, wanted, longest)
        rest = past.types[at + k :]
        if k and rest:
            yield Occurrence(past.case_id, past.outcome, k, rest)


def scan_tally(cases: Iterable[PastCase], state: Sequence[str]) -> Tally:
    """Outcomes of those of the cases that passed the state, one by one."""
    size, wanted = len(state), tuple(state)
    found = Tally()
    for case in cases:
        following = _following(case.types, wanted, size)
        if not following:
            continue
        once = [int(name == case.outcome) for name in OUTCOMES]
        found.add_all(once)
        for event in following:
            found.add(event, once)
    return found


def _following(types: tuple[str, ...], state: tuple[str, ...], size: int) -> set[str]:
    """What comes after a state wherever it occurs."""
    found: set[str] = set()
    last, at = state[-1], size - 2
    try:
        while True:
            at = types.index(last, at + 1, -1)
            if types[at - size + 1 : at + 1] == state:
                found.add(types[at + 1])
    except ValueError:
        return found


def _longest_occurrence(types: tuple[str, ...], state: tuple[str, ...], longest: int) -> tuple[int, int]:
    """(k, first position) of the longest suffix of `state` that occurs in `types`; (0, 0) if none does."""
    last = state[-1]
    best, best_at = 0, 0
    for position, event_type in enumerate(types):
        if event_type != last:
            continue
        k = 1
        while k < longest and k <= position and types[position - k] == state[-1 - k]:
            k += 1
        if k > best:
            best, best_at = k, position - k + 1
            if k == longest:
                break
    return best, best_at
