"""Which cards answer a query: lexical relevance first, then three runs that cover what may come, not one run thrice.

Standard library only: it runs inside the benchmark's own environment.

How the runs are chosen. BM25 over request, tools, policies and changes says how much each recorded run resembles the
query; a softmax over its scores is read as the probability that the present task is like that run. Cards are then
taken one by one so that the expected worth of the set grows most: the overlap of tool paths with the run that it may
be (facility location, so a second card of the same path adds nothing), the policies that it may need, and the
probability of the card itself.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from harness.statebench.lexical import BM25, content_words, words

TOP_K = 3
_MASK = re.compile(r"\[[a-z]+\]")
_ASKS_FOR_POLICY = frozenset({"policy", "policies", "rule", "rules"})
_SHARED_WORDS = 2


@dataclass(frozen=True)
class Settings:
    """How cards are chosen.

    Attributes
    ----------
    temperature : float
        Of the softmax over BM25 scores: a run that scores this much lower is e times less probable.
    pool : int
        Runs that the present task may be like.
    candidates : int
        Runs that may be shown, the best of the pool.
    topics : float
        Worth of all the policies that are needed, against that of the same tool path.
    relevance : float
        Worth of the run itself being the one, against that of the same tool path.
    """

    temperature: float = 3.0
    pool: int = 15
    candidates: int = 8
    topics: float = 0.3
    relevance: float = 1.0


@dataclass(frozen=True)
class Learning:
    """One card, as far as retrieval looks at it."""

    id: str
    kind: str
    domain: str
    text: str
    words: tuple[str, ...]
    path: tuple[str, ...]
    topics: frozenset[str]
    subject: frozenset[str]


class Corpus:
    """The cards of one domain.

    Parameters
    ----------
    learnings : sequence of Learning
    settings : Settings
    """

    def __init__(self, learnings: Sequence[Learning], settings: Settings) -> None:
        self.settings = settings
        self.runs = [card for card in learnings if card.kind == "trajectory"]
        self.others = [card for card in learnings if card.kind != "trajectory"]
        self._runs = BM25([card.words for card in self.runs])
        self._others = BM25([card.words for card in self.others])
        self._known = [frozenset(card.words) for card in learnings]

    def retrieve(self, query: str, top_k: int, *, without: int | None = None) -> list[Learning]:
        """Cards for a query, best first.

        Parameters
        ----------
        without : int, optional
            Number of a run that is treated as if it had never been recorded.
        """
        asked = query_words(query)
        if not self._is_about(content_words(asked)):
            return []
        found = [self.runs[at] for at in self.rank(asked, top_k, without=without)[0]]
        special = self._asked_for(query, asked)
        if special is not None:
            found = [*found[: top_k - 1], special]
        return found

    def _is_about(self, said: Sequence[str]) -> bool:
        """Whether some card shares two words with a query: one alone says nothing of the work at hand."""
        return any(len(known.intersection(said)) >= _SHARED_WORDS for known in self._known)

    def rank(
        self, asked: Sequence[str], top_k: int = TOP_K, *, without: int | None = None
    ) -> tuple[list[int], list[int]]:
        """Numbers of the runs that are shown, and of all others that share a word with the query, by BM25."""
        scores = self._runs.scores(list(dict.fromkeys(asked)), without=without)
        order = sorted(scores, key=lambda at: (-scores[at], at))
        chosen = self._cover(order[: self.settings.pool], scores, top_k)
        return chosen, [at for at in order if at not in chosen]

    def _cover(self, pool: Sequence[int], scores: dict[int, float], top_k: int) -> list[int]:
        """Greedy choice of the set with the largest expected worth (Nemhauser et al. 1978 for its bound)."""
        if not pool:
            return []
        s = self.settings
        mass = [math.exp((scores[at] - scores[pool[0]]) / s.temperature) for at in pool]
        total = sum(mass)
        chance = {at: part / total for at, part in zip(pool, mass, strict=True)}
        best = dict.fromkeys(pool, 0.0)
        covered: frozenset[str] = frozenset()
        chosen: list[int] = []
        for _ in range(min(top_k, len(pool))):
            worth: dict[int, float] = {}
            for at in pool[: max(s.candidates, top_k)]:
                if any(self.runs[at].text == self.runs[other].text for other in chosen):
                    continue  # equal runs have equal cards: a second one says nothing
                path = self.runs[at].path
                known = covered | self.runs[at].topics
                value = s.relevance * chance[at]
                for other in pool:
                    run = self.runs[other]
                    value += chance[other] * max(best[other], overlap(path, run.path))
                    if run.topics:
                        value += s.topics * chance[other] * len(known & run.topics) / len(run.topics)
                worth[at] = value
            if not worth:
                break
            taken = max(worth, key=lambda at: (round(worth[at], 12), -pool.index(at)))
            chosen.append(taken)
            covered |= self.runs[taken].topics
            for other in pool:
                best[other] = max(best[other], overlap(self.runs[taken].path, self.runs[other].path))
        return chosen

    def _asked_for(self, query: str, asked: Sequence[str]) -> Learning | None:
        """The policy or procedure that a query names: one slot of the answer is for it."""
        present = frozenset(asked)
        kinds = set()
        if present & _ASKS_FOR_POLICY:
            kinds.add("policy")
        named = {
            card.id
            for card in self.others
            if card.kind == "procedure" and card.id.split("/")[-1].split(".")[0] in query
        }
        for at in self._others.rank(asked):
            card = self.others[at]
            if card.id in named or (card.kind in kinds and card.subject <= present):
                return card
        return None


class Learnings:
    """An artefact in memory. It is only read, so threads may share it.

    Parameters
    ----------
    artefact : dict
        As `build` made it.
    """

    def __init__(self, artefact: dict[str, Any], settings: Settings | None = None) -> None:
        self.digest = str(artefact["source"]["digest"])
        by_domain: dict[str, list[Learning]] = {}
        for item in artefact["learnings"]:
            by_domain.setdefault(item["domain"], []).append(_learning(item))
        self._domains = {name: Corpus(cards, settings or Settings()) for name, cards in by_domain.items()}
        self._everything = Corpus([card for cards in by_domain.values() for card in cards], settings or Settings())

    @classmethod
    def load(cls, path: str | Path) -> Learnings:
        """Read an artefact.

        Raises
        ------
        OSError, ValueError
            If it cannot be read or is not an artefact.
        """
        try:
            artefact = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path}: broken JSON: {error}") from None
        try:
            return cls(artefact)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path}: is no artefact of build-learnings ({type(error).__name__}: {error})") from None

    @property
    def domains(self) -> tuple[str, ...]:
        """Domains with cards."""
        return tuple(self._domains)

    def corpus(self, domain: str | None) -> Corpus | None:
        """Cards of a domain; of all if none is named; None for one that was never seen."""
        return self._everything if domain is None else self._domains.get(domain)

    def retrieve(self, query: str, top_k: int = TOP_K, *, domain: str | None = None) -> list[str]:
        """Texts of at most `top_k` cards, best first; the same query gives the same texts."""
        corpus = self.corpus(domain)
        if corpus is None or top_k < 1:
            return []
        return [card.text for card in corpus.retrieve(query, top_k)]


def query_words(text: str) -> list[str]:
    """Words of a query or card; marks of masked values are none."""
    return words(_MASK.sub(" ", text))


@lru_cache(maxsize=1 << 16)
def overlap(one: tuple[str, ...], other: tuple[str, ...]) -> float:
    """Likeness of two paths: 2·LCS/(|a| + |b|), 1 for two empty ones (Dice over the longest common subsequence)."""
    if not one and not other:
        return 1.0
    return 2 * _common(one, other) / (len(one) + len(other))


def _common(one: Collection[str], other: Collection[str]) -> int:
    row = [0] * (len(other) + 1)
    for a in one:
        before = 0
        for at, b in enumerate(other, 1):
            before, row[at] = row[at], before + 1 if a == b else max(row[at], row[at - 1])
    return row[-1]


def _learning(item: dict[str, Any]) -> Learning:
    tools = sorted({token.split(".")[0] for token in item["path"]})
    subject = item["id"].split("/")[2] if item["kind"] == "policy" else ""
    return Learning(
        id=item["id"],
        kind=item["kind"],
        domain=item["domain"],
        text=item["text"],
        words=tuple(query_words(" ".join([item["words"], *tools, *(item["topics"] if item["path"] else ())]))),
        path=tuple(item["path"]),
        topics=frozenset(item["topics"]),
        subject=frozenset(words(subject)),
    )
