"""A daemon that a client owns: started when none answers, watched, started again, and ended with its owner."""

from __future__ import annotations

import http.client
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from sherpa.serve.backend import Backoff, Gone

POLL_SECONDS = 0.1
_END_SECONDS = 15.0


class ManagedDaemon:
    """Keeps a daemon running at an address.

    A daemon that is there already, whoever started it, is used and left alone.

    Parameters
    ----------
    command : sequence of str
        The whole command line; it must end with its standard input (``--owned``).
    host, port
        Where the daemon listens.
    environment : mapping, optional
        Variables on top of those of this process.
    clock, sleep : callable
        Seconds that only grow; pause.
    """

    def __init__(
        self,
        command: Sequence[str],
        host: str,
        port: int,
        *,
        environment: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._command = list(command)
        self._host, self._port = host, port
        self._environment = {**os.environ, **(environment or {})}
        self._clock, self._sleep = clock, sleep
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._backoff = Backoff()
        self._not_before = 0.0
        self._closed = False

    @property
    def pid(self) -> int | None:
        """Process id of the daemon, if this client started it and it runs."""
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    def ensure(self, timeout: float) -> None:
        """Return once the daemon answers.

        Raises
        ------
        Gone
            If it does not within the time; the next try may wait longer.
        """
        end = self._clock() + timeout
        with self._lock:
            while not self._healthy(max(POLL_SECONDS, end - self._clock())):
                if self._closed:
                    raise Gone("the client is closed", sent=False)
                if self._clock() >= end:
                    raise Gone(f"no daemon answers at {self._host}:{self._port}", sent=False)
                if (self._process is None or self._process.poll() is not None) and self._clock() >= self._not_before:
                    self._start()
                self._sleep(POLL_SECONDS)
            self._backoff.reset()

    def close(self) -> None:
        """End the daemon, if this client started it: it finishes what it had accepted."""
        with self._lock:
            self._closed = True
            process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _start(self) -> None:
        # One that ends as soon as it starts is not started again and again without a pause.
        self._not_before = self._clock() + self._backoff.following()
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        try:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=self._environment
            )
        except OSError as error:
            raise Gone(f"{self._command[0]} cannot be started: {error.strerror or error}", sent=False) from None

    def _healthy(self, timeout: float) -> bool:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=min(timeout, 1.0))
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
