"""Datasets: what is read, what is made of it, and how a malformed one is refused."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path

import pytest

from experiments.dataset import Dataset, ImportOptions, dataset_files, load_dataset
from sherpa.errors import DatasetError, SourceError
from sherpa.instants import NO_INSTANT, parse_instant
from sherpa.sources.fields import FieldNames
from sherpa.terminal import FAILURE, SUCCESS, UNKNOWN


def save(folder: Path, content: object, name: str = "data.json") -> Path:
    """A file with these bytes, this text, or this value as JSON."""
    path = folder / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def event(kind: str, **fields: object) -> dict[str, object]:
    return {"type": kind, **fields}


def case(case_id: str, *kinds: str, **fields: object) -> dict[str, object]:
    return {"caseId": case_id, "events": [event(kind) for kind in kinds], **fields}


def lines(*events: object) -> str:
    return "".join(json.dumps(e) + "\n" for e in events)


def sequences(dataset: Dataset) -> list[tuple[str, tuple[str, ...]]]:
    return [(c.case_id, c.types) for c in dataset.log]


def refusal(path: Path, options: ImportOptions | None = None) -> DatasetError:
    """The error with which a file is refused; it always names the file."""
    with pytest.raises(DatasetError) as caught:
        load_dataset(path, options)
    assert caught.value.file == str(path)
    assert str(path) in str(caught.value)
    return caught.value


INTERLEAVED = [
    event("ask", caseId="two"),
    event("open", caseId="one"),
    event("answer", caseId="two"),
    event("close", caseId="one"),
]
GROUPED = [("two", ("ask", "answer")), ("one", ("open", "close"))]


# -- the three shapes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "name", "kind"),
    [
        ({"cases": [case("two", "ask", "answer"), case("one", "open", "close")]}, "data.json", "json"),
        (INTERLEAVED, "data.json", "json"),
        (lines(*INTERLEAVED), "data.jsonl", "jsonl"),
        (lines(*INTERLEAVED).replace("\n", "\n\n"), "data.ndjson", "jsonl"),
        (lines(*INTERLEAVED).rstrip("\n"), "data.JSONL", "jsonl"),
    ],
    ids=["object", "array", "lines", "blank lines between", "no newline at the end"],
)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_every_shape_gives_the_same_cases_in_first_seen_order(tmp_path, content, name, kind, packed):
    path = save(tmp_path, content, name)
    if packed:
        path = save(tmp_path, gzip.compress(path.read_bytes()), name + ".gz")
    dataset = load_dataset(path)
    assert sequences(dataset) == GROUPED
    assert (dataset.name, dataset.path, dataset.format) == ("data", str(path), kind)
    assert [c.case_id for c in dataset.cases] == ["two", "one"]


def test_the_head_of_an_object_is_kept(tmp_path):
    head = {"description": "why", "split": "dev", "schemaVersion": 1, "ontologyVersion": "v1", "notes": ["a", "b"]}
    dataset = load_dataset(save(tmp_path, {"name": "called", **head, "cases": [case("one", "a")]}))
    assert (dataset.name, dataset.description, dataset.split) == ("called", "why", "dev")
    assert (dataset.schema_version, dataset.ontology_version, dataset.notes) == (1, "v1", ("a", "b"))


@pytest.mark.parametrize(("given", "name"), [(None, "inside"), ("outside", "outside")])
def test_a_given_name_wins(tmp_path, given, name):
    path = save(tmp_path, {"name": "inside", "cases": [case("one", "a")]})
    assert load_dataset(path, name=given).name == name


def test_outcomes_and_user_messages_reach_the_log(tmp_path):
    events = [event("message.user.stop", actor="user"), event("b", outcome="failure"), event("c", outcome="success")]
    log = load_dataset(save(tmp_path, {"cases": [{"caseId": "one", "events": events}]})).log
    assert log.outcomes.tolist() == [UNKNOWN, FAILURE, SUCCESS]
    assert log.responses.tolist() == [0, -1, -1]
    assert log.response_vocabulary == ("stop",)


def test_an_event_belongs_to_the_case_that_holds_it(tmp_path):
    stray = {"caseId": "one", "events": [event("a", caseId="elsewhere"), event("b")]}
    assert sequences(load_dataset(save(tmp_path, {"cases": [stray]}))) == [("one", ("a", "b"))]


def test_the_hash_is_that_of_the_bytes_of_the_file(tmp_path):
    path = save(tmp_path, {"cases": [case("one", "a")]})
    assert load_dataset(path).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    again = save(tmp_path, path.read_bytes() + b"\n", "again.json")
    assert load_dataset(again).sha256 != load_dataset(path).sha256


def test_the_hash_of_a_gzipped_file_is_that_of_its_packed_bytes(tmp_path):
    packed = gzip.compress(json.dumps({"cases": [case("one", "a")]}).encode(), mtime=0)
    assert load_dataset(save(tmp_path, packed, "data.json.gz")).sha256 == hashlib.sha256(packed).hexdigest()


def test_unknown_keys_are_passed_over_at_every_level(tmp_path):
    odd = {"colour": "red", "size": [1, {"deep": None}]}
    step = {"step": 1, "expectedNext": ["b"], **odd}
    notes = {"workflowClass": "research", "expectations": {"nextByStep": [step], **odd}, **odd}
    cases = [{"caseId": "one", "events": [event("a", **odd), event("b")], "annotations": notes, **odd}]
    dataset = load_dataset(save(tmp_path, {"cases": cases, **odd}))
    assert sequences(dataset) == [("one", ("a", "b"))]
    assert dataset.group(0) == "research"
    assert dataset.annotations(0).expectations.next_by_step[0].expected_next == ("b",)


def test_a_projection_reaches_the_log_as_procedure_and_family(tmp_path):
    said = {"version": "draft-v1", "source": "manual", "taskClass": "code-fix", "operation": "tool-run"}
    events = [event("a"), event("b", projection=said)]
    log = load_dataset(save(tmp_path, {"cases": [{"caseId": "one", "events": events}]})).log
    assert [(f.procedure, f.family) for f in log[0].recent(2)] == [(None, None), ("execute", "code-fix")]


@pytest.mark.parametrize("name", ["data.json", "data.jsonl"])
def test_members_of_single_events_may_have_other_names(tmp_path, name):
    rows = [{"ticket": "t1", "step": "b", "at": "2026-01-01T02:00:00Z"}]
    rows += [{"ticket": "t1", "step": "a", "at": "2026-01-01T01:00:00Z"}]
    path = save(tmp_path, rows if name.endswith("json") else lines(*rows), name)
    fields = FieldNames(case="ticket", type="step", timestamp="at")
    assert sequences(load_dataset(path, ImportOptions(fields=fields))) == [("t1", ("a", "b"))]


# -- text ------------------------------------------------------------------------------------------------------


def test_text_is_trimmed_and_blank_members_of_lists_are_dropped(tmp_path):
    raw = {
        "name": " spaced ",
        "notes": [" kept ", " ", ""],
        "cases": [
            {
                "caseId": " one ",
                "labels": ["", " x"],
                "events": [event(" a "), event("b", labels=["  ", "y "])],
                "annotations": {"workflowClass": " research ", "notes": [" ", "said "]},
            }
        ],
    }
    dataset = load_dataset(save(tmp_path, raw))
    only = dataset.cases[0]
    assert (dataset.name, dataset.notes) == ("spaced", ("kept",))
    assert sequences(dataset) == [("one", ("a", "b"))]
    assert (only.labels, only.events[1].labels) == (("x",), ("y",))
    assert (dataset.group(0), only.annotations.notes) == ("research", ("said",))


def test_a_blank_name_is_no_name(tmp_path):
    assert load_dataset(save(tmp_path, {"name": "  ", "cases": [case("one", "a")]}, "stem.json")).name == "stem"


def test_a_blank_class_is_no_class(tmp_path):
    blank = case("one", "a", annotations={"workflowClass": "  "})
    assert load_dataset(save(tmp_path, {"cases": [blank]})).group(0) is None


@pytest.mark.parametrize("key", ["description", "split", "ontologyVersion"])
def test_a_blank_member_of_the_head_is_not_said(tmp_path, key):
    dataset = load_dataset(save(tmp_path, {key: " ", "cases": [case("one", "a")]}))
    assert (dataset.description, dataset.split, dataset.ontology_version) == (None, None, None)


def test_a_blank_outcome_is_unknown(tmp_path):
    blank = {"caseId": "one", "events": [event("a", outcome=" ")]}
    assert load_dataset(save(tmp_path, {"cases": [blank]})).log.outcomes.tolist() == [UNKNOWN]


@pytest.mark.parametrize("field", ["actor", "ts"])
def test_a_blank_actor_or_time_is_not_said(tmp_path, field):
    blank = {"caseId": "one", "events": [event("message.user.stop", **{field: " "})]}
    log = load_dataset(save(tmp_path, {"cases": [blank]})).log
    assert (log.responses.tolist(), log.instants.tolist()) == ([-1], [NO_INSTANT])


# -- annotations -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "expected_next", "expected_risks"),
    [
        ({}, None, None),
        ({"expectedNext": [], "expectedRisks": []}, (), ()),
        ({"expectedNext": ["a", "b"]}, ("a", "b"), None),
        ({"expectedNext": None, "expectedRisks": ["c"]}, None, ("c",)),
    ],
    ids=["not said", "silence", "next", "risk"],
)
def test_an_empty_list_is_silence_and_a_missing_one_is_not_said(tmp_path, said, expected_next, expected_risks):
    notes = {"expectations": {"nextByStep": [{"step": 1, **said}]}}
    dataset = load_dataset(save(tmp_path, {"cases": [case("one", "a", "b", annotations=notes)]}))
    (expectation,) = dataset.annotations(0).expectations.next_by_step
    assert (expectation.expected_next, expectation.expected_risks) == (expected_next, expected_risks)


def test_all_annotations_are_kept(tmp_path):
    notes = {
        "workflowClass": "research",
        "taskBoundaries": [{"startStep": 1, "endStep": 9, "title": "all of it"}],
        "blockers": [{"step": 2, "type": "timeout", "detail": "slow", "resolved": True}],
        "expectations": {"terminalOutcome": "failure"},
        "notes": ["odd"],
    }
    said = load_dataset(save(tmp_path, {"cases": [case("one", "a", "b", annotations=notes)]})).annotations(0)
    assert (said.workflow_class, said.notes, said.expectations.terminal_outcome) == ("research", ("odd",), "failure")
    (boundary,), (blocker,) = said.task_boundaries, said.blockers
    assert (boundary.start_step, boundary.end_step, boundary.title) == (1, 9, "all of it")
    assert (blocker.step, blocker.type, blocker.detail, blocker.resolved) == (2, "timeout", "slow", True)


@pytest.mark.parametrize("extra", [{}, {"annotations": None}, {"annotations": {}}])
def test_a_case_without_annotations_says_nothing(tmp_path, extra):
    dataset = load_dataset(save(tmp_path, {"cases": [case("one", "a", **extra)]}))
    assert dataset.group(0) is None
    assert dataset.annotations(0).expectations.next_by_step == ()


def test_annotated_risks_and_class_are_what_a_rival_may_read(tmp_path):
    steps = [{"step": 1, "expectedRisks": ["x", "y"]}, {"step": 2}, {"step": 2, "expectedRisks": ["x"]}]
    notes = {"workflowClass": "research", "expectations": {"nextByStep": steps}}
    dataset = load_dataset(save(tmp_path, {"cases": [case("one", "a", "b", annotations=notes)]}))
    info = dataset.log[0].info
    assert (info.workflow_class, info.risks) == ("research", ("x", "y", "x"))


def words(texts: tuple[str, ...]) -> set[str]:
    """Texts without the empty ones, which hold no word."""
    return {text for text in texts if text}


def test_the_texts_of_a_case_are_its_ids_labels_class_notes_and_blockers(tmp_path):
    notes = {
        "workflowClass": "research",
        "taskBoundaries": [{"startStep": 1, "title": "a title", "reason": "a reason"}],
        "blockers": [{"step": 1, "type": "timeout", "detail": "slow disk"}, {"step": 2, "type": "approval"}],
        "expectations": {"nextByStep": [{"step": 1, "expectedNext": ["n"], "note": "a remark"}]},
        "notes": ["first note", "second note"],
    }
    full = case("one", "a", "b", labels=["x", "y"], sourceTrace="trace-7", annotations=notes)
    dataset = load_dataset(save(tmp_path, {"cases": [full, case("two", "c")]}))
    told = {"one", "trace-7", "x", "y", "research", "first note", "second note", "timeout", "slow disk", "approval"}
    assert words(dataset.log[0].info.texts) == told
    assert words(dataset.log[1].info.texts) == {"two"}


def test_the_texts_of_an_event_are_its_source_type_actor_outcome_labels_entities_and_projection(tmp_path):
    projection = {
        "version": "draft-v1",
        "source": "manual",
        "provider": "someone",
        "taskClass": "code-fix",
        "intent": "investigate",
        "operation": "tool-run",
        "artifactClass": "service",
        "blockerType": "timeout",
        "entityRoles": ["owner", "reviewer"],
    }
    full = event(
        "b",
        eventId="e-1",
        ts="2026-01-01T01:00:00Z",
        source="chat",
        actor="user",
        outcome="failure",
        labels=["l"],
        entities=["n"],
        projection=projection,
        meta={"k": "v"},
    )
    early = event("a", ts="2026-01-01T00:00:00Z", actor="agent", outcome="unknown", source="log")
    log = load_dataset(save(tmp_path, {"cases": [{"caseId": "one", "events": [full, early]}]})).log
    told = {"chat", "b", "user", "failure", "l", "n", "code-fix", "investigate", "tool-run", "service", "timeout"}
    assert log[0].types == ("a", "b")
    assert [words(t) for t in log[0].info.event_texts] == [
        {"log", "a", "agent", "unknown"},
        told | {"owner", "reviewer"},
    ]


@pytest.mark.parametrize(
    ("notes", "field"),
    [
        ({"blockers": [{"step": 3, "type": "timeout"}]}, "annotations.blockers"),
        ({"expectations": {"nextByStep": [{"step": 2}, {"step": 3}]}}, "annotations.expectations.nextByStep"),
    ],
)
def test_a_step_beyond_the_case_is_refused(tmp_path, notes, field):
    path = save(tmp_path, {"cases": [case("fine", "a"), case("short", "a", "b", annotations=notes)]})
    error = refusal(path)
    assert (error.case, error.field) == ("short", field)
    assert "step 3" in error.problem
    assert "2 events" in error.problem


@pytest.mark.parametrize("step", [0, -1])
def test_steps_count_from_one(tmp_path, step):
    notes = {"blockers": [{"step": step, "type": "timeout"}]}
    error = refusal(save(tmp_path, {"cases": [case("one", "a", annotations=notes)]}))
    assert (error.case, error.field) == ("one", "annotations.blockers[0].step")


# -- order -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (["T10:00:00Z", "T09:00:00Z", "T11:00:00Z"], "bac"),
        (["T10:00:00Z", "T10:00:00Z", "T10:00:00Z"], "abc"),
        (["T10:00:00Z", "T09:00:00Z", "T10:00:00Z"], "bac"),
        ([None, None, None], "abc"),
        (["T10:00:00Z", None, "T09:00:00Z"], "cab"),
        ([None, "T10:00:00Z", "T09:00:00Z"], "acb"),
        (["T10:00:00+02:00", "T09:00:00Z", "T08:30:00Z"], "acb"),
        (["T10:00:00.0005Z", "T10:00:00.0004Z", "T10:00:00Z"], "cba"),
    ],
    ids=["sorted", "ties", "partial tie", "no times", "follows its neighbour", "first stays", "offsets", "fractions"],
)
def test_events_of_a_case_are_sorted_by_time_and_ties_keep_their_order(tmp_path, times, expected):
    events = [event(kind, **({"ts": "2026-01-01" + t} if t else {})) for kind, t in zip("abc", times, strict=True)]
    dataset = load_dataset(save(tmp_path, {"cases": [{"caseId": "one", "events": events}]}))
    assert "".join(dataset.log[0].types) == expected
    assert "".join(e.type for e in dataset.cases[0].events) == expected


def test_missing_times_stay_unknown(tmp_path):
    log = load_dataset(save(tmp_path, {"cases": [case("one", "a", "b")]})).log
    assert log.instants.tolist() == [NO_INSTANT, NO_INSTANT]


def test_by_the_original_missing_times_are_made_up(tmp_path):
    """A day per case and a minute per event, from 2026-01-01."""
    log = load_dataset(save(tmp_path, {"cases": [case("one", "a", "b"), case("two", "c", "d")]}), parity=True).log
    expected = ["2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", "2026-01-02T00:00:00Z", "2026-01-02T00:01:00Z"]
    assert log.instants.tolist() == [parse_instant(t) for t in expected]


# -- repeated ids ----------------------------------------------------------------------------------------------


def test_two_cases_of_an_object_may_share_an_id(tmp_path):
    dataset = load_dataset(save(tmp_path, {"cases": [case("one", "a"), case("two", "b"), case("one", "c", "d")]}))
    assert sequences(dataset) == [("one", ("a",)), ("two", ("b",)), ("one", ("c", "d"))]


def test_two_events_may_share_an_id(tmp_path):
    twins = [event("a", eventId="e"), event("b", eventId="e")]
    dataset = load_dataset(save(tmp_path, {"cases": [{"caseId": "one", "events": twins}]}))
    assert sequences(dataset) == [("one", ("a", "b"))]


# -- what is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "case_id", "field"),
    [
        ({"cases": [case("one", "a"), case("none")]}, "none", "events"),
        ({"cases": []}, None, "cases"),
        ([], None, "cases"),
        ({"name": "x"}, None, "cases"),
        ({"cases": {"one": []}}, None, "cases"),
        ({"cases": [case("one", "a"), 5]}, "#2", None),
        ({"cases": [{"events": [event("a")]}]}, "#1", "caseId"),
        ({"cases": [{"caseId": 5, "events": [event("a")]}]}, "5", "caseId"),
        ({"cases": [{"caseId": "  ", "events": [event("a")]}]}, "#1", "caseId"),
        ({"cases": [{"caseId": "one", "events": "a"}]}, "one", "events"),
        ({"cases": [{"caseId": "one", "events": [event("a"), event(5)]}]}, "one", "events[1].type"),
        ({"cases": [{"caseId": "one", "events": [event(" ")]}]}, "one", "events[0].type"),
        ({"cases": [{"caseId": "one", "events": [event("a", outcome="maybe")]}]}, "one", "events[0].outcome"),
        ({"cases": [{"caseId": "one", "events": [event("a", ts="soon")]}]}, "one", "events[0].ts"),
        ({"cases": [case("one", "a", annotations=[])]}, "one", "annotations"),
        ({"cases": [case("one", "a", annotations={"workflowClass": 1})]}, "one", "annotations.workflowClass"),
        ([event("a", caseId="one"), event(5, caseId="one")], "one", "type"),
        ([event("a")], None, "caseId"),
        ([event("a", caseId=7)], None, "caseId"),
        ([3], None, None),
        ({"split": "half", "cases": [case("one", "a")]}, None, "split"),
        ({"notes": "x", "cases": [case("one", "a")]}, None, "notes"),
    ],
)
def test_what_is_wrong_is_named_by_case_and_field(tmp_path, content, case_id, field):
    error = refusal(save(tmp_path, content))
    assert (error.case, error.field) == (case_id, field)


@pytest.mark.parametrize("content", ["5", '"text"', "null"])
def test_a_file_of_something_else_is_refused(tmp_path, content):
    assert "an array of events" in refusal(save(tmp_path, content)).problem


@pytest.mark.parametrize(
    ("content", "name", "line"),
    [
        ('{"cases": [\n  {"caseId": "one",\n   "events": [', "data.json", 3),
        ('{"cases": [\n  {"caseId": "one",\n   "events": [\n\n', "data.json", 3),
        ('{"cases": [\n  {"caseId": one}\n]}', "data.json", 2),
        ('[\n{"caseId": "one", "type": "a"},\n{"caseId": "one", "type": "b"\n]', "data.json", 4),
        ("", "data.json", 1),
        ('{"caseId": "one", "type": "a"}\n\n{"caseId": "one", "ty', "data.jsonl", 3),
        ('{"caseId": "one", "type": "a"}\nnot json\n', "data.jsonl", 2),
    ],
    ids=["truncated", "blank lines behind", "not a value", "array", "empty", "last line cut", "not json"],
)
def test_broken_json_is_refused_with_its_line(tmp_path, content, name, line):
    error = refusal(save(tmp_path, content, name))
    assert error.line == line
    assert "broken JSON" in error.problem


@pytest.mark.parametrize("content", [b'{"cases": "\xff"}', b"[" * 200_000], ids=["not UTF-8", "nested too deeply"])
def test_unreadable_json_is_refused(tmp_path, content):
    assert "broken JSON" in refusal(save(tmp_path, content)).problem


@pytest.mark.parametrize(
    ("bad", "case_id", "field"),
    [
        ({"type": "b"}, None, "caseId"),
        ({"caseId": "one"}, "one", "type"),
        ({"caseId": "one", "type": 5}, "one", "type"),
    ],
)
def test_a_bad_line_is_named(tmp_path, bad, case_id, field):
    error = refusal(save(tmp_path, lines(event("a", caseId="one"), bad), "data.jsonl"))
    assert (error.line, error.case, error.field) == (2, case_id, field)


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_lines_without_events_are_refused(tmp_path, content):
    assert refusal(save(tmp_path, content, "data.jsonl")).field == "cases"


@pytest.mark.parametrize("name", ["data.yaml", "data", "data.txt.gz"])
def test_an_unknown_format_is_refused_with_the_option_to_give(tmp_path, name):
    assert "--format json|jsonl|csv|xes" in refusal(save(tmp_path, "[]", name)).problem


def test_a_format_that_does_not_exist_is_refused(tmp_path):
    error = refusal(save(tmp_path, "[]"), ImportOptions(format="yaml"))  # type: ignore[arg-type]
    assert "json, jsonl, csv, xes" in error.problem


def test_a_given_format_wins_over_the_suffix(tmp_path):
    path = save(tmp_path, lines(*INTERLEAVED), "events.log")
    assert sequences(load_dataset(path, ImportOptions(format="jsonl"))) == GROUPED


def test_a_folder_is_refused(tmp_path):
    assert "is a folder" in refusal(tmp_path).problem


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(SourceError, match="no such file"):
        load_dataset(tmp_path / "absent.json")


def test_damaged_compression_is_refused(tmp_path):
    packed = gzip.compress(json.dumps({"cases": [case("one", "a")]}).encode())
    with pytest.raises(SourceError, match="damaged"):
        load_dataset(save(tmp_path, packed[:-9], "data.json.gz"))


# -- CSV, XES and folders --------------------------------------------------------------------------------------


def test_csv_has_cases_and_no_annotations(tmp_path):
    dataset = load_dataset(save(tmp_path, "caseId,type\none,a\ntwo,b\none,c\n", "data.csv"))
    assert sequences(dataset) == [("one", ("a", "c")), ("two", ("b",))]
    assert (dataset.format, dataset.cases, dataset.group(0), dataset.annotations(1).blockers) == ("csv", (), None, ())


def test_xes_counts_what_it_skips(tmp_path):
    named = '<event><string key="concept:name" value="a"/></event>'
    trace = f'<trace><string key="concept:name" value="one"/>{named}<event/></trace>'
    dataset = load_dataset(save(tmp_path, f"<log>{trace}<trace/></log>", "data.xes"))
    assert sequences(dataset) == [("one", ("a",))]
    assert (dataset.format, dataset.skipped) == ("xes", {"unnamedEvents": 1, "emptyTraces": 1})


def trajectories(folder: Path, talks: dict[str, list[dict[str, object]]]) -> Path:
    """A folder of conversations, by relative path without suffix."""
    for name, talk in talks.items():
        path = folder / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"conversation": talk}))
    return folder


STATEBENCH = ImportOptions(format="statebench")
TALK: list[dict[str, object]] = [
    {"role": "user", "content": "please"},
    {"role": "assistant", "tool_calls": [{"name": "go", "result": {"error": "no"}}, {"name": "go", "result": {}}]},
    {"role": "user", "content": "and?"},
    {"role": "assistant", "content": "done"},
]


def test_trajectories_are_cases_of_their_domain(tmp_path):
    dataset = load_dataset(trajectories(tmp_path / "runs", {"travel/t2": [], "shop/t1": TALK}), STATEBENCH)
    asked = ("task.requested", "tool.go", "tool.go", "message.user", "message.assistant", "task.ended")
    assert sequences(dataset) == [("state-bench:shop:t1", asked), ("state-bench:travel:t2", ("task.ended",))]
    assert [dataset.group(i) for i in range(2)] == ["shop", "travel"]
    assert dataset.log.outcomes.tolist()[:3] == [UNKNOWN, FAILURE, SUCCESS]
    assert (dataset.name, dataset.format, len(dataset.cases)) == ("runs", "statebench", 2)


def test_the_hash_of_trajectories_depends_on_names_and_bytes_alone(tmp_path):
    one = load_dataset(trajectories(tmp_path / "one", {"shop/t1": TALK}), STATEBENCH)
    same = load_dataset(trajectories(tmp_path / "same", {"shop/t1": TALK}), STATEBENCH)
    renamed = load_dataset(trajectories(tmp_path / "renamed", {"shop/t2": TALK}), STATEBENCH)
    shorter = load_dataset(trajectories(tmp_path / "shorter", {"shop/t1": TALK[:1]}), STATEBENCH)
    assert same.sha256 == one.sha256
    assert len({one.sha256, renamed.sha256, shorter.sha256}) == 3


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b'{"conversation": "\xff"}',
        b"[]",
        b'{"conversation": 5}',
        b'{"conversation": [5]}',
        b'{"conversation": [{"role": "assistant", "tool_calls": [{}]}]}',
        b'{"conversation": [{"role": "assistant", "tool_calls": 5}]}',
        b'{"conversation": ' + b"[" * 200_000,
    ],
    ids=["truncated", "not UTF-8", "array", "no list", "no message", "no name", "no calls", "nested too deeply"],
)
def test_a_malformed_trajectory_is_refused_by_its_file(tmp_path, content):
    folder = trajectories(tmp_path, {"shop/fine": TALK})
    bad = save(folder / "shop", content, "bad.json")
    with pytest.raises(SourceError) as caught:
        load_dataset(folder, STATEBENCH)
    assert caught.value.file == str(bad)


def test_trajectories_are_a_folder_and_no_file(tmp_path):
    assert "folder" in refusal(save(tmp_path, "[]"), STATEBENCH).problem


def test_dataset_files_are_found_at_any_depth_in_collation_order(tmp_path):
    for name in ("b.json", "a-b.csv", "a_b.jsonl", "sub/deep/c.xes.gz", "B.ndjson", "notes.md", "x.json.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    found = [p.relative_to(tmp_path).as_posix() for p in dataset_files(tmp_path)]
    assert found == ["a_b.jsonl", "a-b.csv", "b.json", "B.ndjson", "sub/deep/c.xes.gz"]
