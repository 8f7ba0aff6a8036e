"""The client's side of HTTP: connections that were closed meanwhile, daemons that go away, answers that are none."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from sherpa.errors import ConfigError, OperationError
from sherpa.serve import backend as backend_module
from sherpa.serve.remote import HttpBackend

Reply = bytes | None
"""What is sent back; None closes instead."""


def reply(value: object, status: str = "200 OK", *headers: str) -> bytes:
    body = json.dumps(value).encode()
    head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""])
    return head.encode() + body


class Server:
    """Answers the requests of all connections in turn, each as it is told."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.requests: list[bytes] = []
        self.connections = 0
        self.close_after_answer = False
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while data := self._request(connection):
                self.requests.append(data)
                answer = self.replies.pop(0)
                if answer is None:
                    return
                connection.sendall(answer)
                if self.close_after_answer:
                    return

    def _request(self, connection: socket.socket) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data:
            more = connection.recv(65536)
            if not more:
                return b""
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        length = int(
            next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")).split()[1]
        )
        while len(body) < length:
            body += connection.recv(65536)
        return head + b"\r\n\r\n" + body

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    servers = []

    def start(*replies: Reply) -> Server:
        servers.append(Server(*replies))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


Serve = Callable[..., Server]


def client(server: Server, timeout: float = 5.0, token: Callable[[], str] = lambda: "t" * 20) -> HttpBackend:
    return HttpBackend(server.url, token, timeout=timeout)


def test_a_connection_is_kept_for_the_next_call(serve: Serve) -> None:
    server = serve(reply({"n": 1}), reply({"n": 2}))
    asking = client(server)
    assert [asking.call("status", {})["n"], asking.call("next", {"caseId": "c"})["n"]] == [1, 2]
    asking.close()
    assert server.connections == 1
    assert b"POST /v1/next HTTP/1.1" in server.requests[1]
    assert b"Authorization: Bearer " + b"t" * 20 in server.requests[1]
    assert server.requests[1].endswith(b'{"caseId":"c"}')


def test_a_connection_that_was_closed_meanwhile_is_opened_again_even_for_what_may_not_be_repeated(serve: Serve) -> None:
    server = serve(reply({"n": 1}), reply({"removedEvents": 1}))
    server.close_after_answer = True
    asking = client(server)
    asking.call("status", {})
    time.sleep(0.1)
    assert asking.call("forget", {"caseId": "c"}) == {"removedEvents": 1}
    asking.close()
    assert (server.connections, len(server.requests)) == (2, 2)


def test_a_daemon_that_goes_away_before_it_answers_is_asked_again(serve: Serve) -> None:
    server = serve(None, None, reply({"eventId": "e"}))
    asking = client(server)
    assert asking.call("ingest_event", {"caseId": "c"}) == {"eventId": "e"}
    asking.close()
    assert len(server.requests) == 3


def test_what_may_not_be_repeated_is_not(serve: Serve) -> None:
    server = serve(None, reply({}))
    asking = client(server)
    with pytest.raises(OperationError, match="whether forget was done is not known") as raised:
        asking.call("forget", {"caseId": "c"})
    asking.close()
    assert raised.value.code == "backend_unavailable"
    assert len(server.requests) == 1


def test_one_that_is_overloaded_is_asked_again(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_module, "OVERLOADED_PAUSE", 0.05)
    full = reply({"error": {"code": "overloaded", "message": "later"}}, "503 Service Unavailable", "Retry-After: 1")
    server = serve(full, full, reply({"n": 1}))
    asking = client(server)
    assert asking.call("status", {}) == {"n": 1}
    asking.close()


def test_a_refusal_is_told_as_it_is(serve: Serve) -> None:
    server = serve(reply({"error": {"code": "not_found", "message": "no case 'c'"}}, "404 Not Found"))
    asking = client(server)
    with pytest.raises(OperationError, match="no case 'c'") as raised:
        asking.call("forget", {"caseId": "c"})
    asking.close()
    assert raised.value.code == "not_found"


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"error":"text"}', b"\xff"])
def test_an_error_that_is_none_of_ours_is_told_with_its_status(body: bytes, serve: Serve) -> None:
    server = serve(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    asking = client(server)
    with pytest.raises(OperationError, match="502") as raised:
        asking.call("status", {})
    asking.close()
    assert raised.value.code == "backend_unavailable"


@pytest.mark.parametrize("garbage", [b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nnope!"])
def test_another_program_on_the_port_is_told_and_not_believed(garbage: bytes, serve: Serve) -> None:
    server = serve(*[garbage] * 20)
    asking = client(server, timeout=0.6)
    with pytest.raises(OperationError) as raised:
        asking.call("next", {"caseId": "c"})
    asking.close()
    assert raised.value.code == "backend_unavailable"


def test_a_token_that_is_not_taken_is_asked_for_again(serve: Serve) -> None:
    wrong = reply({"error": {"code": "unauthorized", "message": "no"}}, "401 Unauthorized")
    server = serve(wrong, reply({"n": 1}))
    tokens = iter(["old-token-of-a-daemon", "new-token-of-a-daemon"])
    asking = client(server, token=lambda: next(tokens))
    assert asking.call("status", {}) == {"n": 1}
    asking.close()
    assert b"new-token-of-a-daemon" in server.requests[1]


def test_a_token_that_stays_wrong_is_told(serve: Serve) -> None:
    wrong = reply({"error": {"code": "unauthorized", "message": "no"}}, "401 Unauthorized")
    server = serve(*[wrong] * 5)
    asking = client(server)
    with pytest.raises(OperationError) as raised:
        asking.call("status", {})
    asking.close()
    assert raised.value.code == "unauthorized"
    assert len(server.requests) <= 2


def test_no_answer_within_the_time_is_told_in_time(serve: Serve) -> None:
    server = serve(b"", b"")
    asking = client(server, timeout=0.4)
    began = time.monotonic()
    with pytest.raises(OperationError, match="no answer within") as raised:
        asking.call("next", {"caseId": "c"})
    asking.close()
    assert raised.value.code == "backend_unavailable"
    assert 0.3 < time.monotonic() - began < 2


def test_nobody_there_is_told_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    asking = HttpBackend(f"http://127.0.0.1:{port}", lambda: "t" * 20, timeout=0.5)
    began = time.monotonic()
    with pytest.raises(OperationError, match=f"no daemon at 127.0.0.1:{port}"):
        asking.call("next", {"caseId": "c"})
    asking.close()
    assert time.monotonic() - began < 1


def test_a_closed_client_says_so(serve: Serve) -> None:
    asking = client(serve())
    asking.close()
    with pytest.raises(OperationError, match="closed"):
        asking.call("status", {})


@pytest.mark.parametrize("url", ["127.0.0.1:8787", "ftp://127.0.0.1", "http://", "", "unix:/tmp/x"])
def test_an_address_that_is_none_is_named(url: str) -> None:
    with pytest.raises(ConfigError, match=r"transport\.baseUrl"):
        HttpBackend(url, lambda: "t" * 20)


def test_a_path_in_the_address_comes_before_that_of_the_operation(serve: Serve) -> None:
    server = serve(reply({}))
    asking = HttpBackend(f"{server.url}/memory/", lambda: "t" * 20)
    asking.call("status", {})
    asking.close()
    assert server.requests[0].startswith(b"POST /memory/v1/status HTTP/1.1\r\n")
