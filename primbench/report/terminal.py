"""Words for a terminal: no wider than it is, and in colour where that is shown."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Literal

from primbench.report import plain

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


def paragraph(words: str, first: str = "", then: str | None = None) -> list[str]:
    """Lines of at most width() characters, unless a word is longer.

    first: what the first line begins with. then: what the others do; as much room, if None.
    """
    indent = " " * len(first) if then is None else then
    return textwrap.wrap(
        plain.printable(words), width(), initial_indent=first, subsequent_indent=indent,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
