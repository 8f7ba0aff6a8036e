"""Whether a step can be done now: known, well-typed, granted, and shown to work by a probe whose bytes are kept."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from harness.runtime.capabilities import Context, Inputs, Registry, authority_problems, input_problems
from harness.runtime.errors import UnknownCapability
from harness.runtime.ir import digest
from harness.runtime.redaction import scrub

Decision = Literal["admitted", "reclassify_decompose", "escalate"]
PROBE_TTL = 5.0
"""Seconds for which the evidence of a probe holds for the same step."""


class AdmissionVerdict(Struct, frozen=True, kw_only=True):
    """What was decided about a step, and why."""

    decision: Decision
    reasons: tuple[str, ...] = ()
    io_compatible: bool = False
    probe_ok: bool = False
    evidence_sha: str | None = None


class Admission:
    """Checks steps before they are run.

    Parameters
    ----------
    registry : Registry
    reclassify : bool
        Whether a step whose probe fails is handed to a planner; else it escalates.
    """

    def __init__(self, registry: Registry, *, reclassify: bool = True) -> None:
        self._registry = registry
        self._reclassify = reclassify
        self._evidence: dict[str, tuple[float, str]] = {}

    def check(self, name: str, inputs: Inputs, context: Context, *, atomic_claimed: bool) -> AdmissionVerdict:
        """Decide about a step; exactly one event says what was decided."""
        verdict = self._decide(name, inputs, context)
        reasons = [scrub(reason, context.secrets)[:500] for reason in verdict.reasons]
        payload: dict[str, Any] = {
            "capability": name,
            "decision": verdict.decision,
            "io_compatible": verdict.io_compatible,
            "probe_ok": verdict.probe_ok,
            "evidence_sha": verdict.evidence_sha,
            "reasons": reasons,
            "atomic_claimed": atomic_claimed,
        }
        context.log("admission_checked", payload)
        return verdict

    def _decide(self, name: str, inputs: Inputs, context: Context) -> AdmissionVerdict:
        try:
            capability = self._registry.get(name)
        except UnknownCapability as error:
            return AdmissionVerdict(decision="escalate", reasons=(str(error),))
        mistyped = input_problems(capability, inputs)
        # What a call needs is read from its inputs, so it can only be asked when they fit; the dimensions always can.
        spec = capability.spec
        dimensions = [f"{need} is not granted" for need in spec.requires if not context.confinement.granted(need)]
        denied = dimensions if mistyped else authority_problems(capability, inputs, context)
        if mistyped or denied:
            reasons = (*mistyped, *dict.fromkeys(denied))
            return AdmissionVerdict(decision="escalate", reasons=reasons, io_compatible=not mistyped)
        try:
            evidence = self._probe(name, inputs, context)
        except Exception as error:
            decision: Decision = "reclassify_decompose" if self._reclassify else "escalate"
            reason = f"the probe failed: {type(error).__name__}: {error}"
            return AdmissionVerdict(decision=decision, reasons=(reason,), io_compatible=True)
        return AdmissionVerdict(decision="admitted", io_compatible=True, probe_ok=True, evidence_sha=evidence)

    def _probe(self, name: str, inputs: Inputs, context: Context) -> str:
        capability = self._registry.get(name)
        now = context.store.clock()
        step = digest([name, inputs, context.confinement.authorities, context.run_id])
        held = self._evidence.get(step)
        if held is not None and now - held[0] < PROBE_TTL:
            return held[1]
        sha = context.store.blobs.put(capability.probe(inputs, context))
        if len(self._evidence) > 256:
            self._evidence.clear()
        self._evidence[step] = (now, sha)
        return sha
