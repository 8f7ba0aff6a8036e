"""Run one check on files that a test writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.saga.checks import CheckContext, CheckResult, run_checks


def check(root: Path, kind: str, **fields: Any) -> CheckResult:
    options = {name: fields.pop(name) for name in ("commands", "programs", "pages") if name in fields}
    (result,) = run_checks([{"kind": kind, **fields}], CheckContext(root, **options))
    assert result.passed == (result.status in ("pass", "deferred"))
    assert result.criterion["kind"] == kind
    return result


def write(root: Path, name: str, content: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(content, encoding="utf-8")
