"""The daemon put together: workers, guard, application, server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from sherpa.serve.daemon import Daemon
from sherpa.serve.guard import Guard
from sherpa.serve.guests import NOBODY, Guests
from sherpa.serve.http import Address, serve, url_of
from sherpa.serve.mcp import McpEndpoint
from sherpa.serve.service import Opening
from sherpa.serve.workers import Workers


def run_daemon(
    opening: Opening,
    token: str,
    host: str,
    port: int,
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
    most: int = 256,
    *,
    owned: bool = False,
    guests: Guests = NOBODY,
    ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve a memory over HTTP until a signal ends it. What was accepted by then is done.

    Parameters
    ----------
    opening : Opening
    token : str
    host, port
        Where to listen.
    hosts, origins : sequences of str
        Further host names and origins that may call.
    most : int
        Operations that may wait.
    owned : bool
        End with standard input.
    guests : Guests
        What is served beside the memory.
    ready : callable
        Told the base address once the daemon listens.

    Raises
    ------
    SherpaError
    """
    guard = Guard.of(token, hosts, origins)
    workers = Workers(opening, most=most, guests=guests)
    bound = Address(host, port).bind()
    try:
        workers.start()
        endpoint = McpEndpoint(workers)
        app = Daemon(workers, guard, mcp=endpoint)

        @asynccontextmanager
        async def open_while_serving() -> AsyncIterator[None]:
            try:
                yield
            finally:
                await endpoint.close()

        ready(url_of(bound))
        serve(app, bound, owned=owned, lifespan=open_while_serving)
    finally:
        workers.close()
        bound.close()
