"""Finished operations are written down where the next one looks: one entry per saga, in a file per day."""

from __future__ import annotations

import re
from pathlib import Path

from filelock import FileLock

from harness.saga.artifacts import Artifacts
from harness.saga.compaction import shortened
from harness.saga.model import SagaState
from harness.saga.store import sync_folder
from sherpa.files import append_lines

_FENCED = re.compile(r"^```(?:sh|bash|shell|console|zsh)?[ \t]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_UNDO = re.compile(r"\bundo\b|\brevert\b|\broll ?back\b|\brestore\b|回滚|撤销", re.IGNORECASE)
MEMORY_ENTRY = "memory-entry.md"


def remember(state: SagaState, artifacts: Artifacts, folder: Path, day: str) -> Path | None:
    """Append the entry of a finished operation, unless it is there already.

    Parameters
    ----------
    folder : Path
        Of the memory.
    day : str
        ``YYYY-MM-DD`` in UTC.

    Returns
    -------
    Path or None
        The file; None if the saga is no operation.
    """
    if state.profile != "ops":
        return None
    folder.mkdir(parents=True, exist_ok=True)
    mark = f"<!-- saga {state.saga_id} -->"
    path = folder / f"{day}.md"
    with FileLock(str(folder / ".saga.lock"), timeout=30, is_singleton=False):
        # The day may have changed between a crash and the call that came after it.
        if any(mark in known.read_text(encoding="utf-8", errors="replace") for known in folder.glob("*.md")):
            return path
        text = f"{mark}\n{entry(state, artifacts)}\n\n"
        append_lines(path, text.encode())
        sync_folder(folder)
    return path


def entry(state: SagaState, artifacts: Artifacts) -> str:
    """The entry: what the worker wrote as ``memory-entry.md``, or what can be read off its files."""
    head = f"## {state.saga_id}: {shortened(state.goal, 100)}"
    own = next((data for path in _named(state, MEMORY_ENTRY) if (data := artifacts.read(path))), None)
    if own is not None:
        # Its headings go below that of the entry.
        text = re.sub(r"(?m)^(#{1,4}) ", r"##\1 ", own.decode("utf-8", "replace").strip())
        return f"{head}\n\n{text}"
    runbook = _last(state, artifacts, "runbook.md")
    lines = [
        f"- Diagnosis: {shortened(_paragraph(_last(state, artifacts, 'diagnosis.md')) or state.goal, 200)}",
        f"- Remedy: {_command(runbook) or 'see the runbook'}",
        f"- Undo: {'described' if _UNDO.search(runbook) else 'not described'}",
        f"- Files: {', '.join(sorted(state.artifact_index)) or 'none'}",
    ]
    return f"{head}\n\n" + "\n".join(lines)


def _named(state: SagaState, name: str) -> list[str]:
    """Paths whose last part is `name`, the latest submission first."""
    found = [path for path in state.artifact_index if path.rsplit("/", 1)[-1] == name]
    return sorted(found, key=lambda path: -state.artifact_index[path].seq)


def _last(state: SagaState, artifacts: Artifacts, name: str) -> str:
    data = next((data for path in _named(state, name) if (data := artifacts.read(path))), b"")
    return data.decode("utf-8", "replace")


def _paragraph(text: str) -> str:
    parts = (part.strip() for part in re.split(r"\n\s*\n", text))
    return next((part for part in parts if part and not part.startswith(("#", "|", "```"))), "")


def _command(text: str) -> str | None:
    """The first line of the first fenced block that is no comment; prose is never taken for a command."""
    for block in _FENCED.findall(text):
        for line in block.split("\n"):
            plain = line.strip().removeprefix("$ ").strip()
            if plain and not plain.startswith("#"):
                return f"`{shortened(plain, 120)}`"
    return None
