"""A saga whose process is killed at any operation on the disk goes on from where it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PROJECT


def swept(folder: Path, stride: int) -> int:
    command = [sys.executable, "-m", "tests.harness.saga.driver", str(folder), str(stride)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_killed_at_some_operations(tmp_path: Path) -> None:
    assert swept(tmp_path, 4) > 80


@pytest.mark.full
def test_killed_at_every_operation(tmp_path: Path) -> None:
    assert swept(tmp_path, 1) > 80
