"""Who may ask: host names, origins and the bearer token, checked before anything else is looked at.

A page in a browser can reach every port of the loopback interface, directly or under a host name of its own that
resolves to 127.0.0.1. Such a request carries a foreign Origin or a foreign Host.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field

from sherpa.errors import ConfigError, OperationError
from sherpa.serve.tokens import is_token

Headers = Iterable[tuple[bytes, bytes]]
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
STATUS = {
    "unauthorized": 401,
    "forbidden_host": 403,
    "forbidden_origin": 403,
}


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Guard:
    """Checks the head of a request.

    Attributes
    ----------
    token : str
    hosts : frozenset of str
        Host names, without port, by which the daemon may be called; those of the loopback interface by default.
    origins : frozenset of str
        Origins of pages that may call it; none by default.
    """

    token: str = field(repr=False)
    hosts: frozenset[str] = _LOOPBACK
    origins: frozenset[str] = frozenset()

    @classmethod
    def of(cls, token: str, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> Guard:
        """The usual guard with further host names and origins.

        Raises
        ------
        ConfigError
            If one is a wildcard: it would let every page in. If the token is none.
        """
        if not is_token(token):
            raise ConfigError("the token must be at least 16 visible ASCII characters")
        named = [*hosts, *origins]
        if any("*" in name for name in named):
            raise ConfigError("host names and origins that may call are named one by one, without *")
        return cls(token, _LOOPBACK | {host.lower() for host in hosts}, frozenset(o.lower() for o in origins))

    def check_place(self, headers: Headers) -> None:
        """Refuse a foreign host name or origin.

        Raises
        ------
        OperationError
        """
        names = [value for name, value in headers if name == b"host"]
        if len(names) != 1 or _without_port(names[0].decode("latin-1").lower()) not in self.hosts:
            raise OperationError(
                "forbidden_host", "called by a host name that is not allowed; use 127.0.0.1, or start with --allow-host"
            )
        for name, value in headers:
            if name == b"origin" and value.decode("latin-1").lower() not in self.origins:
                raise OperationError(
                    "forbidden_origin", "called from a page that is not allowed; start with --allow-origin"
                )

    def check_token(self, headers: Headers) -> None:
        """Refuse without the token. The comparison takes the same time whatever is wrong.

        Raises
        ------
        OperationError
        """
        given = [value for name, value in headers if name == b"authorization"]
        scheme, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        right = hmac.compare_digest(token.strip(), self.token.encode("ascii"))
        if scheme.lower() != b"bearer" or not right:
            raise OperationError(
                "unauthorized", "a bearer token is needed; it lies in daemon.token in the memory's folder"
            )


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    if colon and port.isdigit() and not name.endswith(":") and (":" not in name or name.startswith("[")):
        return name
    return host
