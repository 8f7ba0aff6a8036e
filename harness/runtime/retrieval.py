"""Full-text search over chunks of documents. A query is data: whatever it holds, it is only words to look for."""

from __future__ import annotations

import hashlib
import re
from typing import Any, NamedTuple

from harness.runtime.errors import RunStoreError
from harness.runtime.store import RunStore

_WORD = re.compile(r"\w+")
_IDEOGRAPH = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff])")


class Chunk(NamedTuple):
    """A piece of a document; ``text`` is exactly ``document[start:end]``."""

    chunk_id: str
    doc_id: str
    ordinal: int
    text: str
    start: int
    end: int
    sha: str


class Hit(NamedTuple):
    """A chunk that was found."""

    chunk_id: str
    doc_id: str
    start: int
    end: int
    sha: str
    snippet: str


def make_chunk(doc_id: str, ordinal: int, text: str, start: int) -> Chunk:
    """A chunk with its id ``<doc>:<ordinal>`` and hash."""
    sha = hashlib.sha256(text.encode()).hexdigest()
    return Chunk(f"{doc_id}:{ordinal}", doc_id, ordinal, text, start, start + len(text), sha)


def _spaced(text: str) -> str:
    """Ideographs as words of their own: the index would take a whole sentence of them for one word."""
    return _IDEOGRAPH.sub(r" \1 ", text)


def match_of(query: str) -> str:
    """The search expression of a query: every word quoted, all required; empty if there is nothing to look for."""
    words = [word for word in _WORD.findall(query) if any(char.isalnum() for char in word)]
    return " AND ".join(f'"{_spaced(word).strip()}"' for word in words)


def index_chunk(store: RunStore, run_id: str, chunk: Chunk) -> None:
    """Index a chunk of a run, in place of what its id held before."""
    with store.transaction() as db:
        old = db.execute(
            "SELECT id FROM chunks_meta WHERE run_id = ? AND chunk_id = ?", (run_id, chunk.chunk_id)
        ).fetchone()
        if old is not None:
            db.execute("DELETE FROM chunks_fts WHERE rowid = ?", old)
            db.execute("DELETE FROM chunks_meta WHERE id = ?", old)
        place = (run_id, chunk.chunk_id, chunk.doc_id, chunk.ordinal, chunk.start, chunk.end, chunk.sha, chunk.text)
        number = db.execute(
            'INSERT INTO chunks_meta(run_id, chunk_id, doc_id, ordinal, start, "end", sha, text) '
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            place,
        ).lastrowid
        db.execute("INSERT INTO chunks_fts(rowid, text) VALUES (?, ?)", (number, _spaced(chunk.text)))
        store.append(run_id, "chunk_indexed", {"chunk_id": chunk.chunk_id, "sha": chunk.sha})


def search(store: RunStore, query: str, *, run_id: str | None = None, k: int = 5, doc_prefix: str = "") -> list[Hit]:
    """The best chunks for a query, by bm25.

    Parameters
    ----------
    run_id : str, optional
        Only chunks of this run.
    doc_prefix : str
        Only documents whose id begins with it, literally.

    Raises
    ------
    RunStoreError
        If `k` is below 1.
    """
    if k < 1:
        raise RunStoreError(f"k must be at least 1, not {k}")
    match = match_of(query)
    if not match:
        return []
    clauses = ""
    values: list[str | int] = []
    if run_id is not None:
        clauses += " AND m.run_id = ?"
        values.append(run_id)
    if doc_prefix:
        clauses += " AND substr(m.doc_id, 1, ?) = ?"
        values += [len(doc_prefix), doc_prefix]
    with store.lock:
        rows: list[tuple[Any, ...]] = store.db.execute(
            'SELECT m.chunk_id, m.doc_id, m.start, m."end", m.sha, m.text FROM chunks_fts f '
            f"JOIN chunks_meta m ON m.id = f.rowid WHERE chunks_fts MATCH ?{clauses} "
            "ORDER BY bm25(chunks_fts), m.chunk_id LIMIT ?",
            (match, *values, k),
        ).fetchall()
    return [Hit(row[0], row[1], row[2], row[3], row[4], _snippet(row[5], query)) for row in rows]


def _snippet(text: str, query: str, width: int = 160) -> str:
    places = [text.lower().find(word.lower()) for word in _WORD.findall(query)]
    first = min((at for at in places if at >= 0), default=0)
    begin = max(0, first - width // 2)
    return text[begin : begin + width]
