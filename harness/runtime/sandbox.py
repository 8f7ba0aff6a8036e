"""Subprocesses with bounds: limits of the kernel, their own process group, a cleaned environment, capped output."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.limits import limited

OUTPUT_BYTES = 64 * 2**10


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
    command = limited(argv, cpu_seconds=int(timeout) + 5, memory_bytes=memory_bytes, file_bytes=file_bytes)
    with (
        tempfile.TemporaryDirectory(prefix="runtime-") as home,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        clean = {"PATH": "/usr/bin:/bin", "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
        clean |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1"} | dict(env or {})
        process = subprocess.Popen(
            command,
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
