"""Which sessions are captured and advised. What no rule allows is left alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from sherpa.configuration import Configuration, ScopeMatch

ChatType = Literal["direct", "group", "channel", "dm", "unknown"]
_KINDS: tuple[ChatType, ...] = ("direct", "group", "channel", "dm")


@dataclass(frozen=True)
class Session:
    """What is known of where an event comes from.

    Attributes
    ----------
    key : str
        Session key, for instance ``agent:main:telegram:direct:42``.
    agent_id, channel : str, optional
    is_group : bool, optional
        What the host says, where the key does not tell.
    """

    key: str
    agent_id: str | None = None
    channel: str | None = None
    is_group: bool | None = None

    @property
    def chat_type(self) -> ChatType:
        """By a segment of the key (direct, group, channel, dm, in this order), else by what the host says."""
        lower = self.key.lower()
        for kind in _KINDS:
            if f":{kind}:" in lower:
                return kind
        if self.is_group is None:
            return "unknown"
        return "group" if self.is_group else "direct"


@dataclass(frozen=True)
class Decision:
    """Whether a session is in scope, whether its events belong to a case of their own, and what decided."""

    allowed: bool
    stateless: bool
    reason: str


def decide(session: Session, configuration: Configuration) -> Decision:
    """Ignored patterns deny; then the first rule whose conditions all hold decides; then the default does."""
    stateless = any(_matches(pattern, session.key) for pattern in configuration.stateless_session_patterns)
    for pattern in configuration.ignore_session_patterns:
        if _matches(pattern, session.key):
            return Decision(False, stateless, f"ignoreSessionPatterns has {pattern!r}")
    for at, rule in enumerate(configuration.scope.rules):
        if _holds(rule.match, session):
            return Decision(rule.action == "allow", stateless, f"scope.rules[{at}] says {rule.action}")
    default = configuration.scope.default
    return Decision(default == "allow", stateless, f"scope.default is {default}")


def not_advised(session: Session, configuration: Configuration) -> str | None:
    """Why a session gets no advice; None if it may have some.

    ``advisory.scope`` narrows the scope to one kind of chat; a direct message is a direct chat.
    """
    decision = decide(session, configuration)
    if not decision.allowed:
        return decision.reason
    wanted = configuration.advisory.scope
    kind = "direct" if session.chat_type == "dm" else session.chat_type
    if wanted is not None and kind != ("direct" if wanted == "dm" else wanted):
        return f"advisory.scope is {wanted}, and this is a {session.chat_type} chat"
    return None


def _holds(match: ScopeMatch, session: Session) -> bool:
    conditions = (
        (match.chat_type, session.chat_type),
        (match.channel, session.channel),
        (match.agent_id, session.agent_id),
    )
    if any(wanted is not None and wanted != found for wanted, found in conditions):
        return False
    if match.session_prefix is not None and not session.key.strip().lower().startswith(match.session_prefix.lower()):
        return False
    return match.raw_session_prefix is None or session.key.startswith(match.raw_session_prefix)


@lru_cache(maxsize=256)
def _pattern(glob: str) -> re.Pattern[str]:
    parts = re.split(r"(\*+)", glob)
    text = "".join(re.escape(part) if not part.startswith("*") else "[^:]*" if part == "*" else ".*" for part in parts)
    return re.compile(text, re.IGNORECASE | re.DOTALL)


def _matches(glob: str, key: str) -> bool:
    """``*`` is anything but a colon, ``**`` anything; the whole key, in any case."""
    return _pattern(glob).fullmatch(key) is not None
