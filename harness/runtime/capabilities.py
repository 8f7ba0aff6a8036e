"""What a capability is, who knows them, and the only way to run one."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct

from harness.runtime.authority import DIMENSIONS
from harness.runtime.channel import ChannelResponse
from harness.runtime.confinement import Confinement
from harness.runtime.context import journal
from harness.runtime.errors import AuthorityError, CapabilityContractError, CapabilityError, UnknownCapability
from harness.runtime.expr import plain
from harness.runtime.ir import Authority, canonical, digest
from harness.runtime.redaction import redact, scrub
from harness.runtime.schema import schema_errors
from harness.runtime.store import RunStore

Inputs = dict[str, Any]
Need = tuple[str, str]
"""A dimension of authority and the path or token that is needed."""
Asker = Callable[..., ChannelResponse]


class CapabilitySpec(Struct, frozen=True, kw_only=True):
    """The contract of a capability.

    Attributes
    ----------
    requires : tuple of str
        Dimensions of authority that must hold something.
    authority_required : Authority
        Programs that must be granted.
    idempotent : bool
        Whether it may simply be done again after a crash; false unless it is certain.
    """

    name: str
    version: str = "1"
    description: str = ""
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    requires: tuple[str, ...] = ()
    authority_required: Authority = Authority()
    idempotent: bool = False


@dataclass
class Context:
    """What a capability works with.

    Attributes
    ----------
    confinement : Confinement
        The only way to files.
    ask : callable
        The model: ``ask(messages, temperature=…, max_tokens=…, session=…)``; charged to the run.
    secrets : collection of str
        Values that must not reach the log.
    cause : int or None
        The event that led here.
    """

    store: RunStore
    run_id: str
    node_key: str
    confinement: Confinement
    ask: Asker
    secrets: Collection[str] = ()
    cause: int | None = None
    on_effect: Callable[[], None] = field(default=lambda: None)

    @property
    def workspace(self) -> Path:
        """The folder that relative paths begin at."""
        return self.confinement.workspace

    def log(self, kind: str, payload: dict[str, Any]) -> int:
        """Append an event of this node."""
        self.cause = self.store.append(self.run_id, kind, payload, node_key=self.node_key, causal_seq=self.cause)
        return self.cause

    def journal(self, kind: str, text: str, refs: Sequence[str] = ()) -> None:
        """Note something."""
        journal(self.store, self.run_id, kind, scrub(text, self.secrets), node_key=self.node_key, refs=refs)

    def artifact(self, name: str, data: bytes) -> str:
        """Keep bytes, and log that they were made; returns their hash."""
        sha = self.store.blobs.put(data)
        self.log("artifact_written", {"name": name, "sha": sha})
        return sha


class Capability:
    """Base of all capabilities: a spec, what it needs, a probe, and the work itself."""

    spec: ClassVar[CapabilitySpec]

    def needs(self, inputs: Inputs, context: Context) -> list[Need]:
        """The concrete paths and programs that these inputs touch."""
        return []

    def probe(self, inputs: Inputs, context: Context) -> bytes:
        """Cheap evidence that it would work now; raises if it would not. It leaves nothing behind."""
        return b"available"

    def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
        """Do it."""
        raise NotImplementedError


class Registry:
    """Capabilities by name.

    Raises
    ------
    CapabilityError
        If a name is registered twice.
    """

    def __init__(self, capabilities: Sequence[Capability] = ()) -> None:
        self._by_name: dict[str, Capability] = {}
        for capability in capabilities:
            self.register(capability)

    def register(self, capability: Capability) -> None:
        """Add one."""
        if capability.spec.name in self._by_name:
            raise CapabilityError(f"{capability.spec.name} is registered already")
        self._by_name[capability.spec.name] = capability

    def get(self, name: str) -> Capability:
        """The capability of a name.

        Raises
        ------
        UnknownCapability
            If there is none.
        """
        if name not in self._by_name:
            raise UnknownCapability(f"capability {name} is not registered")
        return self._by_name[name]

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._by_name)

    def fingerprint(self) -> str:
        """Hash of all contracts."""
        return digest([self._by_name[name].spec for name in self.names()])


def authority_problems(capability: Capability, inputs: Inputs, context: Context) -> list[str]:
    """What a call would need and is not granted."""
    spec, confinement = capability.spec, context.confinement
    problems = [f"{name} is not granted" for name in spec.requires if not confinement.granted(name)]
    needs = [(name, token) for name in DIMENSIONS for token in getattr(spec.authority_required, name)]
    try:
        needs += capability.needs(inputs, context)
    except (AuthorityError, CapabilityError) as error:
        problems.append(str(error))
    for dimension, wanted in needs:
        try:
            if dimension in ("fs_read", "fs_write"):
                confinement.check_path(dimension, wanted)  # type: ignore[arg-type]
            else:
                confinement.check_token(dimension, wanted)
        except AuthorityError as error:
            problems.append(str(error))
    return problems


def input_problems(capability: Capability, inputs: Inputs) -> list[str]:
    """What does not fit the contract."""
    return schema_errors(inputs, capability.spec.input_schema, "inputs")


def run_capability(capability: Capability, inputs: Inputs, context: Context) -> tuple[dict[str, Any], str]:
    """Run a capability between two events; returns its result and the hash of it.

    Whatever is raised, the second event is there; only a process that dies leaves the first alone.

    Raises
    ------
    AuthorityError
        If something is not granted; then nothing was done.
    CapabilityContractError
        If inputs or outputs do not fit.
    Exception
        Whatever the capability raises.
    """
    spec = capability.spec
    begin = time.perf_counter()
    context.log("tool_call_started", {"capability": spec.name, "inputs": redact(inputs, secrets=context.secrets)})
    try:
        result = _checked(capability, inputs, context)
        sha = context.artifact(f"{spec.name}.json", canonical(result))
    except Exception as error:
        told = scrub(f"{type(error).__name__}: {error}", context.secrets)[:500]
        took = round(time.perf_counter() - begin, 6)
        context.log("tool_call_finished", {"capability": spec.name, "ok": False, "duration_s": took, "error": told})
        raise
    took = round(time.perf_counter() - begin, 6)
    done = {"capability": spec.name, "ok": True, "duration_s": took, "output_sha": sha}
    if isinstance(result.get("passed"), bool):
        done["passed"] = result["passed"]
    context.log("tool_call_finished", done)
    return result, sha


def _checked(capability: Capability, inputs: Inputs, context: Context) -> dict[str, Any]:
    spec = capability.spec
    wrong = input_problems(capability, inputs)
    if wrong:
        raise CapabilityContractError(f"{spec.name}: {'; '.join(wrong)}")
    problems = authority_problems(capability, inputs, context)
    if problems:
        raise AuthorityError(f"{spec.name}: {'; '.join(problems)}")
    context.on_effect()
    result = plain(capability.run(inputs, context))
    wrong = schema_errors(result, {"type": "object"}, "outputs") or schema_errors(result, spec.output_schema, "outputs")
    if wrong:
        raise CapabilityContractError(f"{spec.name}: {'; '.join(wrong)}")
    try:
        canonical(result)
    except (TypeError, UnicodeError, RecursionError) as error:
        raise CapabilityContractError(f"{spec.name}: the outputs are no JSON: {error}") from None
    return dict(result)
