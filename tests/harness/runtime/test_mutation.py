"""The mutation runner. Acceptance check 133."""

from __future__ import annotations

import subprocess
import sys

import pytest

from harness.runtime.bench.mutation import Mutant, read_mutants, run_mutants
from tests.conftest import PROJECT

UPSTREAM = {
    "path containment always allows",
    "delegation always allows",
    "stop resolving paths",
    "skip per-path fs check",
    "blank owner on transition",
    "ignore lease refusal",
}


def test_133_every_mutant_has_its_place() -> None:
    mutants = read_mutants()
    names = {mutant.name for mutant in mutants}
    assert len(names) == len(mutants) >= 6 + 25
    assert names >= UPSTREAM
    for mutant in mutants:
        source = (PROJECT / "harness" / "runtime" / mutant.file).read_text()
        assert source.count(mutant.old) == 1, mutant.name


@pytest.mark.full
def test_133_a_mutant_that_changes_nothing_survives() -> None:
    harmless = Mutant("harmless", "events.py", '"""The closed', '"""Closed: the', "test_metrics.py -k test_123")
    killed = Mutant("killed", "metrics.py", "part / whole if", "1.0 if", "test_metrics.py -k test_122")
    assert run_mutants([harmless, killed]) == {"killed": ["killed"], "survived": ["harmless"]}
    with pytest.raises(RuntimeError, match="0 times"):
        run_mutants([Mutant("nowhere", "events.py", "not there", "", "test_metrics.py")])


@pytest.mark.full
def test_133_all_are_killed() -> None:
    command = [sys.executable, "-m", "harness.runtime.bench.mutation"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
