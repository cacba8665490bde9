"""Markdown, as GitHub renders it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from primbench.report.document import Document

RANK = 20
WRITES = "the tables as Markdown"
IS_RARE = True


def write(document: Document) -> str:
    from primbench.report import table

    return "\n".join(filter(None, map(table.markdown, document.parts())))
