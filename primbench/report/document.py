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
    """What passes or not where software is tested. group: what it is one of, such as an arm. words: what was found.

    open: it was skipped, or could not be told.
    """

    group: str
    name: str
    state: State
    words: str


NoteKind = Literal["plain", "warning", "marked", "code"]
"""Of a note: a warning has to be known before what follows, a marked one is about what has "(!)" beside it, and code is
lines as they are typed.
"""


@dataclass(frozen=True)
class Note:
    """A paragraph. tone: where it is an answer. cites_rows: whether its words name rows of a table by their numbers.

    command: what is to be typed, after the words: pieces of it, none of which is broken into lines.
    """

    words: str
    kind: NoteKind = "plain"
    tone: Tone | None = None
    cites_rows: bool = False
    command: Sequence[str] = ()

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
    """What a cell says of a verdict. sign: before the words; "" of what has no verdict, such as was not compared.

    look: None of what decided nothing.
    """

    words: str
    look: Look | None = None
    sign: str = ""

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
    """Columns of values, each of which writes its own; in text all but the last are right-aligned. notes follow it.

    title: what it is of. shared: what else is so of all rows. how: how to read it. is_list: of words, which stand left
    and go on in lines below, each row a name and what there is to say of it; headings may be "". look: of the title,
    where there is colour.
    """

    title: str
    columns: Sequence[Column]
    notes: Sequence[Note] = ()
    shared: Sequence[str] = ()
    how: str = ""
    is_list: bool = False
    look: Look | None = None

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
    """A picture: what it is called, what it shows, in words that do without it, and all numbers that are in it.

    is_folded: whether the numbers are shown when asked for only.
    """

    title: str
    words: str
    picture: Element
    numbers: Table
    is_folded: bool = True


@dataclass(frozen=True)
class Section:
    """title: "" of what needs none, as a paragraph. is_folded: whether its parts are shown when asked for only."""

    title: str
    parts: Sequence[Note | Figure | Table]
    is_folded: bool = False


@dataclass(frozen=True)
class Document:
    """What a command has to say. All but the answer is made when a format asks for it.

    title: what it is of. answer: what was found, in a sentence; None where the sections say it. beside: what is said
    with the answer. rows: flat, times in seconds, None where a value is unknown. checks: one a case. value: the whole,
    which msgspec can encode. page: what a page shows in place of the sections, with pictures; None where there is no
    more to show.
    """

    title: str
    answer: Note | None
    sections: Callable[[], Iterable[Section]]
    rows: Callable[[], Sequence[Mapping[str, object]]] = list
    checks: Callable[[], Sequence[Check]] = list
    value: object = None
    page: Callable[[], Document] | None = None
    beside: Sequence[Note] = ()

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
