"""Tables on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text


def share(value: float | None) -> str:
    """A share as a percentage; a dash where it is not measured."""
    return "-" if value is None else f"{100 * value:.1f} %"


def table(console: Console, title: str, head: Sequence[str], rows: Sequence[Sequence[str]], *, footer: int = 0) -> None:
    """Draw a table; the first column is text, the last `footer` rows are set apart."""
    drawn = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for at, name in enumerate(head):
        numeric = at > 0 and all(_is_number(row[at]) for row in rows)
        drawn.add_column(Text(name), justify="right" if numeric else "left", overflow="fold", no_wrap=numeric)
    for at, row in enumerate(rows):
        drawn.add_row(*(Text(cell) for cell in row), end_section=at == len(rows) - footer - 1)
    console.print(drawn)


def _is_number(cell: str) -> bool:
    return not cell or cell == "-" or cell[0].isdigit()


def pairs(console: Console, title: str, rows: Sequence[tuple[str, object]]) -> None:
    """Draw names and values."""
    drawn = Table(title=Text(title), title_justify="left", box=None, show_header=False, pad_edge=False)
    for name, value in rows:
        drawn.add_row(Text(name, style="dim"), Text(str(value), overflow="fold"))
    console.print(drawn)


@contextmanager
def progress(console: Console, *, enabled: bool) -> Iterator[Callable[[str, int], Callable[[int], None]]]:
    """A progress bar per task on stderr; silent unless it is a terminal."""
    if not enabled or not console.is_terminal:
        yield lambda _name, _total: lambda _done: None
        return
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    with bars:

        def watch(name: str, total: int) -> Callable[[int], None]:
            task = bars.add_task(name, total=total)
            return lambda done: bars.advance(task, done)

        yield watch
