"""What the shipped retrieval is measured against: plain BM25 over the requests, and chance."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from harness.statebench.cards import Card
from harness.statebench.lexical import BM25, words
from harness.statebench.measures import Answer
from harness.statebench.parity import score, tokens_of
from harness.statebench.retrieval import Corpus, query_words
from harness.statebench.trajectories import Trajectory

Method = Callable[[Trajectory, str], Answer]
"""A run that is held out, and the query, to an answer."""

_STOP = frozenset(
    words(
        "about and are as at be but by can do does except for give has have he help id if in is it me my not of on "
        "or over please rather since so that the them they this three to was we were will with would yet you your"
    )
)
"""Words that the published reference leaves out are not published. This list was searched for until its figures came
out, so that they agree proves the measures, not the list."""


def reference(runs: Sequence[Trajectory]) -> Method:
    """BM25 over opening messages as the reference figures were made: k₁ 1.5, b 0.75, statistics without the run that
    is held out, no single letters and no stop words."""
    return _lexical(runs, lambda text: [word for word in words(text) if len(word) > 1 and word not in _STOP])


def plain(runs: Sequence[Trajectory]) -> Method:
    """BM25 over opening messages with all their words."""
    return _lexical(runs, words)


def _lexical(runs: Sequence[Trajectory], split: Callable[[str], list[str]]) -> Method:
    index = BM25([split(run.opening) for run in runs])

    def answer(run: Trajectory, query: str) -> Answer:
        ranking = index.rank(list(dict.fromkeys(split(query))), without=run.place)
        return Answer(_complete(ranking, len(runs), run.place))

    return answer


def original(cards: Sequence[Card], domain: str) -> Method:
    """The original's cards by the original's score. Its playbooks and recipes still hold the run that is held out."""
    known = [(card, tokens_of(f"{card.domain} {card.words} {card.text}")) for card in cards]

    def answer(run: Trajectory, query: str) -> Answer:
        asked = tokens_of(query)
        scored = [(score(asked, card, tokens, domain), at) for at, (card, tokens) in enumerate(known)]
        ranked = sorted((-value, at) for value, at in scored if value is not None)
        ranking: list[int | None] = []
        for _, at in ranked:
            card = known[at][0]
            place = card.provenance[0][0] if card.kind == "trajectory" and card.domain == domain else None
            if place != run.place or place is None:
                ranking.append(place)
        return Answer(tuple(ranking))

    return answer


def by_chance(runs: Sequence[Trajectory], rng: random.Random) -> Method:
    """Any order of the other runs."""

    def answer(run: Trajectory, _query: str) -> Answer:
        others = [at for at in range(len(runs)) if at != run.place]
        rng.shuffle(others)
        return Answer(tuple(others))

    return answer


def shipped(corpus: Corpus, runs: Sequence[Trajectory]) -> Method:
    """The retrieval that agents get; the held-out run is taken out of its index."""
    place = {card.id: at for at, card in enumerate(corpus.runs)}

    def answer(run: Trajectory, query: str) -> Answer:
        shown = corpus.retrieve(query, 3, without=run.place)
        top = [place.get(card.id) for card in shown]
        ranked = [at for part in corpus.rank(query_words(query), without=run.place) for at in part]
        rest = [at for at in ranked if at not in top] if shown else []
        topics = frozenset[str]().union(*(card.topics for card in shown if card.id not in place))
        # An answer of fewer cards keeps its empty slots: what was not shown cannot have been right.
        padded = top + [None] * (3 - len(top))
        return Answer(tuple(padded) + tuple(rest), topics)

    return answer


def _complete(ranking: Sequence[int], runs: int, held_out: int) -> tuple[int, ...]:
    ranked = set(ranking)
    return (*ranking, *(at for at in range(runs) if at != held_out and at not in ranked))
