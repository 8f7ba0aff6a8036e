"""Shards: rows dealt out by the hash of their case, so that a shard holds its cases whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from sherpa.errors import SourceError
from sherpa.scale.cases import Cases, cases_of
from sherpa.scale.libraries import needed

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = needed("pyarrow", "scale")

EVENTS = 1_000_000
"""Of a shard, as far as cases allow."""
MOST = 512


def shards_for(events: int) -> int:
    """How many shards for so many events: of about `EVENTS` each, but at most `MOST`."""
    return min(MOST, max(1, -(-events // EVENTS)))


def shard_of(case_ids: Sequence[str], shards: int) -> np.ndarray[tuple[int], np.dtype[np.uint16]]:
    """Shard of each case, the same on every machine: uint16 array (cases,)."""
    hashes = pd.util.hash_array(np.array(case_ids, dtype=object), categorize=False)
    return (hashes % np.uint64(shards)).astype(np.uint16)


def dealt(rows: pa.Table, shards: int) -> list[pa.Table]:
    """The rows of each shard, in their order; each stands by itself and holds no memory of the others.

    Parameters
    ----------
    rows : pa.Table
        As `Unit.read` gives them.

    Raises
    ------
    SourceError
        If a row has no case.
    """
    if rows["case_id"].null_count:
        raise SourceError("an event lacks it", field="case_id")
    rows = _without_large_dictionaries(rows, shards)
    if shards == 1:
        return [rows]
    encoded = rows["case_id"].dictionary_encode().unify_dictionaries().combine_chunks()
    encoded = encoded.chunk(0) if isinstance(encoded, pa.ChunkedArray) else encoded
    of_row = shard_of(encoded.dictionary.to_pylist(), shards)[encoded.indices.to_numpy(zero_copy_only=False)]
    order = np.argsort(of_row, kind="stable")
    bounds = np.searchsorted(of_row[order], np.arange(shards + 1))
    return [rows.take(pa.array(order[bounds[at] : bounds[at + 1]])) for at in range(shards)]


def _without_large_dictionaries(rows: pa.Table, shards: int) -> pa.Table:
    """A dictionary goes with every shard; it pays only where it is small beside the rows of one."""
    for at, field in enumerate(rows.schema):
        if not pa.types.is_dictionary(field.type):
            continue
        column = rows[field.name]
        if sum(len(chunk.dictionary) for chunk in column.chunks) * shards * 4 > len(rows):
            rows = rows.set_column(at, field.name, column.cast(field.type.value_type))
    return rows


def gathered(pieces: Sequence[pa.Table]) -> Cases | None:
    """The cases of the pieces of one shard, None if they are empty."""
    filled = [piece for piece in pieces if len(piece)]
    if not filled:
        return None
    return cases_of(pa.concat_tables([_plain(piece, filled) for piece in filled]))


def _plain(piece: pa.Table, pieces: Sequence[pa.Table]) -> pa.Table:
    """Where pieces disagree on a column, text in place of a dictionary."""
    for at, field in enumerate(piece.schema):
        if pa.types.is_dictionary(field.type) and any(other.schema.field(at).type != field.type for other in pieces):
            piece = piece.set_column(at, field.name, piece[field.name].cast(field.type.value_type))
    return piece
