"""Whatever is submitted as a plan: no crash, nothing dropped in silence."""

from __future__ import annotations

import json
import random
import re
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.saga.confine import clean_path
from harness.saga.errors import PathError
from harness.saga.model import KINDS
from harness.saga.parse import Rules, parse_plan

CORPUS = [
    "## Stage 1: A\nGoal: g\n```yaml\ndone:\n  - kind: file-exists\n    path: a.md\nevaluator: deep\n```\n",
    "## Stage 1: A\nGoal: g\n```yaml\ndone: [{kind: file-exists, path: z.md}, {kind: command, cmd: make}]\n```\n",
    "stages:\n  - title: A\n    goal: g\n    done:\n      - kind: log-scan\n        path: x\n        pattern: 'a: b'\n",
    "```markdown\n## Stage 1\nGoal: g\n```yaml\nchecks:\n- kind: free-form\n  desc: it's fine: really\n```\n```\n",
    "### Stage 1 — A\n**Goal:** g\n\n**Done:**\n- kind: file-size-gt\n  path: a\n  minBytes: 2 KB\n",
    "## S1: x\n```yml\nid: s\nname: n\ndone:\n  - {kind: metrics, path: m, metric: f, op: '>', value: 1}\n```\n",
    '{"stages": [{"title": "A", "goal": "g", "done": [{"kind": "file-exists", "path": "a.md"}]}]}',
    "## Stage 1: A\nGoal: g\n```yaml\ndone:\n  - kind: file-schema\n    path: r\n    schema: {type: object}\n```\n",
    "## 阶段 1：收集\nGoal: g\n```yaml\ndone:\n  - “kind”: file-exists\n    path: 文件.md\n```\n",
]
PIECES = ["```", "```yaml\n", "## Stage 2: B\n", "- kind: command\n", "\t", "  ", ":", "- ", "{", "]", '"', "'", "#"]
PIECES += ["\n", "|\n", "done:\n", "evaluator: auto|deep\n", "&a ", "*a", "!!x ", "\x00", "\ufeff", "\ud83d"]
PIECES += ["path: ../../x\n", "minBytes: nan\n", "---\n", "kind: free-form\n", "stages:\n", "Goal: g\n", "\u2028", "٣"]


def mutated(rng: random.Random) -> str:
    text = rng.choice(CORPUS)
    for _ in range(rng.randrange(6)):
        at = rng.randrange(len(text) + 1)
        match rng.randrange(5):
            case 0:
                text = text[:at] + text[at + rng.randrange(1, 12) :]
            case 1:
                text = text[:at] + rng.choice(PIECES) + text[at:]
            case 2:
                text = text[:at] + rng.choice(CORPUS) + text[at:]
            case 3:
                text = text[:at] + text[at : at + 20] * rng.randrange(2, 5) + text[at:]
            case 4:
                text = "\n".join(" " * rng.randrange(3) + line for line in text.split("\n"))
    return text


def check(text: str) -> None:
    """What holds for every text."""
    json.dumps([stage.title for stage in parse_plan(text).stages], ensure_ascii=False).encode()
    for rules in (Rules(), Rules("deep", ("file-exists",), strict=True)):
        plan = parse_plan(text, rules)
        assert len({stage.id for stage in plan.stages}) == len(plan.stages)
        # A plan without stages is refused as a whole; in one with stages nothing may go without a word.
        written = len(re.findall(r"^\s*-\s*\W?kind\W?\s*:\s*[\w-]+\s*$", text, re.MULTILINE))
        read = sum(len(stage.done_criteria) for stage in plan.stages)
        # A text over several lines may hold what looks like a criterion.
        values = [value for stage in plan.stages for c in stage.done_criteria for value in c.values()]
        texts = [*values, plan.summary, *(stage.title + stage.goal for stage in plan.stages)]
        read += sum(str(value).count("kind") for value in texts)
        assert not plan.stages or written <= read or plan.notices or plan.missing, text
        for stage in plan.stages:
            assert stage.done_criteria
            assert "/" not in stage.id
            assert all(isinstance(c["kind"], str) for c in stage.done_criteria)
            checked = [c for c in stage.done_criteria if c["kind"] in ("file-exists", "file-size-gt")]
            sizes = [c["minBytes"] for c in checked if "minBytes" in c]
            assert all(isinstance(size, int) and size >= 0 for size in sizes)
            if stage.evaluator_mode == "auto":
                assert any(c["kind"] in KINDS and c["kind"] != "free-form" for c in stage.done_criteria)


def test_mutated_plans() -> None:
    rng = random.Random(11)
    for _ in range(1_000):
        check(mutated(rng))


