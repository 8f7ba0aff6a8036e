"""Runs the daemon: sockets, limits of what comes over a connection, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
import threading
from asyncio import TimerHandle, Transport
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from sherpa.errors import ConfigError
from sherpa.serve.daemon import App

HEAD_BYTES, HEAD_SECONDS, IDLE_SECONDS = 32 * 1024, 10.0, 30
MOST_AHEAD = 32
"""Requests that a client may send before the first of them is answered."""
_BACKLOG = 1024


class BoundedProtocol(HttpToolsProtocol):
    """What comes over a connection has its limits, and what is no HTTP is refused in JSON.

    The head of a request has a size and a time limit. So has, for its size, whatever else comes without being a body:
    extensions of chunks and trailers. Requests may be sent ahead of the answers, but not many.
    """

    _deadline: TimerHandle | None = None
    _in_head = True
    _fruitless = 0
    """Bytes since a part of a body came, or a request ended."""

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._fruitless += len(data)
        super().data_received(data)
        if self._fruitless > HEAD_BYTES:
            self._refuse(431, "too_large", f"the head of the request is larger than {HEAD_BYTES:,} bytes")
        elif self.pipeline:
            self.flow.pause_reading()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if not self._in_head:
            self._expect_head()

    def on_headers_complete(self) -> None:
        self._in_head, self._fruitless = False, 0
        self._cancel()
        super().on_headers_complete()
        if len(self.pipeline) > MOST_AHEAD:
            self._refuse(503, "overloaded", f"more than {MOST_AHEAD} requests were sent ahead; wait for answers")
            raise ConnectionAbortedError  # the parser leaves what else came

    def on_body(self, body: bytes) -> None:
        self._fruitless = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._fruitless = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.pipeline:
            self.flow.pause_reading()
        elif self.cycle.response_complete and self.cycle.more_body:
            # Refused before the whole request came: nobody wants the rest.
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "invalid_request", msg)

    def _expect_head(self) -> None:
        self._in_head, self._fruitless = True, 0
        self._cancel()
        self._deadline = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def _too_slow(self) -> None:
        self._refuse(408, "slow_head", f"the head of the request did not come within {HEAD_SECONDS:g} seconds")

    def _cancel(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _refuse(self, status: int, code: str, message: str) -> None:
        self._cancel()
        if self.transport.is_closing():
            return
        body = b'{"error":{"code":"%s","message":"%s"}}' % (code.encode("ascii"), message.encode("ascii"))
        head = STATUS_LINE[status] + b"content-type: application/json\r\nconnection: close\r\ncontent-length: "
        self.transport.write(head + str(len(body)).encode("ascii") + b"\r\n\r\n" + body)
        self.transport.close()


@dataclass(frozen=True)
class Address:
    """Where to listen; port 0 takes a free one."""

    host: str = "127.0.0.1"
    port: int = 8787

    def bind(self) -> socket.socket:
        """A socket that listens there.

        Raises
        ------
        ConfigError
            If it is taken, or no address of this machine.
        """
        found = socket.socket(socket.AF_INET6 if ":" in self.host else socket.AF_INET, socket.SOCK_STREAM)
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind((self.host.strip("[]"), self.port))
            found.listen(_BACKLOG)
            found.setblocking(False)
        except OSError as error:
            found.close()
            raise ConfigError(f"cannot listen on {self.host}:{self.port}: {error.strerror or error}") from None
        return found


def url_of(bound: socket.socket) -> str:
    """The base address of a socket that listens."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def server_of(app: App) -> uvicorn.Server:
    """What serves an application, with all limits."""
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        date_header=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=10,
        backlog=_BACKLOG,
    )
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    return uvicorn.Server(config)


def serve(app: App, bound: socket.socket, *, owned: bool = False, lifespan: Callable[[], Any] | None = None) -> None:
    """Serve until a signal ends it, or with `owned` the end of standard input.

    Parameters
    ----------
    app : ASGI application
    bound : socket
        From `Address.bind`.
    owned : bool
        Another process started this one and holds its standard input: when that ends, by whatever cause, so does this.
    lifespan : callable, optional
        Gives an asynchronous context manager that is open while requests are served.
    """
    server = server_of(app)
    if owned:
        threading.Thread(target=_end_with_input, args=(server,), daemon=True).start()

    async def run() -> None:
        async with lifespan() if lifespan is not None else contextlib.nullcontext():
            await server.serve(sockets=[bound])

    # Threads that compute must not keep the one that answers from its turn for long.
    sys.setswitchinterval(0.0001)
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(run())


def _end_with_input(server: uvicorn.Server) -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    server.should_exit = True
