"""The daemon's bearer token: made on first start, readable by its owner only."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from sherpa.errors import ConfigError

FILE = "daemon.token"
VARIABLE = "SHERPA_TOKEN"
_LENGTH, _SHORTEST = 32, 16


def own_token(root: Path) -> str:
    """The token of a memory's folder; made if there is none. Two processes that make it at once agree on one.

    Raises
    ------
    ConfigError
        If the file cannot be used.
    """
    path = root / FILE
    try:
        if not path.exists():
            root.mkdir(parents=True, exist_ok=True)
            _make(path)
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    return read_token(path)


def _make(path: Path) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(_LENGTH) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            # A link is made whole or not at all, and never over another process's file.
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def read_token(path: Path) -> str:
    """The token that a file holds.

    Raises
    ------
    ConfigError
    """
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: no token can be read there ({error})") from None
    if not is_token(token):
        raise ConfigError(f"{path}: holds no token; remove it, and the next start makes one")
    return token


def is_token(text: str) -> bool:
    """Whether a text can be a bearer token: long enough to be none that is guessed, and visible ASCII."""
    return len(text) >= _SHORTEST and text.isascii() and text.isprintable() and " " not in text
