"""The capability that runs a repository's tests, and the same for acceptance checks: real pytest, confined."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.runtime.capabilities import Capability, CapabilitySpec, Context, Inputs, Need
from harness.runtime.confinement import Confinement
from harness.runtime.errors import AuthorityError, CapabilityError, EscapeError
from harness.runtime.ir import Authority
from harness.runtime.sandbox import Finished, run_confined

TIME_LIMIT = 120
DEFAULT_ARGS = ("-q", "tests")
_FLAGS = re.compile(r"-q+|-v+|-x|--maxfail=\d{1,4}")
_NODE = re.compile(r"[A-Za-z0-9_./-]+(::[A-Za-z0-9_\[\]., =-]+)*")
_ENTRIES = 20_000
# Nothing of the machine decides how tests run: no configuration, no conftest from above, no plugins.
_OWN = ("--rootdir=.", "--confcutdir=.", "-c", "/dev/null", "-p", "no:cacheprovider")


def checked_args(args: Sequence[str], folder: Path) -> list[str]:
    """Arguments for pytest, if each is one that cannot lead elsewhere.

    Raises
    ------
    AuthorityError
        If one is not on the list: ``-q -v -x -k EXPR -m EXPR --maxfail=N`` and tests within the folder.
    """
    done: list[str] = []
    at = 0
    while at < len(args):
        arg = args[at]
        if arg in ("-k", "-m"):
            if at + 1 >= len(args):
                raise AuthorityError(f"{arg} needs an expression")
            done += [arg, args[at + 1]]
            at += 2
            continue
        if not _FLAGS.fullmatch(arg):
            _check_node(arg, folder)
        done.append(arg)
        at += 1
    return done


def _check_node(arg: str, folder: Path) -> None:
    path = arg.split("::")[0]
    if arg.startswith(("-", "/", "@")) or not _NODE.fullmatch(arg) or ".." in path.split("/"):
        raise AuthorityError(f"the argument {arg!r} is not allowed for tests")
    if not Path(os.path.realpath(folder / path)).is_relative_to(folder):
        raise EscapeError(f"{arg} leads out of the folder of the tests")


def check_contained(folder: Path) -> None:
    """Raises EscapeError if a link below a folder leads out of it, a ``conftest.py`` for example."""
    count = 0
    for above, folders, names in os.walk(folder, followlinks=False):
        for name in (*folders, *names):
            count += 1
            path = Path(above) / name
            if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(folder):
                raise EscapeError(f"{path} leads out of {folder}")
        if count > _ENTRIES:
            raise EscapeError(f"{folder} holds more than {_ENTRIES} entries; name a smaller folder")


def run_pytest(confinement: Confinement, cwd: str, args: Sequence[str], timeout: float = TIME_LIMIT) -> Finished:
    """Run pytest in a granted folder.

    Raises
    ------
    AuthorityError
        If the folder or an argument is not allowed; then nothing was run.
    """
    for token in ("python", "pytest"):
        confinement.check_token("subprocess_allow", token)
    folder = confinement.check_path("fs_read", cwd)
    if not folder.is_dir():
        raise CapabilityError(f"{cwd} is no folder")
    allowed = checked_args(args, folder)
    check_contained(folder)
    argv = [sys.executable, "-m", "pytest", *_OWN, *allowed]
    return run_confined(argv, cwd=folder, timeout=timeout, env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})


class RunTests(Capability):
    """Runs a repository's tests."""

    spec = CapabilitySpec(
        name="repo.run_tests",
        description="Runs pytest in a folder.",
        input_schema={
            "type": "object",
            "properties": {
                "cwd": {"type": "string"},
                "args": {"type": "array", "items": {"type": "string"}},
                "timeout": {"type": "number", "minimum": 1, "maximum": 600},
            },
            "required": ["cwd"],
        },
        output_schema={
            "type": "object",
            "properties": {
                "returncode": {"type": "integer"},
                "stdout": {"type": "string"},
                "stderr": {"type": "string"},
                "passed": {"type": "boolean"},
            },
            "required": ["returncode", "stdout", "stderr", "passed"],
        },
        requires=("fs_read", "subprocess_allow"),
        authority_required=Authority(subprocess_allow=("python", "pytest")),
        idempotent=True,
    )

    def needs(self, inputs: Inputs, context: Context) -> list[Need]:
        folder = Path(os.path.realpath(context.workspace / inputs["cwd"]))
        checked_args(inputs.get("args", DEFAULT_ARGS), folder)
        return [("fs_read", inputs["cwd"])]

    def probe(self, inputs: Inputs, context: Context) -> bytes:
        folder = context.confinement.check_path("fs_read", inputs["cwd"])
        if not folder.is_dir():
            raise CapabilityError(f"{inputs['cwd']} is no folder")
        done = run_confined([sys.executable, "-m", "pytest", "--version"], cwd=Path("/"), timeout=30)
        if done.returncode != 0:
            raise CapabilityError(f"pytest cannot be run: {done.stderr[:200]}")
        return (done.stdout + done.stderr).encode()

    def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
        timeout = inputs.get("timeout", TIME_LIMIT)
        done = run_pytest(context.confinement, inputs["cwd"], inputs.get("args", DEFAULT_ARGS), timeout)
        return {
            "returncode": done.returncode,
            "stdout": done.stdout,
            "stderr": done.stderr,
            "passed": done.returncode == 0 and not done.timed_out,
        }
