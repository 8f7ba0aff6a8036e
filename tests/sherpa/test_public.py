"""The public surface is a decision."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import sherpa
from sherpa.errors import ConfigError

PACKAGES = ("sherpa", "baselines", "experiments", "harness")
MODULES = sorted(
    info.name
    for package in PACKAGES
    for info in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.")
    if not info.name.endswith("__main__")
)


def test_the_exported_names_are_exactly_these() -> None:
    assert sherpa.__all__ == [
        "AsyncSherpaClient",
        "Branch",
        "Branches",
        "Case",
        "CountTable",
        "EdgeSource",
        "EngineConfig",
        "Event",
        "EventLog",
        "GraphStore",
        "Ledger",
        "ProceduralMemory",
        "SherpaClient",
        "SherpaError",
        "VariableOrderMarkovModel",
        "__version__",
    ]
    for name in sherpa.__all__:
        assert getattr(sherpa, name) is not None
    assert dir(sherpa) == sorted(sherpa.__all__)


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = sherpa.nothing_like_it


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ConfigError as absent:  # one of the extras; other modules have no reason to
        pytest.skip(str(absent))
    assert module.__doc__
    assert doctest.testmod(module).failed == 0
