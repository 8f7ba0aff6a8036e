"""A function over items gives the same list whatever runs it."""

from __future__ import annotations

import time

import numpy as np
import pytest

from sherpa.errors import ConfigError, SourceError
from sherpa.scale.spread import seeds, spread

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
engines = pytest.mark.parametrize(
    "engine",
    ["local", "duckdb", pytest.param("ray", marks=pytest.mark.full), pytest.param("spark", marks=pytest.mark.full)],
)


@pytest.fixture
def ready(engine: str) -> str:
    if engine == "ray":
        pytest.importorskip("ray")
    if engine == "spark":
        pytest.importorskip("pyspark")
        from sherpa.scale.on_spark import java

        if not java():
            pytest.skip("Spark needs Java; none is installed")
    return engine


@engines
def test_results_come_in_the_order_of_the_items(ready: str) -> None:
    def slow_first(item: int) -> int:
        time.sleep(0.2 if item == 0 else 0)
        return item * item

    assert spread(slow_first, range(5), ready) == [0, 1, 4, 9, 16]
    assert spread(slow_first, [], ready) == []


@engines
def test_blocks_of_a_bootstrap_are_the_same_everywhere(ready: str) -> None:
    def block(seed: np.random.SeedSequence) -> float:
        return float(np.random.default_rng(seed).random())

    here = [block(seed) for seed in seeds(7, 4)]
    assert len(set(here)) == 4
    assert spread(block, seeds(7, 4), ready) == here


@engines
def test_an_error_for_the_user_arrives_as_it_was_raised(ready: str) -> None:
    def fail(item: int) -> int:
        if item:
            raise SourceError("is broken", file=f"file {item}", line=3)
        return item

    with pytest.raises(SourceError) as error:
        spread(fail, [0, 1, 2], ready)
    assert (str(error.value), error.value.file, error.value.line) == ("file 1:3: is broken", "file 1", 3)


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(ConfigError, match="local, ray, spark"):
        spread(abs, [1], "flink")
