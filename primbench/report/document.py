"""What a command has to say: sections of notes, tables and figures, for people, and rows and checks for programs.

Numbers are values with a format wherever they stand.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from primbench.units import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from xml.etree.ElementTree import Element

State = Literal["passed", "failed", "open"]
Tone = Literal["worse", "fine", "open"]
"""Of an answer: something is worse, nothing is for certain, or not all is told."""


@dataclass(frozen=True)
class Check:
    """What passes or not, where software is tested."""

    group: str
    """What it is one of, such as an arm."""
    name: str
    """What is checked: the case."""
    state: State
    """What came of it; "open" where it was skipped, or could not be told."""
    words: str
    """What was found."""


NoteKind = Literal["plain", "warning", "marked", "code"]
"""Of a note: a warning has to be known before what follows, a marked one is about what has "(!)" beside it, and code is
lines as they are typed.
"""


@dataclass(frozen=True)
class Note:
    """A paragraph."""

    words: str
    """What it says."""
    kind: NoteKind = "plain"
    """How it is set off from others."""
    tone: Tone | None = None
    """How the answer turned out, where the note is one; None of other notes."""
    cites_rows: bool = False
    """Whether its words name rows of a table by their numbers."""
    command: Sequence[str] = ()
    """What is to be typed, after the words: pieces of it, none of which is broken into lines."""

    @property
    def text(self) -> str:
        """The words, behind the mark that a marked note has, and the command."""
        return " ".join([*(["!"] if self.kind == "marked" else []), self.words, *self.command])


def typed(words: Sequence[str]) -> list[str]:
    """Words of a command as a shell is given them, for a note."""
    return [*map(shlex.quote, words)]


Look = Literal["worse", "better", "alike", "open"]
"""Of a verdict: where there is colour, it has that of its look."""


@dataclass(frozen=True)
class VerdictCell:
    """What a cell says of a verdict."""

    words: str
    """The verdict, or why there is none."""
    look: Look | None = None
    """Which colour it has; None of what decided nothing."""
    sign: str = ""
    """Stands before the words; "" where there is no verdict, as of a case that was not compared."""

    def with_words(self, more: str) -> VerdictCell:
        """The same with more words behind it."""
        return VerdictCell(self.words + more, self.look, self.sign)

    def __str__(self) -> str:
        return f"{self.sign} {self.words}" if self.sign else self.words


@dataclass(frozen=True)
class Column:
    """What stands below a heading, a value a row, None where it is unknown; cells() makes text of them."""

    heading: str
    values: Sequence[object]
    format: Callable[[Any], str] = str
    """How a value is written, where it is known."""

    @property
    def is_empty(self) -> bool:
        return all(value is None for value in self.values)

    def cells(self) -> list[str]:
        return [UNKNOWN if value is None else self.format(value) for value in self.values]


@dataclass(frozen=True)
class Table:
    """Columns of values, each of which writes its own; in text all but the last are right-aligned."""

    title: str
    """What it is of."""
    columns: Sequence[Column]
    """From left to right; all have as many values."""
    notes: Sequence[Note] = ()
    """What follows it."""
    shared: Sequence[str] = ()
    """What else is so of all rows."""
    how: str = ""
    """How to read it."""
    is_list: bool = False
    """Whether it is a list of words, which stand left and go on in lines below, each row a name and what there is to
    say of it. Headings of a list may be "".
    """
    look: Look | None = None
    """Colour of the title, where there is colour."""

    @classmethod
    def of_rows(
        cls,
        title: str,
        headings: Sequence[str],
        rows: Sequence[Sequence[object]],
        notes: Sequence[Note] = (),
        *,
        how: str = "",
        formats: Mapping[str, Callable[[Any], str]] | None = None,
    ) -> Table:
        """formats: of the columns whose values are no words, by their headings."""
        values = zip(*rows, strict=True) if rows else [()] * len(headings)
        named = zip(headings, values, strict=True)
        columns = [Column(heading, each, (formats or {}).get(heading, str)) for heading, each in named]
        return cls(title, columns, notes, how=how)

    @classmethod
    def listed(
        cls,
        title: str,
        rows: Iterable[Sequence[str]],
        headings: Sequence[str] = ("", ""),
        notes: Sequence[Note] = (),
        look: Look | None = None,
    ) -> Table:
        """A list; a row may be shorter than the headings, and columns that are empty are left out."""
        padded = [[*row, *[""] * (len(headings) - len(row))] for row in rows]
        columns = [Column(heading, [row[n] for row in padded]) for n, heading in enumerate(headings)]
        return cls(title, [each for each in columns if any(each.values)], notes, is_list=True, look=look)

    @property
    def headings(self) -> list[str]:
        return [column.heading for column in self.columns]

    @property
    def rows(self) -> list[list[str]]:
        """The cells of each row in words."""
        return [list(row) for row in zip(*(column.cells() for column in self.columns), strict=True)]

    def caption(self, between: str) -> str:
        """between: what stands between the title and what all rows share."""
        told = between.join([*filter(None, [self.title]), *self.shared])
        return f"{told}  ({self.how})" if self.how else told


@dataclass(frozen=True)
class Figure:
    """A picture."""

    title: str
    """What it is called."""
    words: str
    """What it shows, for who does not see it, too."""
    picture: Element
    """The picture itself, in SVG."""
    numbers: Table
    """All numbers that are in it."""
    is_folded: bool = True
    """Whether the numbers are shown when asked for only."""


@dataclass(frozen=True)
class Section:
    """A part of a document."""

    title: str
    """What it is of; "" where it needs none, as a paragraph."""
    parts: Sequence[Note | Figure | Table]
    """What it has, in order."""
    is_folded: bool = False
    """Whether its parts are shown when asked for only."""


@dataclass(frozen=True)
class Document:
    """What a command has to say. All but the answer is made when a format asks for it."""

    title: str
    """What it is of."""
    answer: Note | None
    """What was found, in a sentence; None where the sections say it."""
    sections: Callable[[], Iterable[Section]]
    """Makes what follows the answer."""
    rows: Callable[[], Sequence[Mapping[str, object]]] = list
    """Makes what tables of other programs take: flat rows, times in seconds, None where a value is unknown."""
    checks: Callable[[], Sequence[Check]] = list
    """Makes one check a case, for what tests software."""
    value: object = None
    """The whole, which msgspec can encode."""
    page: Callable[[], Document] | None = None
    """Makes what a page shows in place of the sections, with pictures; None where there is no more to show."""
    beside: Sequence[Note] = ()
    """What is said with the answer."""

    def blocks(self) -> Iterator[Table | list[Note]]:
        """Tables, those of figures included, and the paragraphs before and after them, none of which is empty."""
        yield from _blocks([*([self.answer] if self.answer else []), *self.beside])
        for section in self.sections():
            yield from _blocks([*([Note(section.title)] if section.title else []), *section.parts])


def _blocks(parts: Sequence[Note | Figure | Table]) -> Iterator[Table | list[Note]]:
    paragraph: list[Note] = []
    for part in parts:
        if isinstance(part, Note):
            paragraph.append(part)
            continue
        if paragraph:
            yield paragraph
        paragraph = []
        yield part.numbers if isinstance(part, Figure) else part
    if paragraph:
        yield paragraph
