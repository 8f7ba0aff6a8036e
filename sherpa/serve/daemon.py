"""The HTTP daemon as an ASGI application: ``POST /v1/OPERATION``, ``GET /health``, ``GET /openapi.json``, ``/mcp``."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

import msgspec

from sherpa import __version__
from sherpa.errors import OperationError
from sherpa.serve.guard import STATUS, Guard
from sherpa.serve.service import decoded_parameters
from sherpa.serve.workers import OVERLOADED, Answer, Workers

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
RETRY_SECONDS = 1
_STATUS = STATUS | {
    "not_found": 404,
    "unknown_operation": 404,
    "conflict": 409,
    "refused": 409,
    "wrong_method": 405,
    "slow_body": 408,
    "too_large": 413,
    "wrong_type": 415,
    "store_unavailable": 500,
    "internal": 500,
    "ledger_unavailable": 503,
    OVERLOADED: 503,
}
_PREFIX = "/v1/"
_JSON = (b"content-type", b"application/json")
_HEALTH = msgspec.json.encode({"status": "ok", "version": __version__})
_encoder = msgspec.json.Encoder()


@dataclass(frozen=True)
class Limits:
    """What one client may ask of the daemon.

    Attributes
    ----------
    body : int
        Bytes of a request's body.
    body_seconds : float
        Time for the body to arrive.
    requests : int
        Requests that may be read or answered at a time.
    """

    body: int = 8 * 2**20
    body_seconds: float = 10.0
    requests: int = 512


class Daemon:
    """The application.

    Parameters
    ----------
    workers : Workers
        Started by whoever runs the server.
    guard : Guard
    limits : Limits
    mcp : callable, optional
        ASGI application for ``/mcp``; it stands behind the same guard and limits.
    """

    def __init__(self, workers: Workers, guard: Guard, limits: Limits | None = None, mcp: App | None = None) -> None:
        self._workers = workers
        self._guard = guard
        self._limits = limits or Limits()
        self._mcp = mcp
        self._open = 0
        self._document: bytes | None = None

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        try:
            self._guard.check_place(scope["headers"])
            path = scope["path"]
            if path.startswith(_PREFIX):
                self._guard.check_token(scope["headers"])
                _only(scope, "POST")
                body = await self._operation(path[len(_PREFIX) :], scope, receive)
            elif path == "/mcp" and self._mcp is not None:
                self._guard.check_token(scope["headers"])
                await self._pass_on(self._mcp, scope, receive, send)
                return
            elif path == "/health":
                _only(scope, "GET", "HEAD")
                body = _HEALTH
            elif path == "/openapi.json":
                _only(scope, "GET", "HEAD")
                body = self._openapi()
            else:
                raise OperationError("not_found", f"no path {path[:200]!r}; /openapi.json lists what there is")
        except OperationError as error:
            await _refuse(send, error, scope)
        except Exception:
            # Whatever it is, the client gets an answer that tells nothing of the inside.
            traceback.print_exc(file=sys.stderr)
            await _refuse(send, OperationError("internal", "internal error"), scope)
        else:
            await _answer(send, 200, body, empty=scope["method"] == "HEAD")

    async def _operation(self, name: str, scope: MutableMapping[str, Any], receive: Receive) -> bytes:
        operation = self._workers.operation_of(name)
        _check_type(scope["headers"])
        if self._open >= self._limits.requests:
            raise OperationError(OVERLOADED, f"{self._limits.requests} requests are open already; try again")
        self._open += 1
        try:
            body = await self._body(scope["headers"], receive)
            parameters = decoded_parameters(operation, body)
            loop = asyncio.get_running_loop()
            future: asyncio.Future[Answer] = loop.create_future()

            def done(answer: Answer) -> None:
                loop.call_soon_threadsafe(_settle, future, answer)

            self._workers.submit(operation, parameters, done)
            answer = await future
        finally:
            self._open -= 1
        if isinstance(answer, OperationError):
            raise answer
        return answer

    async def _body(self, headers: list[tuple[bytes, bytes]], receive: Receive) -> bytes:
        """The whole body, within its limits.

        Raises
        ------
        OperationError
        """
        most = self._limits.body
        for name, value in headers:
            if name == b"content-length" and value.isdigit() and int(value) > most:
                raise _too_large(most)
        parts: list[bytes] = []
        size, more = 0, True
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise OperationError("slow_body", "the client went away")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    more = bool(message.get("more_body"))
                    if size > most:
                        raise _too_large(most)
        except TimeoutError:
            seconds = f"{self._limits.body_seconds:g}"
            raise OperationError("slow_body", f"the body did not come within {seconds} seconds") from None
        return b"".join(parts)

    async def _pass_on(self, app: App, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """To another application, with the body read and bounded here."""
        if scope["method"] != "POST":
            await app(scope, receive, send)
            return
        body = await self._body(scope["headers"], receive)
        told = False

        async def again() -> Message:
            nonlocal told
            if told:
                return await receive()
            told = True
            return {"type": "http.request", "body": body, "more_body": False}

        await app(scope, again, send)

    def _openapi(self) -> bytes:
        if self._document is None:
            from sherpa.serve.schemas import openapi

            self._document = _encoder.encode(openapi(self._workers.guests.operations().values()))
        return self._document


def _settle(future: asyncio.Future[Answer], answer: Answer) -> None:
    if not future.done():
        future.set_result(answer)


def _only(scope: MutableMapping[str, Any], *methods: str) -> None:
    if scope["method"] not in methods:
        scope["allow"] = ", ".join(methods)
        raise OperationError("wrong_method", f"{scope['method'][:20]} is not possible here; use {methods[0]}")


def _check_type(headers: list[tuple[bytes, bytes]]) -> None:
    for name, value in headers:
        if name == b"content-type" and value.partition(b";")[0].strip().lower() == b"application/json":
            return
    raise OperationError("wrong_type", "the body must be JSON, and content-type application/json say so")


def _too_large(most: int) -> OperationError:
    return OperationError("too_large", f"the body is larger than {most:,} bytes; send it in parts")


async def _refuse(send: Send, error: OperationError, scope: MutableMapping[str, Any]) -> None:
    status = _STATUS.get(error.code, 400)
    headers = []
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if status == 405:
        headers.append((b"allow", scope["allow"].encode("ascii")))
    if status == 503:
        headers.append((b"retry-after", str(RETRY_SECONDS).encode("ascii")))
    if status in (408, 413):
        # The rest of the body is not read.
        headers.append((b"connection", b"close"))
    body = _encoder.encode({"error": {"code": error.code, "message": str(error)}})
    await _answer(send, status, body, *headers, empty=scope["method"] == "HEAD")


async def _answer(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes], empty: bool = False) -> None:
    length = (b"content-length", str(len(body)).encode("ascii"))
    await send({"type": "http.response.start", "status": status, "headers": [_JSON, length, *headers]})
    await send({"type": "http.response.body", "body": b"" if empty else body})
