"""The active path of a transcript."""

from __future__ import annotations

from typing import Any

import msgspec

from sherpa.sources.openclaw.rows import Outline
from sherpa.sources.openclaw.tree import Tree


def abandoned(*rows: dict[str, Any]) -> set[int]:
    tree = Tree()
    for row in rows:
        tree.add(msgspec.convert({"type": "message", **row}, Outline))
    return set(tree.abandoned())


def test_a_chain_is_active() -> None:
    assert not abandoned({"id": "a", "parentId": None}, {"id": "b", "parentId": "a"}, {"id": "c", "parentId": "b"})


def test_without_any_tree_every_row_is_active() -> None:
    assert not abandoned({"id": "a"}, {"id": "b"}, {"id": "c"})


def test_the_last_row_is_the_leaf() -> None:
    rows = [{"id": "a", "parentId": None}, {"id": "b", "parentId": "a"}, {"id": "c", "parentId": "a"}]
    assert abandoned(*rows) == {1}


def test_a_side_write_does_not_move_the_leaf() -> None:
    rows = [
        {"id": "a", "parentId": None},
        {"id": "side", "parentId": "a", "appendMode": "side"},
        {"id": "b", "parentId": "a"},
    ]
    assert abandoned(*rows) == {1}
    assert abandoned(*rows[:2]) == {1}


def test_a_navigation_row_sets_the_leaf() -> None:
    rows = [
        {"id": "a", "parentId": None},
        {"id": "b", "parentId": "a"},
        {"id": "c", "parentId": "b"},
        {"type": "leaf", "id": "n", "targetId": "a"},
    ]
    assert abandoned(*rows) == {1, 2}
    # What hangs on the navigation row hangs on its target.
    assert abandoned(*rows, {"id": "d", "parentId": "n"}) == {1, 2}
    assert abandoned(*rows, {"id": "d"}) == {1, 2}


def test_a_navigation_to_nowhere_changes_nothing() -> None:
    rows = [{"id": "a", "parentId": None}, {"id": "b", "parentId": "a"}, {"type": "leaf", "id": "n", "targetId": "x"}]
    assert not abandoned(*rows)
    assert not abandoned(*rows, {"id": "c", "parentId": "n"})


def test_an_unknown_parent_is_the_leaf() -> None:
    assert not abandoned({"id": "a", "parentId": "gone"}, {"id": "b", "parentId": "a"}, {"id": "c", "parentId": "gone"})


def test_after_a_reset_rows_hang_on_it() -> None:
    rows = [
        {"id": "a", "parentId": None},
        {"id": "b", "parentId": "a"},
        {"type": "reset", "id": "r", "parentId": "b"},
        {"id": "c", "parentId": "a"},
        {"id": "d", "parentId": "c"},
    ]
    assert not abandoned(*rows)
    assert abandoned(*rows[:2], *rows[3:]) == {1}


def test_a_row_of_an_unknown_kind_is_transparent() -> None:
    rows = [{"id": "a", "parentId": None}, {"type": "novel", "id": "n", "parentId": "a"}, {"id": "b", "parentId": "n"}]
    assert not abandoned(*rows)


def test_the_header_is_not_part_of_the_tree() -> None:
    assert not abandoned({"type": "session", "id": "s"}, {"id": "a", "parentId": None})


def test_a_row_that_hangs_on_itself_ends() -> None:
    assert not abandoned({"id": "a", "parentId": "a"}, {"id": "b", "parentId": "a"})
