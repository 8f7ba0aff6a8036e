"""What would spoil a paid run, checked before it: artefact, interface, environment.

Standard library only, so that it can run under the interpreter of the benchmark::

    python -m harness.statebench.preflight --dir DIR
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.statebench.adapter import LEARNINGS_VARIABLE
from harness.statebench.lexical import tokens
from harness.statebench.retrieval import TOP_K, Learnings

DOMAINS = ("travel", "customer_support", "shopping_assistant")
AGENT_CLASS = "SherpaMemoryAgent"
TOKENS = 450
"""Most tokens that an answer of three cards should have on average."""
_MINIMUM = (3, 12)
_NEEDED = ("STATE_BENCH_EVAL_ENDPOINT", "STATE_BENCH_EVAL_DEPLOYMENTS")


@dataclass(frozen=True)
class Check:
    """One check: its name, whether it passed, and what was found."""

    name: str
    passed: bool
    found: str


def preflight(folder: Path, environment: dict[str, str] | None = None) -> list[Check]:
    """All checks for a folder from which the benchmark will be started; none raises."""
    environment = dict(os.environ) if environment is None else environment
    checks = [_python()]
    agent = _load_agent(folder)
    checks += agent[1]
    checks += _artefact(agent[0], environment)
    if agent[0] is not None:
        checks += _interface(agent[0])
    checks += _protocol()
    checks += list(_settings(folder, environment))
    return checks


def _guarded(name: str, check: Callable[[], str]) -> Check:
    try:
        return Check(name, True, check())
    except Exception as error:
        return Check(name, False, f"{type(error).__name__}: {error}")


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    return Check("python", sys.version_info[:2] >= _MINIMUM, f"{version}; the benchmark needs 3.12 or newer")


def _load_agent(folder: Path) -> tuple[type[Any] | None, list[Check]]:
    """The agent through the benchmark's own loader."""
    if importlib.util.find_spec("state_bench") is None:
        return None, [Check("state_bench", False, "is not installed for this Python")]
    found: list[type[Any]] = []

    def load() -> str:
        loader = importlib.import_module("state_bench.agents.loader")
        found.append(loader.load_root_agent_class(AGENT_CLASS, root=folder))
        return f"{AGENT_CLASS} is found in {folder}"

    check = _guarded("agent", load)
    return (found[0] if found else None), [check]


def _artefact(agent: type[Any] | None, environment: dict[str, str]) -> Iterator[Check]:
    path = str(getattr(agent, "learnings_path", "") or environment.get(LEARNINGS_VARIABLE, ""))
    if not path:
        yield Check("artefact", False, f"neither the agent nor {LEARNINGS_VARIABLE} names one")
        return

    def read() -> str:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        if document.get("labelFree") is not True:
            raise ValueError("is not marked as free of labels")
        missing = [domain for domain in DOMAINS if domain not in Learnings(document).domains]
        if missing:
            raise ValueError(f"has no cards for {', '.join(missing)}")
        return f"{len(document['learnings'])} cards in {path}"

    check = _guarded("artefact", read)
    yield check
    if check.passed:
        yield _guarded("answers", lambda: _answers(path))


def _answers(path: str) -> str:
    """Asks for each card by its own words: an answer must come, fit, and be the same again."""
    learnings = Learnings.load(path)
    sizes = []
    for domain in learnings.domains:
        corpus = learnings.corpus(domain)
        for card in corpus.runs if corpus else ():
            query = " ".join(card.words)
            texts = learnings.retrieve(query, TOP_K, domain=domain)
            if len(texts) > TOP_K or len(set(texts)) < len(texts) or texts != learnings.retrieve(query, domain=domain):
                raise ValueError(f"the answer for {card.id} is too long, repeats a card or changes")
            sizes.append(sum(map(tokens, texts)))
    mean = sum(sizes) / max(1, len(sizes))
    if mean > TOKENS:
        raise ValueError(f"three cards have {mean:.0f} tokens on average, more than {TOKENS}")
    return f"three cards have {mean:.0f} tokens on average"


def _interface(agent: type[Any]) -> Iterator[Check]:
    def constructor() -> str:
        base = importlib.import_module("state_bench.agents.state_bench").StateBenchAgent
        own = [cls.__name__ for cls in agent.__mro__ if "__init__" in vars(cls) and not issubclass(base, cls)]
        if own:
            raise TypeError(f"{own[0]} has an __init__; the benchmark would no longer pass the reasoning level")
        return "no constructor of its own"

    def retrieval() -> str:
        if not callable(getattr(agent, "retrieve_learnings", None)):
            raise TypeError("has no retrieve_learnings")
        for query in ("refund of a cancelled booking", ""):
            texts = agent.retrieve_learnings(object.__new__(agent), query, top_k=TOP_K)
            if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
                raise TypeError("gives something else than a list of texts")
        return "gives a list of texts"

    yield _guarded("constructor", constructor)
    yield _guarded("retrieve_learnings", retrieval)


def _protocol() -> Iterator[Check]:
    if importlib.util.find_spec("state_bench") is None:
        return

    def prompts() -> str:
        protocol = importlib.import_module("state_bench.protocol").load_default_protocol()
        errors = protocol.validate_prompt_hashes()
        if errors:
            raise ValueError("; ".join(map(str, errors)))
        return f"prompts are those of {protocol.protocol_id}"

    yield _guarded("protocol", prompts)


def _settings(folder: Path, environment: dict[str, str]) -> Iterator[Check]:
    """The names of the settings only: their values are nobody's business here."""
    file = folder / ".env"
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    given = {line.split("=", 1)[0].strip() for line in text.splitlines() if "=" in line and not line.startswith("#")}
    for name in _NEEDED:
        present = bool(environment.get(name)) or name in given
        yield Check(name, present, "is set" if present else "is not set, and not in .env")
    provider = environment.get("STATE_BENCH_AGENT_PROVIDER", "")
    names: tuple[str, ...] = ("STATE_BENCH_AGENT_MODEL",) if provider == "openai" else ("STATE_BENCH_AGENT_ENDPOINT",)
    if "STATE_BENCH_AGENT_PROVIDER" in given and not provider:
        names = ("STATE_BENCH_AGENT_ENDPOINT", "STATE_BENCH_AGENT_MODEL")
    present = any(environment.get(name) or name in given for name in names)
    yield Check(" or ".join(names), present, "is set" if present else "is not set, and not in .env")


def main(arguments: list[str] | None = None) -> int:
    """Print the checks; 0 if all passed, else 1."""
    parser = argparse.ArgumentParser(description="Check artefact, interface and environment before a paid run.")
    parser.add_argument("--dir", default=".", help="folder from which the benchmark will be started")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    checks = preflight(Path(given.dir))
    if given.json:
        print(json.dumps([asdict(check) for check in checks]))
    else:
        for check in checks:
            print(f"{'ok    ' if check.passed else 'FAILED'} {check.name}: {check.found}")
    return 0 if all(check.passed for check in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
