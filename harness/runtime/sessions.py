"""Who works on a run: a name per worker that tells whether its process is still alive."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from uuid import uuid4


@lru_cache(maxsize=1)
def _machine() -> str:
    """Names this boot of this machine; process ids mean nothing on another one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """When a process began, so that a reused id is not taken for the old process; None if it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else fields[19]


def new_session(run_id: str) -> str:
    """A name that no other worker has: run, machine, process, and a random part."""
    pid = os.getpid()
    return f"{run_id}::{_machine()}:{pid}:{_started(pid) or '0'}:{uuid4().hex[:12]}"


def is_dead(session: str | None) -> bool:
    """True only if the worker's process was on this machine and is certainly gone."""
    parts = (session or "").rpartition("::")[2].split(":")
    if len(parts) != 4 or not parts[1].isdigit() or not parts[0] or parts[0] != _machine() or parts[2] == "0":
        return False
    return _started(int(parts[1])) != parts[2]
