"""Which files of an OpenClaw installation hold transcripts, told by their names and places."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from sherpa.errors import SourceError

DATABASE_NAME = "openclaw-agent.sqlite"
_STATE_DIRS = (".openclaw", ".clawdbot", ".moltbot", ".moldbot")
_IMPORT_ARCHIVE = "session-sqlite-import-archive"
_DEPTH = 6
_PASSED_OVER = frozenset({"node_modules", ".git", "__pycache__"})


class Kind(Enum):
    """What a file is. The order of the members is the order in which equal starting times are read."""

    DATABASE = "database"
    RESET = "reset"
    DELETED = "deleted"
    PRIMARY = "primary"
    COLD = "cold"
    IMPORTED = "imported"
    ARCHIVED_COPY = "archived-copy"
    REPAIR_COPY = "repair-copy"
    CHECKPOINT = "checkpoint"
    CORRUPT = "corrupt"
    TRAJECTORY = "trajectory"
    INDEX = "index"
    SIDE = "side"

    @property
    def holds_transcript(self) -> bool:
        """Whether rows of a session can be read from it."""
        return self not in (Kind.TRAJECTORY, Kind.INDEX, Kind.SIDE)

    @property
    def is_copy(self) -> bool:
        """Whether it repeats what another file of the session holds."""
        return self in _COPIES


_COPIES = frozenset({Kind.IMPORTED, Kind.ARCHIVED_COPY, Kind.REPAIR_COPY, Kind.CHECKPOINT, Kind.CORRUPT})


@dataclass(frozen=True)
class FileName:
    """A file name, taken apart.

    Attributes
    ----------
    kind : Kind
    session : str
        Session id as the name gives it, with the topic suffix of a topic session.
    stamp : str
        Time or number that the name carries, empty if none.
    packed : bool
        Whether it is compressed with Zstandard.
    """

    kind: Kind
    session: str
    stamp: str = ""
    packed: bool = False


_FORMS: tuple[tuple[re.Pattern[str], Kind], ...] = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"(?P<id>.*)\.trajectory\.jsonl(\..*)?", Kind.TRAJECTORY),
        (r"(?P<id>.*)\.trajectory-path\.json", Kind.SIDE),
        (r"(?P<id>.*)\.jsonl\.corrupt-(?P<stamp>.+)\.jsonl", Kind.CORRUPT),
        (r"(?P<id>.*)\.checkpoint\.(?P<stamp>[^.]+)\.jsonl(\..*)?", Kind.CHECKPOINT),
        (r"(?P<id>.*)\.jsonl\.bak-\d+-(?P<stamp>\d+)", Kind.REPAIR_COPY),
        (r"(?P<id>.*)\.jsonl\.reset\.(?P<stamp>.+)", Kind.RESET),
        (r"(?P<id>.*)\.jsonl\.deleted\.(?P<stamp>.+)", Kind.DELETED),
        (r"(?P<id>.*)\.jsonl\.bak\.(?P<stamp>.+)", Kind.ARCHIVED_COPY),
        (r"(?P<id>.*)\.jsonl\.imported-(?P<stamp>.+)", Kind.IMPORTED),
        (r"(?P<id>.*)\.jsonl\.(?P<stamp>backup)", Kind.ARCHIVED_COPY),
        (r"(?P<id>.*)\.jsonl", Kind.PRIMARY),
    )
)
_DRAFT = re.compile(r".*\.(tmp|lock)|sessions\.json\..*|.*\.sqlite(-wal|-shm|-journal)|\.usage-cost-cache\.json")


def read_name(name: str, folder: str = "") -> FileName | None:
    """What a file is by its name and the name of its folder; None if it has nothing to do with transcripts.

    >>> read_name("6f1c.jsonl.reset.2026-06-26T19-40-06.882Z.zst")
    FileName(kind=<Kind.RESET: 'reset'>, session='6f1c', stamp='2026-06-26T19-40-06.882Z', packed=True)
    """
    if name == "sessions.json":
        return FileName(Kind.INDEX, "")
    if name == DATABASE_NAME:
        return FileName(Kind.DATABASE, "")
    if _DRAFT.fullmatch(name):
        return FileName(Kind.SIDE, "")
    packed = name.endswith(".zst")
    bare = name[:-4] if packed else name
    for form, kind in _FORMS:
        found = form.fullmatch(bare)
        if found is None:
            continue
        if kind is Kind.PRIMARY and folder == "cold":
            kind = Kind.COLD
        elif kind is Kind.PRIMARY and folder == _IMPORT_ARCHIVE:
            kind = Kind.IMPORTED
        return FileName(kind, found["id"], found.groupdict().get("stamp") or "", packed)
    return FileName(Kind.SIDE, "") if ".sqlite" in name else None


@dataclass(frozen=True)
class SourceFile:
    """A file that may hold transcripts.

    Attributes
    ----------
    path : Path
    shown : str
        The path as reports show it: relative to what the user named.
    name : FileName
    host, agent : str
        Which installation (as a relative path) and which agent it belongs to.
    size : int
        Bytes.
    """

    path: Path
    shown: str
    name: FileName
    host: str
    agent: str
    size: int


@dataclass
class Found:
    """What a search found: files with transcripts, indexes of sessions, and what was passed over and why."""

    root: Path
    files: list[SourceFile] = field(default_factory=list)
    indexes: list[SourceFile] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)


def state_dirs(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """Where OpenClaw keeps its state: ``$OPENCLAW_STATE_DIR``, else the usual folders that exist."""
    named = environment.get("OPENCLAW_STATE_DIR")
    if named:
        return [Path(named).expanduser()]
    home = Path(environment.get("HOME") or Path.home())
    return [home / name for name in _STATE_DIRS if (home / name).is_dir()]


def find_files(path: Path | None = None, *, environment: Mapping[str, str] = os.environ) -> Found:
    """Everything that may hold transcripts under a path.

    Parameters
    ----------
    path : Path, optional
        A state directory, an agent's directory, a sessions directory, a store, one transcript, or a folder of any of
        these; without it, every agent of the local installation.

    Raises
    ------
    SourceError
        If there is no such path, or it holds nothing of OpenClaw.
    """
    if path is None:
        roots = state_dirs(environment)
        if not roots:
            raise SourceError("no OpenClaw installation is here; name a folder, or set OPENCLAW_STATE_DIR")
        found = Found(roots[0])
        for root in roots:
            part = find_files(root)
            found.files += part.files
            found.indexes += part.indexes
            found.skipped += part.skipped
        return found
    path = path.expanduser()
    if not path.exists():
        raise SourceError("there is no such file or folder", file=path)
    found = Found(path)
    if path.is_file():
        _add_named_file(found, path)
    else:
        for folder, host, agent in sorted(_folders(path), key=lambda item: item[0].as_posix()):
            _add_folder(found, folder, host, agent)
    if not found.files:
        raise SourceError(
            "holds no OpenClaw transcripts; name a state directory (with agents/), an agent's directory, a sessions "
            f"directory, an {DATABASE_NAME} or a transcript",
            file=path,
        )
    return found


def _add_named_file(found: Found, path: Path) -> None:
    named = read_name(path.name, path.parent.name)
    if path.suffix == ".sqlite" and (named is None or named.kind is Kind.SIDE):
        named = FileName(Kind.DATABASE, "")
    if named is None or not named.kind.holds_transcript:
        raise SourceError(
            "is not a transcript (….jsonl, its archives) or a store of OpenClaw"
            + (": a trajectory records runs, not the session" if named and named.kind is Kind.TRAJECTORY else ""),
            file=path,
        )
    if named.kind.is_copy:
        # Who names a copy wants to see it.
        named = FileName(Kind.PRIMARY, named.session, named.stamp, named.packed)
    found.files.append(SourceFile(path, path.name, named, "", _agent_of(path.parent), path.stat().st_size))


def _folders(root: Path) -> Iterator[tuple[Path, str, str]]:
    """(folder, host, agent) of every folder under a root that may hold transcripts."""
    waiting = [(root, 0)]
    while waiting:
        folder, depth = waiting.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        folders = {e.name for e in entries if e.is_dir(follow_symlinks=False) or (e.is_dir() and not depth)}
        host = folder.relative_to(root).as_posix()
        if "agents" in folders:
            for agent in sorted(p for p in (folder / "agents").iterdir() if p.is_dir()):
                yield from _agent_folders(agent, host)
        elif folder.parent.name == "agents" or ({"sessions", "agent"} & folders and depth == 0):
            yield from _agent_folders(folder, host)
        elif any(_may_hold(e.name) for e in entries if e.is_file()):
            agent_id = _agent_of(folder)
            yield folder, host, agent_id
            yield from ((folder / name, host, agent_id) for name in ("cold", _IMPORT_ARCHIVE) if name in folders)
        elif depth < _DEPTH:
            waiting += [(folder / name, depth + 1) for name in sorted(folders - _PASSED_OVER)]


def _may_hold(name: str) -> bool:
    named = read_name(name)
    return named is not None and named.kind.holds_transcript


def _agent_folders(agent: Path, host: str) -> Iterator[tuple[Path, str, str]]:
    for part in ("sessions", "sessions/cold", "agent", _IMPORT_ARCHIVE, f"sessions/{_IMPORT_ARCHIVE}"):
        folder = agent / part
        if folder.is_dir():
            yield folder, host, agent.name
    if (agent / "agent" / _IMPORT_ARCHIVE).is_dir():
        yield agent / "agent" / _IMPORT_ARCHIVE, host, agent.name


def _agent_of(folder: Path) -> str:
    """The agent whose directory this is or lies in; ``main`` if the path does not say."""
    parts = folder.absolute().parts
    for at in range(len(parts) - 2, -1, -1):
        if parts[at] == "agents":
            return parts[at + 1]
    return "main"


def _add_folder(found: Found, folder: Path, host: str, agent: str) -> None:
    for path in sorted(folder.iterdir(), key=lambda p: p.name):
        if not path.is_file():
            continue
        shown = path.relative_to(found.root).as_posix()
        named = read_name(path.name, folder.name)
        if named is None:
            continue
        file = SourceFile(path, shown, named, host, agent, path.stat().st_size)
        if named.kind is Kind.INDEX:
            found.indexes.append(file)
        elif named.kind is Kind.TRAJECTORY:
            found.skipped.append((shown, "trajectory: records runs, not the session"))
        elif named.kind is Kind.SIDE:
            found.skipped.append((shown, "side file"))
        else:
            found.files.append(file)
