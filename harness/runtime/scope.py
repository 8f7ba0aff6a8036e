"""What expressions see: results by node id, loaded from blobs when they are looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.runtime.blobs import BlobStore
from harness.runtime.expr import plain

Scope = dict[str, Any]


class Stored(Mapping[str, Any]):
    """What a node left: its result under one or more names, kept as a blob and not in memory."""

    __slots__ = ("_blobs", "_names", "_sha")

    def __init__(self, blobs: BlobStore, sha: str, names: tuple[str, ...] = ("result",)) -> None:
        self._blobs, self._sha, self._names = blobs, sha, names

    def __getitem__(self, key: str) -> Any:
        if key not in self._names:
            raise KeyError(key)
        return self._blobs.get_json(self._sha)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def prior_results(scope: Scope) -> dict[str, Any]:
    """Everything nodes have left, for a planner."""
    return {name: plain(value) for name, value in scope.items() if isinstance(value, Stored)}
