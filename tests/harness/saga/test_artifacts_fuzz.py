"""Whatever is submitted as artefacts: no crash, all of it or nothing, and nothing outside the run's folder."""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.saga.coordinator import Coordinator
from harness.saga.errors import SagaError
from tests.harness.saga.scripted import files, plan

PARTS = [
    "..",
    ".",
    "a",
    "b.md",
    "",
    "/",
    "\\",
    "artifacts",
    ".superseded",
    "stages",
    "link",
    "C:",
    "nul",
    "é",
    "\0",
    "\n",
]
PARTS += [" ", "x" * 250, "\ud83d", "~", "%2e%2e", "..%2f", "．．", "....", "state.json", "events.jsonl", ".lock"]
CONTENTS = ["", "x", "BLOCKED: y", "\ud83d", None, 5, ["x"], "字" * 50]


def entry(rng: random.Random) -> Any:
    """What might stand in a list of artefacts."""
    if rng.random() < 0.05:
        return rng.choice([None, "a", 5, [], {}, {"path": "a"}, {"content": "x"}])
    path = "/".join(rng.choice(PARTS) for _ in range(rng.randrange(1, 5)))
    return {"path": rng.choice([path, path, path, None, 7]), "content": rng.choice(CONTENTS)}


class World:
    """A saga with links in its folder, and everything around it watched."""

    def __init__(self, base: Path) -> None:
        self.base = base
        (base / "outside").mkdir()
        (base / "outside" / "secret").write_text("s")
        self.coordinator = Coordinator(base / "root")
        self.id = self.coordinator.start({"goal": "g", "profile": "generic"})["sagaId"]
        self.coordinator.advance(self.id, {"planYaml": plan(*files(2))})
        self.folder = self.coordinator.store.folder(self.id)
        (self.folder / "artifacts" / "link").symlink_to(base / "outside")
        self.around = self.seen()

    def seen(self) -> list[tuple[str, int]]:
        """Everything but the artefacts, the log and the snapshot."""
        inside = str(self.folder / "artifacts") + "/"
        own = {str(self.folder / name) for name in ("events.jsonl", "state.json")}
        found = (os.path.join(folder, name) for folder, _, names in os.walk(self.base) for name in names)
        return sorted(
            (path, os.lstat(path).st_size) for path in found if not path.startswith(inside) and path not in own
        )

    def inside(self) -> dict[str, bytes]:
        root = self.folder / "artifacts"
        return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file() and not p.is_symlink()}

    def submit(self, artifacts: Any) -> None:
        before, index = self.inside(), self.coordinator.store.load(self.id).state.artifact_index
        try:
            self.coordinator.advance(self.id, {"artifacts": artifacts})
        except SagaError:
            assert self.inside() == before
            assert self.coordinator.store.load(self.id).state.artifact_index == index
        after = self.inside()
        assert {p: len(data) for p, data in after.items()} == {
            p: artifact.bytes for p, artifact in self.coordinator.store.load(self.id).state.artifact_index.items()
        }


def rounds(number: int, seed: int) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as base:
        world = World(Path(base))
        for _ in range(number):
            world.submit([entry(rng) for _ in range(rng.randrange(1, 4))])
        assert world.seen() == world.around
        assert world.inside()


def test_mutated_lists() -> None:
    rounds(500, 3)


@pytest.mark.full
def test_ten_thousand_mutated_lists() -> None:
    rounds(10_000, 4)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["path", "content", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=40)
@given(JSON)
def test_any_value(value: Any) -> None:
    with tempfile.TemporaryDirectory() as base:
        world = World(Path(base))
        world.submit(value)
        world.submit([value])
        assert world.seen() == world.around
