"""Measures of a run, as projections of its log. What was not measured is None, and so is a ratio over nothing."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from harness.runtime.events import USAGE_FIELDS, RunEvent


def run_metrics(events: Iterable[RunEvent]) -> dict[str, Any]:
    """Measures of admission, branching, usage and the end.

    Notes
    -----
    Over nodes with an outcome: D nodes, C declared children, A_d of them declared ambiguous. Over the last decision on
    each node: R claimed atomic and reclassified, E escalated, E_a of these not claimed atomic. V = C − E children that
    could be carried out, A = A_d + R − E_a ambiguous ones; m = A / D is how many open questions one decomposition
    leaves. Below 1 they die out.
    """
    checked = claimed = overclaimed = 0
    tally: dict[str, int] = {}
    last: dict[str, dict[str, Any]] = {}
    outcomes: dict[str, dict[str, Any]] = {}
    usage: dict[str, float | None] = dict.fromkeys(USAGE_FIELDS)
    status: str | None = None
    for event in events:
        payload, key = event.payload, event.node_key or ""
        match event.kind:
            case "admission_checked":
                checked += 1
                tally[payload["decision"]] = tally.get(payload["decision"], 0) + 1
                if payload["atomic_claimed"]:
                    claimed += 1
                    overclaimed += payload["decision"] != "admitted"
                last[key] = payload
            case "decompose_outcome":
                outcomes[key] = payload
            case "usage_checkpoint":
                for name in USAGE_FIELDS:
                    if name in payload:
                        usage[name] = (usage[name] or 0) + payload[name]
            case "run_terminal":
                status = payload["status"]
            case _:
                pass
    return {
        "admission": {
            "checked": checked,
            "claimed_atomic": claimed,
            "rejected_or_reclassified": overclaimed,
            "overclaim_rate": ratio(overclaimed, claimed),
            "decisions": dict(sorted(tally.items())),
        },
        "branching": _branching(outcomes, last),
        "usage": usage,
        "terminal_status": status,
    }


def _branching(outcomes: dict[str, dict[str, Any]], last: dict[str, dict[str, Any]]) -> dict[str, Any]:
    d = len(outcomes)
    c = sum(outcome["children_declared"] for outcome in outcomes.values())
    declared = sum(outcome["children_ambiguous"] for outcome in outcomes.values())
    reclassified = [key for key, check in last.items() if check["decision"] == "reclassify_decompose"]
    r = sum(last[key]["atomic_claimed"] for key in reclassified)
    escalated = [check for check in last.values() if check["decision"] == "escalate"]
    e, e_a = len(escalated), sum(not check["atomic_claimed"] for check in escalated)
    v, a = c - e, declared + r - e_a
    return {
        "decompositions": d,
        "children_declared": c,
        "ambiguous_declared": declared,
        "reclassified": r,
        "escalated": e,
        "escalated_ambiguous": e_a,
        "viable": v,
        "ambiguous": a,
        "decompositions_unmeasured": sum(key not in outcomes for key in reclassified),
        "b_declared": ratio(c, d),
        "f_declared": ratio(declared, c),
        "b_corrected": ratio(v, d),
        "f_ambiguous": ratio(a, v),
        "m": ratio(a, d),
    }


def ratio(part: float, whole: float) -> float | None:
    """A ratio; None over nothing."""
    return part / whole if whole else None


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def bootstrap_ci(
    values: Sequence[float],
    statistic: Literal["mean", "median"] = "mean",
    *,
    n_boot: int = 1000,
    alpha: float = 0.05,
    seed: int = 0,
) -> tuple[float, float] | None:
    """Percentile bootstrap interval; None for no values, the value itself for one.

    Raises
    ------
    ValueError
        If the statistic is unknown.
    """
    if statistic not in ("mean", "median"):
        raise ValueError(f"the statistic is mean or median, not {statistic!r}")
    if not values:
        return None
    if len(values) == 1:
        return values[0], values[0]
    rng = random.Random(seed)
    count = len(values)
    drawn = []
    for _ in range(n_boot):
        sample = [values[rng.randrange(count)] for _ in range(count)]
        drawn.append(math.fsum(sample) / count if statistic == "mean" else _median(sample))
    drawn.sort()
    low = math.floor(alpha / 2 * n_boot)
    high = min(n_boot - 1, math.floor((1 - alpha / 2) * n_boot))
    return drawn[low], drawn[high]


def aggregate(runs: Sequence[dict[str, Any]], *, seed: int = 0) -> dict[str, Any]:
    """Measures of several runs together."""
    successes = [float(run["terminal_status"] == "completed") for run in runs]
    overclaims = [rate for run in runs if (rate := run["admission"]["overclaim_rate"]) is not None]
    tokens = sorted(used for run in runs if (used := run["usage"]["tokens"]) is not None)
    m_values = [m for run in runs if (m := run["branching"]["m"]) is not None]
    return {
        "runs": len(runs),
        "success_rate": ratio(math.fsum(successes), len(runs)),
        "success_ci": bootstrap_ci(successes, seed=seed),
        "overclaim_mean": ratio(math.fsum(overclaims), len(overclaims)),
        "overclaim_ci": bootstrap_ci(overclaims, seed=seed),
        "runs_with_token_measurements": len(tokens),
        "tokens_median": tokens[len(tokens) // 2] if tokens else None,
        "tokens_total": sum(tokens) if tokens else None,
        "m_values": m_values,
        "m_max": max(m_values, default=None),
    }
