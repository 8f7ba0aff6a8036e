"""What a client talks through. Three ways to the same operations: in this process, through a child, over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

from sherpa.errors import OperationError, SherpaError
from sherpa.serve.operations import Lane, Operation
from sherpa.serve.service import Opening, Service

UNAVAILABLE = "backend_unavailable"
OVERLOADED_PAUSE = 1.0
PATIENCE: Mapping[Lane, float] = {"read": 1, "write": 1, "report": 10, "maintain": 200, "guest": 200}
"""How many times the usual time-out an operation may take: a rebuild is no question."""


class Backend(Protocol):
    """Does operations. All methods may be called by several threads."""

    def call(self, operation: str, parameters: Mapping[str, Any]) -> Any:
        """The answer as a JSON value.

        Raises
        ------
        OperationError
        """

    def close(self) -> None:
        """Release what it holds; what it started, ends."""


class EmbeddedBackend:
    """The memory in this process, in a thread of its own."""

    def __init__(self, opening: Opening) -> None:
        # A connection to SQLite belongs to one thread.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sherpa")
        self._service: Service | None = None
        try:
            self._thread.submit(self._open, opening).result()
        except BaseException:
            self._thread.shutdown()
            raise

    def _open(self, opening: Opening) -> None:
        self._service = Service(opening)

    def call(self, operation: str, parameters: Mapping[str, Any]) -> Any:
        """See `Backend.call`."""
        if self._service is None:
            raise OperationError(UNAVAILABLE, "the client is closed")
        return self._thread.submit(self._service.call, operation, parameters).result()

    def close(self) -> None:
        """See `Backend.close`."""
        service, self._service = self._service, None
        if service is not None:
            self._thread.submit(service.close).result()
        self._thread.shutdown()


@dataclass
class Backoff:
    """Pauses before further tries: a quarter of a second, then twice as long each time, at most five.

    >>> pauses = Backoff()
    >>> [pauses.following() for _ in range(6)]
    [0.25, 0.5, 1.0, 2.0, 4.0, 5.0]
    """

    first: float = 0.25
    most: float = 5.0
    _last: float = field(default=0.0, init=False)

    def following(self) -> float:
        """Seconds to wait now."""
        self._last = min(self.most, 2 * self._last or self.first)
        return self._last

    def reset(self) -> None:
        """It worked: the next pause is the first again."""
        self._last = 0.0


class Gone(SherpaError):
    """The other side is not there, or went away before it answered.

    Attributes
    ----------
    sent : bool
        Whether it may have begun to work on the request.
    """

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


def persist(
    operation: Operation, timeout: float, attempt: Callable[[float], Any], pause: Callable[[float], None] = time.sleep
) -> Any:
    """Try until it is answered or the time is over.

    Parameters
    ----------
    operation : Operation
        One that may not be repeated is not sent twice if the first may have arrived.
    timeout : float
        Seconds.
    attempt : callable
        Takes the seconds that are left; raises `Gone` or ``overloaded`` to be tried again.
    pause : callable
        Sleeps.

    Raises
    ------
    OperationError
        The last refusal, or ``backend_unavailable``.
    """
    end = time.monotonic() + timeout * PATIENCE[operation.lane]
    backoff = Backoff()
    while True:
        try:
            return attempt(max(0.001, end - time.monotonic()))
        except Gone as gone:
            if gone.sent and not operation.repeatable:
                raise OperationError(UNAVAILABLE, f"{gone}; whether {operation.name} was done is not known") from None
            wait = backoff.following()
            if time.monotonic() + wait > end:
                raise OperationError(UNAVAILABLE, str(gone)) from None
        except OperationError as error:
            wait = OVERLOADED_PAUSE
            if error.code != "overloaded" or time.monotonic() + wait > end:
                raise
        pause(wait)
