"""A log in which a run has begun."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.runtime.blobs import BlobStore
from harness.runtime.store import RunStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    made = RunStore(tmp_path / "sherpa.db", BlobStore(tmp_path / "blobs"))
    made.append("r", "run_started", {"status": "running", "problem_sha": "0"})
    yield made
    made.close()
