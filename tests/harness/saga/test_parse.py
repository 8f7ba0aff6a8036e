"""Plans as models write them (acceptance checks 1 to 24 and 55)."""

from __future__ import annotations

import pytest

from harness.saga.model import Stage
from harness.saga.parse import ParsedPlan, Rules, parse_plan
from harness.saga.strictyaml import YamlError, load

TWO = """# Harbour survey

## Summary
Find what is known,
then write it down.

## Stage 1: Collect
Goal: Collect the sources on the harbour.

```yaml
done:
  - kind: file-exists
    path: stages/sources.md
    minBytes: 400
evaluator: auto
```

## Stage 2: Write
Goal: Write the report.

```yaml
done:
  - kind: file-size-gt
    path: stages/report.md
    minBytes: 2000
  - kind: free-form
    desc: The report answers the question.
evaluator: deep
```
"""


def of_yaml(block: str, rules: Rules | None = None) -> tuple[Stage, ParsedPlan]:
    """The one stage of a plan with this block."""
    plan = parse_plan(f"## Stage 1: One\nGoal: Do it.\n\n```yaml\n{block}\n```\n", rules)
    assert len(plan.stages) == 1
    return plan.stages[0], plan


def test_001_two_stages_with_a_summary() -> None:
    plan = parse_plan(TWO)
    assert plan.summary == "Find what is known, then write it down."
    assert [(s.id, s.title, s.goal, s.evaluator_mode) for s in plan.stages] == [
        ("stage-01", "Collect", "Collect the sources on the harbour.", "auto"),
        ("stage-02", "Write", "Write the report.", "deep"),
    ]
    assert [[c["kind"] for c in s.done_criteria] for s in plan.stages] == [
        ["file-exists"],
        ["file-size-gt", "free-form"],
    ]
    assert plan.missing == []
    assert plan.notices == []


def test_001_a_long_summary_is_cut() -> None:
    plan = parse_plan("## Summary\n" + "word " * 200 + "\n" + TWO[TWO.index("## Stage 1") :])
    assert len(plan.summary) == 500
    assert plan.summary.endswith("...")


@pytest.mark.parametrize("key", ["minSize", "threshold", "bytes", "sizeMin", "min-size", "minBytes", "min_bytes"])
def test_002_names_of_a_size(key: str) -> None:
    stage, _ = of_yaml(f"done:\n  - kind: file-size-gt\n    path: a.md\n    {key}: 1500")
    assert stage.done_criteria == ({"kind": "file-size-gt", "path": "a.md", "minBytes": 1500},)


@pytest.mark.parametrize("key", ["filePath", "file", "location", "path"])
def test_003_names_of_a_path(key: str) -> None:
    stage, _ = of_yaml(f"done:\n  - kind: file-exists\n    {key}: out/a.md")
    assert stage.done_criteria == ({"kind": "file-exists", "path": "out/a.md"},)


@pytest.mark.parametrize("key", ["cmd", "run", "shell", "command"])
def test_004_names_of_a_command(key: str) -> None:
    stage, _ = of_yaml(f"done:\n  - kind: command\n    {key}: pytest -q")
    assert stage.done_criteria == ({"kind": "command", "command": "pytest -q"},)


@pytest.mark.parametrize("key", ["description", "text", "prompt", "criteria", "desc"])
def test_005_names_of_a_description(key: str) -> None:
    stage, _ = of_yaml(f"done:\n  - kind: free-form\n    {key}: It reads well.")
    assert stage.done_criteria == ({"kind": "free-form", "desc": "It reads well."},)


def test_006_a_missing_path_is_reported() -> None:
    _, plan = of_yaml("done:\n  - kind: file-exists")
    assert plan.missing == ["stage-01: done.path"]
    assert "stage-01: done.path" in plan.feedback


def test_007_a_missing_size_is_reported() -> None:
    _, plan = of_yaml("done:\n  - kind: file-size-gt\n    path: a.md")
    assert plan.missing == ["stage-01: done.minBytes"]


def test_008_a_missing_command_is_reported() -> None:
    _, plan = of_yaml("done:\n  - kind: command")
    assert plan.missing == ["stage-01: done.command"]


def test_009_an_unknown_kind_keeps_its_fields() -> None:
    stage, plan = of_yaml("done:\n  - kind: peer-vote\n    voters: 5\n    names: [ada, bo]\n    quorum: 0.6")
    assert stage.done_criteria == ({"kind": "peer-vote", "voters": 5, "names": ["ada", "bo"], "quorum": 0.6},)
    assert any("peer-vote" in notice for notice in plan.notices)


def test_010_a_bare_text_is_free_form() -> None:
    stage, plan = of_yaml("done:\n  - The table has no gaps.\n  - kind: file-exists\n    path: t.md")
    assert stage.done_criteria[0] == {"kind": "free-form", "desc": "The table has no gaps."}
    assert any("criterion 1" in notice for notice in plan.notices)


