"""Plans as models write them: Markdown with a YAML block per stage, or YAML alone. Never an error, never silence.

Whatever is missing is listed for the planner, and whatever was read differently from how it was written is a notice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from harness.saga.criteria import KNOWN_KEYS, NO_CHECK, needs_evaluator, normalise
from harness.saga.lenient import read_block
from harness.saga.model import KINDS, EvaluatorMode, Stage
from harness.saga.sections import Section, sections_of, unwrapped
from harness.saga.strictyaml import YamlError, load
from harness.saga.values import as_text

TITLE = ("title", "name")
GOAL = ("goal", "description", "objective")
CRITERIA = ("done", "doneCriteria", "done-criteria", "checks", "dod", "acceptance", "criteria")
_LISTS = frozenset(key.lower() for key in CRITERIA)
_STAGE_KEYS = frozenset({*TITLE, *GOAL, *(key.lower() for key in CRITERIA), "id", "evaluator"})
_KNOWN = _STAGE_KEYS | KNOWN_KEYS
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_SUMMARY = 500
_NOTICES = 200


@dataclass
class ParsedPlan:
    """What a plan says.

    Attributes
    ----------
    missing : list of str
        What the planner must still say, as ``stage-01: done.path``.
    notices : list of str
        What was taken differently from how it was written.
    """

    summary: str = ""
    stages: tuple[Stage, ...] = ()
    missing: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    @property
    def feedback(self) -> str:
        """What to tell the planner; empty if nothing is missing."""
        if not self.missing:
            return ""
        listed = "\n".join(f"- {entry}" for entry in self.missing)
        return f"The plan is missing:\n{listed}\nPlease add these and submit the whole plan again."


@dataclass(frozen=True)
class Rules:
    """What a profile says about plans.

    Attributes
    ----------
    evaluator : str
        Mode of a stage that names none.
    allowed : sequence of str
        Kinds of criteria.
    strict : bool
        Whether other kinds are left to the evaluator instead of being checked.
    """

    evaluator: EvaluatorMode = "auto"
    allowed: Sequence[str] = KINDS
    strict: bool = False


def parse_plan(text: object, rules: Rules | None = None) -> ParsedPlan:
    """Read a plan; an unreadable one has no stages.

    Parameters
    ----------
    text
        Markdown or YAML. Anything else is a plan without stages.
    rules : Rules, optional
        Of the profile.
    """
    chosen = rules or Rules()
    plan = ParsedPlan()
    if not isinstance(text, str) or not text.strip():
        return plan
    if not text.isascii() and (clean := text.encode("utf-8", "replace").decode()) != text:
        plan.notices.append("the text held halves of characters; they were replaced by question marks")
        text = clean
    body = unwrapped(text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n"))
    sections = sections_of(body, plan.notices)
    whole = _whole_document(body, plan) if not any(s.is_stage for s in sections) else None
    raw = whole if whole is not None else _from_sections(sections, plan)
    plan.stages = tuple(_stage(at, entry, plan, chosen) for at, entry in enumerate(_unique_ids(raw, plan)))
    if len(plan.notices) > _NOTICES:
        plan.notices[_NOTICES:] = [f"{len(plan.notices) - _NOTICES} more remarks of this kind"]
    return plan


@dataclass
class _Raw:
    """A stage before its criteria are normalised."""

    fields: dict[str, Any]
    title: str | None = None
    goal: str | None = None
    has_block: bool = True
    id: str = ""


def _whole_document(body: str, plan: ParsedPlan) -> list[_Raw] | None:
    """Stages of a document that is YAML alone, or holds one YAML list of stages."""
    texts = [body] + [block.text for section in sections_of(body, []) for block in section.blocks]
    for text in texts:
        if not re.search(r"(?mi)^[ \t]*[\"']?stages[\"']?[ \t]*:|^[ \t]*-\s|^[ \t]*[\[{]", text):
            continue
        notices: list[str] = []
        try:
            found = load(text, notices)
        except YamlError:
            continue
        entries = found.get("stages") if isinstance(found, dict) else found
        if not isinstance(entries, list) or not any(isinstance(e, dict) and _STAGE_KEYS & set(e) for e in entries):
            continue
        if isinstance(found, dict):
            plan.summary = _cut(as_text(found.get("summary")) or as_text(found.get("title")) or "")
        plan.notices += notices
        if sum(kinds in other for other in texts[1:] for kinds in ("kind:", '"kind"')) > (text is not body):
            plan.notices.append("only the first list of stages was used")
        return [_Raw(e if isinstance(e, dict) else {"title": as_text(e)}) for e in entries]
    return None


def _from_sections(sections: list[Section], plan: ParsedPlan) -> list[_Raw]:
    stages: list[_Raw] = []
    for section in sections:
        if not section.is_stage and not section.blocks:
            if section.has_stray_criteria:
                plan.notices.append(f"criteria under {section.title or 'no heading'!r} belong to no stage; left out")
            if not stages:
                plan.summary = (
                    _cut(" ".join(line for line in section.prose if not line.startswith("#"))) or plan.summary
                )
            continue
        name = f"stage-{len(stages) + 1:02d}"
        fields: dict[str, Any] = {}
        for block in section.blocks:
            notices: list[str] = []
            for key, value in _block(block.text, notices).items():
                _merge_block(fields, key, value, notices)
            plan.notices += [f"{name}: {notice}" for notice in notices]
        has_block = bool(section.blocks)
        if has_block and section.has_stray_criteria:
            plan.notices.append(f"{name}: criteria outside the yaml block were left out")
        if not has_block and (loose := section.loose_criteria()):
            notices = ["the criteria stand outside a yaml block"]
            fields, has_block = _block(loose, notices), True
            plan.notices += [f"{name}: {notice}" for notice in notices]
        stages.append(_Raw(fields, section.title or None, section.goal, has_block))
    return stages


def _merge_block(fields: dict[str, Any], key: str, value: Any, notices: list[str]) -> None:
    if key in fields and isinstance(fields[key], list) and isinstance(value, list):
        fields[key] = fields[key] + value
    elif key in fields:
        notices.append(f"`{key}` stands in two blocks; the first one was kept")
    else:
        fields[key] = value


def _block(text: str, notices: list[str]) -> dict[str, Any]:
    """A stage block: YAML, or what the tolerant reader makes of it."""
    try:
        found = load(text, notices)
    except YamlError as error:
        notices.append(f"the block is no YAML ({str(error)[:100]}); it was read line by line")
        return read_block(text, _LISTS, _STAGE_KEYS, _KNOWN, notices)
    if isinstance(found, dict):
        return found
    if isinstance(found, list):
        notices.append("the block is a list; it was taken as the criteria")
        return {"done": found}
    if found is not None:
        notices.append("the block is no mapping; it was read line by line")
        return read_block(text, _LISTS, _STAGE_KEYS, _KNOWN, notices)
    return {}


def _unique_ids(stages: list[_Raw], plan: ParsedPlan) -> list[_Raw]:
    used: set[str] = set()
    for at, stage in enumerate(stages):
        default = f"stage-{at + 1:02d}"
        given = as_text(stage.fields.get("id"))
        wanted = default if given is None else given
        if not _ID.fullmatch(wanted):
            wanted = re.sub(r"[^A-Za-z0-9._-]+", "-", wanted).strip("-._")[:60] or default
            plan.notices.append(f"{wanted}: id {str(given)[:60]!r} was changed, as it names files")
        name, number = wanted, 2
        while name in used:
            name, number = f"{wanted}-{number}", number + 1
        if name != wanted:
            plan.notices.append(f"{name}: two stages are called {wanted}")
        used.add(name)
        stage.id = name
    return stages


def _stage(at: int, raw: _Raw, plan: ParsedPlan, rules: Rules) -> Stage:
    unused = sorted(key for key in raw.fields if key.lower() not in _STAGE_KEYS)
    if unused:
        plan.notices.append(f"{raw.id}: not used: {', '.join(unused)[:200]}")
    title = _first_text(raw.fields, TITLE) or raw.title or f"Stage {at + 1}"
    goal = _first_text(raw.fields, GOAL) or raw.goal or ""
    if not goal:
        plan.missing.append(f"{raw.id}: goal")
    if not raw.has_block:
        plan.missing.append(f"{raw.id}: done")
        plan.notices.append(f"{raw.id}: no yaml block; the stage is left to the evaluator")
    criteria = tuple(
        _allowed(normalise(item, raw.id, place, plan.missing, plan.notices), raw.id, place, plan, rules)
        for place, item in enumerate(_listed(raw, plan), start=1)
    )
    mode = _mode(raw, plan, rules)
    stage = Stage(id=raw.id, title=title, goal=goal, done_criteria=criteria, evaluator_mode=mode)
    return with_floor(stage, plan.notices)


def with_floor(stage: Stage, notices: list[str]) -> Stage:
    """The stage with at least one criterion, and with deep evaluation if none of them can be checked."""
    if not stage.done_criteria:
        stage = replace(stage, done_criteria=({"kind": "free-form", "desc": NO_CHECK},))
        notices.append(f"{stage.id}: no criteria; one for the evaluator was put in")
    if stage.evaluator_mode == "auto" and needs_evaluator(stage.done_criteria):
        stage = replace(stage, evaluator_mode="deep")
        notices.append(f"{stage.id}: nothing a machine can check; the evaluator is deep")
    return stage


def _listed(raw: _Raw, plan: ParsedPlan) -> list[Any]:
    """The criteria of a stage as a list; the first of the synonyms that is there."""
    present = [key for name in CRITERIA for key in raw.fields if key.lower() == name.lower()]
    if not present:
        return []
    plan.notices += [
        f"{raw.id}: `{key}` was not used, as `{present[0]}` is there" for key in dict.fromkeys(present[1:])
    ]
    value = raw.fields[present[0]]
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        plan.notices.append(f"{raw.id}: `{present[0]}` is no list; it was taken as one")
        if "kind" in value or "type" in value:
            return [value]
        return [{key: inner} for key, inner in value.items()]
    if value in (None, ""):
        return []
    plan.notices.append(f"{raw.id}: `{present[0]}` is no list; it was taken as one criterion")
    return [value]


def _allowed(criterion: dict[str, Any], stage: str, place: int, plan: ParsedPlan, rules: Rules) -> dict[str, Any]:
    kind = criterion["kind"]
    if kind in rules.allowed or kind == "free-form":
        return criterion
    unknown = kind not in KINDS
    fate = "it is left to the evaluator" if rules.strict or unknown else "it is checked all the same"
    why = "is not known" if unknown else "is none of the profile's"
    plan.notices.append(f"{stage}: criterion {place}: kind {kind!r} {why}; {fate}")
    if rules.strict and not unknown:
        rest = ", ".join(f"{key}={value}" for key, value in criterion.items() if key != "kind")
        return {"kind": "free-form", "desc": f"{kind}: {rest}"[:500]}
    return criterion


def _mode(raw: _Raw, plan: ParsedPlan, rules: Rules) -> EvaluatorMode:
    value = next((raw.fields[key] for key in raw.fields if key.lower() == "evaluator"), None)
    text = as_text(value)
    if text is None:
        return rules.evaluator
    words = text.lower()
    if words in ("auto", "deep"):
        return "deep" if words == "deep" else "auto"
    plan.notices.append(f"{raw.id}: evaluator {text[:40]!r} is neither auto nor deep; it is {rules.evaluator}")
    return rules.evaluator


def _first_text(fields: dict[str, Any], names: tuple[str, ...]) -> str | None:
    for name in names:
        for key, value in fields.items():
            if key.lower() == name and (text := as_text(value)) is not None:
                return text
    return None


def _cut(text: str) -> str:
    return text if len(text) <= _SUMMARY else text[: _SUMMARY - 3] + "..."
