"""From rows of whole cases, in any order, to an `EventLog`, and on to counts, rows of cases and workflows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
import numpy as np

from sherpa.bulk import WORKFLOW_LABEL, Loaded
from sherpa.counting import CountTable, count, empty_table
from sherpa.counttable import combine
from sherpa.derive import WorkflowSums, loaded_workflow_sums
from sherpa.errors import SourceError
from sherpa.eventlog import USER_MESSAGE, EventLog, Int64
from sherpa.instants import NO_INSTANT
from sherpa.scale.libraries import needed
from sherpa.terminal import OUTCOME_CODE

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
else:
    pa, pc = needed("pyarrow", "scale"), needed("pyarrow.compute", "scale")

Array = np.ndarray[Any, Any]
R = TypeVar("R")


@dataclass(frozen=True)
class Cases:
    """Whole cases.

    Attributes
    ----------
    loaded : Loaded
        The log; agents and workflows are empty unless the rows carried them.
    duplicates : int
        Rows left out because the same case holds their event id in a row before.
    """

    loaded: Loaded
    duplicates: int


@dataclass(frozen=True)
class Job(Generic[R]):
    """What an engine does with whole cases.

    Attributes
    ----------
    work : callable
        Makes something of some of the cases.
    merge : callable
        Puts results together; commutative and associative, and of none it gives that of no cases.
    details : bool
        Whether agents and workflow labels are wanted.
    """

    work: Callable[[Cases], R]
    merge: Callable[[Sequence[R]], R]
    details: bool = False


def counting(max_order: int) -> Job[CountTable]:
    """Count every edge of orders 1 to `max_order`."""
    return Job(partial(_counted, max_order=max_order), partial(_merged_tables, max_order=max_order))


def _counted(cases: Cases, *, max_order: int) -> CountTable:
    return count(cases.loaded.log, max_order)


def _merged_tables(tables: Sequence[CountTable], *, max_order: int) -> CountTable:
    return combine([empty_table(max_order), *tables], max_order)


@dataclass(frozen=True)
class Derived:
    """Everything of the graph that is derived from all events at once.

    Attributes
    ----------
    table : CountTable
    cases : pa.Table
        ``case_id, agent_id, events, first, last, outcome`` of each case, in no order.
    workflows : dict
        Sums by label.
    events, duplicates : int
        Rows counted and left out.
    """

    table: CountTable
    cases: pa.Table
    workflows: dict[str, WorkflowSums]
    events: int
    duplicates: int


CASES = pa.schema(
    [
        ("case_id", pa.string()),
        ("agent_id", pa.string()),
        ("events", pa.int64()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("outcome", pa.int8()),
    ]
)


def deriving(max_order: int) -> Job[Derived]:
    """Counts, cases and workflows."""
    return Job(partial(_derived, max_order=max_order), partial(_merged_derived, max_order=max_order), details=True)


def _derived(cases: Cases, *, max_order: int) -> Derived:
    loaded, log = cases.loaded, cases.loaded.log
    rows = pa.table(
        {
            "case_id": pa.array(log.case_ids, pa.string()),
            "agent_id": pa.array(loaded.agents, pa.string()),
            "events": np.diff(log.offsets),
            "first": log.instants[log.offsets[:-1]],
            "last": log.instants[log.offsets[1:] - 1],
            "outcome": log.terminal,
        },
        schema=CASES,
    )
    return Derived(count(log, max_order), rows, loaded_workflow_sums(loaded), log.events, cases.duplicates)


def _merged_derived(parts: Sequence[Derived], *, max_order: int) -> Derived:
    workflows: dict[str, WorkflowSums] = {}
    for part in parts:
        for label, sums in part.workflows.items():
            held = workflows.get(label)
            workflows[label] = sums if held is None else _added(held, sums)
    return Derived(
        _merged_tables([part.table for part in parts], max_order=max_order),
        pa.concat_tables([CASES.empty_table(), *(part.cases for part in parts)]),
        workflows,
        sum(part.events for part in parts),
        sum(part.duplicates for part in parts),
    )


def _added(one: WorkflowSums, other: WorkflowSums) -> WorkflowSums:
    return WorkflowSums(
        one.cases + other.cases,
        one.events + other.events,
        one.success + other.success,
        one.failure + other.failure,
        one.total_ms + other.total_ms,
        min(one.first, other.first),
        max(one.last, other.last),
    )


def in_a_tree(results: Any, merge: Callable[[Sequence[R]], R], width: int = 8) -> R:
    """Merge results as they come, `width` at a time, level by level: each is merged as often as the tree is deep."""
    levels: list[list[R]] = []
    for result in results:
        carried = result
        for level in levels:
            level.append(carried)
            if len(level) < width:
                break
            carried = merge(level)
            level.clear()
        else:
            levels.append([carried])
    return merge([result for level in levels for result in level])


# -- rows to a log -----------------------------------------------------------------------------------------------


def cases_of(rows: pa.Table, *, in_order: bool = False) -> Cases:
    """The cases of some rows, which hold each of them whole.

    Parameters
    ----------
    rows : pa.Table
        As `Unit.read` gives them, in any order; in place of its text ``event_id`` may be any number that stands for it.
    in_order : bool
        Cases are adjacent, and inside a case rows are in order: by instant (unknown first), sequence number, place.

    Raises
    ------
    SourceError
        If a row has no case or no type, or an outcome that is none.
    """
    case, case_ids = _coded(rows, "case_id")
    code, vocabulary = _coded(rows, "type")
    outcome, outcome_names = _coded(rows, "outcome")
    actor, actor_names = _coded(rows, "actor")
    odd = sorted(set(outcome_names) - OUTCOME_CODE.keys())
    if odd:
        raise SourceError(f"{odd[0]!r} is no outcome; it is one of {', '.join(OUTCOME_CODE)}", field="outcome")
    instant, seq, place = (_integers(rows, name) for name in ("instant", "seq", "place"))
    kept = _first_of_each_id(case, rows["event_id"], place)
    order = _in_case_order(case, instant, seq, place, kept) if kept is not None or not in_order else None

    def laid(column: Array) -> Array:
        return column if order is None else column[order]

    code, case = laid(code), laid(case)
    offsets = np.concatenate(([0], np.cumsum(np.bincount(case, minlength=len(case_ids)))))
    user = (np.array([name == "user" for name in actor_names], bool) if actor_names else np.empty(0, bool))[laid(actor)]
    names: dict[str, int] = {}
    response_of = np.full(len(vocabulary), -1, np.int32)
    for kind in np.unique(code[user]).tolist():
        response_of[kind] = names.setdefault(vocabulary[kind].removeprefix(USER_MESSAGE), len(names))
    log = EventLog.from_codes(
        code,
        offsets,
        vocabulary,
        case_ids=case_ids,
        instants=laid(instant),
        outcomes=np.array([OUTCOME_CODE[name] for name in outcome_names], np.int8)[laid(outcome)],
        responses=np.where(user, response_of[code], -1),
        response_vocabulary=tuple(names),
        procedures=np.full(len(code), -1, np.int8),
    )
    agents: list[str] = []
    workflows: dict[str, Int64] = {}
    if "agent_id" in rows.column_names:
        agent, agent_names = _coded(rows, "agent_id")
        agents = [agent_names[a] for a in laid(agent)[offsets[:-1]].tolist()]
        workflows = _workflows(rows["labels"], order)
    return Cases(Loaded(log, agents, workflows), len(rows) - len(code))


def _coded(rows: pa.Table, name: str) -> tuple[Array, list[str]]:
    """A column of text as codes (int64), and the texts in use, in the order in which they come."""
    column = rows[name]
    if column.null_count:
        raise SourceError("an event lacks it", field=name)
    encoded = _one_dictionary(column)
    codes, texts = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary
    used = np.bincount(codes, minlength=len(texts)) > 0
    if not used.all():
        codes = (np.cumsum(used) - 1)[codes]
        texts = texts.filter(pa.array(used))
    names: list[str] = texts.to_pylist()
    if "" in names:
        raise SourceError("an event has an empty one", field=name)
    return codes, names


def _one_dictionary(column: pa.ChunkedArray) -> pa.DictionaryArray:
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    combined = column.unify_dictionaries().combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _integers(rows: pa.Table, name: str) -> Int64:
    column = rows[name]
    if column.null_count:
        column = pc.fill_null(column, NO_INSTANT if name == "instant" else 0)
    values: Int64 = column.to_numpy().astype(np.int64, copy=False)
    return values


def _first_of_each_id(case: Array, ids: pa.ChunkedArray, place: Int64) -> Array | None:
    """Which rows to keep, bool array (rows,): of each id in each case the first by place; None for all."""
    named = ids.drop_null()
    if len(named) == pc.count_distinct(named).as_py():
        return None
    encoded = ids.dictionary_encode().unify_dictionaries().combine_chunks()
    encoded = encoded.chunk(0) if isinstance(encoded, pa.ChunkedArray) else encoded
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    rows = np.flatnonzero(codes >= 0)
    rows = rows[np.argsort(place[rows], kind="stable")]
    _, first = np.unique(case[rows] * len(encoded.dictionary) + codes[rows], return_index=True)
    keep = codes < 0
    keep[rows[first]] = True
    return None if keep.all() else keep


def _in_case_order(case: Array, instant: Int64, seq: Int64, place: Int64, kept: Array | None) -> Array:
    """The rows that are kept, case by case, by instant, number and place."""
    rows = np.arange(len(case)) if kept is None else np.flatnonzero(kept)
    if (np.diff(place[rows]) < 0).any():
        rows = rows[np.argsort(place[rows], kind="stable")]
    bits = max(1, (len(rows) - 1).bit_length())
    # Mostly the rows of a case are in order already, and then sorting its number with the row's is all there is to do.
    order: Array = rows[np.sort((case[rows] << bits) | np.arange(len(rows))) & ((1 << bits) - 1)]
    here, there = order[:-1], order[1:]
    late = (instant[here] > instant[there]) | ((instant[here] == instant[there]) & (seq[here] > seq[there]))
    if (late & (case[here] == case[there])).any():
        order = rows[np.lexsort((place[rows], seq[rows], instant[rows], case[rows]))]
    return order


def _workflows(labels: pa.ChunkedArray, order: Array | None) -> dict[str, Int64]:
    """For each label ``workflow:…`` the rows of the log that carry it, rising."""
    encoded = _one_dictionary(labels)
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    laid = codes if order is None else codes[order]
    texts = {code: text for code, text in enumerate(encoded.dictionary.to_pylist()) if text and WORKFLOW_LABEL in text}
    marked = np.zeros(len(encoded.dictionary) + 1, bool)
    marked[list(texts)] = True
    rows = np.flatnonzero(marked[laid])
    rows = rows[np.argsort(laid[rows], kind="stable")]
    distinct, starts = np.unique(laid[rows], return_index=True)
    found: dict[str, list[Array]] = {}
    for code, members in zip(distinct.tolist(), np.split(rows, starts[1:]), strict=False):
        try:
            names = {x for x in msgspec.json.decode(texts[code], type=list[str]) if x.startswith(WORKFLOW_LABEL)}
        except msgspec.MsgspecError as error:
            raise SourceError(f"{texts[code]!r} is no list of texts in JSON: {error}", field="labels") from None
        for name in names:
            found.setdefault(name, []).append(members)
    return {label: np.sort(np.concatenate(parts)) for label, parts in found.items()}
