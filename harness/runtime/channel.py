"""Ways to ask a model: a recording, nobody (which refuses loudly), or a live provider that was configured."""

from __future__ import annotations

import json
import math
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from harness.runtime.errors import (
    ChannelError,
    ChannelRequired,
    ProviderUnavailable,
    RecordingExhausted,
    RecordingMismatch,
)
from harness.runtime.ir import digest

Messages = Sequence[Mapping[str, str]]
MATCHED = ("messages", "temperature", "max_tokens")


class ChannelResponse(Struct, frozen=True, kw_only=True):
    """What a model said, and what it cost; estimated tokens are flagged."""

    text: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float = 0.0
    tokens_estimated: bool = True

    @property
    def tokens(self) -> int:
        """Of prompt and answer."""
        return self.prompt_tokens + self.completion_tokens


class Channel(Protocol):
    """A way to ask a model."""

    def complete(
        self, messages: Messages, *, temperature: float = 0.2, max_tokens: int = 1024, session: str
    ) -> ChannelResponse:
        """The answer; raises ChannelError if there is none."""
        ...


def estimated_tokens(text: str) -> int:
    """A quarter of the characters, at least one for any text."""
    return math.ceil(len(text) / 4)


def request_of(messages: Messages, temperature: float, max_tokens: int) -> dict[str, Any]:
    """What identifies a request."""
    return {"messages": [dict(m) for m in messages], "temperature": temperature, "max_tokens": max_tokens}


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The key goes to the address that was configured and to no other."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirect)


class EchoChannel:
    """No model: every request is refused."""

    def complete(
        self, messages: Messages, *, temperature: float = 0.2, max_tokens: int = 1024, session: str
    ) -> ChannelResponse:
        """Raises ChannelRequired."""
        raise ChannelRequired(f"session {session!r} needs a model and none is configured; give recordings or go live")


class RecordedChannel:
    """Tapes, one per session, played in order.

    Parameters
    ----------
    recordings : mapping
        Session → entries; an entry is the text, or ``{text, match: {messages | temperature | max_tokens}}``, which is
        only given to a request that matches.

    Raises
    ------
    ChannelError
        If an entry is neither.
    """

    def __init__(self, recordings: Mapping[str, Sequence[Any]]) -> None:
        self._tapes = {session: list(tape) for session, tape in recordings.items()}
        self._at: dict[str, int] = {}
        for session, tape in self._tapes.items():
            for at, entry in enumerate(tape):
                if not _well_formed(entry):
                    raise ChannelError(f"recording {session}[{at}] is neither a text nor {{text, match}}")

    def complete(
        self, messages: Messages, *, temperature: float = 0.2, max_tokens: int = 1024, session: str
    ) -> ChannelResponse:
        """The next entry of the session's tape.

        Raises
        ------
        RecordingExhausted
            If there is none.
        RecordingMismatch
            If it belongs to another request; it stays the next one.
        """
        at = self._at.get(session, 0)
        tape = self._tapes.get(session, [])
        if at >= len(tape):
            raise RecordingExhausted(f"the tape of session {session!r} has {len(tape)} entries, all of them used")
        entry = tape[at]
        text = entry if isinstance(entry, str) else entry["text"]
        if not isinstance(entry, str):
            request = request_of(messages, temperature, max_tokens)
            for name, wanted in entry.get("match", {}).items():
                if wanted != request[name]:
                    told = f"recorded {_short(wanted)}, asked {_short(request[name])}"
                    raise RecordingMismatch(f"session {session!r}, entry {at}: {name} differs: {told}")
        self._at[session] = at + 1
        prompt = "".join(m.get("content", "") for m in messages)
        return ChannelResponse(
            text=text,
            model="recorded",
            prompt_tokens=estimated_tokens(prompt),
            completion_tokens=estimated_tokens(text),
        )

    def seek(self, session: str, at: int) -> None:
        """Go on with an entry: what was played before a crash is not played again."""
        self._at[session] = at


