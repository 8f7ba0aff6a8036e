"""EventLog: cases as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sherpa.event import Event, Projection
from sherpa.instants import NANOS_PER_MS, NO_INSTANT
from sherpa.projection import PROCEDURES, Facets, procedure_atom, token_text
from sherpa.terminal import OUTCOME_CODE, OUTCOMES, terminal_outcomes

if TYPE_CHECKING:
    import pandas as pd

Int8 = npt.NDArray[np.int8]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

USER_MESSAGE = "message.user."
PROCEDURE_CODE = {name: code for code, name in enumerate(PROCEDURES)}


@dataclass(frozen=True)
class CaseInfo:
    """What else is known of a case. The memory never reads it; rivals that compare texts do.

    Attributes
    ----------
    workflow_class : str or None
        Annotated class of the case.
    texts : tuple of str
        Texts about the whole case, among them what is only known after it has ended.
    event_texts : tuple of tuple of str
        Texts of each event.
    risks : tuple of str
        Annotated risks of all steps, in order.
    """

    workflow_class: str | None = None
    texts: tuple[str, ...] = ()
    event_texts: tuple[tuple[str, ...], ...] = ()
    risks: tuple[str, ...] = ()


NO_INFO = CaseInfo()


@dataclass(frozen=True, eq=False)
class TokenView:
    """The events of a log as tokens of one level: `tokens[codes[i]]` is the token of event i.

    `rank[t]` is 0 for a token that shows the type alone, 1 with a procedure, 2 with a family.
    """

    tokens: tuple[str, ...]
    codes: Int32
    rank: Int8


@dataclass(frozen=True, eq=False)
class EventLog:
    """An event log in columns; events of a case are adjacent and in order.

    Attributes
    ----------
    vocabulary : tuple of str
        Event types.
    codes : int32 array (events,)
        Index into the vocabulary.
    offsets : int64 array (cases + 1,)
        Case c holds the events ``offsets[c]:offsets[c + 1]``.
    case_ids : tuple of str
    instants : int64 array (events,)
        Nanoseconds since the epoch; `NO_INSTANT` where the time is unknown.
    outcomes : int8 array (events,)
        0 unknown, 1 success, 2 failure.
    terminal : int8 array (cases,)
        Terminal outcome by the rules of `sherpa.terminal`.
    responses : int32 array (events,)
        For an event of the user the index into `response_vocabulary`, else -1.
    procedures, families : int8 array, int32 array (events,)
        Index into `PROCEDURES` and `family_vocabulary`; -1 for none.
    parity : bool
        Terminal outcomes follow the original.
    info : tuple of CaseInfo
        What else is known of each case; empty if nothing is.
    """

    vocabulary: tuple[str, ...]
    codes: Int32
    offsets: Int64
    case_ids: tuple[str, ...]
    instants: Int64
    outcomes: Int8
    terminal: Int8
    responses: Int32
    response_vocabulary: tuple[str, ...]
    procedures: Int8
    families: Int32
    family_vocabulary: tuple[str, ...] = ()
    parity: bool = False
    info: tuple[CaseInfo, ...] = ()
    _views: dict[str, TokenView] = field(default_factory=dict, repr=False)

    # -- construction ------------------------------------------------------------------------------------------

    @classmethod
    def from_codes(
        cls,
        codes: npt.ArrayLike,
        offsets: npt.ArrayLike,
        vocabulary: Sequence[str],
        *,
        case_ids: Sequence[str] | None = None,
        instants: npt.ArrayLike | None = None,
        outcomes: npt.ArrayLike | None = None,
        responses: npt.ArrayLike | None = None,
        response_vocabulary: Sequence[str] = (),
        procedures: npt.ArrayLike | None = None,
        families: npt.ArrayLike | None = None,
        family_vocabulary: Sequence[str] = (),
        parity: bool = False,
    ) -> EventLog:
        """A log from its columns (see the attributes); what is not given is unknown.

        Raises
        ------
        ValueError
            If a code lies outside the vocabulary, or the offsets do not run from 0 to the number of events.
        """
        wide = np.asarray(codes)
        if wide.size and (wide.ndim != 1 or wide.min() < 0 or wide.max() >= len(vocabulary)):
            raise ValueError("codes must be one-dimensional and lie inside the vocabulary")
        code = np.ascontiguousarray(wide, dtype=np.int32)
        offset = np.ascontiguousarray(offsets, dtype=np.int64)
        size = len(code)
        if len(offset) == 0 or offset[0] != 0 or offset[-1] != size or (np.diff(offset) < 0).any():
            raise ValueError("offsets must rise from 0 to the number of events")
        if len(set(vocabulary)) != len(vocabulary):
            raise ValueError("the vocabulary names a type twice")
        ids = tuple(case_ids) if case_ids is not None else tuple(f"case-{i}" for i in range(len(offset) - 1))
        if len(ids) != len(offset) - 1:
            raise ValueError(f"{len(ids)} case ids for {len(offset) - 1} cases")

        def column(values: npt.ArrayLike | None, dtype: Any, fill: int) -> npt.NDArray[Any]:
            if values is None:
                return np.full(size, fill, dtype=dtype)
            array = np.ascontiguousarray(values, dtype=dtype)
            if array.shape != (size,):
                raise ValueError(f"a column has shape {array.shape}, not ({size},)")
            return array

        outcome = column(outcomes, np.int8, 0)
        if procedures is None:
            by_type = [PROCEDURE_CODE.get(procedure_atom(t) or "", -1) for t in vocabulary]
            procedures = np.array(by_type, dtype=np.int8)[code] if size else np.empty(0, np.int8)
        return cls(
            vocabulary=tuple(vocabulary),
            codes=code,
            offsets=offset,
            case_ids=ids,
            instants=column(instants, np.int64, NO_INSTANT),
            outcomes=outcome,
            terminal=terminal_outcomes(vocabulary, code, offset, outcome, parity=parity),
            responses=column(responses, np.int32, -1),
            response_vocabulary=tuple(response_vocabulary),
            procedures=column(procedures, np.int8, -1),
            families=column(families, np.int32, -1),
            family_vocabulary=tuple(family_vocabulary),
            parity=parity,
        )

    @classmethod
    def from_events(cls, cases: Iterable[tuple[str, Sequence[Event]]], *, parity: bool = False) -> EventLog:
        """A log from cases whose events are already in order."""
        from sherpa.logbuilder import LogBuilder

        builder = LogBuilder(parity=parity)
        for case_id, events in cases:
            for event in events:
                builder.add(
                    event.type,
                    event.instant,
                    OUTCOME_CODE[event.outcome],
                    event.actor,
                    event.projection if isinstance(event.projection, Projection) else None,
                )
            builder.end_case(case_id)
        return builder.build()

    @classmethod
    def from_ledger(cls, events: Iterable[Event], *, parity: bool = False) -> EventLog:
        """A log from events in any order: inside a case by instant, then by sequence number (`case_order`)."""
        from sherpa.logbuilder import group_cases

        return cls.from_events(group_cases(events, parity=parity), parity=parity)

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        case: str = "case_id",
        activity: str = "activity",
        timestamp: str | None = "timestamp",
        outcome: str | None = None,
    ) -> EventLog:
        """A log from a data frame with one row per event.

        Cases come in the order of their first row; inside a case events are sorted by time, and rows with equal or
        missing times keep their order.

        Raises
        ------
        KeyError
            If a named column is absent.
        ValueError
            If a case or an activity is missing in some row.
        """
        from sherpa.sources.frame import log_from_frame

        return log_from_frame(frame, case=case, activity=activity, timestamp=timestamp, outcome=outcome)

    @classmethod
    def from_csv(cls, path: str | Path, **options: Any) -> EventLog:
        """A log from a CSV file, plain or gzipped; see `sherpa.sources.csv.read_csv`."""
        from sherpa.sources.csv import read_csv

        return read_csv(Path(path), **options)

    @classmethod
    def from_xes(cls, path: str | Path, **options: Any) -> EventLog:
        """A log from an XES file, plain or gzipped; see `sherpa.sources.xes.read_xes`."""
        from sherpa.sources.xes import read_xes

        return read_xes(Path(path), **options)[0]

    # -- access ------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Number of cases."""
        return len(self.offsets) - 1

    @property
    def events(self) -> int:
        """Number of events."""
        return len(self.codes)

    @property
    def case_of(self) -> Int64:
        """Index of the case of every event: int array (events,)."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.offsets))

    @property
    def occurring(self) -> tuple[str, ...]:
        """Types that occur in a case, by code; the vocabulary of a part of a log may hold more."""
        return tuple(self.vocabulary[code] for code in np.unique(self.codes).tolist())

    def __getitem__(self, index: int) -> Case:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return Case(self, index, int(self.offsets[index]), int(self.offsets[index + 1]))

    def __iter__(self) -> Iterator[Case]:
        bounds = self.offsets.tolist()
        for index in range(len(self)):
            yield Case(self, index, bounds[index], bounds[index + 1])

    def subset(self, indices: Sequence[int] | Int64) -> EventLog:
        """The log of the named cases, in the given order, on the same vocabulary."""
        chosen = np.asarray(indices, dtype=np.int64)
        lengths = np.diff(self.offsets)[chosen]
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        rows = np.repeat(self.offsets[:-1][chosen] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return replace(
            self,
            codes=self.codes[rows],
            offsets=offsets,
            case_ids=tuple(self.case_ids[i] for i in chosen.tolist()),
            instants=self.instants[rows],
            outcomes=self.outcomes[rows],
            terminal=self.terminal[chosen],
            responses=self.responses[rows],
            procedures=self.procedures[rows],
            families=self.families[rows],
            info=tuple(self.info[i] for i in chosen.tolist()) if self.info else (),
            _views={},
        )

    def view(self, level: str) -> TokenView:
        """The tokens of a level: ``raw``, ``procedure`` or ``family-procedure``."""
        view = self._views.get(level)
        if view is None:
            view = self._views[level] = self._make_view(level)
        return view

    def _make_view(self, level: str) -> TokenView:
        if level == "raw":
            return self._types_in_use()
        procedure = self.procedures.astype(np.int64)
        family = self.families.astype(np.int64) if level == "family-procedure" else np.full(self.events, -1, np.int64)
        width, height = len(PROCEDURES) + 1, len(self.family_vocabulary) + 1
        packed = (self.codes * np.int64(width) + procedure + 1) * height + family + 1
        distinct, codes = np.unique(packed, return_inverse=True)
        tokens, rank = [], []
        for value in distinct.tolist():
            rest, f = divmod(value, height)
            code, p = divmod(rest, width)
            tokens.append(
                token_text(
                    self.vocabulary[code],
                    self.family_vocabulary[f - 1] if f else None,
                    PROCEDURES[p - 1] if p else None,
                )
            )
            rank.append(2 if f else 1 if p else 0)
        return TokenView(tuple(tokens), codes.astype(np.int32), np.array(rank, dtype=np.int8))

    def _types_in_use(self) -> TokenView:
        """The types that occur, each as its own token."""
        used = np.bincount(self.codes, minlength=len(self.vocabulary)) > 0
        tokens = tuple(name for name, occurs in zip(self.vocabulary, used.tolist(), strict=True) if occurs)
        codes = self.codes if used.all() else (np.cumsum(used) - 1).astype(np.int32)[self.codes]
        return TokenView(tokens, codes, np.zeros(len(tokens), np.int8))


@dataclass(frozen=True, slots=True)
class Case:
    """The events ``start:stop`` of one case of a log; a prefix is a case too."""

    log: EventLog
    index: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def case_id(self) -> str:
        return self.log.case_ids[self.index]

    @property
    def info(self) -> CaseInfo:
        """What else is known of the case."""
        return self.log.info[self.index] if self.log.info else NO_INFO

    def prefix(self, length: int) -> Case:
        """The first `length` events."""
        if not 0 <= length <= len(self):
            raise ValueError(f"a prefix of {length} events does not exist in a case of {len(self)}")
        return Case(self.log, self.index, self.start, self.start + length)

    @property
    def types(self) -> tuple[str, ...]:
        vocabulary = self.log.vocabulary
        return tuple(vocabulary[c] for c in self.log.codes[self.start : self.stop].tolist())

    @property
    def last_type(self) -> str | None:
        """Type of the last event, None in an empty prefix."""
        return self.log.vocabulary[int(self.log.codes[self.stop - 1])] if len(self) else None

    def tokens(self, level: str, last: int | None = None) -> tuple[str, ...]:
        """The tokens of a level (see `EventLog.view`), or the `last` ones of them, oldest first."""
        view = self.log.view(level)
        low = self.start if last is None else max(self.start, self.stop - last)
        return tuple(view.tokens[c] for c in view.codes[low : self.stop].tolist())

    @property
    def terminal(self) -> int:
        """Terminal outcome of what this view holds (of the prefix, for a prefix)."""
        log = self.log
        if self.start == log.offsets[self.index] and self.stop == log.offsets[self.index + 1]:
            return int(log.terminal[self.index])
        codes = log.codes[self.start : self.stop]
        bounds = np.array([0, len(self)], dtype=np.int64)
        outcomes = log.outcomes[self.start : self.stop]
        return int(terminal_outcomes(log.vocabulary, codes, bounds, outcomes, parity=log.parity)[0])

    @property
    def outcome(self) -> str:
        return OUTCOMES[self.terminal]

    def recent(self, length: int) -> list[Facets]:
        """The last `length` events as facets, oldest first."""
        log, low = self.log, max(self.start, self.stop - length)
        return [
            Facets(
                log.vocabulary[c],
                PROCEDURES[p] if p >= 0 else None,
                log.family_vocabulary[f] if f >= 0 else None,
            )
            for c, p, f in zip(
                log.codes[low : self.stop].tolist(),
                log.procedures[low : self.stop].tolist(),
                log.families[low : self.stop].tolist(),
                strict=True,
            )
        ]

    def as_log(self) -> EventLog:
        """A log of this one case."""
        log, rows = self.log, slice(self.start, self.stop)
        return replace(
            log,
            codes=log.codes[rows],
            offsets=np.array([0, len(self)], dtype=np.int64),
            case_ids=(self.case_id,),
            instants=log.instants[rows],
            outcomes=log.outcomes[rows],
            terminal=np.array([self.terminal], dtype=np.int8),
            responses=log.responses[rows],
            procedures=log.procedures[rows],
            families=log.families[rows],
            info=(self.info,) if log.info else (),
            _views={},
        )

    def fingerprint(self) -> bytes:
        """Equal for cases with equal id and equal events."""
        log, rows = self.log, slice(self.start, self.stop)
        parts = [
            repr((self.case_id, self.types, self.terminal, self.recent(len(self)))).encode(),
            log.instants[rows].tobytes(),
            log.outcomes[rows].tobytes(),
            repr([log.response_vocabulary[r] if r >= 0 else None for r in log.responses[rows].tolist()]).encode(),
        ]
        return b"\0".join(parts)


def each_case(cases: EventLog | Case | Iterable[Case]) -> Iterable[Case]:
    """The cases of a log, or the one case."""
    return (cases,) if isinstance(cases, Case) else cases


def milliseconds(instants: Int64) -> Int64:
    """Whole milliseconds since the epoch of instants in nanoseconds."""
    return instants // NANOS_PER_MS


def concatenate(logs: Sequence[EventLog]) -> EventLog:
    """One log of all cases of the given logs, in order."""
    if len(logs) == 1:
        return logs[0]
    if not logs:
        return EventLog.from_codes([], [0], ())

    def union(names: Iterable[Sequence[str]]) -> tuple[dict[str, int], list[npt.NDArray[np.int64]]]:
        known: dict[str, int] = {}
        maps = [np.array([known.setdefault(n, len(known)) for n in part], dtype=np.int64) for part in names]
        return known, maps

    def recode(codes: npt.NDArray[Any], mapping: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        recoded: npt.NDArray[Any] = np.append(mapping, -1)[codes]
        return recoded

    types, type_maps = union(log.vocabulary for log in logs)
    responses, response_maps = union(log.response_vocabulary for log in logs)
    families, family_maps = union(log.family_vocabulary for log in logs)
    sizes = np.cumsum([0, *(log.events for log in logs)])
    parts: Mapping[str, npt.NDArray[Any]] = {
        "codes": np.concatenate([recode(g.codes, m) for g, m in zip(logs, type_maps, strict=True)]),
        "responses": np.concatenate([recode(g.responses, m) for g, m in zip(logs, response_maps, strict=True)]),
        "families": np.concatenate([recode(g.families, m) for g, m in zip(logs, family_maps, strict=True)]),
        "offsets": np.concatenate(
            [[0], *(g.offsets[1:] + base for g, base in zip(logs, sizes.tolist(), strict=False))]
        ),
    }
    return EventLog(
        vocabulary=tuple(types),
        codes=parts["codes"].astype(np.int32),
        offsets=parts["offsets"].astype(np.int64),
        case_ids=tuple(case_id for log in logs for case_id in log.case_ids),
        instants=np.concatenate([log.instants for log in logs]),
        outcomes=np.concatenate([log.outcomes for log in logs]),
        terminal=np.concatenate([log.terminal for log in logs]),
        responses=parts["responses"].astype(np.int32),
        response_vocabulary=tuple(responses),
        procedures=np.concatenate([log.procedures for log in logs]),
        families=parts["families"].astype(np.int32),
        family_vocabulary=tuple(families),
        parity=logs[0].parity,
        info=tuple(case.info for log in logs for case in log) if any(log.info for log in logs) else (),
    )
