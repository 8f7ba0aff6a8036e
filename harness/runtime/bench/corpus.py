"""Demonstration C: questions about a corpus, answered with citations that a verifier reads again, or not at all.

Each needle is one sentence among fillers and look-alikes; each question is about one of them or about something the
corpus does not say. A question is the query: nobody tells the search what to look for.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.runtime.bench.scenarios import leaf, returns

DOCUMENTS, NEEDLES, BYTES, K = 40, 8, 2_200, 3
CODE = re.compile(r"PERIDOT-\d\d")
_PLACES = (
    "Marlow",
    "Tansy",
    "Corbel",
    "Ilmen",
    "Quarry",
    "Sorrel",
    "Vesper",
    "Harrow",
    "Linden",
    "Orrery",
    "Pell",
    "Yarrow",
)
_KINDS = ("station", "depot", "archive", "harbour")
_WORDS = [
    "river",
    "stone",
    "lantern",
    "record",
    "winter",
    "ledger",
    "bridge",
    "market",
    "signal",
    "copper",
    "garden",
    "letter",
    "morning",
    "wheel",
    "harvest",
    "timber",
    "window",
    "north",
    "paper",
    "island",
    "cotton",
    "engine",
    "mirror",
    "valley",
    "silver",
    "anchor",
    "orchard",
    "kettle",
]
_STOP = frozenset(["what", "is", "the", "of", "a", "which", "for"])


@dataclass(frozen=True)
class Question:
    """A question; `answer` is None if the corpus does not say."""

    text: str
    answer: str | None

    @property
    def words(self) -> list[str]:
        """What it asks about."""
        return [word for word in re.findall(r"\w+", self.text.lower()) if word not in _STOP]


@dataclass(frozen=True)
class Claim:
    """An answer with its citation: characters of a document."""

    code: str
    doc: str
    start: int
    end: int


def make_corpus(folder: Path, seed: int) -> list[Question]:
    """Write the documents; returns eight questions with answers and four without."""
    rng = random.Random(f"corpus:{seed}")
    names = [f"doc{n:02d}.md" for n in range(DOCUMENTS)]
    texts = [_filler(rng) for _ in names]
    places = rng.sample(_PLACES, NEEDLES + 2)
    codes = rng.sample(range(10, 100), NEEDLES * 3)
    questions = []
    for n, place in enumerate(places[:NEEDLES]):
        kind, other = rng.sample(_KINDS, 2)
        code = f"PERIDOT-{codes[n]}"
        needle = f"The access code of the {place} {kind} is {code}."
        # Two look-alikes: another thing of the same place, and the same thing with a retired code.
        lures = [
            f"The access code of the {place} {other} is PERIDOT-{codes[NEEDLES + n]}.",
            f"Nobody at the {kind} remembers when PERIDOT-{codes[2 * NEEDLES + n]} was retired by {place}.",
        ]
        for at, sentence in zip(rng.sample(range(DOCUMENTS), 3), [needle, *lures], strict=True):
            texts[at].insert(rng.randrange(len(texts[at])), f"{sentence} {_sentence(rng)}")
        questions.append(Question(f"What is the access code of the {place} {kind}?", code))
    absent = [kind for kind in _KINDS if f"{places[0]} {kind}" not in "".join(map("".join, texts))]
    questions += [Question(f"What is the access code of the {place} station?", None) for place in places[NEEDLES:]]
    questions.append(Question(f"What is the access code of the {places[0]} {absent[0]}?", None))
    questions.append(Question(f"What is the lunar tariff of the {places[1]} archive?", None))
    for name, paragraphs in zip(names, texts, strict=True):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("\n\n".join(paragraphs), encoding="utf-8")
    return questions


def _sentence(rng: random.Random) -> str:
    return " ".join(rng.choices(_WORDS, k=rng.randint(8, 14))).capitalize() + "."


def _filler(rng: random.Random) -> list[str]:
    paragraphs: list[str] = []
    while sum(map(len, paragraphs)) < BYTES:
        paragraphs.append(" ".join(_sentence(rng) for _ in range(rng.randint(2, 4))))
    return paragraphs


def corpus_problem(name: str, questions: Sequence[Question]) -> dict[str, Any]:
    """Index every document, search for every question."""
    nodes = [leaf(f"index_{n}", "text.index_document", path=f"corpus/doc{n:02d}.md") for n in range(DOCUMENTS)]
    nodes += [
        leaf(f"ask_{n}", "text.search_corpus", query=" ".join(question.words), k=K)
        for n, question in enumerate(questions)
    ]
    hits = {f"q{n}": f"{{{{ ask_{n}.result.hits }}}}" for n in range(len(questions))}
    return {
        "id": name,
        "goal": "answer the questions",
        "authority": {"fs_read": ["corpus/**"]},
        "metadata": {"root_nodes": [*nodes, returns(**hits)]},
    }


def answer(question: Question, hits: Sequence[dict[str, Any]], folder: Path) -> Claim | None:
    """A claim from what was found: the sentence that says all that the question asks; None if none does."""
    for hit in hits:
        path = folder / Path(hit["doc_id"]).name
        text = path.read_text(encoding="utf-8")
        for match in re.finditer(r"[^.]+\.", text[hit["start"] : hit["end"]]):
            sentence = match[0]
            code = CODE.search(sentence)
            said = set(re.findall(r"\w+", sentence.lower()))
            if code and said.issuperset(question.words):
                start = hit["start"] + match.start()
                return Claim(code[0], path.name, start, start + len(sentence))
    return None


def supported(claim: Claim, question: Question, folder: Path) -> bool:
    """Reads the cited characters again: do they give the right code, and are they about the question?"""
    if question.answer is None:
        return False
    cited = (folder / claim.doc).read_text(encoding="utf-8")[claim.start : claim.end]
    subject = re.findall(r"\w+", question.text)[-2:]
    return claim.code == question.answer and claim.code in cited and " ".join(subject) in cited
