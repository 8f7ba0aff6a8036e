"""Which column or attribute of a file holds what, and the words that name an outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sherpa.errors import SourceError
from sherpa.terminal import FAILURE, SUCCESS, UNKNOWN

_ALIASES: dict[str, tuple[str, ...]] = {
    "case": ("caseId", "case_id", "case:concept:name", "CaseID", "Case ID", "case"),
    "type": ("type", "activity", "concept:name", "Activity", "event_type"),
    "timestamp": ("ts", "timestamp", "time:timestamp", "Timestamp", "Complete Timestamp", "time"),
    "outcome": ("outcome",),
    "actor": ("actor",),
    "source": ("source",),
    "agent": ("agentId", "agent_id"),
}
_FLAG = {name: f"--{name}-field" for name in _ALIASES}

_WORDS = dict.fromkeys(("success", "completed", "complete", "done", "passed", "pass"), SUCCESS)
_WORDS.update(dict.fromkeys(("failure", "failed", "error", "blocked", "cancelled", "canceled"), FAILURE))


@dataclass(frozen=True)
class FieldNames:
    """Names given by the user; None means: find it among the usual names."""

    case: str | None = None
    type: str | None = None
    timestamp: str | None = None
    outcome: str | None = None
    actor: str | None = None
    source: str | None = None
    agent: str | None = None

    def resolve(self, columns: Sequence[str], file: str) -> dict[str, str]:
        """The column of each field that is there.

        Raises
        ------
        SourceError
            If a named column is absent, or no column can be the case or the type.
        """
        found: dict[str, str] = {}
        for field, aliases in _ALIASES.items():
            named: str | None = getattr(self, field)
            if named is not None:
                if named not in columns:
                    raise SourceError(
                        f"there is no column {named!r}; the columns are {_list(columns)}", file=file, field=field
                    )
                found[field] = named
                continue
            match = next((alias for alias in aliases if alias in columns), None)
            if match is not None:
                found[field] = match
            elif field in ("case", "type"):
                raise SourceError(
                    f"no column holds the {field} ({', '.join(aliases[:3])} …); the columns are {_list(columns)}; "
                    f"name it with {_FLAG[field]}",
                    file=file,
                    field=field,
                )
        return found

    def member(self, field: str, record: Mapping[str, Any]) -> Any:
        """The value of a field in one JSON record: under the name given, else under a usual name; None if absent."""
        named: str | None = getattr(self, field)
        names = _ALIASES[field] if named is None else (named,)
        return next((record[name] for name in names if record.get(name) is not None), None)


def _list(columns: Sequence[str]) -> str:
    shown = ", ".join(repr(c) for c in columns[:12])
    return shown + (" …" if len(columns) > 12 else "")


def outcome_code(word: str | None) -> int:
    """0 unknown, 1 success, 2 failure for a word such as ``completed`` or ``error``, in any case."""
    return _WORDS.get(word.strip().lower(), UNKNOWN) if word else UNKNOWN
