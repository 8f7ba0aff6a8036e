"""What the reports answer, as typed dictionaries: the source of the schemas that the doors publish.

The four questions, advice and events have types of their own (`sherpa.answers`, `sherpa.event`).
"""

from __future__ import annotations

from typing import Any, TypedDict

import msgspec

from sherpa.event import Event


class Freshness(TypedDict):
    """How old the latest event is."""

    healthy: bool
    latestEventAt: str | None
    ageMs: float | None


class GraphFreshness(TypedDict):
    """How old the graph is."""

    healthy: bool
    rebuiltAt: str | None
    ageMs: float | None


class Status(TypedDict):
    """Answer of ``status`` and ``rebuild``."""

    backend: str
    healthy: bool
    events: int
    cases: int
    states: int
    lastUpdateAt: str | None
    lastRebuildAt: str | None
    ledgerFreshness: Freshness
    graphFreshness: GraphFreshness
    advisoryEnabled: bool
    ledgerCorruptionCount: int
    ledgerDuplicateCount: int
    config: dict[str, Any]
    ledgerPath: str
    graphPath: str


class TypeRow(TypedDict):
    """One event type of the taxonomy report."""

    event: str
    count: int
    share: float | None
    firstSeenAt: str
    lastSeenAt: str
    baselineCount: int
    baselineShare: float | None
    recentCount: int
    recentShare: float | None
    isNewInRecentWindow: bool
    isRare: bool


class Drift(TypedDict):
    """The recent window against everything before."""

    recentWindowDays: int
    recentWindowStart: str
    baselineEventCount: int
    baselineDistinctTypes: int
    recentEventCount: int
    recentDistinctTypes: int
    newTypeCount: int
    newTypeShare: float
    rareTypeCount: int
    rareEventShare: float
    score: float
    pValue: float | None


class TaxonomyAnswer(TypedDict):
    """Answer of ``taxonomy``."""

    generatedAt: str
    totalEvents: int
    distinctTypes: int
    rareSupport: int
    topTypes: list[TypeRow]
    rareTypes: list[TypeRow]
    recentNewTypes: list[TypeRow]
    drift: Drift


class CaseCounts(TypedDict):
    """Cases by outcome."""

    total: int
    success: int
    failure: int
    unknown: int
    successRate: float | None
    failureRate: float | None


class Transition(TypedDict):
    """One transition of the analytics report."""

    order: int
    state: list[str]
    nextEvent: str
    support: int
    successRate: float | None
    failureRate: float | None
    stallRate: float | None
    meanTimeToNextMs: float | None
    lastSeenAt: str | None


class AnalyticsAnswer(TypedDict):
    """Answer of ``analytics``."""

    generatedAt: str
    cases: CaseCounts
    hotTransitions: list[Transition]
    failureBranches: list[Transition]
    stallBranches: list[Transition]


class Check(TypedDict):
    """One check of the doctor."""

    check: str
    level: str
    found: str
    advice: str


class DoctorAnswer(TypedDict):
    """Answer of ``doctor``."""

    root: str
    healthy: bool
    errors: int
    warnings: int
    checks: list[Check]


class ExportAnswer(TypedDict):
    """Answer of ``export``."""

    exportPath: str
    exportedAt: str
    eventCount: int
    caseCount: int
    stateCount: int


class ImportAnswer(TypedDict):
    """Answer of ``import``."""

    importedAt: str
    eventCount: int
    caseCount: int
    fromExportedAt: str | None
    added: int
    skipped: int
    forgotten: int


class MetricsAnswer(TypedDict):
    """Answer of ``metrics``."""

    totalEvents: int
    totalCases: int
    activeCasesLast7d: int
    advisoryInjections: int
    meanCaseDurationMs: float | None
    rebuildCount: int
    lastRebuildAt: str | None
    ledgerCorruptionCount: int


class GcAnswer(TypedDict):
    """Answer of ``gc``."""

    vacuumed: bool
    removedTmpFiles: int
    removedExportFiles: int


class AdviceAnswer(TypedDict):
    """Answer of ``advise``: the text, or the gate that says no and why."""

    text: str | None
    gate: str | None
    reason: str


class ForgetAnswer(TypedDict):
    """Answer of ``forget``."""

    removedEvents: int
    removedExports: list[str]


class DrainAnswer(TypedDict):
    """Answer of ``drain``."""

    stored: int


class BatchAnswer(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Answer of ``ingest_batch``: what is new, and how many events were there already."""

    events: tuple[Event, ...]
    duplicates: int
