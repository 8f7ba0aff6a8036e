"""Which sessions are in scope."""

from __future__ import annotations

from typing import Any

import pytest

from sherpa.capture.scope import ChatType, Session, decide, not_advised
from sherpa.configuration import configure


@pytest.mark.parametrize(
    ("key", "is_group", "expected"),
    [
        ("agent:main:telegram:direct:42", None, "direct"),
        ("AGENT:main:Telegram:DM:42", None, "dm"),
        ("agent:main:discord:channel:7", False, "channel"),
        ("agent:main:slack:group:7:direct:8", None, "direct"),  # direct is looked for first
        ("agent:main:main", None, "unknown"),
        ("agent:main:main", False, "direct"),
        ("agent:main:main", True, "group"),
        ("direct:42", None, "unknown"),  # no colon before it
    ],
)
def test_what_kind_of_chat(key: str, is_group: bool | None, expected: ChatType) -> None:
    assert Session(key, is_group=is_group).chat_type == expected


def allowed(session: Session, **options: Any) -> bool:
    return decide(session, configure(options)).allowed


def test_by_default_only_direct_chats() -> None:
    assert allowed(Session("agent:main:telegram:direct:42"))
    assert allowed(Session("agent:main:telegram:dm:42"))
    assert not allowed(Session("agent:main:telegram:group:42"))
    assert not allowed(Session("agent:main:main"))
    assert not allowed(Session("agent:main:cron:direct:42"))  # ignored before any rule is asked


def test_the_first_rule_that_holds_decides() -> None:
    rules = [
        {"action": "deny", "match": {"chatType": "direct", "channel": "sms"}},
        {"action": "allow", "match": {"chatType": "direct"}},
        {"action": "allow", "match": {"agentId": "worker", "sessionPrefix": "Agent:W"}},
        {"action": "allow", "match": {"rawSessionPrefix": "Raw:"}},
    ]
    scope = {"default": "deny", "rules": rules}
    direct = "agent:main:x:direct:1"
    assert allowed(Session(direct), scope=scope)
    assert not allowed(Session(direct, channel="sms"), scope=scope)
    assert allowed(Session("agent:worker:x", agent_id="worker"), scope=scope)
    assert not allowed(Session("agent:worker:x", agent_id="other"), scope=scope)
    assert allowed(Session("Raw:x"), scope=scope)
    assert not allowed(Session("raw:x"), scope=scope)
    decision = decide(Session(direct, channel="sms"), configure({"scope": scope}))
    assert decision.reason == "scope.rules[0] says deny"


@pytest.mark.parametrize(
    ("pattern", "key", "expected"),
    [
        ("agent:*:cron:**", "agent:main:cron:daily:x", True),
        ("agent:*:cron:**", "agent:main:sub:cron:daily", False),
        ("agent:**:cron:*", "agent:main:sub:cron:daily", True),
        ("AGENT:MAIN", "agent:main", True),
        ("agent", "agent:main", False),
        ("a.c", "abc", False),
        ("*", "a\nb", True),
        ("***", "a:b", True),
    ],
)
def test_patterns(pattern: str, key: str, expected: bool) -> None:
    options = {"scope": {"default": "allow", "rules": []}, "ignoreSessionPatterns": [pattern]}
    assert allowed(Session(key), **options) is not expected


def test_stateless_sessions_are_told_apart() -> None:
    configuration = configure({"statelessSessionPatterns": ["agent:*:probe:**"], "ignoreSessionPatterns": []})
    assert decide(Session("agent:main:probe:direct:1"), configuration).stateless
    assert not decide(Session("agent:main:x:direct:1"), configuration).stateless


def test_advice_may_have_a_narrower_scope() -> None:
    everything = {"scope": {"default": "allow", "rules": []}}
    narrow = configure(everything | {"advisory": {"scope": "direct"}})
    assert not_advised(Session("agent:main:x:direct:1"), narrow) is None
    assert not_advised(Session("agent:main:x:dm:1"), narrow) is None
    assert not_advised(Session("agent:main:x:group:1"), narrow) == "advisory.scope is direct, and this is a group chat"
    assert not_advised(Session("agent:main:x:group:1"), configure(everything)) is None
    assert not_advised(Session("agent:main:x:group:1"), configure({})) == "scope.default is deny"