def test_011_the_default_id_tells_the_place() -> None:
    block = "```yaml\ndone:\n  - kind: file-exists\n    path: a.md\n```\n"
    plan = parse_plan("".join(f"## Stage {n}: S\nGoal: g\n{block}" for n in (1, 2, 3)))
    assert plan.stages[2].id == "stage-03"


@pytest.mark.parametrize(("title", "goal"), [("name", "description"), ("title", "objective"), ("name", "goal")])
def test_012_names_of_title_and_goal(title: str, goal: str) -> None:
    stage, _ = of_yaml(f"{title}: Inner\n{goal}: From the block.\ndone:\n  - kind: file-exists\n    path: a.md")
    assert (stage.title, stage.goal) == ("Inner", "From the block.")


def test_013_the_profile_decides_an_evaluator_that_is_not_named() -> None:
    block = "done:\n  - kind: file-exists\n    path: a.md"
    assert of_yaml(block)[0].evaluator_mode == "auto"
    assert of_yaml(block, Rules("deep"))[0].evaluator_mode == "deep"
    assert of_yaml(f"{block}\nevaluator: auto|deep", Rules("deep"))[0].evaluator_mode == "deep"
    assert of_yaml(f"{block}\nevaluator: ' AUTO '", Rules("deep"))[0].evaluator_mode == "auto"


@pytest.mark.parametrize("key", ["doneCriteria", "done-criteria", "checks", "dod", "acceptance", "criteria", "done"])
def test_014_names_of_the_criteria(key: str) -> None:
    stage, _ = of_yaml(f"{key}:\n  - kind: file-exists\n    path: a.md")
    assert stage.done_criteria == ({"kind": "file-exists", "path": "a.md"},)


def test_014_the_first_name_wins_and_the_other_is_reported() -> None:
    stage, plan = of_yaml("checks:\n  - kind: command\n    run: make\ndone:\n  - kind: file-exists\n    path: a.md")
    assert [c["kind"] for c in stage.done_criteria] == ["file-exists"]
    assert any("`checks` was not used" in notice for notice in plan.notices)


@pytest.mark.parametrize("text", ["", "   \n\n", None, 5, "\ufeff", "just some words"])
def test_015_nothing_is_no_error(text: object) -> None:
    assert parse_plan(text).stages == ()


@pytest.mark.parametrize(
    "block", ["@@@ %% not yaml", "}{ :::", "", "\x00\x01", "- - -", "just words", "!!python/object:x y"]
)
def test_016_garbage_is_a_stage_for_the_deep_evaluator(block: str) -> None:
    stage, plan = of_yaml(block)
    assert {c["kind"] for c in stage.done_criteria} == {"free-form"}
    assert stage.evaluator_mode == "deep"
    assert plan.notices


def test_017_the_goal_is_exact() -> None:
    plan = parse_plan("## Stage 1: A\ngoal:  Ship v2.0: fast, small (& safe) \n```yaml\ndone: []\n```")
    assert plan.stages[0].goal == "Ship v2.0: fast, small (& safe)"


def test_018_an_inline_list() -> None:
    stage, _ = of_yaml("done: [{kind: file-exists, path: z.md}]")
    assert stage.done_criteria == ({"kind": "file-exists", "path": "z.md"},)


@pytest.mark.parametrize("spoil", ["", "\nnote: it's: not yaml: [at all"])
def test_019_kind_need_not_come_first(spoil: str) -> None:
    stage, _ = of_yaml(
        "done:\n  - kind: command\n    command: make\n  - path: a.md\n    kind: file-exists\n    minBytes: 10" + spoil
    )
    assert stage.done_criteria == (
        {"kind": "command", "command": "make"},
        {"kind": "file-exists", "path": "a.md", "minBytes": 10},
    )


@pytest.mark.parametrize("spoil", ["", "\nnote: it's: not yaml: [at all"])
def test_020_quotes_and_comments_are_cleaned(spoil: str) -> None:
    stage, _ = of_yaml(
        "evaluator: deep  # strict\ndone:\n  - kind: command  # build\n    command: \"echo 'a # b'\"  # say it" + spoil
    )
    assert stage.evaluator_mode == "deep"
    assert stage.done_criteria == ({"kind": "command", "command": "echo 'a # b'"},)


@pytest.mark.parametrize("written", ["2000", '"2000"', "2_000", "2k", "2 KB", "2000 bytes", "2,000", "2kb"])
def test_021_sizes_with_units(written: str) -> None:
    stage, _ = of_yaml(f"done:\n  - kind: file-size-gt\n    path: a.md\n    minBytes: {written}")
    assert stage.done_criteria[0]["minBytes"] == 2000


@pytest.mark.parametrize("written", ["lots", ".nan", "NaN", "-5", "true", "[1]", "1e999"])
def test_022_what_is_no_size_is_missing(written: str) -> None:
    stage, plan = of_yaml(f"done:\n  - kind: file-size-gt\n    path: a.md\n    minBytes: {written}")
    assert "minBytes" not in stage.done_criteria[0]
    assert plan.missing == ["stage-01: done.minBytes"]
    assert any("minBytes" in notice for notice in plan.notices)


