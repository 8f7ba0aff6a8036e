"""What comes over a connection: how slow, how long, how much at once, and what becomes of the connection."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from sherpa.errors import ConfigError
from sherpa.serve import http
from sherpa.serve.daemon import Daemon, Limits
from sherpa.serve.guard import Guard
from sherpa.serve.http import HEAD_BYTES, MOST_AHEAD, Address, server_of, url_of
from sherpa.serve.service import Opening
from sherpa.serve.workers import Workers
from tests.e2e.raw import Target, read_answer

TOKEN = "a-token-that-is-long-enough"
SOON, IDLE = 0.4, 1
BODY = 64 * 1024
OPEN = 3


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """A daemon in this process, with little patience."""
    patch = pytest.MonkeyPatch()
    patch.setattr(http, "HEAD_SECONDS", SOON)
    patch.setattr(http, "IDLE_SECONDS", IDLE)
    workers = Workers(Opening(tmp_path_factory.mktemp("root")))
    workers.start()
    bound = Address("127.0.0.1", 0).bind()
    server = server_of(Daemon(workers, Guard.of(TOKEN), Limits(BODY, SOON, OPEN)))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[bound])))
    thread.start()
    yield Target(url_of(bound), TOKEN)
    server.should_exit = True
    thread.join(20)
    workers.close()
    bound.close()
    patch.undo()


@pytest.fixture(autouse=True)
def healthy_afterwards(target: Target) -> Iterator[None]:
    yield
    target.assert_healthy()


def is_closed(connection: socket.socket) -> bool:
    """Whether the other side closes at once, long before it would close what nobody uses."""
    connection.settimeout(IDLE / 2)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


# -- slow ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("begun", [b"", b"P", b"POST /v1/status HTTP/1.1\r\n", b"GET /health HTTP/1.1\r\nHost: x\r\n"])
def test_a_head_that_does_not_end_is_not_waited_for(begun: bytes, target: Target) -> None:
    began = time.monotonic()
    with target.connect() as connection:
        connection.sendall(begun)
        answer = read_answer(connection)
        assert (answer.status, answer.error, answer.headers["connection"]) == (408, "slow_head", "close")
        assert SOON * 0.9 < time.monotonic() - began < SOON + 2
        assert is_closed(connection)


def test_a_head_that_drips_is_not_waited_for(target: Target) -> None:
    """The time is that of the whole head: single bytes do not begin it anew."""
    began = time.monotonic()
    with target.connect() as connection:
        with suppress(OSError):
            for byte in target.head("/v1/status"):
                connection.sendall(bytes([byte]))
                time.sleep(SOON / 10)
        assert time.monotonic() - began < SOON + 2
        assert read_answer(connection).error == "slow_head"


def test_the_second_head_of_a_connection_has_its_time_too(target: Target) -> None:
    with target.connect() as connection:
        connection.sendall(target.head("/v1/status", Content_Length="2") + b"{}")
        assert read_answer(connection).status == 200
        connection.sendall(b"POST /v1/sta")
        assert read_answer(connection).error == "slow_head"


def test_a_body_that_drips_is_not_waited_for(target: Target) -> None:
    began = time.monotonic()
    with target.connect() as connection:
        connection.sendall(target.head(Content_Length="1000"))
        with suppress(OSError):
            for _ in range(100):
                connection.sendall(b" ")
                time.sleep(SOON / 10)
        assert time.monotonic() - began < SOON + 2
        answer = read_answer(connection)
        assert (answer.status, answer.error, answer.headers["connection"]) == (408, "slow_body", "close")


def test_an_unused_connection_is_closed(target: Target) -> None:
    with target.connect() as connection:
        connection.sendall(target.head(Content_Length="2") + b"{}")
        assert read_answer(connection).status == 200
        time.sleep(IDLE / 2)
        connection.sendall(target.head(Content_Length="2") + b"{}")
        assert read_answer(connection).status == 200
        began = time.monotonic()
        connection.settimeout(5)
        assert connection.recv(1) == b""
        assert IDLE * 0.9 < time.monotonic() - began < IDLE + 2


# -- long ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "endless",
    [
        b"GET /" + b"x" * 10**6,
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 10**6,
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: y\r\n" * 10**5,
    ],
    ids=["path", "value", "headers"],
)
def test_an_endless_head_is_cut_off(endless: bytes, target: Target) -> None:
    answer = target.bytes(endless)
    assert (answer.status, answer.error, answer.headers["connection"]) == (431, "too_large", "close")


@pytest.mark.parametrize(
    "endless", [b"2;" + b"x" * 10**6, b"2\r\n{}\r\n0\r\n" + b"X: y\r\n" * 10**5], ids=["chunk", "trailer"]
)
def test_what_is_neither_head_nor_body_is_cut_off_as_well(endless: bytes, target: Target) -> None:
    answer = target.bytes(target.head(Transfer_Encoding="chunked") + endless)
    assert (answer.status, answer.error, answer.headers["connection"]) == (431, "too_large", "close")


def test_chunks_and_trailers_as_they_are_meant_are_taken(target: Target) -> None:
    body = b"1;a=b\r\n{\r\n1\r\n}\r\n0\r\nX-Sum: 1\r\n\r\n"
    assert target.bytes(target.head(Transfer_Encoding="chunked") + body).status == 200
    padded = b"".join(b"400\r\n%s\r\n" % (b" " * 1024) for _ in range(BODY // 1024 - 1))
    assert target.bytes(target.head(Transfer_Encoding="chunked") + padded + b"2\r\n{}\r\n0\r\n\r\n").status == 200


def test_a_large_head_that_ends_is_taken(target: Target) -> None:
    assert target.send(X_Filler="x" * (HEAD_BYTES // 2)).status == 200


@pytest.mark.parametrize("size", [BODY, BODY + 1])
def test_a_body_of_just_the_size_and_of_one_byte_more(size: int, target: Target) -> None:
    body = b"{}".ljust(size)
    pieces = target.head(Transfer_Encoding="chunked") + b"%x\r\n%s\r\n0\r\n\r\n" % (size, body)
    for answer in (target.send(body=body), target.bytes(pieces)):
        assert answer.status == (200 if size == BODY else 413)


def test_a_body_longer_than_a_head_may_come_in_parts(target: Target) -> None:
    body = b"{}".ljust(BODY)
    with target.connect() as connection:
        connection.sendall(target.head(Content_Length=str(BODY)))
        for at in range(0, BODY, HEAD_BYTES // 2):
            connection.sendall(body[at : at + HEAD_BYTES // 2])
            time.sleep(0.02)
        assert read_answer(connection).status == 200


# -- much at once ----------------------------------------------------------------------------------------------


def test_requests_sent_ahead_are_answered_in_order(target: Target) -> None:
    requests = []
    for n in range(MOST_AHEAD):
        body = json.dumps({"caseId": f"case-{n:02}"}).encode()
        requests.append(target.head("/v1/next", Content_Length=str(len(body))) + body)
    with target.connect() as connection:
        connection.sendall(b"".join(requests))
        stream = b""
        while stream.count(b'"caseId"') < MOST_AHEAD and (more := connection.recv(65536)):
            stream += more
    places = [stream.find(b'"case-%02d"' % n) for n in range(MOST_AHEAD)]
    assert places == sorted(places)
    assert places[0] > 0


def test_too_many_requests_sent_ahead_are_not_kept(target: Target) -> None:
    one = target.head("/health", "GET")
    with target.connect() as connection:
        with suppress(OSError):
            for _ in range(50):
                connection.sendall(one * 2_000)
        told = b""
        with suppress(OSError):
            while more := connection.recv(65536):
                told += more
    assert b'"overloaded"' in told
    assert told.count(b"HTTP/1.1 200") <= 2 * MOST_AHEAD


def test_more_open_requests_than_allowed_are_refused_and_then_taken_again(target: Target) -> None:
    waiting = [target.connect() for _ in range(OPEN)]
    for connection in waiting:
        connection.sendall(target.head(Content_Length="2"))
    time.sleep(0.1)
    refused = target.call("status")
    assert (refused.status, refused.error, refused.headers["retry-after"]) == (503, "overloaded", "1")
    for connection in waiting:
        connection.sendall(b"{}")
        assert read_answer(connection).status == 200
        connection.close()
    assert target.call("status").status == 200


def test_clients_that_went_away_take_no_place(target: Target) -> None:
    for _ in range(OPEN * 4):
        with target.connect() as connection:
            connection.sendall(target.head(Content_Length="100") + b"{")
    time.sleep(0.1)
    assert target.call("status").status == 200


# -- what becomes of the connection ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "given", "status"),
    [
        ("/v1/status", {"Authorization": "Bearer wrong"}, 401),
        ("/v1/status", {"Host": "evil.example"}, 403),
        ("/v1/nothing", {}, 404),
        ("/elsewhere", {}, 404),
        ("/health", {}, 405),
        ("/v1/status", {"Content_Type": "text/plain"}, 415),
    ],
)
def test_the_rest_of_what_was_refused_is_not_read(
    path: str, given: dict[str, str], status: int, target: Target
) -> None:
    with target.connect() as connection:
        connection.sendall(target.head(path, Content_Length="1000000", **given) + b"{")
        assert read_answer(connection).status == status
        assert is_closed(connection)


def test_a_refusal_of_a_whole_request_keeps_the_connection(target: Target) -> None:
    with target.connect() as connection:
        for given, status in (({"Authorization": "Bearer wrong"}, 401), ({"Content_Type": "x"}, 415), ({}, 200)):
            connection.sendall(target.head(Content_Length="2", **given) + b"{}")
            assert read_answer(connection).status == status


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"hello\r\n\r\n",
        b"\0" * 100,
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/status HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /v1/status HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"POST /v1/status HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /\r\n\r\n",
    ],
)
def test_what_is_no_http_or_means_two_things_ends_the_connection(data: bytes, target: Target) -> None:
    with target.connect() as connection:
        connection.sendall(data)
        answer = read_answer(connection)
        assert answer.status in (400, 403)
        assert answer.error in ("invalid_request", "forbidden_host")
        assert is_closed(connection)


# -- addresses -------------------------------------------------------------------------------------------------


def test_where_to_listen() -> None:
    with Address("::1", 0).bind() as six, Address("127.0.0.1", 0).bind() as four:
        assert url_of(six).startswith("http://[::1]:")
        assert url_of(four) == f"http://127.0.0.1:{four.getsockname()[1]}"
        with pytest.raises(ConfigError, match=f"127.0.0.1:{four.getsockname()[1]}: Address already in use"):
            Address("127.0.0.1", four.getsockname()[1]).bind()
    with pytest.raises(ConfigError, match="cannot listen on"):
        Address("no.such.host.invalid", 0).bind()


def test_a_memory_that_fails_beyond_expectation_is_answered_in_json(
    target: Target, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("somebody's secret")

    monkeypatch.setattr(Workers, "submit", broken)
    answer = target.call("status")
    monkeypatch.undo()
    assert (answer.status, answer.error) == (500, "internal")
    assert b"secret" not in answer.body
    assert "somebody's secret" in capsys.readouterr().err
