"""A page with pictures, for people: one HTML file that asks for nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from primbench.report.document import Document

RANK = 5
WRITES = "one HTML page with pictures"


def write(document: Document) -> str:
    from primbench.report import html

    return html.write(document)
