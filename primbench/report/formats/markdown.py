"""Markdown, as GitHub renders it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.report.document import Table
from primbench.report.layout import tabulated
from primbench.report.plain import lines, markdown, paragraph

if TYPE_CHECKING:
    from primbench.report.document import Document, Note

RANK = 20
WRITES = "the tables as Markdown"
IS_RARE = True


def write(document: Document) -> str:
    """Its paragraphs, a line a note, and its tables."""
    return "\n".join(
        of_table(part) if isinstance(part, Table) else "".join(f"{_noted(note)}\n" for note in part)
        for part in document.blocks()
    )


def _noted(note: Note) -> str:
    if note.kind != "code":
        return paragraph(note.text)
    return "".join(f"    {line}\n" for line in lines(note.words).split("\n"))  # which no line of it can end


def of_table(table: Table) -> str:
    parts = [f"**{markdown(table.caption('  '))}**", *([_grid(table)] if table.columns else [])]
    return "\n\n".join([*parts, *(paragraph(each.text) for each in table.notes)]) + "\n"


def _grid(table: Table) -> str:
    headings, *rows = ([*map(markdown, row)] for row in (table.headings, *table.rows))
    return tabulated(rows, "pipe", headings, is_list=table.is_list)
