"""What all commands share: the global options, printing, and the way errors become exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from sherpa.config import EngineConfig
    from sherpa.configuration import Configuration
    from sherpa.memory import ProceduralMemory
    from sherpa.serve.service import Opening

DONE, MISSED, BAD_INPUT, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 130
Json = Annotated[bool, typer.Option("--json", help="Print exactly one JSON document.")]
_FILE_WIDTH = 200
P = ParamSpec("P")
R = TypeVar("R")


@dataclass
class Settings:
    """Global options of one invocation."""

    root: Path = Path(".sherpa")
    engine: dict[str, Any] = field(default_factory=dict)
    parity: bool = False
    json: bool = False
    quiet: bool = False
    color: bool = True
    file: Path | None = None

    def documents(self) -> list[dict[str, Any]]:
        """What the configuration file and the environment give, in this order."""
        from sherpa.configuration import find_file, of_environment, read_document

        path = find_file(self.root, os.environ, self.file)
        return [{} if path is None else read_document(path), of_environment(os.environ)]

    def configuration(self) -> Configuration:
        """All options: defaults, file, environment, flags."""
        from sherpa.configuration import configure

        flags = {_camel(name): value for name, value in self.engine.items() if value is not None}
        if self.parity:
            flags["parity"] = True
        return configure(*self.documents(), {"engine": flags})

    def config(self, **defaults: Any) -> EngineConfig:
        """The engine configuration of an experiment: defaults, then what was given."""
        from sherpa.config import EngineConfig

        given = {**defaults, **{k: v for k, v in self.engine.items() if v is not None}}
        return EngineConfig(**given, parity=self.parity)

    def opening(self) -> Opening:
        """How the memory under ``--root`` is opened by what serves it."""
        from sherpa.configuration import engine_options
        from sherpa.serve.service import Opening

        return Opening(self.root, self.configuration(), self._overrides(engine_options(*self.documents())))

    def _overrides(self, of_documents: dict[str, Any]) -> dict[str, Any]:
        """Options of the engine that replace those the memory was built with; flags are stronger."""
        flags = {name: value for name, value in self.engine.items() if value is not None}
        return {**of_documents, **flags, **({"parity": True} if self.parity else {})}

    @contextmanager
    def memory(self) -> Iterator[ProceduralMemory]:
        """The memory under ``--root``; options that were not given are those it was built with."""
        from sherpa.configuration import configure, engine_options
        from sherpa.memory import ProceduralMemory

        documents = self.documents()
        configure(*documents)
        with ProceduralMemory(self.root, overrides=self._overrides(engine_options(*documents))) as memory:
            yield memory

    def console(self, *, stderr: bool = False) -> Console:
        from rich.console import Console

        console = Console(stderr=stderr, no_color=not self.color, highlight=False)
        if not console.is_terminal:
            # A file or a pipe has no width: nothing is gained by folding cells there.
            console.width = _FILE_WIDTH
        return console

    def say(self, text: str) -> None:
        """A remark on stderr, unless ``--quiet``."""
        if not self.quiet:
            print(text, file=sys.stderr)

    def print_json(self, value: Any) -> None:
        """One JSON document on stdout."""
        from sherpa.answers import json_document

        sys.stdout.buffer.write(json_document(value))
        sys.stdout.buffer.flush()

    def show(self, value: Any, draw: Callable[[Console], None]) -> None:
        """Print the value as JSON with ``--json``, else draw it."""
        if self.json:
            self.print_json(value)
        else:
            draw(self.console())


def settings(context: typer.Context, json: bool = False) -> Settings:
    """The settings of this invocation; ``--json`` may also follow the command."""
    held = context.obj if isinstance(context.obj, Settings) else Settings()
    held.json = held.json or json
    return held


def guarded(command: Callable[P, R]) -> Callable[P, R]:
    """Turn errors into one line on stderr and an exit code."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        from sherpa.errors import SherpaError

        try:
            return command(*args, **kwargs)
        except SherpaError as error:
            print(f"sherpa: {error}", file=sys.stderr)
            raise typer.Exit(BAD_INPUT) from None
        except KeyboardInterrupt:
            print("sherpa: interrupted; everything that was acknowledged is stored", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            sys.stderr.close()
            raise typer.Exit(DONE) from None

    return run


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
