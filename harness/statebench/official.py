"""The official protocol of the agent learning track: the commands of a baseline and a memory arm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.statebench.preflight import AGENT_CLASS, DOMAINS
from harness.statebench.retrieval import TOP_K

RUNS = 5
ARMS = ("baseline", "memory")


@dataclass(frozen=True)
class Step:
    """One command.

    Attributes
    ----------
    arm, domain : str
    command : tuple of str
        Program and arguments; it is started in the folder that holds ``agents/``.
    produces : Path or None
        File that shows that the step and those before it are done.
    """

    arm: str
    domain: str
    command: tuple[str, ...]
    produces: Path | None


def steps(
    model: str,
    *,
    reasoning: str | None = None,
    workers: int = 4,
    output: Path = Path("outputs"),
    python: str = "python",
    domains: tuple[str, ...] = DOMAINS,
) -> Iterator[Step]:
    """Runs and metrics of both arms, domain by domain.

    The arms differ in the agent's class alone. The split is named in both scripts: without the flag they take all 150
    tasks, whatever the guide says.
    """
    for domain in domains:
        for arm in ARMS:
            folder = output / arm / domain
            run = [python, "-m", "state_bench.scripts.run_batch", "--domain", domain, "--split", "test"]
            if arm == "memory":
                run += ["--agent-class", AGENT_CLASS]
            run += ["--agent-model-name", model]
            if reasoning is not None:
                run += ["--agent-model-reasoning-level", reasoning]
            run += ["--num-runs", str(RUNS), "--retrieve-learnings-top-k", str(TOP_K)]
            run += ["--num-workers", str(workers), "--output-dir", str(folder)]
            yield Step(arm, domain, tuple(run), None)
            metrics = [python, "-m", "state_bench.scripts.compute_metrics", "--domain", domain, "--split", "test"]
            metrics += ["--results-dir", str(folder), "--num-runs", str(RUNS), "--output-dir", str(folder)]
            yield Step(arm, domain, tuple(metrics), folder / "metrics.json")
