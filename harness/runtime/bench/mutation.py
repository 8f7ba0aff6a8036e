"""Mutants of the runtime, and the tests that must kill them.

``python -m harness.runtime.bench.mutation`` copies the package and its tests, breaks one thing at a time, and runs the
tests that are named for it. A mutant that survives is a rule that nothing checks.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TESTS = "tests/harness/runtime"
TIME_LIMIT = 240


@dataclass(frozen=True)
class Mutant:
    """One broken rule.

    Attributes
    ----------
    name : str
    file : str
        Below ``harness/runtime``.
    old, new : str
        Text that occurs exactly once, and what comes in its place.
    tests : str
        Test module and, after ``-k``, the tests that must fail.
    """

    name: str
    file: str
    old: str
    new: str
    tests: str


def read_mutants() -> list[Mutant]:
    """The mutants of ``mutants.toml``."""
    text = files("harness.runtime.bench").joinpath("mutants.toml").read_text(encoding="utf-8")
    return [Mutant(**raw) for raw in tomllib.loads(text)["mutants"]]


def _copy(folder: Path) -> None:
    """A tree in which the runtime and its tests are copies and all else is linked."""
    skipped = shutil.ignore_patterns("__pycache__")
    for name in ("sherpa", "experiments", "baselines", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "harness").mkdir()
    for path in (ROOT / "harness").iterdir():
        if path.name not in ("runtime", "__pycache__"):
            (folder / "harness" / path.name).symlink_to(path)
    shutil.copytree(ROOT / "harness" / "runtime", folder / "harness" / "runtime", ignore=skipped)
    shutil.copytree(ROOT / TESTS, folder / TESTS, ignore=skipped)
    for name in ("__init__.py", "conftest.py"):
        shutil.copy(ROOT / "tests" / name, folder / "tests" / name)


def _fails(folder: Path, tests: str) -> bool:
    module, _, names = tests.partition(" -k ")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-m",
        "not full",
        f"{TESTS}/{module}",
    ]
    command += ["-k", names] if names else []
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(folder)}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=TIME_LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return True
    if done.returncode == 2 and b"KeyboardInterrupt" in done.stdout:
        # The interruption that a test gives to the runtime came out of it where none was expected.
        return True
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{tests}: pytest ended with {done.returncode}: {done.stdout.decode()[-800:]}")
    return done.returncode == 1


def run_mutants(mutants: Sequence[Mutant]) -> dict[str, list[str]]:
    """Names of the mutants that were killed, and of those that survived.

    Raises
    ------
    RuntimeError
        If a text to change does not occur exactly once, or the tests fail without any mutant.
    """
    found: dict[str, list[str]] = {"killed": [], "survived": []}
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        folder = Path(name)
        _copy(folder)
        for mutant in mutants:
            path = folder / "harness" / "runtime" / mutant.file
            source = path.read_text(encoding="utf-8")
            if source.count(mutant.old) != 1:
                raise RuntimeError(f"{mutant.name}: the text to change occurs {source.count(mutant.old)} times")
            path.write_text(source.replace(mutant.old, mutant.new), encoding="utf-8")
            killed = _fails(folder, mutant.tests)
            path.write_text(source, encoding="utf-8")
            found["killed" if killed else "survived"].append(mutant.name)
            print(f"{'killed' if killed else 'SURVIVED'}: {mutant.name}", file=sys.stderr, flush=True)
        for tests in sorted({mutant.tests for mutant in mutants}):
            if _fails(folder, tests):
                raise RuntimeError(f"{tests} fails without a mutant; nothing can be concluded")
    return found


if __name__ == "__main__":
    report = run_mutants([mutant for mutant in read_mutants() if not sys.argv[1:] or mutant.name in sys.argv[1:]])
    print(json.dumps({name: len(names) for name, names in report.items()} | {"survivors": report["survived"]}))
    sys.exit(1 if report["survived"] else 0)