def test_023_a_stage_without_a_block_is_kept() -> None:
    plan = parse_plan("## Stage 1: Think\nGoal: Think about it.\n\n## Stage 2: Act\nGoal: Act.\n")
    assert [s.title for s in plan.stages] == ["Think", "Act"]
    assert plan.missing == ["stage-01: done", "stage-02: done"]
    assert all(s.evaluator_mode == "deep" for s in plan.stages)


@pytest.mark.parametrize("info", ["", "markdown", "md"])
def test_024_one_fence_around_everything(info: str) -> None:
    wrapped = parse_plan(f"```{info}\n{TWO}\n```")
    assert wrapped.stages == parse_plan(TWO).stages
    assert wrapped.summary == parse_plan(TWO).summary


def test_055_kinds_that_the_profile_does_not_have_are_reported() -> None:
    block = "done:\n  - kind: command\n    command: make\n  - kind: file-exists\n    path: a.md"
    stage, plan = of_yaml(block, Rules("auto", ("file-exists", "free-form")))
    assert [c["kind"] for c in stage.done_criteria] == ["command", "file-exists"]
    assert any("'command' is none of the profile's" in notice for notice in plan.notices)
    stage, _ = of_yaml(block, Rules("auto", ("file-exists", "free-form"), strict=True))
    assert stage.done_criteria[0] == {"kind": "free-form", "desc": "command: command=make"}


def test_a_yaml_document_with_stages() -> None:
    plan = parse_plan(
        "summary: In short.\nstages:\n  - id: first\n    title: One\n    goal: g\n    done:\n"
        "      - kind: file-exists\n        path: a.md\n  - name: Two\n    objective: h\n"
        "    checks: [{kind: metrics, path: m.json, metric: f1, op: '>=', value: 0.9}]\n"
    )
    assert [(s.id, s.title, s.goal) for s in plan.stages] == [("first", "One", "g"), ("stage-02", "Two", "h")]
    assert plan.summary == "In short."
    assert plan.stages[1].done_criteria[0]["value"] == 0.9


def test_ids_are_made_unique_and_safe() -> None:
    block = "id: {}\ngoal: g\ndone:\n  - kind: file-exists\n    path: a.md"
    plan = parse_plan(
        "".join(f"## Stage {n}\n```yaml\n{block.format(i)}\n```\n" for n, i in enumerate(["x", "x", "../y z"]))
    )
    assert [s.id for s in plan.stages] == ["x", "x-2", "y-z"]
    assert len([n for n in plan.notices if "id" in n or "called" in n]) == 2


def test_artifacts_in_front_of_a_path_is_dropped() -> None:
    stage, _ = of_yaml("done:\n  - kind: file-exists\n    path: artifacts/stages/a.md")
    assert stage.done_criteria[0]["path"] == "stages/a.md"


@pytest.mark.parametrize(
    ("written", "criterion"),
    [
        ("- file-exists: a.md", {"kind": "file-exists", "path": "a.md"}),
        ("- kind: file_exists\n    path: a.md", {"kind": "file-exists", "path": "a.md"}),
        ("- type: FileExists\n    path: a.md", {"kind": "file-exists", "path": "a.md"}),
        ("- kind:file-exists path:a.md", {"kind": "file-exists", "path": "a.md"}),
        ("- kind: free-form\n    desc: Check: all is well", {"kind": "free-form", "desc": "Check: all is well"}),
        ("- kind: free-form\n    desc: *all* rows", {"kind": "free-form", "desc": "*all* rows"}),
        ("-kind: file-exists\n   path: a.md", {"kind": "file-exists", "path": "a.md"}),
        ("- {kind: file-exists, path: a.md", {"kind": "file-exists", "path": "a.md"}),
        ("\t- kind: file-exists\n\t  path: a.md", {"kind": "file-exists", "path": "a.md"}),
        ("- kind: “file-exists”\n    path: ”a.md”\n  bad: [", {"kind": "file-exists", "path": "a.md"}),
        ("- command: make all", {"kind": "command", "command": "make all"}),
    ],
)
def test_what_models_really_write(written: str, criterion: dict[str, object]) -> None:
    stage, plan = of_yaml(f"done:\n  {written}")
    assert criterion in stage.done_criteria
    assert plan.notices


def test_yaml_is_data_only() -> None:
    for text in ("a: &x [1]\nb: *x", "!!python/name:os.system x", "[" * 500, "- 1\n" * 1_001, "a: " + "x" * (1 << 20)):
        with pytest.raises(YamlError):
            load(text, [])
    assert load("on: 007\nd: 2026-01-01\nt: 1:30", []) == {"on": "007", "d": "2026-01-01", "t": "1:30"}
