"""The blended estimators by name."""

from __future__ import annotations

from collections.abc import Callable

from sherpa.estimators.blended import BlendedModel, Settings
from sherpa.estimators.mixture import Mixture, experts
from sherpa.estimators.selection import AutoModel

Model = BlendedModel | Mixture
ESTIMATORS: dict[str, Callable[[int], Model]] = {
    "kneser-ney": lambda order: BlendedModel(Settings("kneser-ney", order)),
    "witten-bell": lambda order: BlendedModel(Settings("witten-bell", order)),
    "ppm-c": lambda order: BlendedModel(Settings("ppm-c", order)),
    "merged": lambda order: BlendedModel(Settings("kneser-ney", order, merged=True)),
    "mixture": lambda order: Mixture(experts(order)),
    "auto": lambda order: AutoModel(orders=range(2, order + 1) if order > 2 else (order,)),
}
"""Makers of fresh models, from the longest context in events."""
