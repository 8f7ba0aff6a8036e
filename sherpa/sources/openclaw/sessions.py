"""Sessions of an OpenClaw installation, put together from files, archives and stores of every generation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sherpa.errors import SourceError
from sherpa.instants import NO_INSTANT
from sherpa.sources.openclaw.database import KNOWN_SCHEMA, opened
from sherpa.sources.openclaw.files import Found, Kind, SourceFile, find_files
from sherpa.sources.openclaw.index import UNKNOWN, About, from_window, read_index
from sherpa.sources.openclaw.lines import MAX_LINE, Losses
from sherpa.sources.openclaw.parts import Part, StreamPart, Watch, archive_part, file_part, store_part
from sherpa.sources.openclaw.replay import Replay, ReplayOptions
from sherpa.sources.openclaw.rows import ROWS
from sherpa.sources.openclaw.steps import Counts, Step
from sherpa.sources.openclaw.taxonomy import Taxonomy, load_taxonomy
from sherpa.sources.openclaw.tree import Tree

Key = tuple[str, str, str]
_TOPIC = re.compile(r"-topic-[^/]+\Z")
_UUID = re.compile(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", re.I)
_NAME_LENGTH = 160
_CLOSED = frozenset({Kind.DELETED, Kind.RESET})


@dataclass
class ReadOptions(ReplayOptions):
    """What is read, and how.

    Attributes
    ----------
    archives : bool
        Read archives of reset and deleted sessions.
    label_abandoned : bool
        Mark the steps of rows that lie off the active path, as `active_only` leaves them out; either takes a first
        pass over each transcript. Without it they are only counted.
    max_line : int
        Longest line that is read, in bytes.
    """

    archives: bool = True
    label_abandoned: bool = False
    max_line: int = MAX_LINE

    @property
    def needs_survey(self) -> bool:
        """Whether rows off the active path must be known before the rows are read."""
        return self.active_only or self.label_abandoned


@dataclass
class Cursor:
    """Where the reading of a session that may grow has come to.

    Attributes
    ----------
    replay : Replay
        What is remembered of the rows so far.
    part, position : int
        Which part, and where in it.
    inside : bool
        Whether that part has begun.
    generation : str
        Of that part when it was read.
    closed : bool
        Whether the session was told to have ended.
    tree : Tree
        Of the rows of that part; `abandoned` counts the rows off the path in the parts before it.
    """

    replay: Replay
    part: int = 0
    position: int = 0
    inside: bool = False
    generation: str = ""
    closed: bool = False
    tree: Tree = field(default_factory=Tree)
    abandoned: int = 0


@dataclass
class Session:
    """One session: its parts in order, and what is known about it.

    After `steps` was read to its end, `counts`, `losses` and `children` say what was in it.
    """

    host: str
    agent: str
    session: str
    parts: list[Part]
    about: About
    taxonomy: Taxonomy
    options: ReadOptions
    counts: Counts = field(default_factory=Counts)
    losses: Losses = field(default_factory=Losses)
    children: tuple[str, ...] = ()
    parent: str | None = None
    tool_evidence: bool = False
    version: Any = None

    @property
    def begins(self) -> int:
        """Instant of the first row."""
        return self.parts[0].begins

    @property
    def size(self) -> int:
        """Bytes of all parts."""
        return sum(part.size for part in self.parts)

    @property
    def name(self) -> str:
        """The id, with the agent in front where the id alone need not be unique."""
        name = self.session if _UUID.match(self.session) or self.agent == "main" else f"{self.agent}:{self.session}"
        return re.sub(r"\s+", "-", name)[:_NAME_LENGTH]

    def steps(self, watch: Watch | None = None, cursor: Cursor | None = None) -> Iterator[Step]:
        """What happened, in order.

        Parameters
        ----------
        watch : callable, optional
            Called with the number of bytes read since the last call.
        cursor : Cursor, optional
            Where an earlier reading of the same session ended; only what came after it is read, and the cursor moves
            on. A session that may still grow is not brought to its end.
        """
        growing = cursor is not None
        cursor = cursor or Cursor(Replay(self.taxonomy, self.options))
        replay = cursor.replay
        self.losses = Losses()
        for part in self.parts[cursor.part :]:
            off = part.survey() if self.options.needs_survey and not growing else frozenset()
            if not cursor.inside:
                replay.begin()
                cursor.inside = True
            rows = part.rows(ROWS, watch, cursor.position if growing else None)
            for number, (line, row, fallback) in enumerate(rows):
                cursor.tree.add(row)
                yield from replay.feed(row, line, abandoned=number in off, fallback=fallback)
            replay.counts.lines += part.lines
            self.losses.add(part.losses)
            cursor.position, cursor.generation = part.position, part.generation
            if part is not self.parts[-1]:
                cursor.abandoned += len(cursor.tree.abandoned())
                cursor.tree = Tree()
                cursor.part, cursor.position, cursor.inside = cursor.part + 1, 0, False
        ended = self._ended()
        replay.counts.abandoned = cursor.abandoned + len(cursor.tree.abandoned())
        if not cursor.closed and (ended is not None or not growing):
            yield from replay.finish()
            if ended is not None and replay.started:
                yield replay.end(*ended)
            cursor.closed = ended is not None
        self.counts, self.children = replay.counts, tuple(replay.children)
        self.tool_evidence, self.version = replay.tool_evidence, replay.version

    def continues(self, cursor: Cursor, parts: Sequence[str]) -> bool:
        """Whether a cursor over the named parts still fits: nothing that it read was rewritten or moved."""
        shown = [part.shown for part in self.parts]
        if cursor.closed or list(parts) != shown[: len(parts)]:
            return False
        return not self.parts[cursor.part].shrank(cursor.position, cursor.generation)

    def _ended(self) -> tuple[str, str] | None:
        """(outcome, reason) if the session is known to have ended; a transcript alone does not say so."""
        if self.about.outcome is not None:
            return self.about.outcome, self.about.status or "done"
        last = self.parts[-1].kind
        return ("unknown", last.value) if last in _CLOSED else None


class Installation:
    """The sessions under a path; a context manager, because stores are open while it is.

    Parameters
    ----------
    path : Path, optional
        See `find_files`.
    options : ReadOptions
    taxonomy : Taxonomy, optional

    Attributes
    ----------
    sessions : list of Session
        By host, agent, first instant and id; the same whatever the order of the directory and the times of files.
    skipped : list of (str, str)
        What is not read, and why.
    warnings : list of str
    """

    def __init__(
        self, path: Path | None = None, options: ReadOptions | None = None, taxonomy: Taxonomy | None = None
    ) -> None:
        self.options = options or ReadOptions()
        self.taxonomy = taxonomy or load_taxonomy()
        self.found: Found = find_files(path)
        self.skipped = list(self.found.skipped)
        self.warnings: list[str] = []
        self.sessions: list[Session] = []
        self.parts: list[Part] = []
        self._stack = ExitStack()

    def __enter__(self) -> Installation:
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _open(self) -> None:
        groups: dict[Key, list[Part]] = {}
        about: dict[Key, About] = {}
        for file in self.found.indexes:
            known, problem = read_index(file.path)
            if problem is not None:
                self.skipped.append((file.shown, f"index of sessions: {problem}"))
            about.update({(file.host, file.agent, session): a for session, a in known.items()})
        copies: list[SourceFile] = []
        for file in self.found.files:
            if file.name.kind is Kind.DATABASE:
                self._database(file, groups, about)
            elif file.name.kind.is_copy:
                copies.append(file)
            elif not self.options.archives and file.name.kind in _CLOSED:
                self.skipped.append((file.shown, "archive; left out as asked"))
            else:
                self._file(file, groups)
        self._copies(copies, groups)
        for key, parts in groups.items():
            parts.sort(key=lambda p: (_late(p.begins), list(Kind).index(p.kind), p.shown))
            self.sessions.append(
                Session(*key, parts, about.get(key, UNKNOWN), self.taxonomy, self.options, parent=None)
            )
        self.sessions.sort(key=lambda s: (s.host, s.agent, _late(s.begins), s.session))
        self._link()

    def _file(self, file: SourceFile, groups: dict[Key, list[Part]]) -> None:
        part = file_part(file, file.name.session, max_line=self.options.max_line)
        named = part.peek()
        if part.begins == NO_INSTANT and not part.headed and file.size == 0:
            self.skipped.append((file.shown, "empty"))
            return
        if named is not None:
            topic = _TOPIC.search(file.name.session)
            part.session = named + topic[0] if topic and not named.endswith(topic[0]) else named
        self.parts.append(part)
        groups.setdefault((file.host, file.agent, part.session), []).append(part)

    def _database(self, file: SourceFile, groups: dict[Key, list[Part]], about: dict[Key, About]) -> None:
        try:
            database = self._stack.enter_context(opened(file.path))
        except SourceError as error:
            self.skipped.append((file.shown, error.problem))
            return
        if not database.holds_sessions:
            self.skipped.append((file.shown, "store without transcripts"))
            return
        if database.version > KNOWN_SCHEMA:
            self.warnings.append(
                f"{file.shown}: schema {database.version} is newer than {KNOWN_SCHEMA}, the newest that is known; "
                "its transcripts are read by the columns that are there"
            )
        if not database.steady:
            self.warnings.append(f"{file.shown}: was written while it was copied; its last rows may be missing")
        for session, window in database.windows().items():
            about[(file.host, file.agent, session)] = from_window(window)
        sessions = database.sessions()
        total = sum(rows for _, rows in sessions) or 1
        for session, rows in sessions:
            part: Part = store_part(file, database, session, file.size * rows // total)
            self._add(part, groups)
        for archive in database.archives() if self.options.archives else []:
            self._add(archive_part(file, database, archive), groups)

    def _add(self, part: Part, groups: dict[Key, list[Part]]) -> None:
        part.peek()
        self.parts.append(part)
        groups.setdefault((part.host, part.agent, part.session), []).append(part)

    def _copies(self, copies: list[SourceFile], groups: dict[Key, list[Part]]) -> None:
        """Read a copy only where nothing else of its session is left: the best one."""
        stored = {key for key, parts in groups.items() if any(p.kind is Kind.DATABASE for p in parts)}
        waiting: dict[Key, list[tuple[SourceFile, StreamPart]]] = {}
        held = set(groups)
        for file in copies:
            part = file_part(file, file.name.session, max_line=self.options.max_line)
            named = part.peek()
            self.parts.append(part)
            keys = [(file.host, file.agent, name) for name in (file.name.session, named) if name]
            original = next((key for key in keys if key in (stored if file.name.kind is Kind.IMPORTED else held)), None)
            if original is not None:
                self.skipped.append((file.shown, f"{file.name.kind.value} of session {original[2]}, which is read"))
                continue
            key = keys[-1] if file.name.kind is Kind.IMPORTED and named else keys[0]
            part.session = key[2]
            waiting.setdefault(key, []).append((file, part))
        for key, candidates in waiting.items():
            imported = [part for file, part in candidates if file.name.kind is Kind.IMPORTED]
            if imported:
                groups.setdefault(key, []).extend(imported)
            best = None if imported or key in groups else max(candidates, key=lambda c: _preference(c[0]))
            if best is not None:
                groups[key] = [best[1]]
            for candidate in candidates:
                if candidate is not best and candidate[1] not in imported:
                    self.skipped.append((candidate[0].shown, f"{candidate[0].name.kind.value}; a better one is read"))

    def _link(self) -> None:
        """Who spawned whom, where the installation says so."""
        by_key = {s.about.key: s.name for s in self.sessions if s.about.key is not None}
        for session in self.sessions:
            if session.about.parent_key is not None:
                session.parent = by_key.get(session.about.parent_key)

    @property
    def size(self) -> int:
        """Bytes that will be read, for progress."""
        return sum(session.size for session in self.sessions)

    def skip_summary(self) -> dict[str, int]:
        """How many files were passed over, by reason without names."""
        return dict(sorted(Counter(re.split(r"[:;]| of session ", reason)[0] for _, reason in self.skipped).items()))


def _late(instant: int) -> int:
    """Unknown times last."""
    return 2**63 if instant == NO_INSTANT else instant


def _preference(file: SourceFile) -> tuple[int, int, int, str]:
    """Among copies: repairs before archives before checkpoints before corrupt ones, then the latest, the longest."""
    rank = [Kind.CORRUPT, Kind.CHECKPOINT, Kind.ARCHIVED_COPY, Kind.REPAIR_COPY].index(file.name.kind)
    stamp = int(file.name.stamp) if file.name.stamp.isdigit() else 0
    return rank, stamp, file.size, file.name.stamp
