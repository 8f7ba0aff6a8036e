"""Programs under limits of the kernel.

A small launcher sets the limits and then becomes the program: nothing of this process runs between fork and exec, which
is not safe where there are threads, and the limits hold from the program's first instruction.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

OPEN_FILES = 256
_LAUNCHER = """
import os, resource, sys
cpu, memory, size, files = map(int, sys.argv[1:5])
for name, limit in (("RLIMIT_CPU", cpu), ("RLIMIT_AS", memory), ("RLIMIT_FSIZE", size), ("RLIMIT_NOFILE", files),
                    ("RLIMIT_CORE", 0)):
    hard = resource.getrlimit(getattr(resource, name))[1]
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(getattr(resource, name), (limit, limit))
try:
    os.execvp(sys.argv[5], sys.argv[5:])
except OSError as error:
    sys.stderr.write(f"{sys.argv[5]}: {error.strerror}\\n")
    os._exit(127)
"""


def limited(
    argv: Sequence[str], *, cpu_seconds: int, memory_bytes: int = 4 * 2**30, file_bytes: int = 64 * 2**20
) -> list[str]:
    """The command that runs a program under limits, never looser than those that hold already.

    Parameters
    ----------
    argv : sequence of str
        The program, by path or by a name of the search path, and its arguments. If it cannot be started, the exit code
        is 127.
    cpu_seconds, memory_bytes : int
        Of each process.
    file_bytes : int
        Of each file that it writes.
    """
    limits = [str(cpu_seconds), str(memory_bytes), str(file_bytes), str(OPEN_FILES)]
    return [sys.executable, "-I", "-S", "-c", _LAUNCHER, *limits, *argv]
