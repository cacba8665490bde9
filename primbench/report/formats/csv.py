"""Comma-separated values, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

from primbench.report.plain import lines

if TYPE_CHECKING:
    from primbench.report.document import Document

RANK = 10
WRITES = "a flat CSV, times in seconds"

_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the last four: full-width forms of the first


def write(document: Document) -> str:
    """Its rows, with all columns that any row has, empty where a row has no value; no text is a formula."""
    rows = document.rows()
    columns = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(_cell, columns))
    writer.writerows([_cell(row.get(name)) for name in columns] for row in rows)
    return out.getvalue()


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    shown = lines(value)
    return f"'{shown}" if shown.lstrip().startswith(_FORMULA) and not _NUMBER.fullmatch(shown) else shown
