"""Packages of others, each run by a small adapter in an environment of its own."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from experiments.nextevent.cells import Cell, cell_of
from experiments.nextevent.tasks import Task
from sherpa.errors import ConfigError, SherpaError
from sherpa.eventlog import EventLog

PEERS = ("ctxchain", "vlmc", "knlm", "tokengrams", "logicsponge", "pm4py")
ADAPTERS = Path(__file__).resolve().parents[2] / "benchmarks" / "peers"
_SECONDS = 3600


def run_peer(name: str, task: Task, python: Path | None, order: int) -> Cell:
    """Let a package learn and predict.

    The adapter ``benchmarks/peers/run_NAME.py`` is run with two files: what it reads (JSON: ``train`` and ``test`` as
    lists of lists of codes, −1 for a type never learned, ``types`` and ``order``), and what it writes (npz: ``p`` of
    shape (steps, types + 1), the end last, rows summing to at most 1; ``seconds``: fit and predict).

    Raises
    ------
    SherpaError
        If there is no environment or adapter, or the adapter fails.
    """
    if python is None:
        raise ConfigError(
            "peers run in an environment of their own; make it with python -m benchmarks.peers FOLDER, and name it "
            "with --peers FOLDER"
        )
    adapter = ADAPTERS / f"run_{name}.py"
    if name not in PEERS or not adapter.is_file():
        raise ConfigError(f"peer {name!r} is unknown; choose of {', '.join(PEERS)}")
    vocabulary = task.train.occurring
    with tempfile.TemporaryDirectory(prefix="sherpa-") as folder:
        given, answer = Path(folder) / "task.json", Path(folder) / "answer.npz"
        document = {
            "train": _codes(task.train, vocabulary),
            "test": _codes(task.test, vocabulary),
            "types": len(vocabulary),
            "order": order,
        }
        given.write_text(json.dumps(document))
        try:
            done = subprocess.run(
                [str(python), str(adapter), str(given), str(answer)],
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SherpaError(f"peer {name}: {error}") from None
        if done.returncode:
            raise SherpaError(f"peer {name} failed: {done.stderr.strip()[-400:]}")
        with np.load(answer) as held:
            p, seconds = held["p"], held["seconds"].tolist()
    # A type that was never learned has no code in a peer: it gets what the rest leaves, if anything.
    unseen = np.clip(1 - p.sum(axis=1, keepdims=True), 0, None)
    about: dict[str, Any] = {"states": None}
    return cell_of(np.hstack([p, unseen]), vocabulary, task, seconds[0], seconds[1], about)


def _codes(log: EventLog, vocabulary: tuple[str, ...]) -> list[list[int]]:
    code_of = {name: code for code, name in enumerate(vocabulary)}
    recode = np.array([code_of.get(name, -1) for name in log.vocabulary], dtype=np.int64)
    codes = recode[log.codes]
    return [codes[a:b].tolist() for a, b in zip(log.offsets[:-1].tolist(), log.offsets[1:].tolist(), strict=True)]
