"""A table in a line's width: what all rows share above it, names on lines of their own, columns below each other."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from primbench.report.signs import cell_in_colour

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

GAP = "  "
INDENT = "  "
NARROWEST_TEXT = 16  # characters that a last column of words is given before columns go on below
LONGEST_BESIDE = 20  # characters of a name that is repeated with the columns that go on below
ROW = "row"
"""Heading of the numbers by which notes cite rows."""

Rows = list[list[str]]
"""The headings first."""


def wrapped(text: str, most: int, *, is_command: bool = False) -> str:
    """Lines of at most ``most`` characters, unless a word is longer; those of a command go on after a backslash."""
    return "\n".join(_wrapped(line, most, is_command=is_command) for line in text.split("\n"))


def _wrapped(line: str, most: int, *, is_command: bool) -> str:
    if len(line) <= most:
        return line
    if is_command:
        whole = re.sub("'[^']*'|\"[^\"]*\"", lambda quoted: quoted[0].replace(" ", "\0"), line)
        return f" \\\n{INDENT}".join(_parts(whole, most - len(INDENT) - len(" \\"))).replace("\0", " ")
    return f"\n{INDENT}".join(_parts(line, most - len(INDENT)))


def _parts(text: str, most: int) -> list[str]:
    return textwrap.wrap(text, max(1, most), break_long_words=False, break_on_hyphens=False) or [""]


def fitted(rows: Rows, most: int) -> Iterator[str]:
    """Lines of at most ``most`` characters, unless a word is longer.

    What all rows share stands above them where they are too wide. Where they still are, the words of the last column go
    on in the next line, then a first column of long names has lines of its own, then columns go on below by the number
    of their row.
    """
    if _width(rows) > most:
        shared, rows = _apart(rows, most)
        yield from shared
    yield from _beside(rows, most) or _named(rows, most) or _below(rows, most)


def _apart(rows: Rows, most: int) -> tuple[list[str], Rows]:
    """Lines of what all rows share, if they share any, and the other columns.

    What the last column says is among it where it is a word and its room is needed.
    """
    shared = _shared(rows)
    if not shared:
        return [], rows
    left = _only([number for number in range(len(rows[0])) if number not in shared], rows)
    if _width(left) > most and _is_one_word([row[-1] for row in rows[1:]]):
        shared |= {len(rows[0]) - 1: rows[1][-1]}
        left = [[*row[:-1], ""] for row in left]
    words = ", ".join(f"{rows[0][number]} {cell}" for number, cell in shared.items())
    return wrapped(f"all rows: {words}", most).split("\n"), left


def _is_one_word(cells: Sequence[str]) -> bool:
    return len(set(cells)) == 1 and " " not in cells[0]


def _width(rows: Rows) -> int:
    return sum(_widths(rows)) + len(GAP) * (len(rows[0]) - 1)


def _shared(rows: Rows) -> dict[int, str]:
    """Each column but the last that says the same in all of several rows, and what."""
    columns = list(zip(*rows[1:], strict=True))[:-1] if len(rows) > 2 else []
    return {number: cells[0] for number, cells in enumerate(columns) if cells[0] and len(set(cells)) == 1}


def _only(columns: Iterable[int], rows: Rows) -> Rows:
    kept = list(columns)
    return [[row[number] for number in kept] for row in rows]


def _widths(rows: Rows) -> list[int]:
    return [max(map(len, cells)) for cells in zip(*rows, strict=True)]


def _beside(rows: Rows, most: int) -> list[str]:
    """The lines of all columns beside each other; none where they do not fit."""
    return [line for lines in _lines(rows, most) for line in lines]


def _lines(rows: Rows, most: int) -> list[list[str]]:
    """Of each row; the last column, of words, has what is left. None where that is too little."""
    *widths, last = _widths(rows)
    room = most - sum(widths) - len(GAP) * len(widths)
    words = [len(word) for row in rows for word in row[-1].split()]
    if room < min(last, max(NARROWEST_TEXT, *words, 0)):
        return []
    return [list(_row(row, widths, room)) for row in rows]


def _row(row: Sequence[str], widths: Sequence[int], room: int) -> Iterator[str]:
    first, *others = _parts(row[-1], room)
    before = [cell.rjust(width) for cell, width in zip(row, widths, strict=False)]
    yield GAP.join([*before, cell_in_colour(first, row[-1])]).rstrip()
    indent = " " * (sum(widths) + len(GAP) * len(widths))
    yield from (cell_in_colour(indent + other, row[-1]) for other in others)


def _named(rows: Rows, most: int) -> list[str]:
    """Each first cell above the others of its row; none where those do not fit, or the first are short."""
    if len(rows[0]) < 2 or _widths(rows)[0] <= LONGEST_BESIDE:
        return []
    others = _lines([row[1:] for row in rows], most - len(INDENT))
    return [
        line
        for row, lines in zip(rows, others, strict=False)
        for line in [*([wrapped(row[0], most)] if row[0] else []), *(INDENT + each for each in lines)]
    ]


def _below(rows: Rows, most: int) -> list[str]:
    """As many columns beside each other as fit, the next ones below them, each time with the number of the row."""
    has_numbers = rows[0][0] == ROW or len(rows) == 2
    numbered = rows if has_numbers else [[ROW, *rows[0]], *([str(n), *row] for n, row in enumerate(rows[1:], 1))]
    first = [] if len(rows) == 2 else [0]
    found, group = [], first
    for number in range(len(first), len(numbered[0])):
        if group != first and not _lines(_taken([*group, number], numbered), most):
            found += _block(group, numbered, most)
            group = first
        group = [*group, number]
    return [*found, *_block(group, numbered, most)]


def _taken(columns: list[int], rows: Rows) -> Rows:
    """Some of the columns; only the last one of all is of words that may go on in the next line."""
    found = _only(columns, rows)
    return found if columns[-1] == len(rows[0]) - 1 else [[*row, ""] for row in found]


def _block(columns: list[int], rows: Rows, most: int) -> list[str]:
    """Some of the columns, however long their words are."""
    beside = _beside(_taken(columns, rows), most) or _beside(_only(columns, rows), most)
    if beside:
        return beside
    found = _only(columns, rows)
    return [line for row in found for line in _row(row, _widths(found)[:-1], NARROWEST_TEXT)]
