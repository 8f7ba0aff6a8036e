"""Sherpa: procedural memory for LLM agents.

The public surface is what `__all__` lists; it is loaded on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sherpa.branches import Branch, Branches, EdgeSource
    from sherpa.client import AsyncSherpaClient, SherpaClient
    from sherpa.config import EngineConfig
    from sherpa.counting import CountTable
    from sherpa.errors import SherpaError
    from sherpa.event import Event
    from sherpa.eventlog import Case, EventLog
    from sherpa.ledger import Ledger
    from sherpa.memory import ProceduralMemory
    from sherpa.model import VariableOrderMarkovModel
    from sherpa.store import GraphStore

__version__ = "0.1.0"

_HOME = {
    "AsyncSherpaClient": "sherpa.client",
    "Branch": "sherpa.branches",
    "Branches": "sherpa.branches",
    "Case": "sherpa.eventlog",
    "CountTable": "sherpa.counting",
    "EdgeSource": "sherpa.branches",
    "EngineConfig": "sherpa.config",
    "Event": "sherpa.event",
    "EventLog": "sherpa.eventlog",
    "GraphStore": "sherpa.store",
    "Ledger": "sherpa.ledger",
    "ProceduralMemory": "sherpa.memory",
    "SherpaClient": "sherpa.client",
    "SherpaError": "sherpa.errors",
    "VariableOrderMarkovModel": "sherpa.model",
}

__all__ = [
    "AsyncSherpaClient",
    "Branch",
    "Branches",
    "Case",
    "CountTable",
    "EdgeSource",
    "EngineConfig",
    "Event",
    "EventLog",
    "GraphStore",
    "Ledger",
    "ProceduralMemory",
    "SherpaClient",
    "SherpaError",
    "VariableOrderMarkovModel",
    "__version__",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'sherpa' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
