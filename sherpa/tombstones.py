"""What a ledger was told to forget: a line per case that holds no byte of it, only a salted digest of its id.

The line is written before anything is removed and again when all is, so that a removal that was interrupted is finished
by the next writer; and an import recognises a case that must not come back.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from sherpa.files import append_lines


class Tombstone(msgspec.Struct, frozen=True, rename="camel"):
    """One case that is forgotten.

    Attributes
    ----------
    digest : str
        SHA-256 of salt and case id.
    salt : str
    at : str
        When it was asked for.
    done : bool
        Whether every line of the case is gone.
    """

    digest: str
    salt: str
    at: str
    done: bool = False

    def holds(self, case_id: str) -> bool:
        """Whether it is the tombstone of this case."""
        return self.digest == digest_of(case_id, self.salt)


def digest_of(case_id: str, salt: str) -> str:
    """The digest of a case id."""
    return hashlib.sha256(f"{salt}\0{case_id}".encode("utf-8", "surrogatepass")).hexdigest()


class Tombstones:
    """The tombstones of one ledger, in a file of their own beside its segments."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def all(self) -> list[Tombstone]:
        """One per case, with whether it is done. Half a line at the end was never acknowledged and is left out."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        found: dict[str, Tombstone] = {}
        for line in data.split(b"\n")[:-1]:
            try:
                stone = msgspec.json.decode(line, type=Tombstone)
            except msgspec.MsgspecError:
                continue
            found[stone.digest] = stone
        return list(found.values())

    def pending(self) -> list[Tombstone]:
        """Those whose case may still have lines."""
        return [stone for stone in self.all() if not stone.done]

    def add(self, stone: Tombstone) -> None:
        """Write one durably."""
        append_lines(self.path, msgspec.json.encode(stone) + b"\n")
