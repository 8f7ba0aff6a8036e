"""Artefacts stay in their folder.

Paths are checked as text and then opened one component at a time, never through a link.
"""

from __future__ import annotations

import os
import re
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.saga.errors import PathError

SUPERSEDED = ".superseded"
"""Folder among the artefacts for what a full rework put away."""
MAX_DEPTH = 16
MAX_LENGTH = 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_RESERVED = re.compile(r"(?i:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?")
_DRIVE = re.compile(r"[A-Za-z]:")


def clean_path(text: object) -> str:
    """A relative path in its plain form; a leading ``artifacts/`` is dropped, as all paths are relative to that folder.

    Raises
    ------
    PathError
        If it is empty, absolute, leads upwards, or is no name that a file may have on every system.
    """
    if not isinstance(text, str) or not text.strip():
        raise PathError(f"{text!r} is no path; name a file relative to the artifacts folder")
    shown = repr(text[:120])
    if any(ord(char) < 32 or ord(char) == 127 or 0xD800 <= ord(char) < 0xE000 for char in text):
        raise PathError(f"path {shown} holds a character that no file name may have")
    if text.startswith("/") or "\\" in text or _DRIVE.match(text):
        raise PathError(f"path {shown} is absolute or of another system; name it relative to the artifacts folder")
    parts = [part for part in (part.strip() for part in text.split("/")) if part not in ("", ".")]
    if parts[:1] == ["artifacts"] and len(parts) > 1:
        parts = parts[1:]
    if not parts or ".." in parts:
        raise PathError(f"path {shown} leads out of the artifacts folder")
    if len(parts) > MAX_DEPTH or len(text.encode()) > MAX_LENGTH or any(len(p.encode()) > 200 for p in parts):
        raise PathError(f"path {shown} is too long or too deep")
    if parts[0] == SUPERSEDED or any(_RESERVED.fullmatch(part) for part in parts):
        raise PathError(f"path {shown} is a reserved name")
    return "/".join(parts)


def read_artifact(root: Path, path: str, *, most: int) -> bytes:
    """Content of a plain file below `root`, at most `most` bytes.

    Parameters
    ----------
    path : str
        As from `clean_path`.

    Raises
    ------
    FileNotFoundError
        If nothing is there.
    PathError
        If it is a link, a folder or a special file, or lies behind a link.
    """
    with _opened(root, path) as file:
        chunks, left = [], most
        while left and (chunk := os.read(file, min(left, 1 << 20))):
            chunks.append(chunk)
            left -= len(chunk)
    return b"".join(chunks)


def size_of(root: Path, path: str) -> int:
    """Size of a plain file in bytes; errors as `read_artifact`."""
    with _opened(root, path) as file:
        return os.fstat(file).st_size


@contextmanager
def _opened(root: Path, path: str) -> Iterator[int]:
    *folders, name = path.split("/")
    with _folder(root, folders, make=False) as folder:
        try:
            # Without waiting: a pipe with no writer would block the opening for ever.
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        except FileNotFoundError:
            raise
        except OSError:
            raise PathError(f"{path}: is a link or a special file") from None
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise PathError(f"{path}: is not a plain file")
            yield file
        finally:
            os.close(file)


def write_artifact(root: Path, path: str, data: bytes) -> None:
    """Write a file below `root` whole or not at all; missing folders are made.

    Raises
    ------
    PathError
        If something other than a plain file is there, or the way leads through a link.
    OSError
        If it cannot be written.
    """
    *folders, name = path.split("/")
    with _folder(root, folders, make=True) as folder:
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                raise PathError(f"{path}: is there and is not a plain file")
        draft = f".{uuid.uuid4().hex}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(draft, flags, 0o644, dir_fd=folder)
        try:
            with os.fdopen(file, "wb") as opened:
                opened.write(data)
                opened.flush()
                os.fsync(opened.fileno())
            os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(draft, dir_fd=folder)
            raise


def check_writable_place(root: Path, path: str) -> None:
    """Raises PathError if `path` could not be written without following a link; makes nothing."""
    *folders, name = path.split("/")
    with suppress(FileNotFoundError), _folder(root, folders, make=False) as folder:
        if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise PathError(f"{path}: is there and is not a plain file")


def move_artifact(root: Path, path: str, target: str) -> bool:
    """Move a file below `root`; False if it is not there (any more)."""
    *folders, name = path.split("/")
    *beyond, new_name = target.split("/")
    try:
        with _folder(root, folders, make=False) as source, _folder(root, beyond, make=True) as sink:
            os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=sink)
    except FileNotFoundError:
        return False
    return True


def total_size(root: Path) -> int:
    """Bytes of all files below `root`, links not followed."""
    total = 0
    for folder, _, names in os.walk(root):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total


@contextmanager
def _folder(root: Path, parts: list[str], *, make: bool) -> Iterator[int]:
    folder = os.open(root, _FOLDER)
    try:
        for at, part in enumerate(parts):
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=folder)
            try:
                inner = os.open(part, _FOLDER, dir_fd=folder)
            except FileNotFoundError:
                raise
            except OSError:
                raise PathError(f"{'/'.join(parts[: at + 1])}: is a link or no folder") from None
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)
