"""What a stage hands over: written inside the run's folder, within quotas, all of a call or nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from harness.saga.confine import (
    SUPERSEDED,
    check_writable_place,
    clean_path,
    move_artifact,
    read_artifact,
    total_size,
    write_artifact,
)
from harness.saga.errors import PathError, QuotaError, SagaError
from harness.saga.fold import digest_of
from harness.saga.model import SagaState, Stage
from harness.saga.redact import redact
from harness.saga.rootcause import blocked
from harness.saga.store import Turn
from sherpa.files import write_whole

MAX_FILE = 5 << 20
MAX_TOTAL = 64 << 20
MAX_FILES = 200
MAX_SHOWN = 20


class Artifacts:
    """The artefacts of one saga.

    Parameters
    ----------
    folder : Path
        The run's folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "artifacts"

    def check(self, given: Any, state: SagaState) -> list[tuple[str, bytes]]:
        """What would be written, if all of it may be; nothing is.

        Raises
        ------
        SagaError
            Saying which entry cannot be taken and why.
        """
        if not isinstance(given, list | tuple):
            raise SagaError("artifacts is a list of {path, content}")
        items: dict[str, bytes] = {}
        for at, entry in enumerate(given, start=1):
            if not isinstance(entry, dict) or not isinstance(entry.get("content"), str):
                raise SagaError(f"artifact {at} is no {{path, content}} with text as its content")
            path = clean_path(entry.get("path"))
            try:
                data = entry["content"].encode()
            except UnicodeEncodeError:
                raise SagaError(f"artifact {path}: its content is no UTF-8 text") from None
            if len(data) > MAX_FILE:
                raise QuotaError(f"artifact {path} has {len(data)} bytes; at most {MAX_FILE} are taken")
            if path in items:
                raise SagaError(f"artifact {path} stands twice in one call")
            items[path] = data
        self._check_places(items)
        count = len(set(state.artifact_index) | set(items))
        if count > MAX_FILES:
            raise QuotaError(f"the saga would have {count} artifacts; at most {MAX_FILES} are kept")
        size = total_size(self.root) + sum(len(data) for data in items.values())
        if size > MAX_TOTAL:
            raise QuotaError(f"the saga would hold {size} bytes; at most {MAX_TOTAL} are kept")
        return list(items.items())

    def _check_places(self, paths: Iterable[str]) -> None:
        wanted = set(paths)
        for path in wanted:
            parts = path.split("/")
            inside = next((p for p in ("/".join(parts[:n]) for n in range(1, len(parts))) if p in wanted), None)
            if inside is not None:
                raise PathError(f"{path}: {inside} is a file of the same call")
            check_writable_place(self.root, path)

    def submit(self, turn: Turn, stage_id: str, items: list[tuple[str, bytes]]) -> None:
        """Write what `check` gave, and log it."""
        for path, data in items:
            try:
                write_artifact(self.root, path, data)
            except OSError as error:
                raise SagaError(f"artifact {path} cannot be written: {error.strerror or error}") from None
        listed = [{"path": p, "sha256": hashlib.sha256(d).hexdigest(), "bytes": len(d)} for p, d in items]
        turn.emit("artifacts_submitted", stageId=stage_id, items=listed)

    def read(self, path: object) -> bytes | None:
        """Content of an artefact; None if it is not there or may not be read."""
        try:
            return read_artifact(self.root, clean_path(path), most=MAX_FILE)
        except (PathError, OSError):
            return None

    def of_stage(self, state: SagaState, stage: Stage) -> dict[str, bytes | None]:
        """What the evaluator sees of a stage: the files of its criteria, then whatever else it handed over."""
        named = [c["path"] for c in stage.done_criteria if isinstance(c.get("path"), str)]
        paths = [*named, *sorted(state.artifacts_of(stage.id))]
        return {path: self.read(path) for path in dict.fromkeys(paths[:MAX_SHOWN])}

    def digest(self, state: SagaState, stage: Stage) -> str:
        """One hash over what a stage handed over and over the files that its criteria name."""
        named = {c["path"] for c in stage.done_criteria if isinstance(c.get("path"), str)}
        return digest_of(
            {
                path: artifact
                for path, artifact in state.artifact_index.items()
                if artifact.stage_id == stage.id or path in named
            }
        )

    def blocked(self, state: SagaState, stage: Stage) -> str | None:
        """Why the worker says that a stage is impossible; None if it does not."""
        for path, data in self.of_stage(state, stage).items():
            why = None if data is None else blocked(data[:2_000].decode("utf-8", "replace"))
            if why is not None:
                return f"{path} says BLOCKED: {why}"
        return None

    def supersede(self, turn: Turn, stage_id: str) -> None:
        """Put a stage's artefacts away, so that nothing old satisfies its checks, and log it."""
        paths = sorted(turn.state.artifacts_of(stage_id))
        if not paths:
            return
        number = 1
        while (self.root / SUPERSEDED / stage_id / str(number)).exists():
            number += 1
        target = f"{SUPERSEDED}/{stage_id}/{number}"
        for path in paths:
            move_artifact(self.root, path, f"{target}/{path}")
        turn.emit("artifacts_superseded", stageId=stage_id, to=target, paths=paths)

    def record(self, name: str, document: dict[str, Any]) -> str:
        """Write a record beside the artefacts (diagnostics, evaluations) without secrets; returns its name."""
        path = self.folder / name
        write_whole(path, msgspec.json.format(msgspec.json.encode(redact(document)), indent=2) + b"\n")
        return name
