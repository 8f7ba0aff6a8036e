"""The plugin's manifest, written from configuration and list of tools: ``python -m harness.openclaw.manifest``."""

from __future__ import annotations

import json
from typing import Any

from harness.openclaw.tools import PLUGIN, document
from sherpa import __version__
from sherpa.configuration import ORDER_KEYS, schema
from sherpa.files import write_whole

ID = "sherpa"
MANIFEST = PLUGIN / "openclaw.plugin.json"
_LEFT_OUT = frozenset({"title", "default", "$schema", "$defs"})
"""A default that the host fills in would look as if the user had chosen it."""


def manifest() -> dict[str, Any]:
    """What OpenClaw reads before it runs the plugin."""
    return {
        "id": ID,
        "name": "Sherpa",
        "description": "Procedural memory: what usually comes next, and what goes wrong.",
        "version": __version__,
        "activation": {"onStartup": True},
        "skills": ["./skills"],
        "contracts": {"tools": [tool["name"] for tool in json.loads(document())]},
        "configSchema": config_schema(),
    }


def config_schema() -> dict[str, Any]:
    """Schema of the plugin's configuration: the whole tree, with ``order`` as the published form has it."""
    given = schema()
    tree: dict[str, Any] = _plain(given["$defs"]["Configuration"], given["$defs"])
    engine = tree["properties"]["engine"]["properties"]
    tree["properties"]["order"] = {
        "type": "object",
        "description": "Another name for four options of engine.",
        "properties": {key: engine[option] for key, option in ORDER_KEYS.items()},
        "additionalProperties": False,
    }
    return tree


def _plain(node: Any, definitions: dict[str, Any]) -> Any:
    """A schema without references."""
    if isinstance(node, list):
        return [_plain(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    reference = node.get("$ref")
    if reference is not None:
        return _plain(definitions[reference.rsplit("/", 1)[-1]], definitions)
    plain = {}
    for key, value in node.items():
        if key == "properties":
            plain[key] = {name: _plain(item, definitions) for name, item in value.items()}
        elif key not in _LEFT_OUT and not (key == "required" and not value):
            plain[key] = _plain(value, definitions)
    return plain


def text() -> str:
    """The file's text."""
    return json.dumps(manifest(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    write_whole(MANIFEST, text().encode())
