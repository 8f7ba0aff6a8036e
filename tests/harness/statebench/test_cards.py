"""Cards say what was seen; labels, names of tasks and values of customers stay out of the artefact."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.statebench.build import LeakError, build, read_runs
from harness.statebench.cards import BUDGET, tokens
from harness.statebench.policies import Rule, read_policies
from harness.statebench.redaction import Redactor
from harness.statebench.trajectories import Call, Trajectory
from sherpa.cli.main import app


def policy(topic: str, rules: Any, place: int = 0, **more: str) -> Trajectory:
    result = {"topic": topic, "rules": rules} | {f"applicable_{name}": value for name, value in more.items()}
    return Trajectory("d", place, "", (), (), (Call("get_policies", {"topic": topic, **more}, result, 0, False),))


def conversation(opening: str, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"role": "system", "content": "You serve customer cust_004."},
        {"role": "user", "content": opening},
        {"role": "assistant", "content": "Done.", "tool_calls": calls},
        {"role": "user", "content": "[TASK_DONE]"},
    ]


CANCEL = {"order_id": "ORD-7512", "reason": "late"}
CALLS = [
    {"name": "get_order", "arguments": {"order_id": "ORD-7512"}, "result": {"order_id": "ORD-7512"}},
    {"name": "get_order", "arguments": {"order_id": "ORD-7512"}, "result": {"order_id": "ORD-7512"}},
    {"name": "cancel_order", "arguments": CANCEL | {"confirm": False}, "result": {"status": "preview"}},
    {
        "name": "cancel_order",
        "arguments": CANCEL | {"confirm": True},
        "result": {"status": "rejected", "reason": "Order ORD-7512 has shipped"},
    },
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One run, with labels planted beside the conversation and in the name of the file."""
    planted = {"task_id": "PLANTED_ID", "state_requirements": ["PLANTED_LABEL"], "task_type": "PLANTED_TYPE"}
    run = {"conversation": conversation("Cancel ORD-7512, it is late.", CALLS), **planted}
    path = tmp_path / "train" / "support" / "PLANTED_NAME.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(run))
    return tmp_path / "train"


def test_a_card_says_what_was_seen_and_no_more(folder: Path) -> None:
    (card,) = build(read_runs(folder))["learnings"]
    assert card["text"].splitlines() == [
        'Observed support run; its result was not checked. Request: "Cancel [id], it is late."',
        "Tool path: get_order x2 > cancel_order.preview > cancel_order.confirm.",
        'Refused there: cancel_order.confirm ("Order [id] has shipped").',
        "Nothing was changed.",
        "1 identical call was made again there.",
    ]
    assert card["path"] == ["get_order", "cancel_order.preview", "cancel_order.confirm"]
    assert card["provenance"] == [{"run": 0, "field": "conversation"}]


def test_labels_and_names_of_files_do_not_reach_the_artefact(folder: Path) -> None:
    labelled = json.dumps(build(read_runs(folder)))
    assert "PLANTED" not in labelled
    path = folder / "support" / "PLANTED_NAME.json"
    path.write_text(json.dumps({"conversation": json.loads(path.read_text())["conversation"]}))
    path.rename(path.with_name("another.json"))
    assert json.dumps(build(read_runs(folder))) == labelled


def test_a_value_that_survives_stops_the_build(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Redactor, "redact", lambda self, text, **_: text)
    with pytest.raises(LeakError, match=r"card support/run/000, text: id 'ORD-7512' survived masking"):
        build(read_runs(folder))


def test_lines_of_a_policy_are_kept_once() -> None:
    rules = {"fee": {"base": "A fee of $8.", "gold": "None."}, "windows": ["30 days", "15 days"]}
    assert read_policies([policy("returns", rules), policy("returns", rules, place=3)]) == {
        "returns": [
            Rule("fee.base", "A fee of $8.", (), (0, 3)),
            Rule("fee.gold", "None.", (), (0, 3)),
            Rule("windows", "30 days", (), (0, 3)),
            Rule("windows", "15 days", (), (0, 3)),
        ]
    }


def test_lines_that_differ_say_for_whom_they_hold() -> None:
    answers = [
        policy("cancel", {"when": "Within a day.", "fee": "$100"}, cabin="basic"),
        policy("cancel", {"when": "Within a day.", "fee": "$0"}, place=1, cabin="first"),
        policy("cancel", {"when": "Within a day.", "fee": "$0"}, place=2, cabin="business"),
    ]
    when, basic, other = read_policies(answers)["cancel"]
    assert when == Rule("when", "Within a day.", (), (0, 1, 2))
    assert basic == Rule("fee", "$100", ("cabin basic",), (0,))
    assert other == Rule("fee", "$0", ("cabin first", "cabin business"), (1, 2))
    assert other.line() == "fee [cabin first; cabin business]: $0"


def test_money_in_a_policy_is_a_fact() -> None:
    (card, _) = build([policy("returns", "A fee of $8.")])["learnings"]
    assert card["text"] == "Policy 'returns' of d, as get_policies gave it:\nrule: A fee of $8."


def test_a_long_policy_is_cut_between_its_lines() -> None:
    rules = {f"rule{number}": "word " * 20 + "end" for number in range(20)}
    cards = [card for card in build([policy("long", rules)])["learnings"] if card["kind"] == "policy"]
    lines = [line for card in cards for line in card["text"].splitlines()[1:]]
    assert lines == [f"rule{number}: " + "word " * 20 + "end" for number in range(20)]
    assert len(cards) > 1
    assert all(tokens(card["text"]) <= BUDGET for card in cards)


@pytest.mark.parametrize(("text", "expected"), [("", 0), ("abcd", 1), ("abcde", 2)])
def test_tokens_are_estimated_by_length(text: str, expected: int) -> None:
    assert tokens(text) == expected


def test_the_command_writes_the_same_bytes_twice(folder: Path, tmp_path: Path) -> None:
    written = []
    for name in ("a.json", "b.json"):
        arguments = ["statebench", "build-learnings", "--train-dir", str(folder), "--output", str(tmp_path / name)]
        result = CliRunner().invoke(app, [*arguments, "--json"])
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["counts"]["cards"] == {"trajectory": 1}
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1]


def test_a_folder_without_runs_is_an_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["statebench", "build-learnings", "--train-dir", str(tmp_path)])
    assert result.exit_code == 2
    assert "holds no domains with runs" in result.stderr


def test_all_training_runs(data: Path) -> None:
    runs = read_runs(data / "statebench-train")
    artefact = build(runs)
    assert artefact["counts"]["cards"]["trajectory"] == len(runs) == 300
    cards = artefact["learnings"]
    assert all(card["tokens"] <= BUDGET for card in cards)
    assert len({card["id"] for card in cards}) == len(cards)
    # Topics of which specs and runs agree that they were looked up: 6 of support, 11 of shopping, 7 of travel.
    topics = {(card["domain"], card["id"].split("/")[2]) for card in cards if card["kind"] == "policy"}
    assert [sum(domain == name for domain, _ in topics) for name in ("customer_support", "shopping_assistant")] == [
        6,
        11,
    ]
    assert sum(domain == "travel" for domain, _ in topics) == 7
    stems = {path.stem for path in (data / "statebench-train").glob("*/*.json")}
    text = json.dumps(artefact)
    assert not [stem for stem in stems if len(stem) > 4 and stem in text]
