"""The command line of an installed OpenClaw."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sherpa.errors import SherpaError

_SECONDS = 180


class OpenClawError(SherpaError):
    """OpenClaw is not there, or a command of it failed."""


@dataclass(frozen=True)
class CommandLine:
    """How OpenClaw is run.

    Attributes
    ----------
    argv : tuple of str
        The program, and what comes before its arguments.
    environment : mapping
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str]

    def run(self, *arguments: str) -> str:
        """Run a command; returns what it printed.

        Raises
        ------
        OpenClawError
            If it cannot be run, fails, or takes longer than three minutes.
        """
        shown = f"openclaw {' '.join(arguments[:3])}"
        try:
            done = subprocess.run(
                [*self.argv, *arguments],
                env={**self.environment, "NO_COLOR": "1"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_SECONDS,
                check=False,
            )
        except OSError as error:
            raise OpenClawError(f"{self.argv[0]}: cannot be run: {error.strerror or error}") from None
        except subprocess.TimeoutExpired:
            raise OpenClawError(f"{shown} did not end within {_SECONDS} s") from None
        if done.returncode:
            raise OpenClawError(f"{shown} ended with {done.returncode}: {_last_words(done)}")
        return done.stdout

    def ask(self, *arguments: str) -> Any:
        """Run a command that answers with a JSON document.

        Raises
        ------
        OpenClawError
        """
        out = self.run(*arguments, "--json")
        try:
            return json.loads(out)
        except ValueError:
            raise OpenClawError(
                f"openclaw {' '.join(arguments[:3])} did not answer with JSON: {out[-200:]!r}"
            ) from None

    @property
    def version(self) -> str:
        """As the program says it."""
        return self.run("--version").strip()

    @property
    def config_file(self) -> Path:
        """Its configuration."""
        return Path(self.ask("config", "file")["path"])

    @property
    def state(self) -> Path:
        """Its state directory."""
        given = self.environment.get("OPENCLAW_STATE_DIR")
        return Path(given) if given else self.config_file.parent


def find(given: Path | None = None, environment: Mapping[str, str] | None = None) -> CommandLine:
    """The OpenClaw that is named (a program, or ``openclaw.mjs``), or the one on the path.

    Raises
    ------
    OpenClawError
        If there is none.
    """
    surroundings = dict(os.environ if environment is None else environment)
    found = shutil.which("openclaw", path=surroundings.get("PATH")) if given is None else str(given.absolute())
    if found is None:
        raise OpenClawError("openclaw is not on the PATH; install it (npm i -g openclaw) or name it with --openclaw")
    path = Path(found)
    if not path.is_file():
        raise OpenClawError(f"{path}: there is no such program")
    if path.suffix not in (".mjs", ".js"):
        return CommandLine((str(path),), surroundings)
    near = path.resolve().parent.parent / "node" / "bin" / "node"
    node = str(near) if near.is_file() else shutil.which("node", path=surroundings.get("PATH"))
    if node is None:
        raise OpenClawError(f"{path} needs Node, and there is none on the PATH")
    return CommandLine((node, str(path)), surroundings)


def _last_words(done: subprocess.CompletedProcess[str]) -> str:
    """What a failed command said: its own JSON error, or the end of its output."""
    for text in (done.stdout, done.stderr):
        try:
            return str(json.loads(text)["error"]["message"])
        except (ValueError, KeyError, TypeError):
            continue
    lines: Sequence[str] = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return " ".join(line.strip() for line in lines[-3:])[-500:]
