"""A `CaseIndex` as one file of columns, read by mapping it into memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

import msgspec
import numpy as np

from sherpa.caseindex import CaseIndex
from sherpa.files import writing_whole
from sherpa.suffixes import Places, SuffixIndex

_MAGIC = b"sherpa case index 1\n"
_ALIGN = 64


class _Column(msgspec.Struct):
    name: str
    kind: str
    size: int
    at: int


class _Head(msgspec.Struct):
    stamp: list[str]
    bits: int
    orders: int
    types: tuple[str, ...]
    columns: list[_Column]


class Names(Sequence[str]):
    """Texts in one block of bytes; one is decoded when it is asked for."""

    def __init__(self, block: np.ndarray[Any, Any], ends: np.ndarray[Any, Any]) -> None:
        self._block, self._ends = block, ends

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        start = 0 if at == 0 else int(self._ends[at - 1])
        return self._block[start : int(self._ends[at])].tobytes().decode("utf-8")


def write_index(path: Path, index: CaseIndex, stamp: list[str]) -> None:
    """Write an index, whole.

    Parameters
    ----------
    stamp : list of str
        Tells which graph, at which moment, it is of.

    Raises
    ------
    SourceError
        If it cannot be written.
    """
    suffixes = index.suffixes
    encoded = [name.encode("utf-8") for name in index.case_ids]
    arrays: dict[str, np.ndarray[Any, Any]] = {
        "codes": suffixes.codes,
        "offsets": suffixes.offsets,
        "case_of": suffixes.case_of,
        "outcomes": suffixes.outcomes,
        "rank": index.rank,
        "names": np.frombuffer(b"".join(encoded), np.uint8),
        "name_ends": np.cumsum([len(name) for name in encoded], dtype=np.int64),
    }
    for order, places in enumerate(suffixes.orders, start=1):
        arrays |= {f"words_{order}": places.words, f"starts_{order}": places.starts, f"at_{order}": places.at}
    columns, at = [], 0
    for name, array in arrays.items():
        columns.append(_Column(name, array.dtype.str, len(array), at))
        at += -(-array.nbytes // _ALIGN) * _ALIGN
    head = msgspec.json.encode(_Head(stamp, suffixes.bits, len(suffixes.orders), suffixes.types, columns)) + b"\n"
    with writing_whole(path) as file:
        file.write(_MAGIC + head)
        file.write(b" " * (-(len(_MAGIC) + len(head)) % _ALIGN))
        for array in arrays.values():
            data = np.ascontiguousarray(array)
            file.write(data.tobytes() + bytes(-data.nbytes % _ALIGN))


def read_stamp(path: Path) -> list[str] | None:
    """The stamp of an index file; None if there is none that can be read."""
    found = _read_head(path)
    return None if found is None else found[0].stamp


def read_index(path: Path) -> tuple[CaseIndex, list[str]] | None:
    """The index that a file holds, and its stamp; None if there is none that can be read."""
    found = _read_head(path)
    if found is None:
        return None
    head, start = found
    try:
        block = np.memmap(path, np.uint8, mode="r")
        arrays = {}
        for column in head.columns:
            kind = np.dtype(column.kind)
            begin = start + column.at
            if begin + column.size * kind.itemsize > len(block):
                return None
            arrays[column.name] = np.asarray(block[begin : begin + column.size * kind.itemsize]).view(kind)
        orders = tuple(
            Places(arrays[f"words_{k}"], arrays[f"starts_{k}"], arrays[f"at_{k}"]) for k in range(1, head.orders + 1)
        )
        suffixes = SuffixIndex(
            head.types,
            arrays["codes"],
            arrays["offsets"],
            arrays["case_of"],
            arrays["outcomes"],
            head.bits,
            orders,
        )
        return CaseIndex(suffixes, Names(arrays["names"], arrays["name_ends"]), arrays["rank"]), head.stamp
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _read_head(path: Path) -> tuple[_Head, int] | None:
    try:
        with open(path, "rb") as file:
            if file.readline(len(_MAGIC)) != _MAGIC:
                return None
            line = file.readline()
            head = msgspec.json.decode(line, type=_Head)
    except (OSError, msgspec.MsgspecError):
        return None
    end = len(_MAGIC) + len(line)
    return head, end + -end % _ALIGN