@pytest.mark.full
def test_ten_thousand_mutated_plans() -> None:
    rng = random.Random(20261202)
    for _ in range(10_000):
        check(mutated(rng))


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=400) | st.text(alphabet="-: \n{}[]#`'\"|>&*!kinddonepath", max_size=400))
def test_any_text(text: str) -> None:
    check(text)
    check(f"## Stage 1\n```yaml\n{text}\n```")
    check(f"## Stage 1\nGoal: g\n```yaml\ndone:\n{text}\n```")


VALUES = st.text(alphabet="abcdefgh .-_/", min_size=1, max_size=12).filter(lambda t: t.strip())
CRITERIA = st.one_of(
    st.builds(lambda p: {"kind": "file-exists", "path": p.strip()}, VALUES),
    st.builds(lambda p, n: {"kind": "file-size-gt", "path": p.strip(), "minBytes": n}, VALUES, st.integers(1, 9999)),
    st.builds(lambda t: {"kind": "free-form", "desc": t.strip()}, VALUES),
    st.builds(lambda c: {"kind": "command", "command": c.strip()}, VALUES),
    st.builds(lambda t: {"kind": "peer-vote", "note": t.strip()}, VALUES),
)
STYLES = ("block", "flow", "json", "tabs", "colon", "unclosed")


def rendered(criteria: list[dict[str, object]], style: str) -> str:
    """A list of criteria as models write it, well or badly."""
    if style == "json":
        return "done: " + json.dumps(criteria)
    lines = ["done:"]
    for criterion in criteria:
        pairs = [f"{key}: {json.dumps(value)}" for key, value in criterion.items()]
        if style == "flow":
            lines.append("  - {" + ", ".join(pairs) + "}")
        elif style == "unclosed":
            lines.append("  - {" + ", ".join(pairs))
        else:
            lines += [f"  - {pairs[0]}", *(f"    {pair}" for pair in pairs[1:])]
    text = "\n".join(lines)
    if style == "tabs":
        text = text.replace("    ", "\t\t").replace("  - ", "\t- ")
    return text + ("\nnote: this: is not: yaml" if style == "colon" else "")


@settings(max_examples=300)
@given(st.lists(CRITERIA, min_size=1, max_size=6), st.sampled_from(STYLES))
def test_no_criterion_is_lost(criteria: list[dict[str, object]], style: str) -> None:
    plan = parse_plan(f"## Stage 1: A\nGoal: g\n```yaml\n{rendered(criteria, style)}\n```\n")
    (stage,) = plan.stages
    assert [c["kind"] for c in stage.done_criteria] == [c["kind"] for c in criteria]
    for written, read in zip(criteria, stage.done_criteria, strict=True):
        assert {k: read.get(k) for k in written if k not in ("path",)} == {
            k: v for k, v in written.items() if k not in ("path",)
        }
    if style in ("tabs", "colon", "unclosed"):
        assert plan.notices


@settings(max_examples=500)
@given(st.text(max_size=60) | st.lists(st.sampled_from(["..", ".", "a", "/", "\\", "artifacts", "C:"])).map("/".join))
def test_a_path_is_contained_or_refused(text: str) -> None:
    try:
        path = clean_path(text)
    except PathError:
        return
    assert not path.startswith("/")
    assert ".." not in path.split("/")
    assert clean_path(f"./{path}") in (path, path.removeprefix("artifacts/"))


@pytest.mark.parametrize(
    "text",
    [
        "\n" * 250_000,
        " " * 250_000 + "x",
        "## " + " " * 250_000 + "x",
        "## Stage" + " " * 250_000 + "x",
        "## Stage 1" + " " * 120_000 + "#" * 120_000 + "x",
        "## Stage 1\ngoal: a" + " " * 250_000 + "b",
        "## Stage 1\n```yaml\ndone:\n- kind: a" + " " * 250_000 + "b: : :\n```",
        "## Stage 1\n```yaml\ndone:\n- x: [\n" + "  word\n" * 35_000 + "```",
        "## Stage 1\n```yaml\n" + "[" * 250_000,
        "## Stage 1\n```yaml\n" + "a: b: c\n" * 30_000,
        "```\n" * 60_000,
        "**" * 120_000,
        "- " * 120_000,
        "{" * 100_000 + "}" * 100_000,
        "stages:\n" + "- a\n" * 60_000,
        "## Stage 1\n" + "done:\n" * 40_000,
        "x: " + '"' * 250_000,
    ],
    ids=range(17),
)
def test_nothing_makes_it_slow(text: str) -> None:
    begin = time.monotonic()
    parse_plan(text)
    assert time.monotonic() - begin < 8
