"""Files that are whole or not there."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from sherpa.errors import SourceError


def write_whole(path: Path, data: bytes) -> None:
    """Write a file through a temporary neighbour, so that a crash leaves the old one or the new one.

    Raises
    ------
    SourceError
        If it cannot be written.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(draft, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise SourceError(f"cannot be written: {error.strerror or error}", file=path) from None
