"""BM25 over a small corpus, in the standard library alone: it also runs where nothing else is installed."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

_WORD = re.compile(r"[a-z0-9]+")
K1, B = 1.5, 0.75
PER_TOKEN = 4
_FUNCTION_WORDS = frozenset(
    _WORD.findall(
        "a about after all also am an and any are as at back be because been before but by can could did do does "
        "for from get give go got had has have he hello help her hi him his how i id if in into is it its just "
        "know let like ll m make may me more my need no not now of on one or our out over please re s she should "
        "since so some t take tell than thank thanks that the their them then there these they this to up us ve "
        "want was we were what when where which while who why will with would you your"
    )
)


def words(text: str) -> list[str]:
    """Words of a text: runs of letters and digits, lower case."""
    return _WORD.findall(text.lower())


def content_words(found: Sequence[str]) -> list[str]:
    """The words that say what a text is about, each once: no function words, no numbers, nothing with a digit."""
    return [w for w in dict.fromkeys(found) if w not in _FUNCTION_WORDS and w.isalpha()]


def tokens(text: str) -> int:
    """Tokens of a text, estimated: a token for every four characters, rounded up."""
    return math.ceil(len(text) / PER_TOKEN)


class BM25:
    """Okapi BM25 (Robertson & Zaragoza 2009) with k₁ = 1.5 and b = 0.75.

    idf(t) = ln(1 + (N − n + ½)/(n + ½)) for a word in n of N documents, so that no word counts against a document.

    Parameters
    ----------
    documents : sequence of sequences of str
        Words of each document.
    """

    def __init__(self, documents: Sequence[Sequence[str]]) -> None:
        self._counts = [Counter(document) for document in documents]
        self._lengths = [len(document) for document in documents]
        self._mean = sum(self._lengths) / len(documents) if documents else 0.0
        self._holders: dict[str, list[int]] = {}
        for at, counts in enumerate(self._counts):
            for word in counts:
                self._holders.setdefault(word, []).append(at)

    def scores(self, query: Sequence[str], *, without: int | None = None) -> dict[int, float]:
        """Score of every document that shares a word with the query.

        Parameters
        ----------
        without : int, optional
            Document that is left out, also of the statistics: the one that is asked about.
        """
        total = len(self._counts) - (without is not None)
        mean = self._mean
        if without is not None and total:
            mean = (self._mean * len(self._counts) - self._lengths[without]) / total
        found: dict[int, float] = {}
        for word, times in Counter(query).items():
            holders = [at for at in self._holders.get(word, ()) if at != without]
            if not holders:
                continue
            idf = math.log(1 + (total - len(holders) + 0.5) / (len(holders) + 0.5))
            for at in holders:
                count = self._counts[at][word]
                norm = K1 * (1 - B + B * self._lengths[at] / mean) if mean else K1
                found[at] = found.get(at, 0.0) + times * idf * count * (K1 + 1) / (count + norm)
        return found

    def rank(self, query: Sequence[str], *, without: int | None = None) -> list[int]:
        """Documents with a score, best first, equal scores in their order."""
        scores = self.scores(query, without=without)
        return sorted(scores, key=lambda at: (-scores[at], at))
