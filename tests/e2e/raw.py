"""Requests byte by byte, for what no client library would send."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> str:
        """Code of a refusal; the answer must be one in JSON."""
        code: str = json.loads(self.body)["error"]["code"]
        assert json.loads(self.body)["error"]["message"]
        return code

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Target:
    """A daemon."""

    url: str
    token: str

    @property
    def place(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or 80

    def connect(self, timeout: float = 20.0) -> socket.socket:
        return socket.create_connection(self.place, timeout)

    def head(self, path: str = "/v1/status", method: str = "POST", **headers: str | None) -> bytes:
        """A request's head; a header that is None is left out."""
        given = {
            "Host": "{}:{}".format(*self.place),
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        lines = [f"{name}: {value}" for name, value in given.items() if value is not None]
        return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode("latin-1")

    def send(
        self, path: str = "/v1/status", body: bytes = b"{}", method: str = "POST", **headers: str | None
    ) -> Answer:
        """One request on a connection of its own."""
        headers.setdefault("Content_Length", str(len(body)))
        return self.bytes(self.head(path, method, **headers) + body)

    def bytes(self, data: bytes) -> Answer:
        """Whatever is sent; a daemon that answers early may close before it was read."""
        with self.connect() as connection:
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(data)
            return read_answer(connection)

    def call(self, operation: str, **parameters: Any) -> Answer:
        """An operation, as it is meant."""
        return self.send(f"/v1/{operation}", json.dumps(parameters).encode())

    def assert_healthy(self) -> None:
        assert self.send("/health", b"", "GET").json["status"] == "ok"
        assert self.call("status").status == 200


def read_answer(connection: socket.socket) -> Answer:
    data = b""
    while b"\r\n\r\n" not in data:
        try:
            more = connection.recv(65536)
        except ConnectionResetError:
            more = b""
        if not more:
            raise AssertionError(f"closed without an answer: {data[:100]!r}")
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    length = int(headers.get("content-length", 0))
    while len(body) < length and (more := connection.recv(65536)):
        body += more
    return Answer(int(first.split()[1]), headers, body)
