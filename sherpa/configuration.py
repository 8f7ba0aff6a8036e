"""The whole configuration: the published JSON as it is, or TOML; from a file, the environment, and flags.

What is given later wins: defaults, the file (``config.json`` or ``config.toml`` of the memory's folder, or the one that
``SHERPA_CONFIG`` or ``--config`` names), environment variables ``SHERPA_<SECTION>_<OPTION>``, flags.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

import msgspec
from msgspec import Meta

from sherpa.config import EngineConfig
from sherpa.errors import ConfigError

FILES = ("config.json", "config.toml")
VARIABLE = "SHERPA_CONFIG"
_PREFIX = "SHERPA_"
_DURATION = re.compile(r"(\d+)(ms|s|m|h)")
_MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
ORDER_KEYS = {"default": "defaultOrder", "min": "minOrder", "max": "maxOrder", "minSupport": "minSupport"}
"""Keys of the published section ``order``, and what they are called in ``engine``."""

Duration = Annotated[str, Meta(pattern=r"^\d+(ms|s|m|h)$", description="A whole number and ms, s, m or h.")]
Share = Annotated[float, Meta(ge=0, le=1)]
Whole = Annotated[int, Meta(ge=0)]


class _Section(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A section: unknown keys are errors."""


class Transport(_Section, frozen=True, kw_only=True):
    """How a client reaches the memory."""

    mode: Literal["embedded", "stdio", "http"] = "embedded"
    command: str = "sherpa"
    args: tuple[str, ...] = ()
    base_url: str = "http://127.0.0.1:8787"
    manage_process: bool = False
    timeout_ms: Whole = 3_000
    env: dict[str, str] = {}


class StoreOptions(_Section, frozen=True, kw_only=True):
    """Where the memory lies."""

    root: str | None = None


class LedgerOptions(_Section, frozen=True, kw_only=True):
    """What an event may hold."""

    redact_raw_text: bool = True
    max_meta_bytes: Whole = 2_048


class CaptureOptions(_Section, frozen=True, kw_only=True):
    """Which events are captured."""

    messages: bool = True
    tools: bool = True
    browser: bool = True
    web: bool = True
    automation: bool = True
    memory_writes: bool = False


class AdvisoryOptions(_Section, frozen=True, kw_only=True):
    """When advice is given, and how long it may be.

    `min_probability` and `utility_wrong` are gates beside the published ones: the first candidate must have that
    probability, and a loss of `utility_wrong` for advice that does not come true (a gain of 1 if it does) must still
    leave the advice worth giving. Both are off without a value.
    """

    enabled: bool = True
    inject_threshold: Share = 0.75
    max_candidates: Whole = 3
    max_risks: Whole = 2
    max_chars: Annotated[int, Meta(ge=16)] = 900
    cooldown: Duration = "2m"
    scope: str | None = None
    min_probability: Share | None = None
    utility_wrong: Annotated[float, Meta(ge=0)] | None = None
    interpreter_model: str | None = None


class TaxonomyMatch(_Section, frozen=True, kw_only=True):
    """What an event must have; everything that is given must hold."""

    kind: str | None = None
    source: str | None = None
    type: str | None = None
    actor: str | None = None
    tool_name: str | None = None
    tool_family: str | None = None
    phase: str | None = None
    channel: str | None = None
    content_pattern: str | None = None


class TaxonomySet(_Section, frozen=True, kw_only=True):
    """What a rule writes."""

    type: str | None = None
    outcome: Literal["success", "failure", "unknown"] | None = None
    labels: tuple[str, ...] = ()


class TaxonomyRule(_Section, frozen=True, kw_only=True):
    """One rule of the taxonomy."""

    match: TaxonomyMatch = TaxonomyMatch()
    set: TaxonomySet = TaxonomySet()


class TaxonomyOptions(_Section, frozen=True, kw_only=True):
    """Rules in their order; all that match are applied, and later ones see what earlier ones wrote."""

    rules: tuple[TaxonomyRule, ...] = ()


class UpdateOptions(_Section, frozen=True, kw_only=True):
    """When captured events reach the ledger."""

    on_boot: bool = True
    interval: Duration = "5m"
    debounce_ms: Whole = 10_000
    command_timeout_ms: Whole = 3_000
    rebuild_on_version_change: bool = False


class ScopeMatch(_Section, frozen=True, kw_only=True):
    """Which sessions a rule is about; everything that is given must hold."""

    chat_type: str | None = None
    channel: str | None = None
    agent_id: str | None = None
    session_prefix: str | None = None
    raw_session_prefix: str | None = None


