"""What all tests share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# Time limits per example fail on a busy machine and say nothing about the code.
settings.register_profile("project", deadline=None)
settings.load_profile("project")

PROJECT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("SHERPA_DATA", PROJECT.parent / "shared" / "data"))
"""Real inputs that lie beside the project; tests that need them are skipped where they are absent."""


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real inputs."""
    if not DATA.is_dir():
        pytest.skip(f"real inputs are absent: {DATA} (set SHERPA_DATA)")
    return DATA


@pytest.fixture
def fixtures() -> Path:
    """The project's own datasets."""
    return PROJECT / "fixtures" / "validation"


@pytest.fixture
def clock() -> Callable[[], int]:
    """A clock that starts at 2026-01-01T00:00Z and gains a second with every look."""
    ticks: Iterator[int] = iter(range(1_767_225_600 * 10**9, 2**63, 10**9))
    return lambda: next(ticks)


@pytest.fixture
def new_id() -> Callable[[], str]:
    """Ids e-1, e-2, …"""
    numbers: Iterator[int] = iter(range(1, 10**9))
    return lambda: f"e-{next(numbers)}"
