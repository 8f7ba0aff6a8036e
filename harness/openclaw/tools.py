"""The plugin's tools and skills, written from what the doors serve: ``python -m harness.openclaw.tools``."""

from __future__ import annotations

import json
from pathlib import Path

from harness.saga.doors import guests
from harness.saga.profiles import SKILLS
from sherpa.configuration import Configuration
from sherpa.files import write_whole
from sherpa.serve.schemas import tool_list

PLUGIN = Path(__file__).parent / "plugin"
TOOLS = PLUGIN / "tools.json"


def document() -> str:
    """The file's text."""
    sagas = guests(Configuration(), Path())
    return json.dumps(tool_list(sagas.tools()), indent=2, ensure_ascii=False) + "\n"


def skills() -> dict[Path, bytes]:
    """The files of the plugin's folder of skills: those of the sagas, for a host loads only what lies in the plugin."""
    files = sorted(path for path in SKILLS.rglob("*.md"))
    return {PLUGIN / "skills" / path.relative_to(SKILLS): path.read_bytes() for path in files}


if __name__ == "__main__":
    write_whole(TOOLS, document().encode())
    for path, text in skills().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