class ScopeRule(_Section, frozen=True, kw_only=True):
    """One rule of the scope."""

    action: Literal["allow", "deny"]
    match: ScopeMatch = ScopeMatch()


class ScopeOptions(_Section, frozen=True, kw_only=True):
    """Which sessions are captured and advised: the first rule that matches decides, else the default."""

    default: Literal["allow", "deny"] = "deny"
    rules: tuple[ScopeRule, ...] = (
        ScopeRule(action="allow", match=ScopeMatch(chat_type="direct")),
        ScopeRule(action="allow", match=ScopeMatch(chat_type="dm")),
    )


class CaseSplitting(_Section, frozen=True, kw_only=True):
    """How a session is cut into cases."""

    by: Literal["session", "task", "run"] = "session"
    idle_timeout: Duration = "30m"
    stale_timeout: Duration = "2h"


class SagaOptions(_Section, frozen=True, kw_only=True):
    """Long tasks in stages, beside the memory. Without `root` they lie in its folder, under ``saga``."""

    enabled: bool = True
    root: str | None = None


class Configuration(_Section, frozen=True, kw_only=True):
    """All sections, with their defaults."""

    transport: Transport = Transport()
    store: StoreOptions = StoreOptions()
    engine: EngineConfig = EngineConfig()
    ledger: LedgerOptions = LedgerOptions()
    capture: CaptureOptions = CaptureOptions()
    advisory: AdvisoryOptions = AdvisoryOptions()
    taxonomy: TaxonomyOptions = TaxonomyOptions()
    update: UpdateOptions = UpdateOptions()
    scope: ScopeOptions = ScopeOptions()
    case_splitting: CaseSplitting = CaseSplitting()
    saga: SagaOptions = SagaOptions()
    ignore_session_patterns: tuple[str, ...] = ("agent:*:cron:**",)
    stateless_session_patterns: tuple[str, ...] = ()


def milliseconds(duration: str) -> int:
    """A duration such as ``5m`` in milliseconds.

    >>> milliseconds("10s"), milliseconds("2h")
    (10000, 7200000)
    """
    match = _DURATION.fullmatch(duration)
    if match is None:
        raise ConfigError(f"{duration!r} is no duration: a whole number and ms, s, m or h")
    return int(match[1]) * _MILLISECONDS[match[2]]


def find_file(root: Path, environment: Mapping[str, str], named: Path | None = None) -> Path | None:
    """The file that is read: the one that is named, by flag or environment, or the one in the memory's folder."""
    wanted = named or (Path(environment[VARIABLE]) if environment.get(VARIABLE) else None)
    if wanted is not None:
        return wanted
    there = [root / name for name in FILES if (root / name).is_file()]
    if len(there) > 1:
        raise ConfigError(f"{root}: holds {' and '.join(FILES)}; keep one of them")
    return there[0] if there else None


def read_document(path: Path) -> dict[str, Any]:
    """A configuration file as it stands: TOML if it is called so, else JSON.

    Raises
    ------
    ConfigError
    """
    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        reason = (
            error.strerror if isinstance(error, OSError) else f"broken {path.suffix.lstrip('.') or 'JSON'}: {error}"
        )
        raise ConfigError(f"{path}: {reason}") from None
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: must be an object")
    return document


def of_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """Options that the environment gives: ``SHERPA_ENGINE_MAX_ORDER=6``. Values are JSON, or else taken as text.

    Raises
    ------
    ConfigError
        If a variable names a section but no option of it.
    """
    found: dict[str, Any] = {}
    sections = {_constant(name): name for name in _keys(Configuration)}
    for variable, value in sorted(environment.items()):
        rest = variable.removeprefix(_PREFIX)
        section = next((s for s in sections if rest == s or rest.startswith(f"{s}_")), None)
        if rest == variable or section is None:
            continue
        name = sections[section]
        given = _value(value)
        inner = _section_of(Configuration, name)
        if inner is None:
            found[name] = given
            continue
        options = {_constant(key): key for key in _keys(inner)}
        option = options.get(rest[len(section) + 1 :])
        if option is None:
            near = _near(rest[len(section) + 1 :], list(options))
            hint = f"; did you mean {_PREFIX}{section}_{near}?" if near else ""
            raise ConfigError(f"{variable}: {name} has no such option{hint}")
        found.setdefault(name, {})[option] = given
    return found


