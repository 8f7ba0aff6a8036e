"""semantic-rag-lite: retrieval by overlap of words, as a text index would do it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from scipy.sparse import csc_matrix
from sklearn.feature_extraction.text import CountVectorizer

from baselines.counts import Tally, ranked, ranking
from baselines.predictor import Ranking
from sherpa.eventlog import Case, EventLog, each_case

_WORD = re.compile(r"[a-z0-9_.:-]+")
_MEMO = 2048

Words = frozenset[str]


def words(texts: Iterable[str]) -> set[str]:
    """Lower-case pieces of more than one character over ``[a-z0-9_.:-]``.

    >>> sorted(words(["Tool.started: a DEPLOY!"]))
    ['deploy', 'tool.started:']
    """
    return {piece for text in texts for piece in _WORD.findall(text.lower()) if len(piece) > 1}


class SemanticRagLite:
    """Ranks next events by the similarity of the prefixes that they followed.

    With A and B the word sets of the tested and of a learned prefix, the similarity is |A∩B| / √(|A|·|B|); each
    learned prefix adds its similarity to its next event.

    Parameters
    ----------
    see_case : bool
        Whether the texts about the whole case (id, labels, class, notes, blockers) count as words of every prefix. A
        live predictor does not have them.
    fallback : bool
        Rank by overall frequency where nothing is similar.
    """

    name = "semantic-rag-lite"
    description = "Next events of the past prefixes that share the most words."
    calibrated = False

    def __init__(self, *, fallback: bool = True, see_case: bool = False) -> None:
        self._see_case, self._fallback = see_case, fallback
        self._rows: dict[str, list[tuple[int, int]]] = {}
        self._sets: list[Words] = []
        self._next: list[str] = []
        self._alive: list[bool] = []
        self._total = Tally()
        self._index: _Index | None = None

    @property
    def states(self) -> int:
        return sum(self._alive)

    def learn(self, cases: EventLog | Case) -> None:
        for case in each_case(cases):
            self._learn(case)

    def _learn(self, case: Case) -> None:
        self._total.add(case.types[1:])
        key = self._key(case)
        for first, last in self._rows.get(key, ()):
            if last > first and not self._alive[first]:
                # A case that comes back takes its former place, so that sums are added in the same order.
                self._alive[first:last] = [True] * (last - first)
                self._touch(first, last)
                return
        first = len(self._sets)
        for found, target in zip(self._prefix_words(case), case.types[1:], strict=False):
            self._sets.append(found)
            self._next.append(target)
            self._alive.append(True)
        self._rows.setdefault(key, []).append((first, len(self._sets)))
        self._index = None

    def forget(self, cases: EventLog | Case) -> None:
        for case in each_case(cases):
            rows = self._rows.get(self._key(case), [])
            held = next((r for r in reversed(rows) if r[0] == r[1] or self._alive[r[0]]), None)
            if held is None:
                raise ValueError(f"case {case.case_id!r} cannot be forgotten: it was not learned as it is")
            self._total.add(case.types[1:], -1)
            first, last = held
            self._alive[first:last] = [False] * (last - first)
            self._touch(first, last)

    def _touch(self, first: int, last: int) -> None:
        if self._index is not None:
            self._index.alive[first:last] = self._alive[first:last]

    def _key(self, case: Case) -> str:
        return repr((case.types, self._texts(case), case.case_id if self._see_case else None))

    def _texts(self, case: Case) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        info = case.info
        per_event = info.event_texts[: len(case)] or tuple((t,) for t in case.types)
        return (info.texts if self._see_case else ()), per_event

    def _prefix_words(self, case: Case) -> Iterable[Words]:
        about, per_event = self._texts(case)
        seen = words(about)
        if self._see_case and not about:
            seen = words((case.case_id,))
        for texts in per_event:
            seen |= words(texts)
            yield frozenset(seen)

    def rank(self, prefix: Case) -> Ranking:
        asked: Words = frozenset()
        for asked in self._prefix_words(prefix):  # noqa: B007
            pass
        if self._index is None and self._sets:
            self._index = _Index(self._sets, self._next, self._alive)
        scores = self._index.scores(asked) if self._index is not None and asked else {}
        if not scores:
            counts = self._total.counts if self._fallback else {}
            return ranking(counts, matched_order=0, mode="fallback", backoff_depth=1)
        total = math.fsum(scores.values())
        events = ranked(scores)
        return Ranking(
            events=tuple(events),
            probabilities=tuple(scores[e] / total for e in events),
            matched_order=1,
            support=self.states,
            supports=tuple(0 for _ in events),
            mode="raw",
        )


class _Index:
    """Word sets of the learned prefixes as a sparse matrix."""

    def __init__(self, sets: Sequence[Words], targets: Sequence[str], alive: Sequence[bool]) -> None:
        vectorizer = CountVectorizer(analyzer=sorted, binary=True, dtype=np.float64)
        self._matrix = csc_matrix(vectorizer.fit_transform(sets)) if any(sets) else csc_matrix((len(sets), 0))
        self._column: dict[str, int] = vectorizer.vocabulary_ if any(sets) else {}
        self._sizes = np.array([len(s) for s in sets], dtype=np.float64)
        self._names = list(dict.fromkeys(targets))
        place = {name: i for i, name in enumerate(self._names)}
        self._target = np.array([place[t] for t in targets], dtype=np.int64)
        self.alive = np.array(alive, dtype=bool)
        self._memo: dict[Words, npt.NDArray[np.float64]] = {}

    def scores(self, asked: Words) -> dict[str, float]:
        """Summed similarity of each next event; sums are taken in the order of learning."""
        weights = np.where(self.alive, self._similarity(asked), 0.0)
        sums = np.bincount(self._target, weights=weights, minlength=len(self._names))
        return {self._names[i]: float(sums[i]) for i in np.flatnonzero(sums > 0).tolist()}

    def _similarity(self, asked: Words) -> npt.NDArray[np.float64]:
        known = self._memo.get(asked)
        if known is None:
            columns = sorted(self._column[w] for w in asked if w in self._column)
            shared = np.asarray(self._matrix[:, columns].sum(axis=1)).ravel()
            with np.errstate(invalid="ignore", divide="ignore"):
                known = np.where(shared > 0, shared / np.sqrt(len(asked) * self._sizes), 0.0)
            if len(self._memo) >= _MEMO:
                self._memo.clear()
            self._memo[asked] = known
        return known
