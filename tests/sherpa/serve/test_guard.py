"""Whose requests come in: names of this machine, no page, and the token."""

from __future__ import annotations

import pytest

from sherpa.errors import ConfigError, OperationError
from sherpa.serve.guard import Guard, is_loopback

TOKEN = "a-token-that-is-long-enough"
GUARD = Guard.of(TOKEN)


def refusal(guard: Guard, *headers: tuple[bytes, bytes], token: bool = False) -> str | None:
    """Code of the refusal, or None."""
    try:
        (guard.check_token if token else guard.check_place)(headers)
    except OperationError as error:
        return error.code
    return None


@pytest.mark.parametrize(
    "host",
    ["localhost", "127.0.0.1", "[::1]", "LocalHost", "localhost:8787", "127.0.0.1:1", "[::1]:65535", "LOCALHOST:80"],
)
def test_this_machine_by_its_own_names(host: str) -> None:
    assert refusal(GUARD, (b"host", host.encode())) is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8787",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "localhost.",
        "localhost:8787.evil.example",
        "localhost:",
        "localhost:80:80",
        "localhost:8787@evil.example",
        "user@localhost",
        "127.0.0.2",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0.0.0.0",
        "[::]",
        "[::ffff:127.0.0.1]",
        "::1",
        "[::1",
        "[::1].evil.example",
        "local\u0068ost\u0000",
        "localhost evil.example",
        "",
        ":8787",
        "*",
    ],
)
def test_every_other_name_is_foreign(host: str) -> None:
    assert refusal(GUARD, (b"host", host.encode())) == "forbidden_host"


def test_exactly_one_host_is_named() -> None:
    assert refusal(GUARD) == "forbidden_host"
    assert refusal(GUARD, (b"host", b"localhost"), (b"host", b"localhost")) == "forbidden_host"
    assert refusal(GUARD, (b"host", b"\xff\xfe")) == "forbidden_host"


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "", "http://localhost", "http://127.0.0.1:8787", "file://", "*"]
)
def test_no_page_may_call(origin: str) -> None:
    assert refusal(GUARD, (b"host", b"localhost"), (b"origin", origin.encode())) == "forbidden_origin"


def test_what_is_allowed_by_name_may_call_and_nothing_near_it() -> None:
    guard = Guard.of(TOKEN, ["Memory.lan"], ["http://Localhost:3000"])
    assert refusal(guard, (b"host", b"memory.lan:8787"), (b"origin", b"http://localhost:3000")) is None
    assert refusal(guard, (b"host", b"localhost")) is None
    for host in (b"a.memory.lan", b"memory.lan.evil.example", b"memoryxlan"):
        assert refusal(guard, (b"host", host)) == "forbidden_host"
    for origin in (
        b"http://localhost",
        b"http://localhost:30000",
        b"https://localhost:3000",
        b"http://localhost:3000/",
    ):
        assert refusal(guard, (b"host", b"localhost"), (b"origin", origin)) == "forbidden_origin"
    one_foreign = [(b"origin", b"http://localhost:3000"), (b"origin", b"http://evil.example")]
    assert refusal(guard, (b"host", b"localhost"), *one_foreign) == "forbidden_origin"


@pytest.mark.parametrize(("hosts", "origins"), [(["*"], []), (["*.lan"], []), ([], ["*"]), ([], ["http://*"])])
def test_everybody_cannot_be_allowed(hosts: list[str], origins: list[str]) -> None:
    with pytest.raises(ConfigError, match="named one by one"):
        Guard.of(TOKEN, hosts, origins)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_token_opens(scheme: str) -> None:
    assert refusal(GUARD, (b"authorization", f"{scheme} {TOKEN}".encode()), token=True) is None


@pytest.mark.parametrize(
    "value",
    [
        TOKEN,
        "Bearer",
        "Bearer ",
        f"Bearer{TOKEN}",
        f"Basic {TOKEN}",
        f"Token {TOKEN}",
        f"Digest {TOKEN}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN.upper()}",
        f"Bearer {TOKEN} {TOKEN}",
        f'Bearer "{TOKEN}"',
        f"Bearer {TOKEN},{TOKEN}",
        "Bearer \xe9\xff",
    ],
)
def test_nothing_else_opens(value: str) -> None:
    assert refusal(GUARD, (b"authorization", value.encode("latin-1")), token=True) == "unauthorized"


def test_no_token_and_two_tokens_do_not_open() -> None:
    right = (b"authorization", f"Bearer {TOKEN}".encode())
    assert refusal(GUARD, token=True) == "unauthorized"
    assert refusal(GUARD, right, right, token=True) == "unauthorized"
    assert refusal(GUARD, (b"cookie", TOKEN.encode()), (b"x-api-key", TOKEN.encode()), token=True) == "unauthorized"


@pytest.mark.parametrize(
    "token", ["", "short", "with a space in the middle", "übermäßig-langes-token", "tab\tin-the-token"]
)
def test_what_is_no_token_guards_nothing(token: str) -> None:
    with pytest.raises(ConfigError, match="16 visible ASCII"):
        Guard.of(token)


def test_the_token_is_not_shown() -> None:
    assert TOKEN not in repr(GUARD)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.0.0.9", "::1", "[::1]"])
def test_addresses_of_this_machine_alone(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "[::]", "192.168.1.2", "example.com", "", "localhost.evil.example"])
def test_addresses_that_others_reach(host: str) -> None:
    assert not is_loopback(host)
