"""Files opened so that nothing between the check and the use can lead elsewhere.

When a run begins, the prefix of every grant is resolved and pinned: its path, device and inode. A path is checked
against the pins and then opened from ``/`` one component at a time without following links; what was opened must be a
plain file with one name. A link that appears after the check is thus met by the opening, and refused.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from harness.runtime.authority import forbidden, read_pattern, resolve, token_within_grants, within
from harness.runtime.errors import AuthorityError, EscapeError
from harness.runtime.ir import Authority

Pin = tuple[str, int, int] | tuple[str, None, None]
"""Resolved path of a grant's prefix, with device and inode if it was there."""
Dimension = Literal["fs_read", "fs_write"]
DATABASE, BLOBS = "sherpa.db", "blobs"
"""Where a workspace keeps its record."""
MAX_FILE_BYTES = 64 * 2**20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def pin(authority: Authority, workspace: Path) -> dict[str, Pin]:
    """Where the prefixes of all path patterns are now."""
    pins: dict[str, Pin] = {}
    for text in (*authority.fs_read, *authority.fs_write):
        pattern = read_pattern(text)
        if pattern is None or pattern.anchor in pins:
            continue
        anchor = resolve(pattern.anchor or ".", workspace)
        try:
            found = os.lstat(anchor)
        except OSError:
            pins[pattern.anchor] = (str(anchor), None, None)
        else:
            pins[pattern.anchor] = (str(anchor), found.st_dev, found.st_ino)
    return pins


class Confinement:
    """What a plan may touch: every authority on the stack of plans must allow it.

    Parameters
    ----------
    workspace : Path
    authorities : sequence of Authority
        Outermost first. All of them apply.
    pins : mapping
        From `pin`, made when the run began. Prefixes that are not in it (a child may name narrower ones) are pinned
        now.
    """

    def __init__(self, workspace: Path, authorities: Sequence[Authority], pins: Mapping[str, Pin]) -> None:
        self.workspace = Path(os.path.realpath(workspace))
        self.authorities = tuple(authorities)
        self._pins = dict(pins)
        for authority in authorities:
            for anchor, place in pin(authority, self.workspace).items():
                self._pins.setdefault(anchor, place)

    def narrowed(self, authority: Authority | None) -> Confinement:
        """The same under one more authority; None inherits."""
        if authority is None:
            return self
        return Confinement(self.workspace, (*self.authorities, authority), self._pins)

    @property
    def effective(self) -> Authority:
        """The innermost authority; the outer ones hold as well."""
        return self.authorities[-1]

    # -- questions ---------------------------------------------------------------------------------------------

    def granted(self, dimension: str) -> bool:
        """Whether a dimension holds any pattern at all, in every authority."""
        return all(any(getattr(authority, dimension)) for authority in self.authorities)

    def check_path(self, dimension: Dimension, requested: str) -> Path:
        """The resolved path, if every authority grants it.

        Raises
        ------
        AuthorityError
            If one does not.
        """
        if not requested or any(ord(char) < 32 for char in requested):
            raise EscapeError(f"{requested!r} is no usable path")
        resolved = resolve(requested, self.workspace)
        if forbidden(resolved):
            raise EscapeError(f"{requested}: {resolved} holds no files")
        if self._reserved(resolved):
            raise EscapeError(f"{requested} belongs to the runtime's own record")
        for authority in self.authorities:
            if not any(self._grants(text, resolved) for text in getattr(authority, dimension)):
                raise AuthorityError(f"{dimension} does not grant {requested} (it is {resolved})")
        return resolved

    def _reserved(self, resolved: Path) -> bool:
        """The log and the blobs: no grant, however wide, lets a step rewrite what is known about it."""
        if not resolved.is_relative_to(self.workspace):
            return False
        first = resolved.relative_to(self.workspace).parts[:1]
        return bool(first) and (first[0] == BLOBS or first[0].startswith(DATABASE))

    def check_token(self, dimension: str, token: str) -> None:
        """Raises AuthorityError unless every authority grants a program or a host."""
        for authority in self.authorities:
            if not token_within_grants(getattr(authority, dimension), token):
                raise AuthorityError(f"{dimension} does not grant {token}")

    def _grants(self, text: str, resolved: Path) -> bool:
        pattern = read_pattern(text)
        if pattern is None:
            return False
        place, device, inode = self._pins[pattern.anchor]
        if not within(pattern, Path(place), resolved, self.workspace):
            return False
        if device is None:
            # It was not there: by now it may be, but not as a link.
            return not os.path.islink(place)
        try:
            found = os.lstat(place)
        except OSError:
            return False
        # An atomic replacement gives a granted file another inode; only a folder is a root that could be exchanged.
        return not stat.S_ISDIR(found.st_mode) or (found.st_dev, found.st_ino) == (device, inode)

    # -- use ---------------------------------------------------------------------------------------------------

    def read(self, requested: str, dimension: Dimension = "fs_read") -> bytes:
        """Content of a granted file.

        Parameters
        ----------
        dimension : str
            ``fs_write`` for what reads a file only to change it.

        Raises
        ------
        AuthorityError
            If it is not granted or is not a plain file.
        OSError
            If it cannot be read.
        """
        resolved = self.check_path(dimension, requested)
        with folder_at(resolved.parent) as parent:
            return read_at(parent, resolved.name)

    def list(self, requested: str) -> list[dict[str, Any]]:
        """Entries of a granted folder by name, with kind and size."""
        resolved = self.check_path("fs_read", requested)
        entries = []
        with folder_at(resolved) as folder:
            for name in sorted(os.listdir(folder)):
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                entries.append({"name": name, "is_dir": stat.S_ISDIR(found.st_mode), "size": found.st_size})
        return entries

    def write(self, requested: str, data: bytes) -> int:
        """Write a granted file whole or not at all; missing folders are made.

        Raises
        ------
        AuthorityError
            If it is not granted, or what is there is a link, has a second name or is no plain file.
        """
        resolved = self.check_path("fs_write", requested)
        with folder_at(resolved.parent, make=True) as parent:
            check_replaceable(parent, resolved.name)
            draft = f".{resolved.name[:100]}.{uuid4().hex}.tmp"
            write_at(parent, draft, data)
            try:
                os.replace(draft, resolved.name, src_dir_fd=parent, dst_dir_fd=parent)
            except OSError:
                os.unlink(draft, dir_fd=parent)
                raise
        return len(data)

    def probe_write(self, requested: str) -> bytes:
        """Evidence that a file could be written beside `requested`: a scratch file is made and removed again.

        The folder may still be missing; then the nearest one above is tried, and nothing is made.
        """
        resolved = self.check_path("fs_write", requested)
        above = resolved.parent
        while not above.exists():
            above = above.parent
        with folder_at(above) as folder:
            if above == resolved.parent:
                check_replaceable(folder, resolved.name)
            scratch = f".probe.{uuid4().hex}"
            write_at(folder, scratch, b"")
            os.unlink(scratch, dir_fd=folder)
        return b"writable"


