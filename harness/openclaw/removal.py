"""Deleting a memory: only a folder that is one, and only what it is made of."""

from __future__ import annotations

import shutil
from pathlib import Path

from sherpa.errors import ConfigError

_MARKS = ("events", "graph.db", "queue", "spool")


def check_memory(root: Path) -> None:
    """Make sure that a folder is a memory.

    Raises
    ------
    ConfigError
        If it is not: a slip of the pen must not delete anything else.
    """
    if root.is_symlink() or not root.is_dir():
        raise ConfigError(f"{root}: is no folder")
    if not any((root / mark).exists() for mark in _MARKS):
        raise ConfigError(f"{root}: is no memory of Sherpa; it holds none of {', '.join(_MARKS)}")


def delete(root: Path) -> None:
    """Delete a memory with everything in it.

    Raises
    ------
    ConfigError
        If it is none, or cannot be deleted.
    """
    check_memory(root)
    try:
        shutil.rmtree(root)
    except OSError as error:
        raise ConfigError(f"{root}: cannot be deleted: {error.strerror or error}") from None
