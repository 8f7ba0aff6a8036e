"""Every transition of an event log with the events before it, sorted so that equal ones lie together."""

from __future__ import annotations

import numpy as np

from sherpa.counttable import WORD_BITS, Int32, Int64, sorted_groups
from sherpa.eventlog import EventLog


def grouped_windows(
    log: EventLog, codes: Int32, next_ids: Int64, max_order: int, width: int
) -> tuple[Int64, Int64, Int64] | None:
    """Transitions by what follows and what came before, most recent first.

    Parameters
    ----------
    log : EventLog
    codes : int32 array (events,)
        Token of each event as a context shows it.
    next_ids : int64 array (types,)
        Token of each type as it is predicted.
    max_order : int
        Events of context.
    width : int
        One more than the number of tokens.

    Returns
    -------
    (here, starts, keys) or None
        Positions of the events that are followed, group by group; where each group starts; and of each group the
        token that follows and those before it, plus one, 0 before the beginning of a case: int64 (groups,
        max_order + 1). None if no event is followed.
    """
    last = last_of_case(log)
    if log.events == len(last):
        return None
    bits = max(1, (width - 1).bit_length())
    place_bits = max(1, (log.events - 1).bit_length())
    if (max_order + 1) * bits + place_bits > WORD_BITS:
        return _wide(log, codes, next_ids, max_order, width, last)
    words = packed_windows(log, codes, next_ids, max_order, bits)
    words <<= place_bits
    words |= np.arange(log.events)
    words = np.delete(words, last)
    words.sort()
    here = words & ((1 << place_bits) - 1)
    words >>= place_bits
    starts = run_starts(words)
    return here, starts, unpacked(words[starts], max_order, bits)


def window_support(log: EventLog, codes: Int32, next_ids: Int64, max_order: int, width: int) -> tuple[Int64, Int64]:
    """The distinct transitions and how often each occurs; arguments as of `grouped_windows`.

    Returns
    -------
    (keys, support)
        int64 (groups, max_order + 1) as the keys of `grouped_windows`, int64 (groups,).
    """
    bits = max(1, (width - 1).bit_length())
    if (max_order + 1) * bits > WORD_BITS:
        grouped = grouped_windows(log, codes, next_ids, max_order, width)
        if grouped is None:
            return np.empty((0, max_order + 1), np.int64), np.empty(0, np.int64)
        here, starts, keys = grouped
        return keys, np.diff(np.append(starts, len(here)))
    words = np.delete(packed_windows(log, codes, next_ids, max_order, bits), last_of_case(log))
    words.sort()
    starts = run_starts(words) if len(words) else np.empty(0, np.int64)
    return unpacked(words[starts], max_order, bits), np.diff(np.append(starts, len(words)))


def packed_windows(log: EventLog, codes: Int32, next_ids: Int64, max_order: int, bits: int) -> Int64:
    """One word per event: what follows in the highest bits, then the event itself, then those before it.

    The word of an event that nothing follows means nothing.
    """
    tokens = codes.astype(np.int64)
    tokens += 1
    words = np.empty(log.events, np.int64)
    np.add(next_ids[log.codes[1:]], 1, out=words[:-1])
    words[-1:] = 0
    words <<= max_order * bits
    shifted = np.empty_like(tokens)
    for back in range(min(max_order, log.events)):
        np.left_shift(tokens, (max_order - 1 - back) * bits, out=shifted)
        words[back:] |= shifted[: len(shifted) - back]
    # Windows that reach back over the beginning of their case hold tokens of the case before; only these few.
    begins, lengths = log.offsets[:-1], np.diff(log.offsets)
    for depth in range(max_order - 1):
        short = begins[lengths > depth] + depth
        words[short] &= ~((1 << ((max_order - 1 - depth) * bits)) - 1)
    return words


def unpacked(words: Int64, max_order: int, bits: int) -> Int64:
    """The tokens of packed windows, int64 (words, max_order + 1)."""
    mask = (1 << bits) - 1
    return np.stack([(words >> (at * bits)) & mask for at in range(max_order, -1, -1)], axis=1)


def run_starts(words: Int64) -> Int64:
    """Where each run of equal words starts."""
    new = np.empty(len(words), bool)
    new[0] = True
    np.not_equal(words[1:], words[:-1], out=new[1:])
    return np.flatnonzero(new)


def last_of_case(log: EventLog) -> Int64:
    """Positions of the events that nothing follows."""
    ends: Int64 = log.offsets[1:][np.diff(log.offsets) > 0] - 1
    return ends


def _wide(
    log: EventLog, codes: Int32, next_ids: Int64, max_order: int, width: int, last: Int64
) -> tuple[Int64, Int64, Int64]:
    """The same where a window does not fit into one word: its columns are sorted, with ranks in between."""
    here = np.delete(np.arange(log.events), last)
    depth = here - np.repeat(log.offsets[:-1], np.diff(log.offsets))[here]
    columns = [next_ids[log.codes[here + 1]] + 1]
    for back in range(max_order):
        inside = depth >= back
        columns.append(np.where(inside, codes[here - np.where(inside, back, 0)].astype(np.int64) + 1, 0))
    rows, starts = sorted_groups(columns, width)
    heads = rows[starts]
    return here[rows], starts, np.stack([column[heads] for column in columns], axis=1)
