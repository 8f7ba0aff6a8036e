"""RunRecord: one JSON document that holds everything a report shows, and where it comes from."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from baselines.registry import BASELINES, baseline
from experiments.arm_report import arm_report, best_by_accuracy, best_by_risk_recall
from experiments.claims import Contrasts, interval_json
from experiments.gate import GateResult, learning_curve
from experiments.intervals import cluster_bootstrap, pool, standard_error
from experiments.leakage import audit
from experiments.plan import SHERPA_ARMS, Mode, Plan, sha256
from experiments.validation import dataset_json
from sherpa.errors import SourceError

SCHEMA_VERSION = 1
VOLATILE = ("startedAt", "wallSeconds", "peakMemoryMib", "latencyMicros")
"""Fields that differ between two runs of the same input; everything else is equal byte by byte."""

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "pandas", "msgspec", "matplotlib")


def gate_record(
    results: Sequence[GateResult],
    plan: Plan,
    plan_bytes: bytes,
    mode: Mode,
    *,
    parity: bool,
    command: Sequence[str],
    started_at: str,
    wall_seconds: float,
    max_misses: int = 25,
    curves: bool = True,
) -> dict[str, Any]:
    """The record of a gate run over one or several datasets."""
    datasets = [_dataset_record(r, plan, parity, max_misses, curves) for r in results]
    pooled = [] if len(results) < 2 else _pooled(results, plan)
    single = datasets[0] if len(datasets) == 1 else None
    return {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "research-gate",
        "mode": mode.name,
        "reasons": list(mode.reasons),
        "preregistered": mode.registered,
        "parity": parity,
        "plan": msgspec.to_builtins(plan),
        "claims": single["claims"] if single else [],
        "pooled": pooled,
        "sherpa": single["sherpa"] if single else {},
        "baselines": single["baselines"] if single else {},
        "datasets": datasets,
        "provenance": provenance(
            command, started_at, wall_seconds, seeds={"plan": plan.seed}, plan_sha256=sha256(plan_bytes)
        ),
    }


def _dataset_record(result: GateResult, plan: Plan, parity: bool, max_misses: int, curves: bool) -> dict[str, Any]:
    dataset, split, table = result.dataset, result.split, result.table
    reports: dict[str, dict[str, Any]] = {}
    for name in table.predictors:
        report = arm_report(dataset, table[name], plan.top_k, max_misses)
        reports[name] = {
            **report,
            "intervals": _arm_intervals(result.contrasts, name),
            "refits": table[name].refitted,
        }
    strategies = [
        {"stateStrategy": name.removeprefix("sherpa-"), "predictor": name, **reports[name]}
        for name in SHERPA_ARMS
        if name in reports
    ]
    rivals = [
        {"baseline": name, "predictor": name, "description": _description(name), **reports[name]}
        for name in BASELINES
        if name in reports
    ]
    shown = [plan.h3.treatment, *(name for name in ("global-majority", "raw-ngram") if name in reports)]
    tested = sum(len(fold.test) for fold in split)
    return {
        "dataset": dataset_json(dataset),
        "cases": len(dataset.log),
        "datasetEvents": dataset.log.events,
        "protocol": {
            "split": split.name,
            **split.detail,
            "testedCases": tested,
            "droppedCases": split.dropped,
            "cluster": plan.cluster,
            "online": plan.online,
            "fallback": plan.fallback,
            "annotations": plan.annotations or parity,
            "parity": parity,
        },
        "claims": [claim.to_json() for claim in result.claims],
        "sherpa": {
            "strategies": strategies,
            "bestByAccuracy": best_by_accuracy(strategies, "stateStrategy"),
            "bestByRiskRecall": best_by_risk_recall(strategies, "stateStrategy"),
            "bestBySupportDensity": _densest(strategies),
        },
        "baselines": {
            "baselines": rivals,
            "bestByAccuracy": best_by_accuracy(rivals, "baseline"),
            "bestByRiskRecall": best_by_risk_recall(rivals, "baseline"),
        },
        "leakage": audit(dataset.log, split),
        "learningCurve": learning_curve(dataset, plan, shown) if curves and not parity else [],
        "clusters": _clusters(result.contrasts),
    }


def _description(name: str) -> str:
    return str(getattr(baseline(name)(), "description", name))


def _arm_intervals(c: Contrasts | None, name: str) -> dict[str, Any] | None:
    if c is None:
        return None
    found = {metric: c.interval(name, "", metric) for metric in ("top-1", "top-k")}
    return {
        metric: {"estimate": i.estimate, "ci": interval_json(i), "clusters": i.clusters} for metric, i in found.items()
    }


def _densest(strategies: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    measured = [s for s in strategies if s["research"]["support"]["averageTotalSupport"] is not None]
    if not measured:
        return None

    def density(report: dict[str, Any]) -> tuple[float, float, float]:
        found = report["research"]["support"]
        return -found["averageTotalSupport"], -found["averageTopCandidateSupport"], found["averageGraphStates"]

    best = min(measured, key=density)
    names = ("averageTotalSupport", "averageTopCandidateSupport", "averageGraphStates")
    return {"stateStrategy": best["stateStrategy"], **{n: best["research"]["support"][n] for n in names}}


def _clusters(c: Contrasts | None) -> dict[str, Any]:
    """Hits and steps per cluster, so that two records can be compared in pairs."""
    if c is None:
        return {"names": [], "steps": [], "hits": {}}
    return {
        "names": list(c.sums.clusters),
        "steps": c.sums.steps.astype(int).tolist(),
        "hits": {
            arm: {metric: values.astype(int).tolist() for metric, values in by_metric.items()}
            for arm, by_metric in c.sums.hits.items()
        },
    }


def _pooled(results: Sequence[GateResult], plan: Plan) -> list[dict[str, Any]]:
    """Random-effects estimates of H1 to H3 over datasets; a rival of H3 each."""
    pairs = [("H1", plan.h1.treatment, plan.h1.control), ("H2", plan.h2.treatment, plan.h2.control)]
    pairs += [("H3", plan.h3.treatment, control) for control in plan.h3.controls]
    rows = []
    for claim, treatment, control in pairs:
        estimates, errors, names = [], [], []
        for result in results:
            if result.contrasts is None:
                continue
            difference = result.contrasts.difference(treatment, control, plan.metric)
            steps = result.contrasts.sums.steps
            estimates.append(float(difference.sum() / steps.sum()))
            errors.append(standard_error(difference, steps))
            names.append(result.dataset.name)
        found = pool(estimates, errors, level=plan.level)
        parts = [
            {"dataset": n, "estimate": e, "standardError": s} for n, e, s in zip(names, estimates, errors, strict=True)
        ]
        rows.append(
            {
                "id": claim,
                "treatment": treatment,
                "control": control,
                "metric": plan.metric,
                "estimate": found.estimate if found else None,
                "ci": {"low": found.low, "high": found.high, "level": plan.level, "method": "random-effects"}
                if found
                else None,
                "tau2": found.tau2 if found else None,
                "i2": found.i2 if found else None,
                "datasets": parts,
            }
        )
    return rows


def provenance(
    command: Sequence[str], started_at: str, wall_seconds: float, *, seeds: dict[str, int], plan_sha256: str | None
) -> dict[str, Any]:
    """Where a record comes from."""
    return {
        "sherpa": _version("sherpa-procedural-memory"),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "libraries": {name: _version(name) for name in _LIBRARIES},
        "gitRevision": _git_revision(),
        "command": list(command),
        "seeds": seeds,
        "planSha256": plan_sha256,
        "startedAt": started_at,
        "wallSeconds": wall_seconds,
        "peakMemoryMib": _peak_memory_mib(),
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _git_revision() -> str | None:
    """Revision of the checkout that this package runs from, marked where it was changed; None outside of one."""
    here = Path(__file__).resolve().parent
    try:
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=True)
        changed = subprocess.run(["git", "status", "--porcelain"], cwd=here, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return head.stdout.strip() + ("-changed" if changed.stdout.strip() else "")


def _peak_memory_mib() -> float | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


def load_record(path: Path) -> dict[str, Any]:
    """Read a record.

    Raises
    ------
    SourceError
        If it is not the record of a gate run of this version.
    """
    try:
        found = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise SourceError(f"cannot be read: {error.strerror or error}", file=path) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SourceError(f"broken JSON: {error}", file=path) from None
    if not isinstance(found, dict) or found.get("kind") != "research-gate":
        raise SourceError("is not the record of a gate run (`sherpa research-gate --output DIR` writes one)", file=path)
    if found.get("schemaVersion") != SCHEMA_VERSION:
        raise SourceError(
            f"has schema version {found.get('schemaVersion')}; this program reads {SCHEMA_VERSION}", file=path
        )
    return found


def without_volatile(value: Any) -> Any:
    """The record without the fields that differ from run to run."""
    if isinstance(value, dict):
        return {k: without_volatile(v) for k, v in value.items() if k not in VOLATILE}
    if isinstance(value, list):
        return [without_volatile(item) for item in value]
    return value


def _places(names: Sequence[str], wanted: Sequence[str]) -> list[int]:
    place = {name: at for at, name in enumerate(names)}
    return [place[name] for name in wanted]


def compare_records(
    left: dict[str, Any], right: dict[str, Any], *, resamples: int = 10_000, seed: int = 0
) -> dict[str, Any]:
    """Paired differences (right − left) of every arm and metric on the clusters that both records tested.

    Raises
    ------
    SourceError
        If the records share no dataset.
    """
    rows: list[dict[str, Any]] = []
    by_hash = {d["dataset"]["sha256"]: d for d in left["datasets"]}
    shared = [(by_hash[d["dataset"]["sha256"]], d) for d in right["datasets"] if d["dataset"]["sha256"] in by_hash]
    if not shared:
        raise SourceError("the two records were made from different data, so nothing can be paired")
    for a, b in shared:
        steps_a = dict(zip(a["clusters"]["names"], a["clusters"]["steps"], strict=True))
        names = [n for n, s in zip(b["clusters"]["names"], b["clusters"]["steps"], strict=True) if steps_a.get(n) == s]
        if len(names) < 2:
            continue
        at_a, at_b = (_places(part["clusters"]["names"], names) for part in (a, b))
        steps = np.array(b["clusters"]["steps"], dtype=float)[at_b]
        for arm in sorted(a["clusters"]["hits"].keys() & b["clusters"]["hits"].keys()):
            for metric in ("top-1", "top-k"):
                x = np.array(a["clusters"]["hits"][arm][metric], dtype=float)[at_a]
                y = np.array(b["clusters"]["hits"][arm][metric], dtype=float)[at_b]
                found = cluster_bootstrap(y - x, steps, rng=np.random.default_rng(seed), resamples=resamples).interval(
                    0
                )
                rows.append(
                    {
                        "dataset": b["dataset"]["name"],
                        "predictor": arm,
                        "metric": metric,
                        "left": float(x.sum() / steps.sum()),
                        "right": float(y.sum() / steps.sum()),
                        "difference": found.estimate,
                        "ci": interval_json(found),
                        "clusters": found.clusters,
                        "unpairedClusters": len(b["clusters"]["names"]) - len(names),
                    }
                )
    return {"kind": "comparison", "rows": rows}
