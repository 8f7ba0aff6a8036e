"""The ontology ``draft-v1``: its vocabularies, the procedure of an event and the family of a case so far."""

from __future__ import annotations

from collections.abc import Iterable

TASK_CLASSES = (
    "incident-response",
    "docs-change",
    "browser-task",
    "research",
    "code-fix",
    "setup-flow",
    "onboarding-flow",
    "approval-flow",
    "general-task",
)
GENERAL_TASK = "general-task"
PROCEDURES = (
    "lookup",
    "request",
    "answer",
    "start",
    "complete",
    "fail",
    "wait",
    "inspect",
    "read",
    "edit",
    "write",
    "test",
    "search",
    "navigate",
    "approve",
    "capture",
    "manage",
    "execute",
)

# (atom, operations without a start form, operations that also occur with the suffix -start)
_BY_OPERATION: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("request", ("message-received",), ()),
    ("answer", ("message-sent",), ()),
    ("start", ("task-start", "tool-start"), ()),
    ("complete", ("task-completed",), ()),
    ("fail", ("task-failed",), ()),
    ("wait", ("task-ended",), ()),
    ("inspect", (), ("repo-inspect", "logs-inspect", "env-check")),
    ("read", ("web-fetch",), ("file-read",)),
    ("edit", (), ("file-edit", "docs-edit")),
    ("write", (), ("file-write",)),
    ("test", (), ("tests-run",)),
    ("search", ("web-search",), ("memory-search",)),
    ("navigate", ("browser-navigate",), ()),
    ("approve", (), ("approval",)),
    ("capture", ("capture-screenshot",), ("image-analyze",)),
    ("manage", ("automation-run",), ("process-manage", "session-manage", "subagent-manage")),
    ("execute", ("tool-run",), ("deploy",)),
)
_OPERATION_ATOM: dict[str, str] = {}
for _atom, _plain, _startable in _BY_OPERATION:
    for _operation in _plain:
        _OPERATION_ATOM[_operation] = _atom
    for _operation in _startable:
        _OPERATION_ATOM[_operation] = _OPERATION_ATOM[f"{_operation}-start"] = _atom
OPERATIONS = tuple(_OPERATION_ATOM)

_BY_SUFFIX = (
    (".completed", "complete"),
    (".failed", "fail"),
    (".started", "start"),
    (".received", "request"),
    (".requested", "request"),
)


def procedure_atom(
    event_type: str,
    operation: str | None = None,
    intent: str | None = None,
    task_class: str | None = None,
    artifact_class: str | None = None,
) -> str | None:
    """The procedure of an event (one of `PROCEDURES`), by the first rule that fires, or None.

    A received message about documents, knowledge or the web is a lookup if it researches; then the operation
    decides; then the ending of the raw type.
    """
    if (
        operation == "message-received"
        and "research" in (intent, task_class)
        and artifact_class in ("docs", "knowledge", "web")
    ):
        return "lookup"
    if operation is not None and (atom := _OPERATION_ATOM.get(operation)) is not None:
        return atom
    for suffix, atom in _BY_SUFFIX:
        if event_type.endswith(suffix):
            return atom
    return None


def running_families(task_classes: Iterable[str | None]) -> list[str | None]:
    """The family of each event of one case: the task class seen most often up to and including it.

    ``general-task`` counts only while nothing else has been seen, and is never a family itself. Ties go to the
    class seen first.
    """
    counts: dict[str, int] = {}
    families: list[str | None] = []
    best: str | None = None
    for task_class in task_classes:
        if task_class and task_class != GENERAL_TASK:
            counts[task_class] = counts.get(task_class, 0) + 1
            # Insertion order of `counts` is the order of first sight, and max keeps the first of equals.
            best = max(counts, key=counts.__getitem__)
        families.append(best)
    return families
