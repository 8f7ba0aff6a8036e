"""Which way past cases are found: by looking through them, or by an index that is kept up to date.

The index lies beside the graph as ``cases.index``. It is derived, made when it is first needed, and thrown away when a
case is forgotten or the graph is derived again.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from sherpa.branches import CaseFinder, PastCase, Scan
from sherpa.errors import SourceError

if TYPE_CHECKING:
    from sherpa.caseindex import CaseIndex
    from sherpa.store import GraphStore

FILE = "cases.index"
WORTH = 500
"""Events from which on an index pays."""
_MOST_CHANGED, _SHARE = 300, 20


class Finding:
    """Finds past cases of one graph.

    Parameters
    ----------
    store : GraphStore
    worth : int
        Events from which on an index is made.
    """

    def __init__(self, store: GraphStore, *, worth: int = WORTH) -> None:
        self._store = store
        self._worth = worth
        self._path = store.path.with_name(FILE)
        self._index: CaseIndex | None = None
        self._stamp: list[str] = []
        self._row = 0
        self._order = 0

    def finder(self, order: int) -> CaseFinder:
        """What finds cases by states of up to `order` types; call it inside a snapshot of the store."""
        store = self._store
        last = store.last_row()
        if last < self._worth:
            return Scan(store)
        stamp = [*store.generation(), str(order)]
        if stamp != self._stamp:
            self._open(stamp, order, last)
        if self._index is not None and last > self._row:
            self._follow(stamp, order, last)
        return Scan(store) if self._index is None else self._index

    def discard(self) -> None:
        """Throw the index away: a case is forgotten, or everything is derived anew."""
        self._index, self._stamp = None, []
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _open(self, stamp: list[str], order: int, last: int) -> None:
        from sherpa.indexfile import read_index

        self._stamp, self._index = stamp, None
        found = read_index(self._path)
        if found is not None and found[1][:-1] == stamp and int(found[1][-1]) <= last:
            self._index, self._row = found[0], int(found[1][-1])
        else:
            self._make(stamp, order, last)

    def _make(self, stamp: list[str], order: int, last: int) -> None:
        from sherpa.caseindex import CaseIndex
        from sherpa.indexfile import write_index

        self._index, self._row = CaseIndex.build(self._store.case_log(), order), last
        if self._index is not None:
            with suppress(SourceError):  # a disk that takes no file: it is made again next time
                write_index(self._path, self._index, [*stamp, str(last)])

    def _follow(self, stamp: list[str], order: int, last: int) -> None:
        """Take in what came since."""
        assert self._index is not None
        names = self._store.cases_since(self._row)
        changed = self._index.changed
        if len(changed.keys() | set(names)) > max(_MOST_CHANGED, len(self._index.case_ids) // _SHARE):
            self._make(stamp, order, last)
            return
        for name in names:
            changed[name] = PastCase(name, self._store.case_outcome(name), self._store.case_types(name))
        self._row = last
