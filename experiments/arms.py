"""From the name of an arm to a factory of fresh predictors, all with the same information."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from baselines.predictor import Predictor
from baselines.procedural_memory import ProceduralMemoryPredictor
from baselines.registry import baseline
from experiments.plan import SHERPA_ARMS, Plan
from sherpa.config import EngineConfig, Strategy


def arm(name: str, plan: Plan, *, parity: bool = False) -> Callable[[], Predictor]:
    """A factory of the named arm.

    Every arm has an order-0 fallback or none has, and every arm sees annotations or none does (`plan`). With `parity`
    Sherpa has no fallback and the rivals have one and see annotations, as in the original.
    """
    if name in SHERPA_ARMS:
        config = EngineConfig(
            default_order=plan.default_order,
            max_order=max(plan.max_order, plan.default_order),
            min_support=plan.min_support,
            state_strategy=cast("Strategy", name.removeprefix("sherpa-")),
            parity=parity,
        )
        return lambda: ProceduralMemoryPredictor(config, fallback=plan.fallback and not parity)
    return baseline(
        name,
        order=plan.default_order,
        fallback=plan.fallback or parity,
        annotations=plan.annotations or parity,
    )
