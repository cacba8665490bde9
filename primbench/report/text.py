"""A document for a terminal: as wide as that is, and in colour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from primbench.report import layout, plain
from primbench.report.document import Note, Table, VerdictCell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.report.document import Document, Look, Tone

_Sure = Literal["worse", "fine", "untold"]
_LOOKS: dict[Tone, _Sure] = {"worse": "worse", "fine": "fine", "open": "untold"}


def write(document: Document) -> str:
    """Its paragraphs, of a line or more a note, and its tables."""
    return "\n".join(of_table(part) if isinstance(part, Table) else _paragraph(part) for part in document.blocks())


def of_table(table: Table) -> str:
    """No wider than the terminal that stdout is; what is below the title of a list is indented."""
    title = table.caption("  ")
    parts = [_said(title, table.look) if title else "", _grid(table), *map(_noted, table.notes)]
    return "".join(f"{part}\n" for part in parts if part)


def _grid(table: Table) -> str:
    rows = [[*map(plain.printable, row)] for row in (table.headings, *table.rows)]
    if table.is_list:
        indent = layout.INDENT if table.title else ""
        lines = layout.grid(rows if any(rows[0]) else rows[1:], (layout.room() or layout.width()) - len(indent))
        return "\n".join(indent + line for line in lines)
    if most := layout.room():
        looks = [None, *map(_look, table.columns[-1].values)]
        return "\n".join(layout.fitted(layout.cells_of(rows, looks), most))
    return layout.tabulated(rows, "plain")  # which pads headings: a convolution's twenty would not fit a screen


def _look(value: object) -> Look | None:
    return value.look if isinstance(value, VerdictCell) else None


def _paragraph(notes: Sequence[Note]) -> str:
    return "".join(f"{_noted(note)}\n" for note in notes)


def _noted(note: Note) -> str:
    if note.kind == "code":
        return plain.lines(note.words)
    if note.kind == "marked":
        return _said(f"! {note.words}", "open", note.command)
    return _said(note.words, _LOOKS[note.tone] if note.tone else None, note.command)


def _said(words: str, look: Look | _Sure | None, command: Sequence[str] = ()) -> str:
    said = layout.said(plain.printable(words), [*map(plain.printable, command)])
    return "\n".join(layout.painted(line, look) for line in said.split("\n"))