def configure(*documents: Mapping[str, Any], where: str = "configuration") -> Configuration:
    """One configuration of several documents; later ones win, option by option.

    Raises
    ------
    ConfigError
        With the path of the option, and for an unknown one the name that was probably meant.
    """
    merged: dict[str, Any] = {}
    for document in documents:
        merged = _merged(merged, _with_order(document, where))
    problems = list(_unknown(Configuration, merged, ""))
    if problems:
        raise ConfigError(f"{where}: {'; '.join(problems)}")
    try:
        return msgspec.convert(merged, Configuration)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}") from None
    except ConfigError as error:
        raise ConfigError(f"{where}: engine: {error}") from None


def engine_options(*documents: Mapping[str, Any]) -> dict[str, Any]:
    """Those options of the engine that are given at all, by their names here; the others are as the graph has them."""
    given: dict[str, Any] = {}
    for document in documents:
        given |= _with_order(document, "configuration").get("engine", {})
    names = {field.encode_name: field.name for field in msgspec.structs.fields(EngineConfig)}
    return {names[key]: value for key, value in given.items() if key in names}


def schema() -> dict[str, Any]:
    """JSON Schema of a configuration file."""
    found = msgspec.json.schema(Configuration)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Sherpa configuration"} | found


def _with_order(document: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The published section ``order`` is another name for four options of ``engine``."""
    rest = {key: value for key, value in document.items() if key != "order"}
    order = document.get("order")
    if order is None:
        return rest
    if not isinstance(order, Mapping):
        raise ConfigError(f"{where}: order must be an object")
    unknown = [_complaint("order", key, list(ORDER_KEYS)) for key in order if key not in ORDER_KEYS]
    if unknown:
        raise ConfigError(f"{where}: {'; '.join(unknown)}")
    engine = {ORDER_KEYS[key]: value for key, value in order.items()}
    stated = rest.get("engine") or {}
    for key, value in engine.items():
        if key in stated and stated[key] != value:
            raise ConfigError(f"{where}: engine.{key} is {stated[key]!r}, but order says {value!r}")
    return rest | {"engine": {**engine, **stated}}


def _merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    both = dict(old)
    for key, value in new.items():
        held = both.get(key)
        both[key] = _merged(held, value) if isinstance(held, Mapping) and isinstance(value, Mapping) else value
    return both


def _unknown(section: type[msgspec.Struct], given: Mapping[str, Any], path: str) -> Iterator[str]:
    """Complaints about keys that a section does not have, deep."""
    keys = _keys(section)
    for key, value in given.items():
        if key not in keys:
            yield _complaint(path, key, keys)
            continue
        inner = _section_of(section, key)
        if inner is not None and isinstance(value, Mapping):
            yield from _unknown(inner, value, f"{path}{key}.")
        elif isinstance(value, list):
            element = _element_of(section, key)
            for at, item in enumerate(value):
                if element is not None and isinstance(item, Mapping):
                    yield from _unknown(element, item, f"{path}{key}[{at}].")


def _complaint(path: str, key: str, keys: list[str]) -> str:
    near = _near(key, keys)
    hint = f"; did you mean {near}?" if near else f"; known are {', '.join(keys)}"
    return f"{path.rstrip('.') + '.' if path else ''}{key}: unknown option{hint}"


def _near(name: str, names: list[str]) -> str | None:
    lower = {candidate.lower(): candidate for candidate in names}
    found = difflib.get_close_matches(name.lower(), list(lower), n=1, cutoff=0.6)
    return lower[found[0]] if found else None


def _keys(section: type[msgspec.Struct]) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(section)]


def _type_of(section: type[msgspec.Struct], key: str) -> Any:
    names = {field.encode_name: field.name for field in msgspec.structs.fields(section)}
    return get_type_hints(section)[names[key]]


def _section_of(section: type[msgspec.Struct], key: str) -> type[msgspec.Struct] | None:
    found = _type_of(section, key)
    return found if isinstance(found, type) and issubclass(found, msgspec.Struct) else None


def _element_of(section: type[msgspec.Struct], key: str) -> type[msgspec.Struct] | None:
    parts = [part for part in get_args(_type_of(section, key)) if isinstance(part, type)]
    return next((part for part in parts if issubclass(part, msgspec.Struct)), None)


def _constant(name: str) -> str:
    """``maxOrder`` as ``MAX_ORDER``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
