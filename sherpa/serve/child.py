"""A memory in a child of this process: one long-lived program, one JSON document per line both ways."""

from __future__ import annotations

import itertools
import os
import queue
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from typing import IO, Any

import msgspec

from sherpa.errors import OperationError
from sherpa.serve.backend import UNAVAILABLE, Gone, persist
from sherpa.serve.lines import LONGEST_LINE
from sherpa.serve.service import encoded_parameters, operation_of

_END_SECONDS, _STUCK_SECONDS = 10.0, 30.0
_ID_BYTES = 32


class _Failure(msgspec.Struct):
    code: str
    message: str


class _Line(msgspec.Struct):
    id: int | None
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: _Failure | None = None


_decoder = msgspec.json.Decoder(_Line)
_Frame = tuple[int, bytes]


class _Running:
    """One child. Frames are written by a thread of its own: a child that does not read holds nobody else up."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.waiting: dict[int, Future[Any]] = {}
        self._frames: queue.SimpleQueue[_Frame | None] = queue.SimpleQueue()
        self._since: float | None = None
        self.ended: str | None = None
        threading.Thread(target=self._write, args=(self.process.stdin,), daemon=True).start()
        threading.Thread(target=self._listen, args=(self.process.stdout,), daemon=True).start()

    def send(self, number: int, frame: bytes) -> Future[Any]:
        """Hand a frame over; gives what its answer will come in."""
        answer: Future[Any] = Future()
        self.waiting[number] = answer
        if self.ended is not None and self.waiting.pop(number, None) is not None:
            answer.set_exception(Gone(self.ended, sent=False))
        self._frames.put((number, frame))
        return answer

    def give_up(self, number: int) -> None:
        """Nobody waits for an answer any more. A child that has not read for long will not: it is ended."""
        self.waiting.pop(number, None)
        since = self._since
        if since is not None and time.monotonic() - since > _STUCK_SECONDS:
            self.process.kill()

    def close(self) -> None:
        """End the child: its input ends, and what it had accepted is done."""
        self._frames.put(None)
        try:
            self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _write(self, sink: IO[bytes]) -> None:
        with suppress(OSError), sink:
            while (item := self._frames.get()) is not None:
                number, frame = item
                if number not in self.waiting:
                    # Whoever asked has given up; it was never sent.
                    continue
                self._since = time.monotonic()
                sink.write(frame)
                sink.flush()
                self._since = None

    def _listen(self, source: IO[bytes]) -> None:
        """Hand answers to those who wait, until the child ends; then nobody waits in vain."""
        with source:
            for text in source:
                try:
                    line = _decoder.decode(text)
                    value = msgspec.json.decode(line.result)
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                    continue
                answer = None if line.id is None else self.waiting.pop(line.id, None)
                if answer is None:
                    continue
                if line.error is not None:
                    answer.set_exception(OperationError(line.error.code, line.error.message))
                else:
                    answer.set_result(value)
        self.ended = f"the child ended with {self.process.wait()}"
        self._frames.put(None)
        for number in list(self.waiting):
            left = self.waiting.pop(number, None)
            if left is not None:
                left.set_exception(Gone(self.ended, sent=True))


class ChildBackend:
    """Talks to ``sherpa serve --stdio``. A child that ends is started again.

    Parameters
    ----------
    command : sequence of str
        The whole command line.
    timeout : float
        Seconds that a question may take, the start of the child included.
    environment : mapping, optional
        Variables on top of those of this process.
    """

    def __init__(
        self, command: Sequence[str], *, timeout: float = 3.0, environment: Mapping[str, str] | None = None
    ) -> None:
        self._command = list(command)
        self._timeout = timeout
        self._environment = {**os.environ, **(environment or {})}
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._child: _Running | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        """Process id of the child, if one runs."""
        return None if self._child is None else self._child.process.pid

    def call(self, operation: str, parameters: Mapping[str, Any]) -> Any:
        """See `Backend.call`."""
        wanted = operation_of(operation)
        frame = b'"operation":"%s","params":%s}\n' % (wanted.name.encode(), encoded_parameters(wanted, parameters))
        if len(frame) + _ID_BYTES > LONGEST_LINE:
            raise OperationError("too_large", f"{wanted.name}: larger than {LONGEST_LINE:,} bytes; send it in parts")
        return persist(wanted, self._timeout, lambda left: self._ask(wanted.name, frame, left))

    def close(self) -> None:
        """End the child: its input ends, and what it had accepted is done."""
        with self._lock:
            self._closed = True
            child, self._child = self._child, None
        if child is not None:
            child.close()

    def _ask(self, operation: str, frame: bytes, left: float) -> Any:
        number = next(self._ids)
        with self._lock:
            child = self._running()
            answer = child.send(number, b'{"id":%d,%s' % (number, frame))
        try:
            return answer.result(left)
        except FutureTimeout:
            child.give_up(number)
            raise OperationError(UNAVAILABLE, f"{operation}: no answer within {left:.1f} s") from None

    def _running(self) -> _Running:
        if self._closed:
            raise OperationError(UNAVAILABLE, "the client is closed")
        if self._child is None or self._child.process.poll() is not None:
            try:
                self._child = _Running(self._command, self._environment)
            except OSError as error:
                raise Gone(f"{self._command[0]} cannot be started: {error.strerror or error}", sent=False) from None
        return self._child
