"""Branches: what followed one state, and the contract by which queries see counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


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
