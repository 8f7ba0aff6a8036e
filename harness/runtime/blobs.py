"""Bytes by their hash: written once, shared, and checked when they are read."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from harness.runtime.errors import BlobCorrupt, BlobMissing, RunStoreError
from harness.runtime.ir import canonical

_SHA = re.compile(r"[0-9a-f]{64}")


class BlobStore:
    """Folder of blobs: ``objects/<first two>/<64 hex>``.

    Parameters
    ----------
    folder : Path
        Made on first use.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: set[str] = set()

    def path(self, sha: str) -> Path:
        """Where a blob lies.

        Raises
        ------
        BlobMissing
            If it is no SHA-256 in hexadecimal.
        """
        if not _SHA.fullmatch(sha):
            raise BlobMissing(f"{sha!r} is no SHA-256")
        return self.folder / "objects" / sha[:2] / sha

    def put(self, data: bytes) -> str:
        """Store bytes; returns their SHA-256. What is there already is not written again.

        Raises
        ------
        RunStoreError
            If they cannot be written.
        """
        sha = hashlib.sha256(data).hexdigest()
        if sha in self._known:
            return sha
        path = self.path(sha)
        try:
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                draft = path.with_name(f".{sha}.{uuid4().hex}")
                draft.write_bytes(data)
                os.replace(draft, path)
        except OSError as error:
            raise RunStoreError(f"{path}: cannot be written: {error.strerror or error}") from None
        if len(self._known) < 4096:
            self._known.add(sha)
        return sha

    def put_json(self, value: object) -> str:
        """Store a value as canonical JSON."""
        return self.put(canonical(value))

    def get(self, sha: str) -> bytes:
        """The bytes.

        Raises
        ------
        BlobMissing
            If there are none.
        BlobCorrupt
            If they are not what the name says.
        """
        path = self.path(sha)
        try:
            data = path.read_bytes()
        except OSError:
            raise BlobMissing(f"no blob {sha}") from None
        if hashlib.sha256(data).hexdigest() != sha:
            raise BlobCorrupt(f"{path}: the content is not that of its name; restore it or delete it")
        return data

    def get_json(self, sha: str) -> Any:
        """The value of a blob of JSON."""
        return msgspec.json.decode(self.get(sha))
