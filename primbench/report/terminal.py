"""Text for a terminal: no wider than it is, and columns that line up."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING

from primbench.report import fitting, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TextIO

WIDTH = 120  # at most, and where there is no terminal
USUAL = 80  # where a terminal does not tell
NARROWEST = 8  # characters in a column, at least
GAP = "  "


def width() -> int:
    """Characters in a line of the terminal, at most WIDTH."""
    return max(WIDTH // 3, min(WIDTH, shutil.get_terminal_size((WIDTH, 0)).columns))


def room(stream: TextIO | None = None) -> int | None:
    """Characters in a line of the terminal that a stream is, stdout if none is named; None in files and pipes, which
    nothing limits.
    """
    stream = stream or sys.stdout
    if not stream.isatty():
        return None
    named = os.environ.get("COLUMNS", "")
    of_terminal = os.get_terminal_size(stream.fileno()).columns or USUAL
    return max(WIDTH // 3, int(named) if named.isdecimal() else of_terminal)


def said(words: str, *, is_command: bool = False) -> str:
    """In lines of the terminal that stdout is, each after the first one indented; in files and pipes as it is."""
    most = room()
    return fitting.wrapped(words, most, is_command=is_command) if most else words


def paragraph(words: str, first: str = "", then: str | None = None) -> list[str]:
    """Lines of at most width() characters, unless a word is longer.

    first: what the first line begins with. then: what the others do; as much room, if None.
    """
    indent = " " * len(first) if then is None else then
    return textwrap.wrap(
        plain.printable(words), width(), initial_indent=first, subsequent_indent=indent,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def grid(rows: Sequence[Sequence[str]], most: int | None) -> Iterator[str]:
    """Lines in which the cells of a column stand below each other, of at most ``most`` characters, unless a word is
    longer; None limits nothing.

    The widest columns give way, their cells going on in the lines below. A cell with nothing to its right has the rest
    of the line for itself; what stands to the right of a word that is longer than its column begins below it.
    """
    count = max(map(len, rows), default=0)
    padded = [[*row, *[""] * (count - len(row))] for row in rows]
    natural = [max(map(len, column)) for column in zip(*padded, strict=True)]
    most = sum(natural) + len(GAP) * len(natural) if most is None else most
    widths = _fitted(natural, most)
    for row in padded:
        cells = [_wrapped(cell, each) for cell, each in zip(row, _room_of(row, widths, most), strict=True)]
        yield from _placed(cells, widths, most)


def _placed(cells: Sequence[Sequence[str]], widths: Sequence[int], most: int) -> list[str]:
    """The lines of a row: each cell in its column, farther left only where a word does not fit otherwise."""
    lines = [""]
    column = 0
    for cell, width in zip(cells, widths, strict=True):
        if any(cell):
            start = max(min(column, most - max(map(len, cell))), 0)
            first = next(n for n in itertools.count() if _is_free(lines[n:], start))
            lines += [""] * (first + len(cell) - len(lines))
            lines[first : first + len(cell)] = [
                line.ljust(start) + part for line, part in zip(lines[first:], cell, strict=False)
            ]
        column += width + len(GAP)
    return [line.rstrip() for line in lines]


def _is_free(lines: Sequence[str], start: int) -> bool:
    """Whether nothing stands there, from a column on and right before it."""
    return all(not line or len(line) + len(GAP) <= start for line in lines)


def _room_of(row: Sequence[str], widths: Sequence[int], most: int) -> list[int]:
    """The width that each cell may take: the last one that is not empty has what is left."""
    last = max((column for column, cell in enumerate(row) if cell), default=0)
    rest = most - sum(each + len(GAP) for each in widths[:last])
    return [rest if column == last else each for column, each in enumerate(widths)]


def _fitted(natural: Sequence[int], most: int) -> list[int]:
    """Column widths that fit ``most`` characters; the first column, of names, is narrowed last."""
    room = most - len(GAP) * (len(natural) - 1)
    names = min(natural[0], room - sum(min(each, NARROWEST) for each in natural[1:])) if natural else 0
    limit = max(natural, default=0)
    while limit > NARROWEST and names + sum(min(each, limit) for each in natural[1:]) > room:
        limit -= 1
    return [names, *(min(each, limit) for each in natural[1:])]


def _wrapped(cell: str, most: int) -> list[str]:
    indent = " " * (len(cell) - len(cell.lstrip()))
    return textwrap.wrap(
        cell, max(most, NARROWEST), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ) or [""]
