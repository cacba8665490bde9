"""Parquet, for data frames: the rows of the CSV, each column in its own type, of several types as texts."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from primbench.errors import OutputError
from primbench.results.summary import frame_of

if TYPE_CHECKING:
    from primbench.report.document import Document

RANK = 15
WRITES = "a Parquet file of the same rows (pandas and pyarrow)"
IS_RARE = True
NEEDS = ("pandas", "pyarrow")


def write(document: Document) -> bytes:
    """The document's rows; a cell is null where its value is unknown.

    Two primitives may have parameters of one name and of different types. Raises OutputError for a whole number that no
    column has room for.
    """
    out, frame = io.BytesIO(), frame_of(document.rows())
    for name in frame.columns:
        if frame[name].dropna().map(type).nunique() > 1:
            frame[name] = frame[name].map(str, na_action="ignore")
    try:
        frame.to_parquet(out, engine="pyarrow", index=False)
    except OverflowError:
        raise OutputError("a whole number is longer than Parquet's 64 bits: write CSV or JSON") from None
    return out.getvalue()
