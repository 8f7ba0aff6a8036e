"""Parts of a session: one file, one range of rows in a store, or one blob; all give the same rows."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import IO, TypeVar

import msgspec

from sherpa.errors import SourceError
from sherpa.instants import NANOS_PER_MS, NO_INSTANT
from sherpa.sources.compressed import open_bytes
from sherpa.sources.openclaw.database import AgentDatabase, Archive
from sherpa.sources.openclaw.files import Kind, SourceFile
from sherpa.sources.openclaw.lines import BROKEN, MAX_LINE, LineReader, Losses
from sherpa.sources.openclaw.rows import OUTLINES, instant_of
from sherpa.sources.openclaw.tree import Tree

T = TypeVar("T")
Watch = Callable[[int], None]
_PEEK = 50
_REPORTED = 2**20


@dataclass
class Part(ABC):
    """Some rows of a session, and where they are.

    Attributes
    ----------
    shown : str
        How reports call it.
    kind : Kind
    host, agent, session : str
    size : int
        Bytes, for progress.
    begins : int
        Instant of the first row that says when it was written.
    headed : bool
        Whether it has a header row.
    losses : Losses
        What the latest reading lost.
    lines : int
        How many lines the latest reading saw.
    position : int
        Where the latest reading ended: bytes of a file, number of the next row of a store.
    """

    shown: str
    kind: Kind
    host: str
    agent: str
    session: str
    size: int
    begins: int = NO_INSTANT
    headed: bool = False
    losses: Losses = field(default_factory=Losses)
    lines: int = 0
    packed: bool = False
    max_line: int = MAX_LINE
    position: int = 0

    @abstractmethod
    def rows(
        self, decoder: msgspec.json.Decoder[T], watch: Watch | None = None, start: int | None = None
    ) -> Iterator[tuple[bytes, T, int]]:
        """(text, row, instant to fall back on) of every row, in order.

        With `start`, a `position` of an earlier reading, only what was complete by now and came after it.
        """

    @abstractmethod
    def shrank(self, position: int, generation: str) -> bool:
        """Whether it was rewritten since it was read up to a position."""

    @property
    def generation(self) -> str:
        """Changes when what was read before is written again."""
        return ""

    @property
    def era(self) -> str:
        """``jsonl`` or ``sqlite``."""
        return "sqlite" if self.kind is Kind.DATABASE else "jsonl"

    def peek(self) -> str | None:
        """Read the first rows: when they were written, and which session the header names."""
        named = None
        for at, (_, row, fallback) in enumerate(self.rows(OUTLINES)):
            if row.type == "session":
                self.headed = True
                named = row.id if isinstance(row.id, str) and row.id else None
            found = instant_of(row)
            self.begins = fallback if found == NO_INSTANT else found
            if self.begins != NO_INSTANT or at >= _PEEK:
                break
        self.losses = Losses()
        return named

    def survey(self) -> frozenset[int]:
        """Numbers of the rows that lie off the active path; counts nothing."""
        tree = Tree()
        for _, row, _ in self.rows(OUTLINES):
            tree.add(row)
        self.losses = Losses()
        return tree.abandoned()


@dataclass
class StreamPart(Part):
    """Lines of JSON: a file or a blob."""

    open: Callable[[], AbstractContextManager[IO[bytes]]] = lambda: nullcontext(io.BytesIO())

    def rows(
        self, decoder: msgspec.json.Decoder[T], watch: Watch | None = None, start: int | None = None
    ) -> Iterator[tuple[bytes, T, int]]:
        self.losses = Losses()
        reader = LineReader(decoder, self.losses, max_line=self.max_line)
        told = 0
        try:
            with self.open() as stream:
                if start:
                    stream.seek(start)
                for line, row in reader.rows(stream, growing=start is not None):
                    yield line, row, NO_INSTANT
                    if reader.bytes - told >= _REPORTED:
                        if watch is not None:
                            watch(reader.bytes - told)
                        told = reader.bytes
        except SourceError:
            # What was read before the damage stands.
            self.losses.note("undecodable", reader.lines + 1)
        self.lines = reader.lines
        self.position = (start or 0) + reader.bytes
        if watch is not None:
            watch(reader.bytes - told)

    def shrank(self, position: int, generation: str) -> bool:
        return self.size < position and not self.packed


def file_part(file: SourceFile, session: str, *, max_line: int = MAX_LINE) -> StreamPart:
    """The part that a file is."""
    return StreamPart(
        file.shown,
        file.name.kind,
        file.host,
        file.agent,
        session,
        file.size,
        packed=file.name.packed,
        max_line=max_line,
        open=lambda: open_bytes(file.path),
    )


def archive_part(file: SourceFile, database: AgentDatabase, archive: Archive) -> StreamPart:
    """The part that a blob in a store is."""
    kind = {"deleted": Kind.DELETED, "reset": Kind.RESET}.get(archive.reason, Kind.COLD)
    shown = f"{file.shown}#{archive.name}"
    return StreamPart(
        shown, kind, file.host, file.agent, archive.session, 0, open=lambda: nullcontext(database.archive(archive))
    )


@dataclass
class StorePart(Part):
    """The rows of one session in a store."""

    database: AgentDatabase | None = None

    @property
    def generation(self) -> str:
        return self._store.generation(self.session)

    @property
    def _store(self) -> AgentDatabase:
        assert self.database is not None
        return self.database

    def shrank(self, position: int, generation: str) -> bool:
        return generation != self.generation

    def rows(
        self, decoder: msgspec.json.Decoder[T], watch: Watch | None = None, start: int | None = None
    ) -> Iterator[tuple[bytes, T, int]]:
        self.losses = Losses()
        self.lines = 0
        self.position = start or 0
        for seq, text, created in self._store.rows(self.session, self.position - 1):
            self.lines += 1
            self.position = seq + 1
            if text is None:
                self.losses.note("undecodable", seq)
                continue
            if watch is not None:
                watch(len(text))
            try:
                row = decoder.decode(text)
            except BROKEN:
                repaired = LineReader(decoder, self.losses).one(text, seq)
                if repaired is None:
                    continue
                row = repaired
            yield text, row, NO_INSTANT if created is None else created * NANOS_PER_MS


def store_part(file: SourceFile, database: AgentDatabase, session: str, size: int) -> StorePart:
    """The part that a session in a store is."""
    return StorePart(f"{file.shown}#{session}", Kind.DATABASE, file.host, file.agent, session, size, database=database)