def _well_formed(entry: object) -> bool:
    if isinstance(entry, str):
        return True
    if not isinstance(entry, dict) or not isinstance(entry.get("text"), str) or set(entry) - {"text", "match"}:
        return False
    match = entry.get("match", {})
    return isinstance(match, dict) and not set(match) - set(MATCHED)


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:60]}… ({digest(value)[:8]})"


class Recorder:
    """Passes requests on and keeps them as tapes that only match the same requests."""

    def __init__(self, inner: Channel) -> None:
        self._inner = inner
        self.recordings: dict[str, list[dict[str, Any]]] = {}

    def complete(
        self, messages: Messages, *, temperature: float = 0.2, max_tokens: int = 1024, session: str
    ) -> ChannelResponse:
        """The inner channel's answer."""
        answer = self._inner.complete(messages, temperature=temperature, max_tokens=max_tokens, session=session)
        entry = {"text": answer.text, "match": request_of(messages, temperature, max_tokens)}
        self.recordings.setdefault(session, []).append(entry)
        return answer


class OpenAICompatible:
    """A provider that speaks the chat completions protocol.

    Parameters
    ----------
    base_url, model, key : str
        For example ``https://host/v1``; the key is only sent there.
    price : (float, float)
        Dollars per million tokens of prompt and answer.
    timeout : float
        Seconds.
    """

    def __init__(
        self, base_url: str, model: str, key: str = "", *, price: tuple[float, float] = (0.0, 0.0), timeout: float = 120
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise ChannelError(f"{base_url!r} is no http address")
        self._url, self.model, self._key = base_url.rstrip("/") + "/chat/completions", model, key
        self._price, self._timeout = price, timeout

    def complete(
        self, messages: Messages, *, temperature: float = 0.2, max_tokens: int = 1024, session: str
    ) -> ChannelResponse:
        """The provider's answer; raises ProviderUnavailable if it gives none."""
        body = {"model": self.model, **request_of(messages, temperature, max_tokens)}
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self._key}"} if self._key else {})
        request = urllib.request.Request(self._url, json.dumps(body).encode(), headers)
        try:
            with _opener.open(request, timeout=self._timeout) as reply:
                answer = json.load(reply)
            text = answer["choices"][0]["message"]["content"] or ""
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise ProviderUnavailable(f"{self.model}: {type(error).__name__}: {error}") from None
        usage = answer.get("usage") or {}
        known = {"prompt_tokens", "completion_tokens"} <= usage.keys()
        prompt = usage["prompt_tokens"] if known else estimated_tokens("".join(m.get("content", "") for m in messages))
        completion = usage["completion_tokens"] if known else estimated_tokens(text)
        cost = (prompt * self._price[0] + completion * self._price[1]) / 1e6
        return ChannelResponse(
            text=text,
            model=self.model,
            prompt_tokens=prompt,
            completion_tokens=completion,
            cost_usd=cost,
            tokens_estimated=not known,
        )


class LiveChannel:
    """The first provider that answers; why earlier ones did not is remembered."""

    def __init__(self, providers: Sequence[Channel]) -> None:
        self._providers = list(providers)
        self.failures: list[str] = []

    def complete(
        self, messages: Messages, *, temperature: float = 0.2, max_tokens: int = 1024, session: str
    ) -> ChannelResponse:
        """Raises ProviderUnavailable if none answers."""
        while self._providers:
            try:
                return self._providers[0].complete(
                    messages, temperature=temperature, max_tokens=max_tokens, session=session
                )
            except ProviderUnavailable as error:
                self.failures.append(str(error))
                self._providers.pop(0)
        raise ProviderUnavailable("no provider is usable: " + ("; ".join(self.failures) or "none is configured"))


def make_channel(
    policy: str,
    recordings: Mapping[str, Sequence[Any]] | None = None,
    providers: Callable[[], Sequence[Channel]] | None = None,
) -> Channel:
    """A channel by policy: ``recorded`` (without recordings it refuses), ``live``.

    Raises
    ------
    ChannelError
        If the policy is unknown.
    """
    if policy == "recorded":
        return EchoChannel() if recordings is None else RecordedChannel(recordings)
    if policy == "live":
        return LiveChannel(providers() if providers else [])
    raise ChannelError(f"the channel policy {policy!r} is unknown; it is recorded or live")
