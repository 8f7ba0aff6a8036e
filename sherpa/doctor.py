"""Doctor: reads the ledger, compares it with the graph, and names every kind of damage. It changes nothing.

It opens the files itself and not through `ProceduralMemory`, which repairs as it opens and refuses what it cannot use.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from sherpa.config import EngineConfig
from sherpa.derive import DERIVED, rebuild
from sherpa.errors import SherpaError
from sherpa.event import Event
from sherpa.instants import NANOS_PER_MS, format_instant
from sherpa.ledger import Ledger, LedgerReport
from sherpa.store import SCHEMA_VERSION, TABLES, GraphStore

Level = Literal["ok", "warning", "error"]
_SEGMENT = re.compile(r"\d{4}-\d{2}-\d{2}\.jsonl")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_OURS = frozenset({".lock", "forgotten.tombstones"})
_SHOWN = 5
LEAST_FREE = 64 * 2**20
"""Free bytes on the disk below which writes are likely to fail soon."""
TOLERATED = 5 * 60 * 1000 * NANOS_PER_MS
"""An event this far in the future is put down to clocks that differ a little."""


@dataclass(frozen=True)
class Finding:
    """One check.

    Attributes
    ----------
    check : str
        What was looked at.
    level : str
        ``ok``, ``warning`` (nothing is lost, but somebody should look) or ``error``.
    found : str
    advice : str
        What to do; empty if nothing.
    """

    check: str
    level: Level
    found: str
    advice: str = ""


def diagnose(root: Path, *, now: int, free: Callable[[Path], int] | None = None) -> dict[str, Any]:
    """Every check of a memory.

    Parameters
    ----------
    root : Path
    now : int
        Present time in nanoseconds since the epoch.
    free : callable, optional
        Free bytes at a path; by default those of its disk.

    Returns
    -------
    dict
        `healthy` (no error), `checks` with `level`, `found` and `advice`.
    """
    findings = list(_findings(root, now, free or (lambda path: shutil.disk_usage(path).free)))
    return {
        "root": str(root),
        "healthy": all(finding.level != "error" for finding in findings),
        "errors": sum(finding.level == "error" for finding in findings),
        "warnings": sum(finding.level == "warning" for finding in findings),
        "checks": [msgspec.to_builtins(finding) for finding in findings],
    }


def _findings(root: Path, now: int, free: Callable[[Path], int]) -> Iterator[Finding]:
    if not root.is_dir():
        yield Finding("root", "error", f"{root} is no folder", "name the memory's folder with --root")
        return
    yield _access(root)
    yield _space(free(root))
    events = root / "events"
    if not events.is_dir():
        level: Level = "error" if (root / "graph.db").exists() else "warning"
        yield Finding("ledger", level, "there is no folder events", "restore it from a backup; the graph is derived")
        return
    yield from _folder(events)
    ledger = Ledger(events)
    report = LedgerReport()
    try:
        held = list(ledger.read(None, report))
    except OSError as error:
        yield Finding("ledger", "error", f"cannot be read: {error.strerror or error}", "check owner and mode")
        return
    yield from _ledger(ledger, held, report, now)
    yield from _graph(root / "graph.db", ledger, held)


def _access(root: Path) -> Finding:
    closed = [path for path in (root, *root.rglob("*")) if not _usable(path)]
    if closed:
        return Finding("permissions", "error", f"no access to {_some(map(str, closed))}", "check owner and mode")
    return Finding("permissions", "ok", "everything can be read and written")


def _usable(path: Path) -> bool:
    mode = path.stat().st_mode
    # The superuser may do everything, so the mode itself is looked at too.
    return os.access(path, os.R_OK | os.W_OK) and bool(mode & 0o400) and bool(mode & 0o200)


def _space(free: int) -> Finding:
    found = f"{free / 2**20:,.0f} MiB are free"
    if free < LEAST_FREE:
        return Finding("disk", "error", found, "make room: events that cannot be written are refused")
    return Finding("disk", "ok", found)


def _folder(events: Path) -> Iterator[Finding]:
    foreign = [p.name for p in sorted(events.iterdir()) if not _SEGMENT.fullmatch(p.name) and p.name not in _OURS]
    shards = [name for name in foreign if name.endswith(".jsonl")]
    others = [name for name in foreign if not name.endswith(".jsonl")]
    if shards:
        yield Finding(
            "segments", "warning", f"{_some(shards)}: read, but not written by this program", "move copies elsewhere"
        )
    if others:
        yield Finding("foreign files", "warning", f"{_some(others)}: not part of a ledger", "move them elsewhere")
    if not foreign:
        yield Finding("segments", "ok", "only segments of days")


def _ledger(ledger: Ledger, held: list[Event], report: LedgerReport, now: int) -> Iterator[Finding]:
    if report.malformed:
        lines = _some(str(line) for line in report.malformed)
        yield Finding(
            "ledger lines", "error", f"{len(report.malformed)} cannot be read: {lines}", "mend or delete these lines"
        )
    else:
        yield Finding("ledger lines", "ok", f"{report.events} events")
    torn = [s.name for s in ledger.segments() if ledger.positions()[s.name] != s.stat().st_size]
    if torn:
        yield Finding("torn tails", "warning", f"{_some(torn)} ends in half a line", "the next write cuts it off")
    if report.duplicates:
        yield Finding(
            "duplicate events", "error", f"{report.duplicates} event ids occur again", "remove the copied segment"
        )
    pending = len(ledger.tombstones.pending())
    if pending:
        yield Finding("forgetting", "warning", f"{pending} removals are not finished", "open the memory once")
    latest = max((event.instant for event in held), default=now)
    if latest > now + TOLERATED:
        yield Finding(
            "clock", "warning", f"events until {format_instant(latest)}, which is yet to come", "check the clock"
        )
    back = _backwards(held)
    if back:
        yield Finding(
            "clock", "warning", f"{back} times a later event has an earlier time of its case", "check the clock"
        )
    odd = sorted({event.case_id for event in held if _CONTROL.search(event.case_id)})
    if odd:
        yield Finding("case ids", "warning", f"control characters in {_some(map(repr, odd))}", "mend what names cases")


def _backwards(held: list[Event]) -> int:
    """How often a case's next event in order of arrival is earlier than the one before."""
    last: dict[str, int] = {}
    times = 0
    for event in sorted(held, key=lambda event: event.seq if isinstance(event.seq, int) else 0):
        times += event.instant < last.get(event.case_id, event.instant)
        last[event.case_id] = max(event.instant, last.get(event.case_id, event.instant))
    return times


