"""Libraries that come with an extra; imported where they are used, missed with the name of the extra."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sherpa.errors import ConfigError


def needed(name: str, extra: str) -> Any:
    """The module `name`.

    Raises
    ------
    ConfigError
        If it is not installed; names the extra that brings it.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != name.split(".")[0]:
            raise
        package = name.split(".")[0]
        raise ConfigError(
            f"{package} is not installed; it comes with: pip install 'sherpa-procedural-memory[{extra}]'"
        ) from None
