"""The interface that STATE-Bench has for agents with a memory, made again from its rules: loader, agent, runner."""

from __future__ import annotations

import importlib.util
import inspect
import json
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TOP_K = 3


class BaseAgent:
    """What every agent has."""

    def __init__(self, runtime_context: Any = None) -> None:
        self.runtime_context = runtime_context

    def memory_tool_schemas(self) -> list[dict[str, Any]]:
        return []

    def memory_tool_handlers(self) -> dict[str, Any]:
        return {}


class Client:
    """The client that the built-in agent insists on."""


class StateBenchAgent(BaseAgent):
    """The built-in agent, as far as a memory meets it."""

    def __init__(
        self,
        client: Any,
        system_prompt: str,
        tools: list[dict[str, Any]],
        tool_handlers: dict[str, Callable[[dict[str, Any]], Any]],
        runtime_context: Any = None,
        retrieve_learnings_top_k: int = 3,
        agent_reasoning_effort: str | None = None,
    ) -> None:
        super().__init__(runtime_context)
        if not isinstance(client, Client):
            raise TypeError("a client of the benchmark is needed")
        self.reasoning, self.top_k = agent_reasoning_effort, retrieve_learnings_top_k
        self.tool_names = [tool["name"] for tool in tools]
        self.handlers = dict(tool_handlers)
        if callable(getattr(self, "retrieve_learnings", None)):
            if "retrieve_learnings" in self.handlers:
                raise ValueError("the name is taken")
            self.tool_names.append("retrieve_learnings")
            self.handlers["retrieve_learnings"] = self._retrieve

    def _retrieve(self, arguments: dict[str, Any]) -> dict[str, Any]:
        query, asked = arguments.get("query"), arguments.get("top_k", self.top_k)
        if not isinstance(query, str) or not query.strip():
            raise ValueError("a query is a text")
        if not isinstance(asked, int) or isinstance(asked, bool) or asked < 1:
            raise ValueError("top_k is a positive integer")
        # The benchmark's number, by keyword, whatever was asked for; what comes back is not cut.
        learnings = self.retrieve_learnings(query, top_k=self.top_k)  # type: ignore[attr-defined]
        if type(learnings) is not list or any(type(text) is not str for text in learnings):
            raise TypeError("learnings are a list of texts")
        return {"learnings": learnings}

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """What the model would get; nothing is caught."""
        return json.loads(json.dumps(self.handlers[name](arguments)))


def load_root_agent_class(name: str, root: Path) -> type[Any]:
    """The one class of a name among all files below ``agents/``, each loaded by its path."""
    matches, errors = [], []
    for path in sorted((root / "agents").rglob("*.py")):
        if path.name == "__init__.py":
            continue
        module_name = f"_state_bench_user_agent_{path.stem}"
        spec = importlib.util.spec_from_file_location(module_name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            errors.append(f"{path}: {error}")
            continue
        found = getattr(module, name, None)
        if found is not None:
            if not isinstance(found, type) or not issubclass(found, BaseAgent):
                raise TypeError(f"{name} is no agent")
            matches.append(found)
    if len(matches) > 1:
        raise ValueError("multiple root agents")
    if not matches:
        raise ValueError(f"not found; import errors: {errors}")
    return matches[0]


def new_agent(agent_class: type[Any], context: Any, *, effort: str | None = "high", top_k: int = TOP_K) -> Any:
    """A fresh agent, as the task runner makes it: the effort only if the constructor is seen to take it."""
    given: dict[str, Any] = {"runtime_context": context, "retrieve_learnings_top_k": top_k}
    if effort is not None and "agent_reasoning_effort" in inspect.signature(agent_class).parameters:
        given["agent_reasoning_effort"] = effort
    return agent_class(Client(), "system", [{"name": "get_order"}], {"get_order": lambda _given: {}}, **given)


class Oracle:
    """A runtime context in which everything but the domain gives the task away, and says so when it is read."""

    def __init__(self, domain: str) -> None:
        self.domain = domain

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the memory read {name} of the runtime context")


@contextmanager
def installed() -> Iterator[None]:
    """`state_bench` as a package of these classes, for as long as it is needed."""
    names = ("state_bench", "state_bench.agents", "state_bench.agents.state_bench", "state_bench.agents.loader")
    before = {name: sys.modules.get(name) for name in (*names, "state_bench.protocol")}
    made = {name: types.ModuleType(name) for name in before}
    for module in made.values():
        module.__path__ = []
        module.__spec__ = importlib.util.spec_from_loader(module.__name__, loader=None)
    made["state_bench.agents.state_bench"].__dict__["StateBenchAgent"] = StateBenchAgent
    made["state_bench.agents.loader"].__dict__["load_root_agent_class"] = load_root_agent_class
    protocol = types.SimpleNamespace(protocol_id="double", validate_prompt_hashes=list)
    made["state_bench.protocol"].__dict__["load_default_protocol"] = lambda: protocol
    sys.modules.update(made)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
