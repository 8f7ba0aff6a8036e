"""A model that says what it is told to: an OpenAI-compatible server on the loopback interface."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_NAMED = re.compile(r"scenario ([a-z0-9-]+)")
_WAIT = 120.0


@dataclass(frozen=True)
class Call:
    """A tool call that the model makes; its arguments may depend on the messages so far."""

    tool: str
    arguments: Mapping[str, Any] | Callable[[list[dict[str, Any]]], Mapping[str, Any]] = field(default_factory=dict)

    def given(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """The arguments after these messages."""
        return dict(self.arguments(messages) if callable(self.arguments) else self.arguments)


@dataclass(frozen=True)
class Turn:
    """One answer of the model: calls, or a text that ends the run."""

    calls: tuple[Call, ...] = ()
    text: str = ""


Scenario = Sequence[Turn]


class ScriptedModel:
    """Serves scenarios; which one, a message of the user says ("scenario NAME").

    How far a scenario has come is read off the conversation itself, so that a run can be repeated or resumed. A gate
    holds back an answer of a scenario until it is opened: what the agent has written by then can be looked at while it
    still runs.

    Parameters
    ----------
    scenarios : mapping of str to sequences of Turn

    Attributes
    ----------
    requests : list of dict
        What the model was asked, in order.
    """

    def __init__(self, scenarios: Mapping[str, Scenario]) -> None:
        self.scenarios = dict(scenarios)
        self.gates: dict[str, threading.Event] = {}
        self.reached: dict[str, threading.Event] = {}
        self.problems: list[str] = []
        self.requests: list[dict[str, Any]] = []
        self._held: dict[str, int] = {}
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                try:
                    chunks = model.answer(json.loads(body))
                except (ValueError, KeyError, TypeError) as error:
                    model.problems.append(str(error))
                    self.send_error(400, str(error))
                    return
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                for chunk in chunks:
                    self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
                self.wfile.write(b"data: [DONE]\n\n")
                self.close_connection = True

            def log_message(self, format: str, *arguments: Any) -> None:
                """Nothing is printed."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Base address of the interface."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> ScriptedModel:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for gate in self.gates.values():
            gate.set()
        self._server.shutdown()
        self._server.server_close()

    def hold(self, scenario: str, turn: int = -1) -> None:
        """Hold back an answer of a scenario, the last by default, until `release`; at most two minutes."""
        self._held[scenario] = turn % len(self.scenarios[scenario])
        self.gates[scenario] = threading.Event()
        self.reached[scenario] = threading.Event()

    def release(self, scenario: str) -> None:
        """Let a held scenario end."""
        self.gates[scenario].set()

    def answer(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """The chunks of the next answer.

        Raises
        ------
        ValueError
            If no message names a known scenario, or the scenario has no further turn.
        """
        self.requests.append(request)
        name, done = _place(request["messages"])
        turns = self.scenarios.get(name)
        if turns is None:
            raise ValueError(f"scenario {name!r} is unknown; there are {', '.join(self.scenarios)}")
        if done >= len(turns):
            raise ValueError(f"scenario {name!r} has only {len(turns)} turns")
        if name in self.gates and done == self._held[name]:
            self.reached[name].set()
            self.gates[name].wait(_WAIT)
        turn = turns[done]
        delta: dict[str, Any] = {"role": "assistant"}
        if turn.text:
            delta["content"] = turn.text
        if turn.calls:
            delta["tool_calls"] = [
                {
                    "index": at,
                    "id": f"call_{done}_{at}",
                    "type": "function",
                    "function": {"name": call.tool, "arguments": json.dumps(call.given(request["messages"]))},
                }
                for at, call in enumerate(turn.calls)
            ]
        base = {"id": f"answer-{done}", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        reason = "tool_calls" if turn.calls else "stop"
        return [
            {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
        ]


def _place(messages: list[dict[str, Any]]) -> tuple[str, int]:
    """(scenario, how many answers were given since it was named)."""
    for at in range(len(messages) - 1, -1, -1):
        if messages[at]["role"] != "user":
            continue
        found = _NAMED.search(_text(messages[at]["content"]))
        if found is not None:
            return found[1], sum(m["role"] == "assistant" for m in messages[at + 1 :])
    raise ValueError("no message names a scenario")


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
