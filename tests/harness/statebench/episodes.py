"""Recorded runs played again inside the real STATE-Bench, its agent having this memory. A program, run by a test.

The benchmark's loader, agent, task runner, tools, user simulator and scorer are real; only the two models are played
from the recordings. The agent's model asks for learnings once, for seven of them. Its own folder must be importable,
and its dependencies are replaced by empty modules where they are missing: nothing of them is used here.

    python episodes.py CHECKOUT TRAIN_DIR AGENTS_ROOT
"""

from __future__ import annotations

import importlib
import json
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

WORKERS = 4
_MODULES = ("dotenv", "openai", "azure", "azure.identity", "tenacity")


class _Anything(types.ModuleType):
    """A module that has every name: each is a class, and calling it as a decorator changes nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "retry":
            return lambda *_a, **_k: lambda function: function
        if name[0].isupper():
            return type(name, (Exception,), {})
        return lambda *_a, **_k: None


for _name in _MODULES:
    try:
        importlib.import_module(_name)
    except ImportError:
        sys.modules[_name] = _Anything(_name)
        if "." not in _name:
            sys.modules[_name].__path__ = []  # type: ignore[attr-defined]


def main(checkout: Path, train: Path, root: Path) -> dict[str, dict[str, int]]:
    """Plays every run; counts by domain."""
    sys.path.insert(0, str(checkout))
    client = importlib.import_module("state_bench.client")
    loader = importlib.import_module("state_bench.agents.loader")
    agent_class = loader.load_root_agent_class("SherpaMemoryAgent", root=root)

    class Player(client.LLMClient):  # type: ignore[misc, name-defined]
        """The agent's model: the recorded turns, with one retrieval before the first of them."""

        def __init__(self, turns: list[dict[str, Any]], query: str) -> None:
            self.replies = [self._calls([("retrieve_learnings", {"query": query, "top_k": 7})])]
            for turn in turns:
                calls = [(call["name"], call["arguments"]) for call in turn.get("tool_calls") or []]
                self.replies += [self._calls(calls)] if calls else []
                self.replies.append(([], turn["content"]))
            self.replies.reverse()

        @staticmethod
        def _calls(calls: list[tuple[str, dict[str, Any]]]) -> tuple[list[Any], str]:
            return [
                SimpleNamespace(type="function_call", name=name, arguments=json.dumps(given), call_id=f"c{at}")
                for at, (name, given) in enumerate(calls)
            ], ""

        def complete_with_tools(self, **_given: Any) -> Any:
            output, text = self.replies.pop()
            return SimpleNamespace(id="r", output=output, output_text=text, usage=None)

    class User(client.LLMClient):  # type: ignore[misc, name-defined]
        """The simulator's model: what the user said after the opening."""

        def __init__(self, said: list[str]) -> None:
            self.said = said[::-1]

        def complete_chat(self, **_given: Any) -> str:
            return self.said.pop()

    counts: dict[str, dict[str, int]] = {}
    for folder in sorted(path for path in train.iterdir() if path.is_dir()):
        domain = importlib.import_module("state_bench.domain").get_domain_config(folder.name)

        def play(path: Path, domain: Any = domain) -> dict[str, int]:
            return _play(path, domain, agent_class, Player, User)

        files = sorted(folder.glob("*.json"))
        with ThreadPoolExecutor(WORKERS) as pool:
            found = list(pool.map(play, files))
        counts[folder.name] = {"episodes": len(files)} | {key: sum(one[key] for one in found) for key in found[0]}
    return counts


def _play(path: Path, domain: Any, agent_class: type, player: type, user: type) -> dict[str, int]:
    schemas = importlib.import_module("state_bench.schemas")
    paths = importlib.import_module("state_bench.paths")
    task = schemas.TaskDefinition.load(paths.domain_tasks_dir(domain.name) / path.name)
    env_data, _ = importlib.import_module("state_bench.env_loader").load_task_environment(domain, task)
    recorded = json.loads(path.read_text())["conversation"][1:]
    turns = [message for message in recorded if message["role"] == "assistant"]
    said = [message["content"] for message in recorded if message["role"] == "user"]
    query = f"{domain.name} {said[0]}"
    trajectory = importlib.import_module("state_bench.orchestrator").run_task(
        task,
        env_data,
        task.user_id,
        player(turns, query),
        domain=domain,
        simulator_client=user(said[1:]),
        agent_class=agent_class,
        retrieve_learnings_top_k=3,
        agent_reasoning_effort="high",
    )
    first = next(message for message in trajectory.conversation if message["role"] == "assistant")
    retrievals = [call for call in first["tool_calls"] if call["name"] == "retrieve_learnings"]
    learnings = retrievals[0]["result"]["learnings"]
    first["tool_calls"] = [call for call in first["tool_calls"] if call["name"] != "retrieve_learnings"] or None
    scored = importlib.import_module("state_bench.scoring").evaluate_state_requirements(task, trajectory.state_diff)
    return {
        "unchanged": trajectory.conversation == recorded,
        "retrievals": len(retrievals),
        "learnings": len(learnings),
        "tooMany": len(learnings) > 3,
        "stateMet": scored is not None and scored.score == 1,
        "stateScored": scored is not None,
    }


if __name__ == "__main__":
    print(json.dumps(main(*map(Path, sys.argv[1:4]))))
