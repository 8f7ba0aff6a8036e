"""Files that are whole or not there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from sherpa.errors import SourceError


def write_whole(path: Path, data: bytes) -> None:
    """Write a file through a temporary neighbour, so that a crash leaves the old one or the new one.

    Raises
    ------
    SourceError
        If it cannot be written.
    """
    with writing_whole(path) as file:
        file.write(data)


@contextmanager
def writing_whole(path: Path) -> Iterator[IO[bytes]]:
    """The same for a file that is written in pieces; it appears when the block ends, and not if that raises.

    Raises
    ------
    SourceError
        If it cannot be written.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(draft, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise SourceError(f"cannot be written: {error.strerror or error}", file=path) from None
        raise


def append_lines(path: Path, data: bytes) -> None:
    """Append whole lines durably. Half a line of a process that died gets its end first, so that ours begins a line.

    Raises
    ------
    OSError
        If they cannot be written; then none of them is kept.
    """
    with open(path, "ab+") as file:
        before = file.seek(0, os.SEEK_END)
        try:
            file.write(b"\n" + data if before and not _ends_whole(file) else data)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            file.truncate(before)
            raise


def _ends_whole(file: IO[bytes]) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read() == b"\n"
