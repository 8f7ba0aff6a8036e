"""Options of the engine."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sherpa.config import EngineConfig
from sherpa.errors import ConfigError


def test_the_defaults_are_the_published_ones() -> None:
    assert msgspec.to_builtins(EngineConfig()) == {
        "defaultOrder": 3,
        "minOrder": 1,
        "maxOrder": 5,
        "minSupport": 2,
        "stateStrategy": "raw",
        "estimator": "longest-suffix",
        "requireProjection": False,
        "allowRawFallback": True,
        "allowedProjectionSources": ("llm", "manual", "imported"),
        "parity": False,
    }


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"min_order": 0}, "minOrder is 0"),
        ({"min_order": -1}, "minOrder is -1"),
        ({"min_support": 0}, "minSupport is 0"),
        ({"max_order": 0}, "maxOrder is 0"),
        ({"max_order": 17}, "maxOrder is 17"),
        ({"default_order": 6}, "defaultOrder 6 exceeds maxOrder 5"),
        ({"default_order": 0}, "minOrder 1 exceeds defaultOrder 0"),
        ({"min_order": 4}, "minOrder 4 exceeds defaultOrder 3"),
        ({"max_order": 2}, "defaultOrder 3 exceeds maxOrder 2"),
        ({"state_strategy": "family"}, "'family'.*raw, procedure, family-procedure"),
        ({"estimator": "magic"}, "'magic'.*longest-suffix"),
    ],
)
def test_an_impossible_option_is_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        EngineConfig(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"min_order": 3, "default_order": 3, "max_order": 3},
        {"min_order": 1, "default_order": 1, "max_order": 1},
        {"default_order": 16, "max_order": 16},
    ],
)
def test_orders_may_meet_their_limits(options: dict[str, Any]) -> None:
    config = EngineConfig(**options)
    assert {name: getattr(config, name) for name in options} == options


def test_options_are_read_by_their_published_names() -> None:
    config = msgspec.convert({"maxOrder": 7, "minSupport": 1, "stateStrategy": "procedure"}, EngineConfig)
    assert config == EngineConfig(max_order=7, min_support=1, state_strategy="procedure")


@pytest.mark.parametrize("raw", [{"maxOrdr": 3}, {"max_order": 3}, {"maxOrder": "3"}, {"stateStrategy": "family"}])
def test_a_misspelt_or_mistyped_option_is_refused(raw: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(raw, EngineConfig)


def test_limits_hold_for_options_that_are_read() -> None:
    with pytest.raises(ConfigError, match="maxOrder is 99"):
        msgspec.convert({"maxOrder": 99}, EngineConfig)


def test_the_version_names_orders_support_and_strategy() -> None:
    assert EngineConfig().version_id == "3-1-5-2-raw"
    config = EngineConfig(
        default_order=4, min_order=2, max_order=6, min_support=7, state_strategy="family-procedure", parity=True
    )
    assert config.version_id == "4-2-6-7-family-procedure"
