"""Acceptance checks: how a result is judged, by something other than the run that made it."""

from __future__ import annotations

from typing import Any, NamedTuple

from harness.runtime.confinement import Confinement
from harness.runtime.errors import AuthorityError, RuntimeFault
from harness.runtime.expr import compile_expression
from harness.runtime.ir import AcceptanceCheck, ProblemSpec
from harness.runtime.schema import schema_errors
from harness.runtime.testwork import run_pytest


class CheckResult(NamedTuple):
    """What a check found; `ok` is None if it could not be carried out."""

    id: str
    ok: bool | None
    detail: str


def run_check(
    check: AcceptanceCheck, outputs: dict[str, Any], problem: ProblemSpec, confinement: Confinement
) -> CheckResult:
    """Carry out one check under the problem's own authority."""
    try:
        ok, detail = _found(check, outputs, problem, confinement)
    except (RuntimeFault, OSError) as error:
        return CheckResult(check.id, None, f"{type(error).__name__}: {error}")
    return CheckResult(check.id, ok, detail)


def _found(
    check: AcceptanceCheck, outputs: dict[str, Any], problem: ProblemSpec, confinement: Confinement
) -> tuple[bool, str]:
    match check.kind:
        case "predicate":
            source = str(check.spec.get("expr", ""))
            held = bool(compile_expression(source).evaluate({"outputs": outputs}))
            return held, source
        case "jsonschema":
            wrong = schema_errors(outputs, check.spec.get("schema", problem.output_schema), "outputs")
            return not wrong, "; ".join(wrong) or "fits"
        case "pytest":
            command = check.spec.get("cmd", ["pytest", "-q"])
            if not isinstance(command, list) or not command or command[0] != "pytest":
                raise AuthorityError("an acceptance check of tests may only run pytest")
            done = run_pytest(confinement, str(check.spec.get("cwd", ".")), command[1:])
            return done.returncode == 0 and not done.timed_out, (done.stdout + done.stderr)[-400:]
