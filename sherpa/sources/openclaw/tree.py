"""Which rows of a transcript lie on its active path.

Rows form a tree by their parents. Most branch points in real transcripts are not alternative work, but copies of
delivered texts and rewound heartbeats; a navigation row, a side write or a reset says where the path goes.
"""

from __future__ import annotations

from array import array

from sherpa.sources.openclaw.rows import Outline, has_parent_key

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
_ROOT, _OFF = -1, -2
"""Parents of a row that hangs on nothing, and of a row that is not part of the tree."""


class _Places:
    """Number of the row that has an id. Nearly every row hangs on the one before it, so that ids are seldom looked
    up: they are kept as hashes, eight bytes a row, and indexed when somebody asks."""

    def __init__(self) -> None:
        self._hashes = array("q")
        self._index: dict[int, int] = {}
        self._indexed = 0

    def put(self, name: object, number: int) -> None:
        """The next row; its number is how many there were before."""
        self._hashes.append(hash(name) if isinstance(name, str) else -number - 2)

    def alias(self, name: object, number: int) -> None:
        """Let an id stand for another row."""
        if isinstance(name, str):
            self._bring_up()
            self._index.setdefault(hash(name), number)

    def get(self, name: object) -> int | None:
        if not isinstance(name, str):
            return None
        self._bring_up()
        return self._index.get(hash(name))

    def _bring_up(self) -> None:
        for at in range(self._indexed, len(self._hashes)):
            self._index.setdefault(self._hashes[at], at)
        self._indexed = len(self._hashes)


class Tree:
    """Follows the leaf while rows come in, in the order of the file; afterwards names the rows off the path.

    Rows are known by their number. A row without a ``parentId`` continues the leaf; one whose parent is unknown hangs
    on the leaf too; after a reset, so does a row whose ancestors do not include the reset.
    """

    def __init__(self) -> None:
        self._places = _Places()
        self._parent = array("q")
        self._era = array("i")
        self._leaf = _ROOT
        self._leaf_id: object = None
        self._resets = 0
        self._explicit = False
        self._branched = False

    def add(self, row: Outline) -> None:
        """The next row of the file."""
        number = len(self._parent)
        if row.type not in _CANONICAL:
            self._parent.append(_OFF)
            self._era.append(0)
            self._places.put(None, number)
            if row.type == "leaf":
                self._navigate(row)
            elif row.type != "session":
                # What hangs on a row of an unknown kind continues from before it.
                self._places.alias(row.id, self._leaf)
            return
        leaf = self._leaf
        if row.parent_id is not None and row.parent_id == self._leaf_id:
            parent = leaf
            self._explicit = True
        else:
            parent = self._parent_of(row)
            self._explicit = self._explicit or has_parent_key(row)
        era = self._era[parent] if parent >= 0 else 0
        if row.type == "reset":
            parent = leaf
            self._resets += 1
        elif era != self._resets:
            parent = leaf
        if parent != leaf:
            self._branched = True
        self._parent.append(parent)
        self._era.append(self._resets)
        self._places.put(row.id, number)
        if row.append_mode == "side":
            self._branched = True
        else:
            self._leaf, self._leaf_id = number, row.id

    def _parent_of(self, row: Outline) -> int:
        if not has_parent_key(row):
            return self._leaf
        if row.parent_id is None:
            return _ROOT
        known = self._places.get(row.parent_id)
        return self._leaf if known is None else known

    def _navigate(self, row: Outline) -> None:
        self._explicit = self._branched = True
        if row.target_id is None:
            self._leaf, self._leaf_id = _ROOT, None
        else:
            target = self._places.get(row.target_id)
            if target is not None:
                self._leaf, self._leaf_id = target, row.target_id
        appended = self._places.get(row.append_parent_id)
        self._places.alias(row.id, self._leaf if appended is None else appended)

    def abandoned(self) -> frozenset[int]:
        """Numbers of the rows that are off the active path."""
        if not self._explicit or not self._branched:
            return frozenset()
        active = bytearray(len(self._parent))
        at = self._leaf
        while at >= 0 and not active[at]:
            active[at] = 1
            at = self._parent[at]
        return frozenset(n for n, parent in enumerate(self._parent) if parent != _OFF and not active[n])
