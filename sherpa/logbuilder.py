"""From events, one by one, to the columns of an `EventLog`."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sherpa.event import Event, Projection
from sherpa.eventlog import PROCEDURE_CODE, USER_MESSAGE, EventLog
from sherpa.instants import parse_instant
from sherpa.projection import procedure_atom, running_families


class LogBuilder:
    """Collects events case by case and codes them; used by every row-wise source."""

    def __init__(self, *, parity: bool = False) -> None:
        self._parity = parity
        self._types: dict[str, int] = {}
        self._responses: dict[str, int] = {}
        self._families: dict[str, int] = {}
        self._atoms: dict[tuple[str | None, ...], int] = {}
        self._case_ids: list[str] = []
        self._offsets = [0]
        self._codes: list[int] = []
        self._instants: list[int] = []
        self._outcomes: list[int] = []
        self._response_codes: list[int] = []
        self._procedures: list[int] = []
        self._family_codes: list[int] = []
        self._classes: list[str | None] = []

    def add(
        self,
        event_type: str,
        instant: int,
        outcome: int,
        actor: str = "agent",
        projection: Projection | None = None,
    ) -> None:
        """Append an event to the case that is being built."""
        self._codes.append(self._types.setdefault(event_type, len(self._types)))
        self._instants.append(instant)
        self._outcomes.append(outcome)
        if actor == "user":
            key = event_type.removeprefix(USER_MESSAGE)
            self._response_codes.append(self._responses.setdefault(key, len(self._responses)))
        else:
            self._response_codes.append(-1)
        signature: tuple[str | None, ...] = (event_type,)
        if projection is not None:
            signature = (
                event_type,
                projection.operation,
                projection.intent,
                projection.task_class,
                projection.artifact_class,
            )
        atom = self._atoms.get(signature)
        if atom is None:
            name = procedure_atom(event_type, *signature[1:])
            atom = self._atoms[signature] = -1 if name is None else PROCEDURE_CODE[name]
        self._procedures.append(atom)
        self._classes.append(None if projection is None else projection.task_class)

    def end_case(self, case_id: str) -> None:
        """Close the case; the next event opens another."""
        classes, self._classes = self._classes, []
        if any(classes):
            for family in running_families(classes):
                code = -1 if family is None else self._families.setdefault(family, len(self._families))
                self._family_codes.append(code)
        else:
            self._family_codes.extend([-1] * len(classes))
        self._case_ids.append(case_id)
        self._offsets.append(len(self._codes))

    def build(self) -> EventLog:
        """The log of all closed cases."""
        return EventLog.from_codes(
            np.array(self._codes, dtype=np.int32),
            np.array(self._offsets, dtype=np.int64),
            tuple(self._types),
            case_ids=self._case_ids,
            instants=np.array(self._instants, dtype=np.int64),
            outcomes=np.array(self._outcomes, dtype=np.int8),
            responses=np.array(self._response_codes, dtype=np.int32),
            response_vocabulary=tuple(self._responses),
            procedures=np.array(self._procedures, dtype=np.int8),
            families=np.array(self._family_codes, dtype=np.int32),
            family_vocabulary=tuple(self._families),
            parity=self._parity,
        )


def group_cases(events: Iterable[Event], *, parity: bool = False) -> list[tuple[str, list[Event]]]:
    """Events by case, cases in code-point order of their ids, events of a case in order."""
    cases: dict[str, list[Event]] = {}
    for event in events:
        cases.setdefault(event.case_id, []).append(event)
    return [(case_id, case_order(cases[case_id], parity=parity)) for case_id in sorted(cases)]


def case_order(events: Iterable[Event], *, parity: bool = False) -> list[Event]:
    """Events of one case in order: by instant, equal instants by arrival.

    The original compares the text of the times and breaks ties by event id (`parity`).
    """
    if parity:
        from sherpa.collation import collation_key

        return sorted(events, key=lambda e: (collation_key(e.ts), collation_key(e.event_id)))
    return sorted(events, key=lambda e: (parse_instant(e.ts), e.seq if isinstance(e.seq, int) else 0))
