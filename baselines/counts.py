"""Counts of events that can be taken back, and the order in which rivals list them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from baselines.predictor import Ranking
from sherpa.collation import collation_key


class Tally:
    """How often each event was seen; adding with a negative sign takes back exactly.

    Raises ValueError where more is taken back than was added.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, events: Iterable[str], sign: int = 1) -> None:
        """Count the events, all or (where too much would be taken back) none."""
        change = self.check(events, sign)
        for event, times in change.items():
            count = self._counts.get(event, 0) + sign * times
            if count:
                self._counts[event] = count
            else:
                del self._counts[event]

    def check(self, events: Iterable[str], sign: int) -> Counter[str]:
        """How often each event would be added; raises where too much would be taken back."""
        change = Counter(events)
        for event, times in change.items():
            if self._counts.get(event, 0) + sign * times < 0:
                raise ValueError(f"{event!r} cannot be forgotten: it was not learned")
        return change

    def __bool__(self) -> bool:
        return bool(self._counts)

    def __len__(self) -> int:
        return len(self._counts)

    @property
    def counts(self) -> Mapping[str, int]:
        return self._counts


def ranked(counts: Mapping[str, float]) -> list[str]:
    """Events by count (descending), then in collation order."""
    return sorted(counts, key=lambda event: (-counts[event], collation_key(event)))


def ranking(counts: Mapping[str, int], *, matched_order: int | None, mode: str, backoff_depth: int = 0) -> Ranking:
    """The ranking by maximum likelihood of some counts; silent if there are none."""
    total = sum(counts.values())
    if total == 0:
        return Ranking(backoff_depth=backoff_depth)
    events = ranked(counts)
    return Ranking(
        events=tuple(events),
        probabilities=tuple(counts[e] / total for e in events),
        matched_order=matched_order,
        backoff_depth=backoff_depth,
        support=total,
        supports=tuple(counts[e] for e in events),
        mode=mode,
    )
