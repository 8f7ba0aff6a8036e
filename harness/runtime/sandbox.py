"""Subprocesses with bounds: limits of the kernel, a process group of their own, a cleaned environment, capped output.

A small launcher sets the limits and then becomes the program, so that nothing of this process runs between fork and
exec, and the limits hold from the program's first instruction.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

OUTPUT_BYTES = 64 * 2**10
_LAUNCHER = """
import os, resource, sys
cpu, size, memory = map(int, sys.argv[1:4])
for name, limit in (("RLIMIT_CPU", cpu), ("RLIMIT_FSIZE", size), ("RLIMIT_AS", memory), ("RLIMIT_CORE", 0),
                    ("RLIMIT_NOFILE", 256)):
    hard = resource.getrlimit(getattr(resource, name))[1]
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(getattr(resource, name), (limit, limit))
os.execv(sys.argv[4], sys.argv[4:])
"""


@dataclass(frozen=True)
class Finished:
    """How a program ended.

    Attributes
    ----------
    returncode : int
        Negative for a signal.
    stdout, stderr : str
        The first 64 kB of each.
    timed_out : bool
    """

    returncode: int
    stdout: str
    stderr: str
    timed_out: bool


def run_confined(
    argv: Sequence[str],
    *,
    cwd: Path,
    timeout: float = 120,
    env: Mapping[str, str] | None = None,
    file_bytes: int = 64 * 2**20,
    memory_bytes: int = 4 * 2**30,
) -> Finished:
    """Run a program to its end or to its time limit; nothing of its process group is left behind.

    Parameters
    ----------
    argv : sequence of str
        The program by absolute path, and its arguments.
    env : mapping, optional
        Added to an environment that otherwise holds only a search path, a home that is empty, and a language.
    """
    limits = [str(int(timeout) + 5), str(file_bytes), str(memory_bytes)]
    with (
        tempfile.TemporaryDirectory(prefix="runtime-") as home,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        clean = {"PATH": "/usr/bin:/bin", "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
        clean |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1"} | dict(env or {})
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _LAUNCHER, *limits, *argv],
            cwd=cwd,
            env=clean,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        timed_out = False
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read(OUTPUT_BYTES).decode("utf-8", "replace"))
        return Finished(process.returncode, texts[0], texts[1], timed_out)
