"""Text for a terminal: no wider than it is, and columns that line up."""

from __future__ import annotations

import itertools
import re
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WIDTH = 120  # at most, and where there is no terminal
NARROWEST = 8  # characters in a column, at least
GAP = "  "


def width() -> int:
    """Characters in a line of the terminal, at most WIDTH."""
    return max(WIDTH // 3, min(WIDTH, shutil.get_terminal_size((WIDTH, 0)).columns))


def room() -> int | None:
    """Characters in a line of the terminal that stdout is; None in files and pipes, which nothing limits."""
    return max(WIDTH // 3, shutil.get_terminal_size().columns) if sys.stdout.isatty() else None


def grid(rows: Sequence[Sequence[str]], most: int) -> Iterator[str]:
    """Lines of at most ``most`` characters, in which the cells of a column stand below each other.

    The widest columns give way, their cells going on in the lines below. A cell with nothing to its right has the rest
    of the line for itself.
    """
    count = max(map(len, rows), default=0)
    padded = [[*row, *[""] * (count - len(row))] for row in rows]
    widths = _fitted([max(map(len, column)) for column in zip(*padded, strict=True)], most)
    for row in padded:
        cells = [_wrapped(cell, each) for cell, each in zip(row, _room_of(row, widths, most), strict=True)]
        for line in itertools.zip_longest(*cells, fillvalue=""):
            yield GAP.join(part.ljust(each) for part, each in zip(line, widths, strict=True)).rstrip()


def _room_of(row: Sequence[str], widths: Sequence[int], most: int) -> list[int]:
    """The width that each cell may take: the last one that is not empty has what is left."""
    last = max((column for column, cell in enumerate(row) if cell), default=0)
    rest = most - sum(each + len(GAP) for each in widths[:last])
    return [rest if column == last else each for column, each in enumerate(widths)]


def _fitted(natural: Sequence[int], most: int) -> list[int]:
    """Column widths that fit ``most`` characters; the first column, of names, is narrowed last."""
    room = most - len(GAP) * (len(natural) - 1)
    names = min(natural[0], room - NARROWEST * (len(natural) - 1)) if natural else 0
    limit = max(natural, default=0)
    while limit > NARROWEST and names + sum(min(each, limit) for each in natural[1:]) > room:
        limit -= 1
    return [names, *(min(each, limit) for each in natural[1:])]


class _Wrapper(textwrap.TextWrapper):
    """Breaks lines at spaces, and behind the slashes of a path and the commas of a list."""

    wordsep_simple_re = re.compile(r"(\s+)|(?<=\S[/,])(?=\S)")

    def _split(self, text: str) -> list[str]:
        return list(filter(None, self.wordsep_simple_re.split(text)))


def _wrapped(cell: str, most: int) -> list[str]:
    indent = " " * (len(cell) - len(cell.lstrip()))
    return _Wrapper(max(most, NARROWEST), subsequent_indent=indent, break_on_hyphens=False).wrap(cell) or [""]
