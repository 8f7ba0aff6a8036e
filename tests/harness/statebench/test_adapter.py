"""The agent against a double of the benchmark's interface, rule by rule."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harness.statebench import adapter
from harness.statebench.adapter import SherpaMemory, SherpaMemoryTools
from harness.statebench.build import build
from harness.statebench.install import install_agent
from harness.statebench.retrieval import Learnings
from sherpa.errors import ConfigError
from tests.harness.statebench import double
from tests.harness.statebench.test_retrieval import FLIGHTS, RETURNS

QUERY = "return a broken kettle"


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "_loaded", {})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with the agent installed."""
    (tmp_path / "learnings.json").write_text(json.dumps(build([*RETURNS, *FLIGHTS])))
    install_agent(tmp_path, tmp_path / "learnings.json")
    return tmp_path


@pytest.fixture
def agent_class(root: Path) -> Iterator[type[Any]]:
    with double.installed():
        yield double.load_root_agent_class("SherpaMemoryAgent", root)


def test_the_loader_finds_one_class(agent_class: type[Any]) -> None:
    assert issubclass(agent_class, double.StateBenchAgent)


def test_a_second_class_of_that_name_is_refused(root: Path) -> None:
    (root / "agents" / "other.py").write_text("class SherpaMemoryAgent(object):\n    pass\n")
    with pytest.raises(ConfigError, match=r"other\.py: has a class SherpaMemoryAgent too"):
        install_agent(root, root / "learnings.json")


def test_a_changed_file_is_only_replaced_on_demand(root: Path) -> None:
    path = root / "agents" / "sherpa_memory_agent.py"
    written = path.read_text()
    install_agent(root, root / "learnings.json")
    path.write_text(written + "# mine\n")
    with pytest.raises(ConfigError, match="--force"):
        install_agent(root, root / "learnings.json")
    install_agent(root, root / "learnings.json", force=True)
    assert path.read_text() == written


def test_it_needs_an_artefact(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="build-learnings"):
        install_agent(tmp_path, tmp_path / "none.json")
    assert not (tmp_path / "agents").exists()