@contextmanager
def folder_at(path: Path, *, make: bool = False) -> Iterator[int]:
    """Descriptor of a folder that was reached without following a link."""
    folder = os.open("/", _FOLDER)
    try:
        for part in path.parts[1:]:
            try:
                inner = _step(folder, part, make=make)
            except NotADirectoryError:
                raise EscapeError(f"{path}: {part} is a link or no folder") from None
            except OSError as error:
                if error.errno == errno.ELOOP:  # a link, where there was none when the path was resolved
                    raise EscapeError(f"{path}: {part} is a link") from None
                raise
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def _step(folder: int, part: str, *, make: bool) -> int:
    try:
        return os.open(part, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):
        os.mkdir(part, 0o755, dir_fd=folder)
    return os.open(part, _FOLDER, dir_fd=folder)


def _plain(found: os.stat_result, name: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise EscapeError(f"{name} is not a plain file")
    if found.st_nlink > 1:
        raise EscapeError(f"{name} has {found.st_nlink} names; a hard link may lead elsewhere")


def check_replaceable(folder: int, name: str) -> None:
    """Raises EscapeError if something other than a plain file with one name is there."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    _plain(found, name)


def read_at(folder: int, name: str) -> bytes:
    """Content of a plain file in a folder."""
    # Without waiting: a pipe with no writer would block the opening for ever.
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ELOOP):
            raise EscapeError(f"{name} is a link or a special file") from None
        raise
    with os.fdopen(file, "rb") as opened:
        found = os.fstat(opened.fileno())
        _plain(found, name)
        if found.st_size > MAX_FILE_BYTES:
            raise EscapeError(f"{name} is larger than {MAX_FILE_BYTES} bytes")
        return opened.read(MAX_FILE_BYTES)


def write_at(folder: int, name: str, data: bytes) -> None:
    """Make a file that must not be there yet."""
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=folder)
    with os.fdopen(file, "wb") as opened:
        opened.write(data)
