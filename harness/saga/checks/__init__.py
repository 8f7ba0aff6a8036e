"""Hard checks: what a machine can say of a stage's artefacts, one module per way of looking.

`run_checks` runs what only reads side by side, then the browser, then what may write, one after another; the results
come in the order of the criteria.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from harness.saga.checks.base import CheckContext, CheckResult, Verdict, errored
from harness.saga.checks.browser import check_browser
from harness.saga.checks.command import check_command
from harness.saga.checks.logscan import check_log
from harness.saga.checks.metrics import check_metrics
from harness.saga.checks.progress import check_progress
from harness.saga.checks.records import check_schema
from harness.saga.checks.sizes import check_exists, check_size
from harness.saga.model import Criterion

__all__ = ["TRAITS", "CheckContext", "CheckResult", "partition", "run_checks"]


class Traits(NamedTuple):
    """Whether a kind of check leaves everything as it is, and may run beside others."""

    read_only: bool
    concurrent: bool


def _deferred(criterion: Criterion, context: CheckContext) -> Verdict:
    return Verdict("deferred", "deferred to the evaluator")


_CHECKS: Mapping[str, Callable[[Criterion, CheckContext], Verdict]] = {
    "command": check_command,
    "browser": check_browser,
    "file-exists": check_exists,
    "file-schema": check_schema,
    "file-size-gt": check_size,
    "progress-items": check_progress,
    "log-scan": check_log,
    "metrics": check_metrics,
    "free-form": _deferred,
}
TRAITS = {kind: Traits(kind != "command", kind not in ("command", "browser")) for kind in _CHECKS}


def partition(criteria: Sequence[Criterion]) -> tuple[list[Criterion], list[Criterion]]:
    """Criteria that only read, and those that may write; of an unknown kind nothing is known, so it may."""
    reading = [criterion for criterion in criteria if _traits(criterion).read_only]
    return reading, [criterion for criterion in criteria if not _traits(criterion).read_only]


def run_checks(criteria: Sequence[Criterion], context: CheckContext) -> list[CheckResult]:
    """Run every criterion; a check that breaks has failed.

    Parameters
    ----------
    criteria : sequence of dict
    context : CheckContext
        The artefacts, and what checks may do.

    Returns
    -------
    list of CheckResult
        In the order of the criteria.
    """
    results: dict[int, CheckResult] = {}
    beside = [at for at, criterion in enumerate(criteria) if _traits(criterion).concurrent]
    if beside:
        with ThreadPoolExecutor(max_workers=min(4, len(beside))) as pool:
            found = pool.map(lambda at: _run(criteria[at], context), beside)
            results.update(zip(beside, found, strict=True))
    reading = [at for at in range(len(criteria)) if at not in results and _traits(criteria[at]).read_only]
    for at in [*reading, *(at for at in range(len(criteria)) if at not in results and at not in reading)]:
        results[at] = _run(criteria[at], context)
    return [results[at] for at in range(len(criteria))]


def _traits(criterion: Criterion) -> Traits:
    return TRAITS.get(str(criterion.get("kind")), Traits(False, False))


def _run(criterion: Criterion, context: CheckContext) -> CheckResult:
    begin = time.perf_counter()
    try:
        verdict = _CHECKS.get(str(criterion.get("kind")), _deferred)(criterion, context)
    except Exception as error:  # a check that cannot be carried out has not been passed
        verdict = errored(f"the check broke: {type(error).__name__}: {error}")
    took = int(1000 * (time.perf_counter() - begin))
    return CheckResult(
        criterion=criterion,
        passed=verdict.status in ("pass", "deferred"),
        status=verdict.status,
        detail=verdict.detail,
        evidence=dict(verdict.evidence),
        duration_ms=took,
    )
