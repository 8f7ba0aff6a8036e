"""Which rows of a transcript lie on its active path.

Rows form a tree by their parents. Most branch points in real transcripts are not alternative work, but copies of
delivered texts and rewound heartbeats; a navigation row, a side write or a reset says where the path goes.
"""

from __future__ import annotations

from array import array

from sherpa.sources.openclaw.rows import Outline, Row, has_parent_key

_CANONICAL = frozenset(
    {
        "message",
        "thinking_level_change",
        "model_change",
        "compaction",
        "reset",
        "branch_summary",
        "custom",
        "custom_message",
        "label",
        "session_info",
    }
)
_ROOT = -1


class Tree:
    """Follows the leaf while rows come in, in the order of the file; afterwards names the rows off the path.

    Rows are known by their number. A row without a ``parentId`` continues the leaf; one whose parent is unknown hangs
    on the leaf too; after a reset, so does a row whose ancestors do not include the reset.
    """

    def __init__(self) -> None:
        self._number: dict[str, int] = {}
        self._parent = array("q")
        self._era = array("i")
        self._on_tree = bytearray()
        self._leaf = _ROOT
        self._resets = 0
        self._explicit = False
        self.branch_points = False

    def add(self, row: Row | Outline) -> None:
        """The next row of the file."""
        number = len(self._parent)
        kind = row.type
        side = row.append_mode == "side"
        if kind == "leaf":
            self._navigate(row)
            self._append(_ROOT, 0, False)
            return
        if kind not in _CANONICAL:
            self._append(_ROOT, 0, False)
            if isinstance(row.id, str) and kind != "session":
                self._number.setdefault(row.id, self._leaf)
            return
        parent = self._parent_of(row)
        era = self._era[parent] if parent != _ROOT else 0
        if kind == "reset":
            parent = self._leaf
            self._resets += 1
            era = self._resets
        elif self._resets and era != self._resets:
            parent = self._leaf
            era = self._resets
        if parent != self._leaf:
            self.branch_points = True
        self._append(parent, era, True)
        if isinstance(row.id, str):
            self._number.setdefault(row.id, number)
        if not side:
            self._leaf = number

    def _append(self, parent: int, era: int, on_tree: bool) -> None:
        self._parent.append(parent)
        self._era.append(era)
        self._on_tree.append(on_tree)

    def _parent_of(self, row: Row | Outline) -> int:
        if not has_parent_key(row):
            return self._leaf
        self._explicit = True
        if row.parent_id is None:
            return _ROOT
        known = self._number.get(row.parent_id) if isinstance(row.parent_id, str) else None
        return self._leaf if known is None else known

    def _navigate(self, row: Row | Outline) -> None:
        self._explicit = True
        if row.target_id is None:
            self._leaf = _ROOT
        elif isinstance(row.target_id, str) and row.target_id in self._number:
            self._leaf = self._number[row.target_id]
        if isinstance(row.id, str):
            appended = self._number.get(row.append_parent_id) if isinstance(row.append_parent_id, str) else None
            self._number.setdefault(row.id, self._leaf if appended is None else appended)

    def abandoned(self) -> frozenset[int]:
        """Numbers of the rows that are off the active path."""
        if not self._explicit:
            return frozenset()
        active = bytearray(len(self._parent))
        at = self._leaf
        while at != _ROOT and not active[at]:
            active[at] = 1
            at = self._parent[at]
        return frozenset(n for n, on_tree in enumerate(self._on_tree) if on_tree and not active[n])
