"""Formats tables for terminals and pipes. Invariant: no cell is cut off. A wide table has folded texts, or folded lines if numbers leave
no room."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final

import attrs
from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions
from rich.segment import Segment
from rich.style import Style

__all__ = ["Table"]

NUMBERS: Final = {"partition", "committed", "end", "lag", "current", "new", "members", "coordinator", "partitions"} | {
    *("iterations", "rate"),  # columns of users and quotas
    *("replication", "epoch"),  # columns of topics
    *("records", "records/s", "MB/s", "CPU/record", "p50", "p99", "p99.9"),  # columns of bench
    *("broker", "node", "port", "level", "lowest", "highest", "size", "free", "volume"),  # columns of the cluster
    *("producer", "sequence"),  # columns of transactions
}
LEAST: Final = 5  # columns of the terminal; a folded text has at least this many
GAP: Final = "  "
HEADING, FAILED = Style(bold=True), Style(color="red")


@attrs.frozen
class Table:
    """A table without lines between its columns. `failed` has the numbers of rows with an error.

    The tables of `rich` measure and wrap each cell several times, which takes minutes for the partitions of many groups.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    failed: frozenset[int] = frozenset()
    title: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        limit = options.max_width
        heading = [column.upper() for column in self.columns]
        widths = self._widths([heading, *self.rows], limit)
        if self.title:
            yield from (Segment(self.title), Segment.line(), Segment.line())
        for number, row in enumerate([heading, *self.rows], -1):
            style = HEADING if number < 0 else FAILED if number in self.failed else None
            for line in self._lines(row, widths, limit):
                yield from (Segment(line, style), Segment.line())

    def _widths(self, rows: Iterable[Sequence[str]], limit: int) -> list[int]:
        """The width of each column: the widest texts give way, unless numbers leave texts no room."""
        found = [max(map(cell_len, cells)) for cells in zip(*rows)]
        texts = [index for index, column in enumerate(self.columns) if column not in NUMBERS]
        room = limit - len(GAP) * (len(found) - 1)
        if sum(min(width, LEAST) if index in texts else width for index, width in enumerate(found)) > room:
            return found
        while sum(found) > room:  # take one column of the terminal at a time, from the text that is the widest now
            found[max(texts, key=found.__getitem__)] -= 1
        return found

    def _lines(self, row: Sequence[str], widths: Sequence[int], limit: int) -> Iterator[str]:
        for parts in zip_longest(*map(_folded, row, widths), fillvalue=""):
            line = GAP.join(map(_padded, self.columns, parts, widths)).rstrip()
            yield from _folded(line, limit)


def _folded(text: str, width: int) -> list[str]:
    return [text] if cell_len(text) <= width else chop_cells(text, width)


def _padded(column: str, text: str, width: int) -> str:
    space = " " * (width - cell_len(text))
    return space + text if column in NUMBERS else text + space
