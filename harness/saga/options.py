"""What the owner of a state root decides: programs that may run, servers, memory, whether somebody is there to ask.

It is read from ``saga.json`` in the state root, which no artefact can reach; flags of the command line are stronger.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from harness.saga.errors import SagaError

VARIABLE = "SAGA_STATE_ROOT"
FILE = "saga.json"
AdviceMode = Literal["off", "shadow", "advisory"]


class SagaOptions(msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """Options of a state root.

    Attributes
    ----------
    commands : bool
        Whether checks may run programs, in profiles that allow it.
    programs : tuple of str
        Names of those programs.
    browser : bool
        Whether pages are loaded, if Chromium is installed.
    strict_kinds : bool
        Leave kinds that the profile does not have to the evaluator.
    unattended : bool
        Nobody is there to ask: where a person must decide, the saga ends.
    memory_dir : str or None
        Where finished operations are written down; ``memory`` in the state root without it.
    advice : str
        ``off``; ``shadow``: what the memory says is logged; ``advisory``: and told.
    sherpa_root : str or None
        Folder of the procedural memory that is asked.
    locale : str
        Of what is shown: ``en`` or ``zh``.
    """

    commands: bool = False
    programs: tuple[str, ...] = ()
    browser: bool = True
    strict_kinds: bool = False
    unattended: bool = False
    memory_dir: str | None = None
    advice: AdviceMode = "off"
    sherpa_root: str | None = None
    locale: Literal["en", "zh"] = "en"


def state_root(given: Path | str | None, environ: Mapping[str, str] = os.environ) -> Path:
    """The state root: as given, as the environment says, or ``.saga`` here."""
    return Path(given or environ.get(VARIABLE) or ".saga")


def read_options(root: Path, **changes: Any) -> SagaOptions:
    """The options of a state root, with those replaced that are not None.

    Raises
    ------
    SagaError
        If the file cannot be read.
    """
    path = root / FILE
    try:
        options = msgspec.json.decode(path.read_bytes(), type=SagaOptions)
    except FileNotFoundError:
        options = SagaOptions()
    except (OSError, ValueError) as error:
        raise SagaError(f"{path}: cannot be used: {error}") from None
    return msgspec.structs.replace(options, **{name: value for name, value in changes.items() if value is not None})
