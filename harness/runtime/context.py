"""What an agent may know: a journal, exact chunks of documents, summaries that cite them, scoped views of the log.

Every citation is a span of characters in a named frame: of the document, or of a summary. ``text[start:end]`` is
always exactly what is cited.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from harness.runtime.errors import RunStoreError
from harness.runtime.events import JOURNAL_KINDS, RunEvent
from harness.runtime.ir import canonical, digest
from harness.runtime.retrieval import Chunk, make_chunk
from harness.runtime.store import RunStore

SMALLEST = 80
LONGEST_SUMMARY = 2_000
_BLOCK = re.compile(r"\S[^\n]*(?:\n[^\n]*\S[^\n]*)*")
_HEADING = re.compile(r"^#{1,6}[ \t]+\S", re.MULTILINE)


class Span(Struct, frozen=True, kw_only=True):
    """A cited place.

    Attributes
    ----------
    sha : str
        Hash of the cited text.
    start, end : int
        Characters in the frame.
    child_id : str
        The chunk or summary that stands there.
    of : str
        ``document``, or ``summary`` for a place in a lower summary.
    source_id : str
        The document or summary whose characters are meant.
    """

    sha: str
    start: int
    end: int
    child_id: str
    of: Literal["document", "summary"]
    source_id: str


class Summary(Struct, frozen=True, kw_only=True):
    """A text that stands for others, with the spans it was made from."""

    summary_id: str
    doc_id: str
    level: int
    text: str
    children: tuple[str, ...]
    spans: tuple[Span, ...]


def journal(
    store: RunStore,
    run_id: str,
    kind: str,
    text: str,
    *,
    node_key: str | None = None,
    refs: Sequence[str] = (),
) -> int:
    """Note something in the log of a run.

    Raises
    ------
    RunStoreError
        If it is none of the six kinds; then nothing is noted.
    """
    if kind not in JOURNAL_KINDS:
        raise RunStoreError(f"{kind!r} is no kind of journal entry; they are {', '.join(sorted(JOURNAL_KINDS))}")
    payload = {"kind": kind, "text": text, "refs": list(refs)}
    return store.append(run_id, "journal_appended", payload, node_key=node_key)


def chunk(doc_id: str, text: str, strategy: Literal["paragraph", "heading"] = "paragraph") -> list[Chunk]:
    """Pieces of a document in order, at blank lines or at headings; small ones are joined with their neighbour.

    A document without headings is cut at blank lines. Nothing but blank space lies between pieces.
    """
    if strategy not in ("paragraph", "heading"):
        raise RunStoreError(f"{strategy!r} is no way to cut a document; it is paragraph or heading")
    places = _headings(text) if strategy == "heading" else []
    places = places or [(match.start(), match.end()) for match in _BLOCK.finditer(text)]
    merged: list[tuple[int, int]] = []
    for start, end in places:
        if merged and (end - start < SMALLEST or merged[-1][1] - merged[-1][0] < SMALLEST):
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    trimmed = [(start, start + len(text[start:end].rstrip())) for start, end in merged]
    return [make_chunk(doc_id, at, text[start:end], start) for at, (start, end) in enumerate(trimmed)]


def _headings(text: str) -> list[tuple[int, int]]:
    starts = [match.start() for match in _HEADING.finditer(text)]
    if not starts:
        return []
    if text[: starts[0]].strip():
        starts.insert(0, len(text) - len(text.lstrip()))
    return list(zip(starts, [*starts[1:], len(text)], strict=True))


def build_summary(
    store: RunStore,
    run_id: str,
    doc_id: str,
    level: int,
    children: Sequence[Chunk | Summary],
    summarise: Callable[[list[str]], str],
) -> Summary:
    """Summarise chunks, or summaries of the level below; every child is cited.

    Parameters
    ----------
    summarise : callable
        Makes a text of the children's texts.

    Notes
    -----
    A summary of summaries points at each of them, and also holds all their spans into the document.
    """
    if not children:
        raise RunStoreError("a summary needs something to summarise")
    text = _bounded(summarise([child.text for child in children]))
    spans: list[Span] = []
    for child in children:
        if isinstance(child, Chunk):
            where = {"child_id": child.chunk_id, "of": "document", "source_id": child.doc_id}
            spans.append(msgspec.convert({"sha": child.sha, "start": child.start, "end": child.end, **where}, Span))
        else:
            sha = hashlib.sha256(child.text.encode()).hexdigest()
            name = child.summary_id
            spans.append(Span(sha=sha, start=0, end=len(child.text), child_id=name, of="summary", source_id=name))
            spans += [span for span in child.spans if span.of == "document"]
    ids = tuple(child.chunk_id if isinstance(child, Chunk) else child.summary_id for child in children)
    name = "sum_" + digest([doc_id, level, ids])[:20]
    made = Summary(summary_id=name, doc_id=doc_id, level=level, text=text, children=ids, spans=tuple(spans))
    with store.transaction() as db:
        db.execute(
            "INSERT OR REPLACE INTO summaries VALUES (?, ?, ?, ?, ?, ?)",
            (name, doc_id, level, text, canonical(ids).decode(), canonical(spans).decode()),
        )
        payload = {"summary_id": name, "level": level, "n_children": len(ids), "sha": store.blobs.put(text.encode())}
        store.append(run_id, "summary_created", payload)
    return made


def _bounded(text: str) -> str:
    if len(text) <= LONGEST_SUMMARY:
        return text
    # The notice is part of the text, so that nobody takes it for whole.
    room = LONGEST_SUMMARY - 60
    return f"{text[:room]} [cut: {len(text) - room} of {len(text)} characters left out]"


def cited(span: Span, documents: Callable[[str], str], summaries: Callable[[str], str]) -> str:
    """The text of a span in its own frame.

    Raises
    ------
    RunStoreError
        If the text there is not the one that was cited.
    """
    frame = (documents if span.of == "document" else summaries)(span.source_id)
    text = frame[span.start : span.end]
    if hashlib.sha256(text.encode()).hexdigest() != span.sha:
        raise RunStoreError(f"{span.of} {span.source_id} [{span.start}:{span.end}] is not what was cited")
    return text


def scoped_snapshot(store: RunStore, run_id: str, kinds: Iterable[str] | None = None) -> list[RunEvent]:
    """Events of a run and of all runs below it, in order; it takes no lease and disturbs nobody."""
    family = store.descendants(run_id)
    return [event for event in store.events(kinds=kinds) if event.run_id in family]
