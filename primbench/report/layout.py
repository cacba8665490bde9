"""Words in a line's width, of tables, lists and notes, and in colour where that is shown.

Of a table, what all rows share stands above it, long names on lines of their own, columns that do not fit below each
other; the cells of a list go on in lines below.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TextIO

    from primbench.report.document import Look

WIDTH = 120  # at most, and where there is no terminal
USUAL = 80  # where a terminal does not tell
INDENT = "  "
_BOLD, _RED, _GREEN, _YELLOW, _BLUE = 1, 31, 32, 33, 34  # ECMA-48, SGR
STYLES: dict[Look | Literal["fine", "untold"], tuple[int, ...]] = {
    "worse": (_BOLD, _RED),
    "better": (_BOLD, _BLUE),
    "alike": (_GREEN,),
    "fine": (_BOLD, _GREEN),
    "open": (_YELLOW,),
    "untold": (_BOLD, _YELLOW),
}
GAP = "  "
NARROWEST = 8  # characters in a column of a list, at least
NARROWEST_TEXT = 16  # characters that a last column of words is given before columns go on below
LONGEST_BESIDE = 20  # characters of a name that is repeated with the columns that go on below
ROW = "row"
"""Heading of the numbers by which notes cite rows."""


class StyledCell(NamedTuple):
    """Words of a table, and how they look where there is colour."""

    words: str
    look: Look | None = None


EMPTY = StyledCell("")
Rows = list[list[StyledCell]]
"""The headings first."""


def cells_of(rows: Sequence[Sequence[str]], looks: Iterable[Look | None] = ()) -> Rows:
    """looks: of the last cell of each row; none of any, if not given."""
    found = [[StyledCell(words) for words in row] for row in rows]
    for row, look in zip(found, looks, strict=False):
        row[-1] = StyledCell(row[-1].words, look)
    return found


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
        left = [[*row[:-1], EMPTY] for row in left]
    words = ", ".join(f"{rows[0][number].words} {cell.words}" for number, cell in shared.items())
    return wrapped(f"all rows: {words}", most).split("\n"), left


def _is_one_word(cells: Sequence[StyledCell]) -> bool:
    return len(set(cells)) == 1 and " " not in cells[0].words


def _width(rows: Rows) -> int:
    return sum(_widths(rows)) + len(GAP) * (len(rows[0]) - 1)


def _shared(rows: Rows) -> dict[int, StyledCell]:
    """Each column but the last that says the same in all of several rows, and what."""
    columns = list(zip(*rows[1:], strict=True))[:-1] if len(rows) > 2 else []
    return {number: cells[0] for number, cells in enumerate(columns) if cells[0].words and len(set(cells)) == 1}


def _only(columns: Iterable[int], rows: Rows) -> Rows:
    kept = list(columns)
    return [[row[number] for number in kept] for row in rows]


def _widths(rows: Rows) -> list[int]:
    return [max(len(cell.words) for cell in cells) for cells in zip(*rows, strict=True)]


def _beside(rows: Rows, most: int) -> list[str]:
    """The lines of all columns beside each other; none where they do not fit."""
    return [line for lines in _lines(rows, most) for line in lines]


def _lines(rows: Rows, most: int) -> list[list[str]]:
    """Of each row; the last column, of words, has what is left. None where that is too little."""
    *widths, last = _widths(rows)
    room = most - sum(widths) - len(GAP) * len(widths)
    words = [len(word) for row in rows for word in row[-1].words.split()]
    if room < min(last, max(NARROWEST_TEXT, *words, 0)):
        return []
    return [list(_row(row, widths, room)) for row in rows]


def _row(row: Sequence[StyledCell], widths: Sequence[int], room: int) -> Iterator[str]:
    last = row[-1]
    first, *others = parts(last.words, room)
    before = [cell.words.rjust(width) for cell, width in zip(row, widths, strict=False)]
    yield GAP.join([*before, painted(first, last.look)]).rstrip()
    indent = " " * (sum(widths) + len(GAP) * len(widths))
    yield from (painted(indent + other, last.look) for other in others)


def _named(rows: Rows, most: int) -> list[str]:
    """Each first cell above the others of its row; none where those do not fit, or the first are short."""
    if len(rows[0]) < 2 or _widths(rows)[0] <= LONGEST_BESIDE:
        return []
    others = _lines([row[1:] for row in rows], most - len(INDENT))
    return [
        line
        for row, lines in zip(rows, others, strict=False)
        for line in [*([wrapped(row[0].words, most)] if row[0].words else []), *(INDENT + each for each in lines)]
    ]


def _below(rows: Rows, most: int) -> list[str]:
    """As many columns beside each other as fit, the next ones below them, each time with the number of the row."""
    has_numbers = rows[0][0].words == ROW or len(rows) == 2
    numbered = (
        rows
        if has_numbers
        else [[StyledCell(ROW), *rows[0]], *([StyledCell(str(n)), *row] for n, row in enumerate(rows[1:], 1))]
    )
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
    return found if columns[-1] == len(rows[0]) - 1 else [[*row, EMPTY] for row in found]


def _block(columns: list[int], rows: Rows, most: int) -> list[str]:
    """Some of the columns, however long their words are."""
    beside = _beside(_taken(columns, rows), most) or _beside(_only(columns, rows), most)
    if beside:
        return beside
    found = _only(columns, rows)
    return [line for row in found for line in _row(row, _widths(found)[:-1], NARROWEST_TEXT)]


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
    widths = _narrowed(natural, most)
    for row in padded:
        cells = [_cell_lines(cell, each) for cell, each in zip(row, _room_of(row, widths, most), strict=True)]
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


def _narrowed(natural: Sequence[int], most: int) -> list[int]:
    """Column widths that fit ``most`` characters; the first column, of names, is narrowed last."""
    room = most - len(GAP) * (len(natural) - 1)
    names = min(natural[0], room - sum(min(each, NARROWEST) for each in natural[1:])) if natural else 0
    limit = max(natural, default=0)
    while limit > NARROWEST and names + sum(min(each, limit) for each in natural[1:]) > room:
        limit -= 1
    return [names, *(min(each, limit) for each in natural[1:])]


def _cell_lines(cell: str, most: int) -> list[str]:
    indent = " " * (len(cell) - len(cell.lstrip()))
    return textwrap.wrap(
        cell, max(most, NARROWEST), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ) or [""]


def tabulated(
    rows: Sequence[Sequence[str]], format_name: str, headings: Sequence[str] = (), *, is_list: bool = False
) -> str:
    """As wide as the cells are, all columns but the last right-aligned, of a list none. format_name: of tabulate."""
    from tabulate import tabulate

    before = len(rows[0] if rows else headings) - 1
    align = [*(["left" if is_list else "right"] * before), "left"]
    return tabulate(rows, headers=headings, tablefmt=format_name, colalign=align, disable_numparse=True)


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


def wrapped(text: str, most: int, command: Sequence[str] = ()) -> str:
    """Lines of at most ``most`` characters, unless a word is longer, each line of the text and what it goes on in.

    command: pieces of a command behind it, which goes on after a backslash, no piece of it in two lines.
    """
    if not command:
        return "\n".join(
            line if len(line) <= most else f"\n{INDENT}".join(parts(line, most - len(INDENT)))
            for line in text.split("\n")
        )
    pieces = [*text.split(), *command]
    whole = " ".join(pieces)
    return whole if len(whole) <= most else f" \\\n{INDENT}".join(_filled(pieces, most - len(INDENT) - len(" \\")))


def _filled(pieces: Iterable[str], most: int) -> Iterator[str]:
    line = ""
    for piece in pieces:
        if line and len(line) + 1 + len(piece) > most:
            yield line
            line = piece
        else:
            line = f"{line} {piece}" if line else piece
    yield line


def parts(text: str, most: int) -> list[str]:
    return textwrap.wrap(text, max(1, most), break_long_words=False, break_on_hyphens=False) or [""]


def said(words: str, command: Sequence[str] = ()) -> str:
    """In lines of the terminal that stdout is, each after the first one indented; in files and pipes as it is."""
    most = room()
    return wrapped(words, most, command) if most else " ".join([words, *command])


def painted(words: str, look: Look | Literal["fine", "untold"] | None) -> str:
    """As they are where stdout is no terminal, or TERM says that it knows no codes; NO_COLOR leaves what is bold."""
    if not words or look is None or not sys.stdout.isatty() or os.environ.get("TERM") in ("dumb", "unknown"):
        return words
    codes = [str(code) for code in STYLES[look] if code == _BOLD or not os.environ.get("NO_COLOR")]
    return f"\x1b[{';'.join(codes)}m{words}\x1b[0m" if codes else words
