"""Operations of others that the doors serve beside those of the memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sherpa.serve.operations import Operation

THREADS = 4
"""Guests that may work at a time: one may run a program for minutes."""


class Guests:
    """What is served beside the memory. It is loaded when it is first asked for, so that it costs nobody else a start.

    Parameters
    ----------
    prefix : str
        What all names begin with.
    load : callable
        Gives the operations; their lane is ``guest``.
    """

    def __init__(self, prefix: str, load: Callable[[], Sequence[Operation]]) -> None:
        self._prefix = prefix
        self._load = load
        self._loaded: dict[str, Operation] | None = None

    def find(self, name: str) -> Operation | None:
        """The operation of a name."""
        return self.operations().get(name) if self._prefix and name.startswith(self._prefix) else None

    def operations(self) -> Mapping[str, Operation]:
        """All of them, by name."""
        if self._loaded is None:
            self._loaded = {operation.name: operation for operation in self._load()}
        return self._loaded

    def tools(self) -> dict[str, Operation]:
        """Those that models may call, by the names that models know them by."""
        return {operation.tool: operation for operation in self.operations().values() if operation.tool}


NOBODY = Guests("", lambda: ())
