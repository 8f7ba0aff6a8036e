"""What the saga's tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.saga.scripted import Agent


@pytest.fixture
def agent(tmp_path: Path, clock: Callable[[], int]) -> Callable[..., Agent]:
    """Makes scripted agents on one state root."""

    def make(**changes: Any) -> Agent:
        return Agent(tmp_path / "root", clock, **changes)

    return make


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder of artefacts."""
    folder = tmp_path / "artifacts"
    folder.mkdir()
    return folder
