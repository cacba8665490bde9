"""Markdown, as GitHub renders it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from primbench.report.document import Document, Table

RANK = 20
WRITES = "the tables as Markdown"
IS_RARE = True


def write(document: Document) -> str:
    """Its paragraphs, a line a note, and its tables."""
    from primbench.report.document import Table
    from primbench.report.plain import paragraph

    return "\n".join(
        of_table(part) if isinstance(part, Table) else "".join(f"{paragraph(note.text)}\n" for note in part)
        for part in document.blocks()
    )


def of_table(table: Table) -> str:
    from primbench.report.layout import tabulated
    from primbench.report.plain import markdown, paragraph

    headings, *rows = ([*map(markdown, row)] for row in (table.headings, *table.rows))
    title = f"**{markdown(table.caption('  '))}**"
    return (
        "\n\n".join([title, tabulated(rows, "pipe", headings), *(paragraph(each.text) for each in table.notes)]) + "\n"
    )
