"""A memory behind a daemon: requests over kept connections, one per thread."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from sherpa.errors import ConfigError, OperationError
from sherpa.serve.backend import UNAVAILABLE, Gone, persist
from sherpa.serve.managed import ManagedDaemon
from sherpa.serve.service import encoded_parameters, operation_of


class _Failure(msgspec.Struct):
    code: str
    message: str


class _Refusal(msgspec.Struct):
    error: _Failure


class HttpBackend:
    """Talks to ``sherpa serve``. A daemon that is away is waited for, and one of our own is started again.

    Parameters
    ----------
    base_url : str
        For instance ``http://127.0.0.1:8787``.
    token : callable
        Gives the bearer token; asked again when the daemon does not take the last one.
    timeout : float
        Seconds that a question may take.
    managed : ManagedDaemon, optional
        The daemon, if this client owns it.

    Raises
    ------
    ConfigError
        If the address is none.
    """

    def __init__(
        self,
        base_url: str,
        token: Callable[[], str],
        *,
        timeout: float = 3.0,
        managed: ManagedDaemon | None = None,
    ) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"transport.baseUrl is {base_url!r}; it must be like http://127.0.0.1:8787")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port or (443 if self._secure else 80)
        self._prefix = parts.path.rstrip("/")
        self._token = token
        self._timeout = timeout
        self._managed = managed
        self._local = threading.local()
        self._connections: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()
        self._closed = False

    def call(self, operation: str, parameters: Mapping[str, Any]) -> Any:
        """See `Backend.call`."""
        wanted = operation_of(operation)
        body = encoded_parameters(wanted, parameters)
        return persist(wanted, self._timeout, lambda left: self._ask(wanted.name, body, left))

    def close(self) -> None:
        """See `Backend.close`."""
        with self._lock:
            self._closed = True
            connections, self._connections = self._connections, []
        for connection in connections:
            connection.close()
        if self._managed is not None:
            self._managed.close()

    def _ask(self, operation: str, body: bytes, left: float) -> Any:
        if self._closed:
            raise OperationError(UNAVAILABLE, "the client is closed")
        connection = self._connection(left)
        bearer = self._bearer()
        headers = {"Authorization": f"Bearer {bearer}", "Content-Type": "application/json"}
        try:
            connection.request("POST", f"{self._prefix}/v1/{operation}", body, headers)
            response = connection.getresponse()
            data = response.read()
        except TimeoutError:
            connection.close()
            raise OperationError(UNAVAILABLE, f"{operation}: no answer within {left:.1f} s") from None
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Gone(f"the daemon at {self._host}:{self._port} went away ({error})", sent=True) from None
        if response.status == 401:
            self._local.token = None
            if self._bearer() != bearer:
                # It was started anew, with another token.
                raise Gone("the daemon has another token", sent=False)
        return _answer(response.status, data)

    def _bearer(self) -> str:
        held: str | None = getattr(self._local, "token", None)
        if held is None:
            held = self._local.token = self._token()
        return held

    def _connection(self, left: float) -> http.client.HTTPConnection:
        """The connection of this thread, open."""
        held: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if held is not None and held.sock is not None and _is_ended(held.sock):
            # The daemon ends what nobody uses for a while; nothing was sent yet, so nothing is in doubt.
            held.close()
        if held is None or held.sock is None:
            held = self._connect(held, left)
        held.sock.settimeout(left)
        return held

    def _connect(self, held: http.client.HTTPConnection | None, left: float) -> http.client.HTTPConnection:
        if self._managed is not None:
            self._managed.ensure(left)
            self._local.token = None
        if held is None:
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            held = self._local.connection = kind(self._host, self._port, timeout=left)
            with self._lock:
                self._connections.append(held)
        try:
            held.connect()
        except OSError as error:
            held.close()
            raise Gone(f"no daemon at {self._host}:{self._port} ({error})", sent=False) from None
        return held


def _is_ended(connection: socket.socket) -> bool:
    """Whether the other side has closed; between answers there is nothing else to read."""
    connection.settimeout(0)
    try:
        # Below TLS, if there is any: what is asked is whether anything came at all.
        socket.socket.recv(connection, 1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _answer(status: int, data: bytes) -> Any:
    try:
        if status == 200:
            return msgspec.json.decode(data)
        failure = msgspec.json.decode(data, type=_Refusal).error
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise OperationError(UNAVAILABLE, f"what answered with status {status} is no daemon of ours") from None
    raise OperationError(failure.code, failure.message)
