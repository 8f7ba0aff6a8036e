"""ProceduralMemory: ledger and graph behind one object (the SDK)."""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from sherpa.answers import WorkflowNext, WorkflowOutcomes, WorkflowRecall, WorkflowState
from sherpa.config import EngineConfig
from sherpa.errors import ConfigError, LedgerError, StoreError, UnknownCaseError
from sherpa.event import Event, Projection, read_event
from sherpa.finding import Finding
from sherpa.instants import NANOS_PER_MS, format_instant, format_milliseconds, parse_instant
from sherpa.ledger import Appended, Ledger, LedgerReport
from sherpa.projection.ontology import procedure_atom, running_families
from sherpa.projection.states import Facets
from sherpa.queries import (
    RecallMode,
    workflow_next,
    workflow_outcomes,
    workflow_outlook,
    workflow_recall,
    workflow_state,
)
from sherpa.store import REMOVALS, GraphStore, to_json_text
from sherpa.tallies import counted, keep

if TYPE_CHECKING:
    from sherpa.advisory import Advice
    from sherpa.configuration import AdvisoryOptions
    from sherpa.estimators.live import LiveEstimator

_COUNTED = ("max_order", "state_strategy", "allow_raw_fallback", "parity", "default_order", "require_projection")
_BULK = 1_000
"""Beyond this, and beyond what the graph holds, deriving everything again is cheaper than case by case."""
_POSITIONS = "ledgerPositions"
_CONFIG = "engineConfig"
EXPORTS = "export"
ADVISED = "advisedAt:"
"""Keys of the table ``metadata`` that tell when a case was advised last."""
KEPT_EXPORTS = 10