def test_the_file_can_stand_anywhere(root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    with double.installed():
        found = double.load_root_agent_class("SherpaMemoryAgent", root)
    assert len(double.new_agent(found, double.Oracle("support")).call("retrieve_learnings", {"query": QUERY})) == 1


def test_it_has_no_constructor_so_the_reasoning_level_arrives(agent_class: type[Any]) -> None:
    assert "__init__" not in vars(agent_class)
    assert "__init__" not in vars(SherpaMemory)
    assert "__init__" not in vars(SherpaMemoryTools)
    assert double.new_agent(agent_class, double.Oracle("support"), effort="high").reasoning == "high"


def test_a_retrieval_switches_the_tool_on(agent_class: type[Any]) -> None:
    assert double.new_agent(agent_class, double.Oracle("support")).tool_names == ["get_order", "retrieve_learnings"]


@pytest.mark.parametrize("asked", [1, 3, 10])
@pytest.mark.parametrize("forced", [1, 2, 3])
def test_the_number_is_the_benchmarks_and_by_keyword(agent_class: type[Any], asked: int, forced: int) -> None:
    agent = double.new_agent(agent_class, double.Oracle("support"), top_k=forced)
    learnings = agent.call("retrieve_learnings", {"query": QUERY, "top_k": asked})["learnings"]
    assert len(learnings) == forced


def test_a_list_of_texts_comes_back(agent_class: type[Any]) -> None:
    agent = double.new_agent(agent_class, double.Oracle("support"))
    for query in (QUERY, "nothing of the kind", "?"):
        learnings = agent.retrieve_learnings(query, top_k=3)
        assert type(learnings) is list
        assert all(type(text) is str for text in learnings)


def test_only_the_domain_of_the_context_is_read(agent_class: type[Any]) -> None:
    # Any other attribute raises, and a raise inside would have been answered with nothing.
    agent = double.new_agent(agent_class, double.Oracle("support"))
    assert len(agent.retrieve_learnings(QUERY, top_k=3)) == 3
    assert double.new_agent(agent_class, double.Oracle("travel")).retrieve_learnings(QUERY, top_k=3) == []
    assert len(double.new_agent(agent_class, None).retrieve_learnings(QUERY, top_k=3)) == 3


def test_a_repeated_query_gets_the_same_answer(agent_class: type[Any]) -> None:
    agents = [double.new_agent(agent_class, double.Oracle("support")) for _ in range(3)]
    answers = [agent.call("retrieve_learnings", {"query": QUERY}) for agent in agents for _ in range(2)]
    assert all(answer == answers[0] for answer in answers)


def test_agents_in_threads_share_one_artefact(agent_class: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    loads = []
    load = Learnings.load
    start = threading.Barrier(8)

    def counted(path: Any) -> Learnings:
        loads.append(path)
        return load(path)

    monkeypatch.setattr(Learnings, "load", counted)

    def episode(_number: int) -> Any:
        agent = double.new_agent(agent_class, double.Oracle("support"))
        start.wait()
        return [agent.call("retrieve_learnings", {"query": QUERY}) for _ in range(20)]

    with ThreadPoolExecutor(8) as pool:
        answers = [answer for episode_answers in pool.map(episode, range(8)) for answer in episode_answers]
    assert len(loads) == 1
    assert len(answers[0]["learnings"]) == 3
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize("content", [None, "{broken", "[]", '{"learnings": [{}], "source": {"digest": ""}}'])
def test_a_missing_or_broken_artefact_ends_no_episode(
    content: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.json"
    if content is not None:
        path.write_text(content)

    class Agent(SherpaMemory):
        learnings_path = str(path)

    with caplog.at_level(logging.ERROR):
        assert Agent().retrieve_learnings(QUERY, top_k=3) == []
    assert "every retrieval will be empty" in caplog.text
    # Frozen: what appears later does not change the answers of this process.
    path.write_text(json.dumps(build(RETURNS)))
    assert Agent().retrieve_learnings(QUERY, top_k=3) == []


def test_whatever_fails_inside_is_answered_with_nothing(
    agent_class: type[Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(Learnings, "retrieve", fail)
    agent = double.new_agent(agent_class, double.Oracle("support"))
    assert agent.call("retrieve_learnings", {"query": QUERY}) == {"learnings": []}
    assert "broken" in caplog.text


@pytest.mark.parametrize("query", [None, 3, "", b"x", ["a"]])
@pytest.mark.parametrize("top_k", [0, -1, True, None, "3", 2.0])
def test_odd_arguments_raise_nothing(agent_class: type[Any], query: Any, top_k: Any) -> None:
    agent = double.new_agent(agent_class, double.Oracle("support"))
    assert agent.retrieve_learnings(query, top_k=top_k) == []
    assert agent.retrieve_learnings(QUERY, top_k=top_k) == []


def test_the_variable_names_the_artefact_where_the_class_does_not(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHERPA_LEARNINGS", str(root / "learnings.json"))
    assert len(SherpaMemory().retrieve_learnings(QUERY, top_k=2)) == 2


def test_an_agent_with_its_own_client_offers_the_tool(root: Path) -> None:
    class Agent(SherpaMemoryTools, double.BaseAgent):
        learnings_path = str(root / "learnings.json")

    agent = Agent(double.Oracle("support"))
    (schema,) = agent.memory_tool_schemas()
    handler = agent.memory_tool_handlers()[schema["name"]]
    assert schema["parameters"]["required"] == ["query"]
    assert len(handler({"query": QUERY, "top_k": 10})["learnings"]) == 3
    for odd in ({}, {"query": ""}, {"query": 3}, None):
        assert handler(odd) == {"learnings": []}  # type: ignore[arg-type]
    agent.retrieve_learnings_top_k = 1
    assert len(handler({"query": QUERY})["learnings"]) == 1


def test_nothing_of_a_run_is_kept() -> None:
    # The benchmark offers each finished run to its agent; the memory under test must not learn from it.
    assert not hasattr(SherpaMemory, "ingest_trajectory")
