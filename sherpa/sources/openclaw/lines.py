"""Lines of a transcript, one JSON object each, read in bounded memory whatever they hold."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Generic, TypeVar

import msgspec

MAX_LINE = 16 * 2**20
"""Longest line that is read, in bytes; a longer one is passed over and counted."""
_REJOIN_LINES = 16
_REJOIN_BYTES = 2**20
_SHOWN = 5
_BLANK = b" \t\r\n\0"
_BOM = b"\xef\xbb\xbf"
BROKEN = (msgspec.DecodeError, msgspec.ValidationError, RecursionError, UnicodeDecodeError)
"""What a strict decoder raises."""
T = TypeVar("T")


@dataclass
class Losses:
    """What of a file could not be read as it was meant, and where.

    Kinds that lose a row: ``malformed``, ``truncatedTail`` (the last line, without its end), ``oversized``,
    ``notAnObject``, ``undecodable`` (compressed rows that no decoder is there for, or that are damaged). Kinds that
    lose nothing: ``blank``, ``nulPadding``, ``byteOrderMark``, ``carriageReturns``, ``replacedCharacters`` (lone
    surrogates, bytes that are not UTF-8, NaN), ``rejoined`` (a row that a raw line break had split), ``trailing``
    (something behind the object), ``unknownType``.
    """

    counts: Counter[str] = field(default_factory=Counter)
    places: dict[str, list[int]] = field(default_factory=dict)

    LOSING = ("malformed", "truncatedTail", "oversized", "notAnObject", "undecodable")

    def note(self, kind: str, line: int) -> None:
        """Count one, and remember the first few lines."""
        self.counts[kind] += 1
        shown = self.places.setdefault(kind, [])
        if len(shown) < _SHOWN:
            shown.append(line)

    @property
    def rows_lost(self) -> int:
        """How many rows are missing."""
        return sum(self.counts[kind] for kind in self.LOSING)

    def add(self, other: Losses) -> None:
        """Add the counts of another file."""
        self.counts.update(other.counts)


class LineReader(Generic[T]):
    """Decodes the lines of one transcript.

    Parameters
    ----------
    decoder : msgspec.json.Decoder
        Of the wanted struct; every field of it must accept every JSON value, so that only broken JSON fails.
    losses : Losses
        Filled while reading.
    max_line : int
        Bytes.
    """

    def __init__(self, decoder: msgspec.json.Decoder[T], losses: Losses, *, max_line: int = MAX_LINE) -> None:
        self._decoder = decoder
        self._losses = losses
        self._max = max_line
        self._held: list[bytes] = []
        self._held_at = 0
        self._open_end = False
        self.lines = 0
        self.bytes = 0

    def rows(self, stream: IO[bytes], *, growing: bool = False) -> Iterator[tuple[bytes, T]]:
        """(line, row) of every object in the stream, in order.

        With `growing` a last line without its end is left for the next reading; `bytes` then says where to go on.
        """
        readline, decode, limit = stream.readline, self._decoder.decode, self._max
        while True:
            line = readline(limit + 1)
            if not line or (growing and len(line) <= limit and not line.endswith(b"\n")):
                break
            self.lines += 1
            self.bytes += len(line)
            if len(line) > limit and not line.endswith(b"\n"):
                self._pass_over(stream)
                continue
            if line.endswith(b"\r\n"):
                self._losses.note("carriageReturns", self.lines)
            if not self._held:
                # Nearly every line ends here.
                try:
                    row = decode(line)
                except BROKEN:
                    pass
                else:
                    yield line, row
                    continue
            yield from self._repair(line)
        self.finish()

    def one(self, text: bytes, number: int) -> T | None:
        """The row of a text that is a whole line by itself."""
        self.lines = number
        found = [row for _, row in self._repair(text.rstrip(b"\n") + b"\n")]
        self.finish()
        return found[0] if found else None

    def finish(self) -> None:
        """Nothing follows: what is held back is lost."""
        self._give_up(at_end=True)

    def _pass_over(self, stream: IO[bytes]) -> None:
        self._losses.note("oversized", self.lines)
        while True:
            part = stream.readline(self._max)
            self.bytes += len(part)
            if not part or part.endswith(b"\n"):
                return

    def _repair(self, line: bytes) -> Iterator[tuple[bytes, T]]:
        body = line
        if body.startswith(_BOM) and self.lines <= 1:
            self._losses.note("byteOrderMark", self.lines)
            body = body[3:]
        stripped = body.strip(_BLANK)
        if not stripped:
            self._losses.note("nulPadding" if b"\0" in body else "blank", self.lines)
            return
        if b"\0" in body and b"\0" not in stripped:
            self._losses.note("nulPadding", self.lines)
        found = list(self._objects(stripped))
        if found:
            self._give_up()
            yield from found
            return
        if self._held:
            joined = b"\n".join([*self._held, body.rstrip(b"\r\n")])
            if len(joined) <= _REJOIN_BYTES:
                found = list(self._objects(joined, quiet=True))
                if found:
                    self._held = []
                    self._losses.note("rejoined", self._held_at)
                    yield from found
                    return
        if not stripped.startswith((b"{", b"[")) and not self._held:
            kind = "notAnObject" if _is_json(stripped) else "malformed" if line.endswith(b"\n") else "truncatedTail"
            self._losses.note(kind, self.lines)
            return
        if _is_json(stripped):
            self._give_up()
            self._losses.note("notAnObject", self.lines)
            return
        if not self._held:
            self._held_at = self.lines
        self._held.append(body.rstrip(b"\r\n"))
        self._open_end = not line.endswith(b"\n")
        if len(self._held) >= _REJOIN_LINES or sum(map(len, self._held)) > _REJOIN_BYTES:
            self._give_up(at_end=self._open_end)

    def _give_up(self, *, at_end: bool = False) -> None:
        """Count the held lines as lost; each was tried by itself and together with the lines before it."""
        for offset in range(len(self._held)):
            last = at_end and self._open_end and offset == len(self._held) - 1
            self._losses.note("truncatedTail" if last else "malformed", self._held_at + offset)
        self._held = []

    def _objects(self, text: bytes, *, quiet: bool = False) -> Iterator[tuple[bytes, T]]:
        """The objects at the start of a text that the strict decoder refuses."""
        decoded = text.decode("utf-8", "replace")
        at = 0
        while at < len(decoded):
            try:
                value, end = _lenient.raw_decode(decoded, at)
            except (ValueError, RecursionError):
                if at:
                    self._losses.note("trailing", self.lines)
                return
            if not isinstance(value, dict):
                if at:
                    self._losses.note("trailing", self.lines)
                return
            if at:
                self._losses.note("trailing", self.lines)
            clean = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
            try:
                row = self._decoder.decode(clean)
            except BROKEN:
                return
            whole = at == 0 and end == len(decoded)
            if whole and not quiet and not _is_json(text):
                self._losses.note("replacedCharacters", self.lines)
            yield (text if whole else clean), row
            at = end
            while at < len(decoded) and decoded[at] in " \t\r\n\0":
                at += 1


_lenient = json.JSONDecoder(strict=False, parse_constant=lambda _: None)


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text)
    except BROKEN:
        return False
    return True
