"""A document for a terminal: as wide as that is, and in colour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from primbench.report import layout, plain, terminal
from primbench.report.document import Note, Table, VerdictCell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.report.document import Document, Look, Tone

_LOOKS: dict[Tone, Literal["worse", "fine", "untold"]] = {"worse": "worse", "fine": "fine", "open": "untold"}


def write(document: Document) -> str:
    """Its paragraphs, of a line or more a note, and its tables."""
    return "\n".join(of_table(part) if isinstance(part, Table) else _paragraph(part) for part in document.blocks())


def of_table(table: Table) -> str:
    """No wider than the terminal that stdout is."""
    rows = [[*map(plain.printable, row)] for row in (table.headings, *table.rows)]
    if most := terminal.room():
        looks = [None, *map(_look, table.columns[-1].values)]
        grid = "\n".join(layout.fitted(layout.cells_of(rows, looks), most))
    else:  # tabulate pads what it knows to be headings: a convolution's twenty would not fit a screen.
        grid = layout.tabulated(rows, "plain")
    return "\n".join([_noted(Note(table.caption("  "))), grid, *map(_noted, table.notes)]) + "\n"


def _look(value: object) -> Look | None:
    return value.look if isinstance(value, VerdictCell) else None


def _paragraph(notes: Sequence[Note]) -> str:
    return "".join(f"{_noted(note)}\n" for note in notes)


def _noted(note: Note) -> str:
    mark = "! " if note.kind == "marked" else ""
    words = terminal.said(mark + plain.printable(note.words), [*map(plain.printable, note.command)])
    look = _LOOKS[note.tone] if note.tone else "open" if note.kind == "marked" else None
    return "\n".join(terminal.painted(line, look) for line in words.split("\n"))
