"""Commands that open a door: serve (HTTP daemon, framed child) and mcp."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sherpa.cli.context import Json, Settings, guarded, settings

if TYPE_CHECKING:
    from sherpa.serve.guests import Guests
    from sherpa.serve.service import Opening

Host = Annotated[str, typer.Option(help="Address to listen on; another than this machine's own needs --token-file.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")]
TokenFile = Annotated[
    Path | None,
    typer.Option(help="File that holds the token; daemon.token of the memory's folder by default.", show_default=False),
]
Hosts = Annotated[
    list[str] | None, typer.Option("--allow-host", help="A further host name to be called by.", show_default=False)
]
Origins = Annotated[
    list[str] | None,
    typer.Option("--allow-origin", help="Origin of a page that may call, for instance http://localhost:3000."),
]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command("serve")(serve)
    app.command("mcp")(mcp)


@guarded
def serve(
    context: typer.Context,
    host: Host = "127.0.0.1",
    port: Port = 8787,
    stdio: Annotated[
        bool, typer.Option("--stdio", help="No network: one JSON request per line of input, one answer per line.")
    ] = False,
    owned: Annotated[
        bool, typer.Option("--owned", help="End when standard input ends, as it does when the owner dies.")
    ] = False,
    token_file: TokenFile = None,
    allow_host: Hosts = None,
    allow_origin: Origins = None,
    max_pending: Annotated[int, typer.Option(min=1, help="Operations that may wait; more are answered 503.")] = 256,
    json: Json = False,
) -> None:
    """Keep the memory open and answer over HTTP, on this machine alone unless told otherwise.

    Every request needs the token of the file daemon.token. GET /openapi.json lists the operations, /mcp speaks MCP.

    \b
    Examples:
        sherpa --root .sherpa serve
        curl -H "Authorization: Bearer $(cat .sherpa/daemon.token)" -H 'Content-Type: application/json' \\
            -d '{"caseId":"session:42"}' http://127.0.0.1:8787/v1/next
        sherpa serve --stdio
    """
    options = settings(context, json)
    if stdio:
        from sherpa.serve.lines import serve_lines

        opening = options.opening()
        serve_lines(opening, sys.stdin.buffer, sys.stdout.buffer, _guests(opening))
        return
    _http(options, host, port, token_file, allow_host, allow_origin, max_pending, owned=owned)


@guarded
def mcp(
    context: typer.Context,
    http: Annotated[bool, typer.Option("--http", help="Over HTTP, at /mcp, instead of standard input.")] = False,
    host: Host = "127.0.0.1",
    port: Port = 8787,
    token_file: TokenFile = None,
    allow_host: Hosts = None,
    allow_origin: Origins = None,
    json: Json = False,
) -> None:
    """Offer the memory to a model as MCP tools, over standard input and output or over HTTP; sagas too.

    Sagas lie in the folder saga of the memory. Configuration: {"saga": {"enabled": false}} leaves their tools out.
    Nothing but the protocol is printed on standard output. Over HTTP it is the same daemon as that of serve.

    \b
    Examples:
        sherpa --root .sherpa mcp
        openclaw mcp add sherpa --command sherpa --arg mcp
        sherpa mcp --http --port 8787
    """
    options = settings(context, json)
    if http:
        _http(options, host, port, token_file, allow_host, allow_origin, 256, path="/mcp")
        return
    from sherpa.serve.mcp import serve_stdio

    opening = options.opening()
    serve_stdio(opening, _guests(opening))


def _guests(opening: Opening) -> Guests:
    from harness.saga.doors import guests

    return guests(opening.configuration, opening.root)


def _http(
    options: Settings,
    host: str,
    port: int,
    token_file: Path | None,
    hosts: list[str] | None,
    origins: list[str] | None,
    most: int,
    *,
    path: str = "",
    owned: bool = False,
) -> None:
    from sherpa.errors import ConfigError
    from sherpa.serve.guard import is_loopback
    from sherpa.serve.tokens import FILE, VARIABLE, own_token, read_token

    given = os.environ.get(VARIABLE)
    if not is_loopback(host) and token_file is None and not given:
        raise ConfigError(
            f"{host} is reached from other machines: name a token with --token-file or {VARIABLE} to listen there"
        )
    opening = options.opening()
    token = read_token(token_file) if token_file else given or own_token(options.root)
    source = str(token_file) if token_file else f"the variable {VARIABLE}" if given else str(options.root / FILE)

    from sherpa.serve.run import run_daemon

    def ready(url: str) -> None:
        if options.json:
            options.print_json({"url": url + path, "pid": os.getpid(), "token": source})
        else:
            print(f"listening on {url}{path}; token in {source}", flush=True)

    guests = _guests(opening)
    run_daemon(opening, token, host, port, hosts or (), origins or (), most, owned=owned, guests=guests, ready=ready)
