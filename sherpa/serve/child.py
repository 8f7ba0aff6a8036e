"""A memory in a child of this process: one long-lived program, one JSON document per line both ways."""

from __future__ import annotations

import itertools
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from typing import IO, Any

import msgspec

from sherpa.errors import OperationError
from sherpa.serve.backend import UNAVAILABLE, Gone, persist
from sherpa.serve.lines import LONGEST_LINE
from sherpa.serve.service import operation_of

_END_SECONDS = 10.0
_encoder = msgspec.json.Encoder()


class _Failure(msgspec.Struct):
    code: str
    message: str


class _Line(msgspec.Struct):
    id: int | None
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: _Failure | None = None


_decoder = msgspec.json.Decoder(_Line)
Waiting = dict[int, "Future[Any]"]


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
        self._child: subprocess.Popen[bytes] | None = None
        self._waiting: Waiting = {}
        self._closed = False

    @property
    def pid(self) -> int | None:
        """Process id of the child, if one runs."""
        return None if self._child is None else self._child.pid

    def call(self, operation: str, parameters: Mapping[str, Any]) -> Any:
        """See `Backend.call`."""
        wanted = operation_of(operation)
        return persist(wanted, self._timeout, lambda left: self._ask(wanted.name, parameters, left))

    def close(self) -> None:
        """End the child: its input ends, and what it had accepted is done."""
        with self._lock:
            self._closed = True
            child, self._child = self._child, None
        if child is None:
            return
        assert child.stdin is not None
        with suppress(OSError):
            child.stdin.close()
        try:
            child.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def _ask(self, operation: str, parameters: Mapping[str, Any], left: float) -> Any:
        number = next(self._ids)
        frame = _encoder.encode({"id": number, "operation": operation, "params": parameters}) + b"\n"
        if len(frame) > LONGEST_LINE:
            raise OperationError("too_large", f"{operation}: larger than {LONGEST_LINE:,} bytes; send it in parts")
        answer: Future[Any] = Future()
        with self._lock:
            child, waiting = self._running()
            waiting[number] = answer
            assert child.stdin is not None
            try:
                child.stdin.write(frame)
                child.stdin.flush()
            except OSError:
                waiting.pop(number, None)
                raise Gone("the child ended", sent=True) from None
        try:
            return answer.result(left)
        except FutureTimeout:
            waiting.pop(number, None)
            raise OperationError(UNAVAILABLE, f"{operation}: no answer within {left:.1f} s") from None

    def _running(self) -> tuple[subprocess.Popen[bytes], Waiting]:
        if self._closed:
            raise OperationError(UNAVAILABLE, "the client is closed")
        if self._child is None or self._child.poll() is not None:
            if self._child is not None and self._child.stdin is not None:
                with suppress(OSError):
                    self._child.stdin.close()
            try:
                child = subprocess.Popen(
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self._environment
                )
            except OSError as error:
                raise Gone(f"{self._command[0]} cannot be started: {error.strerror or error}", sent=False) from None
            assert child.stdout is not None
            self._child, self._waiting = child, {}
            threading.Thread(target=_listen, args=(child, child.stdout, self._waiting), daemon=True).start()
        return self._child, self._waiting


def _listen(child: subprocess.Popen[bytes], source: IO[bytes], waiting: Waiting) -> None:
    """Hand answers to those who wait, until the child ends; then nobody waits in vain."""
    with source:
        for text in source:
            try:
                line = _decoder.decode(text)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue
            answer = None if line.id is None else waiting.pop(line.id, None)
            if answer is None:
                continue
            if line.error is not None:
                answer.set_exception(OperationError(line.error.code, line.error.message))
            else:
                answer.set_result(msgspec.json.decode(line.result))
    code = child.wait()
    for number in list(waiting):
        left = waiting.pop(number, None)
        if left is not None:
            left.set_exception(Gone(f"the child ended with {code}", sent=True))
