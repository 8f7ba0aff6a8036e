"""Every command and option is described, and docs/cli.md says what the commands say."""

from __future__ import annotations

import re

import pytest
from typer.main import get_command

from sherpa.cli.main import app
from sherpa.cli.reference import commands, parameters, reference
from tests.conftest import PROJECT

ROOT = get_command(app)
ALL = list(commands(ROOT))


def test_the_page_is_up_to_date() -> None:
    written = (PROJECT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert written == reference(app), "run `make docs`"


@pytest.mark.parametrize(("path", "command"), ALL, ids=[path for path, _ in ALL])
def test_a_command_has_help_an_example_and_described_options(path: str, command: object) -> None:
    text = command.help or ""  # type: ignore[attr-defined]
    assert text.strip()
    if path != "sherpa workflow-risks":
        assert re.search(r"Examples?:\n", text), "teaches by example"
    lacking = [p.name for p in parameters(command) if not (getattr(p, "help", None) or "").strip()]
    assert lacking == []


def test_global_options_are_described() -> None:
    assert [p.name for p in parameters(ROOT) if not (p.help or "").strip()] == []  # type: ignore[attr-defined]


def test_every_command_and_flag_is_on_the_page() -> None:
    page = (PROJECT / "docs" / "cli.md").read_text(encoding="utf-8")
    sections = {part.split("\n", 1)[0]: part for part in page.split("\n## ")[1:]}
    for path, command in ALL:
        for parameter in parameters(command):
            for name in getattr(parameter, "opts", []):
                if name.startswith("--"):
                    assert f"`{name}" in sections[path], (path, name)
