"""The configuration: published as it is printed, TOML, environment, flags; what is wrong is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from sherpa import ProceduralMemory
from sherpa.cli.main import app
from sherpa.config import EngineConfig
from sherpa.configuration import (
    Configuration,
    ScopeMatch,
    ScopeRule,
    configure,
    engine_options,
    find_file,
    milliseconds,
    of_environment,
    read_document,
)
from sherpa.errors import ConfigError
from tests.conftest import DATA

SEEDS = DATA.parent / "seeds"


def published() -> dict[str, Any]:
    """The configuration that the founding document prints."""
    texts = [path.read_text() for path in sorted(SEEDS.glob("*.txt"))]
    text = next((text for text in texts if '"injectThreshold": 0.75,' in text), None)
    if text is None:
        pytest.skip(f"the founding documents are absent: {SEEDS}")
    start = text.index('{\n  "transport": {\n    "mode": "embedded"\n  },\n  "engine"')
    document: dict[str, Any] = json.loads(text[start : text.index("\n}\n", start) + 2])
    return document


def test_the_published_configuration_is_accepted_as_it_is() -> None:
    found = configure(published())
    assert found.engine == EngineConfig(default_order=3, min_order=1, max_order=5, min_support=2)
    assert (found.advisory.inject_threshold, found.advisory.max_chars, found.advisory.scope) == (0.75, 900, "direct")
    assert found.scope.rules == (ScopeRule(action="allow", match=ScopeMatch(chat_type="direct")),)
    assert (found.ledger.redact_raw_text, found.ledger.max_meta_bytes) == (True, 2048)


def test_what_is_not_given_has_the_published_default() -> None:
    document = published()
    del document["scope"], document["advisory"]["scope"]
    assert configure(document) == Configuration()


def test_the_section_order_is_another_name() -> None:
    found = configure({"order": {"default": 2, "min": 1, "max": 4, "minSupport": 3}})
    assert found.engine == EngineConfig(default_order=2, min_order=1, max_order=4, min_support=3)
    with pytest.raises(ConfigError, match=r"engine\.maxOrder is 5, but order says 4"):
        configure({"order": {"max": 4}, "engine": {"maxOrder": 5}})


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"engin": {}}, "engin: unknown option; did you mean engine?"),
        ({"engine": {"maxOrdr": 4}}, r"engine\.maxOrdr: unknown option; did you mean maxOrder\?"),
        ({"order": {"maxi": 4}}, r"order\.maxi: unknown option; did you mean max\?"),
        ({"zzz": 1}, "zzz: unknown option; known are transport"),
        (
            {"taxonomy": {"rules": [{}, {"match": {"tool_name": "x"}}]}},
            r"taxonomy\.rules\[1\]\.match\.tool_name: unknown option; did you mean toolName\?",
        ),
        ({"scope": {"rules": [{"match": {}}]}}, r"`action`"),
        ({"update": {"interval": "5 min"}}, r"update\.interval"),
        ({"engine": {"maxOrder": 0}}, "maxOrder is 0"),
        ({"advisory": {"injectThreshold": 7}}, r"advisory\.injectThreshold"),
        ({"order": 3}, "order must be an object"),
        ({"engine": 3}, r"engine"),
    ],
)
def test_what_is_wrong_is_named(document: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        configure(document)


def test_all_unknown_options_are_named_at_once() -> None:
    with pytest.raises(ConfigError, match=r"aa: unknown.*engine\.bb: unknown"):
        configure({"aa": 1, "engine": {"bb": 2}})


def test_later_ones_win_option_by_option() -> None:
    found = configure(
        {"engine": {"maxOrder": 4, "minSupport": 3}, "advisory": {"maxRisks": 1}}, {"engine": {"maxOrder": 6}}
    )
    assert (found.engine.max_order, found.engine.min_support, found.advisory.max_risks) == (6, 3, 1)
    assert engine_options({"order": {"max": 4}}, {"engine": {"minSupport": 3}}) == {"max_order": 4, "min_support": 3}


def test_the_environment() -> None:
    given = {
        "SHERPA_ENGINE_MAX_ORDER": "6",
        "SHERPA_LEDGER_REDACT_RAW_TEXT": "false",
        "SHERPA_SCOPE_DEFAULT": "allow",
        "SHERPA_CASE_SPLITTING_BY": "task",
        "SHERPA_IGNORE_SESSION_PATTERNS": '["agent:**"]',
        "SHERPA_DATA": "something else",
        "SHERPA_CONFIG": "file",
        "HOME": "/",
    }
    found = configure(of_environment(given))
    assert found.engine.max_order == 6
    assert not found.ledger.redact_raw_text
    assert (found.scope.default, found.case_splitting.by) == ("allow", "task")
    assert found.ignore_session_patterns == ("agent:**",)
    with pytest.raises(ConfigError, match="did you mean SHERPA_ENGINE_MAX_ORDER"):
        of_environment({"SHERPA_ENGINE_MAX_ORDR": "6"})


@pytest.mark.parametrize(("text", "expected"), [("5ms", 5), ("10s", 10_000), ("5m", 300_000), ("2h", 7_200_000)])
def test_durations(text: str, expected: int) -> None:
    assert milliseconds(text) == expected
    with pytest.raises(ConfigError, match="no duration"):
        milliseconds(f"{text}x")


def test_files(tmp_path: Path) -> None:
    assert find_file(tmp_path, {}) is None
    toml = tmp_path / "config.toml"
    toml.write_text('[engine]\nmaxOrder = 4\n\n[[taxonomy.rules]]\nmatch = { kind = "tool" }\nset = { type = "x" }\n')
    assert find_file(tmp_path, {}) == toml
    found = configure(read_document(toml))
    assert (found.engine.max_order, found.taxonomy.rules[0].set.type) == (4, "x")
    assert find_file(tmp_path, {"SHERPA_CONFIG": "other.json"}) == Path("other.json")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match="keep one of them"):
        find_file(tmp_path, {})
    for name, text, message in (
        ("a.json", "{", "broken json"),
        ("a.toml", "x = ", "broken toml"),
        ("b.json", "[]", "an object"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(ConfigError, match=message):
            read_document(tmp_path / name)
    with pytest.raises(ConfigError, match="No such file"):
        read_document(tmp_path / "none.json")


def test_file_environment_and_flags_in_this_order(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "config.json").write_text('{"engine": {"maxOrder": 4, "minSupport": 3, "defaultOrder": 2}}')

    def shown(*flags: str, **environment: str) -> dict[str, Any]:
        result = CliRunner().invoke(app, ["--root", str(root), *flags, "config", "show", "--json"], env=environment)
        assert result.exit_code == 0, result.output
        engine: dict[str, Any] = json.loads(result.stdout)["engine"]
        return engine

    assert shown()["maxOrder"] == 4
    assert shown(SHERPA_ENGINE_MAX_ORDER="6")["maxOrder"] == 6
    assert shown("--max-order", "7", SHERPA_ENGINE_MAX_ORDER="6")["maxOrder"] == 7
    assert shown("--max-order", "7")["minSupport"] == 3


def test_a_change_of_the_file_is_recorded(tmp_path: Path) -> None:
    root = tmp_path / "root"
    event = root.parent / "event.json"
    event.write_text('{"caseId": "a", "source": "s", "type": "t"}')
    for order in (4, 6):
        root.mkdir(exist_ok=True)
        (root / "config.json").write_text(json.dumps({"engine": {"maxOrder": order}}))
        assert CliRunner().invoke(app, ["--root", str(root), "ingest", str(event)]).exit_code == 0
    with ProceduralMemory(root) as memory:
        versions = {str(row[0]) for row in memory.store.rows("config_versions")}
        assert memory.config.max_order == 6
    assert versions == {"3-1-4-2-raw", "3-1-6-2-raw"}


def test_the_folder_may_be_configured(tmp_path: Path) -> None:
    file = tmp_path / "sherpa.json"
    file.write_text(json.dumps({"store": {"root": str(tmp_path / "there")}}))
    result = CliRunner().invoke(app, ["--config", str(file), "status", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["graphPath"] == str(tmp_path / "there" / "graph.db")


def test_commands(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"engine": {"maxOrdr": 4}}')
    wrong = CliRunner().invoke(app, ["config", "validate", str(file)])
    assert wrong.exit_code == 2
    assert "did you mean maxOrder?" in wrong.stderr
    assert str(file) in wrong.stderr
    for command in (["status"], ["config", "show"]):
        assert CliRunner().invoke(app, ["--root", str(tmp_path), *command]).exit_code == 2
    file.write_text("{}")
    assert CliRunner().invoke(app, ["--root", str(tmp_path), "config", "validate"]).exit_code == 0
    assert "engine.maxOrder" in CliRunner().invoke(app, ["config", "show"]).stdout
    assert CliRunner().invoke(app, ["--root", str(tmp_path / "none"), "config", "validate"]).exit_code == 2


def test_the_schema_knows_every_option() -> None:
    document = json.loads(CliRunner().invoke(app, ["config", "schema"]).stdout)
    definitions = document["$defs"]
    described = definitions["Configuration"]["properties"]
    assert set(described) == set(msgspec.to_builtins(Configuration()))
    assert set(definitions["AdvisoryOptions"]["properties"]) == set(msgspec.to_builtins(Configuration().advisory))
    assert definitions["Configuration"]["additionalProperties"] is False