class ProceduralMemory:
    """What an agent's recurring work looks like, learned from its events.

    Parameters
    ----------
    root : path
        Folder of the memory: ``events/`` (the ledger, the truth) and ``graph.db`` (derived).
    config : EngineConfig, optional
        Without it the configuration that the graph was built with, or the defaults for a new root.
    overrides : mapping, optional
        Single options that replace those of the configuration, for instance ``{"min_support": 1}``.
    clock : callable
        Present time in nanoseconds since the epoch.
    new_id : callable
        Fresh event ids.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as root, ProceduralMemory(root) as memory:
    ...     for case in ("monday", "tuesday"):
    ...         for name in ("task.started", "tests.run", "task.completed"):
    ...             _ = memory.ingest({"caseId": case, "source": "ci", "type": name})
    ...     _ = memory.ingest({"caseId": "today", "source": "ci", "type": "task.started"})
    ...     memory.workflow_next("today").candidates[0].event
    'tests.run'
    """

    def __init__(
        self,
        root: str | Path,
        config: EngineConfig | None = None,
        *,
        overrides: dict[str, Any] | None = None,
        clock: Callable[[], int] = time.time_ns,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self.root = Path(root)
        if self.root.exists() and not self.root.is_dir():
            raise StoreError(f"{self.root}: is a file; --root names a folder")
        self.ledger = Ledger(self.root / "events")
        self.store = GraphStore(self.root / "graph.db")
        self._finding = Finding(self.store)
        self._live: tuple[Any, LiveEstimator] | None = None
        self._clock = clock
        self._new_id = new_id
        try:
            self.config = _with(config or self._stored_config() or EngineConfig(), overrides or {})
            self.last_report = LedgerReport()
            self.sync()
        except BaseException:
            self.store.close()
            raise

    def close(self) -> None:
        """Release the database."""
        self.store.close()

    def __enter__(self) -> ProceduralMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- writing -----------------------------------------------------------------------------------------------

    def ingest(self, event: Event | dict[str, Any]) -> Event:
        """Store one event and bring the graph up to date.

        Returns
        -------
        Event
            As stored. If its id was there already, the event that was stored under it.

        Raises
        ------
        EventError, LedgerError
        """
        appended = self.ingest_batch([event])
        if appended.events:
            return appended.events[0]
        return self.stored(event.event_id if isinstance(event, Event) else str(event["eventId"]))

    def stored(self, event_id: str) -> Event:
        """An event that was stored before, by its id.

        Raises
        ------
        LedgerError
            If it cannot be read.
        """
        event = self.store.event(event_id)
        if event is None:
            raise LedgerError(f"event {event_id!r} is in the ledger, but cannot be read there; run `sherpa rebuild`")
        return event

    def ingest_batch(self, events: Sequence[Event | dict[str, Any]]) -> Appended:
        """Store several events, all or (if one is invalid) none, and bring the graph up to date.

        Returns
        -------
        Appended
            The stored events with their sequence numbers, and how many were there already.
        """
        where = "event" if len(events) == 1 else "event {}"
        checked = [
            read_event(raw, clock=self._clock, new_id=self._new_id, where=where.format(i))
            for i, raw in enumerate(events, start=1)
        ]
        if not checked:
            return Appended((), 0)
        if self.config.require_projection:
            for event in checked:
                self._check_projection(event)
        with self.ledger.writing():
            self._catch_up()
            appended = self.ledger.append(checked, known=self.store.known_ids)
            self._catch_up()
        return appended

    def rebuild(self) -> dict[str, Any]:
        """Derive the graph from the whole ledger again, in one transaction; returns the status."""
        with self.ledger.writing():
            self._rebuild()
        return self.status()

    def forget(self, case_id: str) -> dict[str, Any]:
        """Remove a case from ledger, graph and exports, and leave a tombstone that holds no byte of it.

        The database gives the bytes back with `gc`. A removal that is interrupted is finished by the next opening.

        Raises
        ------
        UnknownCaseError
        """
        from sherpa.capture.queue import CaptureQueue
        from sherpa.derive import NeedsRebuild, remove_case

        # What waits in the queue of capture would bring the case back.
        queue = CaptureQueue(self.root / "queue")
        queue.flush(self.ingest_batch)
        with self.ledger.writing():
            self._catch_up()
            events = len(self.store.case_types(case_id))
            if not events:
                raise UnknownCaseError(f"no case {case_id!r} is known")
            exports = [path for path in self.exports() if _mentions(path, case_id)]
            for path in (*exports, *(path for path in queue.routes.glob("*.json") if _mentions(path, case_id))):
                path.unlink()
            self._finding.discard()
            with self.store.transaction() as db:
                db.execute("DELETE FROM metadata WHERE key = ?", (f"{ADVISED}{case_id}",))
            self.ledger.forget(case_id, at=format_milliseconds(self._clock()), salt=self._new_id())
            metadata, report = self.store.metadata(), LedgerReport()
            try:
                with self.store.transaction() as db:
                    remove_case(self.store, db, case_id, self.config)
                    db.execute(
                        "INSERT INTO metadata VALUES (?, '1') "
                        "ON CONFLICT (key) DO UPDATE SET value = CAST(value AS INTEGER) + 1",
                        (REMOVALS,),
                    )
                    rebuilds = int(metadata.get("rebuildCount", 0))
                    self._write_metadata(db, self.ledger.positions(), report, rebuilds, metadata, report)
            except NeedsRebuild:
                self._rebuild()
            # Another process may have made it from the graph as it was.
            self._finding.discard()
        return {"removedEvents": events, "removedExports": [str(path) for path in exports]}

    def sync(self) -> None:
        """Bring the graph up to date with the ledger, if it is not and nobody else is writing."""
        pending = bool(self.ledger.tombstones.pending())
        if self._is_current() and not pending:
            return
        try:
            with self.ledger.writing(wait=False):
                if pending:
                    self.ledger.finish_forgetting()
                self._catch_up()
        except LedgerError:
            # Another process is writing and will bring it up to date; until then the old graph is whole.
            return

    def _is_current(self) -> bool:
        metadata = self.store.metadata()
        if _CONFIG not in metadata:
            return not self.ledger.segments()
        return json.loads(metadata[_POSITIONS]) == self.ledger.positions() and not self._needs_recount(metadata)

    def _needs_recount(self, metadata: dict[str, str]) -> bool:
        stored = _decode_config(metadata[_CONFIG])
        return any(getattr(stored, name) != getattr(self.config, name) for name in _COUNTED)

    def _catch_up(self) -> None:
        from sherpa.derive import NeedsRebuild, increment

        metadata = self.store.metadata()
        positions = self.ledger.positions()
        if _CONFIG not in metadata or self._needs_recount(metadata):
            return self._rebuild()
        held: dict[str, int] = json.loads(metadata[_POSITIONS])
        if held == positions:
            return None
        if any(positions.get(name, -1) < size for name, size in held.items()):
            # A segment shrank or is gone: the graph knows events that the ledger does not.
            return self._rebuild()
        report = LedgerReport()
        events = sorted(self.ledger.read(held, report, positions), key=lambda e: e.seq if isinstance(e.seq, int) else 0)
        try:
            with self.store.transaction() as db:
                increment(self.store, db, events, self.config)
                self._write_metadata(db, positions, report, int(metadata.get("rebuildCount", 0)), metadata, report)
        except NeedsRebuild:
            self._rebuild()
        return None

    def _rebuild(self) -> None:
        from sherpa.derive import rebuild, rebuild_in_bulk

        config = self.config
        if config.state_strategy == "raw" and not config.parity and not config.require_projection:
            with suppress(sqlite3.IntegrityError):  # an id stands twice: the slower way knows what to do
                self._replace(lambda db, upto, report: rebuild_in_bulk(db, self.ledger.batches(report, upto), config))
                return

        def one_by_one(db: sqlite3.Connection, upto: dict[str, int], report: LedgerReport) -> None:
            events: Iterable[Event] = self.ledger.read(None, report, upto)
            if config.require_projection:
                events = [self._check_projection(event) for event in events]
            rebuild(db, events, config)

        self._replace(one_by_one)

    def _replace(self, derive: Callable[[sqlite3.Connection, dict[str, int], LedgerReport], None]) -> None:
        """Derive every table again, in one transaction."""
        metadata, positions, report = self.store.metadata(), self.ledger.positions(), LedgerReport()
        now = self._clock()
        with self.store.transaction() as db:
            derive(db, positions, report)
            keep(db, counted(db))
            fresh = {**metadata, "lastRebuildAt": format_milliseconds(now)}
            self._write_metadata(db, positions, report, int(metadata.get("rebuildCount", 0)) + 1, fresh, None)
        self.last_report = report

    def _write_metadata(
        self,
        db: sqlite3.Connection,
        positions: dict[str, int],
        report: LedgerReport,
        rebuilds: int,
        former: dict[str, str],
        added: LedgerReport | None,
    ) -> None:
        config = self.config
        corrupt, duplicates = len(report.malformed), report.duplicates
        if added is not None:
            corrupt += int(former.get("ledgerCorruptionCount", 0))
            duplicates += int(former.get("ledgerDuplicateCount", 0))
        now = format_milliseconds(self._clock())
        values = {
            "defaultOrder": config.default_order,
            "minOrder": config.min_order,
            "maxOrder": config.max_order,
            "minSupport": config.min_support,
            "stateStrategy": config.state_strategy,
            "requireProjection": to_json_text(config.require_projection),
            "allowRawFallback": to_json_text(config.allow_raw_fallback),
            "allowedProjectionSources": to_json_text(config.allowed_projection_sources),
            "lastRebuildAt": former.get("lastRebuildAt", now),
            "rebuildCount": rebuilds,
            "ledgerCorruptionCount": corrupt,
            "ledgerDuplicateCount": duplicates,
            _POSITIONS: to_json_text(positions),
            _CONFIG: to_json_text(config),
        }
        db.executemany("INSERT OR REPLACE INTO metadata VALUES (?, ?)", [(k, str(v)) for k, v in values.items()])
        # Counted by `advise`, perhaps in another process: what it says now is right.
        db.execute("INSERT OR IGNORE INTO metadata VALUES ('advisoryInjections', '0')")
        db.execute(
            "INSERT INTO config_versions VALUES (?, ?, ?) ON CONFLICT (version_id) DO UPDATE SET "
            "config_json = excluded.config_json, applied_at = excluded.applied_at "
            "WHERE config_json <> excluded.config_json",
            (config.version_id, to_json_text(config), now),
        )

    def _check_projection(self, event: Event) -> Event:
        allowed = self.config.allowed_projection_sources
        if not isinstance(event.projection, Projection) or event.projection.source not in allowed:
            raise ConfigError(
                f"event {event.event_id!r} lacks a projection from {', '.join(allowed)}; requireProjection is on"
            )
        return event

    # -- questions ---------------------------------------------------------------------------------------------

    def workflow_state(self, case_id: str, max_order: int | None = None) -> WorkflowState:
        """Where the case is; see `sherpa.queries.workflow_state`."""
        with self.store.snapshot():
            return self._state(case_id, max_order)

    def _state(self, case_id: str, max_order: int | None = None) -> WorkflowState:
        config = self.config
        if max_order is not None:
            config = _with(config, {"default_order": min(max_order, config.max_order)})
        events, recent = self._recent(case_id, config.default_order)
        labels = (label for e in events for label in e.labels if label.startswith("workflow:"))
        plain = [msgspec.to_builtins(e) for e in events]
        return workflow_state(self.store, case_id, recent, config, workflow=next(labels, None), recent_events=plain)

    def workflow_next(self, case_id: str, limit: int = 5) -> WorkflowNext:
        """What usually comes next; see `sherpa.queries.workflow_next`."""
        with self.store.snapshot():
            _, recent = self._recent(case_id, self.config.default_order)
            if self.config.estimator == "longest-suffix":
                return workflow_next(self.store, case_id, recent, self.config, limit)
            outlook = self._estimator(case_id).ask(self.store.case_types(case_id))
            return workflow_outlook(self.store, case_id, recent, self.config, outlook, limit)

    def _estimator(self, case_id: str) -> LiveEstimator:
        """The estimator of the configuration, fitted to every other case; kept until the graph changes."""
        from sherpa.estimators.live import LiveEstimator

        key = (case_id, self.config.estimator, self.config.max_order, self.store.metadata().get(_POSITIONS))
        if self._live is None or self._live[0] != key:
            log = self.store.log_without(case_id)
            self._live = (key, LiveEstimator(self.config.estimator, log, self.config.max_order))
        return self._live[1]

    def workflow_outcomes(self, case_id: str, limit: int = 3) -> WorkflowOutcomes:
        """Which branches fail or stall; see `sherpa.queries.workflow_outcomes`."""
        with self.store.snapshot():
            _, recent = self._recent(case_id, self.config.default_order)
            cases = None if self.config.parity else self._finding.finder(self.config.default_order)
            return workflow_outcomes(self.store, case_id, recent, self.config, limit, cases=cases)

    def workflow_recall(self, case_id: str, mode: RecallMode = "successful", limit: int = 3) -> WorkflowRecall:
        """How similar cases went on; see `sherpa.queries.workflow_recall`."""
        with self.store.snapshot():
            state = self._state(case_id).state
            finder = self._finding.finder(self.config.default_order)
            return workflow_recall(finder, case_id, state, self.config, mode=mode, limit=limit)

    def _recent(self, case_id: str, length: int) -> tuple[list[Event], list[Facets]]:
        """The last events of a case and their facets. A family depends on the whole case, so it is read whole."""
        projected = self.config.state_strategy != "raw"
        events = self.store.case_events(case_id, None if projected else length)
        if not projected:
            return events, [Facets(e.type) for e in events]
        projections = [e.projection if isinstance(e.projection, Projection) else None for e in events]
        families = running_families(p.task_class if p else None for p in projections)
        facets = [
            Facets(
                e.type,
                procedure_atom(e.type, p.operation, p.intent, p.task_class, p.artifact_class)
                if p
                else procedure_atom(e.type),
                family,
            )
            for e, p, family in zip(events, projections, families, strict=True)
        ]
        return events[-length:], facets[-length:]

    def advise(
        self,
        case_id: str,
        options: AdvisoryOptions | None = None,
        *,
        refused: str | None = None,
        record: bool = False,
    ) -> Advice:
        """What would be said on a case, or which gate says no; see `sherpa.advisory.advise`.

        Parameters
        ----------
        options : AdvisoryOptions, optional
        refused : str, optional
            Why the case's session is out of scope.
        record : bool
            Count it, and begin the pause of this case. Both outlive the process.
        """
        from sherpa.advisory import Advice, advise
        from sherpa.configuration import AdvisoryOptions, milliseconds

        chosen = options or AdvisoryOptions()
        now = self._clock()
        limit = max(1, chosen.max_candidates, chosen.max_risks)
        state, following, outcomes = (
            self.workflow_state(case_id),
            self.workflow_next(case_id, limit),
            self.workflow_outcomes(case_id, limit),
        )
        last = self.store.metadata().get(f"{ADVISED}{case_id}")
        since = None if last is None else (now - int(last)) // NANOS_PER_MS
        advice = advise(state, following, outcomes, chosen, refused=refused, since_last_ms=since)
        if record and advice.text is not None:
            with self.store.transaction() as db:
                key = f"{ADVISED}{case_id}"
                if self.store.metadata().get(key) != last:
                    return Advice(None, "cooldown", "another process has just advised this case")
                expired = now - milliseconds(chosen.cooldown) * NANOS_PER_MS
                db.execute(
                    "DELETE FROM metadata WHERE substr(key, 1, ?) = ? AND CAST(value AS INTEGER) <= ?",
                    (len(ADVISED), ADVISED, expired),
                )
                db.execute("INSERT OR REPLACE INTO metadata VALUES (?, ?)", (key, str(now)))
                db.execute(
                    "INSERT INTO metadata VALUES ('advisoryInjections', '1') "
                    "ON CONFLICT (key) DO UPDATE SET value = CAST(value AS INTEGER) + 1"
                )
        return advice

    # -- admin -------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Counts, freshness and configuration, as ``sherpa status --json`` prints them."""
        with self.store.snapshot():
            metadata = self.store.metadata()
            events, cases, states, latest = self.store.tallies()
        current = self._is_current()
        now = self._clock()
        rebuilt = metadata.get("lastRebuildAt")
        corrupt = int(metadata.get("ledgerCorruptionCount", 0))
        latest_at = None if latest is None else format_instant(latest)
        return {
            "backend": "sherpa",
            "healthy": current and corrupt == 0,
            "events": events,
            "cases": cases,
            "states": states,
            "lastUpdateAt": latest_at,
            "lastRebuildAt": rebuilt,
            "ledgerFreshness": {
                "healthy": latest is not None,
                "latestEventAt": latest_at,
                "ageMs": None if latest is None else max(0, (now - latest) // NANOS_PER_MS),
            },
            "graphFreshness": {"healthy": current, "rebuiltAt": rebuilt, "ageMs": _age_ms(rebuilt, now)},
            "advisoryEnabled": False,
            "ledgerCorruptionCount": corrupt,
            "ledgerDuplicateCount": int(metadata.get("ledgerDuplicateCount", 0)),
            "config": msgspec.to_builtins(self.config),
            "ledgerPath": str(self.ledger.folder),
            "graphPath": str(self.store.path),
        }

    def taxonomy_report(self, **options: Any) -> dict[str, Any]:
        """Types of events and their drift; options of `sherpa.reports.taxonomy.taxonomy_report`."""
        from sherpa.reports.taxonomy import taxonomy_report

        return taxonomy_report(self.store, as_of=options.pop("as_of", None) or self._clock(), **options)

    def analytics_report(self, limit: int = 10) -> dict[str, Any]:
        """Frequent, failing and stalling transitions."""
        from sherpa.reports.analytics import analytics_report, order_of_discovery

        discovered = order_of_discovery(self.store, self.config.max_order) if self.config.parity else None
        return analytics_report(self.store, as_of=self._clock(), limit=limit, discovered=discovered)

    def metrics(self) -> dict[str, Any]:
        """Adoption, quality, efficiency and reliability."""
        from sherpa.reports.usage import usage_metrics

        return usage_metrics(self.store, as_of=self._clock())

    def export(self) -> dict[str, Any]:
        """Write a snapshot to the folder ``export``; returns where it is and what it holds."""
        from sherpa.snapshot import export_snapshot

        return export_snapshot(self, self.root / EXPORTS, self._clock())

    def import_snapshot(self, path: Path) -> dict[str, Any]:
        """Take in the events of a snapshot, ours or the original's; those that are here already are left out.

        Raises
        ------
        SourceError
            If the file is no snapshot, or one of its events is broken; then nothing is taken in.
        """
        from sherpa.snapshot import read_snapshot

        return self.import_events(*read_snapshot(path))

    def import_events(self, events: Sequence[Event], exported_at: str | None = None) -> dict[str, Any]:
        """Take in events of another memory; those that are here already, or of a forgotten case, are left out."""
        stones = self.ledger.tombstones.all()
        gone = {case for case in {e.case_id for e in events} if any(stone.holds(case) for stone in stones)}
        appended = self.ingest_batch([event for event in events if event.case_id not in gone])
        held = self.store.tallies()
        return {
            "importedAt": format_milliseconds(self._clock()),
            "eventCount": held.events,
            "caseCount": held.cases,
            "fromExportedAt": exported_at,
            "added": len(appended.events),
            "skipped": appended.duplicates,
            "forgotten": sum(event.case_id in gone for event in events),
        }

    def gc(self) -> dict[str, Any]:
        """Empty the folder ``tmp``, keep the latest exports, and give back what the database no longer needs."""
        removed = {"tmp": 0, "export": 0}
        for path in sorted((self.root / "tmp").glob("**/*"), reverse=True):
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink()
                removed["tmp"] += 1
        for path in self.exports()[KEPT_EXPORTS:]:
            path.unlink()
            removed["export"] += 1
        with self.ledger.writing():
            self.store.vacuum()
        return {"vacuumed": True, "removedTmpFiles": removed["tmp"], "removedExportFiles": removed["export"]}

    def exports(self) -> list[Path]:
        """Snapshots in the folder ``export``, the latest first."""
        return sorted((self.root / EXPORTS).glob("*.json"), key=lambda path: path.name, reverse=True)

    def _stored_config(self) -> EngineConfig | None:
        text = self.store.metadata().get(_CONFIG)
        return None if text is None else _decode_config(text)


def _decode_config(text: str) -> EngineConfig:
    try:
        return msgspec.json.decode(text, type=EngineConfig)
    except msgspec.ValidationError as error:
        raise StoreError(
            f"the configuration in the graph cannot be read ({error}); delete graph.db and rebuild"
        ) from None


def _with(config: EngineConfig, changes: dict[str, Any]) -> EngineConfig:
    given = {name: value for name, value in changes.items() if value is not None}
    if not given:
        return config
    replaced: EngineConfig = msgspec.structs.replace(config, **given)
    return replaced


def _mentions(path: Path, case_id: str) -> bool:
    """Whether a JSON file names a case."""
    quoted = msgspec.json.encode(case_id)
    return quoted in path.read_bytes()


def _age_ms(text: str | None, now: int) -> int | None:
    return None if text is None else max(0, (now - parse_instant(text)) // NANOS_PER_MS)
