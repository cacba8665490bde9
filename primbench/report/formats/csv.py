"""Comma-separated values, for spreadsheets and data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from primbench.report.document import Document

RANK = 10
WRITES = "a flat CSV, times in seconds"


def write(document: Document) -> str:
    """The document's rows as CSV; a cell is empty where its value is unknown."""
    from primbench.report.plain import csv_of

    return csv_of(document.rows())
