"""The preregistered gates: thresholds from a file, intervals from the data, NO-GO unless every one passes."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
from msgspec import Struct
from scipy.stats import beta

from experiments.intervals import cluster_bootstrap

LEVEL = 0.95


class Measured(Struct, frozen=True, kw_only=True):
    """What was observed for a gate.

    Attributes
    ----------
    observed : float or None
        None if it was not measured; then the gate fails.
    ci : dict or None
        ``low, high, level, method``.
    raw : dict
        The numbers it was made of.
    """

    observed: float | None
    ci: dict[str, Any] | None
    raw: dict[str, Any]


class GateResult(Struct, frozen=True, kw_only=True):
    """A gate, and what became of it."""

    id: str
    what: str
    rule: str
    threshold: float
    observed: float | None
    ci: dict[str, Any] | None
    verdict: str
    raw: dict[str, Any]


def registration() -> tuple[dict[str, Any], str]:
    """The registered gates and matrix, and the hash of their file."""
    data = files("harness.runtime.bench").joinpath("gates.toml").read_bytes()
    return tomllib.loads(data.decode("utf-8")), hashlib.sha256(data).hexdigest()


def share(good: int, total: int) -> Measured:
    """A share with its exact (Clopper–Pearson) interval; nothing over nothing is not measured."""
    raw = {"good": good, "total": total}
    if total == 0:
        return Measured(observed=None, ci=None, raw=raw)
    tail = (1 - LEVEL) / 2
    low = float(beta.ppf(tail, good, total - good + 1)) if good else 0.0
    high = float(beta.ppf(1 - tail, good + 1, total - good)) if good < total else 1.0
    return Measured(observed=good / total, ci=_ci(low, high, "clopper-pearson"), raw=raw)


def _ci(low: float, high: float, method: str, level: float = LEVEL) -> dict[str, Any]:
    return {"low": low, "high": high, "level": level, "method": method}


def total(per_run: Sequence[int], *, seed: int = 0) -> Measured:
    """A count over runs, with the bootstrap interval of the count that as many runs give."""
    raw = {"runs": len(per_run), "per_run": list(per_run)}
    if not per_run:
        return Measured(observed=None, ci=None, raw=raw)
    counts = np.asarray(per_run, dtype=np.int64)
    drawn = np.random.default_rng(seed).integers(0, len(counts), (2000, len(counts)))
    low, high = np.quantile(counts[drawn].sum(axis=1), [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    return Measured(observed=float(counts.sum()), ci=_ci(low, high, "bootstrap over runs"), raw=raw)


def upper_m(branching: Sequence[Mapping[str, Any]], *, seed: int = 0) -> Measured:
    """Upper bound of the one-sided 95 % interval of m = ΣA / ΣD over runs.

    Notes
    -----
    A percentile of the cluster bootstrap; where no run left a question open, resampling knows nothing, and the exact
    bound for none in ΣD is given.
    """
    pairs = [(run["ambiguous"], run["decompositions"]) for run in branching if run["decompositions"]]
    raw = {"runs": len(pairs), "ambiguous": sum(a for a, _ in pairs), "decompositions": sum(d for _, d in pairs)}
    if len(pairs) < 2:
        return Measured(observed=None, ci=None, raw=raw)
    raw["m"] = raw["ambiguous"] / raw["decompositions"]
    if all(a == 0 for a, _ in pairs):
        high = float(1 - (1 - LEVEL) ** (1 / raw["decompositions"]))
        return Measured(observed=high, ci=_ci(0.0, high, "clopper-pearson, one-sided"), raw=raw)
    open_questions, decompositions = (np.array(column, dtype=np.float64) for column in zip(*pairs, strict=True))
    found = cluster_bootstrap(open_questions, decompositions, rng=np.random.default_rng(seed), resamples=4000)
    high = float(np.quantile(found.draws[:, 0], LEVEL))
    return Measured(observed=high, ci=_ci(0.0, high, "cluster bootstrap over runs, one-sided"), raw=raw)


def decide(measured: Mapping[str, Measured], gates: Sequence[Mapping[str, Any]]) -> tuple[str, list[GateResult]]:
    """(GO or NO-GO, the gates). What was not measured did not pass."""
    results = []
    for gate in gates:
        found = measured.get(gate["id"], Measured(observed=None, ci=None, raw={}))
        if found.observed is None:
            verdict = "MISSING"
        else:
            passed = found.observed >= gate["threshold"] if gate["rule"] == ">=" else found.observed < gate["threshold"]
            verdict = "PASS" if passed else "FAIL"
        results.append(
            GateResult(
                id=gate["id"],
                what=gate["what"],
                rule=gate["rule"],
                threshold=float(gate["threshold"]),
                observed=found.observed,
                ci=found.ci,
                verdict=verdict,
                raw=found.raw,
            )
        )
    go = bool(results) and all(result.verdict == "PASS" for result in results)
    return ("GO" if go else "NO-GO"), results
