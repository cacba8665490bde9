"""Verdicts by a sign and a colour, of which either is enough: ratios of times are above 1, below it, or like it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from primbench.compare.ratio import Verdict

Look = Literal["worse", "better", "alike", "open"]

SIGNS: dict[Verdict, str] = {
    "slower": ">",
    "faster": "<",
    "different-about-the-margin": "~",
    "different-but-small": "~",
    "equivalent": "=",
    "equivalent-at-full-speed": "=",
    "equivalent-in-these-runs": "=",
    "inconclusive": "?",
}
_LOOKS: dict[str, Look] = {">": "worse", "<": "better", "=": "alike", "~": "open", "?": "open"}
_BOLD, _RED, _GREEN, _YELLOW, _BLUE = 1, 31, 32, 33, 34  # ECMA-48, SGR
STYLES: dict[Look, tuple[int, ...]] = {
    "worse": (_BOLD, _RED),
    "better": (_BOLD, _BLUE),
    "alike": (_GREEN,),
    "open": (_YELLOW,),
}
FINE, UNTOLD = (_BOLD, _GREEN), (_BOLD, _YELLOW)


class StyledCell(str):
    """The words of a table's cell, and how they look where there is colour."""

    look: Look

    def __new__(cls, words: str, look: Look) -> Self:
        found = super().__new__(cls, words)
        found.look = look
        return found

    def __add__(self, more: str) -> Self:
        return type(self)(super().__add__(more), self.look)

    @classmethod
    def signed(cls, sign: str, words: str) -> Self:
        """Words behind one of SIGNS, which looks like it."""
        return cls(f"{sign} {words}", _LOOKS[sign])


def cell_in_colour(words: str, cell: str) -> str:
    """Words of a cell, which may be a line of several, as it looks on this terminal."""
    return painted(words, STYLES[cell.look]) if isinstance(cell, StyledCell) else words


def painted(words: str, style: Iterable[int]) -> str:
    """As they are where stdout is no terminal, or TERM says that it knows no codes; NO_COLOR leaves what is bold."""
    if not words or not sys.stdout.isatty() or os.environ.get("TERM") in ("dumb", "unknown"):
        return words
    codes = [str(code) for code in style if code == _BOLD or not os.environ.get("NO_COLOR")]
    return f"\x1b[{';'.join(codes)}m{words}\x1b[0m" if codes else words
