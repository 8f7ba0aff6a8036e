"""H4: what run bundles of paired interventions say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from experiments.claims import PENDING, REJECTED, SUPPORTED, Claim, Float, contrast_json, points
from experiments.intervals import Interval, cluster_bootstrap
from experiments.plan import Plan
from sherpa.errors import SourceError

Arm = Literal["none", "shadow", "tool-only", "advisory", "oracle", "placebo"]
NON_INFERIOR = 0.02


class Run(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One run of an agent on a task; success is verified outside the agent."""

    arm: Arm
    task: Annotated[str, Meta(min_length=1)]
    seed: int
    success: bool
    agent_kind: Literal["simulated", "recorded", "live"]
    tool_calls: Annotated[int, Meta(ge=0)] | None = None
    repeated_failures: Annotated[int, Meta(ge=0)] | None = None
    advisories_shown: Annotated[int, Meta(ge=0)] | None = None
    memory_snapshot: str | None = None
    receptiveness: Annotated[float, Meta(ge=0, le=1)] | None = None


def load_runs(folder: Path) -> list[Run]:
    """Every run in the ``.json`` (one object or an array) and ``.jsonl`` files of a folder.

    Raises
    ------
    SourceError
        Names file, line and field.
    """
    if not folder.is_dir():
        raise SourceError("is not a folder of run bundles", file=folder)
    runs: list[Run] = []
    for path in sorted(p for p in folder.rglob("*") if p.suffix in (".json", ".jsonl") and p.is_file()):
        data = path.read_bytes()
        chunks = enumerate(data.splitlines(), start=1) if path.suffix == ".jsonl" else [(None, data)]
        for line, chunk in chunks:
            if not chunk.strip():
                continue
            try:
                found = msgspec.json.decode(chunk)
                runs += msgspec.convert(found if isinstance(found, list) else [found], list[Run])
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise SourceError(f"is not a run bundle: {error}", file=path, line=line) from None
    return runs


def h4(runs: Sequence[Run], plan: Plan, rng: np.random.Generator) -> Claim:
    """Advisory against shadow on pairs of the same task and seed; tasks are the independent units.

    Supported where success rises (or repeated failures fall while success is not worse by more than 2 points), harm
    stays below its limit and advice beats a placebo. Harm is a task that the agent solves in shadow and fails with
    advice. Simulated agents alone show a mechanism and decide nothing.
    """
    blank = Claim("H4", PENDING, None, None, None, "no intervention runs were given", "", PENDING, [])
    if not runs:
        return blank
    paired = _pairs(runs, "advisory", "shadow")
    if len({task for task, _, _ in paired}) < 2:
        blank.evidence = "fewer than two tasks were run both with advice and in shadow"
        return blank
    success = _contrast(paired, [float(a.success) - float(b.success) for _, a, b in paired], plan, rng)
    harm = _contrast(paired, [float(b.success and not a.success) for _, a, b in paired], plan, rng)
    rows = [contrast_json("advisory", "shadow", "success", success), contrast_json("advisory", "shadow", "harm", harm)]
    failures = _both(paired)
    fewer = None
    if failures is not None:
        fewer = _contrast(paired, failures, plan, rng)
        rows.append(contrast_json("advisory", "shadow", "fewer repeated failures", fewer))
    against = _pairs(runs, "advisory", "placebo")
    placebo = None
    if len({task for task, _, _ in against}) >= 2:
        placebo = _contrast(against, [float(a.success) - float(b.success) for _, a, b in against], plan, rng)
        rows.append(contrast_json("advisory", "placebo", "success", placebo))

    limit = plan.h4.harm_limit
    helps = success.low > 0 or (fewer is not None and fewer.low > 0 and success.low > -NON_INFERIOR)
    decision = PENDING
    if (
        helps
        and harm.high <= limit
        and placebo is not None
        and placebo.low > 0
        and success.clusters >= plan.min_clusters
    ):
        decision = SUPPORTED
    elif success.high < 0 or harm.low > limit:
        decision = REJECTED
    evidence = (
        f"success {points(success.estimate)} ({points(success.low)} to {points(success.high)}), harm "
        f"{100 * harm.estimate:.1f} % ({100 * harm.low:.1f} to {100 * harm.high:.1f} %), {len(paired)} pairs over "
        f"{success.clusters} tasks"
    )
    if placebo is None:
        evidence += "; no placebo arm"
    if all(run.agent_kind == "simulated" for run in runs):
        decision = PENDING
        evidence = ("mechanism shown by simulated agents only: " if helps else "simulated agents only: ") + evidence
    if _deaf_effect(runs):
        decision = PENDING
        evidence += "; the negative control failed: agents that ignore advice behave differently with it"
    return Claim("H4", decision, success.estimate, success, None, evidence, "", PENDING, rows)


Pair = tuple[str, Run, Run]


def _pairs(runs: Sequence[Run], treatment: Arm, control: Arm) -> list[Pair]:
    def keyed(arm: Arm) -> dict[tuple[str, int, float | None], Run]:
        return {(r.task, r.seed, r.receptiveness): r for r in runs if r.arm == arm}

    a, b = keyed(treatment), keyed(control)
    return [(key[0], a[key], b[key]) for key in sorted(a.keys() & b.keys(), key=repr)]


def _both(pairs: Sequence[Pair]) -> list[float] | None:
    """Repeated failures saved by advice, per pair; None unless every run counted them."""
    saved = []
    for _, a, b in pairs:
        if a.repeated_failures is None or b.repeated_failures is None:
            return None
        saved.append(float(b.repeated_failures - a.repeated_failures))
    return saved


def _contrast(pairs: Sequence[Pair], values: Sequence[float], plan: Plan, rng: np.random.Generator) -> Interval:
    tasks = list(dict.fromkeys(task for task, _, _ in pairs))
    sums: Float = np.zeros(len(tasks))
    sizes: Float = np.zeros(len(tasks))
    for (task, _, _), value in zip(pairs, values, strict=True):
        sums[tasks.index(task)] += value
        sizes[tasks.index(task)] += 1
    return cluster_bootstrap(sums, sizes, rng=rng, resamples=plan.resamples).interval(0, level=plan.level)


def _deaf_effect(runs: Sequence[Run]) -> bool:
    """True if agents that ignore advice succeed differently with it than without."""
    deaf = [r for r in runs if r.receptiveness == 0]
    return any(a.success != b.success for _, a, b in _pairs(deaf, "advisory", "shadow"))
