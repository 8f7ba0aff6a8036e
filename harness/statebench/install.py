"""The drop-in: a file of a few lines where the benchmark looks for agents."""

from __future__ import annotations

from pathlib import Path

from harness.statebench.preflight import AGENT_CLASS
from sherpa.errors import ConfigError
from sherpa.files import write_whole

AGENT_FILE = Path("agents") / "sherpa_memory_agent.py"


def agent_source(learnings: Path) -> str:
    """The text of the agent's file: no ``__init__`` and no import from beside it, either would break it there."""
    return (
        '"""Procedural memory for the benchmark\'s own agent. Written by `sherpa statebench install-agent`."""\n\n'
        "from state_bench.agents.state_bench import StateBenchAgent\n\n"
        "from harness.statebench.adapter import SherpaMemory\n\n\n"
        f"class {AGENT_CLASS}(SherpaMemory, StateBenchAgent):\n"
        f"    learnings_path = {str(learnings)!r}\n"
    )


def install_agent(folder: Path, learnings: Path, *, force: bool = False) -> Path:
    """Write the agent's file below a folder from which the benchmark will be started.

    Parameters
    ----------
    folder : path
        Gets ``agents/sherpa_memory_agent.py``.
    learnings : path
        The artefact; it is named by its full path, because the benchmark may run anywhere.
    force : bool
        Replace a file of that name that says something else.

    Raises
    ------
    ConfigError
        If there is no artefact, another agent of that name, or a changed file.
    """
    if not learnings.is_file():
        raise ConfigError(f"{learnings}: no artefact; make one with `sherpa statebench build-learnings`")
    path = folder / AGENT_FILE
    rivals = [other for other in agents_named(folder, AGENT_CLASS) if other != path]
    if rivals:
        raise ConfigError(f"{rivals[0]}: has a class {AGENT_CLASS} too; the benchmark refuses two of one name")
    text = agent_source(learnings.resolve())
    if path.exists() and path.read_text(encoding="utf-8") != text and not force:
        raise ConfigError(f"{path}: is there and differs; --force replaces it")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.encode())
    return path


def agents_named(folder: Path, name: str) -> list[Path]:
    """Files below ``agents/`` that define a class of this name."""
    found = []
    for path in sorted((folder / AGENT_FILE.parent).rglob("*.py")):
        if path.name != "__init__.py" and f"class {name}(" in path.read_text(encoding="utf-8", errors="replace"):
            found.append(path)
    return found
