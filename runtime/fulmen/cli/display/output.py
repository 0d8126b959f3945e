"""Prints the command's tables and lines so that they fit."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console, ConsoleOptions
from rich.table import Table
from rich.text import Text

NO_LIMIT = 10_000
"""Columns of what is not a terminal: a file or a pipe has no edge to cut lines at."""
_LEAST_NAME = 8
_GAP = 2


def open_console(stream: TextIO | None = None) -> Console:
    """A console for a stream, by default stdout, as wide as its terminal if it is one."""
    stream = stream or sys.stdout
    width = None if stream.isatty() else NO_LIMIT
    return Console(file=stream, highlight=False, markup=False, width=width)


def plain_table() -> Table:
    """A table without lines."""
    return Table(box=None, padding=(0, 1), pad_edge=False, header_style="dim")


@dataclass(frozen=True)
class FiguresTable:
    """A table with a name in the first column, and figures in all others.

    Where there is too little room, names are shortened, then columns are left out. A figure is
    never cut.

    Attributes:
        title: The title of the column of names.
        names: The name in each line.
        columns: The figures of each column, by its title.
        dispensable: Titles of columns that may be left out, the first one first.
    """

    title: str
    names: Sequence[Text]
    columns: Mapping[str, Sequence[str | Text]]
    dispensable: Sequence[str] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        """The table that fits into the room there is."""
        widths = {
            title: max(len(title), *(len(cell) for cell in cells))
            for title, cells in self.columns.items()
        }
        longest = max(len(self.title), *(len(name) for name in self.names))
        least = min(longest, max(_LEAST_NAME, len(self.title)))
        for title in self.dispensable:
            if least + sum(widths.values()) + _GAP * len(widths) <= options.max_width:
                break
            widths.pop(title, None)
        table = plain_table()
        table.add_column(self.title)
        for title, width in widths.items():
            table.add_column(title, justify="right", no_wrap=True, min_width=width)
        for i, name in enumerate(self.names):
            table.add_row(shortened(name), *(self.columns[title][i] for title in widths))
        yield table


def shortened(text: Text) -> Text:
    """Text of a column that may be made narrower than it is, so that numbers stay whole."""
    return Text(text.plain, text.style, no_wrap=True, overflow="ellipsis")
