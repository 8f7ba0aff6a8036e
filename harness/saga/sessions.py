"""Which saga a host's session works on: one live saga per session, remembered across processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from filelock import FileLock

from harness.saga.errors import SagaError
from sherpa.files import write_whole


class Sessions:
    """The map of one state root.

    Parameters
    ----------
    root : Path
    is_live : callable
        Whether a saga of this id exists and has not ended.
    """

    def __init__(self, root: Path, is_live: Callable[[str], bool]) -> None:
        self._path = root / "sessions.json"
        self._is_live = is_live

    def active(self, session: str) -> str | None:
        """Id of the live saga of a session."""
        saga_id = self._read().get(session)
        return saga_id if saga_id is not None and self._is_live(saga_id) else None

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Hold the map while a saga is started, so that two starts of a session do not both succeed."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SagaError(f"{self._path.parent}: cannot be written: {error.strerror or error}") from None
        with FileLock(str(self._path.with_suffix(".lock")), timeout=30, is_singleton=False):
            yield

    def put(self, session: str, saga_id: str) -> None:
        """Remember a session's saga, and forget those of others that have ended; only inside `starting`."""
        kept = {name: found for name, found in self._read().items() if self._is_live(found)}
        write_whole(self._path, msgspec.json.encode({**kept, session: saga_id}))

    def _read(self) -> dict[str, str]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, str])
        except (OSError, ValueError):
            # Derived: what is lost is at most that a second saga may be started.
            return {}
