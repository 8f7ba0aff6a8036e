"""The memory as an agent of STATE-Bench has it: read-only, never raising, the same answer for the same query.

Standard library only. The benchmark makes an agent per task, in threads, so the artefact is loaded once per process
and only read from then on.

An agent of the built-in client takes `SherpaMemory` beside ``StateBenchAgent``::

    class SherpaMemoryAgent(SherpaMemory, StateBenchAgent):
        learnings_path = "/path/to/learnings.json"

Neither class here has an ``__init__``: the benchmark reads the signature of the agent's to decide what to pass.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Any

from harness.statebench.retrieval import TOP_K, Learnings

LEARNINGS_VARIABLE = "SHERPA_LEARNINGS"
"""Environment variable that names the artefact where a class does not."""
TOOL = "retrieve_learnings"

_log = logging.getLogger(__name__)
_lock = threading.Lock()
_loaded: dict[str, Learnings | None] = {}


def learnings_at(path: str) -> Learnings | None:
    """The artefact of a file, read once per process; None if it cannot be read.

    A failure is remembered too: a memory that appears half-way through a benchmark would be no frozen memory.
    """
    with _lock:
        if path not in _loaded:
            try:
                _loaded[path] = Learnings.load(path)
            except Exception:
                _log.exception("no learnings: %s cannot be used, every retrieval will be empty", path or "(no path)")
                _loaded[path] = None
        return _loaded[path]


class SherpaMemory:
    """Gives an agent `retrieve_learnings`.

    Attributes
    ----------
    learnings_path : str
        Artefact of ``build-learnings``; if empty, the environment variable ``SHERPA_LEARNINGS`` names it.
    """

    learnings_path: str = ""
    runtime_context: Any = None

    def retrieve_learnings(self, query: str, top_k: int = TOP_K) -> list[str]:
        """At most `top_k` learning cards for a query, best first; none for a query that is about something else.

        Of the runtime context only the domain is read: the rest of it holds what the task is judged by.
        """
        try:
            learnings = learnings_at(str(self.learnings_path or os.environ.get(LEARNINGS_VARIABLE, "")))
            if learnings is None or not isinstance(query, str) or isinstance(top_k, bool) or not isinstance(top_k, int):
                return []
            context = self.runtime_context
            domain = None if context is None else context.domain
            return learnings.retrieve(query, top_k, domain=domain)
        except Exception:
            # A raise would end the episode: the benchmark does not catch what a tool raises.
            _log.exception("a retrieval failed; it is answered with no learnings")
            return []


class SherpaMemoryTools(SherpaMemory):
    """The same for an agent with a client of its own (``BaseAgent``), which offers its memory as a tool."""

    retrieve_learnings_top_k: int = TOP_K

    def memory_tool_schemas(self) -> list[dict[str, Any]]:
        """The tool as the agent's model sees it."""
        return [
            {
                "type": "function",
                "name": TOOL,
                "description": "Retrieve what earlier runs of similar requests looked like.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "query": {"type": "string", "description": "The request and what is known of the task."},
                        "top_k": {"type": "integer", "minimum": 1},
                    },
                    "required": ["query"],
                    "additionalProperties": False,
                },
            }
        ]

    def memory_tool_handlers(self) -> dict[str, Callable[[dict[str, Any]], dict[str, list[str]]]]:
        """The tool's handler. The number of cards is the benchmark's, whatever the model asks for."""

        def handle(arguments: dict[str, Any]) -> dict[str, list[str]]:
            query = arguments.get("query") if isinstance(arguments, dict) else None
            if not isinstance(query, str) or not query.strip():
                return {"learnings": []}
            return {"learnings": self.retrieve_learnings(query, top_k=self.retrieve_learnings_top_k)}

        return {TOOL: handle}
