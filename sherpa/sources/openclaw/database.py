"""The per-agent SQLite store of OpenClaw, read without a trace: no lock, no write, no side file."""

from __future__ import annotations

import io
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from sherpa.errors import SourceError
from sherpa.sources.compressed import zstd_reader, zstd_unpack

KNOWN_SCHEMA = 24
_MAX_EVENT = 64 * 2**20
_TRIES = 5


@dataclass(frozen=True)
class Window:
    """What the store says about a session beside its rows."""

    key: str | None = None
    status: str | None = None
    ended: bool = False
    parent_key: str | None = None
    previous: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Archive:
    """A transcript that the store keeps as one blob."""

    table: str
    rowid: int
    session: str
    name: str
    reason: str
    packed: bool


@contextmanager
def opened(path: Path) -> Iterator[AgentDatabase]:
    """Open a store for reading.

    A store that a running program may be writing (it has a write-ahead log) is copied to a temporary folder first,
    store and log; any other is opened in place as immutable.

    Raises
    ------
    SourceError
        If it is not a SQLite file, or cannot be read.
    """
    log = path.with_name(f"{path.name}-wal")
    try:
        if log.exists():
            with tempfile.TemporaryDirectory(prefix="sherpa-") as folder:
                steady = _copy(path, log, Path(folder))
                with _connected(Path(folder) / path.name, path, "") as database:
                    database.steady = steady
                    yield database
        else:
            before = _stamp(path)
            with _connected(path, path, "&immutable=1") as database:
                yield database
                database.steady = _stamp(path) == before and not log.exists()
    except sqlite3.Error as error:
        raise SourceError(f"cannot be read as a store of OpenClaw: {error}", file=path) from None
    except OSError as error:
        raise SourceError(f"cannot be read: {error.strerror or error}", file=path) from None


def _stamp(*paths: Path) -> list[tuple[int, int] | None]:
    found: list[tuple[int, int] | None] = []
    for path in paths:
        try:
            status = os.stat(path)
        except FileNotFoundError:
            found.append(None)
        else:
            found.append((status.st_size, status.st_mtime_ns))
    return found


def _copy(path: Path, log: Path, folder: Path) -> bool:
    """Copy store and log; False if they changed under every try, so that the copy may mix two states."""
    for attempt in range(_TRIES):
        before = _stamp(path, log)
        shutil.copyfile(path, folder / path.name)
        try:
            shutil.copyfile(log, folder / log.name)
        except FileNotFoundError:
            (folder / log.name).unlink(missing_ok=True)
        if _stamp(path, log) == before:
            return True
        time.sleep(0.05 * 2**attempt)
    return False


@contextmanager
def _connected(path: Path, named: Path, options: str) -> Iterator[AgentDatabase]:
    uri = f"{path.absolute().as_uri()}?mode=ro{options}"
    connection = sqlite3.connect(uri, uri=True, timeout=5)
    try:
        # Text that is not UTF-8 must not stop the reader.
        connection.text_factory = bytes
        yield AgentDatabase(connection, named)
    finally:
        connection.close()


