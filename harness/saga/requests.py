"""Parameters of the calls, validated once at the door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from harness.saga.errors import QuotaError, SagaError

MAX_PLAN = 256_000
"""Bytes of a plan."""
MAX_TEXT = 256_000
MAX_STAGES = 64
MAX_CRITERIA = 50
Tokens = Annotated[int, Meta(ge=0, le=2**53)]


class _Parameters(msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """Of a call; an unknown name is an error, so that a misspelt signal is not lost."""


class Start(_Parameters, frozen=True, kw_only=True):
    """Of ``saga_start``."""

    goal: str
    profile: str
    session: Annotated[str, Meta(min_length=1, max_length=256)] | None = None


class UsageReport(_Parameters, frozen=True, kw_only=True):
    """What the host used since it last told."""

    tokens: Tokens = 0
    wall_ms: Tokens = 0


class Advance(_Parameters, frozen=True, kw_only=True):
    """Of ``saga_advance``."""

    plan_yaml: str | None = None
    replan: bool = False
    accept_incomplete: bool = False
    worker_finished: bool = False
    artifacts: list[Any] | None = None
    eval_result: Any = None
    external_verdict: dict[str, Any] | None = None
    human_input: str | None = None
    criteria_patch: list[Any] | None = None
    worker_diagnostics: dict[str, Any] | None = None
    usage: UsageReport | None = None
    stage_id: str | None = None
    if_seq: int | None = None
    request_id: Annotated[str, Meta(min_length=1, max_length=128)] | None = None


P = TypeVar("P", Start, Advance)


def read_start(given: Mapping[str, Any]) -> Start:
    """Parameters of a start.

    Raises
    ------
    SagaError
        Naming the one that is wrong.
    """
    found = _converted(given, Start)
    if not found.goal.strip():
        raise SagaError("goal is empty; give the user's words")
    _check_length("goal", found.goal)
    return found


def read_advance(given: Mapping[str, Any]) -> Advance:
    """Parameters of an advance; raises as `read_start`."""
    found = _converted({name: value for name, value in given.items() if value is not None}, Advance)
    if found.plan_yaml is not None and len(found.plan_yaml.encode()) > MAX_PLAN:
        raise QuotaError(f"planYaml has more than {MAX_PLAN} bytes; write a shorter plan")
    _check_length("humanInput", found.human_input or "")
    if found.worker_diagnostics is not None:
        _check_length("workerDiagnostics", msgspec.json.encode(found.worker_diagnostics).decode())
    if found.eval_result is not None and (found.artifacts or found.worker_finished):
        raise SagaError("evalResult judges what was handed over before; send it without artifacts and workerFinished")
    if found.eval_result is not None:
        _check_length("evalResult", msgspec.json.encode(found.eval_result).decode())
    if found.external_verdict is not None and found.eval_result is None:
        raise SagaError("externalVerdict goes with the evalResult that it is about")
    if found.criteria_patch is not None and found.human_input is None:
        raise SagaError("criteriaPatch needs the humanInput that asks for it")
    return found


def _check_length(name: str, text: str) -> None:
    if len(text.encode()) > MAX_TEXT:
        raise QuotaError(f"{name} has more than {MAX_TEXT} bytes")


def _converted(given: Mapping[str, Any], kind: type[P]) -> P:
    # Contents of artifacts are looked at where they are written: nothing in them is replaced.
    plain = {name: value if name == "artifacts" else _whole_characters(value) for name, value in given.items()}
    try:
        return msgspec.convert(plain, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise SagaError(str(error)) from None


def _whole_characters(value: Any) -> Any:
    """The same with halves of characters replaced: they are no text, and no JSON can hold them."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, int) and abs(value) >= 1 << 63:
        raise SagaError(f"a number has {len(str(value)[:40])} digits or more; at most 18 are taken")
    if isinstance(value, Mapping):
        return {_whole_characters(key): _whole_characters(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_whole_characters(item) for item in value]
    return value
