"""What must not get through: foreign pages and hosts, wrong tokens, too much, too slow, too deep, names that lead out.

Each is refused or bounded with a clear error, and the daemon is healthy afterwards.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.doors import daemon
from tests.e2e.raw import Target, read_answer


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("attacked")


@pytest.fixture(scope="module")
def served(root: Path) -> Iterator[Target]:
    with daemon(root) as (url, token):
        yield Target(url, token)


@pytest.fixture
def target(served: Target) -> Iterator[Target]:
    yield served
    served.assert_healthy()


def resident(target: Target) -> int:
    """Kilobytes that the daemon holds."""
    port = target.place[1]
    inode = next(
        line.split()[9]
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
    )
    for process in Path("/proc").glob("[0-9]*"):
        try:
            links = {os.readlink(link) for link in (process / "fd").iterdir()}
        except OSError:
            continue
        if f"socket:[{inode}]" in links:
            status = (process / "status").read_text()
            return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])
    raise AssertionError("the daemon's process was not found")


# -- who asks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/status", "/health", "/openapi.json", "/mcp"])
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "evil.example:8787",
        "127.0.0.2",
        "0.0.0.0",
        "[::2]",
        "localhost.",
        "",
        "127.0.0.1@evil.example",
        "169.254.1.1",
    ],
)
def test_a_foreign_host_name_is_refused(host: str, path: str, target: Target) -> None:
    answer = target.send(path, method="GET" if path in ("/health", "/openapi.json") else "POST", Host=host)
    assert (answer.status, answer.error) == (403, "forbidden_host")


@pytest.mark.parametrize("host", ["127.0.0.1", "LOCALHOST", "localhost:1", "[::1]:8787", "[::1]"])
def test_the_names_of_this_machine_are_not(host: str, target: Target) -> None:
    assert target.send(Host=host).status == 200


def test_no_host_and_two_hosts_are_refused(target: Target) -> None:
    assert target.send(Host=None).status in (400, 403)
    head = target.head(Content_Length="2").replace(b"\r\n\r\n", b"\r\nHost: 127.0.0.1\r\n\r\n")
    assert target.bytes(head + b"{}").status in (400, 403)


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:3000", "https://127.0.0.1", "file://", ""]
)
def test_a_page_is_refused(origin: str, target: Target) -> None:
    answer = target.send(Origin=origin)
    assert (answer.status, answer.error) == (403, "forbidden_origin")
    assert "access-control-allow-origin" not in answer.headers


def test_a_preflight_is_refused(target: Target) -> None:
    answer = target.send("/v1/next", b"", "OPTIONS", Origin="http://evil.example")
    assert answer.status == 403


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "Basic {token}",
        "{token}",
        "Bearer {token}x",
        "Bearer x{token}",
        "Token {token}",
    ],
)
@pytest.mark.parametrize("path", ["/v1/status", "/v1/nothing", "/mcp"])
def test_without_the_token_nothing_is_told(value: str | None, path: str, target: Target) -> None:
    given = None if value is None else value.format(token=target.token)
    answer = target.send(path, Authorization=given)
    assert (answer.status, answer.error) == (401, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert target.token not in answer.body.decode()


def test_two_tokens_are_none(target: Target) -> None:
    head = target.head(Content_Length="2").replace(b"\r\n\r\n", b"\r\nAuthorization: Bearer x\r\n\r\n")
    assert target.bytes(head + b"{}").status == 401


def test_the_token_lies_in_a_file_of_its_owner(root: Path, target: Target) -> None:
    assert (root / "daemon.token").stat().st_mode & 0o777 == 0o600
    assert len(target.token) >= 32


# -- how much, how fast ----------------------------------------------------------------------------------------


def test_a_body_of_100_megabytes_is_not_taken_in(target: Target) -> None:
    target.call("status")
    before = resident(target)
    told = target.send("/v1/ingest_batch", b"x" * 1_000_000, Content_Length=str(100 * 2**20))
    assert (told.status, told.error) == (413, "too_large")
    chunk = b"%x\r\n%s\r\n" % (2**16, b"x" * 2**16)
    head = target.head("/v1/ingest_batch", Transfer_Encoding="chunked")
    chunked = target.bytes(head + chunk * 1_600)
    assert (chunked.status, chunked.error) == (413, "too_large")
    assert resident(target) - before < 60_000


def test_the_limit_itself_is_taken(target: Target) -> None:
    event = {"caseId": "large", "source": "s", "type": "t", "meta": {"padding": "x" * 200_000}}
    body = json.dumps({"events": [event] * 40}).encode()
    assert 7_900_000 < len(body) < 8 * 2**20
    assert target.send("/v1/ingest_batch", body).status == 200


@pytest.mark.full  # with less patience in tests/sherpa/serve/test_http.py
def test_a_slow_body_ends(target: Target) -> None:
    begin = time.monotonic()
    with target.connect() as connection:
        connection.sendall(target.head(Content_Length="100") + b"{")
        answer = read_answer(connection)
    assert (answer.status, answer.error) == (408, "slow_body")
    assert 5 < time.monotonic() - begin < 15


@pytest.mark.full  # with less patience in tests/sherpa/serve/test_http.py
def test_a_slow_head_ends_and_holds_nobody_up(target: Target) -> None:
    begin = time.monotonic()
    slow = [target.connect() for _ in range(50)]
    try:
        for connection in slow:
            connection.sendall(b"POST /v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        assert target.call("status").status == 200
        assert time.monotonic() - begin < 5
        answer = read_answer(slow[0])
        assert (answer.status, answer.error) == (408, "slow_head")
        assert time.monotonic() - begin < 15
    finally:
        for connection in slow:
            connection.close()


def test_an_endless_head_ends(target: Target) -> None:
    answer = target.bytes(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X-Filler: " + b"x" * 100_000)
    assert (answer.status, answer.error) == (431, "too_large")
    answer = target.bytes(b"GET /" + b"x" * 100_000)
    assert answer.status == 431


@pytest.mark.parametrize(
    "data", [b"\x16\x03\x01\x02\x00\x01" * 20, b"hello\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\0" * 500]
)
def test_what_is_no_http_is_refused_in_json(data: bytes, target: Target) -> None:
    answer = target.bytes(data)
    assert (answer.status, answer.error) == (400, "invalid_request")


def test_a_client_that_goes_away_disturbs_nobody(target: Target) -> None:
    for _ in range(20):
        with target.connect() as connection:
            connection.sendall(target.head(Content_Length="100") + b"{")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def test_requests_in_one_go_are_answered_in_order(target: Target) -> None:
    one = target.head("/v1/next", Content_Length="14") + b'{"caseId":"a"}'
    two = target.head("/v1/next", Content_Length="14") + b'{"caseId":"b"}'
    with target.connect() as connection:
        connection.sendall(one + two)
        stream = b""
        while stream.count(b'"caseId"') < 2:
            stream += connection.recv(65536)
    assert stream.index(b'"caseId":"a"') < stream.index(b'"caseId":"b"')


def test_too_much_at_once_is_answered_503_and_recovers(tmp_path: Path) -> None:
    with daemon(tmp_path, "--max-pending", "2") as (url, token):
        target = Target(url, token)
        events = [{"caseId": f"c{n}", "source": "s", "type": f"t{n % 9}"} for n in range(3_000)]
        body = json.dumps({"events": events}).encode()
        open_ = [target.connect() for _ in range(12)]
        for connection in open_:
            connection.sendall(target.head("/v1/ingest_batch", Content_Length=str(len(body))) + body)
        answers = [read_answer(connection) for connection in open_]
        for connection in open_:
            connection.close()
        refused = [a for a in answers if a.status == 503]
        assert refused
        assert all(a.error == "overloaded" and int(a.headers["retry-after"]) >= 1 for a in refused)
        stored = [a for a in answers if a.status == 200]
        assert len(stored) + len(refused) == 12
        assert target.call("status").json["events"] == 3_000 * len(stored)
        target.assert_healthy()


# -- what is asked ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "../secret.json",
        "/etc/passwd",
        "..%2fsecret.json",
        "a/b.json",
        "..\\secret.json",
        "link.json",
        "a\0.json",
        "..",
        ".",
        ".hidden.json",
        "x" * 300,
        "daemon.token",
    ],
)
def test_no_name_of_a_snapshot_leads_out(name: str, root: Path, target: Target) -> None:
    (root / "secret.json").write_text('{"events": []}')
    (root / "export").mkdir(exist_ok=True)
    link = root / "export" / "link.json"
    if not link.is_symlink():
        link.symlink_to(root / "secret.json")
    answer = target.call("import", name=name)
    assert answer.status in (400, 404)
    assert answer.error in ("invalid_parameters", "not_found")
    assert target.token not in answer.body.decode()


@pytest.mark.parametrize(
    "path", ["/v1/../daemon.token", "/v1/%2e%2e/daemon.token", "/daemon.token", "/v1/", "/v1/status/x", "//v1/status"]
)
def test_no_path_leads_out(path: str, target: Target) -> None:
    answer = target.send(path)
    assert (answer.status, answer.error) in ((404, "not_found"), (404, "unknown_operation"))
    assert target.token not in answer.body.decode()


@pytest.mark.parametrize(
    "case", ["'; DROP TABLE events; --", '" OR 1=1 --', "%_*", "a\\'b", "é漢字🙂", "../..", "${x}{{7*7}}"]
)
def test_a_case_id_is_only_a_name(case: str, target: Target) -> None:
    assert target.call("ingest_event", caseId=case, source="s", type="t").status == 200
    answer = target.call("state", caseId=case)
    assert answer.json["state"] == ["t"]
    assert target.call("next", caseId=case).status == 200
    assert target.call("recall", caseId=case, mode="any").status == 200


@pytest.mark.parametrize("case", ["a\nb", "a\r", "\0", "\x1b[31m", "tab\t", "end\n", "\x7f"])
def test_control_characters_are_refused(case: str, target: Target) -> None:
    for operation in ("state", "next", "outcomes", "recall", "advise", "forget"):
        answer = target.call(operation, caseId=case)
        assert (answer.status, answer.error) == (400, "invalid_parameters")
        assert "control character" in answer.json["error"]["message"]
    for field in ("caseId", "type", "source", "agentId", "eventId", "actor"):
        event = {"caseId": "c", "source": "s", "type": "t"} | {field: case}
        assert target.call("ingest_event", **event).error == "invalid_event"
    assert target.call("ingest_event", caseId="c", source="s", type="t", labels=[case]).error == "invalid_event"


def test_a_label_of_a_megabyte_is_refused(target: Target) -> None:
    answer = target.call("ingest_event", caseId="c", source="s", type="t", labels=["x" * 2**20])
    assert (answer.status, answer.error) == (400, "invalid_event")
    assert len(answer.body) < 1_000
    answer = target.call("ingest_event", caseId="c", source="s", type="t", meta={"text": "x" * 2**20})
    assert (answer.status, answer.error) == (400, "invalid_event")
    assert "262,144" in answer.json["error"]["message"]


def test_ten_thousand_types_and_ten_thousand_events_are_borne(target: Target) -> None:
    events = [{"caseId": f"wide-{n // 50}", "source": "s", "type": f"kind-{n}"} for n in range(10_000)]
    assert target.call("ingest_batch", events=events).status == 200
    assert target.call("taxonomy").json["distinctTypes"] >= 10_000
    assert target.call("next", caseId="wide-3").status == 200
    too_many = target.call("ingest_batch", events=events + events[:1])
    assert (too_many.status, too_many.error) == (400, "invalid_parameters")


@pytest.mark.parametrize("depth", [1_000, 100_000])
@pytest.mark.parametrize("form", ["[", '{"a":'])
def test_deep_json_is_refused_or_stored(form: str, depth: int, target: Target) -> None:
    close = "]" if form == "[" else "}"
    deep = form * depth + "1" + close * depth
    answer = target.send("/v1/status", deep.encode())
    assert answer.status == 400
    event = f'{{"caseId":"deep","source":"s","type":"t","meta":{{"x":{deep}}}}}'
    answer = target.send("/v1/ingest_event", event.encode())
    assert (answer.status, answer.error) == (400, "invalid_event")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"{",
        b"{}{}",
        b'{"caseId": NaN}',
        b'{"caseId":"c","limit":1e999}',
        b'{"caseId":"c","limit":1.5}',
        b'{"caseId":"c","limit":99999999999999999999}',
        b'{"caseId":"c","limit":true}',
        b'\xff\xfe{"caseId":"c"}',
        b'{"caseId":"\xff"}',
        b'{"caseId":"\\ud800"}',
        b'{"caseId":"c","limit":-1}',
        b'{"caseId":"c","more":1}',
        b'{"caseId":["c"]}',
        b'{"caseId":null}',
    ],
)
def test_what_is_no_parameter_is_refused_with_its_place(body: bytes, target: Target) -> None:
    answer = target.send("/v1/next", body)
    assert (answer.status, answer.error) == (400, "invalid_parameters")


@pytest.mark.parametrize("metric", ["1e999", "-1e999", "NaN", "Infinity", '"many"', "null", "[1]"])
def test_no_number_that_json_does_not_hold_is_stored(metric: str, target: Target) -> None:
    body = f'{{"caseId":"c","source":"s","type":"t","metrics":{{"n":{metric}}}}}'
    answer = target.send("/v1/ingest_event", body.encode())
    assert (answer.status, answer.error) == (400, "invalid_event")


@pytest.mark.parametrize("kind", [None, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_only_json_is_taken(kind: str | None, target: Target) -> None:
    answer = target.send(Content_Type=kind)
    assert (answer.status, answer.error) == (415, "wrong_type")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"])
def test_other_methods_are_refused_with_the_right_one(method: str, target: Target) -> None:
    answer = target.send("/v1/next", b"", method) if method != "HEAD" else None
    if answer is not None:
        assert (answer.status, answer.headers["allow"], answer.error) == (405, "POST", "wrong_method")
    else:
        with target.connect() as connection:
            connection.sendall(target.head("/v1/next", "HEAD"))
            assert b" 405 " in connection.recv(4096).split(b"\r\n")[0]
