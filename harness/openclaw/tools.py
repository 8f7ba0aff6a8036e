"""The plugin's list of tools, written from the operations of the memory: ``python -m harness.openclaw.tools``."""

from __future__ import annotations

import json
from pathlib import Path

from sherpa.files import write_whole
from sherpa.serve.schemas import tool_list

PLUGIN = Path(__file__).parent / "plugin"
TOOLS = PLUGIN / "tools.json"


def document() -> str:
    """The file's text."""
    return json.dumps(tool_list(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    write_whole(TOOLS, document().encode())
