"""What a finding comes to, before it is written in some format: rows, tables with words around them, and the whole.

A page is the same with pictures: sections of notes, tables and figures, whose numbers are values with a format.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from xml.etree.ElementTree import Element

    from primbench.report.columns import Column

State = Literal["passed", "failed", "open"]
Tone = Literal["worse", "fine", "open"]
"""Of an answer: something is worse, nothing is for certain, or not all is told."""


@dataclass(frozen=True)
class Check:
    """What passes or not where software is tested. group: what it is one of, such as an arm. words: what was found.

    open: it was skipped, or could not be told.
    """

    group: str
    name: str
    state: State
    words: str


NoteKind = Literal["plain", "warning", "marked", "command", "code"]
"""Of a note: a warning has to be known before what follows, a marked one is about what has "(!)" beside it, a command
is to be typed after its first words, and code is lines as they are typed.
"""


@dataclass(frozen=True)
class Note:
    """A paragraph. tone: where it is an answer. cites_rows: whether its words name rows of a table by their numbers."""

    words: str
    kind: NoteKind = "plain"
    tone: Tone | None = None
    cites_rows: bool = False

    @property
    def text(self) -> str:
        """The words, behind the mark that a marked note has."""
        return f"! {self.words}" if self.kind == "marked" else self.words


@dataclass(frozen=True)
class Table:
    """title: what all rows share. Cells are text; every column but the last is right-aligned. notes follow it."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    notes: list[Note]


@dataclass(frozen=True)
class Numbers:
    """A table whose cells are values; each column writes its own. notes follow it."""

    title: str
    columns: Sequence[Column]
    notes: Sequence[Note] = ()


@dataclass(frozen=True)
class Figure:
    """A picture: what it is called, what it shows, in words that do without it, and all numbers that are in it.

    is_folded: whether the numbers are shown when asked for only.
    """

    title: str
    words: str
    picture: Element
    numbers: Numbers
    is_folded: bool = True


@dataclass(frozen=True)
class Section:
    """is_folded: whether its parts are shown when asked for only."""

    title: str
    parts: Sequence[Note | Numbers | Figure | Table]
    is_folded: bool = False


@dataclass(frozen=True)
class Page:
    """title: what it is of. answer: in a sentence, what was found. tone: None where that is neither good nor bad."""

    title: str
    answer: str
    sections: Sequence[Section]
    tone: Tone | None = None


@dataclass(frozen=True)
class Document:
    """rows: flat, times in seconds, None where a value is unknown. parts: tables, and notes before and after them in
    paragraphs of a line each; the first is the answer where it is a note.

    checks: one a case. value: the whole, which msgspec can encode. All others are made when a format asks for them.
    page: None where there is no more to show than parts.
    """

    rows: Callable[[], Sequence[Mapping[str, object]]]
    parts: Callable[[], Iterable[Table | Sequence[Note]]]
    checks: Callable[[], Sequence[Check]]
    value: object
    page: Callable[[], Page] | None = None
