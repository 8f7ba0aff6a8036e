"""The model as a run sees it: every call is charged and logged, and none is repeated because a process died."""

from __future__ import annotations

import threading

import msgspec

from harness.runtime.channel import Channel, ChannelResponse, Messages, request_of
from harness.runtime.ir import digest
from harness.runtime.runstate import RunState
from harness.runtime.store import RunStore


class Asking:
    """Calls of one run.

    Parameters
    ----------
    store : RunStore
    state : RunState
        Tells how far each tape was played, and which answers came before a crash.
    channel : Channel
    """

    def __init__(self, store: RunStore, run_id: str, state: RunState, channel: Channel) -> None:
        self._store, self._run_id, self._state, self._channel = store, run_id, state, channel
        self._turn = threading.Lock()

    def on_behalf(self, node_key: str) -> BoundAsking:
        """The model for one node; what it costs is charged to the accounts above it."""
        return BoundAsking(self, node_key)

    def complete(
        self, messages: Messages, *, temperature: float, max_tokens: int, session: str, node_key: str
    ) -> ChannelResponse:
        """An answer; the one in the log if this very question was asked before the last crash."""
        request = digest(request_of(messages, temperature, max_tokens))
        blobs = self._store.blobs
        with self._store.lock:
            given = self._state.answers.get((node_key, session, request))
            if given:
                return msgspec.json.decode(blobs.get(given.pop(0)), type=ChannelResponse)
        if not hasattr(self._channel, "seek"):
            answer = self._channel.complete(messages, temperature=temperature, max_tokens=max_tokens, session=session)
            self._log(answer, request, session, node_key)
            return answer
        # Branches that run side by side must not be given the same entry of a tape.
        with self._turn:
            self._channel.seek(session, self._state.calls.get(session, 0))
            answer = self._channel.complete(messages, temperature=temperature, max_tokens=max_tokens, session=session)
            self._log(answer, request, session, node_key)
        return answer

    def _log(self, answer: ChannelResponse, request: str, session: str, node_key: str) -> None:
        payload = {
            "session": session,
            "model": answer.model,
            "request_sha": request,
            "response_sha": self._store.blobs.put(msgspec.json.encode(answer)),
            "tokens": answer.tokens,
            "cost_usd": answer.cost_usd,
            "tokens_estimated": answer.tokens_estimated,
        }
        with self._store.transaction():
            self._store.append(self._run_id, "channel_called", payload, node_key=node_key or None)
            self._store.add_usage(self._run_id, node_key or None, tokens=answer.tokens, cost_usd=answer.cost_usd)


class BoundAsking:
    """The model, asked for one node."""

    def __init__(self, asking: Asking, node_key: str) -> None:
        self._asking, self._node_key = asking, node_key

    def __call__(
        self, messages: Messages, *, temperature: float = 0.2, max_tokens: int = 1024, session: str
    ) -> ChannelResponse:
        """An answer."""
        return self._asking.complete(
            messages, temperature=temperature, max_tokens=max_tokens, session=session, node_key=self._node_key
        )
