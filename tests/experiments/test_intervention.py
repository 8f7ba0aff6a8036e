"""H4 from run bundles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from experiments.intervention import Run, h4, load_runs
from experiments.plan import load_plan
from sherpa.errors import SourceError

PLAN = msgspec.structs.replace(load_plan(None)[0], resamples=500)


def runs(rates: dict[str, float], *, tasks: int = 60, kind: str = "live", **more: Any) -> list[Run]:
    rng = np.random.default_rng(1)
    found = []
    for task in range(tasks):
        hard = rng.random()
        for arm, rate in rates.items():
            run = {"arm": arm, "task": f"t{task}", "seed": 0, "success": bool(hard < rate), "agentKind": kind, **more}
            found.append(msgspec.convert(run, Run))
    return found


def decide(found: list[Run]) -> Any:
    return h4(found, PLAN, np.random.default_rng(0))


def test_without_runs_it_is_pending() -> None:
    assert (decide([]).decision, decide([]).evidence) == ("pending", "no intervention runs were given")


def test_help_without_harm_that_beats_a_placebo_is_supported() -> None:
    assert decide(runs({"shadow": 0.4, "advisory": 0.8, "placebo": 0.4})).decision == "supported"


@pytest.mark.parametrize(
    ("rates", "kind", "words"),
    [
        ({"shadow": 0.4, "advisory": 0.8}, "live", "no placebo arm"),
        ({"shadow": 0.4, "advisory": 0.8, "placebo": 0.8}, "live", "success"),
        ({"shadow": 0.4, "advisory": 0.8, "placebo": 0.4}, "simulated", "mechanism shown"),
    ],
)
def test_what_is_missing_keeps_it_pending(rates: dict[str, float], kind: str, words: str) -> None:
    claim = decide(runs(rates, kind=kind))
    assert claim.decision == "pending"
    assert words in claim.evidence


def test_harm_rejects() -> None:
    assert decide(runs({"shadow": 0.8, "advisory": 0.4, "placebo": 0.8})).decision == "rejected"


def test_agents_that_ignore_advice_must_not_change() -> None:
    deaf = runs({"shadow": 0.4, "advisory": 0.8, "placebo": 0.4}, receptiveness=0.0)
    claim = decide(deaf)
    assert claim.decision == "pending"
    assert "negative control failed" in claim.evidence


def test_runs_are_paired_by_task_and_seed() -> None:
    found = runs({"shadow": 0.5, "advisory": 0.5})[:1]
    assert "fewer than two tasks" in decide(found).evidence


def test_bundles_are_read_from_a_folder(tmp_path: Path) -> None:
    one = {"arm": "shadow", "task": "a", "seed": 1, "success": True, "agentKind": "live"}
    (tmp_path / "a.json").write_text(json.dumps([one, one]))
    (tmp_path / "b.jsonl").write_text(json.dumps(one) + "\n\n" + json.dumps({**one, "arm": "advisory"}) + "\n")
    assert [run.arm for run in load_runs(tmp_path)] == ["shadow", "shadow", "shadow", "advisory"]


@pytest.mark.parametrize("text", ["{", '{"arm": "none"}', '{"arm": "magic", "task": "a"}'])
def test_a_malformed_bundle_names_file_and_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.jsonl").write_text(text + "\n")
    with pytest.raises(SourceError, match=r"a\.jsonl:1: is not a run bundle"):
        load_runs(tmp_path)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="not a folder"):
        load_runs(tmp_path / "none")
