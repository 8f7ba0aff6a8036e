"""The operations of a memory, listed once: what each takes and answers, what it does, and when a model should call it.

Every door serves this list: the SDK, the framed child, the HTTP daemon and its OpenAPI document, the MCP server and the
tools of the OpenClaw plugin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from sherpa.answers import WorkflowNext, WorkflowOutcomes, WorkflowRecall, WorkflowState
from sherpa.event import Event
from sherpa.serve import documents as answers
from sherpa.serve import parameters as takes

Lane = Literal["read", "report", "write", "maintain", "guest"]
"""Which line an operation waits in: quick questions, reports, writes, work on the whole store, or work of others."""


@dataclass(frozen=True)
class Operation:
    """One operation.

    Attributes
    ----------
    name : str
    parameters, answer : type
        Of its parameters and of its answer.
    run : callable
        Takes the service and the parameters; that of a guest is given None for the service.
    lane : str
    description : str
        What it does and, for a model, when to call it.
    tool : str or None
        Its name as a tool; None if it is no tool for models.
    read_only, destructive : bool
        Whether it leaves the memory as it is; whether it removes anything.
    repeatable : bool
        Whether a client may send it again when it does not know if it was done.
    schema : dict or None
        JSON Schema of its parameters, where their type says nothing.
    """

    name: str
    parameters: Any
    answer: Any
    run: Callable[[Any, Any], Any]
    lane: Lane
    description: str
    tool: str | None = None
    read_only: bool = False
    destructive: bool = False
    repeatable: bool = True
    schema: dict[str, Any] | None = None

    @property
    def title(self) -> str:
        """Its name in words."""
        return self.name.replace("_", " ").capitalize()


_LIST = (
    Operation(
        "status",
        takes.Nothing,
        answers.Status,
        lambda s, p: s.status(),
        "report",
        "Counts of events, cases and states, freshness, configuration. Call it to see whether the memory is healthy "
        "and has learned anything yet.",
        "workflow_status",
        read_only=True,
    ),
    Operation(
        "state",
        takes.State,
        WorkflowState,
        lambda s, p: s.memory.workflow_state(s.case(p), None if p.max_order is msgspec.UNSET else p.max_order),
        "read",
        "Where a case is: the longest run of its last steps that was seen before, with support and confidence. Call "
        "it when you have lost track of which step you are at.",
        "workflow_state",
        read_only=True,
    ),
    Operation(
        "next",
        takes.Next,
        WorkflowNext,
        lambda s, p: s.memory.workflow_next(s.case(p), p.limit),
        "read",
        "What usually comes next from here, ranked, with probability, support and how such cases ended. Call it "
        "before you choose the next step of recurring work.",
        "workflow_next",
        read_only=True,
    ),
    Operation(
        "outcomes",
        takes.Outcomes,
        WorkflowOutcomes,
        lambda s, p: s.memory.workflow_outcomes(s.case(p), p.limit),
        "read",
        "Which branches from here fail or stall more often than others, and what to do about it. Call it before a "
        "step that is hard to undo.",
        "workflow_outcomes",
        read_only=True,
    ),
    Operation(
        "recall",
        takes.Recall,
        WorkflowRecall,
        lambda s, p: s.memory.workflow_recall(s.case(p), p.mode, p.limit),
        "report",
        "Past cases that were in a similar place, and how they went on. Call it to see how a case like this one was "
        "finished, or how it failed.",
        "workflow_recall",
        read_only=True,
    ),
    Operation(
        "taxonomy",
        takes.TaxonomyReport,
        answers.TaxonomyAnswer,
        lambda s, p: s.memory.taxonomy_report(recent_days=p.recent_days, rare_support=p.rare_support, limit=p.limit),
        "report",
        "Which event types there are, which are rare or new, and how far the latest days differ from before. Call it "
        "when predictions have become worse.",
        "workflow_taxonomy",
        read_only=True,
    ),
    Operation(
        "analytics",
        takes.AnalyticsReport,
        answers.AnalyticsAnswer,
        lambda s, p: s.memory.analytics_report(p.limit),
        "report",
        "The most frequent transitions over all cases, and those that fail or stall most. Call it to review how the "
        "work goes as a whole.",
        "workflow_analytics",
        read_only=True,
    ),
    Operation(
        "doctor",
        takes.Nothing,
        answers.DoctorAnswer,
        lambda s, p: s.doctor(),
        "maintain",
        "Checks ledger and graph for damage and says what to do; changes nothing. Call it when an answer looks wrong "
        "or an operation failed.",
        "workflow_doctor",
        read_only=True,
    ),
    Operation(
        "rebuild",
        takes.Nothing,
        answers.Status,
        lambda s, p: s.rebuild(),
        "maintain",
        "Derives the graph from the whole ledger again. Call it only if status or doctor says that the graph is "
        "behind; it takes long on a large memory.",
        "workflow_rebuild",
    ),
    Operation(
        "export",
        takes.Nothing,
        answers.ExportAnswer,
        lambda s, p: s.memory.export(),
        "maintain",
        "Writes everything the memory holds to a new file in its folder export. Call it when the user asks for a "
        "backup or a copy.",
        "workflow_export",
    ),
    Operation(
        "import",
        takes.Import,
        answers.ImportAnswer,
        lambda s, p: s.take_in(p),
        "maintain",
        "Takes in a snapshot that lies in the memory's folder export or import; events that are here already are "
        "left out. Call it when the user asks to restore or merge one.",
        "workflow_import",
    ),
    Operation(
        "metrics",
        takes.Nothing,
        answers.MetricsAnswer,
        lambda s, p: s.memory.metrics(),
        "report",
        "How much the memory is used: events, active cases, advice given, mean duration. Call it for a summary of "
        "adoption.",
        "workflow_metrics",
        read_only=True,
    ),
    Operation(
        "gc",
        takes.Nothing,
        answers.GcAnswer,
        lambda s, p: s.memory.gc(),
        "maintain",
        "Removes temporary files and all but the latest ten exports, and shrinks the database. Call it when the user "
        "asks to free space.",
        "workflow_gc",
        destructive=True,
    ),
    Operation(
        "ingest_event",
        takes.IncomingEvent,
        Event,
        lambda s, p: s.ingest(p),
        "write",
        "Stores one event of a case. Call it to report a step that the memory cannot see by itself, or its outcome.",
        "workflow_ingest_event",
    ),
    Operation(
        "ingest_batch",
        takes.IngestBatch,
        answers.BatchAnswer,
        lambda s, p: s.ingest_batch(p.events),
        "write",
        "Stores several events; if one is invalid, none is stored.",
    ),
    Operation(
        "advise",
        takes.Advise,
        answers.AdviceAnswer,
        lambda s, p: s.advise(p),
        "write",
        "A short text on where a case is, what usually comes next and what goes wrong; or which gate says no.",
        repeatable=False,
    ),
    Operation(
        "forget",
        takes.Forget,
        answers.ForgetAnswer,
        lambda s, p: s.forget(p.case_id),
        "maintain",
        "Removes a case from ledger, graph and exports. There is no way back.",
        destructive=True,
        repeatable=False,
    ),
    Operation(
        "drain",
        takes.Nothing,
        answers.DrainAnswer,
        lambda s, p: {"stored": s.drain()},
        "write",
        "Brings what was captured and waits into the ledger.",
    ),
)
OPERATIONS = {operation.name: operation for operation in _LIST}
ALIASES = {"risks": "outcomes", "ingest": "ingest_event"}
"""Other names of operations."""
TOOLS = {operation.tool: operation for operation in _LIST if operation.tool} | {
    "workflow_risks": OPERATIONS["outcomes"]
}
"""Operations by the names that models know them by; ``workflow_risks`` is the older name of ``workflow_outcomes``."""


def find_operation(name: str) -> Operation | None:
    """The operation of a name or an alias."""
    return OPERATIONS.get(ALIASES.get(name, name))
