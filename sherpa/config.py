"""Options of the engine: orders, support, strategy, estimator."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from sherpa.errors import ConfigError

Strategy = Literal["raw", "procedure", "family-procedure"]
Estimator = Literal["longest-suffix", "kneser-ney", "witten-bell", "ppm-c", "merged", "mixture", "auto"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)
MAX_ORDER_LIMIT = 16


class EngineConfig(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """What the engine counts and how it matches.

    Parameters
    ----------
    default_order : int
        Longest suffix that a query tries, in events.
    min_order : int
        Shortest suffix that a query tries.
    max_order : int
        Longest suffix that is counted.
    min_support : int
        Observations that a suffix needs before it is believed.
    state_strategy : str
        ``raw``, ``procedure`` or ``family-procedure``: what a token of a state shows.
    estimator : str
        How counts become a prediction: ``longest-suffix`` is the published rule, the others blend all orders
        (`sherpa.estimators`) up to ``max_order``.
    require_projection, allow_raw_fallback, allowed_projection_sources
        Whether events must carry a projection, whether raw states stand beside projected ones, and whose
        projections count.
    parity : bool
        Follow the original where this package corrects it (see docs/research/parity.md).
    """

    default_order: int = 3
    min_order: int = 1
    max_order: int = 5
    min_support: int = 2
    state_strategy: Strategy = "raw"
    estimator: Estimator = "longest-suffix"
    require_projection: bool = False
    allow_raw_fallback: bool = True
    allowed_projection_sources: tuple[str, ...] = ("llm", "manual", "imported")
    parity: bool = False

    def __post_init__(self) -> None:
        for name, value in (("minOrder", self.min_order), ("minSupport", self.min_support)):
            if value < 1:
                raise ConfigError(f"{name} is {value}; it must be at least 1")
        if not 1 <= self.max_order <= MAX_ORDER_LIMIT:
            raise ConfigError(f"maxOrder is {self.max_order}; it must lie between 1 and {MAX_ORDER_LIMIT}")
        if self.default_order > self.max_order:
            raise ConfigError(
                f"defaultOrder {self.default_order} exceeds maxOrder {self.max_order}: such suffixes are not counted"
            )
        if self.min_order > self.default_order:
            raise ConfigError(f"minOrder {self.min_order} exceeds defaultOrder {self.default_order}")
        if self.state_strategy not in STRATEGIES:
            raise ConfigError(f"strategy {self.state_strategy!r} is unknown; choose one of {', '.join(STRATEGIES)}")
        if self.estimator not in ESTIMATORS:
            raise ConfigError(f"estimator {self.estimator!r} is unknown; choose one of {', '.join(ESTIMATORS)}")

    @property
    def version_id(self) -> str:
        """Key of this configuration in the table ``config_versions``."""
        return "-".join(
            str(part)
            for part in (
                self.default_order,
                self.min_order,
                self.max_order,
                self.min_support,
                self.state_strategy,
            )
        )