class AgentDatabase:
    """The transcript tables of an open store. Nothing else in it is read: it also holds credentials."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._db = connection
        self.path = path
        self.steady = True
        self.version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        self._columns = {
            name: {_text(row[1]) for row in connection.execute(f"PRAGMA table_info({name})")}
            for name in (
                "transcript_events",
                "session_windows",
                "session_transcript_archives",
                "session_transcript_cold_archives",
                "transcript_rewrite_watermarks",
            )
        }

    @property
    def holds_sessions(self) -> bool:
        """Whether it has the table of transcripts; early stores do not."""
        return {"session_id", "seq"} <= self._columns["transcript_events"]

    def sessions(self) -> list[tuple[str, int]]:
        """(session id, number of rows), by id."""
        if not self.holds_sessions:
            return []
        rows = self._db.execute("SELECT session_id, COUNT(*) FROM transcript_events GROUP BY session_id ORDER BY 1")
        return [(_text(session), int(number)) for session, number in rows]

    def rows(self, session: str, after: int = -1) -> Iterator[tuple[int, bytes | None, int | None]]:
        """(number, JSON text, written at in ms) of each row of a session; no text if it cannot be unpacked."""
        columns = self._columns["transcript_events"]
        wanted = [name if name in columns else "NULL" for name in ("event_json", "event_zstd", "created_at")]
        # One row at a time: a row may hold megabytes. The store is a copy or at rest, so a long reading blocks nobody.
        query = f"SELECT seq, {', '.join(wanted)} FROM transcript_events WHERE session_id = ? AND seq > ? ORDER BY seq"
        for seq, plain, packed, created in self._db.execute(query, (session, after)):
            text = plain if plain is not None else None if packed is None else zstd_unpack(packed, _MAX_EVENT)
            yield int(seq), _bytes(text), created if isinstance(created, int) else None

    def generation(self, session: str) -> str:
        """A word that changes when rows of the session are rewritten; empty where the store does not keep one."""
        if not {"session_id", "generation"} <= self._columns["transcript_rewrite_watermarks"]:
            return ""
        row = self._db.execute(
            "SELECT generation FROM transcript_rewrite_watermarks WHERE session_id = ?", (session,)
        ).fetchone()
        return _text(row[0]) if row else ""

    def windows(self) -> dict[str, Window]:
        """What is known of each session."""
        names = (
            "session_key",
            "status",
            "ended_at",
            "parent_session_key",
            "spawned_by",
            "previous_session_id",
            "reason",
        )
        columns = self._columns["session_windows"]
        if "session_id" not in columns:
            return {}
        wanted = ", ".join(name if name in columns else "NULL" for name in names)
        found = {}
        for session, key, status, ended, parent, spawned, previous, reason in self._db.execute(
            f"SELECT session_id, {wanted} FROM session_windows"
        ):
            found[_text(session)] = Window(
                _maybe(key),
                _maybe(status),
                ended is not None,
                _maybe(parent) or _maybe(spawned),
                _maybe(previous),
                _maybe(reason),
            )
        return found

    def archives(self) -> list[Archive]:
        """Transcripts kept as blobs: deleted and reset sessions, and cold ones that a backup took in."""
        found = []
        if {"session_id", "archive_blob", "encoding"} <= self._columns["session_transcript_archives"]:
            for row in self._db.execute(
                "SELECT rowid, session_id, archive_name, reason, encoding FROM session_transcript_archives "
                "ORDER BY archive_name"
            ):
                found.append(
                    Archive(
                        "session_transcript_archives",
                        int(row[0]),
                        _text(row[1]),
                        _text(row[2]),
                        _text(row[3]),
                        _text(row[4]) == "zstd",
                    )
                )
        if {"session_id", "archive_blob", "storage"} <= self._columns["session_transcript_cold_archives"]:
            for row in self._db.execute(
                "SELECT rowid, session_id, archive_name FROM session_transcript_cold_archives "
                "WHERE archive_blob IS NOT NULL ORDER BY archive_name"
            ):
                found.append(
                    Archive("session_transcript_cold_archives", int(row[0]), _text(row[1]), _text(row[2]), "cold", True)
                )
        return found

    def archive(self, archive: Archive) -> IO[bytes]:
        """The JSONL of an archive as a stream.

        Raises
        ------
        SourceError
            If it is gone, or compressed and no decoder is installed.
        """
        row = self._db.execute(f"SELECT archive_blob FROM {archive.table} WHERE rowid = ?", (archive.rowid,)).fetchone()
        data = _bytes(row[0]) if row else None
        if data is None:
            raise SourceError(f"archive {archive.name} is gone", file=self.path)
        stream = io.BytesIO(data)
        return zstd_reader(stream, self.path) if archive.packed else stream


def _bytes(value: Any) -> bytes | None:
    return value if isinstance(value, bytes) else value.encode() if isinstance(value, str) else None


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _maybe(value: Any) -> str | None:
    return None if value is None else _text(value)