_REBUILD = "move graph.db away and run `sherpa rebuild`: it is derived from the ledger"


def _graph(path: Path, ledger: Ledger, held: list[Event]) -> Iterator[Finding]:
    if not path.exists():
        if held:
            yield Finding("graph", "error", "there is none", "run `sherpa rebuild`")
        return
    try:
        # Read-only, so that not even the log beside it is written.
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error as error:
        yield Finding("graph", "error", f"cannot be opened: {error}", _REBUILD)
        return
    try:
        yield from _database(database, ledger, held)
    except sqlite3.Error as error:
        yield Finding("graph", "error", f"is damaged: {error}", _REBUILD)
    finally:
        database.close()


def _database(database: sqlite3.Connection, ledger: Ledger, held: list[Event]) -> Iterator[Finding]:
    version = database.execute("PRAGMA user_version").fetchone()[0]
    tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if version > SCHEMA_VERSION:
        yield Finding(
            "graph schema",
            "error",
            f"version {version}; this program knows {SCHEMA_VERSION}",
            "use the newer program, or move graph.db away and run `sherpa rebuild`",
        )
        return
    if version != SCHEMA_VERSION and tables.isdisjoint(TABLES):
        yield Finding("graph", "error", "is a database of something else", _REBUILD)
        return
    missing = [table for table in TABLES if table not in tables]
    if missing:
        yield Finding("graph tables", "error", f"{_some(missing)} missing", _REBUILD)
        return
    problems = [row[0] for row in database.execute("PRAGMA integrity_check(5)")]
    if problems != ["ok"]:
        yield Finding("graph", "error", f"is damaged: {problems[0]}", _REBUILD)
        return
    yield from _agrees(database, ledger, held)


def _agrees(database: sqlite3.Connection, ledger: Ledger, held: list[Event]) -> Iterator[Finding]:
    metadata = dict(database.execute("SELECT key, value FROM metadata"))
    positions = json.loads(metadata.get("ledgerPositions", "null"))
    if positions != ledger.positions():
        yield Finding("graph freshness", "warning", "is behind the ledger", "opening the memory brings it up to date")
        return
    try:
        config = msgspec.json.decode(metadata["engineConfig"], type=EngineConfig)
    except (KeyError, msgspec.MsgspecError, SherpaError) as error:
        yield Finding("graph configuration", "error", f"cannot be read: {error}", _REBUILD)
        return
    differing = []
    with tempfile.TemporaryDirectory() as folder, GraphStore(Path(folder) / "graph.db") as fresh:
        with fresh.transaction() as db:
            rebuild(db, held, config)
        for table in DERIVED:
            ours = Counter(database.execute(f"SELECT * FROM {table}").fetchall())
            if ours != Counter(fresh.rows(table)):
                differing.append(table)
    if differing:
        yield Finding("graph", "error", f"{_some(differing)} differ from the ledger", "run `sherpa doctor --fix`")
    else:
        yield Finding("graph", "ok", "is what the ledger gives")


def _some(names: Any) -> str:
    found = list(names)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more
